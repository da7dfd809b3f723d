"""A connection between two task managers: moves messages between a link and the state machines.

The producing end writes what its `SendQueue` chooses, one message at a time. The consuming end hands
arrived buffers to input channels and sends back credit, sizes and resumptions::

    subpartitions -> SendQueue -> ProducerEnd == to_consumer ==> ConsumerEnd -> input channels -> gates
                                      ^ <======= to_producer ====== |
                                        AddCredit, NewBufferSize, ResumeConsumption

Task threads do not touch the network themselves, they notify the thread that does; that takes the time
`notify` and keeps its order.
"""

from __future__ import annotations

from collections.abc import Callable

from buffers import PipelinedSubpartition
from flowcontrol import (
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    ChannelSender,
    Message,
    PartitionRequest,
    SendBuffer,
    SendQueue,
    wire_size,
)

from ..agenda import Agenda
from ..randomness import Randomness
from ..settings.config import CostModel
from .link import Link
from .remote_channel import RemoteInputChannel


class Notifier:
    """Hands work from task threads to a network thread, in order, after a small random time."""

    __slots__ = ("_agenda", "_jitter", "_last", "_median")

    def __init__(self, agenda: Agenda, costs: CostModel, randomness: Randomness) -> None:
        self._agenda = agenda
        self._median = costs.notify_s
        self._jitter = randomness.jitter
        self._last = 0.0

    def __call__(self, work: Callable[..., None], *args: object) -> None:
        """Let the network thread do ``work(*args)``."""
        agenda = self._agenda
        time = agenda.now + self._median * self._jitter()
        if time < self._last:
            time = self._last
        self._last = time
        agenda.at(time, work, *args)


class ProducerEnd:
    """The sending side of a connection; `messages` counts what has arrived here."""

    def __init__(self, link: Link, notifier: Notifier, find: Callable[[int], PipelinedSubpartition]) -> None:
        self.consumer: ConsumerEnd
        self.queue = SendQueue()
        self.messages = 0
        self._wire = link.to_consumer
        self._notify = notifier
        self._find = find
        self._writing: SendBuffer | None = None
        self._busy = False

    def receive(self, message: Message) -> None:
        """Take a message of the consuming end."""
        self.messages += 1
        if type(message) is PartitionRequest:
            self._open(message)
        else:
            self.queue.handle(message)
        if not self._busy:
            self._write_next()

    def _open(self, request: PartitionRequest) -> None:
        subpartition = self._find(request.channel)
        sender = self.queue.open(request, subpartition)
        subpartition.on_data = lambda: self._notify(self._data_available, sender)

    def _data_available(self, sender: ChannelSender) -> None:
        self.queue.data_available(sender)
        if not self._busy:
            self._write_next()

    def _write_next(self) -> None:
        item = self.queue.next_message()
        if item is None:
            self._busy = False
            return
        message, self._writing = item
        self._busy = True
        if type(message) is BufferResponse:
            message = _detached(message)
        self._wire.write(wire_size(message), self._written, message, self.consumer.receive)

    def _written(self) -> None:
        buffer = self._writing
        self._writing = None
        if buffer is not None:
            buffer.release()
        self._write_next()

    def close(self) -> None:
        """Release the buffer that is being written and all that waits."""
        if self._writing is not None:
            self._writing.release()
            self._writing = None
        self.queue.close()


class ConsumerEnd:
    """The receiving side of a connection.

    `buffers`, `bytes` and `messages` count what has arrived: data buffers and their bytes, and
    messages of any kind.
    """

    def __init__(self, link: Link, notifier: Notifier) -> None:
        self.producer: ProducerEnd
        self.buffers = 0
        self.bytes = 0
        self.messages = 0
        self._wire = link.to_producer
        self._notify = notifier
        self._channels: dict[int, RemoteInputChannel] = {}

    def open(self, channel: RemoteInputChannel, request: PartitionRequest) -> None:
        """Ask the producer for the subpartition of `channel`."""
        self._channels[request.channel] = channel
        self._transmit(request)

    def receive(self, message: Message) -> None:
        """Take a message of the producing end."""
        self.messages += 1
        if type(message) is BufferResponse:
            channel = self._channels[message.channel]
            if not channel.on_message(message):
                self.buffers += 1
                self.bytes += len(message.payload)
        elif type(message) is BacklogAnnouncement:
            self._channels[message.channel].on_backlog(message.backlog)
        else:
            raise TypeError(f"a producer does not send {type(message).__name__}")

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
        self._wire.write(wire_size(message), None, message, self.producer.receive)


def connect(
    agenda: Agenda,
    link: Link,
    costs: CostModel,
    randomness: Randomness,
    find: Callable[[int], PipelinedSubpartition],
) -> tuple[ProducerEnd, ConsumerEnd]:
    """Both ends of a connection over `link`; `find` gives the subpartition that a channel asks for."""
    producer = ProducerEnd(link, Notifier(agenda, costs, randomness), find)
    consumer = ConsumerEnd(link, Notifier(agenda, costs, randomness))
    producer.consumer = consumer
    consumer.producer = producer
    return producer, consumer


def _detached(message: BufferResponse) -> BufferResponse:
    """The same message with bytes of its own, since the segment may be written again once they left."""
    return BufferResponse(
        message.channel,
        message.subpartition,
        message.sequence_number,
        message.backlog,
        message.data_type,
        message.compressed,
        bytes(message.payload),
    )
