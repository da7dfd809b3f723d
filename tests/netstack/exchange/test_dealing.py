"""Records dealt out in turns, and flushes that pass over what has no news: nobody sees a difference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffers import (
    BlankBytes,
    BufferBuilder,
    BufferSlice,
    BufferTurns,
    NetworkBufferPool,
    PipelinedSubpartition,
    RecordBlock,
    encode_watermark,
    room_in_turns,
)
from flowcontrol import Alignment, CheckpointBarrier, CheckpointOptions, EndOfData
from netstack.exchange.partition import ResultPartition

STRIDE = 7
SEGMENT_SIZE = 64
CHANNELS = 3

NEWS = tuple(("data", channel) for channel in range(CHANNELS))

Step = tuple[str, int]


class Exchange:
    """A partition, what its readers were told and took, and how it was written."""

    def __init__(self, *, in_turns: bool) -> None:
        self.in_turns = in_turns
        memory = NetworkBufferPool(14, SEGMENT_SIZE)
        self.memory = memory
        self.pool = memory.create_pool(10, 10, 10, subpartitions=CHANNELS, max_overdraft=2)
        self.queues = [PipelinedSubpartition(index) for index in range(CHANNELS)]
        self.partition = ResultPartition(self.pool, self.queues, blank=True, in_turns=in_turns)
        self.story: list[object] = []
        self._next = 1
        for queue in self.queues:
            queue.on_data = partial(self.story.append, ("data", queue.index))

    def step(self, what: str, number: int) -> None:
        """Do one thing, and note all that can be seen."""
        getattr(self, what)(number)
        unread = [queue.queued_bytes for queue in self.queues] if number % 2 else None
        told = self.partition.records_out, self.partition.bytes_out, self.partition.available
        self.story.append((what, number, unread, told))

    def write(self, number: int, stride: int = STRIDE) -> None:
        """Write some records in turns, as a source does that waits for its outputs."""
        if self.partition.blocked or not self.partition.available:
            self.story.append(self.partition.go_on())
            return
        channels = [(self._next + place) % CHANNELS for place in range(number)]
        end = self.partition.write(RecordBlock.blank(number, stride), channels, 0, number)
        self._next = (self._next + end) % CHANNELS
        self.story.append(end)

    def longer(self, number: int) -> None:
        """Write records of another length."""
        self.write(number, STRIDE + 4)

    def ahead(self, number: int) -> None:
        """Write the records for which there is room, without a notice and without new memory; then the
        others.
        """
        if self.partition.available and not self.partition.blocked:
            channels = [(self._next + place) % CHANNELS for place in range(number + 1)]
            block, used, before = RecordBlock.blank(len(channels), STRIDE), self.pool.used, len(self.story)
            room = self.partition.room(block, channels, 0, len(channels))
            assert self.partition.write(block, channels, 0, room) == room
            assert (self.pool.used, len(self.story)) == (used, before)
            end = self.partition.write(block, channels, room, len(channels))
            self._next = (self._next + end) % CHANNELS
            self.story.append(end)

    def poll(self, number: int) -> None:
        """Take an item of a subpartition, and give its memory back."""
        polled = self.queues[number % CHANNELS].poll()
        if polled is None:
            self.story.append(None)
            return
        payload = polled.buffer.payload
        seen = repr(payload) if isinstance(payload, BlankBytes) else bytes(payload)
        self.story.append((seen, polled.backlog, polled.more_available, polled.next_is_event))
        polled.buffer.release()

    def resume(self, number: int) -> None:
        """Let a reader go on behind a barrier."""
        queue = self.queues[number % CHANNELS]
        if queue.blocked:
            queue.resume()

    def resize(self, number: int) -> None:
        """Announce another size of buffers to a subpartition."""
        self.queues[number % CHANNELS].set_buffer_size(10 + number)

    def flush(self, _: int) -> None:
        """Flush: the one that deals by itself, the other subpartition by subpartition."""
        if self.in_turns:
            self.partition.flush()
        else:
            for queue in self.queues:
                queue.flush()

    def event(self, _: int) -> None:
        """Send an event to all."""
        if not self.partition.blocked:
            self.partition.broadcast_event(EndOfData())

    def watermark(self, number: int) -> None:
        """Send a watermark to one of them."""
        if not self.partition.blocked and self.partition.available:
            self.partition.write_element(number % CHANNELS, memoryview(encode_watermark(number)))

    def overtake(self, number: int) -> None:
        """Send an unaligned barrier, or an aligned one."""
        if not self.partition.blocked:
            options = CheckpointOptions(Alignment.UNALIGNED if number % 2 else Alignment.ALIGNED)
            self.partition.broadcast_barrier(
                CheckpointBarrier(number, 0.0, options),
                lambda place, data: self.story.append((place, [repr(each) for each in data or ()])),
            )


OFTEN = ("write", "write", "write", "ahead", "poll", "poll", "flush", "flush")
SELDOM = ("resume", "longer", "resize", "event", "overtake", "watermark")
STEPS = st.lists(st.tuples(st.sampled_from(OFTEN + SELDOM), st.integers(1, 9)), max_size=80)


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_dealing_and_flushing_only_news_is_seen_by_nobody(steps: Sequence[Step]) -> None:
    dealing, plain = Exchange(in_turns=True), Exchange(in_turns=False)
    for what, number in steps:
        dealing.step(what, number)
        plain.step(what, number)
        assert dealing.story == plain.story
    for exchange in (dealing, plain):
        exchange.partition.release()
        assert exchange.memory.used == 0


def test_a_flush_finds_what_was_dealt_out_since_the_one_before() -> None:
    exchange = Exchange(in_turns=True)
    exchange.write(CHANNELS)
    exchange.write(CHANNELS)
    exchange.flush(0)
    assert [item for item in exchange.story if item in NEWS] == list(NEWS)
    for channel in range(CHANNELS):
        exchange.poll(channel)
    exchange.story.clear()
    exchange.write(2)
    exchange.flush(0)
    assert exchange.story == [2, ("data", 1), ("data", 2)]
    exchange.partition.release()


def test_a_flush_finds_the_rest_of_a_record_that_had_to_wait_for_memory() -> None:
    exchange = Exchange(in_turns=True)
    while not exchange.partition.blocked:
        exchange.partition.write(RecordBlock.blank(1, 100), [0], 0, 1)
    exchange.flush(0)
    while exchange.story[-1] is not None:
        exchange.poll(0)
    exchange.story.clear()
    assert exchange.partition.go_on()
    assert exchange.story == []
    exchange.flush(0)
    assert exchange.story == [("data", 0)]
    exchange.partition.release()


def builders(*positions: int) -> list[BufferBuilder | None]:
    """Open buffers of 64 bytes with as many blank bytes in each; None where there are none."""
    memory = NetworkBufferPool(len(positions), SEGMENT_SIZE)
    pool = memory.create_pool(len(positions), len(positions), len(positions))
    made: list[BufferBuilder | None] = []
    for place, position in enumerate(positions):
        segment = pool.request()
        assert segment is not None
        builder = BufferBuilder(segment, pool, place)
        builder.append(BlankBytes(0, position, STRIDE))
        made.append(builder if position else None)
    return made


@pytest.mark.parametrize(
    ("positions", "first", "room"),
    [
        ((7, 7, 7), 0, (24, True)),  # 8 each, as the ninth would fill a buffer
        ((7, 14, 7), 0, (22, True)),
        ((7, 14, 7), 2, (23, True)),
        ((7, 57, 7), 0, (1, False)),
        ((7, 56, 7), 0, (4, True)),
        ((7, 7, 0), 0, (2, False)),
        ((0, 7, 7), 0, (0, False)),
    ],
)
def test_room_in_turns_is_what_fits_before_the_first_record_that_does_not(
    positions: tuple[int, ...], first: int, room: tuple[int, bool]
) -> None:
    assert room_in_turns(builders(*positions), first, STRIDE) == room


def test_another_length_is_not_dealt_out() -> None:
    assert room_in_turns(builders(7, 7), 0, STRIDE + 1) == (0, False)


def test_a_deal_is_settled_where_somebody_looks_and_whole_at_its_end() -> None:
    made = builders(7, 7, 7)
    first, second, third = (each for each in made if each is not None)
    readers = [each.consumer() for each in (first, second, third)]
    turns = BufferTurns(made, 1, STRIDE, 10)
    assert [turns.take(4, 1, STRIDE), turns.take(1, 1, STRIDE), turns.take(7, 2, STRIDE)] == [
        True,
        False,
        False,
    ]
    assert (turns.next_channel, turns.left, turns.written) == (2, 6, 4)
    assert (readers[1].unread, second.position, first.position) == (21, 21, 7)
    piece = readers[2].build()
    assert isinstance(piece, BufferSlice)
    assert (piece.size, readers[2].unread) == (14, 0)
    assert turns.take(2, 2, STRIDE)
    turns.end()
    assert [each.position for each in (first, second, third)] == [21, 21, 21]
    assert [reader.unread for reader in readers] == [21, 21, 7]
    assert turns.take(1, 1, STRIDE)
    assert [reader.unread for reader in readers] == [21, 21, 7], (
        "the end of the turns adds nothing to what readers see"
    )
