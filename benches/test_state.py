"""State: what a record costs that is counted by key, and a snapshot while that goes on.

Expected on one core: about 1 microsecond a record; marking 100,000 keys for a snapshot well below a
millisecond, and serialising them below a second. A record that is counted while a snapshot is open copies
its entry once, and costs a little more.
"""

from __future__ import annotations

import operator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from netstack import KeyedStateBackend, StoredFile, SubtaskState

GROUPS = 128
KEYS = [b"key %d" % number for number in range(100_000)]
RECORDS = 10_000


def _count(state: KeyedStateBackend, records: int) -> None:
    counts = state.reducing("count", operator.add)
    for number in range(records):
        state.set_current_key(KEYS[number], number % GROUPS)
        counts.add(1)


def _state(keys: int) -> SubtaskState:
    state = SubtaskState("count", 0, 1, GROUPS)
    _count(state.keyed, keys)
    return state


def _write(name: str, data: bytes, *, shared: bool = False) -> StoredFile:
    return StoredFile(path=name, size=len(data), checksum="", shared=shared)


@pytest.mark.parametrize("snapshots", [0, 1], ids=["alone", "during_a_snapshot"])
def test_count_by_key(benchmark: BenchmarkFixture, snapshots: int) -> None:
    state = _state(len(KEYS))
    opened = [state.snapshot(number) for number in range(snapshots)]
    benchmark(_count, state.keyed, RECORDS)
    benchmark.extra_info["records"] = RECORDS
    for snapshot in opened:
        snapshot.release()


def test_synchronous_part(benchmark: BenchmarkFixture) -> None:
    state = _state(len(KEYS))
    benchmark(lambda: state.snapshot(1).release())


def test_asynchronous_part(benchmark: BenchmarkFixture) -> None:
    state = _state(len(KEYS))
    benchmark(lambda: state.snapshot(1).handles(_write, 0))
