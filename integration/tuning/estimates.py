"""A figure over several runs of one setting: its mean, and Student's confidence interval."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""Share of such intervals that contain the estimated value."""


class Estimate(msgspec.Struct, frozen=True):
    """A figure over several runs of one setting."""

    mean: float
    low: float | None
    """The ends of the interval; None for a single run, whose spread is unknown."""
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


def estimate(values: Iterable[float | None], decimals: int = 2) -> Estimate | None:
    """Return the mean of the known values with its interval; None if all are unknown."""
    given = list(values)
    present = np.array([value for value in given if value is not None], dtype=np.float64)
    if not present.size:
        return None
    mean = float(present.mean())
    low, high = _interval(present) if present.size > 1 else (None, None)
    return Estimate(
        round(mean, decimals),
        None if low is None else round(low, decimals),
        None if high is None else round(high, decimals),
        len(present),
        len(given),
    )


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    from scipy.special import stdtrit  # takes a while to import, and `scipy.stats` a second

    quantile = float(stdtrit(len(values) - 1, (1.0 + CONFIDENCE) / 2.0))
    mean, reach = float(values.mean()), quantile * float(values.std(ddof=1)) / sqrt(len(values))
    least = 0.0 if values.min() >= 0.0 else -inf  # an amount is not less than none
    return max(least, mean - reach), mean + reach
