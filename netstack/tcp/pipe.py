"""Bytes to and from a peer: over the bare socket, or over TLS; the queue of messages, and limits.

The bare one gathers what it sends from many places, and reads to many places, with one system call each and
without copies. It asks the kernel first and trio only if there is nothing to do, so a busy connection does
not pay for a turn of the event loop at each call. TLS has to copy.
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
from typing import Protocol

import trio

from flowcontrol import BufferResponse, Message, encode_header, payload_bytes

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
"""A proven connection."""

MAX_PARTS = 64
"""Pieces of memory that one call gathers; the kernel allows 1024."""

_TLS_BYTES = 256 << 10


class Pipe(Protocol):
    """Both directions of a stream of bytes; each is used by one task at a time."""

    def send_now(self, parts: Sequence[bytes | memoryview]) -> int | None:
        """Write what can be written at once, as `send`; None where that would have to wait."""
        ...

    def receive_now(self, buffers: Sequence[memoryview]) -> int | None:
        """Read bytes that have arrived, as `receive_into`; None if that would have to wait."""
        ...

    async def send(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send some of `parts`, at most `MAX_PARTS` and not empty; returns how many bytes left.

        Raises:
            OSError, trio.BrokenResourceError: if the peer has gone.
        """
        ...

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        """Fill some of `buffers` from the first on; returns how many bytes arrived, 0 at the end.

        Raises:
            OSError, trio.BrokenResourceError: if the peer has gone.
        """
        ...

    async def send_eof(self) -> None:
        """Send nothing more; what the peer sends can still be received."""
        ...

    async def aclose(self) -> None:
        """Close it; what was sent still arrives."""
        ...


class SocketPipe:
    """The bare socket of a stream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._descriptor = stream.socket.fileno()

    def send_now(self, parts: Sequence[bytes | memoryview]) -> int | None:
        """Send some of `parts`; see `Pipe`."""
        try:
            return os.writev(self._descriptor, parts)
        except BlockingIOError:
            return None

    def receive_now(self, buffers: Sequence[memoryview]) -> int | None:
        """Fill some of `buffers`; see `Pipe`."""
        try:
            return os.readv(self._descriptor, buffers)
        except BlockingIOError:
            return None

    async def send(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send some of `parts`; see `Pipe`."""
        while (sent := self.send_now(parts)) is None:
            await trio.lowlevel.wait_writable(self._stream.socket)
        return sent

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        """Fill some of `buffers`; see `Pipe`."""
        while (count := self.receive_now(buffers)) is None:
            await trio.lowlevel.wait_readable(self._stream.socket)
        return count

    async def send_eof(self) -> None:
        """Send nothing more."""
        with suppress(OSError, trio.BrokenResourceError):
            await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the socket."""
        self._descriptor = -1
        await self._stream.aclose()


class TlsPipe:
    """A stream over TLS, which encrypts whole strings of bytes."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self._stream = stream

    def send_now(self, parts: Sequence[bytes | memoryview]) -> None:
        """TLS may always have to wait."""

    def receive_now(self, buffers: Sequence[memoryview]) -> None:
        """TLS may always have to wait."""

    async def send(self, parts: Sequence[bytes | memoryview]) -> int:
        """Send all of `parts`; see `Pipe`."""
        data = b"".join(parts)
        await self._stream.send_all(data)
        return len(data)

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        """Fill some of `buffers`; see `Pipe`."""
        data = await self._stream.receive_some(min(_TLS_BYTES, sum(map(len, buffers))))
        start = 0
        for buffer in buffers:
            piece = data[start : start + len(buffer)]
            buffer[: len(piece)] = piece
            start += len(piece)
        return len(data)

    async def send_eof(self) -> None:
        """Half-close the socket under it, which to the peer is a broken connection: all has been said."""
        with suppress(OSError, trio.BrokenResourceError):
            await self._stream.transport_stream.send_eof()

    async def aclose(self) -> None:
        """Close the socket under it; the first to close does not wait for the other."""
        await trio.aclose_forcefully(self._stream)


def pipe_over(stream: Stream) -> Pipe:
    """The pipe for a stream."""
    return SocketPipe(stream) if isinstance(stream, trio.SocketStream) else TlsPipe(stream)


def describe(error: BaseException) -> str:
    """Why a connection broke, in a few words."""
    cause = error.__cause__ if isinstance(error, trio.BrokenResourceError) else error
    if isinstance(cause, ssl.SSLError):
        return f"the connection broke (TLS: {cause.reason})"
    if isinstance(cause, OSError) and cause.errno is not None:
        name = errno.errorcode.get(cause.errno, str(cause.errno))
        return f"the connection broke ({name}: {os.strerror(cause.errno)})"
    return f"the connection broke ({error})" if str(error) else "the connection broke"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds on what a peer may ask for, and on how long it may take; times in seconds.

    Raises:
        ValueError: if one of them is not positive.
    """

    max_frame_bytes: int = 16 << 20
    """The longest frame, header included."""
    max_channels: int = 65_536
    """Channels of one connection that a peer may open."""
    max_connections: int = 1024
    """Connections of one listener, those that have yet to prove themselves included.

    Of the latter there are never more than half the descriptors that the process has left.
    """
    handshake_timeout_s: float = 10.0
    """Timeout from the first byte of a connection to its proof."""
    connect_timeout_s: float = 60.0
    """Until all peers are connected."""
    keep_alive_s: float = 30.0
    """A peer that sends nothing for so long is dead; detecting that takes up to a quarter longer."""

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
"""Bytes, what to call when they have left, and whether they end their message."""


class Outgoing:
    """A queue of encoded messages, which may leave in portions of any size.

    Invariant: `waiting_bytes` is the sum of the queued parts; `sent_bytes` has left.
    """

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self.sent_bytes = 0
        self._parts: deque[_Part] = deque()
        self._mid_message = False

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, message: Message, written: Callable[[], None] | None = None) -> None:
        """Append `message`; the payload of a buffer is not copied, and must stay until `written` is called.

        Raises:
            LocalProtocolError: if it cannot be encoded.
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
        """Take note that the first `count` bytes that waited have left."""
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
        """Forget all but the rest of a message that has partly left, or the peer would lose its place."""
        begun = list(self._parts) if self._mid_message else []
        self.clear()
        for data, _, ends_message in begun:
            self._parts.append((bytes(data), None, ends_message))
            self.waiting_bytes += len(data)
            if ends_message:
                break

    def clear(self) -> None:
        """Forget everything: nothing will leave any more."""
        self._parts.clear()
        self.waiting_bytes = 0
