"""Handler of aligned checkpoints: decides when to take a checkpoint, and which channels to block until then.

An example with three channels and one checkpoint. A subpartition blocks itself after it has sent a barrier::

    channel 0  --data--|1|......... blocked .........R--data-->
    channel 1  --data----data--|1|. blocked .........R--data-->
    channel 2  --data----data----data----data--data|1|R-data-->
                       ^ first barrier              ^ last: Trigger, then Resume 0, 1, 2
                       |<------ alignment --------->|
       start delay = first barrier - trigger time    bytes = data polled during the alignment

| input | no checkpoint is pending | the current checkpoint is pending |
|---|---|---|
| barrier of an older or ended checkpoint | Resume its channel | Resume its channel |
| barrier of the current checkpoint | as for an ended checkpoint | block, count |
| barrier of a newer checkpoint | start, block, count | Resume all, Abort the current; start, block, count |
| cancel marker of an older checkpoint | | |
| cancel marker of the current checkpoint | | Resume all, Abort it |
| cancel marker of a newer checkpoint | Abort it | Resume all, Abort only the newer; forget the current |
| end of a channel | | count; if checkpoints after tasks finish are disabled: Resume all, Abort |

*count*: count the channel. When every channel that was open at the start is counted, Trigger and Resume all;
no checkpoint is pending any more. At most one checkpoint is pending. `alternating_aligner` handles barriers
and ends differently.
"""

from __future__ import annotations

from collections.abc import Sequence

from .barrier_handler import (
    NO_CHECKPOINT,
    Abort,
    Action,
    AlignmentMetrics,
    AlignmentStart,
    BarrierHandler,
    Resume,
    Trigger,
)
from .errors import LocalProtocolError
from .events import CheckpointBarrier
from .failure_reason import FailureReason

__all__ = ["BarrierAligner"]

NO_BARRIER = CheckpointBarrier(NO_CHECKPOINT, 0.0)
"""The barrier that is stored before the first checkpoint begins."""


class BarrierAligner(BarrierHandler):
    """Handler of aligned checkpoints, one at a time (Flink's SingleCheckpointBarrierHandler).

    It triggers only when the last channel is counted. `AlternatingAligner` handles aligned checkpoints in the
    same way, and also lets barriers overtake data.

    Invariants: at most one checkpoint is pending, and channels are blocked only while a checkpoint is
    pending. The ids of triggered checkpoints strictly increase. Every blocked channel is resumed once, unless
    it ends before.
    """

    __slots__ = ("_aligned", "_barrier", "_blocked", "_start", "_target")

    def __init__(self, channels: int, *, checkpoints_after_tasks_finish: bool = True) -> None:
        super().__init__(channels, checkpoints_after_tasks_finish=checkpoints_after_tasks_finish)
        self._aligned: set[int] = set()
        self._blocked: set[int] = set()
        self._barrier = NO_BARRIER
        self._target = 0  # channels to count for the pending checkpoint; 0 if none is pending
        self._start: AlignmentStart | None = None

    @property
    def pending(self) -> bool:
        """Whether a checkpoint has begun and waits for more barriers."""
        return self._target > 0

    @property
    def blocked(self) -> Sequence[int]:
        """Channels that are blocked behind their barrier, in ascending order."""
        return sorted(self._blocked)

    def barrier(self, channel: int, barrier: CheckpointBarrier, now: float) -> list[Action]:
        """Handle a barrier polled from `channel` at `now`; returns the actions to carry out, in order.

        Raises:
            LocalProtocolError: if the channel has ended or does not exist, or the barrier needs another
                handler. The state is unchanged.
        """
        self._require_open(channel)
        self._require_mine(barrier)
        if self._is_obsolete(barrier):
            return [Resume(channel)] if barrier.options.needs_alignment else []
        actions = self._begin(barrier)
        if barrier.options.needs_alignment:
            self._blocked.add(channel)
        return actions + self._count(channel, barrier, now)

    def cancel(self, channel: int, checkpoint_id: int, now: float) -> list[Action]:
        """Handle a cancel marker polled from `channel`; returns the actions to carry out, in order."""
        self._require_open(channel)
        current = self.current_checkpoint_id
        # As in Flink, a checkpoint that was only announced cannot be cancelled.
        if checkpoint_id > current or (checkpoint_id == current and self._aligned):
            return self._abort(checkpoint_id, FailureReason.DECLINED_ON_CANCELLATION_BARRIER)
        return []

    def end_of_partition(self, channel: int, now: float) -> list[Action]:
        """Handle the end of `channel`; returns the actions to carry out, in order."""
        self._require_open(channel)
        self._ended.add(channel)
        self._blocked.discard(channel)
        if not self.pending:
            return []
        if not self._count_ends:
            return self._abort(self.current_checkpoint_id, FailureReason.DECLINED_INPUT_END_OF_STREAM)
        return self._count(channel, None, now)

    def _require_mine(self, barrier: CheckpointBarrier) -> None:
        """Raise LocalProtocolError if `barrier` needs another handler."""
        if not barrier.options.needs_alignment:
            raise LocalProtocolError(
                f"a gate that aligns barriers got a barrier with alignment {barrier.options.alignment.name}"
            )

    def _counted(
        self, channel: int, barrier: CheckpointBarrier | None, metrics: AlignmentMetrics | None, now: float
    ) -> list[Action]:
        """Return the actions after a channel was counted for `barrier`, or for its end if `barrier` is None.

        `metrics` is given for the last channel only; the caller resumes all blocked channels afterwards.
        """
        return [] if metrics is None else [Trigger(self._barrier, metrics)]

    def _is_obsolete(self, barrier: CheckpointBarrier) -> bool:
        current = self.current_checkpoint_id
        return barrier.checkpoint_id < current or (barrier.checkpoint_id == current and not self.pending)

    def _begin(self, barrier: CheckpointBarrier) -> list[Action]:
        """Start the checkpoint of `barrier` if it is newer than the current one."""
        if barrier.checkpoint_id == self.current_checkpoint_id:
            return []
        actions: list[Action] = []
        if self.pending:
            actions = self._abort(self.current_checkpoint_id, FailureReason.DECLINED_SUBSUMED)
        self.current_checkpoint_id = barrier.checkpoint_id
        self._barrier = barrier
        self._target = self.open_channels
        return actions

    def _count(self, channel: int, barrier: CheckpointBarrier | None, now: float) -> list[Action]:
        """Count `channel` once. The last channel ends the alignment before the Trigger is emitted."""
        if self._start is None:
            self._start = self._timer.start(self._barrier.timestamp, now)
        self._aligned.add(channel)
        if len(self._aligned) < self._target:
            return self._counted(channel, barrier, None, now)
        metrics = self._timer.end(self._start, now)
        return self._counted(channel, barrier, metrics, now) + self._finish()

    def _abort(self, checkpoint_id: int, reason: FailureReason) -> list[Action]:
        # Flink resumes before it reports the abort.
        self.current_checkpoint_id = checkpoint_id
        self._timer.reset()
        return [*self._finish(), Abort(checkpoint_id, reason)]

    def _finish(self) -> list[Action]:
        """End the pending checkpoint; returns a Resume for each blocked channel."""
        resumes: list[Action] = [Resume(channel) for channel in self.blocked]
        self._blocked.clear()
        self._aligned.clear()
        self._target = 0
        self._start = None
        return resumes
