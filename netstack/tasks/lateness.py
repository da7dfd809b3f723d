"""How far a task is behind the clock on the wall, where what its process does takes real time.

In one process, virtual time says what has been done, and the wall what should have been. Over several ones
there is no virtual time. So each task is given one of its own, which goes on by what the cost model says of
the work that it has done; while it waits, what it is behind is made up for::

    work of 10 ms, done in 10 ms         behind by 0
    work of 10 ms, done in 14 ms         behind by 4 ms: its process was too slow, or busy with other tasks
    waits for 3 ms for input             behind by 1 ms
    waits for 9 ms for its outputs       behind by 0: it is never ahead

Where processes hold each other up, all of them wait, and nobody catches up. So a task is behind by at least
as much as its process was held up, unless it has worked off all of the time, or has as long waited for its
outputs: then it was early enough.
"""

from __future__ import annotations

from math import isnan, nan

from ..scenarios.config import CostModel
from .time_account import TimeAccount


class Lateness:
    """How far one task is behind, in seconds, if its work takes what `costs` say; 0 until the second look."""

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
        """At `now` nothing is in progress; `work_s` of work and so many snapshots have been done so far."""
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
        """How far the task was behind at the last look, if its process has been held up for so long."""
        return max(self._behind_s, min(self._unused_s, held_up_s))
