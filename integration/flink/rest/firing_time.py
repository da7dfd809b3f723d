"""By which time windows of a job fire: by the clock, or by the watermarks that its tasks tell of.

A task tells the least watermark that it has read (``currentInputWatermark``), which stays at the least long
where none has come, and a source how far the last one that it sent is behind the clock (``watermarkLag``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from netstack import GeneratorSpec, Vertex

from ...analysis.known_values import known
from .cluster_job import FlinkJob, FlinkVertex
from .sampling import Samples, SubtaskSamples

_ALIVE_MS = 1.0
"""The first time that is taken for a watermark: the least long, where none has come, is none of our era."""

_LAST_MS = 1e15
"""The last one: the greatest long, which ends event time, is none either."""

_PACES = (0.5, 2.0)
"""Event time that goes on so much slower or faster than the clock is not that of what is emitted now."""


def by_event_time(
    job: FlinkJob, names: Mapping[str, str], samples: Samples, vertices: Sequence[Vertex], notes: list[str]
) -> list[Vertex]:
    """Return the vertices with those that fire by event time, and with the watermarks of their sources.

    `vertices` are in the job's order. What is not known to fire so fires by the clock; `notes` gets a line
    for each source that does not tell how far its watermarks are behind.
    """
    read = {vertex.id: each for vertex, each in zip(job.vertices, vertices, strict=True)}
    for vertex in job.vertices:
        sources = [source for source in _sources_of(job, vertex) if source.id != vertex.id]
        period_s = read[vertex.id].emit_every_s
        if period_s is None or not sources or not _goes_on(samples[vertex.id]):
            continue
        read[vertex.id] = replace(read[vertex.id], emit_by="event_time")
        for source in sources:
            read[source.id] = _with_watermarks(
                read[source.id], samples[source.id], period_s, names[source.id], notes
            )
    return [read[vertex.id] for vertex in job.vertices]


def _goes_on(subtasks: Iterable[SubtaskSamples]) -> bool:
    """Whether every subtask has read watermarks, and they go on about as the clock does."""
    return all(_pace(subtask) for subtask in subtasks)


def _pace(subtask: SubtaskSamples) -> float | None:
    """How fast event time goes on, in seconds per second; None: not at all, or not as the clock does."""
    increase, seconds = subtask.increase("currentInputWatermark"), subtask.seconds
    ends = [sample.get("currentInputWatermark", 0.0) for sample in subtask.samples]
    if not increase or not seconds or not all(_ALIVE_MS <= end <= _LAST_MS for end in (ends[0], ends[-1])):
        return None
    pace = increase / 1e3 / seconds
    return pace if _PACES[0] <= pace <= _PACES[1] else None


def _with_watermarks(
    source: Vertex, subtasks: Sequence[SubtaskSamples], period_s: float, name: str, notes: list[str]
) -> Vertex:
    """The source with watermarks as far behind its records as the shortest lag that it has told.

    Between two watermarks the lag grows, and while the source is held back. One of a whole window or more is
    that of old data; what is beyond whole windows says when they fire.
    """
    if not isinstance(source.source, GeneratorSpec):
        return source
    told = known(sample.get("watermarkLag") for subtask in subtasks for sample in subtask.samples)
    lags_ms = [lag for lag in told if 0 <= lag <= _LAST_MS]
    if not lags_ms:
        notes.append(f"{name}: how far its watermarks are behind is not told; here they are at its records")
    behind_s = float(f"{min(lags_ms, default=0.0) / 1e3 % period_s:.2g}")
    before_s = source.source.out_of_orderness_s
    behind_s = behind_s if before_s is None else min(behind_s, before_s)
    return replace(source, source=replace(source.source, out_of_orderness_s=behind_s))


def _sources_of(job: FlinkJob, vertex: FlinkVertex) -> list[FlinkVertex]:
    """The vertices without inputs whose records reach a vertex."""
    before, left = {vertex.id}, [vertex.id]
    while left:
        reached = left.pop()
        sources = {edge.source for edge in job.edges if edge.target == reached} - before
        before |= sources
        left += sources
    return [each for each in job.vertices if each.id in before and not job.inputs(each)]
