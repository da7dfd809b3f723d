"""A connection between two task managers: moves messages between a link and the state machines.

The producing end writes what its `SendQueue` chooses, as much at a time as the link is ready for. The
consuming end hands arrived buffers to input channels and sends back credit, sizes and resumptions::

    subpartitions -> SendQueue -> ProducerEnd == link ==> ConsumerEnd -> input channels -> gates
                                      ^ <===== link ====== |
                                        AddCredit, NewBufferSize, ResumeConsumption

Task threads do not touch the network themselves, they notify the thread that does (`notifier`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from buffers import PipelinedSubpartition
from flowcontrol import (
    AddCredit,
    BacklogAnnouncement,
    BufferHeader,
    BufferResponse,
    ChannelSender,
    DataType,
    Message,
    PartitionRequest,
    RemoteProtocolError,
    SendBuffer,
    SendQueue,
    wire_size,
)

from ..agenda import Agenda
from ..randomness import Randomness
from ..settings.config import CostModel
from .link import ConsumingEnd, Link, ProducingEnd
from .notifier import Notifier, Notify
from .remote_channel import RemoteInputChannel
from .stalls import CreditStalls

MAX_EVENT_BYTES = 64 << 10
"""The longest event that is taken; a barrier has some 20 bytes."""


class ProducerEnd:
    """The sending side of a connection; `messages` counts what has arrived here.

    `stalls`, if there is one, is shown every channel whose credit or data has changed.
    """

    def __init__(
        self, end: ProducingEnd, notify: Notify, find: Callable[[int], PipelinedSubpartition]
    ) -> None:
        """`find` gives the subpartition that a channel asks for, or raises a KeyError or IndexError."""
        self.queue = SendQueue()
        self.messages = 0
        self._end = end
        self._notify = notify
        self._find = find
        self._leaving: deque[SendBuffer | None] = deque()
        self.stalls: CreditStalls | None = None
        end.listen(self)

    def receive(self, message: Message) -> None:
        """Take a message of the consuming end.

        Raises:
            RemoteProtocolError: if it makes no sense here.
        """
        self.messages += 1
        if type(message) is PartitionRequest:
            self._open(message)
        else:
            self.queue.handle(message)
            if type(message) is AddCredit:
                self._watch(message.channel)
        if not self._leaving or self._end.ready:
            self._write()

    def _open(self, request: PartitionRequest) -> None:
        try:
            subpartition = self._find(request.channel)
        except LookupError:
            raise RemoteProtocolError(
                f"channel {request.channel} was requested, which does not exist"
            ) from None
        sender = self.queue.open(request, subpartition)
        subpartition.on_data = lambda: self._notify(self._data_available, sender)

    def _data_available(self, sender: ChannelSender) -> None:
        self.queue.data_available(sender)
        self._watch(sender.channel)
        if not self._leaving or self._end.ready:
            self._write()

    def _write(self) -> None:
        """Write the next message, and more of them while the link is ready for that."""
        end, next_message = self._end, self.queue.next_message
        while (item := next_message()) is not None:
            message, buffer = item
            self._leaving.append(buffer)
            end.write(wire_size(message), self._written, message)
            self._watch(message.channel)
            if not end.ready:
                break

    def _watch(self, channel: int) -> None:
        if self.stalls is not None:
            sender = self.queue.sender(channel)
            if sender is not None:
                self.stalls.look_at(sender)

    def _written(self) -> None:
        buffer = self._leaving.popleft()
        if buffer is not None:
            buffer.release()
        if not self._leaving or self._end.ready:
            self._write()

    def close(self) -> None:
        """Release the buffers that are being written and all that waits; the link must have ended."""
        while self._leaving:
            buffer = self._leaving.popleft()
            if buffer is not None:
                buffer.release()
        self.queue.close()


class ConsumerEnd:
    """The receiving side of a connection.

    `buffers`, `bytes` and `messages` count what has arrived: data buffers and their bytes, and
    messages of any kind.
    """

    def __init__(self, end: ConsumingEnd, notify: Notify) -> None:
        self.buffers = 0
        self.bytes = 0
        self.messages = 0
        self._end = end
        self._notify = notify
        self._channels: dict[int, RemoteInputChannel] = {}
        self._arriving: memoryview | None = None
        end.listen(self)

    def open(self, channel: RemoteInputChannel, request: PartitionRequest) -> None:
        """Ask the producer for the subpartition of `channel`."""
        self._channels[request.channel] = channel
        self._transmit(request)

    def receive(self, message: Message) -> None:
        """Take a message of the producing end.

        Raises:
            RemoteProtocolError: if it makes no sense here.
        """
        self.messages += 1
        if type(message) is BufferResponse:
            channel = self._channel(message.channel)
            if not channel.on_message(message):
                self.buffers += 1
                self.bytes += len(message.payload)
        elif type(message) is BacklogAnnouncement:
            self._channel(message.channel).on_backlog(message.backlog)
        else:
            raise RemoteProtocolError(f"a producer does not send {type(message).__name__}")

    def place(self, header: BufferHeader) -> memoryview:
        """Where the payload of an arriving buffer goes: data into a segment of its channel.

        Raises:
            RemoteProtocolError: if the channel may not get this buffer.
        """
        channel = self._channel(header.channel)
        if header.compressed:
            raise RemoteProtocolError("a compressed buffer arrived, and nobody asked for compression")
        if header.data_type is DataType.DATA_BUFFER:
            return channel.land(header.sequence_number, header.backlog, header.size)
        if header.size > MAX_EVENT_BYTES:
            raise RemoteProtocolError(
                f"an event of {header.size} bytes arrived, allowed are {MAX_EVENT_BYTES}"
            )
        self._arriving = memoryview(bytearray(header.size))
        return self._arriving

    def landed(self, header: BufferHeader) -> None:
        """The payload that was placed last is complete.

        Raises:
            RemoteProtocolError: if it is an event that makes no sense.
        """
        self.messages += 1
        channel = self._channels[header.channel]
        payload, self._arriving = self._arriving, None
        if payload is None:
            self.buffers += 1
            self.bytes += header.size
            channel.landed(header.backlog)
            return
        event = BufferResponse(
            header.channel,
            header.subpartition,
            header.sequence_number,
            header.backlog,
            header.data_type,
            header.compressed,
            payload,
        )
        channel.on_message(event)

    def _channel(self, number: int) -> RemoteInputChannel:
        channel = self._channels.get(number)
        if channel is None:
            raise RemoteProtocolError(f"a buffer or backlog arrived for channel {number}, which nobody reads")
        return channel

    def credit_available(self, channel: RemoteInputChannel) -> None:
        """Announce what `channel` has gained, all that it has when the network thread gets there."""
        self._notify(self._send_credit, channel)

    def _send_credit(self, channel: RemoteInputChannel) -> None:
        credit = channel.take_credit()
        if credit:
            self._transmit(AddCredit(channel.identity, credit))

    def send(self, message: Message) -> None:
        """Send `message` to the producing end, behind all credit that is on its way to the network thread."""
        self._notify(self._transmit, message)

    def _transmit(self, message: Message) -> None:
        self._end.write(wire_size(message), None, message)


def connect(
    agenda: Agenda,
    link: Link,
    costs: CostModel,
    randomness: Randomness,
    find: Callable[[int], PipelinedSubpartition],
    blocked_until: Callable[[], float] | None = None,
) -> tuple[ProducerEnd, ConsumerEnd]:
    """Both ends of a connection over an emulated `link`; `find` gives the subpartition of a channel.

    `blocked_until` tells when the consumer can write, if a link can be blocked at all.
    """
    producer = ProducerEnd(link.producing, Notifier(agenda, costs, randomness), find)
    return producer, ConsumerEnd(link.consuming, Notifier(agenda, costs, randomness, blocked_until))
