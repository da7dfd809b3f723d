"""What a subtask reports of its part in a checkpoint."""

from __future__ import annotations

from typing import NamedTuple

from flowcontrol import AlignmentMetrics

from ..state.snapshots import SubtaskSnapshot


class Acknowledgement(NamedTuple):
    """The part of one subtask in a checkpoint; times in seconds.

    `unaligned`: whether its barrier had overtaken data when the snapshot was taken.
    """

    checkpoint_id: int
    metrics: AlignmentMetrics
    sync_s: float
    snapshot: SubtaskSnapshot
    async_s: float = 0.0
    unaligned: bool = False
