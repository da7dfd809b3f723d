"""The receiving side of a connection: hands on what arrives, and sends back what channels ask for."""

from __future__ import annotations

from contextlib import suppress

from buffers import ReceivedBuffer
from flowcontrol import (
    PARTITION_NOT_FOUND,
    AddCredit,
    BacklogAnnouncement,
    BufferHeader,
    BufferResponse,
    CancelPartitionRequest,
    DataType,
    ErrorResponse,
    Message,
    PartitionRequest,
    RemoteProtocolError,
    RequestBackoff,
    readable,
    wire_size,
)

from ..errors import LinkClosedError, PartitionNotFoundError, PeerFailedError
from .link import ConsumingEnd
from .notifier import Notify
from .remote_channel import RemoteInputChannel

MAX_EVENT_BYTES = 64 << 10
"""The longest event that is taken; a barrier has some 20 bytes."""


class ConsumerEnd:
    """The receiving side of a connection.

    `buffers`, `bytes` and `messages` count what has arrived: data buffers and their bytes, and
    messages of any kind. Errors call the other side `peer`.

    What arrives for a channel that was released is dropped, and the producer is asked once to send no more of
    it; other channels do not notice. A channel that was never requested breaks the protocol, which is where
    this end is stricter than Flink's.

    A segment that a payload is arriving in stays with this end when its channel is closed: the link still
    writes to it. It goes back when the payload has landed, or with `release`.
    """

    def __init__(self, end: ConsumingEnd, notify: Notify, peer: str = "the producer") -> None:
        self.buffers = 0
        self.bytes = 0
        self.messages = 0
        self._end = end
        self._notify = notify
        self._peer = peer
        self._channels: dict[int, RemoteInputChannel] = {}
        self._backoffs: dict[int, RequestBackoff] = {}
        self._cancelled: dict[int, int] = {}  # the most bytes of a buffer, by channel
        self._target: RemoteInputChannel | None = None  # of the payload that is arriving
        self._arriving: memoryview | None = None  # its place, if it is an event or is dropped
        self._orphan: ReceivedBuffer | None = None  # its buffer, if its channel was closed meanwhile
        end.listen(self)

    def open(self, channel: RemoteInputChannel, request: PartitionRequest) -> None:
        """Ask the producer for the subpartition of `channel`."""
        self._channels[request.channel] = channel
        self._transmit(request)

    def close(self, channel: RemoteInputChannel) -> None:
        """Take leave of the producer of `channel`, behind all it was told; what still comes is dropped."""
        number = channel.channel_id
        if self._channels.pop(number, None) is not None:
            self._cancelled[number] = channel.gate.segment_bytes
            self._notify(self._transmit, CancelPartitionRequest(number))
        if self._target is channel:
            self._target = None
            self._orphan = channel.abandon_landing()

    def release(self) -> None:
        """Give back the segment of a payload that has not landed; the link must have ended."""
        if self._orphan is not None:
            self._orphan.release()
            self._orphan = None

    def receive(self, message: Message) -> None:
        """Take a message of the producing end.

        Raises:
            RemoteProtocolError: if it makes no sense here.
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
            if channel is not None:
                place = channel.land(header.sequence_number, header.backlog, header.size)
                self._target = channel
                return place
            limit = self._cancelled[header.channel]
        else:
            limit = MAX_EVENT_BYTES
        if header.size > limit:
            what = "a buffer" if header.data_type is DataType.DATA_BUFFER else "an event"
            raise RemoteProtocolError(f"{what} of {header.size} bytes arrived, allowed are {limit}")
        self._target = channel
        self._arriving = memoryview(bytearray(header.size))
        return self._arriving

    def landed(self, header: BufferHeader) -> None:
        """The payload that was placed last is complete.

        Raises:
            RemoteProtocolError: if it is an event that makes no sense.
        """
        self.messages += 1
        channel, self._target = self._target, None
        payload, self._arriving = self._arriving, None
        if channel is None or channel.released:
            self.release()
            return
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

    def _channel(self, number: int) -> RemoteInputChannel | None:
        """The channel that something has arrived for; None if it was released."""
        channel = self._channels.get(number)
        if channel is None:
            if number in self._cancelled:
                return None
            raise RemoteProtocolError(f"a buffer or backlog arrived for channel {number}, which nobody reads")
        if channel.released:
            self._cancel(number)
            return None
        return channel

    def _cancel(self, number: int) -> None:
        if number not in self._cancelled:
            self._cancelled[number] = self._channels[number].gate.segment_bytes
            with suppress(LinkClosedError):  # an end that has finished has taken leave of the producer
                self._transmit(CancelPartitionRequest(number))

    def _channel_failed(self, number: int, cause: str) -> None:
        """The producer cannot serve a channel, which fails, or asks again; the others go on.

        Raises:
            RemoteProtocolError: if there is no partition for a channel that is served.
        """
        channel = self._channels.get(number)
        if channel is None or channel.released:
            return  # it concerns nobody
        if cause != PARTITION_NOT_FOUND:
            channel.fail(PeerFailedError(self._peer, readable(cause)))
            return
        if channel.receiver.expected_sequence != 0:
            raise RemoteProtocolError(f"there is no partition for channel {number}, which is served")
        backoff = self._backoffs.setdefault(number, RequestBackoff())
        if backoff.increase():
            self._transmit(channel.partition_request)
        else:
            problem = f"there was no partition for channel {number} in {backoff.waited_s:g} s"
            channel.fail(PartitionNotFoundError(self._peer, problem))

    def credit_available(self, channel: RemoteInputChannel) -> None:
        """Announce what `channel` has gained, all that it has when the network thread gets there."""
        self._notify(self._send_credit, channel)

    def _send_credit(self, channel: RemoteInputChannel) -> None:
        credit = channel.take_credit()
        if credit:
            self._transmit(AddCredit(channel.channel_id, credit))

    def send(self, message: Message) -> None:
        """Send `message` to the producing end, behind all credit that is on its way to the network thread."""
        self._notify(self._transmit, message)

    def _transmit(self, message: Message) -> None:
        self._end.write(wire_size(message), None, message)
