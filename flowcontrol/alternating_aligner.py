"""Handler of aligned and unaligned checkpoints, and of those that turn unaligned after a timeout.

A checkpoint with a timeout begins aligned. A remote channel announces its barrier before the data that is
queued in front of the barrier. When the timeout is over, the handler can move the barrier to the front::

    channel 0  --|A|--data----data--|1|             A: announcement, polled at once
                  ^ begins          ^ Prioritize on timeout: the data becomes part of the checkpoint

The pending checkpoint is in one of four states. While it is still aligned, it waits for its first barrier (W)
or collects the other barriers (C). After it has turned unaligned, these two states are called WU and CU.
The table uses three actions; an empty cell means no action:

- *block*: the channel sends no more data until the checkpoint ends;
- *overtake*: emit an unaligned Trigger without metrics; the state becomes CU;
- *time out*: emit Prioritize for each announced barrier; in W the state becomes WU, in C then *overtake*.

| input | W | C | WU | CU |
|---|---|---|---|---|
| announcement of a barrier | remember it | remember it | Prioritize | Prioritize |
| aligned barrier before the timeout | block; state C | block | block, overtake | block |
| aligned barrier after the timeout | block, time out, overtake | block, time out | block, overtake | block |
| unaligned barrier | time out, overtake | time out | overtake | |
| end of a channel | | time out, if the timeout is over | | |
| alarm | time out | time out | | |

A barrier or an end counts its channel. The last channel to be counted completes the checkpoint:

- by an aligned barrier or an end in W or C: emit a Trigger with metrics, even after the timeout;
- in all other cases: emit AlignmentEnd after the actions of the table; in WU, an end also *overtakes* before.

After that, and after an abort, all blocked channels are resumed and the state is W.

All other inputs are handled as in the table of `barrier_aligner`. An announcement begins a checkpoint like a
barrier, but does not count its channel. The states correspond to Flink's AlternatingWaitingForFirstBarrier,
AlternatingCollectingBarriers, AlternatingWaitingForFirstBarrierUnaligned and
AlternatingCollectingBarriersUnaligned.
"""

from __future__ import annotations

from enum import Enum, auto

from .barrier_aligner import BarrierAligner
from .barrier_handler import (
    Abort,
    Action,
    Alarm,
    AlignmentEnd,
    AlignmentMetrics,
    Prioritize,
    Trigger,
)
from .errors import LocalProtocolError
from .events import Alignment, CheckpointBarrier
from .failure_reason import FailureReason

__all__ = ["AlternatingAligner", "AlternatingState"]


class AlternatingState(Enum):
    """Progress of the pending checkpoint; WAITING if there is none."""

    WAITING = auto()
    COLLECTING = auto()
    WAITING_UNALIGNED = auto()
    COLLECTING_UNALIGNED = auto()


class AlternatingAligner(BarrierAligner):
    """Handler of aligned and unaligned checkpoints (Flink's alternating handler).

    Invariants, besides those of the base class: an unaligned Trigger has no metrics, and one AlignmentEnd or
    one Abort of its checkpoint follows. An aligned Trigger is emitted when the last channel is counted. Each
    barrier that did not overtake data blocks its channel, even if the checkpoint turns unaligned. `state`:
    progress of the pending checkpoint.
    """

    __slots__ = ("_announced", "_forced", "state")

    def __init__(self, channels: int, *, checkpoints_after_tasks_finish: bool = True) -> None:
        super().__init__(channels, checkpoints_after_tasks_finish=checkpoints_after_tasks_finish)
        self.state = AlternatingState.WAITING
        self._announced: dict[int, int] = {}
        self._forced: CheckpointBarrier | None = None

    def barrier(self, channel: int, barrier: CheckpointBarrier, now: float) -> list[Action]:
        """Handle a barrier polled from `channel` at `now`; returns the actions to carry out, in order.

        Raises:
            LocalProtocolError: if the channel has ended or does not exist, or the barrier is for
                at-least-once checkpoints, which need another handler. The state is unchanged.
        """
        before = self.current_checkpoint_id
        actions = super().barrier(channel, barrier, now)
        return actions + self._set_alarm(before, now)

    def announcement(
        self, channel: int, barrier: CheckpointBarrier, sequence_number: int, now: float
    ) -> list[Action]:
        """Handle the announcement of `barrier`, which is queued in `channel` as the buffer with
        `sequence_number`.

        Raises:
            LocalProtocolError: as for `barrier`.
        """
        self._require_open(channel)
        self._require_mine(barrier)
        if self._is_obsolete(barrier):
            return []
        before = self.current_checkpoint_id
        actions = self._begin(barrier)
        if self._may_align:
            self._announced[channel] = sequence_number
        else:
            actions.append(Prioritize(channel, sequence_number))
        return actions + self._set_alarm(before, now)

    def alarm(self, checkpoint_id: int, now: float) -> list[Action]:
        """Time out the checkpoint if it is still aligned; called when the delay of its Alarm is over."""
        if checkpoint_id != self.current_checkpoint_id or not self.pending or not self._may_align:
            return []
        return self._time_out()

    @property
    def _may_align(self) -> bool:
        return self.state in (AlternatingState.WAITING, AlternatingState.COLLECTING)

    def _require_mine(self, barrier: CheckpointBarrier) -> None:
        if not (barrier.options.needs_alignment or barrier.options.is_unaligned):
            alignment = barrier.options.alignment.name
            raise LocalProtocolError(f"a gate whose barriers may overtake data got an {alignment} barrier")

    def _counted(
        self, channel: int, barrier: CheckpointBarrier | None, metrics: AlignmentMetrics | None, now: float
    ) -> list[Action]:
        self._announced.pop(channel, None)
        if barrier is not None and barrier.options.alignment is Alignment.FORCED_ALIGNED:
            self._forced = barrier
        overtakes = barrier is not None and barrier.options.is_unaligned
        if self._may_align and metrics is not None and not overtakes:
            return [Trigger(self._forced or self._barrier, metrics)]
        actions = self._time_out() if overtakes or self._is_too_late(barrier, now) else []
        if self.state is AlternatingState.WAITING and barrier is not None:
            self.state = AlternatingState.COLLECTING
        if self.state is AlternatingState.WAITING_UNALIGNED and (barrier is not None or metrics is not None):
            actions.append(self._overtake())
        if metrics is not None:
            actions.append(AlignmentEnd(self.current_checkpoint_id, metrics))
        return actions

    def _is_too_late(self, barrier: CheckpointBarrier | None, now: float) -> bool:
        """Whether the checkpoint has aligned for longer than its timeout; `barrier` is None at the end of a
        channel.
        """
        if barrier is None:
            return self.state is AlternatingState.COLLECTING and _time_left(self._barrier, now) < 0
        return self._may_align and _time_left(barrier, now) < 0

    def _time_out(self) -> list[Action]:
        """Turn the checkpoint unaligned, unless it already is unaligned."""
        if not self._may_align:
            return []
        actions: list[Action] = [Prioritize(*announced) for announced in self._announced.items()]
        self._announced.clear()
        if self.state is AlternatingState.COLLECTING:
            actions.append(self._overtake())
        else:
            self.state = AlternatingState.WAITING_UNALIGNED
        return actions

    def _overtake(self) -> Trigger:
        self.state = AlternatingState.COLLECTING_UNALIGNED
        return Trigger(self._barrier.as_unaligned(), None)

    def _set_alarm(self, before: int, now: float) -> list[Action]:
        """Return an Alarm if a new checkpoint has begun since `before` and is still aligning."""
        current = self.current_checkpoint_id
        if current == before or not self.pending or not self._may_align:
            return []
        if not self._barrier.options.timeoutable:
            return []
        return [Alarm(current, max(_time_left(self._barrier, now), 0.0))]

    def _abort(self, checkpoint_id: int, reason: FailureReason) -> list[Action]:
        current = self.current_checkpoint_id
        triggered = self.state is AlternatingState.COLLECTING_UNALIGNED
        actions = super()._abort(checkpoint_id, reason)
        if triggered and checkpoint_id != current:
            # Without this Abort, the current checkpoint would wait for in-flight data that never arrives.
            actions.insert(-1, Abort(current, FailureReason.DECLINED_SUBSUMED))
        return actions

    def _finish(self) -> list[Action]:
        self.state = AlternatingState.WAITING
        self._announced.clear()
        self._forced = None
        return super()._finish()


def _time_left(barrier: CheckpointBarrier, now: float) -> float:
    """Return the seconds until the checkpoint turns unaligned; infinite if it has no timeout."""
    options = barrier.options
    if options.timeout_s is None or not options.timeoutable:
        return float("inf")
    return options.timeout_s - (now - barrier.timestamp)
