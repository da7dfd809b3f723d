"""A link over TCP: one connection for a pair of task managers, shared by all their channels, both ways.

Each process has one `TcpLink` for each peer, with the producing end of its own partitions and the consuming
end of its own gates. What arrives goes to one of the two by its type::

    this process                                   the peer
    producing -- buffers ----\\         /----- buffers -- producing
                              one TCP connection
    consuming -- credit -----/         \\----- credit --- consuming

Headers and payloads leave from where they lie, many in one call; payloads arrive in the segment that the
credit for them stands for. Both sides end with a CloseRequest, behind which nothing comes. A side that says
nothing for a while sends a KeepAlive, so a peer that hangs is told from one that has nothing to say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

from flowcontrol import (
    CloseRequest,
    ControlPayload,
    ErrorResponse,
    FrameReader,
    KeepAlive,
    Message,
    RemoteProtocolError,
    readable,
)

from ..errors import ConnectionLostError, LinkClosedError, TransportError
from ..tcp.pipe import ConnectionLimits, Outgoing, Stream, describe, pipe_over
from .tcp_ends import Incoming, TcpConsumingEnd, TcpEnd, keep_alive

HIGH_WATERMARK_BYTES = 256 << 10
"""From so many bytes on that wait for the socket, more of them would only wait longer."""

_BYTES_PER_TURN = 256 << 10  # then trio and the other connections have their turn
_LINGER_S = 2.0  # for the last words, and for those of a peer that has gone


class TcpLink:
    """This process's side of a connection to `peer`, which is what errors call it.

    Nothing moves until `run`, and nothing after it. `incoming.on_control` gets what the peer's `send_control`
    sends, `on_error` at once what `run` is going to raise. `outgoing` is what has yet to leave.
    """

    _nursery: trio.Nursery

    def __init__(self, stream: Stream, limits: ConnectionLimits, peer: str) -> None:
        self.peer = peer
        self.producing = TcpEnd(self)
        self.consuming = TcpConsumingEnd(self)
        self.incoming = Incoming(peer, limits.max_channels, self.producing, self.consuming)
        self.incoming.on_finished = self._end_if_done
        self.outgoing = Outgoing()
        self.received_bytes = 0
        self.on_error: Callable[[Exception], None] = lambda error: None
        self._pipe = pipe_over(stream)
        self._limits = limits
        self._reader = FrameReader(self.incoming, limits.max_frame_bytes)
        self._deferred: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._wake: trio.Event | None = None  # while the task that sends has nothing to do
        self._closing = False  # the last message is queued, or has left
        self._failed = False
        self._error: Exception | None = None
        self._scope = trio.CancelScope()
        self._said_all = trio.Event()
        self._over = trio.Event()
        self._peer_gone = trio.Event()

    @property
    def ready(self) -> bool:
        """Whether the socket can soon take more."""
        return self.outgoing.waiting_bytes < HIGH_WATERMARK_BYTES

    def notify(self, work: Callable[..., None], *args: object) -> None:
        """Do ``work(*args)`` when the task that sends has its turn, in order: credit then leaves together."""
        self._deferred.append((work, args))
        if self._wake is not None:
            self._wake.set()

    def enqueue(self, message: Message, written: Callable[[], None] | None = None) -> None:
        """Let `message` leave behind all that waits; nothing is sent after the last message."""
        if self._closing and type(message) is not KeepAlive:
            return
        self.outgoing.add(message, written)
        if self._wake is not None:
            self._wake.set()

    def after(self, delay_s: float, work: Callable[[], None]) -> None:
        """Do `work` in `delay_s` seconds, on the task that sends; to be called while the link runs."""
        self._nursery.start_soon(self._notify_later, delay_s, work)

    async def _notify_later(self, delay_s: float, work: Callable[[], None]) -> None:
        await trio.sleep(delay_s)
        self.notify(work)

    def send_control(self, payload: bytes) -> None:
        """Send a message of the control plane, in order with everything else.

        Raises:
            LinkClosedError: if this side has finished.
        """
        if self._closing:
            raise LinkClosedError(self.peer, "a control message after the last message")
        self.enqueue(ControlPayload(payload))

    def end_finished(self) -> None:
        """Take leave of the peer if both ends have finished."""
        if self.producing.finished and self.consuming.finished and not self._closing:
            self.notify(self._take_leave)

    def _take_leave(self) -> None:
        self.enqueue(CloseRequest())
        self._closing = True

    def finish(self) -> None:
        """Write nothing more at either end."""
        self.producing.finish()
        self.consuming.finish()

    def fail(self, cause: str) -> None:
        """Drop what has not left, tell the peer `cause` and end the connection; `run` then just returns."""
        if self._failed:
            return
        self._failed = self._closing = True
        self._said_all = trio.Event()
        self._deferred.clear()
        # Not at once: the task that sends may be at work on what is to be dropped.
        self.notify(self._say_last_words, readable(cause))
        self._over.set()

    def _say_last_words(self, cause: str) -> None:
        self.outgoing.drop()
        self.outgoing.add(ErrorResponse(cause))

    async def run(self) -> None:
        """Move bytes until both sides have finished, then close the connection.

        Raises:
            PeerFailedError: if the peer told why it failed.
            PeerSilentError: if the peer is silent for longer than a living one.
            ConnectionLostError: if the connection broke or ended early.
            RemoteProtocolError: if the peer broke the protocol.
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
            self._note(error)
            self._scope.cancel()

    def _note(self, error: Exception) -> None:
        """Keep the first error; what goes wrong when the connection is over does not matter."""
        if self._error is None and not self._over.is_set():
            self._error = error
            self.on_error(error)

    async def _write_all(self) -> None:
        turn = 0
        while True:
            self._run_deferred()
            if not self.outgoing:
                if self._closing:
                    self._said_all.set()
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
        """Send at once what has come of reading, rather than wait for the turn of the task that sends."""
        if self._wake is None:
            return  # it is at work, or waits for the socket
        self._run_deferred()
        while self.outgoing:
            try:
                sent = self._pipe.send_now(self.outgoing.next_parts())
            except OSError:
                sent = None  # the task that sends will find out, too, and wait for the peer's last words
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
        """Let the other task find out why: the peer may have said it before it left."""
        with trio.move_on_after(_LINGER_S):
            await self._peer_gone.wait()
        raise ConnectionLostError(self.peer, describe(error))

    async def _read_all(self) -> None:
        try:
            await self._read_messages()
        except TransportError:
            raise
        except Exception as error:
            self._note(error)
            self.fail(str(error) if isinstance(error, RemoteProtocolError) else repr(error))
            await self._drain()

    async def _read_messages(self) -> None:
        reader, receive_now = self._reader, self._pipe.receive_now
        problem = "the connection ended before both sides were done"
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
                continue  # nobody wants it
            reader.advance(count)
            turn += count
            if turn >= _BYTES_PER_TURN:
                turn = 0
                await trio.lowlevel.checkpoint()
        self._peer_gone.set()
        if not (self._failed or (self._closing and self.incoming.finished and reader.between_frames)):
            raise ConnectionLostError(self.peer, problem)

    async def _drain(self) -> None:
        """Read what nobody wants: closing on it would take the last words from the peer."""
        scratch = [memoryview(bytearray(_BYTES_PER_TURN))]
        with suppress(OSError, trio.BrokenResourceError):
            while await self._pipe.receive_into(scratch):
                await trio.lowlevel.checkpoint()
        self._peer_gone.set()

    def _end_if_done(self) -> None:
        if self.incoming.finished and self._said_all.is_set():
            self._over.set()

    async def _wind_up(self) -> None:
        """End the connection when both sides are done, or this one has failed."""
        await self._over.wait()
        with trio.move_on_after(_LINGER_S):
            await self._said_all.wait()
            await self._pipe.send_eof()
            await self._peer_gone.wait()
        self._scope.cancel()
