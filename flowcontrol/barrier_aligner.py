"""Barriers over the channels of a task: when does a checkpoint begin, and who has to wait for it.

Three channels, one checkpoint; a subpartition blocks itself behind the barrier it has sent::

    channel 0  --data--|1|......... blocked .........R--data-->
    channel 1  --data----data--|1|. blocked .........R--data-->
    channel 2  --data----data----data----data--data|1|R-data-->
                       ^ first barrier              ^ last: Trigger, then Resume 0, 1, 2
                       |<------ alignment --------->|
       start delay = first barrier - trigger time    bytes = data polled in between

| | nothing pending | a checkpoint pending |
|---|---|---|
| barrier of an older or a finished checkpoint | Resume its channel | Resume its channel |
| barrier of the current checkpoint | (is finished) | block, count |
| barrier of a newer one | start, block, count | Resume all, Abort the current one; then as if nothing were |
| cancel of an older one | | |
| cancel of the current one | | Resume all, Abort it |
| cancel of a newer one | Abort it | Resume all, Abort it; the current one ends untold |
| end of a channel | | count, or Resume all, Abort where finished tasks take no checkpoints |

*count*: when every channel that was open at the start has counted, Trigger and Resume all: nothing is
pending again. The table is that of one checkpoint at a time; `alternating` changes what a barrier does
in it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from .barrier_handler import (
    NO_CHECKPOINT,
    Abort,
    AbortReason,
    Action,
    AlignmentMetrics,
    AlignmentStart,
    BarrierHandler,
    Resume,
    Trigger,
)
from .errors import LocalProtocolError
from .events import CheckpointBarrier

NO_BARRIER = CheckpointBarrier(NO_CHECKPOINT, 0.0)
"""Stands where no checkpoint has begun."""


class SingleCheckpointHandler(BarrierHandler):
    """Exactly-once checkpoints, one at a time (Flink's SingleBarrierHandler).

    Invariant: at most one checkpoint is pending, and only while it is are channels blocked; ids that
    are triggered strictly increase; every blocked channel is resumed once, unless it ends before.
    """

    __slots__ = ("_aligned", "_barrier", "_blocked", "_start", "_target")

    def __init__(self, channels: int, *, checkpoints_after_tasks_finish: bool = True) -> None:
        super().__init__(channels, checkpoints_after_tasks_finish=checkpoints_after_tasks_finish)
        self._aligned: set[int] = set()
        self._blocked: set[int] = set()
        self._barrier = NO_BARRIER
        self._target = 0  # channels to count for the pending checkpoint; 0 while there is none
        self._start: AlignmentStart | None = None

    @property
    def pending(self) -> bool:
        """Whether a checkpoint waits for barriers."""
        return self._target > 0

    @property
    def blocked(self) -> Sequence[int]:
        """The channels that wait behind their barrier, in order."""
        return sorted(self._blocked)

    def barrier(self, channel: int, barrier: CheckpointBarrier, now: float) -> list[Action]:
        """Take note of a barrier polled from `channel` at `now`; what to do, in order.

        Raises:
            LocalProtocolError: if the channel has ended or does not exist, or the barrier is not one
                for this handler. Nothing has changed.
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
        """Take note of a cancel marker polled from `channel`; what to do, in order.

        Raises:
            LocalProtocolError: if the channel has ended or does not exist.
        """
        self._require_open(channel)
        current = self.current_checkpoint_id
        # As in Flink, a checkpoint that was only announced cannot be cancelled.
        if checkpoint_id > current or (checkpoint_id == current and self._aligned):
            return self._abort(checkpoint_id, AbortReason.CANCELLED)
        return []

    def end_of_partition(self, channel: int, now: float) -> list[Action]:
        """Take note that `channel` has ended; what to do, in order.

        Raises:
            LocalProtocolError: if it had ended before or does not exist.
        """
        self._require_open(channel)
        self._ended.add(channel)
        self._blocked.discard(channel)
        if not self.pending:
            return []
        if not self._count_ends:
            return self._abort(self.current_checkpoint_id, AbortReason.INPUT_ENDED)
        return self._count(channel, None, now)

    @abstractmethod
    def _require_mine(self, barrier: CheckpointBarrier) -> None:
        """Raise LocalProtocolError if the task has the wrong handler for `barrier`."""

    @abstractmethod
    def _counted(
        self, channel: int, barrier: CheckpointBarrier | None, metrics: AlignmentMetrics | None, now: float
    ) -> list[Action]:
        """Act on a channel that was counted for its `barrier`, or None for its end.

        `metrics` are given with the last channel; all blocked channels are resumed afterwards.
        """

    def _is_obsolete(self, barrier: CheckpointBarrier) -> bool:
        current = self.current_checkpoint_id
        return barrier.checkpoint_id < current or (barrier.checkpoint_id == current and not self.pending)

    def _begin(self, barrier: CheckpointBarrier) -> list[Action]:
        """Make `barrier` that of the pending checkpoint, if it is a newer one."""
        if barrier.checkpoint_id == self.current_checkpoint_id:
            return []
        actions = self._abort(self.current_checkpoint_id, AbortReason.SUBSUMED) if self.pending else []
        self.current_checkpoint_id = barrier.checkpoint_id
        self._barrier = barrier
        self._target = self.open_channels
        return actions

    def _count(self, channel: int, barrier: CheckpointBarrier | None, now: float) -> list[Action]:
        """Count `channel`, once; the alignment has ended before anything is triggered."""
        if self._start is None:
            self._start = self._timer.start(self._barrier.timestamp, now)
        self._aligned.add(channel)
        if len(self._aligned) < self._target:
            return self._counted(channel, barrier, None, now)
        metrics = self._timer.end(self._start, now)
        return self._counted(channel, barrier, metrics, now) + self._finish()

    def _abort(self, checkpoint_id: int, reason: AbortReason) -> list[Action]:
        # Flink resumes before it reports the abort.
        self.current_checkpoint_id = checkpoint_id
        self._timer.reset()
        return [*self._finish(), Abort(checkpoint_id, reason)]

    def _finish(self) -> list[Action]:
        """Leave nothing pending, and resume all blocked channels."""
        resumes: list[Action] = [Resume(channel) for channel in self.blocked]
        self._blocked.clear()
        self._aligned.clear()
        self._target = 0
        self._start = None
        return resumes


class BarrierAligner(SingleCheckpointHandler):
    """Aligned exactly-once checkpoints: triggered with the last barrier, never before."""

    __slots__ = ()

    def _require_mine(self, barrier: CheckpointBarrier) -> None:
        if not barrier.options.needs_alignment:
            raise LocalProtocolError(
                f"an aligning gate got a barrier that is {barrier.options.alignment.name}"
            )

    def _counted(
        self, channel: int, barrier: CheckpointBarrier | None, metrics: AlignmentMetrics | None, now: float
    ) -> list[Action]:
        return [] if metrics is None else [Trigger(self._barrier, metrics)]
