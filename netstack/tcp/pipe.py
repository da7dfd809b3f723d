"""Bytes to and from a peer: over the bare socket, or over TLS.

The bare one gathers what it sends from many places, and reads to many places, with one system call each and
without copies. It asks the kernel first and trio only if there is nothing to do, so a busy connection does
not pay for a turn of the event loop at each call. TLS has to copy.
"""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import trio

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
        """Read what is there already, as `receive_into`; None where that would have to wait."""
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
        """Close the socket under it; whoever closes first does not wait for the other."""
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
