"""The measured transports: the one of this project, and plain sockets as its yardstick.

In this project's transport, as in Flink's benchmark, each writer has a partition with a subpartition for each
channel. Each channel number has a gate, with a channel from each writer. One reader reads the gates one after
the other::

    writer 0: partition, subpartitions 0 ... c-1 --\\           /--> gate 0:   channels from writers 0 ... w-1
    ...                                            one connection
    writer w-1: partition ------------------------/           \\--> gate c-1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

import trio

from buffers import (
    HEADER_BYTES,
    NetworkBufferPool,
    PipelinedSubpartition,
    RecordBlock,
    gate_buffers,
    partition_buffers,
)
from netstack import (
    ConnectionLimits,
    ConsumerEnd,
    InputGate,
    NetworkConfig,
    ProducerEnd,
    RemoteInputChannel,
    ResultPartition,
    TcpLink,
)

from .exchange import RECORD_BYTES
from .transport import SERVER_NAME, BenchTransport, Shape

LOOPBACK = "127.0.0.1"
READ_BYTES = 64 << 10
ENCODED_BYTES = HEADER_BYTES + RECORD_BYTES

CONFIG = NetworkConfig()
READ_RECORDS = 10_000
"""Approximate maximum number of records that one `read` returns, so that other tasks can run in between."""

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class SocketTransport(BenchTransport):
    """Base of transports over one connection, with TLS or without.

    It calls `accepted` with the stream of the reading end, and `connected` with the stream of the writing
    end.
    """

    async def listen(self) -> str:
        """Listen on the loopback interface; returns the port."""
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
        """Connect to the port in `address`."""
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
        """Prepare the reading end with its stream."""
        raise NotImplementedError

    async def connected(self, stream: Stream) -> None:
        """Prepare the writing end with its stream."""
        raise NotImplementedError


async def _hold(stream: trio.SocketStream) -> None:
    """Keep a connection open until the end of the program, then close it."""
    try:
        await trio.sleep_forever()
    finally:
        stream.socket.close()


class PlainSockets(SocketTransport):
    """Sends the records of all writers over one connection: no channels, no credit, no buffers.

    The reader counts records by their bytes.
    """

    name = "plain sockets"

    def __init__(self, shape: Shape, nursery: trio.Nursery) -> None:
        super().__init__(shape, nursery)
        self._there = trio.Event()
        self._sending = trio.Lock()
        self._rest = 0

    async def accepted(self, stream: Stream) -> None:
        """Store the stream for `read`."""
        self._incoming = stream
        self._there.set()

    async def connected(self, stream: Stream) -> None:
        """Store the stream for `write`."""
        self._outgoing = stream

    async def write(self, writer: int, block: RecordBlock, channels: Sequence[int]) -> None:
        """Send the bytes of a block, once for each channel that receives it."""
        for _ in range(self.shape.channels if self.shape.broadcast else 1):
            async with self._sending:  # the writers share the stream
                await self._outgoing.send_all(block.memory[: block.nbytes])

    async def read(self) -> int:
        """Return the number of arrived records, computed from their bytes, since all have the same length."""
        await self._there.wait()
        data = await self._incoming.receive_some(READ_BYTES)
        records, self._rest = divmod(self._rest + len(data), ENCODED_BYTES)
        return records


class CreditTransport(SocketTransport):
    """Transport through partitions, gates and credit, with Flink's default numbers of buffers."""

    name = "netstack"

    def __init__(self, shape: Shape, nursery: trio.Nursery) -> None:
        super().__init__(shape, nursery)
        self._limits = ConnectionLimits(max_channels=2 * shape.writers * shape.channels)
        self._sending: SendingSide | None = None
        self._receiving: ReceivingSide | None = None
        self._there = trio.Event()

    async def accepted(self, stream: Stream) -> None:
        """Create the gates, and request all channels."""
        link = TcpLink(stream, self._limits, "the writers")
        self._receiving = ReceivingSide(self.shape, link)
        self.nursery.start_soon(link.run)
        self._there.set()

    async def connected(self, stream: Stream) -> None:
        """Create the partitions."""
        link = TcpLink(stream, self._limits, "the reader")
        self._sending = SendingSide(self.shape, link)
        self.nursery.start_soon(link.run)
        self.nursery.start_soon(self._sending.flush_always)

    async def write(self, writer: int, block: RecordBlock, channels: Sequence[int]) -> None:
        """Write a block to the partition of the writer."""
        assert self._sending is not None
        await self._sending.write(writer, block, channels)

    async def read(self) -> int:
        """Return the number of records decoded from the gates."""
        await self._there.wait()
        assert self._receiving is not None
        return await self._receiving.read()


class SendingSide:
    """The partitions of all writers, at the writing end of the link."""

    def __init__(self, shape: Shape, link: TcpLink) -> None:
        self._shape = shape
        self._room = [trio.Event() for _ in range(shape.writers)]
        minimum, maximum = partition_buffers(
            shape.channels, CONFIG.exclusive_buffers_per_channel, CONFIG.floating_buffers_per_gate
        )
        overdraft = CONFIG.max_overdraft_buffers_per_gate
        self._memory = NetworkBufferPool(shape.writers * (maximum + overdraft), CONFIG.segment_bytes)
        self._subpartitions: list[PipelinedSubpartition] = []
        self._partitions = [
            self._partition(writer, minimum, maximum, overdraft) for writer in range(shape.writers)
        ]
        ProducerEnd(link.producing, link.notify, self._subpartitions.__getitem__)

    def _partition(self, writer: int, minimum: int, maximum: int, overdraft: int) -> ResultPartition:
        channels = self._shape.channels
        pool = self._memory.create_pool(
            maximum,
            minimum,
            maximum,
            subpartitions=channels,
            max_buffers_per_channel=CONFIG.max_buffers_per_channel,
            max_overdraft=overdraft,
            on_available=lambda: self._room[writer].set(),
        )
        subpartitions = [
            PipelinedSubpartition(number, receiver_exclusive=CONFIG.exclusive_buffers_per_channel)
            for number in range(channels)
        ]
        self._subpartitions += subpartitions
        return ResultPartition(pool, subpartitions)

    async def write(self, writer: int, block: RecordBlock, channels: Sequence[int]) -> None:
        """Write records; wait while no memory is free."""
        partition = self._partitions[writer]
        position, count, chosen = 0, len(block), list(channels)
        while position < count:
            if chosen:
                position = partition.write(block, chosen, position, count)
            else:
                position = partition.broadcast(block, position, count)
            while not (partition.go_on() and partition.available):
                self._room[writer] = trio.Event()
                await self._room[writer].wait()
        await trio.lowlevel.checkpoint()

    async def flush_always(self) -> None:
        """Flush the partitions periodically (Flink's OutputFlusher)."""
        while True:
            await trio.sleep(self._shape.flush_s)
            for partition in self._partitions:
                partition.flush()


class ReceivingSide:
    """The gates, at the reading end of the link."""

    def __init__(self, shape: Shape, link: TcpLink) -> None:
        self._ready: deque[InputGate] = deque()
        self._gates: list[InputGate] = []
        self._data = trio.Event()
        spec = gate_buffers(
            shape.writers, CONFIG.exclusive_buffers_per_channel, CONFIG.floating_buffers_per_gate
        )
        segments = shape.writers * spec.exclusive_per_channel + spec.total_floating
        self._memory = NetworkBufferPool(shape.channels * segments, CONFIG.segment_bytes)
        end = ConsumerEnd(link.consuming, link.notify)
        for number in range(shape.channels):
            floating = self._memory.create_pool(
                spec.total_floating, spec.required_floating, spec.total_floating
            )
            gate = InputGate(f"gate {number}", floating, None, partial(self._arrived, number))
            for writer in range(shape.writers):
                exclusive = self._memory.request_unpooled(spec.exclusive_per_channel)
                channel_id = writer * shape.channels + number
                gate.add_channel(
                    RemoteInputChannel(gate, writer, channel_id, end, exclusive, floating), channel_id
                )
            self._gates.append(gate)
        for gate in self._gates:
            gate.request_partitions()

    def _arrived(self, number: int) -> None:
        self._ready.append(self._gates[number])
        self._data.set()

    async def read(self) -> int:
        """Decode the buffers that have arrived, gate by gate; if there are none, wait for the first."""
        while not self._ready:
            self._data = trio.Event()
            await self._data.wait()
        records = 0
        while self._ready and records < READ_RECORDS:
            polled = self._ready[0].poll(0.0)
            if polled is None:
                self._ready.popleft()
                continue
            channel, item = polled
            try:
                records += len(channel.decoder.feed(item.payload))
            finally:
                item.release()
        await trio.lowlevel.checkpoint()
        return records
