"""What a rule says, and the limits that rules share."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Literal

import msgspec

from netstack import VertexSteady

Severity = Literal["problem", "notice", "fine"]

HIGH_USAGE = 0.75
"""A pool of which this share is used is called full; checkpoints drain pools, so medians may be below 1."""

LOW_USAGE = 0.5
"""A pool of which less than this share is used is called empty."""

BACK_PRESSURED = 0.1
"""Share of its time from which a subtask counts as back-pressured; below it Flink's web UI says OK."""

HIGHLY_BACK_PRESSURED = 0.5
"""Share of its time from which Flink's web UI says HIGH."""

BUSY = 0.9
"""Share of its time from which a subtask has nothing left to give."""

SKEW = 1.3
"""Quotient of the greatest to the mean from which subtasks are called unequal."""

Values = Iterable[float | None]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """That a rule fired: its name, where, what that means, by which figures, and what to do next."""

    rule: str
    severity: Severity
    where: str
    """A vertex, an exchange as "a -> b", or "checkpoints"."""
    says: str
    evidence: list[str]
    next: list[str] = []


def known(values: Values) -> list[float]:
    """Return the values that there are."""
    return [value for value in values if value is not None]


def mean(values: Values) -> float | None:
    """Return the mean of the values that there are; None if there is none."""
    found = known(values)
    return fmean(found) if found else None


def highest(values: Values) -> float | None:
    """Return the greatest of the values that there are; None if there is none."""
    return max(known(values), default=None)


def share(ms_per_s: Values) -> float:
    """Return the greatest of some times in ms per second as a share, 0 to 1; 0 if nothing is known."""
    return (highest(ms_per_s) or 0.0) / 1000


def is_full(usage: Values) -> bool:
    """Whether the pool of any subtask is full."""
    return (highest(usage) or 0.0) >= HIGH_USAGE


def is_empty(usage: Values) -> bool:
    """Whether the pools of all subtasks are empty; False if nothing is known of them."""
    found = known(usage)
    return bool(found) and max(found) < LOW_USAGE


def is_busy(vertex: VertexSteady) -> bool:
    """Whether a subtask of a vertex has no time left."""
    return share(vertex.busy_ms_per_s) >= BUSY


def costs_ms(vertex: VertexSteady) -> list[float | None]:
    """Return for how long each subtask is busy with a record; None for those without records."""
    pairs = zip(vertex.busy_ms_per_s, vertex.records_in_per_s, strict=False)
    return [None if busy is None or not rate else busy / rate for busy, rate in pairs]


def span(values: Values, form: str = ".2f", scale: float = 1.0) -> str:
    """Return values over subtasks as one, if they read the same, or as "least-most"."""
    found = sorted(known(values))
    if not found:
        return "unknown"
    low, high = f"{found[0] * scale:{form}}", f"{found[-1] * scale:{form}}"
    return low if low == high else f"{low}-{high}"


def span_percent(ms_per_s: Values) -> str:
    """Return times in ms per second, over subtasks, as a share of the time: "99 %" or "24-100 %"."""
    return f"{span((min(time, 1000.0) for time in known(ms_per_s)), '.0f', 0.1)} %"
