"""What is not known of a job, and which questions that leaves open.

A rule fires by what is known. One that needs a figure which nobody measured says nothing, and that is told
here, so that its silence is not read as "all is well".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from netstack import VertexSteady

from ..checkpoint_times import NOT_TOLD, PHASES
from .finding import complete
from .observation import Observation
from .phases import phases
from .pool_rules import subtasks_text


class _Figure(NamedTuple):
    """A figure that rules go by: of which vertices, and what cannot be said without it."""

    name: str
    values: Callable[[VertexSteady], Sequence[float | None]]
    of: Callable[[Observation, VertexSteady], bool]
    question: str


def _reads(seen: Observation, vertex: VertexSteady) -> bool:
    return bool(seen.inputs(vertex))


def _writes(seen: Observation, vertex: VertexSteady) -> bool:
    return bool(seen.outputs(vertex))


def _any(seen: Observation, vertex: VertexSteady) -> bool:
    return True


def _debloats(seen: Observation, vertex: VertexSteady) -> bool:
    return _reads(seen, vertex) and seen.config.debloat_enabled


_FIGURES = (
    _Figure("back-pressured time", lambda v: v.backpressured_ms_per_s, _any, "who waits"),
    _Figure("busy time", lambda v: v.busy_ms_per_s, _any, "who makes others wait"),
    _Figure("idle time", lambda v: v.idle_ms_per_s, _reads, "who waits for data"),
    _Figure("records per second", lambda v: v.records_in_per_s, _reads, "skew, what a record costs"),
    _Figure("bytes per second", lambda v: v.bytes_in_per_s, _reads, "how long it takes to drain what waits"),
    _Figure("inPoolUsage", lambda v: v.inPoolUsage, _reads, "on which side data wait"),
    _Figure("outPoolUsage", lambda v: v.outPoolUsage, _writes, "on which side data wait"),
    _Figure("inputQueueSize", lambda v: v.inputQueueSize, _reads, "how much data wait"),
    _Figure("outputQueueSize", lambda v: v.outputQueueSize, _writes, "how much data wait"),
    _Figure("debloatedBufferSize", lambda v: v.debloatedBufferSize, _debloats, "what debloating does"),
    _Figure(
        "estimatedTimeToConsumeBuffersMs",
        lambda v: v.estimatedTimeToConsumeBuffersMs,
        _debloats,
        "whether debloating keeps to its target",
    ),
)


def gaps(seen: Observation) -> list[str]:
    """Return what is not known, a line for each figure: where, and what cannot be judged without it."""
    return [*_of_vertices(seen), *_of_checkpoints(seen)]


def _of_vertices(seen: Observation) -> Iterator[str]:
    for figure in _FIGURES:
        concerned = [vertex for vertex in seen.vertices if figure.of(seen, vertex)]
        unknown = [vertex for vertex in concerned if complete(figure.values(vertex)) is None]
        if unknown:
            where = ", ".join(_where(vertex, figure.values(vertex)) for vertex in unknown)
            yield f"{figure.name} of {where}, and so {figure.question}"


def _where(vertex: VertexSteady, values: Sequence[float | None]) -> str:
    missing = [subtask for subtask, value in enumerate(values) if value is None]
    return vertex.name if len(missing) == len(values) else subtasks_text(vertex, missing)


def _of_checkpoints(seen: Observation) -> Iterator[str]:
    times = phases(seen)
    if times is not None and NOT_TOLD in times.phases:
        names = [name for name in PHASES if name not in times.phases]
        yield f"{', '.join(names)} of checkpoints, and so which phase takes longest"
