"""The time of a subtask: busy, idle and back-pressured time, and its lateness in real time.

A task is late if its work takes longer than its cost in the cost model. In one process, all tasks share one
virtual time, and the lateness is its lag behind the wall clock. Over several processes, each task has its own
virtual time, which advances by the cost of its work. While the task waits, its virtual time catches up::

    work of 10 ms, done in 10 ms         lateness 0
    work of 10 ms, done in 14 ms         lateness 4 ms: its process was too slow, or busy with other tasks
    waits for 3 ms for input             lateness 1 ms
    waits for 9 ms for its outputs       lateness 0: a task is never ahead

If processes delay each other, a task also waits for delayed tasks, and this must not count as catching up. So
the lateness of a task is at least the shorter of two times: the time for which its process was delayed, and
the time in which the task neither worked nor waited for its outputs.
"""

from __future__ import annotations

from enum import Enum
from math import isnan, nan
from typing import Final

from ..scenarios.costs import CostModel


class Waiting(Enum):
    """Reason why a subtask waits."""

    NOTHING = "nothing"
    INPUT = "input"
    OUTPUT = "output"
    CONSUMERS = "consumers"
    TIME = "time"


_NOTHING: Final = Waiting.NOTHING  # compiled code need not look up what is final
_OUTPUT: Final = Waiting.OUTPUT


class TimeAccount:
    """Idle and back-pressured time of a subtask, in seconds; in the remaining time it was busy.

    `state` is the current reason to wait. Only the time from `begin` to `end` counts: a subtask is not busy
    while it waits for others to be built, nor after it has ended.
    """

    __slots__ = ("_began_at", "_ended_at", "_since", "backpressured", "idle", "state")

    def __init__(self) -> None:
        self.idle = 0.0
        self.backpressured = 0.0
        self.state = _NOTHING
        self._since = 0.0
        self._began_at: float | None = None
        self._ended_at: float | None = None

    def begin(self, now: float) -> None:
        """Start the account when the subtask begins."""
        self._since = self._began_at = now

    def end(self, now: float) -> None:
        """Stop the account when the subtask has ended."""
        self._ended_at = now

    def enter(self, state: Waiting, now: float) -> None:
        """Record that the subtask begins to wait for `state`, or to work again."""
        self.add_until(now)
        self.state = state

    def add_until(self, now: float) -> None:
        """Add the time until `now` to the current state."""
        elapsed = now - self._since
        self._since = now
        if self.state is _OUTPUT:
            self.backpressured += elapsed
        elif self.state is not _NOTHING:
            self.idle += elapsed

    def until(self, now: float) -> tuple[float, float, float]:
        """Return busy, idle and back-pressured time until `now`, in seconds; changes nothing."""
        if self._began_at is None:
            return 0.0, 0.0, 0.0
        elapsed = now - self._since
        idle, backpressured = self.idle, self.backpressured
        if self.state is _OUTPUT:
            backpressured += elapsed
        elif self.state is not _NOTHING:
            idle += elapsed
        last = now if self._ended_at is None else self._ended_at
        return last - self._began_at - idle - backpressured, idle, backpressured


class Lateness:
    """Lateness of a task in seconds, given the `costs` of its work; 0 until the second update."""

    __slots__ = ("_behind_s", "_costs", "_least_s", "_unused_s", "_unused_s_at_first")

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs
        self._behind_s = self._unused_s = 0.0
        self._least_s = self._unused_s_at_first = nan

    def of_reading(self, buffers: int, records: int) -> float:
        """Return the cost of reading this number of buffers and records in seconds, without their service
        time.
        """
        costs = self._costs
        low, high = costs.subtask_factor
        return buffers * costs.consumer_buffer_s * (low + high) / 2 + records * costs.consumer_record_s

    def of_emitting(self, records: int, record_s: float | None) -> float:
        """Return the cost of emitting this number of records in seconds; `record_s` overrides the cost
        model's cost.
        """
        return records * (self._costs.source_record_s if record_s is None else record_s)

    def measure(self, now: float, times: TimeAccount, work_s: float, snapshots: int) -> None:
        """Update the lateness at `now`, after `work_s` seconds of work and `snapshots` snapshots; no record
        is in progress.
        """
        low_s, high_s = self._costs.sync_s
        not_done_s = now - work_s - snapshots * (low_s + high_s) / 2
        lost_s = not_done_s - 2 * (times.idle + times.backpressured)
        unused_s = not_done_s - 2 * times.backpressured
        if isnan(self._least_s):
            self._least_s, self._unused_s_at_first = lost_s, unused_s
        self._least_s = min(self._least_s, lost_s)
        self._behind_s = lost_s - self._least_s
        self._unused_s = unused_s - self._unused_s_at_first

    def behind_s(self, held_up_s: float) -> float:
        """Return the lateness at the last update, if the process was delayed for `held_up_s` in total."""
        return max(self._behind_s, min(self._unused_s, held_up_s))
