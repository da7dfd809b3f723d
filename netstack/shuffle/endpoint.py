"""One process of an all-to-all exchange: its partition, its gate and its links, in one thread.

::

    write -> ResultPartition -> subpartition 0 ... n-1 --- links to the peers ---> their gates
    read  <- InputGate <------- channel      0 ... n-1 <-- links to the peers ---- their partitions

    write -> LoopbackRecords -> read                                       records of this process to itself

A reader that does not read grants no credit. So its peers stop sending, their partitions fill up, and their
writers wait. This bounds the memory, whatever the skew. Records of a process to itself take no segments. They
are passed on directly, up to as many bytes as a channel may hold. After the first record to all processes,
they go through the process's own subpartition instead, which keeps the order and is read without a link.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Sequence

import trio

from buffers import (
    DEFAULT_MAX_RECORD_BYTES,
    UNLIMITED_SIZE,
    NetworkBufferPool,
    PipelinedSubpartition,
    partition_buffers,
)
from flowcontrol import EndOfData, EndOfPartition, RemoteProtocolError, decode_event

from ..errors import LinkClosedError
from ..exchange.channel import InputChannel
from ..exchange.connection import ConsumerEnd, CreditStalls, ProducerEnd
from ..exchange.gate import InputGate
from ..exchange.local_channel import LocalInputChannel
from ..exchange.partition import ALL, ResultPartition
from ..exchange.remote_channel import RemoteInputChannel
from ..exchange.tcp_link import TcpLink
from ..scenarios.config_rules import debloater_of
from .transport_config import TransportConfig, TransportStatistics

__all__ = ["ALL_TARGETS"]

READ_BYTES = 1 << 20
"""Approximate maximum number of bytes of records that one `read` returns."""

ALL_TARGETS = ALL
"""Target of a record for all processes."""

_LENGTH = struct.Struct(">I")


class Endpoint:
    """Process `index` of `size`; `links` holds a link to every other process.

    All calls must come from trio tasks of one thread. Invariant: while `error` is None, every written record
    is in exactly one place: in a subpartition, on a link, in the gate of its reader, in `LoopbackRecords`, or
    already read.

    Raises:
        InsufficientBuffers: if the network memory in `config` is too small for this number of processes.
    """

    def __init__(self, index: int, size: int, config: TransportConfig) -> None:
        self.index = index
        self.size = size
        self.links: dict[int, TcpLink] = {}
        self.error: BaseException | None = None
        self.reading_ended = False
        self._room = trio.Event()
        self._data = trio.Event()
        self._done = trio.Event()
        self._stalls = CreditStalls(time.monotonic)
        self._connections: list[tuple[ProducerEnd, ConsumerEnd]] = []
        self._records_received = self._record_bytes_received = self._buffers_received = 0
        self._write_blocked_s = self._read_blocked_s = 0.0
        self._open_channels = size

        network, gate = config.network, config.gate(size)
        self._max_backoff_s = network.request_backoff_max_s
        self._loopback = LoopbackRecords(network.max_buffers_per_channel * network.segment_bytes)
        self._memory = NetworkBufferPool(config.segments(size), network.segment_bytes)
        # Exclusive segments first: records written before channels exist must not use their memory.
        exclusive = gate.exclusive_per_channel
        peers = (peer for peer in range(size) if peer != index)
        self._exclusive = {peer: self._memory.request_unpooled(exclusive) for peer in peers}

        starting_size = network.starting_segment_bytes if network.debloat_enabled else UNLIMITED_SIZE
        self._subpartitions = [
            PipelinedSubpartition(target, starting_size=starting_size, receiver_exclusive=exclusive)
            for target in range(size)
        ]
        for subpartition in self._subpartitions:
            subpartition.on_acknowledged = self._acknowledged
        minimum, maximum = partition_buffers(
            size, network.exclusive_buffers_per_channel, network.floating_buffers_per_gate
        )
        pool = self._memory.create_pool(
            maximum,
            minimum,
            maximum,
            subpartitions=size,
            max_buffers_per_channel=network.max_buffers_per_channel,
            max_overdraft=network.max_overdraft_buffers_per_gate,
            on_available=lambda: self._room.set(),
        )
        flush_always = network.buffer_timeout_s == 0
        self._partition = ResultPartition(pool, self._subpartitions, flush_always=flush_always)

        pool = self._memory.create_pool(gate.total_floating, gate.required_floating, gate.total_floating)
        debloater = debloater_of(network)
        self._gate = InputGate(f"process {index}", pool, debloater, lambda: self._data.set())
        local = LocalInputChannel(
            self._gate, index, self._channel_id(index, index), self._subpartitions[index]
        )
        self._gate.add_channel(local, index)

    def _channel_id(self, producer: int, consumer: int) -> int:
        """Return the id that both ends use for a channel."""
        return producer * self.size + consumer

    def attach(self, peer: int, link: TcpLink) -> None:
        """Exchange records with `peer` over `link`, which must not be running yet."""
        self.links[peer] = link
        to_peer = {self._channel_id(self.index, peer): self._subpartitions[peer]}
        producer = ProducerEnd(link.producing, link.notify, to_peer.__getitem__)
        producer.stalls = self._stalls
        backoff_s = self._max_backoff_s
        consumer = ConsumerEnd(link.consuming, link.notify, link.peer, backoff_s)
        self._connections.append((producer, consumer))
        channel_id = self._channel_id(peer, self.index)
        exclusive = self._exclusive.pop(peer)  # the channel releases them
        channel = RemoteInputChannel(self._gate, peer, channel_id, consumer, exclusive, self._gate.floating)
        self._gate.add_channel(channel, self.index)

    def open(self) -> None:
        """Request the data of all peers, after all links have been attached."""
        self._gate.request_partitions()

    async def write(self, records: Sequence[tuple[int, bytes | memoryview]]) -> None:
        """Write records, each to its target. Waits while no memory is free.

        Raises:
            TransportError: if the exchange has failed, or writing was finished.
            ValueError: if a target does not exist, or a record is too long; earlier records have been
                written.
        """
        for target, record in records:
            self._check()
            payload = self._payload(target, record)
            if target == ALL:
                for earlier in self._loopback.close():
                    await self._write_to_partition(self.index, earlier)
            if target == self.index and not self._loopback.closed:
                await self._write_to_itself(payload)
            else:
                await self._write_to_partition(target, payload)

    def _payload(self, target: int, record: bytes | memoryview) -> memoryview:
        """Return the bytes of a record after checking target and length."""
        if not ALL <= target < self.size:
            raise ValueError(f"the target {target} does not exist among {self.size} processes")
        payload = memoryview(record).cast("B")
        if len(payload) > DEFAULT_MAX_RECORD_BYTES:  # a reader treats a greater length as corrupt
            raise ValueError(
                f"a record of {len(payload)} bytes is too long; at most {DEFAULT_MAX_RECORD_BYTES} bytes are "
                "allowed"
            )
        if self._subpartitions[0].finished:
            raise LinkClosedError(f"task {self.index}", "a record cannot be sent after the last one")
        return payload

    async def _write_to_partition(self, target: int, payload: memoryview) -> None:
        length = memoryview(_LENGTH.pack(len(payload)))
        partition = self._partition
        if not partition.write_record(target, length, payload):
            # Until the record is complete and the next one may begin.
            await self._until_room(lambda: partition.go_on() and partition.available)

    async def _write_to_itself(self, payload: memoryview) -> None:
        self._loopback.add(payload)
        self._data.set()
        if self._loopback.full:
            await self._until_room(lambda: not self._loopback.full)

    async def _until_room(self, has_room: Callable[[], bool]) -> None:
        """Wait until `has_room` returns True."""
        started = trio.current_time()
        while not has_room():
            self._room = trio.Event()
            await self._room.wait()
            self._check()
        self._write_blocked_s += trio.current_time() - started

    def finish_writing(self) -> None:
        """End writing. Readers get the end of data after the last record.

        Raises:
            TransportError: if the exchange has failed.
        """
        self._check()
        self._partition.broadcast_event(EndOfData())
        self._partition.broadcast_event(EndOfPartition())
        self._partition.finish()

    async def read(self) -> list[memoryview] | None:
        """Wait for at least one record, and return the records that have arrived; None when all data has
        ended.

        Raises:
            TransportError: if the exchange has failed.
        """
        records: list[memoryview] = []
        size = 0
        while size < READ_BYTES:
            self._check()
            size += self._take_loopback(records)
            polled = self._gate.poll(trio.current_time())
            if polled is not None:
                channel, item = polled
                self._buffers_received += 1
                if item.is_event:
                    while channel.index == self.index and self._loopback:
                        size += self._take_loopback(records)  # all of it was written before
                    self._event(channel, bytes(item.payload))
                else:
                    try:
                        block = channel.decoder.feed(item.payload)
                    finally:
                        item.release()
                    records.extend(block.payloads())
                    size += block.nbytes
            elif not self._loopback:
                if records or self.reading_ended:
                    break
                await self._until_data()
        self._records_received += len(records)
        self._record_bytes_received += size
        return records or None

    def _take_loopback(self, records: list[memoryview]) -> int:
        """Read a record of this process to itself, if any; returns the number of its bytes, including its
        length field."""
        if not self._loopback:
            return 0
        record = self._loopback.take()
        records.append(record)
        if not self._loopback.full:
            self._room.set()
        return _LENGTH.size + len(record)

    async def _until_data(self) -> None:
        started = trio.current_time()
        self._data = trio.Event()
        await self._data.wait()
        self._read_blocked_s += trio.current_time() - started

    def _event(self, channel: InputChannel, payload: bytes) -> None:
        """Handle the end of a channel, and acknowledge that all its records have been read."""
        if not isinstance(decode_event(payload), EndOfPartition):
            return
        channel.acknowledge_all_records()
        link = self.links.get(channel.index)
        if link is not None:
            channel.release()
            link.notify(link.consuming.finish)
        self._open_channels -= 1
        self.reading_ended = self._open_channels == 0
        self._end_if_done()

    def _acknowledged(self) -> None:
        """Check the acknowledgements of readers, and finish the links to readers that have read everything.

        Raises:
            RemoteProtocolError: if a reader acknowledges before everything has been sent to it.
        """
        for subpartition in self._subpartitions:
            if subpartition.acknowledged and (len(subpartition) or not subpartition.finished):
                raise RemoteProtocolError("the peer acknowledged records that have not been sent to it")
        for peer, link in self.links.items():
            if self._subpartitions[peer].acknowledged:
                link.producing.finish()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self.reading_ended and self._partition.acknowledged:
            self._done.set()

    async def wait_done(self) -> None:
        """Wait until this process has read all data, and the other processes have read all data of this one.

        Raises:
            TransportError: if the exchange has failed.
        """
        await self._done.wait()
        self._check()

    def fail(self, error: BaseException) -> None:
        """Raise the first error in all waiting tasks."""
        if self.error is None:
            self.error = error
        for event in (self._room, self._data, self._done):
            event.set()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def flush(self) -> None:
        """Make partly filled buffers available to the readers."""
        if self.error is None:
            self._partition.flush()

    def debloat(self) -> None:
        """Recalculate the buffer size and announce it to the producers, if debloating is on."""
        if self.error is None and not self.reading_ended:
            self._gate.debloat(trio.current_time())

    def statistics(self) -> TransportStatistics:
        """Return the current counters."""
        links = self.links.values()
        memory = self._memory
        return TransportStatistics(
            index=self.index,
            records_sent=self._partition.records_out + self._loopback.records,
            record_bytes_sent=self._partition.bytes_out
            + self._loopback.bytes
            + _LENGTH.size * self._loopback.records,
            records_received=self._records_received,
            record_bytes_received=self._record_bytes_received,
            buffers_sent=self._partition.queued.buffers_out,
            buffers_received=self._buffers_received,
            bytes_sent=sum(link.outgoing.sent_bytes for link in links),
            bytes_received=sum(link.received_bytes for link in links),
            credit_stalls=self._stalls.count,
            credit_blocked_s=self._stalls.blocked_s,
            write_blocked_s=self._write_blocked_s,
            read_blocked_s=self._read_blocked_s,
            network_memory_bytes=memory.total * memory.segment_size,
            peak_network_memory_bytes=memory.peak_used * memory.segment_size,
        )

    def release(self) -> int:
        """Release all memory after all links have ended; returns the number of segments still in use."""
        for producer, _ in self._connections:
            producer.close()
        for segments in self._exclusive.values():
            self._memory.recycle_unpooled(segments)
        self._partition.release()
        self._gate.release()
        for _, consumer in self._connections:
            consumer.release()
        leaked = self._memory.used
        self._memory.destroy()
        return leaked


RECORD_BYTES = 200
"""Bytes of memory that a queued record takes besides its content: its object and its place in the queue."""

_MOST_KEPT = 2
"""A record inside an object this many times larger is copied, so that the object can be freed."""


class LoopbackRecords:
    """A queue of records that is full at `max_bytes` bytes of memory. One record may exceed the limit.
    `records` and `bytes` count the added records and their bytes, except records that `close` returned.
    Invariant: a closed queue is empty.
    """

    def __init__(self, max_bytes: int) -> None:
        self.records = 0
        self.bytes = 0
        self.closed = False
        self._max_bytes = max_bytes
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0

    def __len__(self) -> int:
        """Number of queued records."""
        return len(self._queue)

    @property
    def full(self) -> bool:
        """Whether the writer has to wait before it adds another record."""
        return self._queued_bytes >= self._max_bytes

    def add(self, record: memoryview) -> None:
        """Append a record. It is copied if its memory may change, or is part of a much larger object."""
        size = len(record)
        self._queue.append(record if _may_be_kept(record) else memoryview(bytes(record)))
        self._queued_bytes += size + RECORD_BYTES
        self.records += 1
        self.bytes += size

    def take(self) -> memoryview:
        """Remove and return the first record; there must be at least one."""
        record = self._queue.popleft()
        self._queued_bytes -= len(record) + RECORD_BYTES
        return record

    def close(self) -> list[memoryview]:
        """Close the queue, and return the queued records in order."""
        self.closed = True
        waiting = list(self._queue)
        self._queue.clear()
        self.records -= len(waiting)
        self.bytes -= sum(map(len, waiting))
        self._queued_bytes = 0
        return waiting


def _may_be_kept(record: memoryview) -> bool:
    """Whether the memory of a record is immutable (as in bytes and Arrow buffers) and not much larger than
    the record.

    A read-only view does not guarantee that its owner is immutable.
    """
    owner = record.obj
    never_changes = type(owner) is bytes or getattr(owner, "is_mutable", True) is False
    return never_changes and memoryview(owner).nbytes <= _MOST_KEPT * (len(record) + RECORD_BYTES)
