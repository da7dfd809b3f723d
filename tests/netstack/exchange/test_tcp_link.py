"""A link over TCP: how it ends, and what it says when something goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast, get_args

import pytest
import trio
import trio.testing
from trio.testing import MockClock, wait_all_tasks_blocked

from buffers import NetworkBufferPool, PipelinedSubpartition
from flowcontrol import (
    MAX_PEER_TEXT,
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BufferHeader,
    BufferResponse,
    CancelPartitionRequest,
    CheckpointBarrier,
    CloseRequest,
    ControlPayload,
    DataType,
    ErrorResponse,
    FrameSink,
    KeepAlive,
    Message,
    NewBufferSize,
    PartitionRequest,
    RemoteProtocolError,
    ResumeConsumption,
    ToConsumer,
    ToProducer,
    encode,
    wire_size,
)
from netstack import (
    ConnectionLimits,
    ConnectionLostError,
    LinkClosedError,
    PeerFailedError,
    PeerSilentError,
)
from netstack.exchange.connection import ConsumerEnd, ProducerEnd
from netstack.exchange.gate import InputGate
from netstack.exchange.link import Receiver
from netstack.exchange.remote_channel import RemoteInputChannel
from netstack.exchange.tcp_link import (
    Incoming,
    TcpEnd,
    TcpLink,
    keep_alive,
)
from netstack.tcp.pipe import Outgoing, Stream
from tests.netstack.exchange.queues import event_item
from tests.netstack.meshes import socket_streams, tls_contexts


class Ear:
    """Hears everything that arrives at both ends of one side."""

    def __init__(self, link: TcpLink) -> None:
        self.heard: list[Message] = []
        self.control: list[bytes] = []
        self._payload = memoryview(b"")
        link.producing.listen(self)
        link.consuming.listen(self)
        link.incoming.on_control = self.control.append

    def receive(self, message: Message) -> None:
        self.heard.append(message)

    def place(self, header: BufferHeader) -> memoryview:
        self._payload = memoryview(bytearray(header.size))
        return self._payload

    def landed(self, header: BufferHeader) -> None:
        self.heard.append(response(bytes(self._payload)))


class Side:
    """One side of a connection, running, and how it has ended."""

    def __init__(self, stream: Stream, limits: ConnectionLimits, peer: str) -> None:
        self.link = TcpLink(stream, limits, peer)
        self.ear = Ear(self.link)
        self.ended = trio.Event()
        self.error: Exception | None = None

    async def run(self) -> None:
        try:
            await self.link.run()
        except Exception as error:
            self.error = error
        self.ended.set()


def response(payload: bytes) -> BufferResponse:
    return BufferResponse(1, 0, 0, 0, DataType.DATA_BUFFER, False, payload)


def send(link: TcpLink, message: Message) -> None:
    end = link.producing if isinstance(message, BufferResponse) else link.consuming
    end.write(wire_size(message), None, message)


def with_links(body: Callable[[Side, Side], Awaitable[None]], limits: ConnectionLimits | None = None) -> None:
    async def main() -> None:
        ours, theirs = await socket_streams()
        limited = limits or ConnectionLimits()
        left, right = Side(ours, limited, "right"), Side(theirs, limited, "left")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(left.run)
            nursery.start_soon(right.run)
            await body(left, right)
            nursery.cancel_scope.cancel()

    trio.run(main)


def with_a_peer(
    body: Callable[[Side, trio.SocketStream], Awaitable[None]], limits: ConnectionLimits | None = None
) -> None:
    """Run one link, whose peer is played by hand."""

    async def main() -> None:
        ours, theirs = await socket_streams()
        side = Side(ours, limits or ConnectionLimits(), "task 7 at here")
        async with theirs, trio.open_nursery() as nursery:
            nursery.start_soon(side.run)
            await body(side, theirs)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_it_ends_when_both_sides_have_finished_both_ends() -> None:
    async def body(left: Side, right: Side) -> None:
        send(left.link, response(bytes(100_000)))
        left.link.finish()
        await wait_all_tasks_blocked(0.01)
        assert not left.ended.is_set()
        send(right.link, AddCredit(1, 5))
        right.link.producing.finish()
        await wait_all_tasks_blocked(0.01)
        assert not right.ended.is_set()
        right.link.consuming.finish()
        await left.ended.wait()
        await right.ended.wait()
        assert (left.error, right.error) == (None, None)
        assert right.ear.heard == [response(bytes(100_000))]
        assert left.ear.heard == [AddCredit(1, 5)]
        assert left.link.outgoing.sent_bytes == right.link.received_bytes

    with_links(body)


def test_control_messages_pass_in_order_and_not_after_the_last_message() -> None:
    async def body(left: Side, right: Side) -> None:
        for number in range(50):
            left.link.send_control(bytes([number]) * number * 100)
        left.link.finish()
        right.link.finish()
        await right.ended.wait()
        assert right.ear.control == [bytes([number]) * number * 100 for number in range(50)]
        with pytest.raises(LinkClosedError, match="right"):
            left.link.send_control(b"")

    with_links(body)


def test_deferred_work_is_done_in_order_before_what_it_writes_leaves() -> None:
    async def body(left: Side, right: Side) -> None:
        for number in range(1, 4):
            left.link.notify(send, left.link, AddCredit(1, number))
        await wait_all_tasks_blocked(0.01)
        assert right.ear.heard == [AddCredit(1, 1), AddCredit(1, 2), AddCredit(1, 3)]

    with_links(body)


def test_the_peer_learns_why_a_side_has_failed_even_if_much_waits_for_the_socket() -> None:
    async def body(left: Side, right: Side) -> None:
        for _ in range(1000):
            send(left.link, response(bytes(32768)))
        await trio.lowlevel.checkpoint()
        left.link.fail("out of luck")
        await left.ended.wait()
        await right.ended.wait()
        assert left.error is None
        assert isinstance(right.error, PeerFailedError)
        assert (right.error.peer, str(right.error)) == ("left", "out of luck")

    with_links(body)


def test_a_cause_of_any_text_reaches_the_peer_as_far_as_it_may_be_long() -> None:
    async def body(left: Side, right: Side) -> None:
        left.link.fail("\udc80\x1b" * 9999)
        await right.ended.wait()
        assert isinstance(right.error, PeerFailedError)
        assert str(right.error).startswith(r"\udc80\x1b\udc80")
        assert len(str(right.error)) == MAX_PEER_TEXT

    with_links(body)


def test_an_end_before_both_sides_are_done_is_a_lost_connection() -> None:
    async def body(side: Side, peer: trio.SocketStream) -> None:
        await peer.send_all(encode(response(bytes(1000)))[:500])
        await peer.aclose()
        await side.ended.wait()
        assert isinstance(side.error, ConnectionLostError)
        assert str(side.error).startswith("task 7 at here: the connection ")

    with_a_peer(body)


def test_garbage_is_a_broken_protocol_of_which_the_peer_is_told() -> None:
    async def body(side: Side, peer: trio.SocketStream) -> None:
        await peer.send_all(encode(AddCredit(3, 4)) + bytes(100))
        told = b""
        while data := await peer.receive_some():
            told += data
        assert b"0xbadc0ffe" in told
        await peer.aclose()
        await side.ended.wait()
        assert isinstance(side.error, RemoteProtocolError)
        assert side.ear.heard == [AddCredit(3, 4)]

    with_a_peer(body)


def test_a_silent_peer_is_found() -> None:
    async def body(side: Side, peer: trio.SocketStream) -> None:
        await side.ended.wait()
        assert isinstance(side.error, PeerSilentError)
        assert "task 7 at here: no message arrived for " in str(side.error)

    with_a_peer(body, ConnectionLimits(keep_alive_s=0.1))


class QuietLink:
    """A link in virtual time, whose peer sends a byte at given times; notes when KeepAlives are sent."""

    peer = "task 7 at here"

    def __init__(self) -> None:
        self.outgoing = Outgoing()
        self.received_bytes = 0
        self.said_at: list[float] = []

    def enqueue(self, message: Message) -> None:
        assert message == KeepAlive()
        self.said_at.append(trio.current_time())
        trio.lowlevel.current_trio_token().run_sync_soon(self._sent)

    def _sent(self) -> None:
        self.outgoing.sent_bytes += 1

    async def hear(self, times: list[float]) -> None:
        for time in times:
            await trio.sleep_until(time)
            self.received_bytes += 1


@pytest.mark.parametrize(
    ("heard_at", "found_at"),
    [([], 5.0), ([0.9], 5.0), ([1.1], 6.0), ([0.9, 4.85], 9.0), ([3.9, 7.9, 11.1], 16.0)],
)
def test_a_peer_is_dead_once_it_was_silent_for_the_whole_limit_and_not_before(
    heard_at: list[float], found_at: float
) -> None:
    async def main() -> float:
        start = trio.current_time()
        link = QuietLink()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.hear, [start + time for time in heard_at])
            with pytest.raises(PeerSilentError, match="no message arrived for 4 s"):
                await keep_alive(cast(TcpLink, link), 4.0)
        return trio.current_time() - start

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == pytest.approx(found_at)


def test_a_side_with_nothing_to_say_speaks_at_least_every_half_of_the_limit() -> None:
    async def main() -> list[float]:
        start = trio.current_time()
        link = QuietLink()
        with trio.move_on_after(20.5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(link.hear, [start + 3.0 * n for n in range(20)])
                await keep_alive(cast(TcpLink, link), 4.0)
        return [time - start for time in link.said_at]

    said_at = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert said_at == pytest.approx([2.0 * n for n in range(1, 11)])


def test_a_side_that_has_finished_still_says_that_it_is_there() -> None:
    async def body(left: Side, right: Side) -> None:
        left.link.finish()
        while right.link.received_bytes < wire_size(KeepAlive()) * 12:
            await wait_all_tasks_blocked(0.01)
        assert (left.error, right.error) == (None, None)
        right.link.finish()
        await left.ended.wait()
        assert (left.error, right.error) == (None, None)

    with_links(body, ConnectionLimits(keep_alive_s=0.15))


def over_tls(ours: trio.SocketStream, theirs: trio.SocketStream) -> tuple[Stream, Stream]:
    """The streams of client and server."""
    contexts = tls_contexts()
    return (
        trio.SSLStream(ours, contexts.client, server_hostname="localhost"),
        trio.SSLStream(theirs, contexts.server, server_side=True),
    )


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_side_that_fails_while_both_are_clogged_still_tells_why(encrypted: bool) -> None:
    async def main() -> None:
        ours: Stream
        theirs: Stream
        ours, theirs = await socket_streams()
        if encrypted:
            ours, theirs = over_tls(ours, theirs)
        left, right = Side(ours, ConnectionLimits(), "right"), Side(theirs, ConnectionLimits(), "left")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(left.run)
            for number in range(1000):
                send(left.link, response(number.to_bytes(4) * 8192))
                send(right.link, response(bytes(32768)))
            await wait_all_tasks_blocked(0.01)  # the left one can send no more
            left.link.fail("out of luck")
            nursery.start_soon(right.run)
        assert left.error is None
        assert isinstance(right.error, PeerFailedError)
        assert str(right.error) == "out of luck"
        heard = [int.from_bytes(message.payload[:4]) for message in right.ear.heard]
        assert heard == list(range(len(heard)))

    trio.run(main)


def test_over_tls_a_peer_that_leaves_behind_its_last_message_has_not_been_lost() -> None:
    async def main() -> None:
        ours, theirs = over_tls(*await socket_streams())
        side = Side(ours, ConnectionLimits(), "right")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(side.run)
            side.link.finish()
            while await theirs.receive_some() != encode(CloseRequest()):
                pass
            await theirs.send_all(encode(CloseRequest()))
            await trio.aclose_forcefully(theirs)
        assert side.error is None

    trio.run(main)


def test_a_peer_that_is_slow_to_leave_when_both_are_done_has_not_failed() -> None:
    async def body(side: Side, peer: trio.SocketStream) -> None:
        side.link.finish()
        await peer.send_all(encode(CloseRequest()))
        await side.ended.wait()
        assert side.error is None

    with_a_peer(body, ConnectionLimits(keep_alive_s=0.1))


def test_a_receiver_that_breaks_ends_the_connection_and_the_peer_is_told() -> None:
    async def body(left: Side, right: Side) -> None:
        def break_down(message: Message) -> None:
            raise AssertionError(f"no idea what {type(message).__name__} is")

        right.ear.receive = break_down  # type: ignore[method-assign]
        send(left.link, AddCredit(1, 1))
        await left.ended.wait()
        await right.ended.wait()
        assert isinstance(right.error, AssertionError)
        assert isinstance(left.error, PeerFailedError)
        assert str(left.error) == "AssertionError('no idea what AddCredit is')"

    with_links(body)


def test_over_tls() -> None:
    async def main() -> None:
        ours, theirs = over_tls(*await socket_streams())
        left, right = Side(ours, ConnectionLimits(), "right"), Side(theirs, ConnectionLimits(), "left")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(left.run)
            nursery.start_soon(right.run)
            for size in (0, 1, 50_000, 300_000):
                send(left.link, response(bytes(size)))
                send(right.link, response(bytes(size)))
            left.link.finish()
            right.link.finish()
        assert (left.error, right.error) == (None, None)
        expected = [response(bytes(size)) for size in (0, 1, 50_000, 300_000)]
        assert left.ear.heard == right.ear.heard == expected

    trio.run(main)


def test_what_waits_leaves_in_any_portions_and_tells_when() -> None:
    outgoing, left = Outgoing(), list[str]()
    messages = [response(b"abc"), AddCredit(1, 2), response(b"")]
    for name, message in zip("xyz", messages, strict=True):
        outgoing.add(message, lambda name=name: left.append(name))  # type: ignore[misc]
    stream = b"".join(map(encode, messages))
    sent = b""
    while outgoing:
        portion = b"".join(outgoing.next_parts())[:7]
        sent += portion
        outgoing.left(len(portion))
        done = [n for n in range(3) if len(sent) >= sum(map(wire_size, messages[: n + 1]))]
        assert left == list("xyz")[: len(done)]
        assert outgoing.waiting_bytes == len(stream) - len(sent)
    assert sent == stream


def test_what_is_dropped_leaves_no_half_message() -> None:
    first, second = response(b"begun"), response(b"not begun")
    for count in range(wire_size(first) + 1):
        outgoing = Outgoing()
        outgoing.add(first)
        outgoing.add(second)
        outgoing.left(count) if count else None
        outgoing.drop()
        rest = b"".join(outgoing.next_parts())
        assert outgoing.waiting_bytes == len(rest)
        assert rest == (encode(first)[count:] if count else b"")


MESSAGES: dict[type[Message], Message] = {
    type(message): message
    for message in (
        BufferResponse(0, 0, 0, 0, DataType.DATA_BUFFER, False, b"x"),
        ErrorResponse("no disk", 0),
        PartitionRequest(0, 2),
        CancelPartitionRequest(0),
        CloseRequest(),
        AddCredit(0, 1),
        ResumeConsumption(0),
        AckAllUserRecordsProcessed(0),
        BacklogAnnouncement(0, 1),
        NewBufferSize(0, 17),
        KeepAlive(),
        ControlPayload(b"x"),
    )
}


class Heard:
    """Keeps the messages that arrive."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.receive = self.messages.append


@pytest.mark.parametrize("kind", get_args(Message))
def test_each_message_of_the_protocol_reaches_its_recipient_and_no_other(kind: type[Message]) -> None:
    producing: TcpEnd[Receiver] = TcpEnd(cast(TcpLink, None))
    consuming: TcpEnd[FrameSink] = TcpEnd(cast(TcpLink, None))
    to_producer, to_consumer, control = Heard(), Heard(), list[bytes]()
    producing.listen(cast(Receiver, to_producer))
    consuming.listen(cast(FrameSink, to_consumer))
    incoming = Incoming("peer", 8, producing, consuming)
    incoming.on_control = control.append
    message = MESSAGES[kind]
    incoming.receive(message)
    assert to_producer.messages == [message] * isinstance(message, ToProducer)
    assert to_consumer.messages == [message] * isinstance(message, ToConsumer)
    assert (control, incoming.finished) == ([b"x"] * (kind is ControlPayload), kind is CloseRequest)


def test_both_ends_accept_what_is_for_them_and_refuse_everything_else() -> None:
    async def body() -> None:
        memory = NetworkBufferPool(8, 64)
        link = TcpLink(cast(Stream, trio.testing.memory_stream_pair()[0]), ConnectionLimits(), "peer")
        subpartition = PipelinedSubpartition(0)
        producer = ProducerEnd(link.producing, link.notify, [subpartition].__getitem__)
        consumer = ConsumerEnd(link.consuming, link.notify)
        gate = InputGate("input", memory.create_pool(1, 1, 1), None, lambda: None)
        channel = RemoteInputChannel(gate, 0, 0, consumer, memory.request_unpooled(2), gate.floating)
        gate.add_channel(channel, 0)
        gate.request_partitions()
        subpartition.add(event_item(CheckpointBarrier(1, 0.0)))  # so that there is something to resume
        last = {CancelPartitionRequest: 1, ErrorResponse: 1}  # behind these the channel is closed
        for union, end in ((ToProducer, producer), (ToConsumer, consumer)):
            accepted: set[type[Message]] = set()
            for kind in sorted(MESSAGES, key=lambda kind: (last.get(kind, 0), kind is not PartitionRequest)):
                try:
                    end.receive(MESSAGES[kind])
                except RemoteProtocolError as error:
                    assert f"must not send {kind.__name__}" in str(error)  # noqa: PT017
                else:
                    accepted.add(kind)
            assert accepted == set(get_args(union))

    trio.run(body)
