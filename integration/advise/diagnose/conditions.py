"""Limits of the rules, and conditions on the figures of a vertex; None: a figure is missing."""

from __future__ import annotations

from collections.abc import Iterable

from netstack import NetworkConfig, VertexSteady

from ...base.optional_figures import Values, complete, highest, known
from ...runs.job_load import SATURATED

HIGH_USAGE = 0.75
"""A pool counts as full from this used share on. It is below 1, because checkpoints drain pools."""

LOW_USAGE = 0.5
"""A pool counts as empty if less than this share of it is used."""

BACK_PRESSURED = 0.1
"""A subtask counts as back-pressured if it waits for output buffers for at least this share of the time.

Flink's web UI shows OK below it.
"""

HIGHLY_BACK_PRESSURED = 0.5
"""Minimum back-pressured share of time for which Flink's web UI shows HIGH."""

SKEW = 1.3
"""Subtasks count as unequal if the greatest value is at least this multiple of the mean."""

MISSED = 1.1
"""The target is missed if consuming the queued data takes at least this multiple of the target."""

AT_MINIMUM = 1.05
"""A buffer counts as minimal up to this multiple of the minimum size.

The tolerance is needed because a mean or median size can lie slightly above the minimum.
"""

NO_PAUSE = 0.9
"""A checkpoint that takes at least this share of the interval leaves hardly a pause before the next."""

MOST_CHANNELS = 200
"""If a gate has more channels, Flink's documentation expects debloating to fail with its default options."""


def reaches(values: Values, limit: float) -> bool | None:
    """Whether any subtask reaches the limit. None: no known value reaches it, and some are unknown."""
    listed = list(values)
    if any(value >= limit for value in known(listed)):
        return True
    return False if complete(listed) is not None else None


def is_full(usage: Values) -> bool | None:
    """Whether the pool of any subtask is full; None: unknown."""
    return reaches(usage, HIGH_USAGE)


def is_empty(usage: Values) -> bool | None:
    """Whether the pools of all subtasks are empty; None: unknown."""
    return negation(reaches(usage, LOW_USAGE))


def is_busy(vertex: VertexSteady) -> bool | None:
    """Whether a subtask of a vertex has no time left; None: unknown."""
    return reaches(vertex.busy_ms_per_s, 1000 * SATURATED)


def is_accounted_for(vertex: VertexSteady) -> bool:
    """Whether the metrics account for the whole time of every subtask, up to a negligible share."""
    parts = zip(vertex.busy_ms_per_s, vertex.idle_ms_per_s, vertex.backpressured_ms_per_s, strict=False)
    return all(
        busy is not None or sum(known((idle, waiting))) > 1000 * (1 - BACK_PRESSURED)
        for busy, idle, waiting in parts
    )


def negation(condition: bool | None) -> bool | None:
    """Return the opposite of a condition. The opposite of None is None."""
    return None if condition is None else not condition


def any_of(conditions: Iterable[bool | None]) -> bool | None:
    """Whether any condition holds. None: no known condition holds, and some are unknown."""
    answers = list(conditions)
    return True if True in answers else None if None in answers else False


def share(ms_per_s: Values) -> float | None:
    """Return the greatest of some times in ms per second, as a share from 0 to 1. None: all are unknown."""
    most = highest(ms_per_s)
    return None if most is None else most / 1000


def costs_ms(vertex: VertexSteady) -> list[float] | None:
    """Return the busy time per record, in ms, of each subtask that reads records.

    None: a figure is unknown.
    """
    busy, rates = complete(vertex.busy_ms_per_s), complete(vertex.records_in_per_s)
    if busy is None or rates is None:
        return None
    return [time / rate for time, rate in zip(busy, rates, strict=True) if rate]


def at_minimum(buffer_bytes: float, config: NetworkConfig) -> bool:
    """Whether buffers are as small as debloating may make them."""
    return buffer_bytes <= AT_MINIMUM * config.min_segment_bytes


def share_of_interval(checkpoint_ms: float, interval_s: float) -> float:
    """Return a checkpoint's duration as a share of its interval.

    Above 1, the next checkpoint starts as soon as this one ends.
    """
    return checkpoint_ms / 1000 / interval_s


def record_bytes(vertex: VertexSteady) -> float | None:
    """Return the mean size of the records that a vertex reads. None: the rate of a subtask is unknown."""
    records, taken = complete(vertex.records_in_per_s), complete(vertex.bytes_in_per_s)
    if records is None or taken is None or not sum(records) or not sum(taken):
        return None
    return sum(taken) / sum(records)
