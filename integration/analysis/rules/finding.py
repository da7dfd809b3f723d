"""What a rule says, and what several rules ask: each question has one answer, by one limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from netstack import NetworkConfig, VertexSteady

from ..known_values import Values, complete, highest, known

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

MISSED = 1.1
"""Quotient of the time to consume what waits to the target, from which the target is missed at all."""

AT_MINIMUM = 1.05
"""Quotient to the minimum up to which a buffer is as small as it may be; a median or mean may be above."""

NO_PAUSE = 0.9
"""Share of the interval from which on a checkpoint leaves hardly a pause before the next."""

MOST_CHANNELS = 200
"""Channels into a gate beyond which Flink's documentation expects debloating to fail with its defaults."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """That a rule fired: its name, where, what that means, by which figures, and what to do next."""

    rule: str
    severity: Severity
    where: str
    """A vertex, an exchange as "a -> b", or "checkpoints"."""
    says: str
    evidence: list[str]
    next: list[str] = []
    weight: float | msgspec.UnsetType = msgspec.UNSET
    """How bad it is among findings of its rule, where several runs are compared; else it is not told."""


def reaches(values: Values, limit: float) -> bool | None:
    """Whether any subtask is at the limit or above; None: none that is known is, and not all are known."""
    listed = list(values)
    if any(value >= limit for value in known(listed)):
        return True
    return False if complete(listed) is not None else None


def is_full(usage: Values) -> bool | None:
    """Whether the pool of any subtask is full; None: not known."""
    return reaches(usage, HIGH_USAGE)


def is_empty(usage: Values) -> bool | None:
    """Whether the pools of all subtasks are empty; None: not known."""
    return negation(reaches(usage, LOW_USAGE))


def is_busy(vertex: VertexSteady) -> bool | None:
    """Whether a subtask of a vertex has no time left; None: not known."""
    return reaches(vertex.busy_ms_per_s, 1000 * BUSY)


def is_accounted_for(vertex: VertexSteady) -> bool:
    """Whether it is known of all subtasks where their time goes, but for what would not matter."""
    parts = zip(vertex.busy_ms_per_s, vertex.idle_ms_per_s, vertex.backpressured_ms_per_s, strict=False)
    return all(
        busy is not None or sum(known((idle, waiting))) > 1000 * (1 - BACK_PRESSURED)
        for busy, idle, waiting in parts
    )


def negation(condition: bool | None) -> bool | None:
    """Return the opposite; of what is not known, None."""
    return None if condition is None else not condition


def any_of(conditions: Iterable[bool | None]) -> bool | None:
    """Whether one of some conditions holds; None: none is known to, and some are not known."""
    answers = list(conditions)
    return True if True in answers else None if None in answers else False


def share(ms_per_s: Values) -> float | None:
    """Return the greatest of some times in ms per second as a share, 0 to 1; None if nothing is known."""
    most = highest(ms_per_s)
    return None if most is None else most / 1000


def costs_ms(vertex: VertexSteady) -> list[float] | None:
    """Return for how long each subtask with records is busy with one; None if that is not known of all."""
    busy, rates = complete(vertex.busy_ms_per_s), complete(vertex.records_in_per_s)
    if busy is None or rates is None:
        return None
    return [time / rate for time, rate in zip(busy, rates, strict=True) if rate]


def at_minimum(buffer_bytes: float, config: NetworkConfig) -> bool:
    """Return whether buffers are as small as debloating may make them."""
    return buffer_bytes <= AT_MINIMUM * config.min_segment_bytes


def is_larger(record: float, buffer_bytes: float) -> bool:
    """Return whether a record needs several buffers, so that smaller ones do not let less of it wait."""
    return record > buffer_bytes


def share_of_interval(checkpoint_ms: float, interval_s: float) -> float:
    """Return how much of its interval a checkpoint takes; above 1, Flink begins the next one upon its end."""
    return checkpoint_ms / 1000 / interval_s


def record_bytes(vertex: VertexSteady) -> float | None:
    """Return the mean size of the records that a vertex reads; None if a rate of a subtask is not known."""
    records, taken = complete(vertex.records_in_per_s), complete(vertex.bytes_in_per_s)
    if records is None or taken is None or not sum(records) or not sum(taken):
        return None
    return sum(taken) / sum(records)


def span(values: Values, form: str = ".2f", scale: float = 1.0) -> str:
    """Return values over subtasks as one, if they read the same, or as "least-most", of those known."""
    listed = list(values)
    ordered = sorted(known(listed))
    if not ordered:
        return "unknown"
    low, high = f"{ordered[0] * scale:{form}}", f"{ordered[-1] * scale:{form}}"
    text = low if low == high else f"{low}-{high}"
    return text if len(ordered) == len(listed) else f"{text} in {len(ordered)} of {len(listed)} subtasks"


def span_percent(ms_per_s: Values) -> str:
    """Return times in ms per second, over subtasks, as a share of the time: "99 %" or "24-100 %"."""
    capped = [None if time is None else min(time, 1000.0) for time in ms_per_s]
    low, _, rest = span(capped, ".0f", 0.1).partition(" in ")
    return low if low == "unknown" else f"{low} %" + (f" in {rest}" if rest else "")
