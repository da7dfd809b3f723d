"""The short form of `tests.digests`: some commands and storms compute the same results as before."""

import json

import pytest

from tests.digests import SHORT, STORED, digest, machine_digest, text_of

pytestmark = pytest.mark.skipif(
    json.loads(STORED.read_text())["machine"] != machine_digest(),
    reason="RESULTS NOT COMPARED: the math library of this machine rounds otherwise than that of "
    "tests/data/digests.json. Before a change run 'python -m tests.digests --texts before', after it "
    "'python -m tests.digests --texts after', and compare the folders with 'diff -r'.",
)


@pytest.mark.parametrize("name", SHORT)
def test_results_are_what_they_were(name: str) -> None:
    text = text_of(name)
    assert digest(text) == json.loads(STORED.read_text())["digests"][name], text[-2000:]
