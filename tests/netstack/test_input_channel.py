"""Receiving channels: what arrives, what it costs and what goes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from buffers import (
    BufferBuilder,
    EventBuffer,
    EventConsumer,
    LocalBufferPool,
    NetworkBufferPool,
    PipelinedSubpartition,
)
from flowcontrol import (
    BufferResponse,
    CheckpointBarrier,
    CreditExceeded,
    DataType,
    LocalProtocolError,
    Message,
    NewBufferSize,
    PartitionRequest,
    ReceiverState,
    RemoteProtocolError,
    ResumeConsumption,
    SequenceGap,
    encode_event,
)
from netstack.connection import ConsumerEnd
from netstack.gate import InputGate
from netstack.input_channel import LocalInputChannel, RemoteInputChannel

VECTORS = {
    scenario["id"]: scenario
    for scenario in json.loads(
        (
            Path(__file__).parents[1] / "data" / "vectors" / "credit_receiver_remote_input_channel.json"
        ).read_text()
    )["scenarios"]
}

DATA, EVENT, BARRIER = DataType.DATA_BUFFER, DataType.EVENT_BUFFER, DataType.ALIGNED_CHECKPOINT_BARRIER
IDENTITY = 5


class FakeConnection:
    """Keeps what a channel hands over to the network."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.credit_due = 0

    def open(self, channel: RemoteInputChannel, request: PartitionRequest) -> None:
        self.sent.append(request)

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def credit_available(self, channel: RemoteInputChannel) -> None:
        self.credit_due += 1


class Receiver:
    """A gate with one remote channel over a fake connection."""

    def __init__(self, exclusive: int = 2, floating: int = 4) -> None:
        self.memory = NetworkBufferPool(exclusive + floating, 64)
        self.connection = FakeConnection()
        self.gate, self.floating = gate_over(self.memory, floating)
        self.channel = RemoteInputChannel(
            self.gate,
            0,
            IDENTITY,
            cast(ConsumerEnd, self.connection),
            self.memory.request_unpooled(exclusive),
            self.floating,
        )
        self.gate.channels.append(self.channel)
        self.sequence = 0

    def arrive(self, payload: bytes, *, backlog: int = 0, data_type: DataType = DATA, gap: int = 0) -> bool:
        message = BufferResponse(IDENTITY, 0, self.sequence + gap, backlog, data_type, False, payload)
        is_event = self.channel.on_message(message)
        self.sequence += 1
        return is_event

    def read(self) -> bytes | None:
        """The next item, which is recycled."""
        polled = self.gate.poll(0.0)
        if polled is None:
            return None
        payload = bytes(polled[1].payload)
        polled[1].release()
        return payload


def gate_over(memory: NetworkBufferPool, floating: int) -> tuple[InputGate, LocalBufferPool]:
    pool = memory.create_pool(floating, 1, floating)
    return InputGate("input", pool, None, lambda: None), pool


def play(receiver: Receiver, step: dict[str, Any]) -> None:
    match step["op"]:
        case "on_buffer":
            # A negative backlog means "not told" in Flink; on the wire it is never negative.
            receiver.arrive(b"data", backlog=max(step["backlog"], 0), gap=step["seq"] - receiver.sequence)
        case "release":
            receiver.channel.release()
        case "resume":
            receiver.channel.resume()
        case "announce_buffer_size":
            receiver.channel.announce_buffer_size(step["n"])
        case other:
            raise AssertionError(f"unknown step {other}")


def test_vector_out_of_order() -> None:
    """Flink keeps the error until the next poll; here the connection gets it at once."""
    receiver = Receiver()
    first, second, poll = VECTORS["rx-out-of-order"]["steps"]
    assert poll["expect"] == {"error": "io (buffer reordering)"}
    play(receiver, first)
    available = receiver.channel.buffers.available
    with pytest.raises(SequenceGap, match="buffer reordering"):
        play(receiver, second)
    assert receiver.channel.buffers.available == available
    assert receiver.channel.queue_length == 1


def test_vector_released_channel_refuses() -> None:
    receiver = Receiver()
    for step in VECTORS["rx-released-channel-refuses"]["steps"]:
        if step.get("expect") == {"error": "illegal_state"}:
            with pytest.raises(LocalProtocolError, match=r"(?i)released"):
                play(receiver, step)
        else:
            play(receiver, step)
    assert receiver.connection.sent == []


def test_a_request_offers_the_exclusive_buffers_as_credit() -> None:
    receiver = Receiver(exclusive=2)
    receiver.channel.request(3)
    assert receiver.connection.sent == [
        PartitionRequest(channel=IDENTITY, initial_credit=2, first_subpartition=3, last_subpartition=3)
    ]


def test_data_takes_a_buffer_until_it_was_read() -> None:
    receiver = Receiver(exclusive=2, floating=1)
    assert not receiver.arrive(b"one")
    assert not receiver.arrive(b"two")
    channel = receiver.channel
    # As many as the exclusive ones are always required: the floating buffer came to replace the first.
    assert (channel.buffers.available, channel.queue_length, channel.queued_bytes) == (1, 2, 6)
    assert [receiver.read(), receiver.read(), receiver.read()] == [b"one", b"two", None]
    assert channel.buffers.available == 2
    assert (receiver.connection.credit_due, channel.take_credit(), channel.take_credit()) == (1, 2, 0)


def test_events_take_no_buffer_and_no_credit() -> None:
    receiver = Receiver(exclusive=0)
    assert receiver.arrive(b"event", data_type=EVENT)
    assert receiver.read() == b"event"
    assert receiver.channel.buffers.available == 0


def test_data_without_credit_is_refused_whole() -> None:
    receiver = Receiver(exclusive=1)
    receiver.arrive(b"one")
    with pytest.raises(CreditExceeded):
        receiver.arrive(b"two", backlog=3)
    assert receiver.channel.queue_length == 1
    assert receiver.channel.buffers.required == 1


def test_a_reported_backlog_becomes_credit() -> None:
    receiver = Receiver(exclusive=1, floating=4)
    receiver.arrive(b"one", backlog=2)
    # 2 that wait and 1 exclusive are required, and the exclusive one holds data.
    assert receiver.channel.buffers.floating_available == 3
    assert receiver.channel.take_credit() == 3
    assert receiver.channel.buffers_in_use == 3


def test_an_announced_backlog_becomes_credit() -> None:
    receiver = Receiver(exclusive=0, floating=4)
    receiver.channel.on_backlog(3)
    assert receiver.channel.take_credit() == 3
    assert receiver.channel.buffers_in_use == 3


def test_an_empty_buffer_is_given_back_at_once_but_counts() -> None:
    receiver = Receiver(exclusive=0, floating=4)
    receiver.channel.on_backlog(1)
    receiver.channel.take_credit()
    receiver.arrive(b"", backlog=2)
    assert receiver.channel.queue_length == 0
    assert not receiver.gate.readable
    assert receiver.channel.receiver.expected_sequence == 1
    assert receiver.channel.take_credit() == 2


def test_a_barrier_blocks_until_resumed() -> None:
    receiver = Receiver()
    barrier = encode_event(CheckpointBarrier(1, 0.0))
    assert receiver.arrive(barrier, data_type=BARRIER)
    with pytest.raises(RemoteProtocolError, match="BLOCKED"):
        receiver.arrive(b"data")
    assert receiver.read() == barrier
    receiver.channel.resume()
    assert receiver.connection.sent == [ResumeConsumption(IDENTITY)]
    assert not receiver.arrive(b"data")


@pytest.mark.parametrize(("exclusive", "kept"), [(0, 0), (1, 3)])
def test_a_barrier_takes_floating_buffers_only_from_channels_without_exclusive_ones(
    exclusive: int, kept: int
) -> None:
    receiver = Receiver(exclusive=exclusive)
    receiver.channel.on_backlog(2)
    receiver.arrive(encode_event(CheckpointBarrier(1, 0.0)), data_type=BARRIER)
    assert receiver.channel.buffers.available == kept


def test_a_buffer_size_is_announced() -> None:
    receiver = Receiver()
    receiver.channel.announce_buffer_size(512)
    assert receiver.connection.sent == [NewBufferSize(IDENTITY, 512)]


def test_release_gives_everything_back() -> None:
    receiver = Receiver(exclusive=2, floating=4)
    receiver.arrive(b"one", backlog=3)
    receiver.arrive(b"two", backlog=3)
    polled = receiver.gate.poll(0.0)
    assert polled is not None
    receiver.gate.release()
    assert receiver.channel.receiver.state is ReceiverState.RELEASED
    assert receiver.memory.used == 1
    polled[1].release()
    assert receiver.memory.used == 0


class LocalPair:
    """A subpartition and the local channel that reads it."""

    def __init__(self) -> None:
        self.memory = NetworkBufferPool(9, 64)
        self.pool = self.memory.create_pool(8, 1, 8)
        self.gate, _ = gate_over(self.memory, 1)
        self.subpartition = PipelinedSubpartition(0)
        self.channel = LocalInputChannel(self.gate, 0, IDENTITY, self.subpartition)
        self.gate.channels.append(self.channel)

    def add(self, payload: bytes, *, finish: bool = True) -> BufferBuilder:
        segment = self.pool.request()
        assert segment is not None
        builder = BufferBuilder(segment, self.pool)
        builder.append(memoryview(payload))
        self.subpartition.add(builder.consumer())
        if finish:
            builder.finish()
        return builder

    def add_barrier(self) -> None:
        self.subpartition.add(EventConsumer(EventBuffer(encode_event(CheckpointBarrier(1, 0.0)), BARRIER)))

    def read(self) -> list[bytes]:
        """All that can be read now."""
        payloads = []
        while (polled := self.gate.poll(0.0)) is not None:
            payloads.append(bytes(polled[1].payload))
            polled[1].release()
        return payloads


def test_a_local_channel_finds_what_was_there_before() -> None:
    pair = LocalPair()
    pair.add(b"one")
    pair.add(b"two", finish=False)
    assert pair.read() == []
    pair.channel.request(0)
    assert pair.read() == [b"one"]


def test_a_local_channel_reads_what_is_flushed() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    pair.add(b"one", finish=False)
    assert pair.read() == []
    pair.subpartition.flush()
    assert pair.read() == [b"one"]


def test_a_local_channel_stops_at_a_barrier_until_resumed() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    pair.add(b"one")
    pair.add_barrier()
    pair.add(b"two")
    pair.add(b"three")
    assert [len(payload) for payload in pair.read()] == [3, 34]
    pair.channel.resume()
    assert pair.read() == [b"two"]
    pair.subpartition.flush()
    assert pair.read() == [b"three"]


def test_a_local_channel_tells_what_its_subpartition_holds() -> None:
    pair = LocalPair()
    pair.add(b"one")
    pair.add_barrier()
    pair.add(b"three")
    channel = pair.channel
    assert (channel.queue_length, channel.buffers_in_use, channel.queued_bytes) == (3, 2, 42)


def test_a_local_channel_caps_new_buffers_and_listens_until_released() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    pair.channel.announce_buffer_size(20)
    assert pair.subpartition.buffer_size == 20
    pair.channel.release()
    pair.add(b"one")
    pair.add(b"two")
    assert not pair.gate.readable
