"""State: what a record costs that is counted by key, and a snapshot while that goes on.

Expected on one core: about 1 microsecond a record; marking 100,000 keys for a snapshot well below a
millisecond, and serialising them below a second. A record that is counted while a snapshot is open copies its
entry once, and costs a little more.
"""

from __future__ import annotations

import operator
from functools import partial

from netstack import KeyedStateBackend, StoredFile, SubtaskState

from .micro import Work, micro_case

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


def counting(snapshots: int) -> Work:
    """Records that are counted by key, while so many snapshots are open."""
    state = _state()
    opened = [state.snapshot(number) for number in range(snapshots)]

    def step() -> int:
        _count(state.keyed, RECORDS)
        return len(opened)  # and so they stay open

    return Work(step, RECORDS)


def synchronous_part() -> Work:
    """A snapshot of 100,000 keys, taken and dropped."""
    state = _state()
    return Work(lambda: state.snapshot(1).release())


def asynchronous_part() -> Work:
    """A snapshot of 100,000 keys, as bytes; a step returns its handles."""
    state = _state()
    return Work(lambda: state.snapshot(1).handles(_write, 0))


CASES = (
    micro_case(
        "stateCount",
        "a record counted by key",
        {"alone": partial(counting, 0), "during a snapshot": partial(counting, 1)},
        copies=False,
    ),
    micro_case(
        "stateSnapshot",
        "a snapshot of 100,000 keys",
        {"synchronous": synchronous_part, "asynchronous": asynchronous_part},
        copies=False,
    ),
)
