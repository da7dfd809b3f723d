"""The interface of barrier handlers: inputs, actions and measurements.

A task has one handler for all its input channels. The task passes each polled event to the handler, which
returns actions. The handler has no access to queues and clocks. There is a handler for each checkpoint mode::

    BarrierAligner      aligned              no record behind a barrier is read before the checkpoint
    AlternatingAligner  aligned, unaligned,  an unaligned barrier overtakes data, and this data
                        or with a timeout    becomes part of the checkpoint
    BarrierTracker      at least once        records behind a barrier are read early, so some are read twice
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from .errors import LocalProtocolError
from .events import CheckpointBarrier
from .failure_reason import FailureReason

__all__ = [
    "NO_CHECKPOINT",
    "Abort",
    "Action",
    "Alarm",
    "AlignmentEnd",
    "AlignmentMetrics",
    "AlignmentTimer",
    "BarrierHandler",
    "Prioritize",
    "Resume",
    "Trigger",
]

NO_CHECKPOINT = -1
"""The id before the first checkpoint."""


class AlignmentMetrics(msgspec.Struct, frozen=True):
    """Cost of a checkpoint at this gate.

    `start_delay_s`: seconds from the trigger to the first barrier. `alignment_s`: seconds from the first to
    the last barrier. `bytes_processed`: bytes polled during the alignment.
    """

    start_delay_s: float
    alignment_s: float
    bytes_processed: int


class Abort(msgspec.Struct, frozen=True):
    """Abort the checkpoint, persist no more of its data, and notify the tasks downstream."""

    checkpoint_id: int
    reason: FailureReason


class Trigger(msgspec.Struct, frozen=True):
    """Take the checkpoint of this task now, before the next item is read.

    Use the options of `barrier` for the checkpoint and for the barrier sent downstream. If these options are
    unaligned, start to persist the in-flight data of every input channel. `metrics` is then None, and an
    AlignmentEnd or an Abort follows. Otherwise `metrics` is final.
    """

    barrier: CheckpointBarrier
    metrics: AlignmentMetrics | None


class AlignmentEnd(msgspec.Struct, frozen=True):
    """The last barrier of an unaligned checkpoint has arrived, so the checkpoint's input channel state is
    complete.
    """

    checkpoint_id: int
    metrics: AlignmentMetrics


class Resume(msgspec.Struct, frozen=True):
    """Let a blocked channel send again."""

    channel: int


class Prioritize(msgspec.Struct, frozen=True):
    """Move the barrier with this sequence number, if still queued, in front of the data of `channel`."""

    channel: int
    sequence_number: int


class Alarm(msgspec.Struct, frozen=True):
    """Call the handler's `alarm` after `delay_s` seconds, between two records."""

    checkpoint_id: int
    delay_s: float


Action = Abort | Trigger | AlignmentEnd | Resume | Prioritize | Alarm
"""An action for the task. The actions of a list are carried out in order."""


class AlignmentStart(msgspec.Struct, frozen=True):
    """Start of one alignment: its time, and the bytes polled before it."""

    start_delay_s: float
    started_at: float
    bytes_before: int


class AlignmentTimer:
    """Measures alignments (Flink's CheckpointBarrierHandler).

    Several alignments may be open when checkpoints overlap. `running` is the alignment that began last, to
    which `start_delay_s` and `alignment_s` refer.
    """

    __slots__ = ("_ended_s", "running", "start_delay_s", "total_bytes")

    def __init__(self) -> None:
        self.start_delay_s = 0.0
        self.total_bytes = 0
        self.running: AlignmentStart | None = None
        self._ended_s = 0.0

    def start(self, triggered_at: float, now: float) -> AlignmentStart:
        """Start the alignment of a checkpoint triggered at `triggered_at`; called at its first barrier."""
        self.start_delay_s = max(0.0, now - triggered_at)
        self.running = AlignmentStart(self.start_delay_s, now, self.total_bytes)
        return self.running

    def end(self, start: AlignmentStart, now: float) -> AlignmentMetrics:
        """End the alignment `start`; called at the last barrier of its checkpoint."""
        duration = now - start.started_at
        if start is self.running:
            self.running = None
            self._ended_s = duration
        polled = self.total_bytes - start.bytes_before
        return AlignmentMetrics(start.start_delay_s, duration, polled)

    def reset(self) -> None:
        """Drop the running alignment because its checkpoint was aborted."""
        self.running = None
        self._ended_s = 0.0

    def alignment_s(self, now: float) -> float:
        """Return the seconds that the running alignment, else the last one, has taken; 0 after an abort."""
        return self._ended_s if self.running is None else now - self.running.started_at


class BarrierHandler(ABC):
    """Handler of the barriers of one task; a subclass implements one checkpoint mode.

    Times are in seconds. `current_checkpoint_id`: the newest checkpoint that the handler has seen;
    NO_CHECKPOINT before the first. Methods that take a channel raise LocalProtocolError, and leave the state
    unchanged, if the channel has ended or does not exist. (Flink: CheckpointBarrierHandler.)
    """

    __slots__ = ("_channels", "_count_ends", "_ended", "_timer", "current_checkpoint_id")

    def __init__(self, channels: int, *, checkpoints_after_tasks_finish: bool = True) -> None:
        self.current_checkpoint_id = NO_CHECKPOINT
        self._count_ends = checkpoints_after_tasks_finish
        self._channels = channels
        self._ended: set[int] = set()
        self._timer = AlignmentTimer()

    @property
    def open_channels(self) -> int:
        """Number of channels that have not ended."""
        return self._channels - len(self._ended)

    @property
    def start_delay_s(self) -> float:
        """Time from trigger to first barrier of the checkpoint that began last, in seconds."""
        return self._timer.start_delay_s

    def alignment_s(self, now: float) -> float:
        """Return the seconds that the running alignment, else the last one, has taken; 0 after an abort."""
        return self._timer.alignment_s(now)

    @abstractmethod
    def barrier(self, channel: int, barrier: CheckpointBarrier, now: float) -> list[Action]:
        """Handle a barrier polled from `channel`; returns the actions to carry out."""

    @abstractmethod
    def cancel(self, channel: int, checkpoint_id: int, now: float) -> list[Action]:
        """Handle a cancel marker polled from `channel`; returns the actions to carry out."""

    @abstractmethod
    def end_of_partition(self, channel: int, now: float) -> list[Action]:
        """Handle the end of `channel`; returns the actions to carry out."""

    def bytes_processed(self, count: int) -> None:
        """Count a polled data buffer of `count` bytes."""
        self._timer.total_bytes += count

    def announcement(
        self, channel: int, barrier: CheckpointBarrier, sequence_number: int, now: float
    ) -> list[Action]:
        """Handle the announcement of a barrier; only `AlternatingAligner` acts on it."""
        self._require_open(channel)
        return []

    def alarm(self, checkpoint_id: int, now: float) -> list[Action]:
        """Handle an Alarm whose delay is over. Only a handler with a timeout sets alarms."""
        return []

    def _require_open(self, channel: int) -> None:
        if not 0 <= channel < self._channels or channel in self._ended:
            raise LocalProtocolError(f"channel {channel} has ended or does not exist")
