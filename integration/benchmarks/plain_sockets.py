"""Records over a plain trio stream, without channels, credit or buffers: what a transport is set beside."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from buffers import RecordBlock

from .bench_transport import BenchTransport, Shape
from .certificates import SERVER_NAME

LOOPBACK = "127.0.0.1"
READ_BYTES = 64 << 10
ENCODED_BYTES = 12
"""Bytes of each record with its length: a number of 64 bits, as Flink's network benchmarks send."""

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class SocketTransport(BenchTransport):
    """What transports over one connection have in common: how it comes about, with TLS or without.

    `accepted` and `connected` are called with the stream of each end.
    """

    async def listen(self) -> str:
        """Listen on the loopback; returns the port."""
        (self._listener,) = await trio.open_tcp_listeners(0, host=LOOPBACK)
        self.nursery.start_soon(self._accept)
        return str(self._listener.socket.getsockname()[1])

    async def _accept(self) -> None:
        async with self._listener:
            stream = await self._listener.accept()
        self.nursery.start_soon(_hold, stream)
        certificate = self.shape.certificate
        if certificate is None:
            await self.accepted(stream)
            return
        encrypted = trio.SSLStream(stream, certificate.server_context(), server_side=True)
        await encrypted.do_handshake()
        await self.accepted(encrypted)

    async def connect(self, address: str) -> None:
        """Connect to a port."""
        stream = await trio.open_tcp_stream(LOOPBACK, int(address))
        self.nursery.start_soon(_hold, stream)
        certificate = self.shape.certificate
        if certificate is None:
            await self.connected(stream)
            return
        encrypted = trio.SSLStream(stream, certificate.client_context(), server_hostname=SERVER_NAME)
        await encrypted.do_handshake()
        await self.connected(encrypted)

    async def accepted(self, stream: Stream) -> None:
        """Take the end where records arrive."""
        raise NotImplementedError

    async def connected(self, stream: Stream) -> None:
        """Take the end where they are written."""
        raise NotImplementedError


async def _hold(stream: trio.SocketStream) -> None:
    """Close a connection at the end of the program."""
    try:
        await trio.sleep_forever()
    finally:
        stream.socket.close()


class PlainSockets(SocketTransport):
    """The encoded records of all writers over one connection, block by block, and counted as they arrive."""

    name = "plain sockets"

    def __init__(self, shape: Shape, nursery: trio.Nursery) -> None:
        super().__init__(shape, nursery)
        self._there = trio.Event()
        self._sending = trio.Lock()
        self._rest = 0

    async def accepted(self, stream: Stream) -> None:
        """Read from it, in pieces."""
        self._incoming = stream
        self._there.set()

    async def connected(self, stream: Stream) -> None:
        """Write to it."""
        self._outgoing = stream

    async def write(self, writer: int, block: RecordBlock, channels: Sequence[int]) -> None:
        """Send the bytes of a block, as often as it has to arrive."""
        for _ in range(self.shape.channels if self.shape.broadcast else 1):
            async with self._sending:  # the writers share the stream
                await self._outgoing.send_all(block.memory[: block.nbytes])

    async def read(self) -> int:
        """Count records, all of which are of one length here."""
        await self._there.wait()
        data = await self._incoming.receive_some(READ_BYTES)
        records, self._rest = divmod(self._rest + len(data), ENCODED_BYTES)
        return records
