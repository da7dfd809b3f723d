"""The short form of `tests.digests`: what a handful of commands and storms compute is what it was."""

import json

import pytest

from tests import digests
from tests.digests import SHORT, STORED, digest, machine_digest, text_of

pytestmark = pytest.mark.skipif(
    json.loads(STORED.read_text())["machine"] != machine_digest(),
    reason="this machine's math library rounds otherwise than that of the stored digests",
)


@pytest.mark.parametrize("name", SHORT)
def test_results_are_what_they_were(name: str) -> None:
    text = text_of(name)
    assert digest(text) == json.loads(STORED.read_text())["digests"][name], text[-2000:]


def test_another_result_has_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "run tests/data/flink-reference/1x1_5MBs_off.toml seed 1"
    monkeypatch.setattr(digests, "_output_of", lambda *arguments: '{"work": {"records": 1}}')
    assert digest(text_of(name)) != json.loads(STORED.read_text())["digests"][name]
