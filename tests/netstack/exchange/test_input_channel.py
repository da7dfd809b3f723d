"""Receiving channels: what arrives, what it costs and what goes back."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, cast

import pytest
import trio

from buffers import (
    BufferBuilder,
    EventBuffer,
    EventConsumer,
    LocalBufferPool,
    NetworkBufferPool,
    PipelinedSubpartition,
)
from flowcontrol import (
    Alignment,
    Announcement,
    BufferResponse,
    CheckpointBarrier,
    CheckpointOptions,
    CreditExceeded,
    DataType,
    DebloatedChannel,
    DebloatPolicy,
    DebloatSettings,
    EndOfData,
    EndOfInputChannelState,
    EndOfOutputChannelState,
    EndOfPartition,
    EventAnnouncement,
    LocalProtocolError,
    MalformedEvent,
    Message,
    NewBufferSize,
    PartitionRequest,
    ReceiverState,
    RemoteProtocolError,
    ResumeConsumption,
    SequenceGap,
    decode_event,
    encode_event,
    to_all,
)
from netstack import Edge, GeneratorSpec, Scenario, Vertex, run_job
from netstack.exchange.channel import InputChannel
from netstack.exchange.connection import ConsumerEnd
from netstack.exchange.gate import InputGate
from netstack.exchange.local_channel import LocalInputChannel
from netstack.exchange.remote_channel import RemoteInputChannel
from tests.netstack.exchange.queues import Reader, event_item
from tests.vectors import flink_vectors

VECTORS = flink_vectors("credit_receiver_remote_input_channel")

DATA, EVENT, BARRIER = DataType.DATA_BUFFER, DataType.EVENT_BUFFER, DataType.ALIGNED_CHECKPOINT_BARRIER
PRIORITY = DataType.PRIORITIZED_EVENT_BUFFER
TIMEOUTABLE = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
IDENTITY = 5


def unaligned(checkpoint_id: int = 1) -> bytes:
    return encode_event(CheckpointBarrier(checkpoint_id, 0.0, CheckpointOptions(Alignment.UNALIGNED)))


def timeoutable(checkpoint_id: int = 1) -> bytes:
    return encode_event(CheckpointBarrier(checkpoint_id, 0.0, CheckpointOptions(timeout_s=5.0)))


def aligned(checkpoint_id: int = 1) -> bytes:
    return encode_event(CheckpointBarrier(checkpoint_id, 0.0))


class Persisted:
    """Records the data that a channel persists for checkpoints."""

    def __init__(self, channel: InputChannel) -> None:
        self.channel = channel
        self.data: list[tuple[int, bytes]] = []
        channel.persist = self.persist

    def persist(self, checkpoint_id: int, channel: InputChannel, data: bytes) -> None:
        assert channel is self.channel
        self.data.append((checkpoint_id, data))


class FakeConnection:
    """Records the messages that a channel sends."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.credit_due = 0

    def open(self, channel: RemoteInputChannel, request: PartitionRequest) -> None:
        self.sent.append(request)

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def credit_available(self, channel: RemoteInputChannel) -> None:
        self.credit_due += 1


class Receiver(Reader):
    """A gate with one remote channel over a fake connection."""

    def __init__(self, exclusive: int = 2, floating: int = 4, *, first_sequence: int = 0) -> None:
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
        self.sequence = self.channel.receiver.expected_sequence = first_sequence
        self.persisted = Persisted(self.channel)

    def arrive(self, payload: bytes, *, backlog: int = 0, data_type: DataType = DATA, gap: int = 0) -> bool:
        message = BufferResponse(IDENTITY, 0, self.sequence + gap, backlog, data_type, False, payload)
        is_event = self.channel.on_message(message)
        self.sequence = self.channel.receiver.expected_sequence
        return is_event


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


class Arrivals:
    """The arrivals of a vector on a channel; `number_of` tells the sequence number of a payload."""

    TYPES: ClassVar = {"data": DATA, "unaligned_barrier": PRIORITY, "timeoutable_barrier": TIMEOUTABLE}

    def __init__(self, scenario: dict[str, Any], first_sequence: int) -> None:
        self.receiver = receiver = Receiver(exclusive=4, first_sequence=first_sequence)
        self.number_of: dict[bytes, int] = {}
        for kind, value in scenario["arrivals"]:
            self.number_of[self.payload(kind, value)] = receiver.sequence
            receiver.arrive(self.payload(kind, value), data_type=self.TYPES[kind])
            if kind == "timeoutable_barrier":  # or nothing could arrive behind it, as it does in the vector
                receiver.channel.resume()

    @staticmethod
    def payload(kind: str, value: int) -> bytes:
        if kind == "data":
            return bytes(value)
        return unaligned(value) if kind == "unaligned_barrier" else timeoutable(value)

    def poll(self) -> tuple[str, int]:
        """Kind and sequence number of the next item."""
        payload = self.receiver.read()
        assert payload is not None
        if payload in self.number_of:
            kind = "data" if not any(payload) else "timeoutable_barrier"
            return kind, self.number_of[payload]
        announcement = decode_event(payload)
        assert isinstance(announcement, EventAnnouncement)
        assert announcement.barrier == decode_event(timeoutable())
        return "announcement", announcement.sequence_number

    def in_flight_sizes(self) -> list[int]:
        return [len(data) for data in self.receiver.channel.start_persisting(1)]


@pytest.mark.parametrize("name", [name for name in VECTORS if "arrivals" in VECTORS[name]])
def test_vector_arrivals(name: str) -> None:
    scenario = VECTORS[name]
    expected = scenario["expect"]
    for first in first_sequences(scenario["given"]):
        arrivals = Arrivals(scenario, first)
        if "polled_sequence_numbers" in expected:
            numbers = [arrivals.poll()[1] for _ in expected["polled_sequence_numbers"]]
            assert numbers == expected["polled_sequence_numbers"]
        if "polled" in expected:
            check_first_poll(Arrivals(scenario, first).receiver.channel, expected["first_poll"])
            assert [list(arrivals.poll()) for _ in expected["polled"]] == expected["polled"]
        if "in_flight_buffer_sizes" in expected:
            assert arrivals.in_flight_sizes() == expected["in_flight_buffer_sizes"]


def first_sequences(given: dict[str, Any]) -> list[int]:
    if "first_sequence_number" in given:
        return [given["first_sequence_number"]]
    start, _, stop = given["first_sequence_number_range"]
    return [*range(start, 2**31), *range(-(2**31), stop + 1)]


def check_first_poll(channel: RemoteInputChannel, expected: dict[str, Any]) -> None:
    item, more = channel.poll()
    assert item is not None
    assert item.data_type.name == expected["data_type"]
    assert (more, channel.has_priority) == (expected["more_available"], expected["more_priority"])


def test_the_range_of_sequence_numbers_passes_the_greatest() -> None:
    numbers = first_sequences(VECTORS["rx-inflight-overflow"]["given"])
    assert (len(numbers), numbers[10:12]) == (13, [2**31 - 1, -(2**31)])


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
    # The channel always requires as many buffers as exclusive ones: the floating buffer replaced the first.
    assert (channel.buffers.available, channel.queue_length, channel.queued_bytes) == (1, 2, 6)
    assert [receiver.read(), receiver.read(), receiver.read()] == [b"one", b"two", None]
    assert channel.buffers.available == 2
    assert (receiver.connection.credit_due, channel.take_credit(), channel.take_credit()) == (1, 2, 0)


def test_events_take_no_buffer_and_no_credit() -> None:
    receiver = Receiver(exclusive=0)
    assert receiver.arrive(encode_event(EndOfPartition()), data_type=EVENT)
    assert receiver.read() == encode_event(EndOfPartition())
    assert receiver.channel.buffers.available == 0


@pytest.mark.parametrize("payload", [b"late", encode_event(EndOfPartition())])
def test_nothing_is_accepted_behind_the_end_of_the_partition(payload: bytes) -> None:
    receiver = Receiver(exclusive=1)
    receiver.arrive(encode_event(EndOfPartition()), data_type=EVENT)
    with pytest.raises(RemoteProtocolError, match="ENDED"):
        receiver.arrive(payload, data_type=DATA if payload == b"late" else EVENT)
    assert receiver.channel.queue_length == 1
    assert receiver.channel.buffers.available == 1


def test_what_is_no_event_is_refused_when_it_arrives() -> None:
    receiver = Receiver(exclusive=1)
    with pytest.raises(MalformedEvent):
        receiver.arrive(b"event", data_type=EVENT)
    assert receiver.channel.queue_length == 0


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


def test_an_unaligned_barrier_is_read_first_and_blocks_nothing() -> None:
    receiver = Receiver()
    receiver.arrive(b"one")
    assert receiver.arrive(unaligned(), data_type=PRIORITY)
    assert receiver.gate._urgent
    receiver.arrive(b"two")
    assert receiver.read_all() == [unaligned(), b"one", b"two"]


def test_a_barrier_with_a_timeout_is_announced_to_the_gate() -> None:
    receiver = Receiver()
    receiver.arrive(b"one")
    receiver.arrive(timeoutable(), data_type=TIMEOUTABLE)
    assert receiver.gate._urgent
    assert receiver.channel.queue_length == 3
    barrier = CheckpointBarrier(1, 0.0, CheckpointOptions(timeout_s=5.0))
    announcement = encode_event(EventAnnouncement(barrier, 1))
    assert receiver.read_all() == [announcement, b"one", timeoutable()]
    receiver.channel.resume()


def test_a_prioritized_barrier_is_read_before_the_data_of_the_gate() -> None:
    receiver = Receiver()
    receiver.arrive(b"one")
    receiver.arrive(timeoutable(), data_type=TIMEOUTABLE)
    receiver.read()
    assert not receiver.gate._urgent
    receiver.channel.prioritize(1)
    assert receiver.gate._urgent
    polled = receiver.gate.poll(0.0)
    assert polled is not None
    assert (bytes(polled[1].payload), polled[1].data_type) == (timeoutable(), PRIORITY)
    receiver.channel.resume()  # it blocked the producer all the same
    assert receiver.read_all() == [b"one"]


def test_a_barrier_that_was_read_is_not_prioritized() -> None:
    receiver = Receiver()
    receiver.arrive(timeoutable(), data_type=TIMEOUTABLE)
    receiver.read_all()
    receiver.channel.prioritize(0)
    assert not receiver.gate.readable


@pytest.mark.parametrize("data_type", [BARRIER, PRIORITY, TIMEOUTABLE])
def test_what_is_no_event_is_refused_whole(data_type: DataType) -> None:
    receiver = Receiver()
    with pytest.raises(MalformedEvent):
        receiver.arrive(b"rubbish", data_type=data_type)
    assert receiver.channel.receiver.state is ReceiverState.OPEN
    assert (receiver.channel.receiver.expected_sequence, receiver.channel.queue_length) == (0, 0)


def test_data_that_comes_before_the_barrier_is_persisted() -> None:
    receiver = Receiver(exclusive=6)
    receiver.arrive(b"one")
    receiver.arrive(b"two")
    receiver.read()
    assert receiver.channel.start_persisting(3) == [b"two"]
    receiver.arrive(b"three")
    receiver.arrive(b"")
    receiver.arrive(encode_event(EndOfData()), data_type=EVENT)
    receiver.arrive(b"four")
    receiver.arrive(unaligned(3), data_type=PRIORITY)
    receiver.arrive(b"five")
    assert receiver.persisted.data == [(3, b"three"), (3, b"four")]
    receiver.channel.stop_persisting(3)
    assert receiver.channel.start_persisting(4) == [b"two", b"three", b"four", b"five"]


@pytest.mark.parametrize(("data_type", "barrier"), [(BARRIER, aligned), (TIMEOUTABLE, timeoutable)])
def test_a_barrier_in_its_turn_ends_persisting_too(data_type: DataType, barrier: Any) -> None:
    receiver = Receiver()
    receiver.arrive(b"one")
    assert receiver.channel.start_persisting(3) == [b"one"]
    receiver.arrive(barrier(3), data_type=data_type)
    receiver.channel.resume()
    receiver.arrive(b"two")
    assert receiver.persisted.data == []


def test_data_in_front_of_a_barrier_that_came_first_is_in_flight() -> None:
    receiver = Receiver(exclusive=4)
    receiver.arrive(b"one")
    receiver.arrive(unaligned(3), data_type=PRIORITY)
    receiver.arrive(b"two")
    assert receiver.read() == unaligned(3)
    assert receiver.channel.start_persisting(3) == [b"one"]
    receiver.arrive(b"three")
    assert receiver.persisted.data == []


def test_an_aligned_barrier_that_was_read_leaves_nothing_in_flight() -> None:
    receiver = Receiver()
    receiver.arrive(b"one")
    receiver.arrive(aligned(3), data_type=BARRIER)
    receiver.read_all()
    receiver.channel.resume()
    receiver.arrive(b"two")
    assert receiver.channel.start_persisting(3) == []


def test_the_barrier_of_an_older_checkpoint_does_not_count() -> None:
    receiver = Receiver(exclusive=4)
    receiver.arrive(b"one")
    receiver.arrive(unaligned(3), data_type=PRIORITY)
    receiver.arrive(b"two")
    assert receiver.channel.start_persisting(4) == [b"one", b"two"]
    receiver.arrive(b"three")
    assert receiver.persisted.data == [(4, b"three")]


def test_nothing_is_in_flight_for_a_checkpoint_that_a_newer_barrier_has_ended() -> None:
    receiver = Receiver(exclusive=4)
    receiver.arrive(b"one")
    receiver.arrive(unaligned(4), data_type=PRIORITY)
    assert receiver.channel.start_persisting(3) == []
    receiver.arrive(b"two")
    assert receiver.persisted.data == []
    assert receiver.channel.start_persisting(4) == [b"one"]


def test_stopping_ends_persisting() -> None:
    receiver = Receiver()
    receiver.channel.start_persisting(3)
    receiver.channel.stop_persisting(2)
    receiver.arrive(b"one")
    receiver.channel.stop_persisting(3)
    receiver.arrive(b"two")
    assert receiver.persisted.data == [(3, b"one")]
    assert receiver.channel.start_persisting(3) == []


def test_recovered_data_is_read_before_the_partition_is_requested() -> None:
    receiver = Receiver(exclusive=1, floating=1)
    end = encode_event(EndOfInputChannelState())
    free = receiver.memory.free
    receiver.channel.restore(bytes(100) + b"rest")
    channel = receiver.channel
    assert (channel.queue_length, channel.queued_bytes, receiver.memory.free) == (3, 104 + len(end), free)
    assert receiver.read_all() == [bytes(64), bytes(36) + b"rest", end]
    assert receiver.gate.recovered(channel)
    assert receiver.connection.sent == []
    assert channel.take_credit() == 0


def test_the_end_of_recovered_output_blocks_until_resumed() -> None:
    receiver = Receiver()
    end = encode_event(EndOfOutputChannelState())
    receiver.arrive(end, data_type=DataType.RECOVERY_COMPLETION)
    assert receiver.read() == end
    receiver.channel.resume()
    assert receiver.connection.sent == [ResumeConsumption(IDENTITY)]


def test_a_buffer_size_is_announced() -> None:
    receiver = Receiver()
    receiver.channel.announce_buffer_size(512)
    assert receiver.connection.sent == [NewBufferSize(IDENTITY, 512)]


class OneSize(DebloatPolicy):
    """Announces one size to all channels, whatever happens."""

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        return to_all(self.settings.min_size, channels)


def test_a_released_channel_is_told_no_size() -> None:
    settings = DebloatSettings()
    receiver = Receiver()
    receiver.gate.debloater = OneSize(settings)
    receiver.gate.debloat(1.0)
    receiver.channel.release()
    receiver.gate.debloat(2.0)
    assert receiver.connection.sent == [NewBufferSize(IDENTITY, settings.min_size)]


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


class LocalPair(Reader):
    """A subpartition and the local channel that reads it."""

    def __init__(self) -> None:
        self.memory = NetworkBufferPool(9, 64)
        self.pool = self.memory.create_pool(8, 1, 8)
        self.gate, _ = gate_over(self.memory, 1)
        self.subpartition = PipelinedSubpartition(0)
        self.channel = LocalInputChannel(self.gate, 0, IDENTITY, self.subpartition)
        self.gate.channels.append(self.channel)
        self.persisted = Persisted(self.channel)

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
        self.subpartition.add(event_item(CheckpointBarrier(1, 0.0)))

    def overtake(self, checkpoint_id: int) -> list[bytes]:
        return self.subpartition.overtake(EventConsumer(EventBuffer(unaligned(checkpoint_id), PRIORITY)))


def test_a_local_channel_finds_what_was_there_before() -> None:
    pair = LocalPair()
    pair.add(b"one")
    pair.add(b"two", finish=False)
    assert pair.read_all() == []
    pair.channel.request(0)
    assert pair.read_all() == [b"one"]


def test_a_local_channel_reads_what_is_flushed() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    pair.add(b"one", finish=False)
    assert pair.read_all() == []
    pair.subpartition.flush()
    assert pair.read_all() == [b"one"]


def test_a_local_channel_stops_at_a_barrier_until_resumed() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    pair.add(b"one")
    pair.add_barrier()
    pair.add(b"two")
    pair.add(b"three")
    assert [len(payload) for payload in pair.read_all()] == [3, 34]
    pair.channel.resume()
    assert pair.read_all() == [b"two"]
    pair.subpartition.flush()
    assert pair.read_all() == [b"three"]


def test_a_local_channel_reads_an_unaligned_barrier_first() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    pair.add(b"one")
    pair.add(b"two")
    assert pair.gate.readable
    assert not pair.gate._urgent
    assert pair.overtake(1) == [b"one", b"two"]
    assert pair.gate._urgent
    assert pair.read_all() == [unaligned(), b"one"]


def test_a_local_channel_finds_a_barrier_that_overtook_before_or_while_it_was_blocked() -> None:
    pair = LocalPair()
    pair.overtake(1)
    pair.channel.request(0)
    assert pair.gate._urgent
    assert pair.read_all() == [unaligned()]
    pair.add_barrier()
    assert pair.read_all() == [aligned()]
    pair.overtake(2)
    assert not pair.gate.readable
    pair.channel.resume()
    assert pair.gate._urgent
    assert pair.read_all() == [unaligned(2)]


def test_a_local_channel_persists_what_is_read_before_the_barrier() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    pair.add(b"one")
    pair.add(b"two")
    assert pair.channel.start_persisting(3) == []
    assert pair.read_all() == [b"one"]
    assert pair.overtake(3) == [b"two"]
    pair.subpartition.flush()
    assert pair.read_all() == [unaligned(3), b"two"]
    assert pair.persisted.data == [(3, b"one")]


def test_a_local_channel_persists_nothing_for_a_barrier_that_was_read() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    pair.add(b"one")
    pair.overtake(3)
    pair.subpartition.flush()
    polled = pair.gate.poll(0.0)
    assert polled is not None
    assert polled[1].is_event
    assert pair.channel.start_persisting(3) == []
    assert pair.read_all() == [b"one"]
    assert pair.persisted.data == []
    assert pair.channel.start_persisting(4) == []
    pair.channel.stop_persisting(4)
    pair.add(b"two")
    pair.subpartition.flush()
    assert pair.read_all() == [b"two"]
    assert pair.persisted.data == []


def test_a_local_channel_announces_nothing() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    barrier = EventConsumer(EventBuffer(timeoutable(), TIMEOUTABLE))
    pair.subpartition.add_timeoutable(barrier, 1, lambda data: None)
    assert not pair.gate._urgent
    assert pair.read_all() == [timeoutable()]
    with pytest.raises(LocalProtocolError, match="a local channel announces no events"):
        pair.channel.prioritize(0)


def test_a_local_channel_reads_recovered_data_before_its_subpartition() -> None:
    pair = LocalPair()
    end = encode_event(EndOfInputChannelState())
    pair.add(b"one")
    pair.add(b"two")
    pair.overtake(1)
    pair.channel.restore(b"recovered")
    channel = pair.channel
    assert (channel.queue_length, channel.queued_bytes) == (5, 9 + len(end))
    assert (channel.buffers_in_use, channel.has_priority) == (5, False)
    assert channel.start_persisting(1) == [b"recovered"]
    channel.stop_persisting(1)
    assert pair.read_all() == [b"recovered", end]
    assert pair.gate.recovered(channel)
    channel.request(0)
    assert pair.read_all() == [unaligned(), b"one"]


def test_a_barrier_overtakes_recovered_data_of_a_local_channel_and_each_checkpoint_keeps_it_once() -> None:
    pair = LocalPair()
    pair.channel.restore(bytes(64) + b"rest", marks_end=False)
    pair.channel.request(0)
    pair.add(b"one")
    assert pair.overtake(1) == [b"one"]
    assert pair.read() == unaligned(1)
    assert pair.channel.start_persisting(1) == [bytes(64), b"rest"]
    assert pair.read() == bytes(64)
    assert pair.channel.start_persisting(2) == [b"rest"]
    pair.channel.stop_persisting(2)
    assert pair.channel.start_persisting(1) == []
    assert pair.read_all() == [b"rest"]
    pair.add(b"two", finish=False)
    assert pair.read_all() == [b"one"]
    assert pair.persisted.data == []


def test_a_remote_channel_keeps_recovered_data_and_what_arrives_behind_it() -> None:
    receiver = Receiver(exclusive=4)
    receiver.channel.restore(bytes(64) + b"rest", marks_end=False)
    receiver.arrive(b"one")
    assert receiver.channel.start_persisting(1) == [bytes(64), b"rest", b"one"]
    receiver.arrive(b"two")
    receiver.arrive(unaligned(1), data_type=PRIORITY)
    receiver.arrive(b"three")
    assert receiver.persisted.data == [(1, b"two")]
    receiver.channel.stop_persisting(1)
    receiver.arrive(unaligned(2), data_type=PRIORITY)
    assert receiver.read_all() == [unaligned(1), unaligned(2), bytes(64), b"rest", b"one", b"two", b"three"]


def test_a_released_local_channel_forgets_recovered_data() -> None:
    pair = LocalPair()
    pair.channel.restore(b"recovered")
    pair.channel.release()
    assert pair.channel.queue_length == 0


def test_a_local_channel_tells_what_its_subpartition_holds_and_debloating_counts_its_events() -> None:
    pair = LocalPair()
    pair.add(b"one")
    pair.add_barrier()
    pair.add(b"three")
    channel = pair.channel
    assert (channel.queue_length, channel.buffers_in_use) == (3, 3)
    assert (channel.queued_bytes, pair.subpartition.queued_bytes) == (0, 42)


def test_a_local_channel_caps_new_buffers_and_listens_until_released() -> None:
    pair = LocalPair()
    pair.channel.request(0)
    pair.channel.announce_buffer_size(20)
    assert pair.subpartition.buffer_size == 20
    pair.channel.release()
    pair.add(b"one")
    pair.add(b"two")
    assert not pair.gate.readable


MOST_BYTES = 1500


def idle_job(parallelism: int) -> Scenario:
    return Scenario(
        name="idle",
        duration_s=2.0,
        vertices=(
            Vertex(
                name="source", parallelism=parallelism, source=GeneratorSpec(record_bytes=8, rates=(1e-6,))
            ),
            Vertex(name="sink", parallelism=parallelism),
        ),
        edges=(Edge(source="source", target="sink", ship="rebalance"),),
    )


def bytes_while_running(parallelism: int) -> int:
    """Memory of a job whose channels have all been requested, and are idle."""
    seen: dict[float, int] = {}

    def look(now: float) -> None:
        seen[now] = tracemalloc.get_traced_memory()[0]

    gc.collect()
    tracemalloc.start()
    try:
        trio.run(lambda: run_job(idle_job(parallelism), progress=look, real_time=False))
    finally:
        tracemalloc.stop()
    return seen[1.0]


@pytest.mark.long
def test_an_idle_channel_takes_less_than_one_and_a_half_kilobytes() -> None:
    bytes_while_running(2)  # what is made once, whatever the job
    few, more, most = (bytes_while_running(parallelism) for parallelism in (32, 64, 96))
    # What grows with the subtasks falls out, and what grows with their square stays.
    assert (most - 2 * more + few) / (96**2 - 2 * 64**2 + 32**2) < MOST_BYTES
