"""Compares buffers under credit between two processes with plain trio; prints a table of speeds in Markdown.

Run it with ``python -m benches.wire``. One process sends full buffers of 32 KiB over TCP on the loopback to
channels of the other process. The receiver recycles each buffer at once, so each buffer costs a credit. No
records are encoded or decoded. Plain trio moves the same bytes with ``send_all`` and ``recv_into`` of 32 KiB
each. The two are measured alternately, and the ratio is that of the medians. With few buffers in transit, the
time depends on how fast the processes wake up, and not on the wire.
"""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from statistics import median
from time import perf_counter

import trio

from buffers import (
    BufferBuilder,
    EventBuffer,
    EventConsumer,
    NetworkBufferPool,
    PipelinedSubpartition,
)
from flowcontrol import EndOfPartition, data_type_of, decode_event, encode_event
from netstack import (
    ConnectionLimits,
    ConsumerEnd,
    InputGate,
    ProducerEnd,
    RemoteInputChannel,
    TcpLink,
)

RUNS = 5
SEGMENT_BYTES = 32 << 10
BUFFERS = (1 << 30) // SEGMENT_BYTES
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Case:
    """Number of channels that share the connection, and the buffers of their gate."""

    channels: int
    exclusive: int = 2
    floating: int = 8

    @property
    def name(self) -> str:
        """Name of the case in the table."""
        plural = "s" if self.channels > 1 else ""
        return f"{self.channels} channel{plural}, {self.exclusive} exclusive each, {self.floating} floating"


CASES = (Case(1), Case(4), Case(8), Case(16), Case(1, floating=62))


class Sender:
    """Keeps all subpartitions of the sending process full until enough has been sent."""

    def __init__(self, link: TcpLink, channels: int, window: int) -> None:
        self._link = link
        self._left = BUFFERS
        self._payload = memoryview(bytes(SEGMENT_BYTES))
        memory = NetworkBufferPool(2 * window, SEGMENT_BYTES)
        self._pool = memory.create_pool(window, channels + 1, window, on_available=self._more)
        self._subpartitions = [PipelinedSubpartition(number) for number in range(channels)]
        for subpartition in self._subpartitions:
            subpartition.on_acknowledged = self._acknowledged
        self._next = 0
        self._open = channels
        ProducerEnd(link.producing, link.notify, self._subpartitions.__getitem__)

    def _more(self) -> None:
        self._link.notify(self.fill)

    def fill(self) -> None:
        """Add buffers while there is memory for them."""
        while self._left and self._pool.available:
            subpartition = self._subpartitions[self._next]
            self._next = (self._next + 1) % len(self._subpartitions)
            segment = self._pool.request()
            assert segment is not None
            builder = BufferBuilder(segment, self._pool)
            subpartition.add(builder.consumer())
            builder.append(self._payload)
            builder.finish()
            subpartition.flush()
            self._left -= 1
            if not self._left:
                self._finish()

    def _finish(self) -> None:
        end = EndOfPartition()
        for subpartition in self._subpartitions:
            subpartition.add(EventConsumer(EventBuffer(encode_event(end), data_type_of(end))))

    def _acknowledged(self) -> None:
        self._open -= 1
        if not self._open:
            self._link.finish()


async def send_buffers(stream: trio.SocketStream, case: Case) -> None:
    """Send all buffers under credit."""
    link = TcpLink(stream, ConnectionLimits(), "receiver")
    window = case.channels * case.exclusive + case.floating
    link.notify(Sender(link, case.channels, max(window, case.channels + 1)).fill)
    await link.run()


async def receive_buffers(stream: trio.SocketStream, case: Case) -> int:
    """Receive and recycle all buffers; returns their bytes."""
    link = TcpLink(stream, ConnectionLimits(), "sender")
    memory = NetworkBufferPool(case.channels * case.exclusive + case.floating, SEGMENT_BYTES)
    floating = memory.create_pool(case.floating, 1, case.floating)
    woken = trio.Event()
    gate = InputGate("wire", floating, None, lambda: woken.set())
    end = ConsumerEnd(link.consuming, link.notify)
    for number in range(case.channels):
        exclusive = memory.request_unpooled(case.exclusive)
        gate.add_channel(RemoteInputChannel(gate, number, number, end, exclusive, floating), number)
    gate.request_partitions()
    received, ended = 0, 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        while ended < case.channels:
            polled = gate.poll(0.0)
            if polled is None:
                woken = trio.Event()
                await woken.wait()
                continue
            channel, item = polled
            if not item.is_event:
                received += item.size
                item.release()
            elif isinstance(decode_event(bytes(item.payload)), EndOfPartition):
                channel.acknowledge_all_records()
                channel.release()
                ended += 1
        link.notify(link.finish)
    return received


async def send_plain(stream: trio.SocketStream, _: Case) -> None:
    """Send the same bytes without any protocol."""
    payload = bytes(SEGMENT_BYTES)
    for _number in range(BUFFERS):
        await stream.send_all(payload)


async def receive_plain(stream: trio.SocketStream, _: Case) -> int:
    """Receive all bytes into one buffer; returns their number."""
    buffer = memoryview(bytearray(SEGMENT_BYTES))
    received = 0
    while count := await stream.socket.recv_into(buffer):
        received += count
    return received


def sender_process(plain: bool, case: Case, port: int) -> None:
    """Run the sending process."""

    async def main() -> None:
        stream = await trio.open_tcp_stream(LOOPBACK, port)
        async with stream:
            await (send_plain if plain else send_buffers)(stream, case)

    trio.run(main)


def receiver_process(plain: bool, case: Case, answers: Connection) -> None:
    """Run the receiving process.

    It sends its port over `answers`, and at the end the seconds of the transfer.
    """

    async def main() -> None:
        (listener,) = await trio.open_tcp_listeners(0, host=LOOPBACK)
        answers.send(listener.socket.getsockname()[1])
        async with listener, await listener.accept() as stream:
            start = perf_counter()
            received = await (receive_plain if plain else receive_buffers)(stream, case)
            seconds = perf_counter() - start
            if received != BUFFERS * SEGMENT_BYTES:
                raise RuntimeError(f"received {received} bytes, but {BUFFERS * SEGMENT_BYTES} were sent")
            answers.send(seconds)

    trio.run(main)


def measure(context: SpawnContext, case: Case, *, plain: bool) -> float:
    """Return the seconds from the accepted connection to the last byte; `plain`: of plain trio."""
    ours, theirs = context.Pipe()
    receiver = context.Process(target=receiver_process, args=(plain, case, theirs))
    receiver.start()
    sender = context.Process(target=sender_process, args=(plain, case, ours.recv()))
    sender.start()
    seconds: float = ours.recv()
    sender.join()
    receiver.join()
    return seconds


def table(say: Callable[[str], None] = print) -> None:
    """Print the table."""
    context = mp.get_context("spawn")
    total = BUFFERS * SEGMENT_BYTES
    say("| wire between two processes | GB/s | plain trio, GB/s | ratio |")
    say("|---|---:|---:|---:|")
    for case in CASES:
        pairs = [
            (measure(context, case, plain=False), measure(context, case, plain=True)) for _ in range(RUNS)
        ]
        ours, plain = (median(times) for times in zip(*pairs, strict=True))
        say(f"| {case.name} | {total / ours / 1e9:.2f} | {total / plain / 1e9:.2f} | {plain / ours:.2f} |")


if __name__ == "__main__":
    table()
