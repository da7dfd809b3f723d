"""Rules over buffer debloating: whether it does what it is for, and if not, why."""

from __future__ import annotations

from collections.abc import Iterator

from netstack import NetworkConfig, VertexSteady

from ..known_values import complete, highest, known
from ..wording import milliseconds, percent, size
from .checkpoint_rules import phases
from .finding import Finding, any_of, span
from .observation import Observation

MISSED = 1.1
"""Quotient of the time to consume what waits to the target, from which the target is missed at all."""

_OFF_TARGET = 1.5
"""The same, from which debloating is to blame where it could still make buffers smaller."""

_AT_MINIMUM = 1.05
"""Quotient to the minimum up to which a buffer is as small as it may be; a median or mean may be above."""


_MUCH = 0.3
"""Share of the time from which checkpoints matter to debloating."""


def at_the_minimum(view: Observation) -> Iterator[Finding]:
    """Buffers that cannot get smaller, while more waits than the target allows."""
    target_ms = 1000 * view.config.debloat_target_s
    for vertex, sizes in _debloated(view):
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs)
        if estimated is None or estimated < MISSED * target_ms or not at_minimum(min(sizes), view.config):
            continue
        yield Finding(
            rule="debloating-at-its-floor",
            severity="problem",
            where=vertex.name,
            says="Buffers are as small as they may be, and still too much waits.",
            evidence=[_sizes(vertex), _estimate(vertex, target_ms)],
            next=[
                "fewer buffers, where the version has options for them; a smaller "
                "taskmanager.memory.min-segment-size; more parallelism; or unaligned checkpoints",
            ],
        )


def off_target(view: Observation) -> Iterator[Finding]:
    """More waits than the target allows, though buffers could be smaller."""
    target_ms = 1000 * view.config.debloat_target_s
    for vertex, sizes in _debloated(view):
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs)
        if estimated is None or estimated < _OFF_TARGET * target_ms:
            continue
        if complete(vertex.debloatedBufferSize) is None or at_minimum(min(sizes), view.config):
            continue
        yield Finding(
            rule="debloating-misses-its-target",
            severity="notice",
            where=vertex.name,
            says="Data in flight lasts longer than the target.",
            evidence=[_sizes(vertex), _estimate(vertex, target_ms), *_drained(view)],
            next=[
                "where checkpoints drain the buffers: a longer execution.checkpointing.interval, or another "
                "policy (`netstack tune --policy`)",
                "where the load moves: a shorter buffer-debloat.period or fewer buffer-debloat.samples",
                "several inputs of one subtask are measured together: see whether they are unequal",
            ],
        )


def _drained(view: Observation) -> list[str]:
    """That aligned checkpoints take much of the time, in which fewer buffers count as in use."""
    interval, times = view.config.checkpoint_interval_s, phases(view)
    if not interval or times is None or view.config.takes_unaligned_checkpoints:
        return []
    under_way = min(1.0, times.end_to_end_ms / 1000 / interval)
    if under_way < _MUCH:
        return []
    return [
        f"aligned checkpoints are under way {percent(under_way)} of the time: they drain the buffers, few "
        "are in use then, and each may become larger"
    ]


def at_the_maximum(view: Observation) -> Iterator[Finding]:
    """Buffers that stay whole: debloating is on and changes nothing."""
    for vertex, sizes in _debloated(view):
        pressed = any_of(view.is_back_pressured(writer) for _, writer in view.inputs(vertex))
        if complete(vertex.debloatedBufferSize) is None or min(sizes) < view.config.segment_bytes:
            continue
        if complete(vertex.estimatedTimeToConsumeBuffersMs) is None or pressed is None:
            continue
        yield Finding(
            rule="debloating-idle",
            severity="notice" if pressed else "fine",
            where=vertex.name,
            says="Debloating leaves buffers whole: what waits is consumed within the target anyway.",
            evidence=[_sizes(vertex), _estimate(vertex, 1000 * view.config.debloat_target_s)],
            next=["only a smaller target would change anything"] if pressed else [],
        )


def smaller_than_a_record(view: Observation) -> Iterator[Finding]:
    """Buffers that hold less than one record."""
    for vertex, sizes in _debloated(view):
        record = record_bytes(vertex)
        if record is None or not is_larger(record, min(sizes)):
            continue
        yield Finding(
            rule="records-larger-than-buffers",
            severity="problem",
            where=vertex.name,
            says="A record is larger than a debloated buffer: a buffer takes the whole record it begins "
            "with, so smaller ones do not let less wait.",
            evidence=[_sizes(vertex), f"a record has {size(record)} on average"],
            next=["a larger target, so that buffers hold records; fewer buffers; unaligned checkpoints"],
        )


def _debloated(view: Observation) -> Iterator[tuple[VertexSteady, list[float]]]:
    """The vertices whose input is debloated, with the sizes over subtasks."""
    for vertex in view.vertices:
        sizes = known(vertex.debloatedBufferSize)
        if sizes and view.config.debloat_enabled:
            yield vertex, sizes


def at_minimum(buffer_bytes: float, config: NetworkConfig) -> bool:
    """Return whether buffers are as small as debloating may make them."""
    return buffer_bytes <= _AT_MINIMUM * config.min_segment_bytes


def is_larger(record: float, buffer_bytes: float) -> bool:
    """Return whether a record needs several buffers, so that smaller ones do not let less of it wait."""
    return record > buffer_bytes


def record_bytes(vertex: VertexSteady) -> float | None:
    """Return the mean size of the records that a vertex reads; None if a rate of a subtask is not known."""
    records, taken = complete(vertex.records_in_per_s), complete(vertex.bytes_in_per_s)
    if records is None or taken is None or not sum(records) or not sum(taken):
        return None
    return sum(taken) / sum(records)


def _sizes(vertex: VertexSteady) -> str:
    return f"debloatedBufferSize {span(vertex.debloatedBufferSize, ',.0f')} bytes"


def _estimate(vertex: VertexSteady, target_ms: float) -> str:
    estimated = span(vertex.estimatedTimeToConsumeBuffersMs, ",.0f")
    return f"estimatedTimeToConsumeBuffersMs {estimated}, target {milliseconds(target_ms)}"


DEBLOAT_RULES = (at_the_minimum, off_target, smaller_than_a_record, at_the_maximum)
