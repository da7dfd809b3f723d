"""The last completed checkpoints of a job, in the fields of our own results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netstack import CheckpointResult, VertexCheckpoint

from .client import RestClient
from .cluster_job import FlinkJob, FlinkVertex

CHECKPOINTS = 10
"""How many of the last ones are read; earlier ones may be of another load."""

COMPLETED = "COMPLETED"

NOT_TOLD = "UNKNOWN"
"""Type of a checkpoint of which the cluster does not say it."""


def read_checkpoints(client: RestClient, job: FlinkJob, names: Mapping[str, str]) -> list[CheckpointResult]:
    """Return the last completed checkpoints in order of their ids, savepoints left out.

    `names` are the names of vertices by their ids; vertices stand in the job's order. Times count from when
    the job began to run. A checkpoint whose details are gone is left out.
    """
    answer = client.find(f"/jobs/{job.id}/checkpoints") or {}
    entries = [
        entry
        for entry in answer.get("history", ())
        if entry["status"] == COMPLETED and not entry.get("is_savepoint")
    ]
    last = sorted(entries, key=lambda entry: int(entry["id"]))[-CHECKPOINTS:]
    found = (_checkpoint(client, job, entry, names) for entry in last)
    return [checkpoint for checkpoint in found if checkpoint is not None]


def _checkpoint(
    client: RestClient, job: FlinkJob, entry: Mapping[str, Any], names: Mapping[str, str]
) -> CheckpointResult | None:
    vertices = [_vertex(client, job, entry["id"], vertex, names[vertex.id]) for vertex in job.vertices]
    if not any(vertex.start_delay_ms for vertex in vertices):
        return None
    return CheckpointResult(
        id=entry["id"],
        t=(entry["trigger_timestamp"] - job.running_since_ms) / 1e3,
        checkpoint_type=entry.get("checkpoint_type", NOT_TOLD),
        duration_ms=float(entry["end_to_end_duration"]),
        state_bytes=entry.get("state_size", 0),
        processed_bytes=entry.get("processed_data", 0),
        persisted_bytes=entry.get("persisted_data", 0),
        vertices=vertices,
    )


def _vertex(
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
    for key in path:
        entry = entry.get(key) if isinstance(entry, Mapping) else None
    return entry
