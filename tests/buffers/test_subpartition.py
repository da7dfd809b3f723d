"""The queue of a subpartition, held against what Flink's own unit tests assert."""

from __future__ import annotations

from typing import Any

import pytest

from buffers import (
    BufferBuilder,
    BufferConsumer,
    EventBuffer,
    EventConsumer,
    MemorySegment,
    NetworkBufferPool,
    PipelinedSubpartition,
)
from flowcontrol import DataType, Polled
from tests.vectors import flink_vectors

VECTORS = flink_vectors("subpartition_with_read_view")


class Recycled:
    """Takes segments back and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def recycle(self, segment: MemorySegment, subpartition: int = -1) -> None:
        self.count += 1


class Player:
    """Plays the steps of one scenario on a subpartition and checks what they expect."""

    def __init__(self) -> None:
        self.pool = NetworkBufferPool(16, 65536)
        self.recycled = Recycled()
        self.added = 0
        self.notifications = 0
        self.priority_notifications = 0
        self.in_flight: list[int] = []
        self.subpartition = PipelinedSubpartition(0, receiver_exclusive=2)
        self.subpartition.on_data = self._notified
        self.subpartition.on_priority = self._priority_notified
        self.last_builder: BufferBuilder | None = None

    def _notified(self) -> None:
        self.notifications += 1

    def _priority_notified(self) -> None:
        self.priority_notifications += 1

    def play(self, step: dict[str, Any]) -> None:
        before = self.notifications
        expected = dict(step.get("expect", {}))
        polled: Polled | None = None
        if expected.get("error") == "illegal_state":
            with pytest.raises(RuntimeError, match="unfinished buffer"):
                self.subpartition.poll()
            return
        match step["op"]:
            case "add":
                self.add(step)
            case "finish_last":
                assert self.last_builder is not None
                self.last_builder.finish()
            case "finish_partition":  # Flink's finish adds the end of the partition itself
                self.add({"type": "event", "size": 4})
                self.subpartition.finish()
            case "flush":
                self.subpartition.flush()
            case "poll":
                polled = self.subpartition.poll()
            case "resume":
                self.subpartition.resume()
            case "drain_while_available":
                self.drain()
                return
            case "check":
                pass
            case other:
                raise AssertionError(f"unknown step {other}")
        self.check(expected, polled, before)

    def add(self, step: dict[str, Any]) -> None:
        if step["type"] == "unaligned_barrier":
            barrier = EventConsumer(EventBuffer(bytes(step["size"]), DataType.PRIORITIZED_EVENT_BUFFER))
            self.in_flight = [len(data) for data in self.subpartition.overtake(barrier)]
            return
        if step["type"] != "data":
            kind = {
                "event": DataType.EVENT_BUFFER,
                "aligned_barrier": DataType.ALIGNED_CHECKPOINT_BARRIER,
            }[step["type"]]
            self.subpartition.add(EventConsumer(EventBuffer(bytes(step["size"]), kind)))
            return
        segment = self.pool.request_pooled()
        assert segment is not None
        builder = BufferBuilder(segment, self.recycled)
        self.added += 1
        builder.append(memoryview(bytes(step["size"])))
        self.subpartition.add(builder.consumer())
        if step["finished"]:
            builder.finish()
        self.last_builder = builder

    def drain(self) -> None:
        backlog, drained = self.subpartition.backlog, 0
        while self.subpartition.can_send(1):
            polled = self.subpartition.poll()
            assert polled is not None
            drained += not polled.buffer.is_event
        assert drained == backlog > 0

    def check(self, expected: dict[str, Any], polled: Polled | None, before: int) -> None:
        subpartition = self.subpartition
        if "result" in expected:
            assert polled is None
        actual = {
            "notifications": self.notifications,
            "new_notifications": self.notifications - before,
            "priority_notifications": self.priority_notifications,
            "in_flight": self.in_flight,
            "backlog": subpartition.backlog,
            "total_buffers": subpartition.total_buffers,
            "total_bytes": subpartition.total_bytes,
            "available_with_credit": subpartition.can_send(1),
            "available_without_credit": subpartition.can_send(0),
            "data_available": subpartition.can_send(1),
            "event_available": subpartition.can_send(0),
        }
        if polled is not None:
            actual |= {"size": polled.buffer.size, "is_buffer": not polled.buffer.is_event}
            assert polled.more_available == actual["data_available"]
            assert polled.backlog == actual["backlog"]
        if "notifications_greater_than" in expected:
            assert self.notifications > expected.pop("notifications_greater_than")
        expected.pop("result", None)
        assert {key: actual[key] for key in expected} == expected


@pytest.mark.parametrize("scenario", VECTORS.values(), ids=VECTORS)
def test_vector(scenario: dict[str, Any]) -> None:
    player = Player()
    for step in scenario["steps"]:
        player.play(step)


def test_segment_returns_when_builder_consumer_and_slices_have_let_go() -> None:
    player = Player()
    player.add({"type": "data", "size": 10, "finished": False})
    player.subpartition.flush()
    first = player.subpartition.poll()
    assert first is not None
    assert player.last_builder is not None
    player.last_builder.append(memoryview(b"more"))
    player.last_builder.finish()
    player.subpartition.flush()
    second = player.subpartition.poll()
    assert second is not None
    assert bytes(second.buffer.payload) == b"more"
    first.buffer.release()
    assert player.recycled.count == 0
    second.buffer.release()
    assert player.recycled.count == 1


def test_release_drops_everything_and_refuses_more() -> None:
    player = Player()
    player.add({"type": "data", "size": 10, "finished": True})
    player.subpartition.release()
    assert player.recycled.count == 1
    player.add({"type": "data", "size": 10, "finished": True})
    assert player.recycled.count == 2
    assert len(player.subpartition) == 0


def test_only_a_blocked_subpartition_resumes() -> None:
    with pytest.raises(RuntimeError, match="not blocked"):
        PipelinedSubpartition(3).resume()


def test_with_no_exclusive_buffers_an_empty_finished_buffer_is_handed_out() -> None:
    player = Player()
    player.subpartition.receiver_exclusive = 0
    player.add({"type": "data", "size": 0, "finished": True})
    player.add({"type": "data", "size": 5, "finished": True})
    sizes = []
    while (polled := player.subpartition.poll()) is not None:
        sizes.append(polled.buffer.size)
    assert sizes == [0, 5]


def test_sequence_number_wraps_as_a_java_int() -> None:
    player = Player()
    player.subpartition._sequence = 2**31 - 1
    numbers = []
    for _ in range(2):
        player.add({"type": "event", "size": 4})
        polled = player.subpartition.poll()
        assert polled is not None
        numbers.append(polled.sequence_number)
    assert numbers == [2**31 - 1, -(2**31)]


def test_finished_is_what_the_reader_has_seen() -> None:
    segment = NetworkBufferPool(1, 64).request_pooled()
    assert segment is not None
    builder = BufferBuilder(segment, Recycled())
    consumer: BufferConsumer = builder.consumer()
    builder.append(memoryview(b"abc"))
    builder.finish()
    assert not consumer.finished
    consumer.build()
    assert consumer.finished
