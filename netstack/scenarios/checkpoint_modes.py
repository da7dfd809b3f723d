"""The ways in which barriers pass tasks, each declared once, and the types of checkpoints that result.

A row of `BARRIER_MODES` has everything that distinguishes a mode outside its barrier handler: the options
that select it, the alignment of its barriers, its handler, the type of its checkpoints, and its text.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from flowcontrol import Alignment, AlternatingAligner, BarrierHandler, BarrierTracker

__all__ = ["BARRIER_MODES", "BarrierMode", "CheckpointMode", "CheckpointType"]


class CheckpointMode(StrEnum):
    """Guarantee of checkpoints (Flink's CheckpointingMode)."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class CheckpointType(StrEnum):
    """Type of a checkpoint at its end, by Flink's names. An aligned checkpoint may have turned unaligned."""

    CHECKPOINT = "CHECKPOINT"
    """Aligned and exactly-once."""
    UNALIGNED_CHECKPOINT = "UNALIGNED_CHECKPOINT"
    AT_LEAST_ONCE_CHECKPOINT = "AT_LEAST_ONCE_CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    SYNC_SAVEPOINT = "SYNC_SAVEPOINT"
    """A savepoint after which the job stops."""


class BarrierMode(NamedTuple):
    """A way in which barriers pass tasks."""

    guarantee: CheckpointMode
    alignment: Alignment
    """Alignment of the barriers that sources send."""
    handler: Callable[..., BarrierHandler]
    """Class of the barrier handlers of tasks."""
    checkpoint_type: CheckpointType
    """Type of a checkpoint that keeps its alignment."""
    text: str
    """The mode in reports, with the place of the timeout, if any."""
    overtakes: bool = False
    """Whether barriers may overtake data."""
    times_out: bool = False
    """Whether barriers have a timeout, after which they overtake data."""


BARRIER_MODES = (
    BarrierMode(
        CheckpointMode.EXACTLY_ONCE,
        Alignment.ALIGNED,
        AlternatingAligner,
        CheckpointType.CHECKPOINT,
        "exactly once, aligned",
    ),
    BarrierMode(
        CheckpointMode.AT_LEAST_ONCE,
        Alignment.AT_LEAST_ONCE,
        BarrierTracker,
        CheckpointType.AT_LEAST_ONCE_CHECKPOINT,
        "at least once, without alignment",
    ),
    BarrierMode(
        CheckpointMode.EXACTLY_ONCE,
        Alignment.UNALIGNED,
        AlternatingAligner,
        CheckpointType.UNALIGNED_CHECKPOINT,
        "exactly once, unaligned",
        overtakes=True,
    ),
    BarrierMode(
        CheckpointMode.EXACTLY_ONCE,
        Alignment.ALIGNED,
        AlternatingAligner,
        CheckpointType.CHECKPOINT,
        "exactly once, aligned for {timeout} and then unaligned",
        overtakes=True,
        times_out=True,
    ),
)

TYPES_BY_ALIGNMENT = {mode.alignment: mode.checkpoint_type for mode in BARRIER_MODES}
"""Type of a checkpoint whose barriers have an alignment."""

GUARANTEES = {mode.checkpoint_type: mode.guarantee for mode in BARRIER_MODES}
"""Guarantee of a checkpoint, by its type. The type of a savepoint does not tell its guarantee."""

_MODES = {(mode.guarantee, mode.overtakes, mode.times_out): mode for mode in BARRIER_MODES}


def barrier_mode(
    guarantee: CheckpointMode, *, unaligned: bool = False, timeout_s: float = 0.0
) -> BarrierMode:
    """Return the mode that options select. As in Flink, only EXACTLY_ONCE has unaligned checkpoints."""
    overtakes = unaligned and guarantee is CheckpointMode.EXACTLY_ONCE
    return _MODES[guarantee, overtakes, overtakes and timeout_s > 0]
