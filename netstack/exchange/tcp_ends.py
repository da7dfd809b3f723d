"""The two ends of a TCP link in this process, who gets what has arrived, and whether the peer hangs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Protocol

import trio

from flowcontrol import (
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BufferHeader,
    BufferResponse,
    CancelPartitionRequest,
    CloseRequest,
    ControlPayload,
    ErrorResponse,
    FrameSink,
    KeepAlive,
    Message,
    NewBufferSize,
    PartitionRequest,
    RemoteProtocolError,
    ResumeConsumption,
    readable,
)

from ..errors import LinkClosedError, PeerFailedError, PeerSilentError
from ..tcp.pipe import Outgoing
from .link import Receiver

_LOOKS = 4
"""Checks of a connection during the time after which a silent peer counts as dead."""


class Recipient(Enum):
    """The part of a connection that a message is for."""

    PRODUCING = auto()
    CONSUMING = auto()
    CONNECTION = auto()


RECIPIENTS: Mapping[type[Message], Recipient] = MappingProxyType(
    {
        BufferResponse: Recipient.CONSUMING,
        ErrorResponse: Recipient.CONSUMING,  # without a channel: CONNECTION
        PartitionRequest: Recipient.PRODUCING,
        CancelPartitionRequest: Recipient.PRODUCING,
        CloseRequest: Recipient.CONNECTION,
        AddCredit: Recipient.PRODUCING,
        ResumeConsumption: Recipient.PRODUCING,
        AckAllUserRecordsProcessed: Recipient.PRODUCING,
        BacklogAnnouncement: Recipient.CONSUMING,
        NewBufferSize: Recipient.PRODUCING,
        KeepAlive: Recipient.CONNECTION,
        ControlPayload: Recipient.CONNECTION,
    }
)
"""The recipient of each message of the protocol."""


class Speaking(Protocol):
    """A link that counts what it sends and receives."""

    peer: str
    outgoing: Outgoing
    received_bytes: int

    def enqueue(self, message: Message) -> None:
        """Let `message` leave behind all that waits."""
        ...


async def keep_alive(link: Speaking, limit_s: float) -> None:
    """Send a KeepAlive when nothing else is sent, and detect a peer that has gone silent.

    A peer that runs is heard at least every half of `limit_s`. A silent one is detected when between 1 and
    1.25 times `limit_s` have passed since the last byte.

    Raises:
        PeerSilentError: if nothing was heard for `limit_s` seconds, in which this process did run.
    """
    interval = limit_s / _LOOKS
    said = heard = -1
    silent_checks = 0
    while True:
        due = trio.current_time() + interval
        await trio.sleep_until(due)
        now = trio.current_time()
        stalled = now - due > interval  # it was this process that did not run
        if said == link.outgoing.sent_bytes and not link.outgoing:
            link.enqueue(KeepAlive())
        silent_checks = 0 if heard != link.received_bytes or stalled else silent_checks + 1
        if silent_checks == _LOOKS:
            raise PeerSilentError(link.peer, f"nothing was heard for {limit_s:g} s")
        said, heard = link.outgoing.sent_bytes, link.received_bytes


class Connection(Protocol):
    """What the ends of one process share."""

    peer: str

    @property
    def ready(self) -> bool:
        """Whether the socket can soon take more."""
        ...

    def enqueue(self, message: Message, written: Callable[[], None] | None = None) -> None:
        """Let `message` leave behind all that waits."""
        ...

    def end_finished(self) -> None:
        """One of the ends has finished."""
        ...

    def after(self, delay_s: float, work: Callable[[], None]) -> None:
        """Do `work` in `delay_s` seconds, if the connection still runs then."""
        ...


class TcpEnd:
    """One of the two ends of a `TcpLink` in this process."""

    __slots__ = ("_link", "finished", "receiver")

    receiver: Receiver

    def __init__(self, link: Connection) -> None:
        self._link = link
        self.finished = False

    @property
    def ready(self) -> bool:
        """Whether the socket can soon take more."""
        return self._link.ready

    @property
    def now(self) -> float:
        """The time of this process's event loop."""
        return trio.current_time()

    def after(self, delay_s: float, work: Callable[[], None]) -> None:
        """Do `work` in `delay_s` seconds; see `netstack.exchange.link.LinkEnd`."""
        self._link.after(delay_s, work)

    def listen(self, receiver: Receiver) -> None:
        """Hand what arrives here to `receiver`."""
        self.receiver = receiver

    def write(self, size: int, written: Callable[[], None] | None, message: Message) -> None:
        """Send `message`; see `netstack.exchange.link.LinkEnd`."""
        if self.finished:
            raise LinkClosedError(self._link.peer, f"{type(message).__name__} after the last message")
        self._link.enqueue(message, written)

    def finish(self) -> None:
        """Write nothing more."""
        if not self.finished:
            self.finished = True
            self._link.end_finished()


class TcpConsumingEnd(TcpEnd):
    """The end whose receiver gives arriving payloads their place."""

    __slots__ = ()

    receiver: FrameSink

    def listen(self, receiver: FrameSink) -> None:  # type: ignore[override]
        """Hand what arrives here to `receiver`."""
        self.receiver = receiver


class Incoming:
    """Takes what arrives from `peer`: buffers for the consuming end, requests for the producing one.

    `finished`: the peer has sent its last message, which `on_finished` is then told.
    """

    def __init__(self, peer: str, max_channels: int, producing: TcpEnd, consuming: TcpConsumingEnd) -> None:
        self.finished = False
        self.on_control: Callable[[bytes], None] | None = None
        self.on_finished: Callable[[], None] = lambda: None
        self._peer = peer
        self._max_channels = max_channels
        self._channels: set[int] = set()
        self._producing = producing
        self._consuming = consuming

    def place(self, header: BufferHeader) -> memoryview:
        """Where the payload of an arriving buffer goes (`FrameSink`)."""
        self._expect_more("buffer")
        return self._consuming.receiver.place(header)

    def landed(self, header: BufferHeader) -> None:
        """That payload is complete (`FrameSink`)."""
        self._consuming.receiver.landed(header)

    def receive(self, message: Message) -> None:
        """Hand a message to the end that it is for (`FrameSink`).

        Raises:
            PeerFailedError: if the peer tells that it has failed.
            RemoteProtocolError: if the message makes no sense.
        """
        if isinstance(message, KeepAlive):
            return
        if isinstance(message, ErrorResponse) and message.channel is None:
            raise PeerFailedError(self._peer, readable(message.cause))
        self._expect_more(type(message).__name__)
        recipient = RECIPIENTS[type(message)]
        if recipient is Recipient.CONSUMING:
            self._consuming.receiver.receive(message)
        elif recipient is Recipient.PRODUCING:
            if isinstance(message, PartitionRequest):
                self._note_channel(message.channel)
            self._producing.receiver.receive(message)
        elif isinstance(message, ControlPayload):
            self._control(message.payload)
        else:
            self.finished = True
            self.on_finished()

    def _expect_more(self, what: str) -> None:
        if self.finished:
            raise RemoteProtocolError(f"the peer sent a {what} after its last message")

    def _control(self, payload: bytes) -> None:
        if self.on_control is None:
            raise RemoteProtocolError("the peer sent a ControlPayload, which nobody reads here")
        self.on_control(payload)

    def _note_channel(self, channel: int) -> None:
        """Take note of a channel that is opened, or asked for again as its partition was not there."""
        self._channels.add(channel)
        if len(self._channels) > self._max_channels:
            raise RemoteProtocolError(f"the peer requests more than {self._max_channels} channels")
