"""Arithmetic on figures of which some are unknown: None is left out, and never counts as zero."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, median
from typing import TypeVar

Value = TypeVar("Value")
Values = Iterable[float | None]


def known(values: Iterable[Value | None]) -> list[Value]:
    """Return the values that there are."""
    return [value for value in values if value is not None]


def complete(values: Values) -> list[float] | None:
    """Return all values; None if one is not known, or there are none."""
    listed = list(values)
    values_known = known(listed)
    return values_known if values_known and len(values_known) == len(listed) else None


def mean(values: Values) -> float | None:
    """Return the mean of all values; None if one is not known, or there are none."""
    all_values = complete(values)
    return None if all_values is None else fmean(all_values)


def mean_of_known(values: Values) -> float | None:
    """Return the mean of the values that there are; None if there is none."""
    values_known = known(values)
    return sum(values_known) / len(values_known) if values_known else None


def total(values: Values) -> float | None:
    """Return the sum of the values that there are; None if there is none."""
    values_known = known(values)
    return sum(values_known) if values_known else None


def middle(values: Values) -> float | None:
    """Return the median of the values that there are; None if there is none."""
    values_known = known(values)
    return median(values_known) if values_known else None


def highest(values: Values) -> float | None:
    """Return the greatest of the values that there are; None if there is none."""
    return max(known(values), default=None)


def lowest(values: Values) -> float | None:
    """Return the least of the values that there are; None if there is none."""
    return min(known(values), default=None)


def quotient(value: float | None, base: float | None) -> float | None:
    """Return ``value / base``, or None where there is no such number."""
    return None if value is None or not base else value / base
