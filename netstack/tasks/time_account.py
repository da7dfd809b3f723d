"""The time of a subtask: what it spends it on, and how far it is behind where its work takes real time.

In one process, virtual time says what has been done, and the wall clock what should have been. Over several
processes there is no virtual time. So each task has one of its own, which advances by the cost of its work
according to the cost model; while it waits, it makes up for its lateness::

    work of 10 ms, done in 10 ms         behind by 0
    work of 10 ms, done in 14 ms         behind by 4 ms: its process was too slow, or busy with other tasks
    waits for 3 ms for input             behind by 1 ms
    waits for 9 ms for its outputs       behind by 0: it is never ahead

Where processes hold each other up, all of them wait, and none catches up. So a task is behind by at least
as much as its process was held up, unless it has worked all of the time, or has waited as long for its
outputs: then it was early enough.
"""

from __future__ import annotations

from enum import Enum
from math import isnan, nan

from ..scenarios.config import CostModel


class Waiting(Enum):
    """Reason for which a subtask waits."""

    NOTHING = "nothing"
    INPUT = "input"
    OUTPUT = "output"
    CONSUMERS = "consumers"
    TIME = "time"


class TimeAccount:
    """Idle and back-pressured time of a subtask, in seconds; the rest of its time it was busy.

    Its time is that from `begin` to `end`: a subtask that waits for others to be built is not busy, nor is
    one that has ended while others of the job go on.
    """

    __slots__ = ("_began_at", "_ended_at", "_since", "_state", "backpressured", "idle")

    def __init__(self) -> None:
        self.idle = 0.0
        self.backpressured = 0.0
        self._state = Waiting.NOTHING
        self._since = 0.0
        self._began_at: float | None = None
        self._ended_at: float | None = None

    def begin(self, now: float) -> None:
        """The subtask begins to work."""
        self._since = self._began_at = now

    def end(self, now: float) -> None:
        """The subtask has ended, and does not wait for anything."""
        self._ended_at = now

    def enter(self, state: Waiting, now: float) -> None:
        """The subtask begins to wait for `state`, or to work again."""
        self.settle(now)
        self._state = state

    def settle(self, now: float) -> None:
        """Book the time until `now`."""
        elapsed = now - self._since
        self._since = now
        if self._state is Waiting.OUTPUT:
            self.backpressured += elapsed
        elif self._state is not Waiting.NOTHING:
            self.idle += elapsed

    def until(self, now: float) -> tuple[float, float, float]:
        """Return how long it was busy, idle and back-pressured until `now`, in seconds; books nothing."""
        if self._began_at is None:
            return 0.0, 0.0, 0.0
        elapsed = now - self._since
        idle, backpressured = self.idle, self.backpressured
        if self._state is Waiting.OUTPUT:
            backpressured += elapsed
        elif self._state is not Waiting.NOTHING:
            idle += elapsed
        last = now if self._ended_at is None else self._ended_at
        return last - self._began_at - idle - backpressured, idle, backpressured


class Lateness:
    """Lateness of one task, in seconds, if its work takes what `costs` say; 0 until the second look."""

    __slots__ = ("_behind_s", "_costs", "_least_s", "_unused_s", "_unused_s_at_first")

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs
        self._behind_s = self._unused_s = 0.0
        self._least_s = self._unused_s_at_first = nan

    def of_reading(self, buffers: int, records: int) -> float:
        """The seconds that it takes to read so much, without service."""
        costs = self._costs
        low, high = costs.subtask_factor
        return buffers * costs.consumer_buffer_s * (low + high) / 2 + records * costs.consumer_record_s

    def of_emitting(self, records: int, record_s: float | None) -> float:
        """The seconds that a source takes for so many records, of `record_s` each if it says so itself."""
        return records * (self._costs.source_record_s if record_s is None else record_s)

    def look(self, now: float, times: TimeAccount, work_s: float, snapshots: int) -> None:
        """Begin at `now` with nothing in progress, `work_s` of work and so many snapshots done."""
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
        """Return the lateness at the last look, if the process of the task was held up for so long."""
        return max(self._behind_s, min(self._unused_s, held_up_s))
