"""Door of change packages."""

from __future__ import annotations

import io
import json
from functools import cache

import msgspec
from hypothesis import strategies as st
from rich.console import Console

from integration.advise.tune.change_package import files_of, read_package
from integration.advise.tune.verification import verify_change
from integration.flink import Imported
from integration.show.terminal.verification import print_verification
from netstack import InputError
from tests.integration.advise.tune.changed_job import AFTER, cluster, package, read

from .damage import as_json, documents, door, refused, words_in, written


@cache
def _after() -> Imported:
    """Read the job after the change."""
    return read(cluster(AFTER, durations_ms=350.0))


def _packages() -> st.SearchStrategy[bytes]:
    document = json.loads(msgspec.json.encode(package()))
    return as_json(documents([document], words_in(document)))


@door(st.deferred(_packages), 0.5)
def test_packages(data: bytes) -> bool:
    """A package is written again as it was read, and verified and printed, or is refused."""
    try:
        found = read_package(written("change.json", data))
        verification = verify_change(found, _after())
    except InputError as error:
        return refused(error)
    document = files_of(found, msgspec.json.encode(found))["change.json"]
    assert read_package(written("again.json", document)) == found
    msgspec.json.encode(verification)
    print_verification(verification, Console(file=io.StringIO(), width=80))
    return True
