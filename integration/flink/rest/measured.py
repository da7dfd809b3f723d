"""What a job shows now, in the fields of our own results, so that both are read alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from netstack import CheckpointResult, Steady, VertexCheckpoint, VertexSteady, barrier_figures

from ...analysis.known_values import known
from .cluster_job import FlinkJob
from .sampling import Samples, SubtaskSamples

_GAUGES = (
    "debloatedBufferSize",
    "estimatedTimeToConsumeBuffersMs",
    "inputQueueLength",
    "outputQueueLength",
    "inputQueueSize",
    "outputQueueSize",
    "inPoolUsage",
    "outPoolUsage",
    "inputExclusiveBuffersUsage",
    "inputFloatingBuffersUsage",
)
_RATES = ("records_in", "bytes_in", "records_out", "bytes_out", "buffers_out")
_SHARES = ("busy", "backpressured", "idle")
_DECIMALS = 2


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a Flink job shows: one window, and its last completed checkpoints.

    Vertices have the names and the order of the imported scenario. `from_s` and `to_s` of `steady`, and `t`
    of checkpoints, count from when the job began to run. Rates and gauges are of the time in which the
    metrics were watched, delays of all checkpoints that were read.
    """

    url: str
    job: str
    job_name: str
    flink: str
    """Its version."""
    steady: Steady
    checkpoints: list[CheckpointResult] = []


def measured(
    url: str,
    job: FlinkJob,
    names: Mapping[str, str],
    samples: Samples,
    checkpoints: Sequence[CheckpointResult],
) -> Measured:
    """Put together what was read of a job; `names` are the scenario's names of vertices by their ids."""
    every = [one for subtasks in samples.values() for one in subtasks]
    watched = max((one.seconds or 0.0 for one in every), default=0.0)
    passed = _median(one.accounted_s for one in every if one.accounted_s)
    first = min([checkpoint.t for checkpoint in checkpoints], default=job.age_s)
    durations = [checkpoint.duration_ms for checkpoint in checkpoints if checkpoint.duration_ms is not None]
    steady = Steady(
        from_s=round(max(0.0, min(first, job.age_s)), _DECIMALS),
        to_s=round(job.age_s + watched, _DECIMALS),
        checkpoints=len(checkpoints),
        end_to_end_ms=_median(durations),
        end_to_end_ms_min=min(durations, default=None),
        end_to_end_ms_max=max(durations, default=None),
        processed_bytes=_bytes(checkpoints, "alignment_processed_bytes"),
        persisted_bytes=_bytes(checkpoints, "alignment_persisted_bytes"),
        vertices=[
            _vertex(names[vertex.id], samples[vertex.id], [one.vertices[at] for one in checkpoints], passed)
            for at, vertex in enumerate(job.vertices)
        ],
    )
    return Measured(
        url=url,
        job=job.id,
        job_name=job.name,
        flink=job.version,
        steady=steady,
        checkpoints=list(checkpoints),
    )


def _vertex(
    name: str, subtasks: Sequence[SubtaskSamples], parts: Sequence[VertexCheckpoint], passed: float | None
) -> VertexSteady:
    """One vertex; `passed` is the time by the account of most subtasks, for those that keep none."""
    fields: dict[str, Any] = {
        f"{field}_per_s": _each(_per_s(one, field, passed) for one in subtasks) for field in _RATES
    }
    fields |= {gauge: _each(one.gauge(gauge) for one in subtasks) for gauge in _GAUGES}
    fields |= {
        f"{share}_ms_per_s": _each(_share(one, f"{share}_ms") for one in subtasks) for share in _SHARES
    }
    fields |= barrier_figures(_times(parts, "start_delay_ms"), _times(parts, "alignment_ms"))
    unaligned = [flag for part in parts for flag in part.unaligned if flag is not None]
    return VertexSteady(
        name=name,
        parallelism=len(subtasks),
        unaligned_share=fmean(unaligned) if unaligned else None,
        buffers_in_per_s=_each(_buffers_per_s(one, passed) for one in subtasks),
        **fields,
    )


def _per_s(subtask: SubtaskSamples, field: str, passed: float | None) -> float | None:
    """How fast a counter grew; by the time of the others where the subtask keeps no account of its own."""
    grown, seconds = subtask.increase(field), subtask.accounted_s
    if seconds is None:
        seconds = subtask.seconds if passed is None else passed
    return None if grown is None or not seconds else grown / seconds


def _share(subtask: SubtaskSamples, field: str) -> float | None:
    """A time per second, where the subtask tells of all its time; a clock of ours would not be exact."""
    return None if subtask.accounted_s is None else subtask.per_s(field)


def _buffers_per_s(subtask: SubtaskSamples, passed: float | None) -> float | None:
    """Of remote and local channels; None where either is not told."""
    remote, local = (_per_s(subtask, f"buffers_in_{where}", passed) for where in ("remote", "local"))
    return None if remote is None or local is None else remote + local


def _of_those_that_took_part(part: VertexCheckpoint, values: Sequence[float | None]) -> list[float | None]:
    return [value for value, end in zip(values, part.end_to_end_ms, strict=False) if end is not None]


def _times(parts: Sequence[VertexCheckpoint], field: str) -> NDArray[np.float64]:
    """Times of a vertex, a row for each checkpoint; none at all if one that took part does not tell.

    Rows are filled up with NaN for the subtasks that took no part.
    """
    rows = [_of_those_that_took_part(part, getattr(part, field)) for part in parts]
    if any(None in row for row in rows):
        return np.empty((0, 0))
    times = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for place, row in enumerate(rows):
        times[place, : len(row)] = row
    return times


def _bytes(checkpoints: Sequence[CheckpointResult], field: str) -> float | None:
    """Median over checkpoints of the sum over subtasks; None if one does not tell."""
    rows = [
        [value for part in found.vertices for value in _of_those_that_took_part(part, getattr(part, field))]
        for found in checkpoints
    ]
    return None if any(None in row for row in rows) else _median(sum(known(row)) for row in rows)


def _median(values: Iterable[float]) -> float | None:
    listed = list(values)
    return round(median(listed), _DECIMALS) if listed else None


def _each(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, _DECIMALS) for value in values]
