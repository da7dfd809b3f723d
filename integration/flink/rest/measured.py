"""What a job shows now, in the fields of our own results, so that both are read alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median

import msgspec

from netstack import CheckpointResult, Steady, VertexCheckpoint, VertexSteady

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
    fields = {f"{field}_per_s": _each(_per_s(one, field, passed) for one in subtasks) for field in _RATES}
    fields |= {gauge: _each(one.gauge(gauge) for one in subtasks) for gauge in _GAUGES}
    fields |= {
        f"{share}_ms_per_s": _each(_share(one, f"{share}_ms") for one in subtasks) for share in _SHARES
    }
    delays, alignments = (
        [_of_those_that_took_part(part, getattr(part, field)) for part in parts]
        for field in ("start_delay_ms", "alignment_ms")
    )
    unaligned = [flag for part in parts for flag in part.unaligned if flag is not None]
    return VertexSteady(
        name=name,
        parallelism=len(subtasks),
        start_delay_ms=_over_all(delays),
        start_delay_ms_max_subtask=_over(delays, max),
        start_delay_ms_mean_subtask=_over(delays, fmean),
        alignment_ms=_over_all(alignments),
        alignment_ms_max_subtask=_over(alignments, max),
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


def _over(rows: Sequence[list[float | None]], figure: Callable[[list[float]], float]) -> float | None:
    """Median over checkpoints of a figure over the subtasks that took part; None if one does not tell."""
    if any(None in row for row in rows):
        return None
    return _median(figure(_known(row)) for row in rows if row)


def _over_all(rows: Sequence[list[float | None]]) -> float | None:
    """Median over all subtasks of all checkpoints; None if one does not tell."""
    times = [time for row in rows for time in row]
    return None if None in times else _median(_known(times))


def _bytes(checkpoints: Sequence[CheckpointResult], field: str) -> float | None:
    """Median over checkpoints of the sum over subtasks; None if one does not tell."""
    rows = [
        [value for part in found.vertices for value in _of_those_that_took_part(part, getattr(part, field))]
        for found in checkpoints
    ]
    return None if any(None in row for row in rows) else _median(sum(_known(row)) for row in rows)


def _known(row: Iterable[float | None]) -> list[float]:
    return [value for value in row if value is not None]


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return round(median(known), _DECIMALS) if known else None


def _each(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, _DECIMALS) for value in values]
