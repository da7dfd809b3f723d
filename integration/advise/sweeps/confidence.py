"""Means of figures over several values, with Student's confidence interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""Confidence level: the share of intervals that contain the true mean."""

LEAST_PRECISE = 5
"""Minimum number of values for which `is_precise` knows a quantile."""

_QUANTILES = {LEAST_PRECISE: 2.776, 6: 2.571, 8: 2.365, 10: 2.262, 15: 2.145, 20: 2.093}
"""Quantiles of Student's t for `CONFIDENCE`, by minimum number of values."""


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
        reach = _quantile(present.size) * standard_error(present)
        least = 0.0 if present.min() >= 0.0 else -inf  # amounts are not negative
        low, high = round(max(least, mean - reach), decimals), round(mean + reach, decimals)
    return Estimate(round(mean, decimals), low, high, len(present), len(given))


def is_surely_positive(difference: Estimate | None, least: float, single: float = inf) -> bool:
    """Return whether the mean of paired differences is above `least`, and its interval above 0.

    A single difference has no interval: it must be above `single`. Return False for None.
    """
    if difference is None:
        return False
    if difference.low is None:
        return difference.mean > single
    return difference.mean > least and difference.low > 0.0


def is_precise(values: NDArray[np.float64], allowed: float) -> bool:
    """Return whether the interval of the mean reaches at most `allowed` to each side.

    It takes quantiles from a table, since it also runs on workers without SciPy. They are never too small. An
    estimate takes exact ones, since its interval is printed.

    Raises:
        ValueError: There are fewer than `LEAST_PRECISE` values.
    """
    quantile = min(each for least, each in _QUANTILES.items() if least <= len(values))
    return quantile * standard_error(values) <= allowed


def standard_error(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the standard error of the mean of two or more values."""
    return float(np.std(values, ddof=1)) / sqrt(len(values))


def _quantile(values: int) -> float:
    """Return the quantile of Student's t for the interval of the mean of so many values."""
    from scipy.special import stdtrit  # slow to import; `scipy.stats` takes a second

    return float(stdtrit(values - 1, (1.0 + CONFIDENCE) / 2.0))
