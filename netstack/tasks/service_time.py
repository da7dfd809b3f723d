"""The service time of records: sleeps or work that take the time given by a cost.

Costs add to a debt. When the debt reaches a millisecond, the task sleeps for the whole debt. The operating
system wakes it a little late; this oversleep is subtracted from the next debt::

    cost 0.4 ms:   record 1   record 2   record 3 | sleep 1.2 ms + over-sleep | record 4 ...
    debt           0.4        0.8        1.2      | -over-sleep               | 0.4 - over-sleep

This is the mode `throttle`. In the mode `exact` the task sleeps for each record separately. In the mode
`burn` it works instead of sleeping, on a core that it may have to share.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from ..engine.cores import Cores
from ..engine.randomness import Draws
from ..scenarios.costs import CostModel
from .course import Course

SLEEP_THRESHOLD_S: Final = 0.001
"""Debt in seconds below which the task does not sleep."""

_ROUNDING: Final = 1e-9


class Pauses(NamedTuple):
    """The sleeps during the service of some records: the end of each sleep, and the number of records
    finished by then. `ends_early`: whether the last records need no sleep, so that the last end is not one.
    """

    ends: list[float]
    counts: list[int]
    ends_early: bool

    def records_by(self, now: float) -> int:
        """Return the number of records that are finished at the time `now`."""
        passed = bisect_right(self.ends, now)
        return self.counts[passed - 1] if passed else 0

    def end_within(self, now: float) -> float | None:
        """Return the end of the current sleep; None in the last sleep, which ends with the last record."""
        place = bisect_left(self.ends, now)
        return self.ends[place] if place < len(self.ends) - 1 else None

    def put_off(self, now: float, duration: float) -> None:
        """Delay the end of the current and later sleeps by `duration`."""
        for place in range(bisect_right(self.ends, now), len(self.ends)):
            self.ends[place] += duration


def _records_until_sleep(debt: float, cost: float) -> int:
    """Return the number of records of a cost after which a debt requires a sleep, at least 1."""
    records = (SLEEP_THRESHOLD_S - debt) / cost - _ROUNDING
    rounded = int(records)  # not `math.ceil`, a call that costs more than the rest of the loop when compiled
    if rounded < records:
        rounded += 1
    return rounded if rounded > 1 else 1


class Throttle:
    """The service time that a subtask owes for the records it has read, in seconds.

    `charged_s` is the cost of all records so far.

    `steps` are (time, cost) pairs in ascending order, with costs in seconds per record; the first one is
    valid from the start. `course` has the factors of the costs over time; None: always 1. `mode` is one of
    `SERVICE_MODES`; `cores` are the cores for the mode `burn`.
    """

    def __init__(
        self,
        steps: tuple[tuple[float, float], ...],
        costs: CostModel,
        chance: Draws,
        *,
        course: Course | None = None,
        mode: str = "throttle",
        cores: Cores | None = None,
    ) -> None:
        self.cores = cores
        self._course = course
        self.follow(steps)
        self._sleeps = mode == "throttle"
        self._oversleep = costs.oversleep_s if self._sleeps else 0.0
        self._after_sleep = costs.after_sleep_s if self._sleeps else 0.0
        self._chance = chance
        self._exact = mode == "exact"
        self._debt = 0.0
        self.charged_s = 0.0

    def follow(self, steps: tuple[tuple[float, float], ...]) -> None:
        """Use the record costs in `steps` from now on."""
        self._times = [time for time, _ in steps]
        self._costs = [cost for _, cost in steps]

    def charge(self, records: int, now: float) -> tuple[int, float]:
        """Charge up to `records` records at time `now`, but stop at the first record that requires a sleep.

        Returns the number of records charged, and the sleep after the last of them in seconds (0: no sleep).
        """
        costs = self._costs
        cost = costs[0] if len(costs) == 1 else costs[max(0, bisect_right(self._times, now) - 1)]
        if self._course is not None:
            cost *= self._course.factor_at(now)
        paid, pause = records, 0.0
        if self._exact and cost > 0:
            paid, pause = 1, cost
        elif cost > 0:
            debt = self._debt
            due = _records_until_sleep(debt, cost)
            if due > records:
                self._debt = debt + records * cost
            else:
                late = self._oversleep * (0.5 + self._chance.draw())
                self._debt = -late
                paid, pause = due, debt + due * cost + late + self._after_sleep
        self.charged_s += paid * cost
        return paid, pause

    def overslept(self, late: float) -> None:
        """Account for the `late` seconds by which a real sleep was longer than charged.

        In the mode `throttle` they are subtracted from the debt. On shared cores they include the time for
        which the task waited for other tasks, and count as cost.
        """
        if late > 0 and self._sleeps:
            self._debt -= late
        elif late > 0 and self.cores is not None:
            self.charged_s += late

    def charge_all(self, records: int, start: float, overhead: float) -> Pauses:
        """Charge `records` records one after the other, each with additional `overhead` seconds.

        The last pause always ends with the last record, even if its length is 0.
        """
        is_even = len(self._costs) == 1 and self._course is None
        if not self._exact and is_even and self._costs[0] > 0:
            return self._charge_evenly(records, start, overhead, self._costs[0])
        ends: list[float] = []
        counts: list[int] = []
        now, done, pause = start, 0, 0.0
        while done < records:
            count, pause = self.charge(records - done, now)
            done += count
            now += count * overhead + pause
            ends.append(now)
            counts.append(done)
        return Pauses(ends, counts, pause == 0)

    def _charge_evenly(self, records: int, now: float, overhead: float, cost: float) -> Pauses:
        """Return the result of `charge_all` for records of equal cost, faster since it makes no call per
        sleep.
        """
        ends: list[float] = []
        counts: list[int] = []
        chance, oversleep, after_sleep = self._chance, self._oversleep, self._after_sleep
        debt, done = self._debt, 0
        self.charged_s += records * cost
        while True:
            due = _records_until_sleep(debt, cost)
            if due > records - done:
                break
            late = oversleep * (0.5 + chance.draw())
            done += due
            now += debt + due * (cost + overhead) + late + after_sleep
            debt = -late
            ends.append(now)
            counts.append(done)
        left = records - done
        self._debt = debt + left * cost
        if left:
            ends.append(now + left * overhead)
            counts.append(records)
        return Pauses(ends, counts, left > 0)
