"""The promises of every input channel, tested within a task manager and over a connection."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import (
    BufferBuilder,
    Content,
    EventBuffer,
    EventConsumer,
    NetworkBufferPool,
    PipelinedSubpartition,
)
from flowcontrol import (
    Alignment,
    CheckpointBarrier,
    CheckpointOptions,
    DataType,
    EndOfInputChannelState,
    encode_event,
)
from netstack.engine.agenda import Agenda
from netstack.engine.randomness import Randomness
from netstack.exchange.channel import InputChannel
from netstack.exchange.connection import ConsumerEnd, Notifier, ProducerEnd, WritingNotifier
from netstack.exchange.emulated_link import EmulatedLink
from netstack.exchange.gate import InputGate
from netstack.exchange.local_channel import LocalInputChannel
from netstack.exchange.remote_channel import RemoteInputChannel
from netstack.scenarios.costs import CostModel, LinkConditions
from tests.netstack.exchange.queues import Reader, event_item

SEGMENT_BYTES = 64
END_OF_STATE = encode_event(EndOfInputChannelState())


def barrier(checkpoint_id: int, alignment: Alignment = Alignment.ALIGNED) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 0.0, CheckpointOptions(alignment))


class Pair(Reader):
    """A subpartition, and a gate with the channel that reads it."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.memory = NetworkBufferPool(64, SEGMENT_BYTES)
        self.output = self.memory.create_pool(32, 32, 32)
        self.subpartition = PipelinedSubpartition(0, receiver_exclusive=2)
        self.gate = InputGate("input", self.memory.create_pool(4, 1, 4), None, lambda: None)
        self.channel = self.open()
        self.gate.add_channel(self.channel, 0)
        self.persisted: list[tuple[int, bytes]] = []
        self.channel.persist = self._persist

    def open(self) -> InputChannel:
        return LocalInputChannel(self.gate, 0, 0, self.subpartition)

    def _persist(self, checkpoint_id: int, channel: InputChannel, data: Content) -> None:
        assert channel is self.channel
        self.persisted.append((checkpoint_id, bytes(data)))

    def deliver(self) -> None:
        """Deliver all messages that are in transit, or that may leave now."""
        self.agenda.run_until(self.agenda.now + 60.0, 10**6)

    def add(self, *payloads: bytes) -> None:
        """Queue each payload in a finished buffer."""
        for payload in payloads:
            segment = self.output.request()
            assert segment is not None
            builder = BufferBuilder(segment, self.output)
            builder.append(memoryview(payload))
            self.subpartition.add(builder.consumer())
            builder.finish()
        self.subpartition.flush()

    def align(self, checkpoint_id: int) -> None:
        self.subpartition.add(event_item(barrier(checkpoint_id)))

    def overtake(self, checkpoint_id: int) -> list[bytes]:
        """Let a barrier overtake; return the overtaken data at the producer."""
        event = encode_event(barrier(checkpoint_id, Alignment.UNALIGNED))
        overtaken = self.subpartition.overtake(
            EventConsumer(EventBuffer(event, DataType.PRIORITIZED_EVENT_BUFFER))
        )
        return [bytes(data) for data in overtaken]

    def start_persisting(self, checkpoint_id: int) -> list[bytes]:
        return [bytes(data) for data in self.channel.start_persisting(checkpoint_id)]

    def close(self) -> None:
        """Release both ends, and expect all memory back."""
        self.gate.cancel()
        self.deliver()
        self.gate.release()
        self.subpartition.release()
        self.output.lazy_destroy()
        assert self.memory.used == 0


class RemotePair(Pair):
    """Both ends with a connection between them, over an emulated link."""

    def open(self) -> InputChannel:
        costs, randomness = CostModel(), Randomness(1, 0.0)
        link = EmulatedLink(self.agenda, costs, LinkConditions(), randomness, ("a", "b"))
        jitter = randomness.jitter("network thread")
        ProducerEnd(link.producing, Notifier(self.agenda, costs, jitter), [self.subpartition].__getitem__)
        consumer = ConsumerEnd(link.consuming, WritingNotifier(self.agenda, costs, jitter, link.to_producer))
        segments = self.memory.request_unpooled(2)
        return RemoteInputChannel(self.gate, 0, 0, consumer, segments, self.gate.floating)


BOTH = pytest.mark.parametrize("kind", [Pair, RemotePair], ids=["local", "remote"])


@BOTH
def test_nothing_is_read_before_the_partition_is_requested_and_then_all_in_order(kind: type[Pair]) -> None:
    pair, payloads = kind(), [b"%d" % number for number in range(20)]
    pair.add(*payloads[:10])
    assert pair.read_all() == []
    pair.gate.request_partitions()
    pair.deliver()
    assert pair.gate.readable
    pair.add(*payloads[10:])
    assert pair.read_all() == payloads
    assert not pair.gate.readable
    assert (pair.channel.queue_length, pair.channel.queued_bytes) == (0, 0)
    pair.close()


@BOTH
def test_an_aligned_barrier_blocks_what_is_behind_it_until_the_channel_is_resumed(kind: type[Pair]) -> None:
    pair = kind()
    pair.gate.request_partitions()
    for checkpoint_id in (1, 2):
        pair.add(b"before")
        pair.align(checkpoint_id)
        pair.add(b"behind")
        assert not pair.channel.blocked
        assert pair.read_all() == [b"before", encode_event(barrier(checkpoint_id))]
        assert pair.channel.blocked
        assert not pair.gate.readable
        pair.channel.resume()
        assert pair.read_all() == [b"behind"]
        assert not pair.channel.blocked
    pair.close()


@BOTH
def test_a_barrier_that_overtakes_is_read_first_and_blocks_nothing(kind: type[Pair]) -> None:
    pair = kind()
    pair.gate.request_partitions()
    pair.add(b"one", b"two")
    pair.deliver()
    assert not pair.channel.has_priority
    pair.overtake(1)
    pair.deliver()
    assert pair.channel.has_priority
    assert pair.read_all() == [encode_event(barrier(1, Alignment.UNALIGNED)), b"one", b"two"]
    assert (pair.channel.has_priority, pair.channel.blocked) == (False, False)
    pair.close()


@BOTH
@pytest.mark.parametrize("marks_end", [True, False])
def test_restored_data_comes_before_that_of_the_partition(kind: type[Pair], marks_end: bool) -> None:
    pair, restored = kind(), bytes(SEGMENT_BYTES) + b"rest"
    pair.add(b"one")
    pair.channel.restore(restored, marks_end=marks_end)
    assert pair.channel.queued_bytes == len(restored) + marks_end * len(END_OF_STATE)
    if marks_end:
        assert pair.read_all() == [bytes(SEGMENT_BYTES), b"rest", END_OF_STATE]
        assert pair.gate.recovered(pair.channel)
        pair.gate.request_partitions()
        assert pair.read_all() == [b"one"]
    else:
        pair.gate.request_partitions()
        assert pair.read_all() == [bytes(SEGMENT_BYTES), b"rest", b"one"]
    pair.close()


STEPS = st.lists(st.sampled_from(["add", "deliver", "read", "start", "overtake"]), max_size=20)


@BOTH
@given(STEPS, st.booleans())
def test_data_before_a_barrier_that_was_not_read_is_stored_once_wherever_it_is(
    kind: type[Pair], steps: list[str], restores: bool
) -> None:
    """The data is at the producer, on its way, or at the consumer; the snapshot may begin at any time."""
    pair, added, read, stored = kind(), list[bytes](), list[bytes](), list[bytes]()
    since: int | None = None  # number of data buffers read before the snapshot
    before: int | None = None  # number of data buffers before the barrier
    if restores:
        added.append(b"restored")
        pair.channel.restore(b"restored", marks_end=False)
    pair.gate.request_partitions()
    for step in (*steps, "overtake", "start"):
        item = pair.read() if step == "read" else None
        if item in added:
            read.append(item)
        elif step == "start" or item is not None:  # at the barrier, the task begins its snapshot
            if since is None:
                since, stored = len(read), stored + pair.start_persisting(1)
        elif step == "add":
            added.append(b"%d" % len(added))
            pair.add(added[-1])
        elif step == "deliver":
            pair.deliver()
        elif step == "overtake" and before is None:
            before, stored = len(added), stored + pair.overtake(1)
    assert read + [item for item in pair.read_all() if item in added] == added
    stored += [data for checkpoint_id, data in pair.persisted if checkpoint_id == 1]
    assert sorted(stored) == sorted(added[since:before])
    pair.channel.stop_persisting(1)
    assert pair.channel.persisting is None
    pair.close()


@BOTH
def test_an_aborted_checkpoint_is_given_no_more_data(kind: type[Pair]) -> None:
    pair = kind()
    pair.gate.request_partitions()
    assert pair.start_persisting(4) == []
    assert pair.channel.persisting == 4
    pair.add(b"one")
    assert pair.read_all() == [b"one"]
    pair.channel.stop_persisting(4)
    pair.add(b"two")
    assert pair.read_all() == [b"two"]
    assert pair.persisted == [(4, b"one")]
    pair.close()


@BOTH
def test_the_producer_is_told_of_sizes_and_of_the_last_record(kind: type[Pair]) -> None:
    pair = kind()
    pair.gate.request_partitions()
    pair.deliver()
    pair.channel.announce_buffer_size(20)
    assert not pair.subpartition.acknowledged
    pair.channel.acknowledge_all_records()
    pair.deliver()
    assert pair.subpartition.buffer_size == 20
    assert pair.subpartition.acknowledged
    pair.close()


@BOTH
@given(st.integers(0, 20))
def test_buffers_in_use_are_those_at_both_ends(kind: type[Pair], count: int) -> None:
    pair = kind()
    pair.gate.request_partitions()
    pair.deliver()
    pair.add(*[b"data"] * count)
    pair.deliver()
    assert pair.channel.buffers_in_use == count
    for left in reversed(range(count)):
        assert pair.read() == b"data"
        pair.deliver()
        assert pair.channel.buffers_in_use == left
    pair.close()


@BOTH
def test_a_channel_that_failed_raises_the_error_when_it_is_polled(kind: type[Pair]) -> None:
    pair: Any = kind()
    pair.gate.request_partitions()
    pair.add(b"one")
    pair.deliver()
    pair.channel.fail(ValueError("the producer has gone"))
    with pytest.raises(ValueError, match="the producer has gone"):
        pair.read()
    pair.close()


@BOTH
def test_a_released_channel_reads_nothing_more_and_returns_all_memory(kind: type[Pair]) -> None:
    pair = kind()
    pair.channel.restore(b"restored", marks_end=False)
    pair.gate.request_partitions()
    pair.add(*[b"data"] * 9)
    pair.deliver()
    pair.close()
    assert not pair.gate.readable
    assert pair.read() is None
    assert pair.channel.queue_length == 0
