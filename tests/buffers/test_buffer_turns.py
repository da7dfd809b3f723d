"""A turns of records counts for the buffers what writing the records one by one in turns would."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import (
    BlankBytes,
    BufferBuilder,
    BufferTurns,
    EventBuffer,
    MemorySegment,
    NetworkBufferPool,
    room_in_turns,
)
from flowcontrol import DataType

STRIDE, SIZE = 7, 64
RECORD = BlankBytes(0, STRIDE, STRIDE)


class Recycler(NamedTuple):
    pool: NetworkBufferPool

    def recycle(self, segment: MemorySegment, subpartition: int = -1) -> None:
        self.pool.recycle_pooled(segment)


def builders(positions: list[int]) -> list[BufferBuilder]:
    """Open buffers with so many records each."""
    pool = NetworkBufferPool(len(positions), SIZE)
    made = []
    for place, records in enumerate(positions):
        segment = pool.request_pooled()
        assert segment is not None
        builder = BufferBuilder(segment, Recycler(pool), place)
        for _ in range(records):
            builder.append(RECORD)
        made.append(builder)
    return made


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.data())
def test_as_many_fit_as_can_be_written_in_turns(positions: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(positions) - 1))
    room, is_whole = room_in_turns(builders(positions), first, STRIDE)
    one_by_one, written, place = builders(positions), 0, first
    while one_by_one[place].room > STRIDE:  # a buffer is closed with the record that fills it
        one_by_one[place].append(RECORD)
        written, place = written + 1, (place + 1) % len(positions)
    if is_whole:
        assert room == written
    else:
        assert room == written < len(positions)


@given(st.integers(1, 4), st.lists(st.integers(1, 5), max_size=4), st.data())
def test_records_are_where_turns_put_them(count: int, parts: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, count - 1))
    buffers, one_by_one = builders([1] * count), builders([1] * count)
    room, _ = room_in_turns(buffers, first, STRIDE)
    turns = BufferTurns(buffers, first, STRIDE, room)
    taken = 0
    for part in parts:
        fits = taken + part <= room
        assert turns.take(part, (first + taken) % count, STRIDE) == fits
        if fits:
            for number in range(taken, taken + part):
                one_by_one[(first + number) % count].append(RECORD)
            taken += part
        turns.settle(buffers[taken % count])
    assert (turns.written, turns.left) == (taken, room - taken)
    turns.end()
    assert [builder.position for builder in buffers] == [builder.position for builder in one_by_one]
    assert [builder.turns for builder in buffers] == [None] * count


def test_turns_take_neither_other_records_nor_those_out_of_turn() -> None:
    turns = BufferTurns(builders([1, 1, 1]), 1, STRIDE, 6)
    assert not turns.take(1, 0, STRIDE)
    assert not turns.take(1, 1, STRIDE + 1)
    assert turns.take(1, 1, STRIDE)
    assert turns.next_channel == 2


def test_records_of_another_length_and_places_without_a_buffer_have_no_room() -> None:
    assert room_in_turns(builders([1, 1]), 0, STRIDE + 1) == (0, False)
    assert room_in_turns([*builders([1]), None], 0, STRIDE) == (1, False)


def test_an_event_has_a_type_of_events() -> None:
    with pytest.raises(ValueError, match=r"^^DATA_BUFFER is a type of data buffers, not of events$"):
        EventBuffer(b"", DataType.DATA_BUFFER)
