"""What a job shows now, its metrics and checkpoints, in the fields of our own results, to be read alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from netstack import CheckpointResult, Steady, VertexCheckpoint, VertexSteady, barrier_figures

from ...analysis.known_values import known
from .client import RestClient
from .cluster_job import FlinkJob, FlinkVertex
from .loads import longer_per_s
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

CHECKPOINTS = 10
"""How many of the last ones are read; earlier ones may be of another load."""

COMPLETED = "COMPLETED"

NOT_TOLD = "UNKNOWN"
"""Type of a checkpoint of which the cluster does not say it."""


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
        processed_bytes=_bytes(checkpoints, "alignment_processed_bytes"),
        persisted_bytes=_bytes(checkpoints, "alignment_persisted_bytes"),
        vertices=[
            _vertex(names[vertex.id], samples[vertex.id], [each.vertices[at] for each in checkpoints], passed)
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
        f"{field}_per_s": _each(_per_s(subtask, field, passed) for subtask in subtasks) for field in _RATES
    }
    fields |= {gauge: _each(subtask.gauge(gauge) for subtask in subtasks) for gauge in _GAUGES}
    fields |= {
        f"{share}_ms_per_s": _each(_share(subtask, f"{share}_ms") for subtask in subtasks)
        for share in _SHARES
    }
    fields |= barrier_figures(_times(parts, "start_delay_ms"), _times(parts, "alignment_ms"))
    unaligned = known(flag for part in parts for flag in part.unaligned)
    return VertexSteady(
        name=name,
        parallelism=len(subtasks),
        unaligned_share=fmean(unaligned) if unaligned else None,
        buffers_in_per_s=_each(_buffers_per_s(subtask, passed) for subtask in subtasks),
        **fields,
    )


def _per_s(subtask: SubtaskSamples, field: str, passed: float | None) -> float | None:
    """How fast a counter grew, in the minute before as well where Flink's meter tells.

    By the time of the others where the subtask keeps no account of its own.
    """
    grown, seconds = subtask.increase(field), subtask.accounted_s
    if seconds is None:
        seconds = subtask.seconds if passed is None else passed
    if grown is None or not seconds:
        return None
    return longer_per_s(grown / seconds, seconds, subtask.minute_per_s(field))


def _share(subtask: SubtaskSamples, field: str) -> float | None:
    """A time per second, where the subtask tells of all its time; a clock of ours would not be exact."""
    share = None if subtask.accounted_s is None else subtask.per_s(field)
    return None if share is None else max(0.0, share)  # a busy time may step back a little


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
        [
            value
            for part in checkpoint.vertices
            for value in _of_those_that_took_part(part, getattr(part, field))
        ]
        for checkpoint in checkpoints
    ]
    return None if any(None in row for row in rows) else _median(sum(known(row)) for row in rows)


def _median(values: Iterable[float]) -> float | None:
    listed = list(values)
    return round(median(listed), _DECIMALS) if listed else None


def _each(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value, _DECIMALS) for value in values]


def read_checkpoints(
    client: RestClient,
    job: FlinkJob,
    names: Mapping[str, str],
    seen: dict[int, CheckpointResult | None] | None = None,
) -> list[CheckpointResult]:
    """Return the last completed checkpoints in order of their ids, savepoints left out.

    Those from before the job last began to run are left out too: then it may have had another load, or shape.
    `names` are the names of vertices by their ids; vertices stand in the job's order. Times count from when
    the job began to run. A checkpoint whose details are gone is left out. What was `seen` before,
    by its id, is not asked again, and what is read now is added to it.
    """
    answer = client.find(f"/jobs/{job.id}/checkpoints") or {}
    entries = [
        entry
        for entry in answer.get("history", ())
        if entry["status"] == COMPLETED
        and not entry.get("is_savepoint")
        and entry["trigger_timestamp"] >= job.running_since_ms
    ]
    last = sorted(entries, key=lambda entry: int(entry["id"]))[-CHECKPOINTS:]
    read = {} if seen is None else seen
    for entry in last:
        if entry["id"] not in read:
            read[entry["id"]] = _checkpoint(client, job, entry, names)
    return [checkpoint for entry in last if (checkpoint := read[entry["id"]]) is not None]


def _checkpoint(
    client: RestClient, job: FlinkJob, entry: Mapping[str, Any], names: Mapping[str, str]
) -> CheckpointResult | None:
    vertices = [
        _vertex_checkpoint(client, job, entry["id"], vertex, names[vertex.id]) for vertex in job.vertices
    ]
    if not any(vertex.start_delay_ms for vertex in vertices):
        return None
    checkpoint = CheckpointResult(
        id=entry["id"],
        t=(entry["trigger_timestamp"] - job.running_since_ms) / 1e3,
        checkpoint_type=entry.get("checkpoint_type", NOT_TOLD),
        duration_ms=float(entry["end_to_end_duration"]),
        state_bytes=entry.get("state_size", 0),
        processed_bytes=entry.get("processed_data", 0),
        persisted_bytes=entry.get("persisted_data", 0),
        vertices=vertices,
    )
    msgspec.convert(msgspec.to_builtins(checkpoint), CheckpointResult)  # whatever was answered is of its type
    return checkpoint


def _vertex_checkpoint(
    client: RestClient, job: FlinkJob, checkpoint: int, vertex: FlinkVertex, name: str
) -> VertexCheckpoint:
    path = f"/jobs/{job.id}/checkpoints/details/{checkpoint}/subtasks/{vertex.id}"
    answer = client.find(path, may_be_gone=True) or {}
    by_index = {
        entry["index"]: entry for entry in answer.get("subtasks", ()) if entry.get("status") == "completed"
    }
    if not by_index:
        return VertexCheckpoint(name=name)
    subtasks = [by_index.get(subtask) for subtask in range(vertex.parallelism)]

    def each(*path: str) -> list[Any]:
        return [None if subtask is None else _within(subtask, path) for subtask in subtasks]

    return VertexCheckpoint(
        name=name,
        end_to_end_ms=each("end_to_end_duration"),
        start_delay_ms=each("start_delay"),
        alignment_ms=each("alignment", "duration"),
        sync_ms=each("checkpoint", "sync"),
        async_ms=each("checkpoint", "async"),
        alignment_processed_bytes=each("alignment", "processed"),
        alignment_persisted_bytes=each("alignment", "persisted"),
        unaligned=each("unaligned_checkpoint"),
    )


def _within(entry: Any, path: tuple[str, ...]) -> Any:
    """A value within an answer; None: it is not told, for which Flink may write -1."""
    for key in path:
        entry = entry.get(key) if isinstance(entry, Mapping) else None
    return None if isinstance(entry, int | float) and entry < 0 else entry
