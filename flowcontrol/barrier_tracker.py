"""Barriers that block no channel: at-least-once checkpoints.

Since no channel is blocked, a fast channel may be several checkpoints ahead of a slow channel. Before the
task takes checkpoint 1, it may process records that follow barrier 1 in the fast channel. After a restart
from checkpoint 1, it processes them again::

    channel 0  --|1|--data--|2|--data--|3|--data          pending: 1, 2, 3
    channel 1  --data----data----data--|1|--data--|2|     |1| triggers 1, |2| triggers 2

Each pending checkpoint counts channels separately:

| input | tracked checkpoint | checkpoint newer than all seen | any other checkpoint |
|---|---|---|---|
| barrier | count | track it, count | |
| cancel marker | *drop* older; Abort it, count | *drop* all; track it, Abort it, count | *drop* older |
| end of a channel | count for all, newest first | | |

*count*: count the channel. When every channel that was open at the start is counted, Trigger, unless the
checkpoint was aborted. Then forget this checkpoint and all older ones, without an Abort for the older ones.
*drop*: Abort and forget. No checkpoint is aborted twice. If checkpoints after tasks finish are disabled, the
end of a channel *drops* all tracked checkpoints. With one open channel, a barrier triggers its checkpoint at
once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .barrier_handler import Abort, Action, AlignmentStart, BarrierHandler, Trigger
from .errors import LocalProtocolError
from .events import Alignment, CheckpointBarrier
from .failure_reason import FailureReason

__all__ = ["BarrierTracker"]

MAX_TRACKED = 50
"""Maximum number of tracked checkpoints. Beyond it, the oldest checkpoint is forgotten."""


@dataclass(slots=True)
class _Count:
    """The channels counted for one checkpoint; `barrier` and `start` are None after a cancel marker."""

    target: int
    barrier: CheckpointBarrier | None = None
    start: AlignmentStart | None = None
    channels: set[int] = field(default_factory=set)
    aborted: bool = False


class BarrierTracker(BarrierHandler):
    """Barrier handler of at-least-once checkpoints (Flink's CheckpointBarrierTracker).

    The metrics of a Trigger belong to its own checkpoint. As in Flink, `start_delay_s` and `alignment_s`
    refer to the checkpoint that began last. Invariant: the ids of triggered checkpoints strictly increase,
    and no triggered checkpoint is aborted. With one channel left, a barrier also ends all older checkpoints;
    in Flink, the end of the channel could still trigger them.
    """

    __slots__ = ("_pending",)

    def __init__(self, channels: int, *, checkpoints_after_tasks_finish: bool = True) -> None:
        super().__init__(channels, checkpoints_after_tasks_finish=checkpoints_after_tasks_finish)
        self._pending: dict[int, _Count] = {}  # by ascending id

    @property
    def pending(self) -> tuple[int, ...]:
        """The checkpoints that wait for barriers, oldest first, including aborted ones."""
        return tuple(self._pending)

    def barrier(self, channel: int, barrier: CheckpointBarrier, now: float) -> list[Action]:
        """Handle a barrier polled from `channel` at `now`; returns the actions to carry out, in order.

        Raises:
            LocalProtocolError: if the channel has ended or does not exist, or if the barrier is not for
                at-least-once checkpoints. Such a barrier blocks its sender, which this handler never resumes.
                The state is unchanged.
        """
        self._require_open(channel)
        if barrier.options.alignment is not Alignment.AT_LEAST_ONCE:
            raise LocalProtocolError(
                "a gate that runs AT_LEAST_ONCE got a barrier with alignment "
                f"{barrier.options.alignment.name}"
            )
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id > self.current_checkpoint_id:
            start = self._timer.start(barrier.timestamp, now)
            self._track(checkpoint_id, _Count(self.open_channels, barrier, start))
        return self._count(channel, checkpoint_id, now)

    def cancel(self, channel: int, checkpoint_id: int, now: float) -> list[Action]:
        """Handle a cancel marker polled from `channel`; returns the actions to carry out, in order."""
        self._require_open(channel)
        older = [pending for pending in self._pending if pending < checkpoint_id]
        actions = [
            abort
            for pending in older
            for abort in self._abort(pending, FailureReason.DECLINED_ON_CANCELLATION_BARRIER)
        ]
        for pending in older:
            del self._pending[pending]
        if checkpoint_id > self.current_checkpoint_id:
            self._track(checkpoint_id, _Count(self.open_channels))
        if checkpoint_id in self._pending:
            actions += self._abort(checkpoint_id, FailureReason.DECLINED_ON_CANCELLATION_BARRIER)
        return actions + self._count(channel, checkpoint_id, now)

    def end_of_partition(self, channel: int, now: float) -> list[Action]:
        """Handle the end of `channel`; returns the actions to carry out, in order."""
        self._require_open(channel)
        self._ended.add(channel)
        pending = list(self._pending)
        if self._count_ends:
            # The newest checkpoint that is now complete makes the older ones useless.
            return [
                action for checkpoint in reversed(pending) for action in self._count(channel, checkpoint, now)
            ]
        actions = [
            abort
            for checkpoint in pending
            for abort in self._abort(checkpoint, FailureReason.DECLINED_INPUT_END_OF_STREAM)
        ]
        self._pending.clear()
        return actions

    def _track(self, checkpoint_id: int, count: _Count) -> None:
        self.current_checkpoint_id = checkpoint_id
        self._pending[checkpoint_id] = count
        if len(self._pending) > MAX_TRACKED:
            del self._pending[next(iter(self._pending))]

    def _count(self, channel: int, checkpoint_id: int, now: float) -> list[Action]:
        """Count `channel` once, if the checkpoint is tracked. The last channel triggers the checkpoint."""
        count = self._pending.get(checkpoint_id)
        if count is None:
            return []
        count.channels.add(channel)
        if len(count.channels) < count.target:
            return []
        for pending in [pending for pending in self._pending if pending <= checkpoint_id]:
            del self._pending[pending]
        if count.aborted or count.barrier is None or count.start is None:
            return []
        return [Trigger(count.barrier, self._timer.end(count.start, now))]

    def _abort(self, checkpoint_id: int, reason: FailureReason) -> list[Action]:
        """Abort a tracked checkpoint, unless it already is aborted; its barriers are still counted."""
        count = self._pending[checkpoint_id]
        if count.aborted:
            return []
        count.aborted = True
        if count.start is self._timer.running:
            self._timer.reset()
        return [Abort(checkpoint_id, reason)]
