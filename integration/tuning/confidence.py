"""Mean of a figure over several runs of one setting, with Student's confidence interval."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, sqrt

import msgspec
import numpy as np

CONFIDENCE = 0.95
"""Confidence level: the share of intervals that contain the true mean."""


class Estimate(msgspec.Struct, frozen=True):
    """Mean of a figure over several runs of one setting, with its interval."""

    mean: float
    low: float | None
    """The ends of the interval; None for a single run, whose spread is unknown."""
    high: float | None
    runs: int
    """Number of runs that have the figure."""
    of: int
    """Number of all runs, including failed ones."""

    @property
    def least(self) -> float:
        """Lower end of the interval, or the mean if there is no interval."""
        return self.mean if self.low is None else self.low

    @property
    def greatest(self) -> float:
        """Upper end of the interval, or the mean if there is no interval."""
        return self.mean if self.high is None else self.high


def estimate(values: Iterable[float | None], decimals: int = 2) -> Estimate | None:
    """Return the mean of the known values with its interval; None if all are unknown."""
    given = list(values)
    present = np.array([value for value in given if value is not None], dtype=np.float64)
    if not present.size:
        return None
    mean, low, high = float(present.mean()), None, None
    if present.size > 1:
        from scipy.special import stdtrit  # slow to import; `scipy.stats` takes a second

        quantile = float(stdtrit(present.size - 1, (1.0 + CONFIDENCE) / 2.0))
        reach = quantile * float(present.std(ddof=1)) / sqrt(present.size)
        least = 0.0 if present.min() >= 0.0 else -inf  # amounts are not negative
        low, high = round(max(least, mean - reach), decimals), round(mean + reach, decimals)
    return Estimate(round(mean, decimals), low, high, len(present), len(given))


def is_surely_positive(differences: Iterable[float | None], single: float = 0.05) -> bool:
    """Return whether the mean of paired differences is above 0 by more than its uncertainty.

    The spread of a single difference is unknown: it must be more than `single`. Return False for none.
    """
    mean = estimate(differences, 6)
    return mean is not None and (mean.mean > single if mean.low is None else mean.low > 0.0)
