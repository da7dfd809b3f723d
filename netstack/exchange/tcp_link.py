"""A link over TCP: one connection for a pair of task managers, shared by all channels in both directions.

Each process has one `TcpLink` for each peer. It contains the producing end of the process's own partitions
and the consuming end of its own gates. An arriving message goes to one of the two ends by its type::

    this process                                   the peer
    producing -- buffers ----\\         /----- buffers -- producing
                              one TCP connection
    consuming -- credit -----/         \\----- credit --- consuming

Headers and payloads are sent without a copy, many in one call. Payloads arrive directly in the segment for
which credit was given. Each side ends with a CloseRequest, its last message. A side that has sent nothing for
a while sends a KeepAlive, so that the peer can distinguish a hanging process from an idle one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar, get_args

import trio

from flowcontrol import (
    BufferHeader,
    CloseRequest,
    ControlPayload,
    ErrorResponse,
    FrameReader,
    FrameSink,
    KeepAlive,
    Message,
    PartitionRequest,
    RemoteProtocolError,
    ToConsumer,
    ToProducer,
    readable,
)

from ..errors import ConnectionLostError, LinkClosedError, PeerFailedError, PeerSilentError, TransportError
from ..tcp.pipe import ConnectionLimits, Outgoing, Stream, describe, pipe_over
from .link import Receiver

__all__ = ["TcpLink"]

HIGH_WATERMARK_BYTES = 256 << 10
"""Maximum number of bytes queued for the socket; a longer queue would only increase the delay."""

_BYTES_PER_TURN = 256 << 10  # then trio and the other connections run
_LINGER_S = 2.0  # time to send or receive the final error message


class TcpLink:
    """This process's side of a connection to `peer`, the name that errors use for the other side.

    No data is transferred before `run` begins or after it ends. `incoming.on_control` receives the messages
    of the peer's `send_control`. `on_error` is called with the error as soon as it is known; `run` raises it
    later. `outgoing` holds the messages to send.
    """

    _nursery: trio.Nursery

    def __init__(self, stream: Stream, limits: ConnectionLimits, peer: str) -> None:
        self.peer = peer
        self.producing: TcpEnd[Receiver] = TcpEnd(self)
        self.consuming: TcpEnd[FrameSink] = TcpEnd(self)
        self.incoming = Incoming(peer, limits.max_channels, self.producing, self.consuming)
        self.incoming.on_finished = self._end_if_done
        self.outgoing = Outgoing()
        self.received_bytes = 0
        self.on_error: Callable[[Exception], None] = lambda error: None
        self._pipe = pipe_over(stream)
        self._limits = limits
        self._reader = FrameReader(self.incoming, limits.max_frame_bytes)
        self._deferred: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._wake: trio.Event | None = None  # set while the sending task is idle
        self._closing = False  # whether the last message is queued or sent
        self._failed = False
        self._error: Exception | None = None
        self._scope = trio.CancelScope()
        self._all_sent = trio.Event()
        self._over = trio.Event()
        self._peer_gone = trio.Event()

    def notify(self, work: Callable[..., None], *args: object) -> None:
        """Call ``work(*args)`` in the sending task, in order, so that several credits share one message."""
        self._deferred.append((work, args))
        if self._wake is not None:
            self._wake.set()

    def enqueue(self, message: Message, written: Callable[[], None] | None = None) -> None:
        """Queue `message` after all waiting messages. It is ignored after the last message of this side."""
        if self._closing and type(message) is not KeepAlive:
            return
        self.outgoing.add(message, written)
        if self._wake is not None:
            self._wake.set()

    def after(self, delay_s: float, work: Callable[[], None]) -> None:
        """Call `work` after `delay_s` seconds in the sending task; must be called while the link runs."""
        self._nursery.start_soon(self._notify_later, delay_s, work)

    async def _notify_later(self, delay_s: float, work: Callable[[], None]) -> None:
        await trio.sleep(delay_s)
        self.notify(work)

    def send_control(self, payload: bytes) -> None:
        """Send a message of the control plane; it keeps its order among all other messages.

        Raises:
            LinkClosedError: if this side has finished.
        """
        if self._closing:
            raise LinkClosedError(self.peer, "a control message cannot be sent after the last message")
        self.enqueue(ControlPayload(payload))

    def end_finished(self) -> None:
        """Send the last message if both ends of this process have finished."""
        if self.producing.finished and self.consuming.finished and not self._closing:
            self.notify(self._send_close_request)

    def _send_close_request(self) -> None:
        self.enqueue(CloseRequest())
        self._closing = True

    def finish(self) -> None:
        """Stop writing at both ends."""
        self.producing.finish()
        self.consuming.finish()

    def fail(self, cause: str) -> None:
        """Drop unsent messages, send `cause` to the peer and end the connection; `run` then returns."""
        if self._failed:
            return
        self._failed = self._closing = True
        self._all_sent = trio.Event()
        self._deferred.clear()
        # Not at once: the sending task may be using the messages that have to be dropped.
        self.notify(self._send_final_error, readable(cause))
        self._over.set()

    def _send_final_error(self, cause: str) -> None:
        self.outgoing.drop()
        self.outgoing.add(ErrorResponse(cause))

    async def run(self) -> None:
        """Transfer messages until both sides have finished, then close the connection.

        Raises:
            PeerFailedError: if the peer has failed and sent the cause.
            PeerSilentError: if the peer has been silent for too long.
            ConnectionLostError: if the connection broke or ended early.
            RemoteProtocolError: if the peer violated the protocol.
        """
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    alive = partial(keep_alive, self, self._limits.keep_alive_s)
                    for work in (self._write_all, self._read_all, alive, self._wind_up):
                        nursery.start_soon(self._guard, work)
        finally:
            self.outgoing.clear()
            self._deferred.clear()
            with trio.CancelScope(shield=True):
                await self._pipe.aclose()
        if self._error is not None:
            raise self._error

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self._keep_error(error)
            self._scope.cancel()

    def _keep_error(self, error: Exception) -> None:
        """Keep the first error. Errors after the end of the connection are ignored."""
        if self._error is None and not self._over.is_set():
            self._error = error
            self.on_error(error)

    async def _write_all(self) -> None:
        turn = 0
        while True:
            self._run_deferred()
            if not self.outgoing:
                if self._closing:
                    self._all_sent.set()
                    self._end_if_done()
                self._wake = trio.Event()
                await self._wake.wait()
                self._wake = None
                turn = 0
                continue
            parts = self.outgoing.next_parts()
            try:
                sent = self._pipe.send_now(parts) or await self._pipe.send(parts)
            except (OSError, trio.BrokenResourceError) as error:
                await self._sending_failed(error)
                return
            self.outgoing.left(sent)
            turn += sent
            if turn >= _BYTES_PER_TURN:
                turn = 0
                await trio.lowlevel.checkpoint()

    def _answer(self) -> None:
        """Send the answers to the messages just read at once, without waiting for the sending task."""
        if self._wake is None:
            return  # it is busy, or waits for the socket
        self._run_deferred()
        while self.outgoing:
            try:
                sent = self._pipe.send_now(self.outgoing.next_parts())
            except OSError:
                sent = None  # the sending task will get the same error, and wait for the peer's final message
            if sent is None:
                self._wake.set()
                break
            self.outgoing.left(sent)
            self._run_deferred()

    def _run_deferred(self) -> None:
        while self._deferred:
            work, args = self._deferred.popleft()
            work(*args)

    async def _sending_failed(self, error: Exception) -> None:
        """Let the reading task find the cause of a failed write.

        The peer may have sent the cause before it closed the connection.
        """
        with trio.move_on_after(_LINGER_S):
            await self._peer_gone.wait()
        raise ConnectionLostError(self.peer, describe(error))

    async def _read_all(self) -> None:
        try:
            await self._read_messages()
        except TransportError:
            raise
        except Exception as error:
            self._keep_error(error)
            self.fail(str(error) if isinstance(error, RemoteProtocolError) else repr(error))
            await self._drain()

    async def _read_messages(self) -> None:
        reader, receive_now = self._reader, self._pipe.receive_now
        problem = "the connection ended before both sides had finished"
        turn = 0
        while True:
            buffers = reader.buffers()
            try:
                count = receive_now(buffers)
                if count is None:
                    turn = 0
                    self._answer()
                    count = await self._pipe.receive_into(buffers)
            except (OSError, trio.BrokenResourceError) as error:
                problem = describe(error)
                break
            if not count:
                break
            self.received_bytes += count
            if self._failed:
                continue  # this side has failed
            reader.advance(count)
            turn += count
            if turn >= _BYTES_PER_TURN:
                turn = 0
                await trio.lowlevel.checkpoint()
        self._peer_gone.set()
        if not (self._failed or (self._closing and self.incoming.finished and reader.between_frames)):
            raise ConnectionLostError(self.peer, problem)

    async def _drain(self) -> None:
        """Read and drop arriving data, because closing now could make the peer lose our final message."""
        scratch = [memoryview(bytearray(_BYTES_PER_TURN))]
        with suppress(OSError, trio.BrokenResourceError):
            while await self._pipe.receive_into(scratch):
                await trio.lowlevel.checkpoint()
        self._peer_gone.set()

    def _end_if_done(self) -> None:
        if self.incoming.finished and self._all_sent.is_set():
            self._over.set()

    async def _wind_up(self) -> None:
        """Close the connection when both sides have finished, or this side has failed."""
        await self._over.wait()
        with trio.move_on_after(_LINGER_S):
            await self._all_sent.wait()
            await self._pipe.send_eof()
            await self._peer_gone.wait()
        self._scope.cancel()


_CHECKS_PER_LIMIT = 4
"""Number of checks of a connection within the timeout for a silent peer."""


_TO_PRODUCER = frozenset(get_args(ToProducer))
_TO_CONSUMER = frozenset(get_args(ToConsumer))


async def keep_alive(link: TcpLink, limit_s: float) -> None:
    """Send a KeepAlive when no other message is sent, and detect a silent peer.

    A running peer sends something at least once in half of `limit_s`. A silent peer is detected between 1 and
    1.25 times `limit_s` after its last byte.

    Raises:
        PeerSilentError: if nothing was received for `limit_s` seconds while this process was running.
    """
    interval = limit_s / _CHECKS_PER_LIMIT
    sent_before = received_before = -1
    silent_checks = 0
    while True:
        due = trio.current_time() + interval
        await trio.sleep_until(due)
        now = trio.current_time()
        stalled = now - due > interval  # this process itself did not run
        if sent_before == link.outgoing.sent_bytes and not link.outgoing:
            link.enqueue(KeepAlive())
        silent_checks = 0 if received_before != link.received_bytes or stalled else silent_checks + 1
        if silent_checks == _CHECKS_PER_LIMIT:
            raise PeerSilentError(link.peer, f"no message arrived for {limit_s:g} s")
        sent_before, received_before = link.outgoing.sent_bytes, link.received_bytes


AnyReceiver = TypeVar("AnyReceiver")


class TcpEnd(Generic[AnyReceiver]):
    """One of this process's two ends of a `TcpLink`; see `netstack.exchange.link.LinkEnd`."""

    receiver: AnyReceiver

    def __init__(self, link: TcpLink) -> None:
        self._link = link
        self.finished = False

    @property
    def ready(self) -> bool:
        """Whether fewer than `HIGH_WATERMARK_BYTES` bytes wait for the socket."""
        return self._link.outgoing.waiting_bytes < HIGH_WATERMARK_BYTES

    @property
    def now(self) -> float:
        """Time of this process's event loop."""
        return trio.current_time()

    @property
    def leaves_at(self) -> float:
        """Now: credit that is gained later has a message of its own."""
        return trio.current_time()

    def after(self, delay_s: float, work: Callable[[], None]) -> None:
        """Call `work` after `delay_s` seconds."""
        self._link.after(delay_s, work)

    def listen(self, receiver: AnyReceiver) -> None:
        """Pass arriving messages to `receiver`."""
        self.receiver = receiver

    def write(self, size: int, written: Callable[[], None] | None, message: Message) -> float | None:
        """Send `message`; `written` is called when it has left."""
        if self.finished:
            raise LinkClosedError(
                self._link.peer, f"{type(message).__name__} cannot be sent after the last message"
            )
        self._link.enqueue(message, written)
        return None

    def finish(self) -> None:
        """Stop writing."""
        if not self.finished:
            self.finished = True
            self._link.end_finished()


class Incoming:
    """Receives from `peer`: passes buffers to the consuming end, requests to the producing end.

    `finished`: whether the peer has sent its last message; `on_finished` is called at that moment.
    """

    def __init__(
        self, peer: str, max_channels: int, producing: TcpEnd[Receiver], consuming: TcpEnd[FrameSink]
    ) -> None:
        self.finished = False
        self.on_control: Callable[[bytes], None] | None = None
        self.on_finished: Callable[[], None] = lambda: None
        self._peer = peer
        self._max_channels = max_channels
        self._channels: set[int] = set()
        self._producing = producing
        self._consuming = consuming

    def place(self, header: BufferHeader) -> memoryview:
        """Return the memory for the payload of an arriving buffer (`FrameSink`)."""
        self._expect_more("buffer")
        return self._consuming.receiver.place(header)

    def landed(self, header: BufferHeader) -> None:
        """Report that the payload is complete (`FrameSink`)."""
        self._consuming.receiver.landed(header)

    def receive(self, message: Message) -> None:
        """Pass a message to the end that it is for (`FrameSink`).

        Raises:
            PeerFailedError: if the peer reports that it has failed.
            RemoteProtocolError: if the message is not valid here.
        """
        if isinstance(message, KeepAlive):
            return
        if isinstance(message, ErrorResponse) and message.channel is None:
            raise PeerFailedError(self._peer, readable(message.cause))
        self._expect_more(type(message).__name__)
        kind = type(message)
        if kind in _TO_CONSUMER:
            self._consuming.receiver.receive(message)
        elif kind in _TO_PRODUCER:
            if isinstance(message, PartitionRequest):
                self._count_channel(message.channel)
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
            raise RemoteProtocolError(
                "the peer sent a ControlPayload over a connection that carries no control messages"
            )
        self.on_control(payload)

    def _count_channel(self, channel: int) -> None:
        """Count a channel that the peer requests for the first time."""
        self._channels.add(channel)
        if len(self._channels) > self._max_channels:
            raise RemoteProtocolError(
                f"the peer requests more channels than the {self._max_channels} that are allowed"
            )
