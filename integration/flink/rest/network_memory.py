"""How much network memory the task managers have in which a job runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cluster_job import FlinkJob

_SEGMENTS = "nettyShuffleMemorySegmentsTotal"


def network_memory_of(
    job: FlinkJob, details: Mapping[str, Mapping[str, Any]], segment_bytes: int, notes: list[str]
) -> int | None:
    """Return the bytes of network memory of a job's task managers; None where that is not told.

    `details` are what the task managers say of themselves. A scenario has one size for all, so it is the
    least. `notes` gets a line where they differ, and where other jobs have a part of it.
    """
    if not details:
        return None
    sizes = {name: _segments(answer) * segment_bytes for name, answer in details.items()}
    if not all(sizes.values()):
        notes.append("the network memory of the task managers is not told; here it is never short")
        return None
    least = min(sizes, key=lambda name: sizes[name])
    if len(set(sizes.values())) > 1:
        notes.append(f"task managers differ in network memory; here all have that of {least}, the least")
    shared = [name for name, answer in details.items() if other_jobs(job, answer)]
    if shared:
        notes.append(
            f"other jobs use the network memory of {', '.join(shared)} too; here this one has it all"
        )
    return sizes[least]


def _segments(answer: Mapping[str, Any]) -> int:
    total = answer.get("metrics", {}).get(_SEGMENTS)
    return total if isinstance(total, int) and total > 0 else 0


def other_jobs(job: FlinkJob, answer: Mapping[str, Any]) -> bool:
    """Return whether tasks of other jobs run in the task manager that says this of itself."""
    return any(slot.get("jobId") != job.id for slot in answer.get("allocatedSlots", []))
