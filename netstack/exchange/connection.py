"""A connection between two task managers: passes messages between a link and the state machines.

The producing end writes the messages that its `SendQueue` selects, until the link accepts no more. The
consuming end passes arriving buffers to input channels, and sends back credit, sizes and resumptions::

    subpartitions -> SendQueue -> ProducerEnd == link ==> ConsumerEnd -> input channels -> gates
                                      ^ <===== link ====== |
                                        AddCredit, NewBufferSize, ResumeConsumption

Task threads do not use the network themselves. They notify the network thread. In emulated time, a
notification takes the time `notify`, and notifications keep their order. If one thread runs both tasks and
network, a notification is a plain call. A notification that would find nothing to do is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress

from buffers import BufferSlice, PipelinedSubpartition, ReceivedBuffer
from flowcontrol import (
    MAX_REQUEST_BACKOFF_S,
    PARTITION_NOT_FOUND,
    AddCredit,
    BacklogAnnouncement,
    BufferHeader,
    BufferResponse,
    CancelPartitionRequest,
    ChannelSender,
    DataType,
    ErrorResponse,
    Message,
    PartitionRequest,
    RemoteProtocolError,
    RequestBackoff,
    RequestListeners,
    SendBuffer,
    SendQueue,
    readable,
    wire_size,
)

from ..engine.agenda import Agenda, Line
from ..engine.randomness import Draws
from ..errors import LinkClosedError, PartitionNotFoundError, PeerFailedError
from ..scenarios.costs import CostModel
from .emulated_link import EmulatedWire
from .link import ConsumingEnd, ProducingEnd
from .remote_channel import RemoteInputChannel, Uplink

__all__ = ["ConsumerEnd", "ProducerEnd"]

Notify = Callable[..., None]
"""Passes work from task threads to a network thread: ``notify(work, *args)`` calls ``work(*args)`` there, in
order.
"""


class Notifier:
    """Notifies the network thread of a producing end in emulated time, with a small random delay."""

    __slots__ = ("_agenda", "_jitter", "_last", "_line", "_median")

    def __init__(self, agenda: Agenda, costs: CostModel, jitter: Draws) -> None:
        self._agenda = agenda
        self._line = Line(agenda)
        self._median = costs.notify_s
        self._jitter = jitter
        self._last = 0.0

    def __call__(self, work: Callable[..., None], *args: object) -> None:
        """Call ``work(*args)`` in the network thread."""
        time = self._agenda.now + self._median * self._jitter.draw()
        if time < self._last:
            time = self._last
        self._last = time
        self._line.at(time, work, *args)


class WritingNotifier:
    """Notifies the network thread of a consuming end in emulated time.

    The thread only writes messages to `wire` for the tasks. So the work is done at once, and its messages
    leave after a small random delay.
    """

    __slots__ = ("_agenda", "_jitter", "_median", "_wire")

    def __init__(self, agenda: Agenda, costs: CostModel, jitter: Draws, wire: EmulatedWire) -> None:
        self._agenda = agenda
        self._median = costs.notify_s
        self._jitter = jitter
        self._wire = wire

    def __call__(self, work: Callable[..., None], *args: object) -> None:
        """Call ``work(*args)``, which writes messages."""
        self._wire.hold_until(self._agenda.now + self._median * self._jitter.draw())
        work(*args)


class CreditStalls:
    """Counts and times the stalls of channels.

    A channel is stalled while data buffers wait in it and its credit is 0. `count`: the number of stalls that
    have begun.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns the time in seconds."""
        self.count = 0
        self._clock = clock
        self._ended_s = 0.0
        self._since: dict[int, float] = {}

    def update(self, sender: ChannelSender) -> None:
        """Begin or end the stall of a channel according to its current state."""
        since = self._since
        if sender.credit.available == 0 and sender.view.backlog > 0:
            if sender.channel not in since:
                since[sender.channel] = self._clock()
                self.count += 1
        elif since and (start := since.pop(sender.channel, None)) is not None:
            self._ended_s += self._clock() - start

    @property
    def blocked_s(self) -> float:
        """Total duration of all stalls so far, in seconds, summed over the channels."""
        now = self._clock()
        return self._ended_s + sum(now - start for start in self._since.values())


class _DataNotice:
    """Callback of a subpartition. It is a class because a closure would take five times the memory."""

    __slots__ = ("_end", "_sender")

    def __init__(self, end: ProducerEnd, sender: ChannelSender) -> None:
        self._end = end
        self._sender = sender

    def __call__(self) -> None:
        """Notify the connection that the subpartition has data."""
        self._end.notify_data(self._sender)


class ProducerEnd:
    """The sending side of a connection; `messages` counts arrived messages.

    `stalls`, if set, is updated for every channel whose credit or data has changed. A request for a partition
    that does not exist yet waits until it exists; see `flowcontrol.RequestListeners`.
    """

    def __init__(
        self, end: ProducingEnd, notify: Notify, find: Callable[[int], PipelinedSubpartition]
    ) -> None:
        """`find` returns the subpartition of a channel, or raises a KeyError or IndexError."""
        self.queue = SendQueue()
        self.messages = 0
        self._end = end
        self._notify = notify
        self._find = find
        self._leaving: deque[SendBuffer | None] = deque()
        self._free_at = 0.0  # when the last message has left, if the link tells it in advance
        self._continues = False  # whether `_continue` is going to be called
        self._listeners = RequestListeners()
        self._timer_set = False
        self.stalls: CreditStalls | None = None
        end.listen(self)

    def receive(self, message: Message) -> None:
        """Process a message of the consuming end.

        Raises:
            RemoteProtocolError: if the message is not valid here.
        """
        self.messages += 1
        if type(message) is PartitionRequest:
            self._open(message)
        else:
            if type(message) is CancelPartitionRequest:
                self._listeners.take(message.channel)
            self.queue.handle(message)
            if type(message) is AddCredit:
                self._update_stall(message.channel)
        self._write()

    def _open(self, request: PartitionRequest) -> None:
        try:
            subpartition = self._find(request.channel)
        except LookupError:
            self._listeners.wait(request, self._end.now)
            self._set_timer()
            return
        sender = self.queue.open(request, subpartition)
        subpartition.on_data = _DataNotice(self, sender)

    @property
    def awaits_partitions(self) -> bool:
        """Whether requests wait for partitions that do not exist yet."""
        return len(self._listeners) > 0

    def partition_added(self, channel: int) -> None:
        """Serve the waiting request of `channel`, if any, because its partition now exists."""
        request = self._listeners.take(channel)
        if request is not None:
            self._open(request)
            self._write()

    def _set_timer(self) -> None:
        deadline = self._listeners.deadline
        if deadline is not None and not self._timer_set:
            self._timer_set = True
            self._end.after(max(0.0, deadline - self._end.now), self._time_out)

    def _time_out(self) -> None:
        """Unless the link is closed, send errors for requests whose partitions were not created in time."""
        self._timer_set = False
        with suppress(LinkClosedError):
            for error in self._listeners.expire(self._end.now):
                self._end.write(wire_size(error), None, error)
        self._set_timer()

    def notify_data(self, sender: ChannelSender) -> None:
        """Notify the network thread that a task has added data for `sender`.

        Without credit there is nothing to send: credit that arrives finds the data by itself.
        """
        if sender.queued or not (sender.sendable or sender.announces_backlog):
            self._update_stall(sender.channel)
        else:
            self._notify(self._data_available, sender)

    def _data_available(self, sender: ChannelSender) -> None:
        self.queue.data_available(sender)
        self._update_stall(sender.channel)
        self._write()

    def _write(self) -> None:
        """Write messages while the link takes them: one at a time, or more if it is ready for more."""
        end, leaving, queue = self._end, self._leaving, self.queue
        while queue.has_messages and (not leaving or end.ready):
            if self._free_at and self._free_at > end.now:
                if not self._continues:
                    self._continues = True
                    end.after(self._free_at - end.now, self._continue)
                return
            item = queue.next_message()
            if item is None:
                return
            message, buffer = item
            left = end.write(wire_size(message), self._written, message)
            if left is None:
                leaving.append(buffer)
            else:
                self._free_at = left
                if isinstance(buffer, BufferSlice) and not buffer.release_at(left):
                    leaving.append(buffer)
                    end.after(left - end.now, self._written)
            self._update_stall(message.channel)

    def _continue(self) -> None:
        """Write the next message, since the link is free again."""
        self._continues = False
        self._free_at = 0.0
        self._write()

    def _update_stall(self, channel: int) -> None:
        if self.stalls is not None:
            sender = self.queue.sender(channel)
            if sender is not None:
                self.stalls.update(sender)

    def _written(self) -> None:
        buffer = self._leaving.popleft()
        if buffer is not None:
            buffer.release()
        self._write()

    def close(self) -> None:
        """Release all buffers, written or waiting; the link must have ended."""
        self._listeners.clear()
        while self._leaving:
            buffer = self._leaving.popleft()
            if buffer is not None:
                buffer.release()
        self.queue.close()


MAX_EVENT_BYTES = 64 << 10
"""Maximum size of an event that is accepted; a barrier has some 20 bytes."""


class ConsumerEnd(Uplink):
    """The receiving side of a connection.

    `buffers` and `bytes` count the data buffers that have arrived and their bytes; `messages` counts messages
    of any type. Errors use the name `peer` for the other side.

    Messages for a released channel are dropped, and the producer is asked once to stop sending them; other
    channels are not affected. A message for a channel that was never requested violates the protocol. Flink
    is less strict here.

    If a channel is closed while a payload is arriving in its segment, this end keeps the segment, since the
    link still writes to it. The segment is returned when the payload is complete, or by `release`.
    """

    def __init__(
        self,
        end: ConsumingEnd,
        notify: Notify,
        peer: str = "the producer",
        max_backoff_s: float = MAX_REQUEST_BACKOFF_S,
    ) -> None:
        self.buffers = 0
        self.bytes = 0
        self.messages = 0
        self._end = end
        self._notify = notify
        self._peer = peer
        self._channels: dict[int, RemoteInputChannel] = {}
        self._max_backoff_s = max_backoff_s
        self._backoffs: dict[int, RequestBackoff] = {}
        # The latest credit of each channel, and the time when it leaves.
        self._waiting_credit: dict[int, tuple[AddCredit, float]] = {}
        self._cancelled: dict[int, int] = {}  # maximum size of a buffer, by channel
        self._target: RemoteInputChannel | None = None  # of the arriving payload; None if it is dropped
        self._arriving: ReceivedBuffer | memoryview | None = None  # for the arriving payload
        end.listen(self)

    def open(self, channel: RemoteInputChannel, request: PartitionRequest) -> None:
        """Request the subpartition of `channel` from the producer."""
        self._channels[request.channel] = channel
        self._transmit(request)

    def close(self, channel: RemoteInputChannel) -> None:
        """Cancel the request of `channel` behind all messages sent before; data that arrives later is
        dropped.
        """
        number = channel.channel_id
        if self._channels.pop(number, None) is not None:
            self._cancelled[number] = channel.gate.segment_bytes
            self._notify(self._transmit, CancelPartitionRequest(number))
        if self._target is channel:
            self._target = None

    def release(self) -> None:
        """Return the segment of an incomplete payload; the link must have ended."""
        arriving, self._arriving = self._arriving, None
        if isinstance(arriving, ReceivedBuffer):
            arriving.release()

    def receive(self, message: Message) -> None:
        """Process a message of the producing end.

        Raises:
            RemoteProtocolError: if the message is not valid here.
        """
        self.messages += 1
        if type(message) is BufferResponse:
            channel = self._channel(message.channel)
            if channel is not None and not channel.on_message(message):
                self.buffers += 1
                self.bytes += len(message.payload)
        elif type(message) is BacklogAnnouncement:
            channel = self._channel(message.channel)
            if channel is not None:
                channel.on_backlog(message.backlog)
        elif type(message) is ErrorResponse and message.channel is not None:
            self._channel_failed(message.channel, message.cause)
        else:
            raise RemoteProtocolError(f"a producer must not send {type(message).__name__}")

    def place(self, header: BufferHeader) -> memoryview:
        """Return the memory for the payload of an arriving buffer. For data it is a segment of the channel.

        Raises:
            RemoteProtocolError: if the channel may not get this buffer.
        """
        channel = self._channel(header.channel)
        if header.compressed:
            raise RemoteProtocolError("a compressed buffer arrived, but compression was not requested")
        if header.data_type is DataType.DATA_BUFFER:
            if channel is not None:
                buffer = channel.land(header.sequence_number, header.backlog, header.size)
                self._target, self._arriving = channel, buffer
                return buffer.segment.memory[: header.size]
            what, limit = "a buffer", self._cancelled[header.channel]
        else:
            what, limit = "an event", MAX_EVENT_BYTES
        if header.size > limit:
            raise RemoteProtocolError(
                f"{what} of {header.size} bytes arrived; at most {limit} bytes are allowed"
            )
        self._target, self._arriving = channel, memoryview(bytearray(header.size))
        return self._arriving

    def landed(self, header: BufferHeader) -> None:
        """Process the payload for which `place` was called last. It has now arrived completely.

        Raises:
            RemoteProtocolError: if the payload is an invalid event.
        """
        self.messages += 1
        channel, self._target = self._target, None
        if channel is None or channel.released:
            self.release()
            return
        arriving, self._arriving = self._arriving, None
        if isinstance(arriving, ReceivedBuffer):
            self.buffers += 1
            self.bytes += header.size
            channel.landed(arriving, header.backlog)
        elif arriving is not None:
            channel.on_message(header.with_payload(arriving))

    def _channel(self, number: int) -> RemoteInputChannel | None:
        """Return the channel with this number; None if the channel was released."""
        channel = self._channels.get(number)
        if channel is None:
            if number in self._cancelled:
                return None
            raise RemoteProtocolError(
                f"a buffer or a backlog arrived for channel {number}, which this task manager has not "
                "requested"
            )
        if channel.released:
            if number not in self._cancelled:
                self._cancelled[number] = self._channels[number].gate.segment_bytes
                with suppress(LinkClosedError):  # a finished end has already cancelled its requests
                    self._transmit(CancelPartitionRequest(number))
            return None
        return channel

    def _channel_failed(self, number: int, cause: str) -> None:
        """Handle the producer's error for one channel, which then fails or requests again.

        Other channels continue.

        Raises:
            RemoteProtocolError: if the error says that the partition does not exist, but the channel has
                received data from it.
        """
        channel = self._channels.get(number)
        if channel is None or channel.released:
            return  # no channel is left to fail
        if cause != PARTITION_NOT_FOUND:
            channel.fail(PeerFailedError(self._peer, readable(cause)))
            return
        if channel.receiver.expected_sequence != 0:
            raise RemoteProtocolError(
                f"the producer reports that the partition of channel {number} does not exist, but it has "
                "already sent data of this partition"
            )
        backoff = self._backoffs.setdefault(number, RequestBackoff(self._max_backoff_s))
        if backoff.increase():
            self._transmit(channel.partition_request)
        else:
            problem = f"the partition for channel {number} was not found within {backoff.waited_s:g} s"
            channel.fail(PartitionNotFoundError(self._peer, problem))

    def credit_available(self, channel: RemoteInputChannel) -> None:
        """Announce the credit of `channel`, together with credit that it gains before the message leaves."""
        waiting = self._waiting_credit.get(channel.channel_id)
        if waiting is not None and waiting[1] > self._end.now:
            waiting[0].credit += channel.take_credit()
        else:
            self._notify(self._send_credit, channel)

    def _send_credit(self, channel: RemoteInputChannel) -> None:
        credit = channel.take_credit()
        if credit:
            message = AddCredit(channel.channel_id, credit)
            self._waiting_credit[channel.channel_id] = message, self._end.leaves_at
            self._transmit(message)

    def send(self, message: Message) -> None:
        """Send `message` to the producing end, after all credit that was announced before."""
        self._notify(self._transmit, message)

    def _transmit(self, message: Message) -> None:
        self._end.write(wire_size(message), None, message)
