"""The course of a cost or of a rate: factors that follow one another and repeat.

::

    factor 1.6      ________          ________
    factor 0.4  ____        |_________        |____ ...
                10 s  8 s     10 s      8 s
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate


class Course:
    """Factors over time, each for some seconds; after the last one the first one follows.

    `parts` are pairs of seconds, above 0, and the factor that holds for them.
    """

    def __init__(self, parts: Sequence[tuple[float, float]]) -> None:
        self._factors = [factor for _, factor in parts]
        self._ends = list(accumulate(seconds for seconds, _ in parts))
        self._begins = [0.0, *self._ends[:-1]]
        self._period = self._ends[-1]
        self._sums = list(accumulate((seconds * factor for seconds, factor in parts), initial=0.0))

    def factor_at(self, at: float) -> float:
        """Return the factor at a time, from 0 on."""
        return self._factors[self._place(at % self._period)]

    def sum_until(self, at: float) -> float:
        """Return the integral of the factor from 0 to a time."""
        whole, rest = divmod(at, self._period)
        place = self._place(rest)
        within = self._sums[place] + (rest - self._begins[place]) * self._factors[place]
        return whole * self._sums[-1] + within

    def time_of(self, amount: float) -> float:
        """Return the first time at which the integral reaches an amount, from 0 on.

        Some factor must be above 0.
        """
        if amount <= 0:
            return 0.0
        whole, rest = divmod(amount, self._sums[-1])
        if not rest:
            whole, rest = whole - 1, self._sums[-1]
        place = min(bisect_left(self._sums, rest), len(self._factors)) - 1
        return whole * self._period + self._begins[place] + (rest - self._sums[place]) / self._factors[place]

    def _place(self, rest: float) -> int:
        return min(bisect_right(self._ends, rest), len(self._ends) - 1)
