"""Figures of a Flink job, in the same fields as emulated results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from netstack import CheckpointResult, Steady, VertexCheckpoint, VertexSteady, barrier_figures

from ...base.optional_figures import known, quotient
from .job import FlinkJob
from .polling import METRICS
from .samples import Samples, SubtaskSamples, longer_per_s

_GAUGES = tuple(field for field in METRICS if field in VertexSteady.__struct_fields__)
_RATES = ("records_in", "bytes_in", "records_out", "bytes_out", "buffers_out")
_SHARES = ("busy", "backpressured", "idle")
_TIMES = tuple(field for field in VertexCheckpoint.__struct_fields__ if field.endswith("_ms"))
_DECIMALS = 2


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a Flink job: one window and the last completed checkpoints.

    Vertices have the names and the order of the imported scenario. `from_s` and `to_s` of `steady`, and `t`
    of checkpoints, count from the start of the run. Rates and gauges cover the time in which the metrics were
    watched. Delays cover all checkpoints that were read.
    """

    url: str
    job: str
    job_name: str
    flink: str
    """Flink's version."""
    steady: Steady
    checkpoints: list[CheckpointResult] = []


def measured(url: str, job: FlinkJob, samples: Samples, checkpoints: Sequence[CheckpointResult]) -> Measured:
    """Return the figures of a job."""
    every = [subtask for subtasks in samples.values() for subtask in subtasks]
    watched = max((subtask.seconds or 0.0 for subtask in every), default=0.0)
    passed = _median(subtask.accounted_s for subtask in every if subtask.accounted_s)
    first = min([checkpoint.t for checkpoint in checkpoints], default=job.age_s)
    durations = known(checkpoint.duration_ms for checkpoint in checkpoints)
    steady = Steady(
        from_s=round(max(0.0, min(first, job.age_s)), _DECIMALS),
        to_s=round(job.age_s + watched, _DECIMALS),
        checkpoints=len(checkpoints),
        end_to_end_ms=_median(durations),
        end_to_end_ms_min=min(durations, default=None),
        end_to_end_ms_max=max(durations, default=None),
        processed_bytes=_bytes(checkpoints, "processed_bytes"),
        persisted_bytes=_bytes(checkpoints, "persisted_bytes"),
        vertices=[
            _vertex(
                job.names[vertex.id], samples[vertex.id], [each.vertices[at] for each in checkpoints], passed
            )
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


def reference_of(shown: Measured, from_s: float, to_s: float) -> dict[str, Any]:
    """Return the figures as a document to compare with results.

    Checkpoints are moved so that the last one lies at the end of the emulated window `from_s` to `to_s`.
    """
    reference: dict[str, Any] = msgspec.to_builtins(shown)
    last = max([checkpoint.t for checkpoint in shown.checkpoints], default=0.0)
    for checkpoint in reference["checkpoints"]:
        checkpoint["t"] = max(from_s, to_s - (last - checkpoint["t"]))
    steady = reference["steady"] | {"from_s": from_s, "to_s": to_s}
    return {"steady": [steady], "checkpoints": reference["checkpoints"]}


def _vertex(
    name: str, subtasks: Sequence[SubtaskSamples], parts: Sequence[VertexCheckpoint], passed: float | None
) -> VertexSteady:
    """Return one vertex; `passed` is the time watched, for tasks that do not report their own times."""

    def per_s(subtask: SubtaskSamples, field: str) -> float | None:
        grown, seconds = subtask.increase(field), subtask.accounted_s
        if seconds is None:
            seconds = subtask.seconds if passed is None else passed
        if grown is None or not seconds:
            return None
        return longer_per_s(grown / seconds, seconds, subtask.minute_per_s(field))

    def share(subtask: SubtaskSamples, field: str) -> float | None:
        """Return `field` as a share of the time that the task itself reports, because the client's clock is
        not exact enough.
        """
        seconds = None if subtask.accounted_s is None else subtask.seconds
        per_s = quotient(subtask.increase(field), seconds)
        return None if per_s is None else max(0.0, per_s)  # reported busy times may decrease a little

    def buffers_per_s(subtask: SubtaskSamples) -> float | None:
        remote, local = (per_s(subtask, f"buffers_in_{where}") for where in ("remote", "local"))
        return None if remote is None or local is None else remote + local

    fields: dict[str, Any] = {
        f"{field}_per_s": _rounded(per_s(subtask, field) for subtask in subtasks) for field in _RATES
    }
    fields |= {gauge: _rounded(subtask.gauge(gauge) for subtask in subtasks) for gauge in _GAUGES}
    fields |= {
        f"{part}_ms_per_s": _rounded(share(each, f"{part}_ms") for each in subtasks) for part in _SHARES
    }
    fields |= barrier_figures({field: _times(parts, field) for field in _TIMES})
    unaligned = known(flag for part in parts for flag in part.unaligned)
    return VertexSteady(
        name=name,
        parallelism=len(subtasks),
        unaligned_share=fmean(unaligned) if unaligned else None,
        buffers_in_per_s=_rounded(map(buffers_per_s, subtasks)),
        **fields,
    )


def _of_participants(part: VertexCheckpoint, field: str) -> list[float | None]:
    """Return the values of the subtasks that took part in a checkpoint, and so have a time in it."""
    times = part.end_to_end_ms or part.start_delay_ms
    return [value for value, time in zip(getattr(part, field), times, strict=False) if time is not None]


def _times(parts: Sequence[VertexCheckpoint], field: str) -> NDArray[np.float64]:
    """Return times of a vertex, a row for each checkpoint; empty if a participant does not report its time.

    Rows are padded with NaN for subtasks that took no part.
    """
    rows = [_of_participants(part, field) for part in parts]
    if any(None in row for row in rows):
        return np.empty((0, 0))
    times = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for place, row in enumerate(rows):
        times[place, : len(row)] = row
    return times


def _bytes(checkpoints: Sequence[CheckpointResult], whole: str) -> float | None:
    """Return the median over checkpoints of the sum over subtasks; None if a value is missing.

    `whole` is the field of the sum, which is used if subtasks do not report their parts.
    """
    rows = [
        [value for part in checkpoint.vertices for value in _of_participants(part, f"alignment_{whole}")]
        or [getattr(checkpoint, whole)]
        for checkpoint in checkpoints
    ]
    return None if any(None in row for row in rows) else _median(sum(known(row)) for row in rows)


def _median(values: Iterable[float]) -> float | None:
    listed = list(values)
    return round(median(listed), _DECIMALS) if listed else None


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, _DECIMALS) for value in values]
