"""State: counting a record by key, and snapshots.

Expected on one core: about 1 microsecond a record; marking 100,000 keys for a snapshot well below a
millisecond, and serialising them below a second. A record that is counted while a snapshot is open copies its
entry once, and costs a little more.
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
    """A record counted by key while so many snapshots are open."""
    state = _state()
    opened = [state.snapshot(number) for number in range(snapshots)]

    def step() -> int:
        _count(state.keyed, RECORDS)
        return len(opened)  # a reference that keeps them open

    measure.steps(step, operations=RECORDS)


def test_stateSnapshotSynchronous(measure: Measure) -> None:
    """A snapshot of 100,000 keys, taken and dropped."""
    state = _state()
    measure.steps(lambda: state.snapshot(1).release())


def test_stateSnapshotAsynchronous(measure: Measure) -> None:
    """A snapshot of 100,000 keys, taken and serialised."""
    state = _state()
    measure.steps(lambda: state.snapshot(1).handles(_write, 0))
