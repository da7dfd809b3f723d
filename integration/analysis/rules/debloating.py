"""Rules over buffer debloating: whether it does what it is for, and if not, why."""

from __future__ import annotations

from collections.abc import Iterator

from netstack import VertexSteady

from ..known_values import complete, highest, known
from ..wording import milliseconds, percent, size
from .checkpoints import phases
from .finding import MISSED, Finding, at_minimum, is_larger, record_bytes, share_of_interval, span
from .observation import Observation

_OFF_TARGET = 1.5
"""Quotient as `MISSED`, from which debloating is to blame where it could still make buffers smaller."""

_MUCH = 0.3
"""Share of the time from which checkpoints matter to debloating."""


def at_the_minimum(view: Observation) -> Iterator[Finding]:
    """Buffers that cannot get smaller, while more waits than the target allows."""
    for vertex, _ in stuck_at_the_minimum(view):
        yield Finding(
            rule="debloating-at-its-floor",
            severity="problem",
            where=vertex.name,
            says="Buffers are as small as they may be, and still too much waits.",
            evidence=[_sizes(vertex), _estimate(vertex, view)],
            next=[
                "fewer buffers, where the version has options for them; a smaller "
                "taskmanager.memory.min-segment-size; more parallelism; or unaligned checkpoints",
            ],
        )


def off_target(view: Observation) -> Iterator[Finding]:
    """More waits than the target allows, though buffers could be smaller."""
    for vertex, sizes in _debloated(view):
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs)
        if estimated is None or estimated < _OFF_TARGET * view.target_ms:
            continue
        if complete(vertex.debloatedBufferSize) is None or at_minimum(min(sizes), view.config):
            continue
        yield Finding(
            rule="debloating-misses-its-target",
            severity="notice",
            where=vertex.name,
            says="Data in flight lasts longer than the target.",
            evidence=[_sizes(vertex), _estimate(vertex, view), *_drained(view)],
            next=[
                "where checkpoints drain the buffers: a longer execution.checkpointing.interval, or another "
                "policy (`netstack tune --policy`)",
                "where the load moves: a shorter buffer-debloat.period or fewer buffer-debloat.samples",
                "several inputs of one subtask are measured together: see whether they are unequal",
            ],
        )


def at_the_maximum(view: Observation) -> Iterator[Finding]:
    """Buffers that stay whole: debloating is on and changes nothing."""
    for vertex, sizes in _debloated(view):
        pressed = view.holds_up(vertex)
        if complete(vertex.debloatedBufferSize) is None or min(sizes) < view.config.segment_bytes:
            continue
        if complete(vertex.estimatedTimeToConsumeBuffersMs) is None or pressed is None:
            continue
        yield Finding(
            rule="debloating-idle",
            severity="notice" if pressed else "fine",
            where=vertex.name,
            says="Debloating leaves buffers whole: what waits is consumed within the target anyway.",
            evidence=[_sizes(vertex), _estimate(vertex, view)],
            next=["only a smaller target would change anything"] if pressed else [],
        )


def smaller_than_a_record(view: Observation) -> Iterator[Finding]:
    """Buffers that hold less than one record."""
    for vertex, record, _ in smaller_than_records(view):
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
    for vertex in view.consumers:
        sizes = known(vertex.debloatedBufferSize)
        if sizes and view.config.debloat_enabled:
            yield vertex, sizes


def stuck_at_the_minimum(view: Observation) -> Iterator[tuple[VertexSteady, float]]:
    """Yield vertices whose buffers cannot shrink though the target is missed, and the ms that data waits."""
    for vertex, sizes in _debloated(view):
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs)
        missed = estimated is not None and estimated >= MISSED * view.target_ms
        if estimated is not None and missed and at_minimum(min(sizes), view.config):
            yield vertex, estimated


def smaller_than_records(view: Observation) -> Iterator[tuple[VertexSteady, float, float]]:
    """Yield vertices into which a record needs several buffers, with the bytes of both."""
    for vertex, sizes in _debloated(view):
        record = record_bytes(vertex)
        if record is not None and is_larger(record, min(sizes)):
            yield vertex, record, min(sizes)


def _drained(view: Observation) -> list[str]:
    """That aligned checkpoints take much of the time, in which fewer buffers count as in use."""
    interval, times = view.config.checkpoint_interval_s, phases(view)
    if not interval or times is None or view.config.takes_unaligned_checkpoints:
        return []
    under_way = share_of_interval(times.end_to_end_ms, interval)
    if under_way < _MUCH:
        return []
    return [
        f"aligned checkpoints are under way {percent(min(1.0, under_way))} of the time: they drain the "
        "buffers, few are in use then, and each may become larger"
    ]


def _sizes(vertex: VertexSteady) -> str:
    return f"debloatedBufferSize {span(vertex.debloatedBufferSize, ',.0f')} bytes"


def _estimate(vertex: VertexSteady, view: Observation) -> str:
    estimated = span(vertex.estimatedTimeToConsumeBuffersMs, ",.0f")
    return f"estimatedTimeToConsumeBuffersMs {estimated}, target {milliseconds(view.target_ms)}"
