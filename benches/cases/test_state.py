"""State: counting a record by key, and snapshots.

Expected on one core: counting a record takes about 1 microsecond. Marking 100,000 keys for a snapshot takes
well below a millisecond, and serialising them takes less than a second. Counting a record while a snapshot is
open takes a little longer, because the record's entry is copied once.
"""

from __future__ import annotations

import operator

import pytest

from netstack import KeyedStateBackend, StoredFile, SubtaskState

from ..harness import Measure

GROUPS = 128
KEYS = [b"key %d" % number for number in range(100_000)]
RECORDS = 10_000


def _count(state: KeyedStateBackend, records: int) -> None:
    counts = state.reducing("count", operator.add)
    for number in range(records):
        state.set_current_key(KEYS[number], number % GROUPS)
        counts.add(1)


def _state() -> SubtaskState:
    state = SubtaskState("count", 0, 1, GROUPS)
    _count(state.keyed, len(KEYS))
    return state


def _write(name: str, data: bytes, *, shared: bool = False) -> StoredFile:
    return StoredFile(path=name, size=len(data), checksum="", shared=shared)


@pytest.mark.parametrize("snapshots", [0, 1])
def test_stateCount(measure: Measure, snapshots: int) -> None:
    """Measure counting a record by key while this number of snapshots is open."""
    state = _state()
    opened = [state.snapshot(number) for number in range(snapshots)]

    def step() -> int:
        _count(state.keyed, RECORDS)
        return len(opened)  # a reference that keeps them open

    measure.steps(step, operations=RECORDS)


def test_stateSnapshotSynchronous(measure: Measure) -> None:
    """Measure taking a snapshot of 100,000 keys, without serialising it."""
    state = _state()
    measure.steps(lambda: state.snapshot(1).release())


def test_stateSnapshotAsynchronous(measure: Measure) -> None:
    """Measure taking and serialising a snapshot of 100,000 keys."""
    state = _state()
    measure.steps(lambda: state.snapshot(1).handles(_write, 0))
