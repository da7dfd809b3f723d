"""Barriers over the channels of a gate: when does a checkpoint begin, and who has to wait for it.

Three channels, one checkpoint; a subpartition blocks itself behind the barrier it has sent::

    channel 0  --data--|1|......... blocked .........R--data-->
    channel 1  --data----data--|1|. blocked .........R--data-->
    channel 2  --data----data----data----data--data|1|R-data-->
                       ^ first barrier              ^ last: Trigger, then Resume 0, 1, 2
                       |<------ alignment --------->|
       start delay = first barrier - trigger time    bytes = data polled in between

| | IDLE | ALIGNING |
|---|---|---|
| barrier of an older or a finished checkpoint | Resume its channel | Resume its channel |
| barrier of the current checkpoint | (is finished) | block, count |
| barrier of a newer one | start, block, count | Resume all, Abort the current one; as in IDLE |
| cancel of an older one | | |
| cancel of the current one | | Resume all, Abort it |
| cancel of a newer one | Abort it | Resume all, Abort it; the current one ends untold |
| end of a channel | | count, or Resume all, Abort where finished tasks take no checkpoints |

*count*: when every channel that was open at the start has counted, Trigger and Resume all: IDLE again.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

import msgspec

from .errors import LocalProtocolError
from .events import CheckpointBarrier

NO_CHECKPOINT = -1
"""The id before the first checkpoint."""


class AbortReason(Enum):
    """Why a checkpoint was given up; the values are Flink's CheckpointFailureReason names."""

    SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
    CANCELLED = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
    INPUT_ENDED = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"


class AlignmentMetrics(msgspec.Struct, frozen=True):
    """What a checkpoint cost at this gate.

    `start_delay_s`: trigger to first barrier. `alignment_s`: first to last barrier.
    `bytes_processed`: bytes polled during the alignment.
    """

    start_delay_s: float
    alignment_s: float
    bytes_processed: int


class Abort(msgspec.Struct, frozen=True):
    """Give the checkpoint up and tell the tasks downstream."""

    checkpoint_id: int
    reason: AbortReason


class Trigger(msgspec.Struct, frozen=True):
    """Take the checkpoint of this task now, before anything else is read."""

    barrier: CheckpointBarrier
    metrics: AlignmentMetrics


class Resume(msgspec.Struct, frozen=True):
    """Let the channel send again."""

    channel: int


Action = Abort | Trigger | Resume
"""Something the task has to do; a list of actions is to be done in its order."""


class BarrierHandler(Protocol):
    """What a gate tells its handler, whichever checkpoint mode that implements; times in seconds."""

    def barrier(self, channel: int, barrier: CheckpointBarrier, now: float) -> list[Action]:
        """A barrier was polled from `channel`."""
        ...

    def cancel(self, channel: int, checkpoint_id: int, now: float) -> list[Action]:
        """A cancel marker was polled from `channel`."""
        ...

    def end_of_partition(self, channel: int, now: float) -> list[Action]:
        """`channel` has ended."""
        ...

    def bytes_processed(self, count: int) -> None:
        """A data buffer of `count` bytes was polled."""
        ...


class AlignmentTimer:
    """Measures the alignment of one checkpoint after the other (Flink's CheckpointBarrierHandler).

    `start_delay_s`: of the latest one to begin. `latest`: metrics of the latest one to end regularly.
    """

    __slots__ = ("_bytes_at_start", "_ended_s", "_started_at", "latest", "start_delay_s", "total_bytes")

    def __init__(self) -> None:
        self.start_delay_s = 0.0
        self.total_bytes = 0
        self.latest: AlignmentMetrics | None = None
        self._started_at: float | None = None
        self._bytes_at_start = 0
        self._ended_s = 0.0

    def start(self, triggered_at: float, now: float) -> None:
        """The first barrier of a checkpoint triggered at `triggered_at` is here."""
        self.start_delay_s = max(0.0, now - triggered_at)
        self._started_at = now
        self._bytes_at_start = self.total_bytes

    def end(self, now: float) -> AlignmentMetrics:
        """The last barrier is here."""
        self._ended_s = self.alignment_s(now)
        self._started_at = None
        self.latest = AlignmentMetrics(
            self.start_delay_s, self._ended_s, self.total_bytes - self._bytes_at_start
        )
        return self.latest

    def reset(self) -> None:
        """The checkpoint was given up."""
        self._started_at = None
        self._ended_s = 0.0

    def alignment_s(self, now: float) -> float:
        """Duration of the running alignment so far, else of the latest one; 0 after an abort."""
        return self._ended_s if self._started_at is None else now - self._started_at


class BarrierAligner:
    """Aligned exactly-once checkpoints (Flink's SingleCheckpointBarrierHandler, aligned mode).

    Invariant: at most one checkpoint is pending, and only while it is are channels blocked; ids that
    are triggered strictly increase; every blocked channel is resumed once, unless it ends before.
    """

    __slots__ = (
        "_aligned",
        "_barrier",
        "_blocked",
        "_count_ends",
        "_open",
        "_target",
        "_timer",
        "current_checkpoint_id",
    )

    def __init__(self, channels: int, *, checkpoints_after_tasks_finish: bool = True) -> None:
        self.current_checkpoint_id = NO_CHECKPOINT
        self._count_ends = checkpoints_after_tasks_finish
        self._open = set(range(channels))
        self._aligned: set[int] = set()
        self._blocked: set[int] = set()
        self._target = 0
        self._barrier: CheckpointBarrier | None = None
        self._timer = AlignmentTimer()

    @property
    def pending(self) -> bool:
        """Whether a checkpoint waits for barriers."""
        return self._barrier is not None

    @property
    def blocked(self) -> Sequence[int]:
        """The channels that wait behind their barrier, in order."""
        return sorted(self._blocked)

    @property
    def start_delay_s(self) -> float:
        """Trigger to first barrier of the latest checkpoint to begin, in seconds."""
        return self._timer.start_delay_s

    @property
    def latest_metrics(self) -> AlignmentMetrics | None:
        """Metrics of the latest checkpoint that was triggered."""
        return self._timer.latest

    def alignment_s(self, now: float) -> float:
        """Duration of the running alignment so far, else of the latest one; 0 after an abort."""
        return self._timer.alignment_s(now)

    def bytes_processed(self, count: int) -> None:
        """Count a polled data buffer of `count` bytes."""
        self._timer.total_bytes += count

    def barrier(self, channel: int, barrier: CheckpointBarrier, now: float) -> list[Action]:
        """Take note of a barrier polled from `channel` at `now`; what to do, in order.

        Raises:
            LocalProtocolError: if the channel has ended or does not exist, or the barrier is not one
                to align on: the gate has the wrong handler. Nothing has changed.
        """
        self._require_open(channel)
        if not barrier.options.needs_alignment:
            raise LocalProtocolError(
                f"an aligning gate got a barrier that is {barrier.options.alignment.name}"
            )
        checkpoint_id = barrier.checkpoint_id
        newer = checkpoint_id > self.current_checkpoint_id
        if not newer and (checkpoint_id < self.current_checkpoint_id or not self.pending):
            return [Resume(channel)]
        actions: list[Action] = []
        if newer:
            if self.pending:
                actions = self._abort(self.current_checkpoint_id, AbortReason.SUBSUMED)
            self._start(barrier, now)
        self._blocked.add(channel)
        return actions + self._count(channel, now)

    def cancel(self, channel: int, checkpoint_id: int, now: float) -> list[Action]:
        """Take note of a cancel marker polled from `channel`; what to do, in order.

        Raises:
            LocalProtocolError: if the channel has ended or does not exist.
        """
        self._require_open(channel)
        current = self.current_checkpoint_id
        if checkpoint_id > current or (checkpoint_id == current and self.pending):
            return self._abort(checkpoint_id, AbortReason.CANCELLED)
        return []

    def end_of_partition(self, channel: int, now: float) -> list[Action]:
        """Take note that `channel` has ended; what to do, in order.

        Raises:
            LocalProtocolError: if it had ended before or does not exist.
        """
        self._require_open(channel)
        self._open.remove(channel)
        if not self.pending:
            return []
        self._blocked.discard(channel)
        if not self._count_ends:
            return self._abort(self.current_checkpoint_id, AbortReason.INPUT_ENDED)
        return self._count(channel, now)

    def _require_open(self, channel: int) -> None:
        if channel not in self._open:
            raise LocalProtocolError(f"channel {channel} has ended or does not exist")

    def _start(self, barrier: CheckpointBarrier, now: float) -> None:
        self.current_checkpoint_id = barrier.checkpoint_id
        self._barrier = barrier
        self._target = len(self._open)
        self._timer.start(barrier.timestamp, now)

    def _count(self, channel: int, now: float) -> list[Action]:
        """Count `channel` as aligned, once; trigger if it was the last."""
        self._aligned.add(channel)
        barrier = self._barrier
        if barrier is None or len(self._aligned) < self._target:
            return []
        trigger = Trigger(barrier, self._timer.end(now))
        return [trigger, *self._finish()]

    def _abort(self, checkpoint_id: int, reason: AbortReason) -> list[Action]:
        # Flink resumes before it tells of the abort.
        self.current_checkpoint_id = checkpoint_id
        self._timer.reset()
        return [*self._finish(), Abort(checkpoint_id, reason)]

    def _finish(self) -> list[Action]:
        """Nothing is pending any more; resume all that waited."""
        resumes: list[Action] = [Resume(channel) for channel in self.blocked]
        self._blocked.clear()
        self._aligned.clear()
        self._barrier = None
        return resumes
