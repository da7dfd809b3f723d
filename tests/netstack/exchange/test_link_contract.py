"""The promises of every link, tested with the emulated link and with the TCP link."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from buffers import (
    NetworkBufferPool,
    PipelinedSubpartition,
)
from flowcontrol import (
    AddCredit,
    BufferHeader,
    BufferResponse,
    CheckpointBarrier,
    DataType,
    ErrorResponse,
    Message,
    RemoteProtocolError,
    wire_size,
)
from netstack import (
    Agenda,
    ConnectionLimits,
    CostModel,
    LinkClosedError,
    LinkConditions,
    PeerFailedError,
)
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.randomness import Randomness
from netstack.exchange.connection import ConsumerEnd, Notify, ProducerEnd
from netstack.exchange.emulated_link import EmulatedLink
from netstack.exchange.gate import InputGate
from netstack.exchange.link import ConsumingEnd, ProducingEnd
from netstack.exchange.remote_channel import RemoteInputChannel
from netstack.exchange.tcp_link import TcpLink
from tests.netstack.exchange.queues import add_record, event_item
from tests.netstack.meshes import socket_streams

SEGMENT_SIZE = 64


def at_once(work: Callable[..., None], *args: object) -> None:
    """Notify a network thread that is the calling one."""
    work(*args)


class Opened(Protocol):
    """A link between a producing and a consuming end, which moves nothing before `start`."""

    producing: ProducingEnd
    consuming: ConsumingEnd
    notify_producer: Notify
    notify_consumer: Notify

    def start(self) -> None:
        """Let both sides of the link work."""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` holds, or raise what the link raised."""

    def cancel(self) -> None:
        """Stop the link where it is."""


class Emulated:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.agenda = Agenda()
        link = EmulatedLink(self.agenda, CostModel(), LinkConditions(), Randomness(1, 1.0), ("a", "b"))
        self.producing, self.consuming = link.producing, link.consuming
        self.notify_producer = self.notify_consumer = at_once
        self._nursery = nursery
        self._started = False

    def start(self) -> None:
        self._started = True

    async def until(self, condition: Callable[[], bool]) -> None:
        assert self._started
        if not condition():
            await run_agenda(self.agenda)
        assert condition(), "nothing is left to happen, and it has not"

    def cancel(self) -> None:
        self.agenda.clear()


class Tcp:
    """Both sides over a real connection on the loopback."""

    def __init__(self, nursery: trio.Nursery, ours: trio.SocketStream, theirs: trio.SocketStream) -> None:
        limits = ConnectionLimits()
        self.links = TcpLink(ours, limits, "consumer"), TcpLink(theirs, limits, "producer")
        self.producing, self.consuming = self.links[0].producing, self.links[1].consuming
        self.notify_producer, self.notify_consumer = self.links[0].notify, self.links[1].notify
        self.errors: list[Exception] = []
        self._nursery = nursery
        # What is not looked at must be there all the same.
        ProducerEnd(self.links[1].producing, at_once, {}.__getitem__)
        ConsumerEnd(self.links[0].consuming, at_once)

    def start(self) -> None:
        for link in self.links:
            self._nursery.start_soon(self._run, link)

    async def _run(self, link: TcpLink) -> None:
        try:
            await link.run()
        except Exception as error:
            self.errors.append(error)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await wait_all_tasks_blocked(0.001)
            if len(self.errors) == 2:  # the other side only says what it has been told
                raise next(error for error in self.errors if not isinstance(error, PeerFailedError))

    def cancel(self) -> None:
        self._nursery.cancel_scope.cancel()


@asynccontextmanager
async def emulated() -> AsyncIterator[Opened]:
    async with trio.open_nursery() as nursery:
        yield Emulated(nursery)


@asynccontextmanager
async def over_tcp() -> AsyncIterator[Opened]:
    ours, theirs = await socket_streams()
    async with ours, theirs, trio.open_nursery() as nursery:
        yield Tcp(nursery, ours, theirs)
        nursery.cancel_scope.cancel()


BOTH = pytest.mark.parametrize("open_link", [emulated, over_tcp])


class Ear:
    """Keeps what arrives; the payload of a buffer is put into memory of its own."""

    def __init__(self) -> None:
        self.heard: list[Message] = []
        self._payload = memoryview(b"")

    def receive(self, message: Message) -> None:
        if isinstance(message, BufferResponse):
            message = _response(message.sequence_number, bytes(message.payload))
        self.heard.append(message)

    def place(self, header: BufferHeader) -> memoryview:
        self._payload = memoryview(bytearray(header.size))
        return self._payload

    def landed(self, header: BufferHeader) -> None:
        self.heard.append(_response(header.sequence_number, bytes(self._payload)))


def _response(number: int, payload: bytes) -> BufferResponse:
    return BufferResponse(1, 0, number, 0, DataType.DATA_BUFFER, False, payload)


def write(
    end: ProducingEnd | ConsumingEnd, message: Message, written: Callable[[], None] | None = None
) -> float | None:
    """Write `message`; `written` is called when it has left, also if the link returns the time."""
    left = end.write(wire_size(message), written, message)
    if left is not None and written is not None:
        end.after(left - end.now, written)
    return left


def run(body: Callable[[Opened], Awaitable[None]], open_link: Callable[[], object]) -> None:
    async def main() -> None:
        async with open_link() as link:  # type: ignore[attr-defined]
            await body(link)

    trio.run(main)


@BOTH
def test_messages_arrive_once_and_in_order_in_both_directions(open_link: Callable[[], object]) -> None:
    buffers = [_response(number, bytes([number % 256]) * (number * 37)) for number in range(200)]
    credits = [AddCredit(1, number + 1) for number in range(200)]

    async def body(link: Opened) -> None:
        producer, consumer, left = Ear(), Ear(), list[int]()
        link.producing.listen(producer)
        link.consuming.listen(consumer)
        for buffer, credit in zip(buffers, credits, strict=True):
            write(link.producing, buffer, partial(left.append, buffer.sequence_number))
            write(link.consuming, credit)
        link.start()
        await link.until(lambda: len(consumer.heard) == len(producer.heard) == len(left) == 200)
        assert consumer.heard == buffers
        assert producer.heard == credits
        assert left == list(range(200))

    run(body, open_link)


@BOTH
def test_a_message_is_written_later_and_not_at_once(open_link: Callable[[], object]) -> None:
    async def body(link: Opened) -> None:
        consumer, left = Ear(), list[int]()
        link.producing.listen(Ear())
        link.consuming.listen(consumer)
        time = write(link.producing, _response(0, b"x"), partial(left.append, 0))
        assert left == []
        assert time is None or time > link.producing.now
        link.start()
        await link.until(lambda: left == [0])

    run(body, open_link)


@BOTH
def test_half_closed_it_still_carries_the_other_direction(open_link: Callable[[], object]) -> None:
    async def body(link: Opened) -> None:
        producer, consumer = Ear(), Ear()
        link.producing.listen(producer)
        link.consuming.listen(consumer)
        write(link.producing, _response(0, b"last"))
        link.producing.finish()
        with pytest.raises(LinkClosedError, match="BufferResponse cannot be sent after the last message"):
            write(link.producing, _response(1, b"too late"))
        link.start()
        await link.until(lambda: consumer.heard == [_response(0, b"last")])
        write(link.consuming, AddCredit(1, 1))
        await link.until(lambda: producer.heard == [AddCredit(1, 1)])

    run(body, open_link)


@BOTH
def test_what_the_receiver_refuses_ends_the_link_with_its_error(open_link: Callable[[], object]) -> None:
    class Refusing(Ear):
        def receive(self, message: Message) -> None:
            raise RemoteProtocolError("no credit is wanted here")

    async def body(link: Opened) -> None:
        link.producing.listen(Refusing())
        link.consuming.listen(Ear())
        write(link.consuming, AddCredit(1, 1))
        link.start()
        await link.until(lambda: False)

    with pytest.RaisesGroup(
        pytest.RaisesExc(RemoteProtocolError, match="no credit is wanted here"), flatten_subgroups=True
    ):
        run(body, open_link)


class Connected:
    """Subpartitions and channels at the ends of a link, as a task manager has them."""

    def __init__(self, link: Opened, channels: int, *, exclusive: int = 2, floating: int = 4) -> None:
        self.link = link
        self.memory = NetworkBufferPool(256, SEGMENT_SIZE)
        self.output = self.memory.create_pool(64, 64, 64)
        self.subpartitions = [PipelinedSubpartition(n, receiver_exclusive=exclusive) for n in range(channels)]
        self.producer = ProducerEnd(link.producing, link.notify_producer, self.subpartitions.__getitem__)
        self.consumer = ConsumerEnd(link.consuming, link.notify_consumer)
        pool = self.memory.create_pool(floating, 1, floating)
        self.gate = InputGate("input", pool, None, lambda: None)
        for number in range(channels):
            segments = self.memory.request_unpooled(exclusive)
            channel = RemoteInputChannel(self.gate, number, number, self.consumer, segments, pool)
            self.gate.add_channel(channel, number)
        self.gate.request_partitions()

    @property
    def channels(self) -> list[RemoteInputChannel]:
        return list(self.gate.remote_channels)

    def add(self, number: int, payload: bytes) -> None:
        add_record(self.subpartitions[number], self.output, payload)
        self.subpartitions[number].flush()

    def read(self, number: int) -> bytes | None:
        """The next record of a channel, past barriers."""
        channel = self.channels[number]
        while channel.queue_length:
            item, _ = channel.poll()
            assert item is not None
            payload = bytes(item.payload)
            item.release()
            if not item.is_event:
                return payload[4:]
            channel.resume()
        return None

    def close(self) -> None:
        self.producer.close()
        self.gate.release()
        self.consumer.release()
        for subpartition in self.subpartitions:
            subpartition.release()
        self.output.lazy_destroy()
        assert self.memory.used == 0


@BOTH
def test_no_more_than_the_credit_arrives(open_link: Callable[[], object]) -> None:
    async def body(link: Opened) -> None:
        connected = Connected(link, 1, exclusive=2, floating=4)
        for number in range(20):
            connected.add(0, bytes([number]))
        link.start()
        await link.until(lambda: connected.consumer.buffers == 6)
        for number in range(20):
            await link.until(lambda: connected.channels[0].queue_length > 0)
            assert connected.read(0) == bytes([number])
            assert connected.channels[0].queue_length <= 6
        link.cancel()
        connected.close()

    run(body, open_link)


@BOTH
def test_a_channel_that_nobody_reads_holds_up_no_other(open_link: Callable[[], object]) -> None:
    async def body(link: Opened) -> None:
        connected = Connected(link, 2)
        for number in range(30):
            connected.add(0, bytes([number]))
        link.start()
        await link.until(lambda: connected.channels[0].queue_length >= 2)
        for number in range(30):
            connected.add(1, bytes([number]))
            await link.until(lambda: connected.channels[1].queue_length > 0)
            assert connected.read(1) == bytes([number])
        assert 2 <= connected.channels[0].queue_length <= 6
        link.cancel()
        connected.close()

    run(body, open_link)


@BOTH
def test_a_size_and_a_barrier_arrive_and_a_resumption_lets_go_on(open_link: Callable[[], object]) -> None:
    async def body(link: Opened) -> None:
        connected = Connected(link, 1)
        connected.add(0, b"before")
        connected.subpartitions[0].add(event_item(CheckpointBarrier(7, 0.0)))
        connected.add(0, b"behind")
        link.start()
        await link.until(lambda: connected.channels[0].queue_length == 2)
        assert connected.subpartitions[0].blocked
        connected.channels[0].announce_buffer_size(17)
        await link.until(lambda: connected.subpartitions[0].buffer_size == 17)
        assert connected.read(0) == b"before"
        assert connected.read(0) is None
        await link.until(lambda: connected.channels[0].queue_length == 1)
        assert connected.read(0) == b"behind"
        link.cancel()
        connected.close()

    run(body, open_link)


@BOTH
def test_data_for_a_released_channel_is_dropped_and_no_other_notices(open_link: Callable[[], object]) -> None:
    async def body(link: Opened) -> None:
        connected = Connected(link, 2)
        for number in range(30):
            connected.add(0, bytes([number]))
            connected.add(1, bytes([number]))
        connected.channels[0].release()
        link.start()
        await link.until(lambda: connected.subpartitions[0].released)
        for number in range(30):
            await link.until(lambda: connected.channels[1].queue_length > 0)
            assert connected.read(1) == bytes([number])
        assert connected.producer.queue.sender(0) is None
        assert (len(connected.subpartitions[0]), connected.channels[0].queue_length) == (0, 0)
        link.cancel()
        connected.close()

    run(body, open_link)


@BOTH
def test_data_for_a_channel_that_was_closed_on_the_way_is_dropped_and_no_other_notices(
    open_link: Callable[[], object],
) -> None:
    async def body(link: Opened) -> None:
        connected = Connected(link, 2)
        link.start()
        await link.until(lambda: connected.producer.queue.sender(1) is not None)
        for number in range(30):
            connected.add(0, bytes([number]))
            connected.add(1, bytes([number]))
        connected.subpartitions[0].add(event_item(CheckpointBarrier(7, 0.0)))
        connected.channels[0].cancel()
        connected.channels[0].release()
        for number in range(30):
            await link.until(lambda: connected.channels[1].queue_length > 0)
            assert connected.read(1) == bytes([number])
        assert connected.subpartitions[0].released
        assert connected.consumer.buffers == 30
        link.cancel()
        connected.close()

    run(body, open_link)


def test_a_payload_whose_channel_is_closed_while_it_arrives_keeps_its_segment_until_it_has_landed() -> None:
    async def body(link: Opened) -> None:
        connected = Connected(link, 2, exclusive=2, floating=4)
        consumer, (closed, other) = connected.consumer, connected.channels
        data = BufferHeader(0, 0, 0, 0, DataType.DATA_BUFFER, False, 3)
        event = BufferHeader(0, 0, 1, 0, DataType.ALIGNED_CHECKPOINT_BARRIER, False, 4)
        before = connected.memory.used
        place = consumer.place(data)
        place[:1] = b"o"
        closed.cancel()
        closed.release()
        assert connected.memory.used == before - 1
        place[1:] = b"ne"
        consumer.landed(data)
        assert connected.memory.used == before - 2
        consumer.place(event)[:] = b"none"
        consumer.landed(event)
        consumer.place(data)[:] = b"two"
        consumer.landed(data)
        for_other = BufferHeader(1, 0, 0, 0, DataType.DATA_BUFFER, False, 3)
        consumer.place(for_other)[:] = b"one"
        consumer.landed(for_other)
        assert (consumer.messages, consumer.buffers, consumer.bytes) == (4, 1, 3)
        assert (closed.queue_length, other.queue_length) == (0, 1)
        connected.close()

    run(body, emulated)


@BOTH
def test_an_error_of_one_channel_is_raised_where_it_is_read_and_no_other_notices(
    open_link: Callable[[], object],
) -> None:
    async def body(link: Opened) -> None:
        connected = Connected(link, 2)
        write(link.producing, ErrorResponse("\x1b[2Jno disk", 0))
        connected.add(0, b"too late")
        link.start()
        await link.until(lambda: connected.gate.readable)
        for number in range(30):
            connected.add(1, bytes([number]))
            await link.until(lambda: connected.channels[1].queue_length > 0)
            assert connected.read(1) == bytes([number])
        for _ in range(2):
            with pytest.raises(PeerFailedError) as caught:
                connected.channels[0].poll()
            assert caught.value.problem == r"\x1b[2Jno disk"
        with pytest.raises(PeerFailedError):
            connected.gate.poll(0.0)
        link.cancel()
        connected.close()

    run(body, open_link)


@BOTH
def test_cancelled_in_the_middle_all_memory_comes_back(open_link: Callable[[], object]) -> None:
    async def body(link: Opened) -> None:
        connected = Connected(link, 3, exclusive=5, floating=20)
        for number in range(60):
            connected.add(number % 3, bytes(50))
        link.start()
        await link.until(lambda: connected.consumer.buffers > 0)
        link.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
        connected.close()

    run(body, open_link)


def test_a_peer_that_is_clogged_stops_its_writer_and_nobody_else() -> None:
    """Over TCP: a connection whose other side reads nothing, and a second one between the same processes."""
    payload = bytes(32768)

    async def body() -> None:
        async with over_tcp() as clogged, over_tcp() as other:
            assert isinstance(clogged, Tcp)
            left = list[int]()
            consumer, second = Ear(), Ear()
            clogged.producing.listen(Ear())
            clogged.consuming.listen(consumer)
            other.producing.listen(Ear())
            other.consuming.listen(second)
            ours, theirs = clogged.links
            clogged._nursery.start_soon(ours.run)
            other.start()
            written = 0
            while clogged.producing.ready or len(left) < written - 20:
                write(clogged.producing, _response(written, payload), partial(left.append, written))
                written += 1
                await wait_all_tasks_blocked()
                assert written < 5000, "the socket takes all"
            write(other.producing, _response(0, b"passes"))
            await other.until(lambda: second.heard == [_response(0, b"passes")])
            assert len(left) < written
            clogged._nursery.start_soon(theirs.run)
            await clogged.until(lambda: len(left) == len(consumer.heard) == written)
            assert clogged.producing.ready

    trio.run(body)


def test_a_payload_that_never_lands_as_its_link_has_ended_keeps_no_segment() -> None:
    async def body(link: Opened) -> None:
        connected = Connected(link, 1)
        connected.consumer.place(BufferHeader(0, 0, 0, 0, DataType.DATA_BUFFER, False, 3))
        connected.gate.cancel()
        connected.gate.release()
        held = connected.memory.used
        connected.consumer.release()
        assert connected.memory.used == held - 1
        connected.close()

    run(body, emulated)
