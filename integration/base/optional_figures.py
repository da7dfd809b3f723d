"""Arithmetic on figures that may be unknown. None is skipped, and never counts as zero."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import fmean, median
from typing import TypeVar

Value = TypeVar("Value")
Values = Iterable[float | None]


def known(values: Iterable[Value | None]) -> list[Value]:
    """Return the values that are not None."""
    return [value for value in values if value is not None]


def value_at(values: Sequence[Value | None], index: int) -> Value | None:
    """Return the value at an index; None if it is unknown, or the values end before it."""
    return values[index] if index < len(values) else None


def complete(values: Values) -> list[float] | None:
    """Return all values; None if any is unknown, or the list is empty."""
    listed = list(values)
    values_known = known(listed)
    return values_known if values_known and len(values_known) == len(listed) else None


def mean(values: Values) -> float | None:
    """Return the mean of all values; None if a value is unknown, or there are no values."""
    all_values = complete(values)
    return None if all_values is None else fmean(all_values)


def mean_of_known(values: Values) -> float | None:
    """Return the mean of the known values; None if all are unknown."""
    values_known = known(values)
    return sum(values_known) / len(values_known) if values_known else None


def total(values: Values) -> float | None:
    """Return the sum of the known values; None if all are unknown."""
    values_known = known(values)
    return sum(values_known) if values_known else None


def middle(values: Values) -> float | None:
    """Return the median of the known values; None if all are unknown."""
    values_known = known(values)
    return median(values_known) if values_known else None


def pair_slopes(points: Sequence[tuple[float, float]], least: float = 0.0) -> list[float]:
    """Return the slopes between all pairs of points, in order, that are at least `least` apart.

    Their median is the slope of a line on which single points have little effect (Theil and Sen).
    """
    return [
        (late - early) / (later - earlier)
        for (earlier, early), (later, late) in combinations(points, 2)
        if later - earlier >= least and later > earlier
    ]


def highest(values: Values) -> float | None:
    """Return the greatest known value; None if all are unknown."""
    return max(known(values), default=None)


def lowest(values: Values) -> float | None:
    """Return the least known value; None if all are unknown."""
    return min(known(values), default=None)


def quotient(value: float | None, base: float | None) -> float | None:
    """Return ``value / base``; None if either is unknown or the base is 0."""
    return None if value is None or not base else value / base
