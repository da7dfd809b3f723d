"""The common part of the channels of an input gate, over a connection or within one task manager.

Both kinds take part in two things besides handing out what they receive::

    persisting   the task has begun an unaligned checkpoint, and the barrier of this channel is not here:
                 data that is queued, and data that comes until then, goes to the checkpoint as well
    restoring    data that was in flight in a checkpoint is queued again and polled before the channel
                 asks its producer for anything; an EndOfInputChannelState event stands behind it
"""

from __future__ import annotations

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
    recovered_buffers,
)
from flowcontrol import (
    BLOCKING_TYPES,
    PRIORITY_TYPES,
    ChannelBarrier,
    CheckpointBarrier,
    DataType,
    EndOfInputChannelState,
    data_type_of,
    decode_event,
    encode_event,
)

from ..scenarios.faults import ChannelItem

if TYPE_CHECKING:
    from .gate import InputGate

InputBuffer = ReceivedBuffer | BufferSlice | RecoveredBuffer
"""A data buffer as a task reads it."""

Item = InputBuffer | EventBuffer
"""An item that a channel hands out."""


_END_OF_STATE = EventBuffer(encode_event(EndOfInputChannelState()), data_type_of(EndOfInputChannelState()))
"""Stands behind the recovered data of each channel."""


class InputChannel:
    """One channel of a gate (Flink's InputChannel).

    `queued`: it stands in the gate's line, and if `urgent` in the front part of it; the gate sets both.
    `persist` is called with a checkpoint's id, the channel and bytes: data that arrived after the task had
    begun that checkpoint, and before its barrier. None: data is not persisted. The gate counts the data
    buffers and barriers that the task gets in `polled_buffers` and `polled_barriers`, and calls `tap` before
    each.
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
        """State of the newest checkpoint; created with the first one."""
        barrier = self._barrier
        if barrier is None:
            self._barrier = barrier = ChannelBarrier()
        return barrier

    @property
    def persisting(self) -> int | None:
        """Checkpoint that arriving data belongs to."""
        return None if self._barrier is None else self._barrier.persisting

    @property
    def decoder(self) -> RecordDecoder:
        """Decoder of the polled data; created with the first data."""
        decoder = self._decoder
        if decoder is None:
            self._decoder = decoder = RecordDecoder(watermarks=self.gate.watermarks)
        return decoder

    @property
    def begun_record(self) -> Content:
        """The polled bytes of a record that is not complete."""
        return b"" if self._decoder is None else self._decoder.pending

    # A property, as a compiled gate would not see how a class attribute is overridden.
    @property
    def released(self) -> bool:
        """Whether everything has been given back; never of a channel that has nothing of its own."""
        return False

    def request(self, subpartition: int) -> None:
        """Ask the producer to send."""
        raise NotImplementedError

    def poll(self) -> tuple[Item | None, bool]:
        """Take the next item, None if there is none after all, and tell whether more can follow."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Raise `error` instead of whatever the next poll would give."""
        self._failure = error
        self.gate.data_arrived(self)

    @property
    def has_priority(self) -> bool:
        """Whether the next item is a priority event."""
        raise NotImplementedError

    def resume(self) -> None:
        """Let the producer go on after a barrier."""
        raise NotImplementedError

    def prioritize(self, sequence_number: int) -> None:
        """Let the announced barrier of that sequence number be polled next, before the data it is behind."""
        raise NotImplementedError

    def announce_buffer_size(self, size: int) -> None:
        """Ask the producer for buffers of `size` bytes from now on."""
        raise NotImplementedError

    def acknowledge_all_records(self) -> None:
        """Tell the producer that its last record has been processed."""
        raise NotImplementedError

    @property
    def queue_length(self) -> int:
        """Buffers and events that wait to be polled."""
        raise NotImplementedError

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait to be polled."""
        raise NotImplementedError

    @property
    def buffers_in_use(self) -> int:
        """Buffers that wait here or at the producer, as debloating counts them."""
        raise NotImplementedError

    @property
    def blocked(self) -> bool:
        """Whether a barrier has come and the producer is silent until it is resumed."""
        raise NotImplementedError

    def release(self) -> None:
        """Give everything back."""
        raise NotImplementedError

    def restore(self, data: bytes) -> None:
        """Queue data that was in flight in a checkpoint, before the partition is requested.

        It takes neither credit nor segments. It may be empty; its end is marked in any case.
        """
        for buffer in recovered_buffers(data, self.gate.segment_bytes):
            self._queue_recovered(buffer)
        self._queue_recovered(_END_OF_STATE)
        self.gate.restoring(self)

    def _queue_recovered(self, item: RecoveredBuffer | EventBuffer) -> None:
        raise NotImplementedError

    def start_persisting(self, checkpoint_id: int) -> list[Content]:
        """The task has begun a checkpoint: returns copies of the data in flight here, in order.

        Data that follows goes to `persist` until the barrier comes. Nothing is in flight for a checkpoint
        that is over, or older than a barrier that has come.
        """
        raise NotImplementedError

    def stop_persisting(self, checkpoint_id: int) -> None:
        """End a checkpoint, complete or aborted."""
        self.barrier.stop(checkpoint_id)


def barrier_in(payload: memoryview | bytes, data_type: DataType) -> CheckpointBarrier | None:
    """The barrier of an exactly-once checkpoint, if a buffer of that type holds one.

    Raises:
        MalformedEvent: if a type that only events have comes without one.
    """
    if data_type in BLOCKING_TYPES or data_type in PRIORITY_TYPES:
        event = decode_event(payload)
        if isinstance(event, CheckpointBarrier):
            return event
    return None
