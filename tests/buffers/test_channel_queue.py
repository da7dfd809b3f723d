"""The arrival queue of a channel: its order, its priority part, and what is in flight."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import ChannelQueue, EventBuffer, Queued, RecoveredBuffer, event_buffer, recovered_buffers
from flowcontrol import ChannelBarrier, CheckpointBarrier, DataType

PRIORITY = DataType.PRIORITIZED_EVENT_BUFFER
TIMEOUTABLE = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER


def data(name: str) -> RecoveredBuffer:
    return RecoveredBuffer(memoryview(name.encode()))


def event(name: str, data_type: DataType = DataType.EVENT_BUFFER) -> EventBuffer:
    return EventBuffer(name.encode(), data_type)


class Queue:
    """A queue with the barrier of its channel."""

    def __init__(self) -> None:
        self.queue = ChannelQueue()
        self.barrier: ChannelBarrier[Queued] = ChannelBarrier()
        self._checkpoint_id = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.queue, name)

    def __len__(self) -> int:
        return len(self.queue)

    def note_barrier(self) -> None:
        """The barrier of the next checkpoint was added."""
        self._checkpoint_id += 1
        self.barrier.arrive(self._checkpoint_id, self.queue.last)

    def forget_barrier(self) -> None:
        self.barrier.stop(self._checkpoint_id)


def filled(names: str) -> Queue:
    queue = Queue()
    for name in names:
        queue.add(data(name))
    return queue


def poll(queue: Queue) -> str:
    return bytes(queue.poll()[0].payload).decode()


def poll_all(queue: Queue) -> str:
    order = ""
    while len(queue):
        order += poll(queue)
    return order


def in_flight(queue: Queue) -> str:
    return b"".join(bytes(item.payload) for item in queue.in_flight(queue.barrier)).decode()


def announce(queue: Queue, barrier: str, sequence_number: int, announcement: str = "!") -> bool:
    queued, told = event(barrier, TIMEOUTABLE), event(announcement, PRIORITY)
    queue.add(queued)
    queue.barrier.announce(sequence_number, queued, told)
    queue.note_barrier()
    return queue.add_priority(told)


def test_the_last_item_says_that_no_more_is_queued() -> None:
    queue = filled("ab")
    assert [queue.poll()[1], queue.poll()[1]] == [True, False]
    with pytest.raises(IndexError):
        queue.poll()


def test_priority_events_come_first_in_their_order() -> None:
    queue = filled("ab")
    assert queue.add_priority(event("1", PRIORITY))
    assert not queue.add_priority(event("2", PRIORITY))
    assert (len(queue), queue.queued_bytes, queue.has_priority) == (4, 4, True)
    assert poll_all(queue) == "12ab"
    assert not queue.has_priority


def test_a_polled_priority_event_tells_of_the_data_behind() -> None:
    queue = filled("a")
    queue.add_priority(event("1", PRIORITY))
    assert queue.poll()[1]


def test_without_a_barrier_all_data_is_in_flight_and_no_event() -> None:
    queue = filled("ab")
    queue.add(event("e"))
    queue.add(data("c"))
    queue.add_priority(event("1", PRIORITY))
    assert in_flight(queue) == "abc"


def test_data_in_front_of_the_barrier_is_in_flight_until_it_is_polled() -> None:
    queue = filled("ab")
    queue.add_priority(event("1", PRIORITY))
    queue.note_barrier()
    for name in "cd":
        queue.add(data(name))
    seen = []
    while len(queue):
        seen.append(in_flight(queue) + "|" + poll(queue))
    assert seen == ["ab|1", "ab|a", "b|b", "|c", "|d"]


def test_nothing_is_in_flight_if_the_barrier_came_to_an_empty_queue() -> None:
    queue = Queue()
    queue.add_priority(event("1", PRIORITY))
    queue.note_barrier()
    queue.add(data("a"))
    assert in_flight(queue) == ""
    queue.forget_barrier()
    assert in_flight(queue) == "a"


def test_a_barrier_in_its_turn_leaves_nothing_in_flight_behind_it() -> None:
    queue = filled("a")
    assert announce(queue, "B", 7)
    queue.add(data("b"))
    assert in_flight(queue) == "a"
    assert poll_all(queue) == "!aBb"
    queue.add(data("c"))
    assert in_flight(queue) == ""


@pytest.mark.parametrize("polled", ["", "!", "!a"])
def test_an_announced_barrier_can_be_moved_to_the_front(polled: str) -> None:
    queue = filled("ab")
    announce(queue, "B", 7)
    queue.add(data("c"))
    assert "".join(poll(queue) for _ in polled) == polled
    queued = "ab"[polled.count("a") :]
    assert queue.prioritize(queue.barrier, 7)
    assert in_flight(queue) == queued
    item, more = queue.poll()  # not the announcement any more
    assert (bytes(item.payload), item.data_type, more) == (b"B", PRIORITY, True)
    assert in_flight(queue) == queued
    assert poll_all(queue) == queued + "c"


def test_a_barrier_at_the_head_can_be_moved_to_the_front() -> None:
    queue = filled("a")
    announce(queue, "B", 7)
    assert poll(queue) + poll(queue) == "!a"
    assert queue.prioritize(queue.barrier, 7)
    queue.add(data("b"))
    assert in_flight(queue) == ""
    assert poll_all(queue) == "Bb"


def test_only_the_announced_barrier_moves_and_only_once() -> None:
    queue = filled("a")
    assert not queue.prioritize(queue.barrier, 7)
    announce(queue, "B", 7)
    assert not queue.prioritize(queue.barrier, 6)
    assert queue.prioritize(queue.barrier, 7)
    assert not queue.prioritize(queue.barrier, 7)
    assert poll_all(queue) == "Ba"


def test_a_polled_barrier_is_not_moved() -> None:
    queue = Queue()
    announce(queue, "B", -(2**31))
    assert poll_all(queue) == "!B"
    assert not queue.prioritize(queue.barrier, -(2**31))


def test_recovered_data_is_cut_into_segments() -> None:
    assert [bytes(piece.payload) for piece in recovered_buffers(b"abcdefg", 3)] == [b"abc", b"def", b"g"]
    assert list(recovered_buffers(b"", 3)) == []


class Returned(RecoveredBuffer):
    """Counts how often it was released."""

    releases = 0

    def release(self) -> None:
        self.releases += 1


@pytest.mark.interpreted
def test_clear_releases_every_item() -> None:
    queue = filled("")
    items = [Returned(memoryview(b"a")) for _ in range(3)]
    for item in items:
        queue.add(item)
    queue.poll()
    announce(queue, "B", 7)
    queue.clear()
    assert [item.releases for item in items] == [0, 1, 1]
    assert (len(queue), queue.has_priority, queue.prioritize(queue.barrier, 7)) == (0, False, False)


@given(st.lists(st.sampled_from(["data", "event", "barrier", "announced", "prioritize", "poll"])))
def test_any_interleaving_is_that_of_a_list(steps: list[str]) -> None:
    """Model: a list with the priority part in front, and a sequence number for each item.

    In flight is what has a lower number than the latest barrier, as Flink computes it.
    """
    queue = Queue()
    front: list[tuple[int, str]] = []
    rest: list[tuple[int, str]] = []
    barrier: int | None = None
    announced: int | None = None
    for number, step in enumerate(steps):
        name = f"{step}{number}"
        if step == "data":
            queue.add(data(name))
            rest.append((number, name))
        elif step == "event":
            queue.add(event(name))
            rest.append((number, name))
        elif step == "barrier":
            assert queue.add_priority(event(name, PRIORITY)) == (not front)
            queue.note_barrier()
            front.append((number, name))
            barrier = number
        elif step == "announced":
            assert announce(queue, name, number, "told" + name) == (not front)
            front.append((number, "told" + name))
            rest.append((number, name))
            announced = barrier = number
        elif step == "prioritize" and announced is not None:
            moved = [item for item in rest if item[0] == announced]
            assert queue.prioritize(queue.barrier, announced) == bool(moved)
            if moved:
                rest.remove(moved[0])
                front = [item for item in front if item[0] != announced] + moved
            announced = None
        elif step == "poll" and front + rest:
            expected = (front or rest).pop(0)[1]
            assert (poll(queue), len(queue)) == (expected, len(front) + len(rest))
        queued = [item for item in rest if item[1].startswith("data")]
        expected_data = [name for place, name in queued if barrier is None or place < barrier]
        assert [bytes(item.payload).decode() for item in queue.in_flight(queue.barrier)] == expected_data
        assert queue.has_priority == bool(front)
    assert poll_all(queue) == "".join(name for _, name in front + rest)


def test_an_event_made_here_stays_an_object_and_one_from_the_wire_is_decoded_once() -> None:
    barrier = CheckpointBarrier(1, 0.0)
    made = event_buffer(barrier)
    assert made.event is made.with_priority().event is barrier
    arrived = EventBuffer(bytes(made.payload), made.data_type)
    assert arrived.event is arrived.event == barrier
