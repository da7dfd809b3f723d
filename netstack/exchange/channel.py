"""Base of the channels of an input gate, over a connection or within one task manager.

Both kinds of channels have two modes besides normal reading::

    persisting   the task has begun an unaligned checkpoint, and this channel's barrier has not arrived:
                 data that is queued, or arrives before the barrier, belongs to the checkpoint
    restoring    data that was in flight in a checkpoint is queued again and polled before the channel
                 requests its partition; an EndOfInputChannelState event follows it

With checkpoints during recovery (FLIP-547), the partition is requested while the restored data is queued. The
channel can then be restoring and persisting: the restored data in front of the barrier is persisted again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from buffers import (
    BufferSlice,
    Content,
    EventBuffer,
    Queued,
    ReceivedBuffer,
    RecordDecoder,
    RecoveredBuffer,
    event_buffer,
    recovered_buffers,
)
from flowcontrol import (
    BLOCKING_TYPES,
    PRIORITY_TYPES,
    ChannelBarrier,
    CheckpointBarrier,
    EndOfInputChannelState,
)

from ..scenarios.faults import ChannelItem

if TYPE_CHECKING:
    from .gate import InputGate

InputBuffer = ReceivedBuffer | BufferSlice | RecoveredBuffer
"""A data buffer as a task reads it."""

Item = InputBuffer | EventBuffer
"""An item that a channel returns when polled."""


_END_OF_STATE = event_buffer(EndOfInputChannelState())
"""Event queued behind the recovered data of each channel."""


class InputChannel(ABC):
    """One channel of a gate (Flink's InputChannel).

    `queued`: whether the channel is in the gate's queue; `urgent`: whether it is in the priority part of this
    queue. The gate sets both. `persist` is called with the checkpoint's id, the channel and the bytes, for
    data that arrives after the task has begun a checkpoint and before the checkpoint's barrier. If `persist`
    is None, data is not persisted. The gate counts the polled data buffers and barriers in `polled_buffers`
    and `polled_barriers`, and calls `tap`, if set, for each before it returns the item.
    """

    __slots__ = (
        "_barrier",
        "_decoder",
        "_failure",
        "channel_id",
        "gate",
        "index",
        "persist",
        "polled_barriers",
        "polled_buffers",
        "queued",
        "tap",
        "urgent",
    )

    def __init__(self, gate: InputGate, index: int, channel_id: int) -> None:
        self.gate = gate
        self.index = index
        self.channel_id = channel_id
        self.queued = False
        self.urgent = False
        self.polled_buffers = 0
        self.polled_barriers = 0
        self.tap: Callable[[ChannelItem], None] | None = None
        self._decoder: RecordDecoder | None = None
        self.persist: Callable[[int, InputChannel, Content], None] | None = None
        self._failure: Exception | None = None
        self._barrier: ChannelBarrier[Queued] | None = None

    @property
    def barrier(self) -> ChannelBarrier[Queued]:
        """Barrier state of the newest checkpoint; created for the first checkpoint."""
        barrier = self._barrier
        if barrier is None:
            self._barrier = barrier = ChannelBarrier()
        return barrier

    @property
    def persisting(self) -> int | None:
        """Id of the checkpoint to which arriving data belongs; None: no checkpoint."""
        return None if self._barrier is None else self._barrier.persisting

    @property
    def decoder(self) -> RecordDecoder:
        """Decoder of the polled data; created for the first data."""
        decoder = self._decoder
        if decoder is None:
            self._decoder = decoder = RecordDecoder(watermarks=self.gate.watermarks)
        return decoder

    @property
    def partial_record(self) -> Content:
        """The bytes of an incomplete record that have been polled."""
        return b"" if self._decoder is None else self._decoder.pending

    # A property, because a compiled gate does not see an overridden class attribute.
    @property
    def released(self) -> bool:
        """Whether all buffers have been returned; False for a channel without buffers of its own."""
        return False

    @abstractmethod
    def request(self, subpartition: int) -> None:
        """Request the subpartition from the producer."""

    @abstractmethod
    def poll(self) -> tuple[Item | None, bool]:
        """Return the next item, or None, and whether another item can be polled after it."""

    def fail(self, error: Exception) -> None:
        """Raise `error` at the next poll."""
        self._failure = error
        self.gate.data_arrived(self)

    @property
    @abstractmethod
    def has_priority(self) -> bool:
        """Whether the next item is a priority event."""

    @abstractmethod
    def resume(self) -> None:
        """Let the producer send again after a barrier."""

    @abstractmethod
    def prioritize(self, sequence_number: int) -> None:
        """Move the announced barrier with this sequence number ahead of the queued data."""

    @abstractmethod
    def announce_buffer_size(self, size: int) -> None:
        """Request buffers of at most `size` bytes from the producer from now on."""

    @abstractmethod
    def acknowledge_all_records(self) -> None:
        """Inform the producer that its last record has been processed."""

    @property
    @abstractmethod
    def queue_length(self) -> int:
        """Number of queued buffers and events."""

    @property
    @abstractmethod
    def queued_bytes(self) -> int:
        """Number of queued bytes."""

    @property
    @abstractmethod
    def buffers_in_use(self) -> int:
        """Number of buffers queued here or at the producer, as debloating counts them."""

    @property
    @abstractmethod
    def blocked(self) -> bool:
        """Whether a blocking barrier has arrived, so that the producer sends nothing until it is resumed."""

    @abstractmethod
    def release(self) -> None:
        """Return all buffers."""

    def restore(self, data: bytes, *, marks_end: bool = True) -> None:
        """Queue in-flight data of a checkpoint, before the partition is requested.

        The data needs neither credit nor segments, and may be empty. With `marks_end`, an event marks the end
        of the data, and the partition is requested when all channels of the gate have reached this end.
        """
        for buffer in recovered_buffers(data, self.gate.segment_bytes):
            self._queue_recovered(buffer)
        if marks_end:
            self._queue_recovered(_END_OF_STATE)
            self.gate.restoring(self)
        elif data:
            self.gate.data_arrived(self)

    @abstractmethod
    def _queue_recovered(self, item: RecoveredBuffer | EventBuffer) -> None:
        """Queue an item of in-flight data that was stored in a checkpoint."""

    @abstractmethod
    def start_persisting(self, checkpoint_id: int) -> list[Content]:
        """Begin to persist data for a checkpoint; returns copies of the in-flight data queued here, in order.

        Data that arrives later is passed to `persist` until the barrier arrives. The result is empty if the
        checkpoint is over, or if a barrier of a newer checkpoint has arrived.
        """

    def stop_persisting(self, checkpoint_id: int) -> None:
        """Stop persisting data for a checkpoint, which is complete or aborted."""
        self.barrier.stop(checkpoint_id)


def barrier_in(item: EventBuffer) -> CheckpointBarrier | None:
    """Return the exactly-once checkpoint barrier in `item`, or None.

    Raises:
        MalformedEvent: if the payload is not an event.
    """
    if item.data_type in BLOCKING_TYPES or item.data_type in PRIORITY_TYPES:
        event = item.event
        if isinstance(event, CheckpointBarrier):
            return event
    return None
