"""Estimates from several runs: a mean, its confidence interval, and whether that decides a question.

The interval is the bootstrap's percentile interval for the mean, expanded for few runs. Resampling takes the
spread of n values for that of their distribution, which is too narrow by sqrt((n - 1) / n), and it knows
nothing of Student's t. A confidence that grows as n falls corrects both (T. Hesterberg, "What teachers should
know about the bootstrap", 2015, section 5). For fewer than five values it is Student's own interval, since
resampling says little about them: for two values it is thirteen times their distance.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import inf, sqrt
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""Share of such intervals that contain the estimated value."""

RESAMPLES = 2000

LEAST_RUNS = 2
"""Fewest runs that have an interval; with fewer, the spread is unknown."""
_LEAST_RESAMPLED = 5

Answer = Literal["yes", "no", "undecided"]


class Estimate(msgspec.Struct, frozen=True):
    """A figure over several runs of one setting."""

    mean: float
    low: float | None
    """The interval's ends; None if there are too few runs to know the spread."""
    high: float | None
    runs: int
    """Runs that have the figure."""
    of: int
    """Runs that should have the figure, failed ones included."""

    @property
    def least(self) -> float:
        """The lower end of the interval, or the mean where there is none."""
        return self.mean if self.low is None else self.low

    @property
    def greatest(self) -> float:
        """The upper end of the interval, or the mean where there is none."""
        return self.mean if self.high is None else self.high

    def at_least(self, limit: float) -> Answer:
        """Whether the figure reaches a limit, as far as the interval decides it."""
        if self.low is None or self.high is None:
            return "undecided"
        return "yes" if self.low >= limit else "no" if self.high < limit else "undecided"

    def at_most(self, limit: float) -> Answer:
        """Whether the figure keeps to a limit, as far as the interval decides it."""
        if self.low is None or self.high is None:
            return "undecided"
        return "yes" if self.high <= limit else "no" if self.low > limit else "undecided"

    def runs_to_decide(self, limit: float) -> int | None:
        """Return the number of runs that decides on which side of a limit the mean is; None: on the limit.

        An interval narrows with the root of their number.
        """
        if self.low is None or self.high is None or self.mean == limit:
            return None
        reach = max(self.high - self.mean, self.mean - self.low)
        return max(self.runs + 1, round(self.runs * (reach / abs(self.mean - limit)) ** 2 + 0.5))

    def may_decide(self, limit: float, runs: int) -> bool:
        """Whether `runs` runs, the present ones included, may decide on which side of a limit the mean lies.

        The answer is no if the further runs would have to move the mean by more than its standard deviation:
        a chance of one in six. With few runs the mean may still move far, and the answer is yes.
        """
        if self.low is None or self.high is None:
            return True
        if runs <= self.runs:
            return False
        reach = max(self.high - self.mean, self.mean - self.low)
        spread = reach * sqrt(self.runs) / _quantile((1.0 + CONFIDENCE) / 2.0, self.runs)
        moves = spread * sqrt(1 / self.runs - 1 / runs)
        needed = spread * _quantile((1.0 + CONFIDENCE) / 2.0, runs) / sqrt(runs)
        return abs(self.mean - limit) + moves >= needed


def estimate(values: Iterable[float | None], decimals: int = 2) -> Estimate | None:
    """Return the mean of the known values with its interval; None if all are unknown.

    The same values give the same interval.
    """
    given = list(values)
    present = np.array([value for value in given if value is not None], dtype=np.float64)
    if not present.size:
        return None
    low, high = interval(present)
    return Estimate(
        round(float(present.mean()), decimals),
        None if low is None else round(low, decimals),
        None if high is None else round(high, decimals),
        len(present),
        len(given),
    )


def interval(values: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Return the confidence interval of the mean; None for fewer than `LEAST_RUNS` values."""
    if len(values) < LEAST_RUNS:
        return None, None
    if values.min() == values.max():
        return float(values[0]), float(values[0])
    if len(values) < _LEAST_RESAMPLED:
        return _students(values)
    drawn = np.random.default_rng(len(values)).integers(0, len(values), (RESAMPLES, len(values)))
    tail = 50.0 * (1.0 - _expanded(len(values)))
    low, high = np.percentile(values[drawn].mean(axis=1), [tail, 100.0 - tail])
    return float(low), float(high)


def _students(values: NDArray[np.float64]) -> tuple[float, float]:
    reach = _quantile((1.0 + CONFIDENCE) / 2.0, len(values)) * float(values.std(ddof=1)) / sqrt(len(values))
    mean = float(values.mean())
    least = 0.0 if values.min() >= 0.0 else -inf  # an amount is not less than none
    return max(least, mean - reach), mean + reach


def _quantile(probability: float, runs: int) -> float:
    """The quantile of Student's t for the mean of so many runs."""
    from scipy.special import stdtrit  # takes a while to import, and `scipy.stats` a second

    return float(stdtrit(runs - 1, probability))


@cache
def _expanded(runs: int) -> float:
    """Return the confidence at which a bootstrap over few values is as wide as Student's t."""
    from scipy.special import ndtr

    tail = _quantile((1.0 - CONFIDENCE) / 2.0, runs)
    return float(1.0 - 2.0 * ndtr(tail * sqrt(runs / (runs - 1))))
