"""The receiving end of a channel over a connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from buffers import (
    ChannelBuffers,
    ChannelQueue,
    Content,
    CreditOwner,
    EventBuffer,
    LocalBufferPool,
    MemorySegment,
    ReceivedBuffer,
    RecoveredBuffer,
    content_of,
    event_buffer,
)
from flowcontrol import (
    ANNOUNCED_TYPES,
    BLOCKING_TYPES,
    EVENT_TYPES,
    PRIORITY_TYPES,
    AckAllUserRecordsProcessed,
    BufferResponse,
    ChannelReceiver,
    CheckpointBarrier,
    DataType,
    EndOfPartition,
    EventAnnouncement,
    LocalProtocolError,
    Message,
    NewBufferSize,
    PartitionRequest,
    ReceiverState,
    RemoteProtocolError,
    ResumeConsumption,
)

from .channel import InputChannel, Item, barrier_in

if TYPE_CHECKING:
    from .gate import InputGate

__all__ = ["RemoteInputChannel", "Uplink"]


class Uplink(Protocol):
    """The consuming end of a connection, as a channel uses it."""

    def open(self, channel: RemoteInputChannel, request: PartitionRequest) -> None:
        """Request the subpartition of `channel`."""
        ...

    def close(self, channel: RemoteInputChannel) -> None:
        """Cancel the request of `channel`."""
        ...

    def credit_available(self, channel: RemoteInputChannel) -> None:
        """Announce the credit of `channel`."""
        ...

    def send(self, message: Message) -> None:
        """Send any other message."""
        ...


class RemoteInputChannel(InputChannel, CreditOwner):
    """A channel whose producer is in another task manager.

    Arriving data is stored in a buffer of the channel; events need no buffer. The latest barrier is recorded
    when it arrives, with its place in the queue. The rules are those of Flink's RemoteInputChannel.
    """

    __slots__ = (
        "_connection",
        "_queue",
        "_subpartition",
        "buffers",
        "receiver",
    )

    def __init__(
        self,
        gate: InputGate,
        index: int,
        channel_id: int,
        connection: Uplink,
        exclusive: Sequence[MemorySegment],
        floating: LocalBufferPool,
        *,
        reserved: int = 0,
    ) -> None:
        """Create a channel with `exclusive` segments; the network pool reserves `reserved` more for it."""
        super().__init__(gate, index, channel_id)
        self.receiver = ChannelReceiver(len(exclusive) + reserved)
        self._connection = connection
        self.buffers = ChannelBuffers(exclusive, floating, self.receiver.credit, self, reserved=reserved)
        self._queue: ChannelQueue | None = None  # None until an item arrives
        self._subpartition = -1

    def request(self, subpartition: int) -> None:
        """Request the subpartition from the producer."""
        self._subpartition = subpartition
        self._connection.open(self, self.partition_request)

    @property
    def partition_request(self) -> PartitionRequest:
        """The request for the producer."""
        return PartitionRequest(
            channel=self.channel_id,
            first_subpartition=self._subpartition,
            last_subpartition=self._subpartition,
            initial_credit=self.receiver.credit.initial,
        )

    def cancel(self) -> None:
        """Cancel the request, and accept no more buffers from the pool; call `release` afterwards."""
        self.buffers.released = True
        self._connection.close(self)

    def poll(self) -> tuple[Item | None, bool]:
        """Return the next item, and whether another item can be polled after it.

        Raises the error with which the channel has failed.
        """
        if self._failure is not None:
            raise self._failure
        queue = self._queue
        return (None, False) if queue is None else queue.poll()

    def on_message(self, message: BufferResponse) -> bool:
        """Process an arrived buffer or event; returns whether it was an event.

        Raises:
            RemoteProtocolError: if the sender violated the protocol; the state is unchanged.
        """
        data_type = message.data_type
        if data_type in EVENT_TYPES:
            # A plain aligned barrier only matters if another barrier may overtake.
            plain = self.persist is None and data_type is DataType.ALIGNED_CHECKPOINT_BARRIER
            event = EventBuffer(bytes(message.payload), data_type)
            barrier = None if plain else barrier_in(event)
            last = data_type is DataType.EVENT_BUFFER and isinstance(event.event, EndOfPartition)
            self.receiver.accept(message.sequence_number, message.backlog, data_type)
            if last:
                self.receiver.end()
            self._enqueue_event(event, barrier, message.sequence_number)
            self.buffers.report_backlog(message.backlog)
            return True
        payload = message.payload
        buffer = self.land(message.sequence_number, message.backlog, len(payload))
        buffer.fill(payload)
        self.landed(buffer, message.backlog)
        return False

    def land(self, sequence_number: int, backlog: int, size: int) -> ReceivedBuffer:
        """Return a buffer of this channel for `size` arriving bytes.

        The caller owns the buffer until the payload is complete. It then calls `landed`, before it processes
        anything else for this channel, or releases the buffer if the channel was closed.

        Raises:
            RemoteProtocolError: if the sender violated the protocol; the state is unchanged.
        """
        if size > self.gate.segment_bytes:
            raise RemoteProtocolError(
                f"a buffer of {size} bytes arrived, but a buffer has at most {self.gate.segment_bytes} bytes"
            )
        self.receiver.accept(sequence_number, backlog, DataType.DATA_BUFFER)
        taken = self.buffers.take()
        if taken is None:
            raise RuntimeError(
                f"channel {self.channel_id} has no buffer left for data, although it had granted credit "
                "for it"
            )
        segment, recycler = taken
        return ReceivedBuffer(segment, recycler, size)

    def landed(self, buffer: ReceivedBuffer, backlog: int) -> None:
        """Queue the completed buffer of `land`; `backlog` data buffers wait at the sender."""
        if buffer.size == 0:
            buffer.release()
        else:
            barrier = self._barrier
            if barrier is not None and barrier.persisting is not None and self.persist is not None:
                self.persist(barrier.persisting, self, content_of(buffer.payload))
            queue = self._queue
            if queue is None:
                queue = self._own_queue()
            queue.add(buffer)
            if not self.queued:
                self.gate.data_arrived(self)
        self.buffers.report_backlog(backlog)

    def _own_queue(self) -> ChannelQueue:
        queue = self._queue
        if queue is None:
            self._queue = queue = ChannelQueue()
        return queue

    def _enqueue_event(
        self, event: EventBuffer, barrier: CheckpointBarrier | None, sequence_number: int
    ) -> None:
        data_type = event.data_type
        queue = self._own_queue()
        first = False
        if data_type in PRIORITY_TYPES:
            first = queue.add_priority(event)
        else:
            queue.add(event)
            if data_type in ANNOUNCED_TYPES and barrier is not None:
                announcement = event_buffer(EventAnnouncement(barrier, sequence_number))
                self.barrier.announce(sequence_number, event, announcement)
                first = queue.add_priority(announcement)
        if barrier is not None:
            self.barrier.arrive(barrier.checkpoint_id, queue.last)
        if data_type in BLOCKING_TYPES:
            self.buffers.block()
        if first:
            self.gate.priority_arrived(self)
        self.gate.data_arrived(self)

    def on_backlog(self, backlog: int) -> None:
        """Process a backlog that the sender has announced without a buffer."""
        self.buffers.report_backlog(backlog)

    @property
    def has_priority(self) -> bool:
        """Whether the next item is a priority event."""
        return self._queue is not None and self._queue.has_priority

    def resume(self) -> None:
        """Let the producer send again after a barrier.

        Raises:
            LocalProtocolError: if the channel is not blocked.
        """
        self.receiver.resume()
        self._connection.send(ResumeConsumption(self.channel_id))

    def prioritize(self, sequence_number: int) -> None:
        """Move the announced barrier with this sequence number to the front of the queue, unless it was
        already polled.
        """
        queue, barrier = self._queue, self._barrier
        if queue is not None and barrier is not None and queue.prioritize(barrier, sequence_number):
            self.gate.priority_arrived(self)

    def start_persisting(self, checkpoint_id: int) -> list[Content]:
        """Begin to persist data for a checkpoint; returns copies of the data queued before its barrier, in
        order.

        Data that arrives later is passed to `persist` until the barrier arrives. The result is empty if the
        checkpoint is over, or if a barrier of a newer checkpoint has arrived.
        """
        if not self.barrier.start(checkpoint_id) or self._queue is None:
            return []
        return [content_of(buffer.payload) for buffer in self._queue.in_flight(self.barrier)]

    def _queue_recovered(self, item: RecoveredBuffer | EventBuffer) -> None:
        self._own_queue().add(item)

    def announce_buffer_size(self, size: int) -> None:
        """Request buffers of at most `size` bytes from the producer from now on.

        Raises:
            LocalProtocolError: if the channel is released.
        """
        if self.receiver.state is ReceiverState.RELEASED:
            raise LocalProtocolError(
                f"channel {self.channel_id} has been released, so it cannot announce a buffer size"
            )
        self._connection.send(NewBufferSize(self.channel_id, size))

    def acknowledge_all_records(self) -> None:
        """Inform the producer that its last record has been processed."""
        self._connection.send(AckAllUserRecordsProcessed(self.channel_id))

    @property
    def released(self) -> bool:
        """Whether all buffers have been returned."""
        return self.receiver.state is ReceiverState.RELEASED

    def take_credit(self) -> int:
        """Return all unannounced credit; it then counts as announced."""
        return self.receiver.credit.take()

    def credit_gained(self) -> None:
        """Let the connection announce the credit that this channel has gained."""
        self._connection.credit_available(self)

    @property
    def queue_length(self) -> int:
        """Number of buffers and events that have arrived and were not polled."""
        return 0 if self._queue is None else len(self._queue)

    @property
    def queued_bytes(self) -> int:
        """Bytes that have arrived and were not polled."""
        return 0 if self._queue is None else self._queue.queued_bytes

    @property
    def queued_events(self) -> list[EventBuffer]:
        """The events that have arrived and were not polled."""
        return [] if self._queue is None else self._queue.queued_events

    @property
    def buffers_in_use(self) -> int:
        """Number of queued buffers plus the producer's backlog, as debloating counts them."""
        return self.queue_length + self.buffers.announced_backlog

    @property
    def blocked(self) -> bool:
        """Whether a blocking barrier has arrived, so that the producer sends nothing until it is resumed."""
        return self.receiver.state is ReceiverState.BLOCKED

    def release(self) -> None:
        """Drop all queued items and return all buffers; must not be called while a message is processed."""
        self.receiver.release()
        if self._queue is not None:
            self._queue.clear()
        self.buffers.release()
