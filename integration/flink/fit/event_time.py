"""Event time of a job: vertices that fire by watermarks, and the watermarks of their sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from netstack import GeneratorSpec, Vertex

from ...base.optional_figures import complete, known
from ..read.job import FlinkJob
from ..read.samples import Samples, SubtaskSamples
from .noted import Noted, Remark, Remarks
from .window_work import fires_by_watermarks

_FIRST_WATERMARK_MS, _LAST_WATERMARK_MS = 1.0, 1e15
"""Bounds of real watermarks. Long.MIN_VALUE means no watermark yet, and Long.MAX_VALUE the end of time."""

_PACES = (0.5, 2.0)
"""If event time advances at a pace in this range, relative to the clock, records arrive in real time."""


def by_event_time(job: FlinkJob, samples: Samples, vertices: Sequence[Vertex]) -> Noted[list[Vertex]]:
    """Return the vertices, with marks on those that fire by event time, and watermarks at their sources.

    A task reports the lowest watermark that it has read. A source reports the lag of its last watermark
    behind the clock. `vertices` are in the job's order. A vertex for which this is unknown fires by the
    clock.
    """
    fitted = {vertex.id: each for vertex, each in zip(job.vertices, vertices, strict=True)}
    remarks: Remarks = ()
    for vertex in job.vertices:
        sources = [each for each in job.reachable(vertex, upstream=True) if not job.inputs(each)]
        period_s = fitted[vertex.id].emit_every_s
        if period_s is None or not sources or not all(map(_follows_clock, samples[vertex.id])):
            continue
        per_s = _read_per_s(samples[vertex.id])
        fitted[vertex.id] = fires_by_watermarks(fitted[vertex.id], vertex.description, per_s)
        for source in sources:
            fitted[source.id], about = _with_watermarks(fitted[source.id], samples[source.id], period_s)
            remarks += about
    return Noted([fitted[vertex.id] for vertex in job.vertices], remarks)


def _follows_clock(subtask: SubtaskSamples) -> bool:
    """Return whether a subtask has read watermarks that advance about as fast as the clock."""
    increase, seconds = subtask.increase("currentInputWatermark"), subtask.seconds
    ends = [subtask.samples[at].get("currentInputWatermark", 0.0) for at in (0, -1) if subtask.samples]
    are_real = all(_FIRST_WATERMARK_MS <= end <= _LAST_WATERMARK_MS for end in ends)
    return bool(increase and seconds and are_real and _PACES[0] <= increase / 1e3 / seconds <= _PACES[1])


def _read_per_s(subtasks: Sequence[SubtaskSamples]) -> float | None:
    """Return the mean number of records per second that a subtask reads; None: unknown."""
    records, seconds = (complete(values) for values in zip(*map(_read_in, subtasks), strict=True))
    return None if records is None or seconds is None or not sum(seconds) else sum(records) / sum(seconds)


def _read_in(subtask: SubtaskSamples) -> tuple[float | None, float | None]:
    return subtask.increase("records_in"), subtask.seconds


def _with_watermarks(source: Vertex, subtasks: Sequence[SubtaskSamples], period_s: float) -> Noted[Vertex]:
    """Return the source with watermarks, which lag behind its records by the shortest reported lag.

    The reported lag grows between two watermarks and under back-pressure. If it contains whole window
    periods, the data is old, so only the remainder is used.
    """
    if not isinstance(source.source, GeneratorSpec):
        return Noted(source)
    reported = known(sample.get("watermarkLag") for subtask in subtasks for sample in subtask.samples)
    lags_ms = [lag for lag in reported if 0 <= lag <= _LAST_WATERMARK_MS]
    behind_s = float(f"{min(lags_ms, default=0.0) / 1e3 % period_s:.2g}")
    before_s = source.source.out_of_orderness_s
    behind_s = behind_s if before_s is None else min(behind_s, before_s)
    marked = replace(source, source=replace(source.source, out_of_orderness_s=behind_s))
    return Noted(marked, () if lags_ms else (Remark("watermark_lag_unreported", source.name),))
