"""Barriers that overtake the data of a subpartition, at once or after a timeout."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from buffers import BufferBuilder, EventBuffer, EventConsumer, NetworkBufferPool, PipelinedSubpartition
from flowcontrol import DataType

PRIORITY = DataType.PRIORITIZED_EVENT_BUFFER
TIMEOUTABLE = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
ALIGNED = DataType.ALIGNED_CHECKPOINT_BARRIER


def event(payload: bytes, data_type: DataType = PRIORITY) -> EventConsumer:
    return EventConsumer(EventBuffer(payload, data_type))


class Queue:
    """A subpartition whose reader takes down in order what it is told and what it reads."""

    def __init__(self) -> None:
        self.memory = NetworkBufferPool(64, 64)
        self.pool = self.memory.create_pool(64, 1, 64)
        self.subpartition = PipelinedSubpartition(0)
        self.subpartition.on_data = lambda: self.told.append("data")
        self.subpartition.on_priority = lambda: self.told.append("priority")
        self.told: list[str] = []
        self.settled: list[list[bytes] | None] = []

    def add(self, payload: bytes, *, finish: bool = True) -> BufferBuilder:
        segment = self.pool.request()
        assert segment is not None
        builder = BufferBuilder(segment, self.pool)
        builder.append(memoryview(payload))
        self.subpartition.add(builder.consumer())
        if finish:
            builder.finish()
        return builder

    def add_timeoutable(self, payload: bytes = b"barrier", checkpoint_id: int = 1) -> int:
        consumer = event(payload, TIMEOUTABLE)
        return self.subpartition.add_timeoutable(consumer, checkpoint_id, self.settled.append)

    def time_out(self, checkpoint_id: int = 1) -> bool:
        return self.subpartition.alignment_timeout(checkpoint_id, event(b"unaligned"))

    def read(self) -> list[bytes]:
        """All that can be read, flushed."""
        payloads = []
        self.subpartition.flush()
        while (polled := self.subpartition.poll()) is not None:
            payloads.append(bytes(polled.buffer.payload))
            polled.buffer.release()
            self.subpartition.flush()
        return payloads


def test_a_barrier_stands_behind_earlier_priority_events() -> None:
    queue = Queue()
    queue.add(b"data")
    assert queue.subpartition.overtake(event(b"1")) == [b"data"]
    assert queue.subpartition.overtake(event(b"2")) == [b"data"]
    assert queue.told.count("priority") == 1
    assert queue.read() == [b"1", b"2", b"data"]
    assert not queue.subpartition.has_priority


def test_overtaken_is_what_has_not_been_read_of_each_buffer() -> None:
    queue = Queue()
    builder = queue.add(b"read", finish=False)
    assert queue.read() == [b"read"]
    assert queue.subpartition.overtake(event(b"1")) == []  # the open buffer has nothing new
    builder.append(memoryview(b"new"))
    assert queue.subpartition.overtake(event(b"2")) == [b"new"]
    assert queue.read() == [b"1", b"2", b"new"]


def test_a_barrier_in_front_of_a_finished_buffer_makes_that_available() -> None:
    queue = Queue()
    queue.add(b"data")
    queue.subpartition.overtake(event(b"1"))
    assert queue.told == ["priority", "data"]


def test_without_a_listener_for_priority_the_other_one_is_told() -> None:
    queue = Queue()
    queue.subpartition.on_priority = None
    queue.add(b"one")
    queue.add(b"two")
    queue.told.clear()
    queue.subpartition.overtake(event(b"1"))
    assert queue.told == ["data"]


def test_a_barrier_can_be_sent_without_credit() -> None:
    queue = Queue()
    queue.add(b"data")
    assert not queue.subpartition.can_send(0)
    queue.subpartition.overtake(event(b"1"))
    assert queue.subpartition.can_send(0)


def test_nobody_is_told_while_blocked_and_the_barrier_leaves_first_after_that() -> None:
    queue = Queue()
    queue.subpartition.add(event(b"aligned", ALIGNED))
    assert queue.read() == [b"aligned"]
    queue.add(b"data")
    queue.told.clear()
    assert queue.subpartition.overtake(event(b"1")) == [b"data"]
    assert (queue.told, queue.subpartition.has_priority, queue.read()) == ([], False, [])
    queue.subpartition.resume()
    assert queue.subpartition.has_priority
    assert queue.read() == [b"1", b"data"]


def test_from_flink_2_3_on_a_barrier_leaves_a_blocked_subpartition_and_nothing_else_does() -> None:
    queue = Queue()
    queue.subpartition.passes_priority = True
    queue.subpartition.add(event(b"aligned", ALIGNED))
    assert queue.read() == [b"aligned"]
    queue.add(b"data")
    queue.told.clear()
    assert queue.subpartition.overtake(event(b"1")) == [b"data"]
    assert (queue.told, queue.subpartition.can_send(0), queue.subpartition.backlog) == (["priority"], True, 0)
    queue.subpartition.overtake(event(b"2"))
    first = queue.subpartition.poll()
    assert first is not None
    assert (first.more_available, first.next_is_event) == (True, True)
    assert queue.read() == [b"2"]
    assert queue.subpartition.blocked
    queue.subpartition.resume()
    assert queue.read() == [b"data"]


def test_a_finished_subpartition_refuses_barriers() -> None:
    queue = Queue()
    queue.add(b"data")
    queue.subpartition.finish()
    assert queue.subpartition.overtake(event(b"1")) == []
    assert queue.add_timeoutable() == -1
    assert queue.settled == [[]]
    assert len(queue.subpartition) == queue.subpartition.total_buffers == 1


def test_only_a_priority_event_may_overtake() -> None:
    queue = Queue()
    with pytest.raises(
        ValueError, match="an event of type ALIGNED_CHECKPOINT_BARRIER must not overtake data"
    ):
        queue.subpartition.overtake(event(b"1", ALIGNED))
    assert queue.subpartition.total_buffers == 0
    queue.add_timeoutable()
    with pytest.raises(ValueError, match="an event of type EVENT_BUFFER must not overtake data"):
        queue.subpartition.alignment_timeout(1, event(b"1", DataType.EVENT_BUFFER))
    assert queue.read() == [b"barrier"]
    assert queue.settled == [[]]


def test_a_barrier_that_is_read_in_time_has_overtaken_nothing() -> None:
    queue = Queue()
    queue.add(b"data")
    queue.add_timeoutable()
    assert queue.settled == []
    assert queue.read() == [b"data", b"barrier"]
    assert queue.settled == [[]]
    assert queue.subpartition.blocked
    assert not queue.time_out()


def test_a_timeout_moves_the_barrier_before_the_data_that_it_stood_behind() -> None:
    queue = Queue()
    queue.add(b"one")
    queue.subpartition.add(event(b"event", DataType.EVENT_BUFFER))
    queue.add(b"two")
    queue.add_timeoutable()
    queue.add(b"after")
    queue.told.clear()
    assert queue.time_out()
    assert queue.settled == [[b"one", b"two"]]
    assert queue.told == ["priority"]
    assert (queue.subpartition.total_buffers, queue.subpartition.data_buffers) == (5, 3)
    assert queue.read() == [b"unaligned", b"one", b"event", b"two", b"after"]
    assert not queue.subpartition.blocked
    assert queue.settled == [[b"one", b"two"]]


def test_a_timeout_of_another_checkpoint_changes_nothing() -> None:
    queue = Queue()
    queue.add_timeoutable(checkpoint_id=2)
    assert not queue.time_out(1)
    assert queue.settled == []
    assert queue.time_out(2)


def test_a_second_barrier_with_a_timeout_fails_the_state_of_the_first() -> None:
    queue = Queue()
    queue.add(b"one")
    queue.add_timeoutable(b"first", 1)
    queue.add(b"two")
    queue.add_timeoutable(b"second", 2)
    assert queue.settled == [None]
    assert not queue.time_out(1)
    assert queue.time_out(2)
    assert queue.settled == [None, [b"one", b"two"]]
    assert queue.read() == [b"unaligned", b"one", b"first"]  # which still blocks


def test_release_settles_what_is_open_and_gives_memory_back() -> None:
    queue = Queue()
    queue.add(b"data")
    queue.subpartition.overtake(event(b"1"))
    queue.add_timeoutable()
    queue.subpartition.release()
    assert queue.settled == [[]]
    assert (len(queue.subpartition), queue.subpartition.has_priority) == (0, False)
    assert queue.pool.used == 0


class Overtaking(RuleBasedStateMachine):
    """Data in any interleaving with barriers: all is read once and in order, whatever overtakes.

    Model: `data` is what was added and not read, `front` the priority part, `barrier` the number of bytes
    of `data` before the aligned barrier that may time out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue()
        self.builder: BufferBuilder | None = None
        self.data = b""
        self.front: list[bytes] = []
        self.barrier: int | None = None
        self.settled: list[bytes] = []
        self.written = 0

    def text(self, size: int) -> bytes:
        self.written += size
        return bytes((self.written + i) % 251 for i in range(size))

    def close(self) -> None:
        if self.builder is not None:
            self.builder.finish()
        self.builder = None

    @rule(size=st.integers(0, 9), finish=st.booleans())
    @precondition(lambda self: self.queue.memory.free > 0)
    def add(self, size: int, finish: bool) -> None:
        self.close()
        text = self.text(size)
        builder = self.queue.add(text, finish=finish)
        self.builder = None if finish else builder
        self.data += text

    @rule(size=st.integers(1, 3))
    @precondition(lambda self: self.builder is not None and self.builder.room >= 3)
    def write(self, size: int) -> None:
        assert self.builder is not None
        text = self.text(size)
        self.builder.append(memoryview(text))
        self.data += text

    @rule()
    def flush(self) -> None:
        self.queue.subpartition.flush()

    @rule()
    @precondition(lambda self: self.barrier is None)  # all unaligned: no barrier stands among the data
    def overtake(self) -> None:
        self.close()
        name = b"b%d" % len(self.front)
        told = len(self.queue.told)
        overtaken = self.queue.subpartition.overtake(event(name))
        assert b"".join(overtaken) == self.data
        assert b"" not in overtaken
        unblocked = not self.queue.subpartition.blocked
        assert ("priority" in self.queue.told[told:]) == (not self.front and unblocked)
        self.front.append(name)

    @rule()
    @precondition(lambda self: self.barrier is None)
    def add_timeoutable(self) -> None:
        self.close()
        self.queue.add_timeoutable()
        self.barrier = len(self.data)

    @rule()
    @precondition(lambda self: self.barrier is not None)
    def time_out(self) -> None:
        assert self.queue.time_out()
        self.settled.append(self.data[: self.barrier])
        self.front.append(b"unaligned")
        self.barrier = None

    @rule()
    def poll(self) -> None:
        subpartition = self.queue.subpartition
        may = subpartition.can_send(1)
        polled = subpartition.poll()
        if polled is None:
            return
        payload = bytes(polled.buffer.payload)
        polled.buffer.release()
        assert may or not polled.buffer.is_event
        if polled.buffer.data_type is PRIORITY:
            assert payload == self.front.pop(0)
        elif polled.buffer.is_event:
            assert (self.front, self.barrier) == ([], 0)
            self.settled.append(b"")
            self.barrier = None
        else:
            assert not self.front
            assert self.data.startswith(payload)
            self.data = self.data[len(payload) :]
            if self.barrier is not None:
                self.barrier -= len(payload)

    @rule()
    @precondition(lambda self: self.queue.subpartition.blocked)
    def resume(self) -> None:
        self.queue.subpartition.resume()

    @invariant()
    def what_was_settled_is_what_the_model_says(self) -> None:
        assert [None if data is None else b"".join(data) for data in self.queue.settled] == self.settled

    @invariant()
    def queued_is_what_the_model_says(self) -> None:
        events = sum(len(name) for name in self.front) + (self.barrier is not None) * len(b"barrier")
        assert self.queue.subpartition.queued_bytes == len(self.data) + events
        has_priority = bool(self.front) and not self.queue.subpartition.blocked
        assert self.queue.subpartition.has_priority == has_priority

    def teardown(self) -> None:
        self.close()
        self.queue.subpartition.release()
        assert self.queue.pool.used == 0


test_any_interleaving = Overtaking.TestCase
