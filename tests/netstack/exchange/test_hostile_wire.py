"""A peer that has proven itself and then breaks the rules: its connection ends, the others do not notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from trio.testing import MockClock, wait_all_tasks_blocked

from buffers import NetworkBufferPool, PipelinedSubpartition
from flowcontrol import (
    MAX_PEER_TEXT,
    NEED_DATA,
    PARTITION_NOT_FOUND,
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BadMagic,
    BufferResponse,
    CancelPartitionRequest,
    CheckpointBarrier,
    CloseRequest,
    ControlPayload,
    CreditExceeded,
    DataType,
    EndOfData,
    EndOfPartition,
    ErrorResponse,
    FrameDecoder,
    FrameTooLong,
    Identity,
    KeepAlive,
    MalformedEvent,
    MalformedFrame,
    Message,
    NewBufferSize,
    PartitionRequest,
    RemoteProtocolError,
    ResumeConsumption,
    SequenceGap,
    UnknownMessage,
    encode,
    encode_event,
)
from netstack.errors import ConnectionLostError, PartitionNotFoundError, PeerFailedError, TransportError
from netstack.exchange.connection import ConsumerEnd, ProducerEnd
from netstack.exchange.gate import InputGate
from netstack.exchange.remote_channel import RemoteInputChannel
from netstack.exchange.tcp_link import TcpLink
from netstack.tcp.handshaking import dial
from netstack.tcp.mesh import Mesh
from netstack.tcp.pipe import ConnectionLimits, Stream
from tests.netstack.exchange.queues import add_record
from tests.netstack.meshes import SECRET, Streams, connect, no_socket_left

pytestmark = pytest.mark.long

SEGMENT_BYTES = 64
EXCLUSIVE = 2
LIMITS = ConnectionLimits(max_frame_bytes=1 << 20, max_channels=2, connect_timeout_s=300, keep_alive_s=300)
IN, OUT = 1, 2
"""The channel by which the process under attack reads from its peer, and the one it serves."""


@pytest.fixture(autouse=True)
def _no_socket_left() -> Iterator[None]:
    with no_socket_left():
        yield


class Side:
    """One end of a connection as a process has it: one channel each way, with memory from a shared pool."""

    def __init__(self, memory: NetworkBufferPool, stream: Stream, *, reads: int, serves: int) -> None:
        self.link = TcpLink(stream, LIMITS, "the peer")
        self.error: BaseException | None = None
        self.ended = trio.Event()
        self.output = memory.create_pool(8, 8, 8)
        self.subpartition = PipelinedSubpartition(0, receiver_exclusive=EXCLUSIVE)
        served = {serves: self.subpartition}
        self.producer = ProducerEnd(self.link.producing, self.link.notify, served.__getitem__)
        self.consumer = ConsumerEnd(self.link.consuming, self.link.notify)
        floating = memory.create_pool(1, 1, 1)
        self.gate = InputGate("input", floating, None, lambda: None)
        segments = memory.request_unpooled(EXCLUSIVE)
        self.channel = RemoteInputChannel(self.gate, 0, reads, self.consumer, segments, floating)
        self.gate.add_channel(self.channel, 0)
        self.gate.request_partitions()

    async def run(self) -> None:
        """Run the link to its end; only what a link may raise is caught."""
        try:
            await self.link.run()
        except (TransportError, RemoteProtocolError) as error:
            self.error = error
        self.producer.close()
        self.ended.set()

    def send(self, payload: bytes) -> None:
        """Let a record leave."""
        add_record(self.subpartition, self.output, payload)
        self.subpartition.flush()

    async def receive(self) -> bytes:
        """Wait for a record."""
        while not self.channel.queue_length:
            await wait_all_tasks_blocked(0.001)
        item, _ = self.channel.poll()
        assert item is not None
        payload = bytes(item.payload)
        item.release()
        return payload[4:]

    def close(self) -> None:
        """Give all memory back; the link has ended."""
        self.gate.release()
        self.consumer.release()  # after its channels, which are then not offered its segment
        self.subpartition.release()
        self.output.lazy_destroy()


async def attack(
    data: bytes, *, leave: bool = False, stay: bool = False
) -> tuple[BaseException | None, list[Message]]:
    """Let a proven peer send `data`; returns how its connection ended and what it was told.

    It leaves when it has been told, at once, or never.
    Another connection of the same process, with the same memory, carries records before and afterwards.
    """
    mesh = Mesh(0, 3, LIMITS)
    address = await mesh.listen()
    connected: dict[int, Streams] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect, mesh, [address] * 3, connected, 0)
        streams = [await dial(address, SECRET, Identity(index, 0, 3), None) for index in (1, 2)]
    memory = NetworkBufferPool(64, SEGMENT_BYTES)
    attacked = Side(memory, connected[0][2], reads=IN, serves=OUT)
    beside = Side(memory, connected[0][1], reads=IN, serves=OUT)
    friend = Side(memory, streams[0], reads=OUT, serves=IN)
    async with streams[1] as hostile, trio.open_nursery() as nursery:
        for side in (attacked, beside, friend):
            nursery.start_soon(side.run)
        await pass_records(friend, beside)
        with suppress(trio.BrokenResourceError):
            await hostile.send_all(data)
        told = await last_words(hostile) if not leave else []
        if not stay:
            await hostile.aclose()
        await attacked.ended.wait()
        await pass_records(friend, beside)
        nursery.cancel_scope.cancel()
    for side in (attacked, beside, friend):
        side.close()
    assert memory.used == 0
    return attacked.error, told


async def pass_records(one: Side, other: Side) -> None:
    for number in range(10):
        one.send(bytes([number]))
        other.send(bytes([number + 100]))
        assert await other.receive() == bytes([number])
        assert await one.receive() == bytes([number + 100])


async def last_words(stream: Stream) -> list[Message]:
    """Return the messages that the attacked process sent before it closed the connection."""
    decoder = FrameDecoder()
    with suppress(trio.BrokenResourceError):
        async for data in stream:
            decoder.feed(data)
    messages = []
    while (message := decoder.next_message()) is not NEED_DATA:
        messages.append(message)
    return messages


def buffer(
    number: int, payload: bytes = b"data", kind: DataType = DataType.DATA_BUFFER, **other: int
) -> bytes:
    return encode(BufferResponse(other.get("channel", IN), 0, number, 0, kind, False, payload))


def header(length: int, message_id: int) -> bytes:
    return length.to_bytes(4) + bytes.fromhex("badc0ffe") + bytes([message_id])


BARRIER = encode_event(CheckpointBarrier(1, 0.0))
REQUEST = encode(PartitionRequest(OUT, 2))
FLOOD = b"".join(map(buffer, range(EXCLUSIVE + 1)))
ATTACKS: list[tuple[str, bytes, type[Exception], str]] = [
    ("garbage", bytes(range(200)), BadMagic, "begins with 0x04050607"),
    ("text", b"GET / HTTP/1.1\r\n\r\n", BadMagic, "begins with"),
    ("garbage behind a right frame", buffer(0) + b"\xff" * 50, BadMagic, "begins with 0xffffffff"),
    ("a second handshake", b"netsdial\0\1" + bytes(44), BadMagic, "begins with"),
    (
        "a frame over the limit",
        header((1 << 20) + 1, 113),
        FrameTooLong,
        "the peer sent a frame of 1048577 bytes; at most 1048576 bytes are allowed",
    ),
    ("an unknown message", header(9, 3), UnknownMessage, "id 3"),
    (
        "a frame of impossible length",
        header(8, 5),
        MalformedFrame,
        "the peer sent CloseRequest in a frame of 8 bytes; this message has another length",
    ),
    ("a buffer of impossible size", header(43, 0) + bytes(33) + b"\1", MalformedFrame, "size 1 (expected 0)"),
    ("credit 0", header(29, 6) + bytes(20), MalformedFrame, "credit must be at least 1"),
    ("a buffer without credit", FLOOD, CreditExceeded, "without credit"),
    (
        "a buffer that is too large",
        buffer(0, bytes(65)),
        RemoteProtocolError,
        " bytes arrived, but a buffer has at most 64 bytes",
    ),
    (
        "a buffer out of order",
        buffer(1),
        SequenceGap,
        "buffer reordering: expected sequence number 0, got 1",
    ),
    (
        "a buffer twice",
        buffer(0) * 2,
        SequenceGap,
        "buffer reordering: expected sequence number 1, got 0",
    ),
    (
        "a buffer of an unknown channel",
        buffer(0, channel=9),
        RemoteProtocolError,
        "a buffer or a backlog arrived for channel 9, which this task manager has not requested",
    ),
    ("a backlog of no channel", encode(BacklogAnnouncement(9, 1)), RemoteProtocolError, "channel 9"),
    (
        "an event that is none",
        buffer(0, b"?", DataType.PRIORITIZED_EVENT_BUFFER),
        MalformedEvent,
        "event of 1",
    ),
    (
        "an event of 64 KiB",
        buffer(0, bytes(65537), DataType.EVENT_BUFFER),
        RemoteProtocolError,
        "65537 bytes",
    ),
    (
        "data behind a blocking barrier",
        buffer(0, BARRIER, DataType.ALIGNED_CHECKPOINT_BARRIER) + buffer(1),
        RemoteProtocolError,
        "on a channel in state BLOCKED",
    ),
    (
        "a channel twice that does not exist",
        encode(PartitionRequest(9, 2)) * 2,
        RemoteProtocolError,
        "channel 9 was requested twice",
    ),
    (
        "no partition for a channel that is served",
        buffer(0) + encode(ErrorResponse(PARTITION_NOT_FOUND, IN)),
        RemoteProtocolError,
        f"the producer reports that the partition of channel {IN} does not exist, but it has already sent "
        "data of this partition",
    ),
    ("a channel twice", REQUEST * 2, RemoteProtocolError, f"channel {OUT} was requested twice"),
    (
        "more channels than allowed",
        REQUEST + encode(PartitionRequest(8, 2)) + encode(PartitionRequest(9, 2)),
        RemoteProtocolError,
        "more channels than the 2 that are allowed",
    ),
    (
        "credit for no channel",
        encode(AddCredit(9, 1)),
        RemoteProtocolError,
        "AddCredit arrived for a channel that is not open",
    ),
    (
        "a resumption of what runs",
        REQUEST + encode(ResumeConsumption(OUT)),
        RemoteProtocolError,
        "not blocked",
    ),
    (
        "an acknowledgement of no channel",
        encode(AckAllUserRecordsProcessed(9)),
        RemoteProtocolError,
        "not open",
    ),
    (
        "control nobody reads",
        encode(ControlPayload(b"?")),
        RemoteProtocolError,
        "over a connection that carries no control messages",
    ),
    (
        "more behind the last message",
        encode(CloseRequest()) + buffer(0),
        RemoteProtocolError,
        "after its last message",
    ),
]


@pytest.mark.parametrize(
    ("data", "error", "text"), [row[1:] for row in ATTACKS], ids=[row[0] for row in ATTACKS]
)
def test_a_peer_that_breaks_the_rules_is_told_so_and_let_go(
    data: bytes, error: type[Exception], text: str
) -> None:
    raised, told = trio.run(attack, data)
    assert type(raised) is error
    assert text in str(raised)
    assert isinstance(told[-1], ErrorResponse)
    assert told[-1].cause == str(raised)


def test_a_peer_that_breaks_the_rules_and_stays_is_left() -> None:
    raised, told = trio.run(lambda: attack(b"x" * 9, stay=True))
    assert type(raised) is BadMagic
    assert isinstance(told[-1], ErrorResponse)


@pytest.mark.parametrize("size", [1, 9, 30, 46, -1])
def test_a_peer_that_leaves_within_a_frame_is_lost(size: int) -> None:
    data = buffer(0)[:size]
    raised, _ = trio.run(lambda: attack(data, leave=True))
    assert type(raised) is ConnectionLostError
    assert raised.peer == "the peer"


def test_a_peer_that_tells_that_it_failed_is_believed() -> None:
    raised, _ = trio.run(attack, encode(ErrorResponse("out of memory")))
    assert type(raised) is PeerFailedError
    assert raised.peer == "the peer"
    assert raised.problem == "out of memory"


def test_what_a_peer_says_of_its_failure_is_shown_and_not_obeyed() -> None:
    raised, _ = trio.run(attack, encode(ErrorResponse("\x1b[2J" + "out of memory\n" * 500)))
    assert isinstance(raised, PeerFailedError)
    assert raised.problem.startswith(r"\x1b[2Jout of memory\nout of")
    assert str(raised).isprintable()
    assert len(str(raised)) == MAX_PEER_TEXT


def test_a_request_for_no_partition_is_answered_when_it_has_waited_and_the_link_goes_on() -> None:
    async def main() -> None:
        ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
        memory = NetworkBufferPool(32, SEGMENT_BYTES)
        side = Side(memory, ours, reads=IN, serves=OUT)
        decoder = FrameDecoder()
        async with theirs, trio.open_nursery() as nursery:
            nursery.start_soon(side.run)

            async def told() -> Message:
                while (message := decoder.next_message()) is NEED_DATA:
                    decoder.feed(await theirs.receive_some())
                return message

            assert await told() == PartitionRequest(IN, EXCLUSIVE)
            await theirs.send_all(encode(PartitionRequest(9, 2)) + encode(NewBufferSize(9, 5)))
            await wait_all_tasks_blocked(0.01)
            clock.jump(10)
            assert await told() == ErrorResponse(PARTITION_NOT_FOUND, 9)
            for _ in range(2):
                await theirs.send_all(encode(ErrorResponse(PARTITION_NOT_FOUND, IN)))
            assert await told() == PartitionRequest(IN, EXCLUSIVE)
            await theirs.send_all(REQUEST)
            side.send(b"still here")
            assert isinstance(await told(), BufferResponse)
            with pytest.raises(PartitionNotFoundError):
                side.gate.poll(0.0)
            assert side.error is None
            nursery.cancel_scope.cancel()
        side.producer.close()
        side.close()
        assert memory.used == 0

    clock = MockClock()
    trio.run(main, clock=clock)


def test_what_is_sent_to_a_released_channel_is_dropped_and_cancelled_once() -> None:
    async def main() -> None:
        ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
        memory = NetworkBufferPool(32, SEGMENT_BYTES)
        side = Side(memory, ours, reads=IN, serves=OUT)
        side.channel.release()
        held = memory.used
        async with theirs, trio.open_nursery() as nursery:
            nursery.start_soon(side.run)
            with suppress(trio.BrokenResourceError):
                for data in (
                    FLOOD,
                    encode(BacklogAnnouncement(IN, 5)),
                    buffer(0, b"?", DataType.EVENT_BUFFER),
                ):
                    await theirs.send_all(data)
                await theirs.send_all(buffer(7, bytes(SEGMENT_BYTES)))
                await wait_all_tasks_blocked(0.01)
                assert (side.error, memory.used) == (None, held)
                await theirs.send_all(buffer(8, bytes(SEGMENT_BYTES + 1)))
            told = await last_words(theirs)
        assert "a buffer of 65 bytes arrived; at most 64 bytes are allowed" in str(side.error)
        assert told[:2] == [PartitionRequest(IN, EXCLUSIVE), CancelPartitionRequest(IN)]
        assert [type(message) for message in told[2:]] == [ErrorResponse]
        side.close()
        assert memory.used == 0

    trio.run(main)


channels = st.sampled_from([IN, IN, OUT, OUT, 9])
numbers = st.integers(1, 3) | st.just(2**31 - 1)
payloads = st.binary(max_size=70) | st.sampled_from(
    [encode_event(event) for event in (CheckpointBarrier(1, 0.0), EndOfData(), EndOfPartition())]
)
any_message = st.one_of(
    st.builds(
        BufferResponse,
        channels,
        st.just(0),
        st.integers(0, 4),
        st.sampled_from([0, 0, 1, 3, 2**31 - 1]),
        st.sampled_from(DataType),
        st.booleans(),
        payloads,
    ),
    st.builds(PartitionRequest, channels, st.integers(0, 3)),
    st.builds(CancelPartitionRequest, channels),
    st.builds(AddCredit, channels, numbers),
    st.builds(ResumeConsumption, channels),
    st.builds(AckAllUserRecordsProcessed, channels),
    st.builds(BacklogAnnouncement, channels, numbers),
    st.builds(NewBufferSize, channels, numbers),
    st.just(KeepAlive()),
    st.builds(ControlPayload, payloads),
    st.builds(ErrorResponse, st.text(max_size=9) | st.just(PARTITION_NOT_FOUND), channels | st.none()),
    st.just(CloseRequest()),
)


@given(st.lists(any_message, max_size=12), st.lists(st.integers(1, 80), max_size=8), st.booleans())
@settings(max_examples=300)
def test_whatever_a_peer_says_ends_in_an_error_of_the_protocol_or_in_none(
    messages: list[Message], portions: list[int], renumber: bool
) -> None:
    """Right frames in any order, read while they come; all memory comes back."""

    async def main() -> None:
        ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
        memory = NetworkBufferPool(32, SEGMENT_BYTES)
        side = Side(memory, ours, reads=IN, serves=OUT)
        for number in range(4):
            side.send(bytes([number]))
        async with theirs, trio.open_nursery() as nursery:
            nursery.start_soon(side.run)
            with suppress(trio.BrokenResourceError):
                for portion in cut(
                    b"".join(map(encode, numbered(messages) if renumber else messages)), portions
                ):
                    await theirs.send_all(portion)
                    await wait_all_tasks_blocked()
                    with suppress(TransportError):
                        while side.channel.queue_length:
                            item, _ = side.channel.poll()
                            assert item is not None
                            item.release()
            nursery.cancel_scope.cancel()
        side.producer.close()
        side.close()
        assert memory.used == 0

    trio.run(main)


def cut(data: bytes, portions: list[int]) -> Iterator[bytes]:
    for portion in portions:
        yield data[:portion]
        data = data[portion:]
    yield data


def numbered(messages: list[Message]) -> list[Message]:
    """The same with the buffers of the channel that is read in right order, so that more of them pass."""
    result = []
    number = 0
    for message in messages:
        if isinstance(message, BufferResponse) and message.channel == IN:
            message = replace(message, sequence_number=number)
            number += 1
        result.append(message)
    return result
