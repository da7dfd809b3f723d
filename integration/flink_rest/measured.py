"""What a job shows now, in the fields of our own results, so that both are read alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median

import msgspec

from netstack import CheckpointResult, Steady, VertexCheckpoint, VertexSteady

from .job import FlinkJob
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
    watched = max((one.seconds or 0.0 for subtasks in samples.values() for one in subtasks), default=0.0)
    first = min([checkpoint.t for checkpoint in checkpoints], default=job.age_s)
    durations = [checkpoint.duration_ms for checkpoint in checkpoints if checkpoint.duration_ms is not None]
    steady = Steady(
        from_s=round(max(0.0, min(first, job.age_s)), _DECIMALS),
        to_s=round(job.age_s + watched, _DECIMALS),
        checkpoints=len(checkpoints),
        end_to_end_ms=_median(durations),
        end_to_end_ms_min=min(durations, default=None),
        end_to_end_ms_max=max(durations, default=None),
        processed_bytes=_median(checkpoint.processed_bytes for checkpoint in checkpoints),
        persisted_bytes=_median(checkpoint.persisted_bytes for checkpoint in checkpoints),
        vertices=[
            _vertex(names[vertex.id], samples[vertex.id], [one.vertices[place] for one in checkpoints])
            for place, vertex in enumerate(job.vertices)
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


def _vertex(name: str, subtasks: Sequence[SubtaskSamples], parts: Sequence[VertexCheckpoint]) -> VertexSteady:
    fields = {f"{field}_per_s": _each(one.per_s(field) for one in subtasks) for field in _RATES}
    fields |= {gauge: _each(one.gauge(gauge) for one in subtasks) for gauge in _GAUGES}
    fields |= {f"{share}_ms_per_s": _each(one.per_s(f"{share}_ms") for one in subtasks) for share in _SHARES}
    delays, alignments = (
        [getattr(part, field) for part in parts] for field in ("start_delay_ms", "alignment_ms")
    )
    unaligned = [flag for part in parts for flag in part.unaligned if flag is not None]
    delays_known = [delay for row in delays for delay in _known(row)]
    return VertexSteady(
        name=name,
        parallelism=len(subtasks),
        start_delay_ms=_median(delays_known),
        start_delay_ms_max_subtask=_over(delays, max),
        start_delay_ms_mean_subtask=_over(delays, fmean),
        alignment_ms=_median(time for row in alignments for time in _known(row)),
        alignment_ms_max_subtask=_over(alignments, max),
        unaligned_share=fmean(unaligned) if unaligned else None,
        buffers_in_per_s=_each(_buffers_per_s(one) for one in subtasks),
        **fields,
    )


def _buffers_per_s(subtask: SubtaskSamples) -> float | None:
    """Of remote and local channels."""
    parts = [subtask.per_s(field) for field in ("buffers_in_remote", "buffers_in_local")]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _over(rows: Sequence[list[float | None]], figure: Callable[[list[float]], float]) -> float | None:
    """Median over checkpoints of a figure over the subtasks that took part."""
    return _median(figure(known) for row in rows if (known := _known(row)))


def _known(row: Iterable[float | None]) -> list[float]:
    return [value for value in row if value is not None]


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return round(median(known), _DECIMALS) if known else None


def _each(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, _DECIMALS) for value in values]
