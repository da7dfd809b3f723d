"""The receiving end of a channel, over a connection or within one task manager."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from buffers import (
    BufferSlice,
    ChannelBuffers,
    EventBuffer,
    LocalBufferPool,
    MemorySegment,
    PipelinedSubpartition,
    ReceivedBuffer,
    RecordDecoder,
)
from flowcontrol import (
    BLOCKING_TYPES,
    EVENT_TYPES,
    AckAllUserRecordsProcessed,
    BufferResponse,
    ChannelReceiver,
    LocalProtocolError,
    Message,
    NewBufferSize,
    PartitionRequest,
    ReceiverState,
    ResumeConsumption,
)

InputBuffer = ReceivedBuffer | BufferSlice
"""A data buffer as a task reads it."""


class Reader(Protocol):
    """What a channel tells of its data: its gate."""

    def data_arrived(self, channel: InputChannel) -> None:
        """`channel` has something to poll."""
        ...


class Uplink(Protocol):
    """What a channel asks its producer through: the consuming end of a connection."""

    def open(self, channel: RemoteInputChannel, request: PartitionRequest) -> None:
        """Request the subpartition of `channel`."""
        ...

    def credit_available(self, channel: RemoteInputChannel) -> None:
        """`channel` has credit to announce."""
        ...

    def send(self, message: Message) -> None:
        """Send anything else."""
        ...


class RemoteInputChannel:
    """A channel whose producer is in another task manager.

    Data that arrives takes a buffer of the channel; events take none. The rules are those of Flink's
    RemoteInputChannel.
    """

    __slots__ = (
        "_connection",
        "_queue",
        "buffers",
        "decoder",
        "gate",
        "identity",
        "index",
        "queued",
        "receiver",
    )

    is_remote = True

    def __init__(
        self,
        gate: Reader,
        index: int,
        identity: int,
        connection: Uplink,
        exclusive: Sequence[MemorySegment],
        floating: LocalBufferPool,
    ) -> None:
        self.gate = gate
        self.index = index
        self.identity = identity
        self.queued = False
        self.decoder = RecordDecoder()
        self.receiver = ChannelReceiver(len(exclusive))
        self._connection = connection
        self.buffers = ChannelBuffers(exclusive, floating, self.receiver.credit, self._credit_gained)
        self._queue: deque[ReceivedBuffer | EventBuffer] = deque()

    def request(self, subpartition: int) -> None:
        """Ask the producer to send."""
        request = PartitionRequest(
            channel=self.identity,
            first_subpartition=subpartition,
            last_subpartition=subpartition,
            initial_credit=self.receiver.credit.initial,
        )
        self._connection.open(self, request)

    def on_message(self, message: BufferResponse) -> bool:
        """Take an arrived buffer or event; returns whether it was an event.

        Raises:
            RemoteProtocolError: if the sender broke the rules; nothing was taken.
        """
        data_type = message.data_type
        self.receiver.accept(message.sequence_number, message.backlog, data_type)
        if data_type in EVENT_TYPES:
            self._queue.append(EventBuffer(bytes(message.payload), data_type))
            if data_type in BLOCKING_TYPES:
                self.buffers.block()
            self.gate.data_arrived(self)
            is_event = True
        else:
            self._enqueue_data(message)
            is_event = False
        self.buffers.report_backlog(message.backlog)
        return is_event

    def _enqueue_data(self, message: BufferResponse) -> None:
        taken = self.buffers.take()
        if taken is None:
            raise RuntimeError(f"channel {self.identity} has no buffer for data that its credit allowed")
        segment, recycler = taken
        buffer = ReceivedBuffer(segment, recycler, message.payload)
        if buffer.size == 0:
            buffer.release()
            return
        self._queue.append(buffer)
        self.gate.data_arrived(self)

    def on_backlog(self, backlog: int) -> None:
        """The sender has told its backlog without a buffer."""
        self.buffers.report_backlog(backlog)

    def poll(self) -> tuple[ReceivedBuffer | EventBuffer | None, bool]:
        """Take the next item; also tells whether more is queued."""
        queue = self._queue
        item = queue.popleft()
        return item, bool(queue)

    def resume(self) -> None:
        """Let the producer go on after a barrier.

        Raises:
            LocalProtocolError: if the channel is not blocked.
        """
        self.receiver.resume()
        self._connection.send(ResumeConsumption(self.identity))

    def announce_buffer_size(self, size: int) -> None:
        """Ask the producer for buffers of `size` bytes from now on.

        Raises:
            LocalProtocolError: if the channel is released.
        """
        if self.receiver.state is ReceiverState.RELEASED:
            raise LocalProtocolError(f"channel {self.identity} is released and wants no buffers")
        self._connection.send(NewBufferSize(self.identity, size))

    def acknowledge_all_records(self) -> None:
        """Tell the producer that its last record has been processed."""
        self._connection.send(AckAllUserRecordsProcessed(self.identity))

    def take_credit(self) -> int:
        """All unannounced credit, which counts as announced from now on."""
        return self.receiver.credit.take()

    def _credit_gained(self) -> None:
        self._connection.credit_available(self)

    @property
    def queue_length(self) -> int:
        """Buffers and events that have arrived and were not polled."""
        return len(self._queue)

    @property
    def queued_bytes(self) -> int:
        """Bytes that have arrived and were not polled."""
        return sum(item.size for item in self._queue)

    @property
    def buffers_in_use(self) -> int:
        """Queued buffers and those the producer still has waiting, as debloating counts them."""
        return len(self._queue) + self.buffers.announced_backlog

    def release(self) -> None:
        """Drop what is queued and give all buffers back."""
        self.receiver.release()
        while self._queue:
            self._queue.popleft().release()
        self.buffers.release()


class LocalInputChannel:
    """A channel whose producer is in the same task manager: it reads the subpartition itself.

    No credit and no buffers of its own. The rules are those of Flink's LocalInputChannel.
    """

    __slots__ = ("_subpartition", "decoder", "gate", "identity", "index", "queued")

    is_remote = False

    def __init__(self, gate: Reader, index: int, identity: int, subpartition: PipelinedSubpartition) -> None:
        self.gate = gate
        self.index = index
        self.identity = identity
        self.queued = False
        self.decoder = RecordDecoder()
        self._subpartition = subpartition

    def request(self, subpartition: int) -> None:
        """Begin to listen."""
        self._subpartition.on_data = self._look
        self._look()

    def _look(self) -> None:
        if self._subpartition.can_send(1):
            self.gate.data_arrived(self)

    def poll(self) -> tuple[BufferSlice | EventBuffer | None, bool]:
        """Take the next item, if there is one; also tells whether more can follow."""
        polled = self._subpartition.poll()
        if polled is None:
            return None, False
        return polled.buffer, polled.more_available

    def resume(self) -> None:
        """Let the subpartition go on after a barrier."""
        self._subpartition.resume()
        self._look()

    def announce_buffer_size(self, size: int) -> None:
        """Cap the size of new buffers."""
        self._subpartition.set_buffer_size(size)

    def acknowledge_all_records(self) -> None:
        """Tell the producer that its last record has been processed."""
        self._subpartition.acknowledge_all_records()

    @property
    def queue_length(self) -> int:
        """Buffers and events that wait in the subpartition."""
        return len(self._subpartition)

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait in the subpartition."""
        return self._subpartition.queued_bytes

    @property
    def buffers_in_use(self) -> int:
        """Data buffers that wait in the subpartition, as debloating counts them."""
        return self._subpartition.data_buffers

    def release(self) -> None:
        """Listen no more; the producer drops what is queued."""
        self._subpartition.on_data = None


InputChannel = RemoteInputChannel | LocalInputChannel
