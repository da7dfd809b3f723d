"""How much network memory the task managers have in which a job runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .client import RestClient
from .cluster_job import FlinkJob

_SEGMENTS = "nettyShuffleMemorySegmentsTotal"


def read_network_memory(
    client: RestClient, job: FlinkJob, segment_bytes: int, notes: list[str]
) -> int | None:
    """Return the bytes of network memory of a job's task managers; None where that is not told.

    A scenario has one size for all, so it is the least. `notes` gets a line where they differ, and where
    other jobs have a part of it.
    """
    named = dict.fromkeys(manager for vertex in job.vertices for manager in vertex.managers)
    if not named or None in named:
        return None
    details = {str(name): client.find(f"/taskmanagers/{name}") or {} for name in named}
    sizes = {name: _segments(answer) * segment_bytes for name, answer in details.items()}
    if not all(sizes.values()):
        notes.append("the network memory of the task managers is not told; here it is never short")
        return None
    least = min(sizes, key=lambda name: sizes[name])
    if len(set(sizes.values())) > 1:
        notes.append(f"task managers differ in network memory; here all have that of {least}, the least")
    shared = [name for name, answer in details.items() if _jobs(answer) - {job.id}]
    if shared:
        notes.append(
            f"other jobs use the network memory of {', '.join(shared)} too; here this one has it all"
        )
    return sizes[least]


def _segments(answer: Mapping[str, Any]) -> int:
    total = answer.get("metrics", {}).get(_SEGMENTS)
    return total if isinstance(total, int) and total > 0 else 0


def _jobs(answer: Mapping[str, Any]) -> set[str]:
    return {str(slot.get("jobId")) for slot in answer.get("allocatedSlots", [])}
