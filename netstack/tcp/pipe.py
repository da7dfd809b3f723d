"""Bytes to and from a peer, over a plain socket or TLS; the queue of messages; limits.

A plain socket sends from and reads into many pieces of memory with one system call each, without copies. The
pipe calls the kernel first, and waits with trio only if the kernel cannot transfer any bytes yet. So a busy
connection does not need a turn of the event loop for each call. TLS has to copy.
"""

from __future__ import annotations

import errno
import os
import resource
import ssl
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import trio

from flowcontrol import BufferResponse, Message, encode_header, payload_bytes

__all__ = ["ConnectionLimits"]

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
"""A connection whose peer has proven that it knows the job's secret."""

MAX_PARTS = 64
"""Maximum number of pieces of memory in one system call; the kernel allows 1024."""

_TLS_BYTES = 256 << 10


class SocketPipe:
    """The plain socket of a stream of bytes. Each direction is used by one task at a time.

    The methods that transfer bytes raise an OSError or a `trio.BrokenResourceError` if the peer has closed
    the connection.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._descriptor = stream.socket.fileno()

    def send_now(self, parts: Sequence[bytes | memoryview]) -> int | None:
        """Like `send`, but does not wait: returns None if no byte can be sent yet."""
        try:
            return os.writev(self._descriptor, parts)
        except BlockingIOError:
            return None

    def receive_now(self, buffers: Sequence[memoryview]) -> int | None:
        """Like `receive_into`, but does not wait: returns None if no bytes have arrived."""
        try:
            return os.readv(self._descriptor, buffers)
        except BlockingIOError:
            return None

    async def send(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send bytes from the start of `parts`, 1 to `MAX_PARTS` pieces; returns the number of bytes sent."""
        while (sent := self.send_now(parts)) is None:
            await trio.lowlevel.wait_writable(self._stream.socket)
        return sent

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        """Fill `buffers` with arrived bytes, from the first on; returns the number of bytes read, 0 at the
        end of the stream.
        """
        while (count := self.receive_now(buffers)) is None:
            await trio.lowlevel.wait_readable(self._stream.socket)
        return count

    async def send_eof(self) -> None:
        """Stop sending. Data of the peer can still be received."""
        with suppress(OSError, trio.BrokenResourceError):
            await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the socket; data already sent still arrives."""
        self._descriptor = -1
        await self._stream.aclose()


class TlsPipe:
    """A stream over TLS, which encrypts contiguous bytes; same methods as `SocketPipe`."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self._stream = stream

    def send_now(self, parts: Sequence[bytes | memoryview]) -> None:
        """Return None: TLS may always have to wait."""

    def receive_now(self, buffers: Sequence[memoryview]) -> None:
        """Return None: TLS may always have to wait."""

    async def send(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send all of `parts`."""
        data = b"".join(parts)
        await self._stream.send_all(data)
        return len(data)

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        """Fill `buffers` with arrived bytes; 0 at the end of the stream."""
        data = await self._stream.receive_some(min(_TLS_BYTES, sum(map(len, buffers))))
        start = 0
        for buffer in buffers:
            piece = data[start : start + len(buffer)]
            buffer[: len(piece)] = piece
            start += len(piece)
        return len(data)

    async def send_eof(self) -> None:
        """Half-close the underlying socket. The peer sees a broken connection, but receives all data sent
        before."""
        with suppress(OSError, trio.BrokenResourceError):
            await self._stream.transport_stream.send_eof()

    async def aclose(self) -> None:
        """Close the underlying socket without waiting for the peer."""
        await trio.aclose_forcefully(self._stream)


Pipe = SocketPipe | TlsPipe
"""Both directions of a stream of bytes."""


def pipe_over(stream: Stream) -> Pipe:
    """Return the pipe for a stream."""
    return SocketPipe(stream) if isinstance(stream, trio.SocketStream) else TlsPipe(stream)


def describe(error: BaseException) -> str:
    """Return a short reason why a connection broke."""
    cause = error.__cause__ if isinstance(error, trio.BrokenResourceError) else error
    if isinstance(cause, ssl.SSLError):
        return f"the connection broke (TLS: {cause.reason})"
    if isinstance(cause, OSError) and cause.errno is not None:
        name = errno.errorcode.get(cause.errno, str(cause.errno))
        return f"the connection broke ({name}: {os.strerror(cause.errno)})"
    return f"the connection broke ({error})" if str(error) else "the connection broke"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits on the requests of a peer and on its response times; times in seconds.

    Raises:
        ValueError: if a limit is not positive.
    """

    max_frame_bytes: int = 16 << 20
    """Maximum length of a frame, header included."""
    max_channels: int = 65_536
    """Maximum number of channels that a peer may open on one connection."""
    max_connections: int = 1024
    """Maximum number of connections of one listener, whether or not their peers have proven themselves.
    Unproven connections never use more than half of the process's free file descriptors.
    """
    handshake_timeout_s: float = 10.0
    """Timeout for a peer to prove itself, from when its connection was accepted."""
    connect_timeout_s: float = 60.0
    """Timeout for connecting all peers."""
    keep_alive_s: float = 30.0
    """Timeout for a silent peer, after which it counts as dead. Detection takes up to a quarter longer."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)}")


def free_descriptors() -> int:
    """Return the number of further files and sockets that this process may open (RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(0, soft - len(os.listdir("/dev/fd")))


_Part = tuple[bytes | memoryview, Callable[[], None] | None, bool]
"""Bytes, a callback for when they have been sent, and whether they end their message."""


class Outgoing:
    """A queue of encoded messages, which may be sent in portions of any size.

    Invariant: `waiting_bytes` is the total size of the queued parts; `sent_bytes` counts the bytes sent.
    """

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self.sent_bytes = 0
        self._parts: deque[_Part] = deque()
        self._mid_message = False

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, message: Message, written: Callable[[], None] | None = None) -> None:
        """Append `message`. Its payload is not copied, and must not change until `written` is called.

        Raises:
            LocalProtocolError: if the message cannot be encoded.
        """
        head = encode_header(message)
        self.waiting_bytes += len(head)
        if type(message) is BufferResponse and len(message.payload):
            self._parts.append((head, None, False))
            self._parts.append((payload_bytes(message), written, True))
            self.waiting_bytes += len(message.payload)
        else:
            self._parts.append((head, written, True))

    def next_parts(self) -> list[bytes | memoryview]:
        """Return the next pieces to send, at most `MAX_PARTS`."""
        return [data for data, _, _ in islice(self._parts, MAX_PARTS)]

    def left(self, count: int) -> None:
        """Record that the first `count` waiting bytes have been sent."""
        self.sent_bytes += count
        self.waiting_bytes -= count
        parts = self._parts
        while count:
            data, written, ends_message = parts.popleft()
            size = len(data)
            if count < size:
                parts.appendleft((memoryview(data)[count:], written, ends_message))
                self._mid_message = True
                return
            count -= size
            self._mid_message = not ends_message
            if written is not None:
                written()

    def drop(self) -> None:
        """Drop all messages except the rest of a partly sent message, which the peer needs to find the next
        frame."""
        unfinished = list(self._parts) if self._mid_message else []
        self.clear()
        for data, _, ends_message in unfinished:
            self._parts.append((bytes(data), None, ends_message))
            self.waiting_bytes += len(data)
            if ends_message:
                break

    def clear(self) -> None:
        """Drop all messages; nothing more will be sent."""
        self._parts.clear()
        self.waiting_bytes = 0
