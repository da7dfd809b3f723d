"""The last checkpoints of a Flink job, in the same fields as emulated ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from netstack import CheckpointResult, VertexCheckpoint

from ..http.answers import number
from ..http.client import RestClient
from .job import FlinkJob, FlinkVertex

CHECKPOINTS = 10
"""Number of recent checkpoints that are read. Earlier ones may belong to another load."""


def read_checkpoints(
    client: RestClient, job: FlinkJob, seen: dict[int, CheckpointResult | None] | None = None
) -> list[CheckpointResult]:
    """Return the last completed checkpoints in order of their ids, without savepoints.

    Checkpoints from before the job's last start are left out, because its load or shape may have differed.
    Checkpoints whose details Flink no longer has are left out too. Times count from the start of the run, and
    vertices are in the job's order. `seen` has known checkpoints by id, which are not requested again. Those
    read now are added to `seen`.
    """
    last = _since_start(client, job, "COMPLETED")[-CHECKPOINTS:]
    read = {} if seen is None else seen
    for entry in last:
        if entry["id"] not in read:
            read[entry["id"]] = _read_checkpoint(client, job, entry)
    return [checkpoint for entry in last if (checkpoint := read[entry["id"]]) is not None]


class EndedCheckpoints(NamedTuple):
    """Number of the last checkpoints that completed or failed, at most `CHECKPOINTS`, and of failed ones.

    `completed` counts all checkpoints of the job that have completed, and 90 % of them took at most `p90_ms`;
    None: not reported.
    """

    number: int = 0
    failed: int = 0
    completed: int = 0
    p90_ms: float | None = None


def read_ended_checkpoints(client: RestClient, job: FlinkJob) -> EndedCheckpoints:
    """Return how many of the last checkpoints failed, without savepoints, since the job's last start."""
    ended = _since_start(client, job, "COMPLETED", "FAILED")[-CHECKPOINTS:]
    answer = client.find(f"/jobs/{job.id}/checkpoints") or {}
    completed = number(_within(answer, ("counts", "completed"))) or 0.0
    p90_ms = number(_within(answer, ("summary", "end_to_end_duration", "p90")))
    failed = sum(entry["status"] == "FAILED" for entry in ended)
    return EndedCheckpoints(len(ended), failed, int(completed), p90_ms if completed else None)


def _since_start(client: RestClient, job: FlinkJob, *statuses: str) -> list[Mapping[str, Any]]:
    """Return the checkpoints with one of these statuses since the job's last start, without savepoints.

    They are in order of their ids.
    """
    answer = client.find(f"/jobs/{job.id}/checkpoints") or {}
    entries = [
        entry
        for entry in answer.get("history", ())
        if entry["status"] in statuses
        and not entry.get("is_savepoint")
        and entry["trigger_timestamp"] >= job.running_since_ms
    ]
    return sorted(entries, key=lambda entry: int(entry["id"]))


def _read_checkpoint(client: RestClient, job: FlinkJob, entry: Mapping[str, Any]) -> CheckpointResult | None:
    path = f"/jobs/{job.id}/checkpoints/details/{entry['id']}/subtasks"
    answers = client.find_all([f"{path}/{vertex.id}" for vertex in job.vertices], may_be_gone=True)
    vertices = [
        _vertex_checkpoint(job, vertex, answer or {})
        for vertex, answer in zip(job.vertices, answers, strict=True)
    ]
    if not any(vertex.start_delay_ms for vertex in vertices):
        return None
    checkpoint = CheckpointResult(
        id=entry["id"],
        t=(entry["trigger_timestamp"] - job.running_since_ms) / 1e3,
        checkpoint_type=entry.get("checkpoint_type", "UNKNOWN"),
        duration_ms=float(entry["end_to_end_duration"]),
        state_bytes=entry.get("state_size", 0),
        processed_bytes=entry.get("processed_data", 0),
        persisted_bytes=entry.get("persisted_data", 0),
        vertices=vertices,
    )
    msgspec.convert(msgspec.to_builtins(checkpoint), CheckpointResult)  # checks the types of the answers
    return checkpoint


def _vertex_checkpoint(job: FlinkJob, vertex: FlinkVertex, answer: Mapping[str, Any]) -> VertexCheckpoint:
    by_index = {
        entry["index"]: entry for entry in answer.get("subtasks", ()) if entry.get("status") == "completed"
    }
    if not by_index:
        return VertexCheckpoint(name=job.names[vertex.id])

    def each(*path: str) -> list[Any]:
        return [_within(by_index.get(subtask), path) for subtask in range(vertex.parallelism)]

    return VertexCheckpoint(
        name=job.names[vertex.id],
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
    """Return a value within an answer; None: not reported (Flink may report -1)."""
    for key in path:
        entry = entry.get(key) if isinstance(entry, Mapping) else None
    return None if isinstance(entry, int | float) and entry < 0 else entry
