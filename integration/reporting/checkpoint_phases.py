"""Where the time of a checkpoint went: phase by phase, in each subtask.

A checkpoint lasts until the last acknowledgement has arrived, so it is the phases of the subtask which sent
that one that add up to its duration; the longest phases of all subtasks would not::

    trigger |-- start delay --|-- alignment --|- sync -|-- async --|- acknowledgement -| complete

An unaligned part takes its snapshot at the first barrier (or when its timeout is over), and stores it while
the barriers come in: its sync and async run beside its alignment. Here, of these two, an unaligned part has
what comes after the alignment, so that phases still follow one another; `SubtaskPart.sync_ms` and
`async_ms` are as they were measured, from beginning to end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from netstack import CheckpointResult, Result, VertexCheckpoint

START_DELAY, ALIGNMENT, SYNC, ASYNC = "start delay", "alignment", "sync", "async"
ACKNOWLEDGEMENT = "acknowledgement"
PHASES = (START_DELAY, ALIGNMENT, SYNC, ASYNC, ACKNOWLEDGEMENT)
"""In the order in which they come."""

COMPLETED, FAILED = "COMPLETED", "FAILED"

PLAIN_TYPE = "CHECKPOINT"
"""Flink's name of the type of a checkpoint that is aligned and exactly-once."""


class SubtaskPart(NamedTuple):
    """One subtask's part in a checkpoint, which it has acknowledged; times in milliseconds."""

    vertex: str
    subtask: int
    phases: tuple[float, ...]
    """How long each of `PHASES` was; together `end_to_end_ms`."""
    end_to_end_ms: float
    """From the trigger until the acknowledgement had arrived."""
    sync_ms: float
    async_ms: float
    processed_bytes: int
    """Read during alignment."""
    persisted_bytes: int
    """Of data in flight."""
    unaligned: bool


def subtask_parts(checkpoint: CheckpointResult) -> Iterator[SubtaskPart]:
    """Yield the parts of all subtasks that acknowledged, in the order of the result."""
    for vertex in checkpoint.vertices:
        for subtask in range(len(vertex.end_to_end_ms)):
            part = _part(vertex, subtask)
            if part is not None:
                yield part


def last_part(checkpoint: CheckpointResult) -> SubtaskPart | None:
    """Return the part of the subtask that acknowledged last; None if none did."""
    return max(subtask_parts(checkpoint), key=lambda part: part.end_to_end_ms, default=None)


def of_status(result: Result, status: str) -> list[CheckpointResult]:
    """Return the checkpoints of a result that have this status."""
    return [checkpoint for checkpoint in result.checkpoints if checkpoint.status == status]


def typical_checkpoint(result: Result) -> CheckpointResult | None:
    """Return the completed checkpoint of the last window whose duration is the median, the shorter of two."""
    steady = result.steady[-1]
    inside = [
        checkpoint
        for checkpoint in of_status(result, COMPLETED)
        if steady.from_s <= checkpoint.t <= steady.to_s
    ]
    inside.sort(key=lambda checkpoint: checkpoint.duration_ms or 0.0)
    return inside[(len(inside) - 1) // 2] if inside else None


def _part(vertex: VertexCheckpoint, subtask: int) -> SubtaskPart | None:
    end_to_end = vertex.end_to_end_ms[subtask]
    if end_to_end is None:
        return None
    delay, alignment, sync, asynchronous = (
        _at(values, subtask)
        for values in (vertex.start_delay_ms, vertex.alignment_ms, vertex.sync_ms, vertex.async_ms)
    )
    unaligned = bool(_at(vertex.unaligned, subtask))
    beside = alignment if unaligned else 0.0
    measured = (delay, alignment, *_after(beside, sync, asynchronous))
    acknowledgement = max(0.0, end_to_end - sum(measured))
    return SubtaskPart(
        vertex=vertex.name,
        subtask=subtask,
        phases=(*measured, acknowledgement),
        end_to_end_ms=end_to_end,
        sync_ms=sync,
        async_ms=asynchronous,
        processed_bytes=int(_at(vertex.alignment_processed_bytes, subtask)),
        persisted_bytes=int(_at(vertex.alignment_persisted_bytes, subtask)),
        unaligned=unaligned,
    )


def _after(beside_ms: float, sync_ms: float, async_ms: float) -> tuple[float, float]:
    """What is left of sync and async after the first `beside_ms` of them."""
    late_sync = max(0.0, sync_ms - beside_ms)
    return late_sync, max(0.0, async_ms - max(0.0, beside_ms - sync_ms))


def _at(values: list[float | None] | list[int | None] | list[bool | None], subtask: int) -> float:
    value = values[subtask] if subtask < len(values) else None
    return float(value or 0)
