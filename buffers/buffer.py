"""Buffers: segments that a writer fills while a reader already reads from them.

A `BufferBuilder` appends bytes. Each `build` of its `BufferConsumer` returns the bytes appended since the
previous `build` as a `BufferSlice`, which is sent as a network buffer of its own::

    segment   |aaaaaaaa|bbbbb|cc.............|
               slice 1  s. 2  ^ position      ^ capacity

The segment returns to its pool when the builder, the consumer and all slices have released it. Events need no
segment: an `EventConsumer` yields one `EventBuffer`. The rules are those of Flink's BufferBuilder and
BufferConsumer.

A *blank* record has a payload of zeros. A producer that distributes blank records of equal length round robin
writes each record to the next buffer. With a thousand subpartitions, it writes to a thousand buffers before
it returns to the first. While every open buffer has room, `BufferTurns` only counts the records. The contents
of each buffer are computed from the count when a reader needs them::

    first = 2, written = 6:   subpartition   0   1   2   3
                              records        1   1   2   2

The distribution ends before the first record that would not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import numpy as np

from flowcontrol import (
    EVENT_TYPES,
    DataType,
    DescribedBytes,
    Event,
    data_type_of,
    decode_event,
    encode_event,
)

from .payload import BlankBytes, Content, Payload, content_of
from .records import RecordBlock
from .segment import MemorySegment

__all__ = [
    "BufferBuilder",
    "BufferConsumer",
    "BufferSlice",
    "BufferTurns",
    "EventBuffer",
    "EventConsumer",
    "ReceivedBuffer",
    "Recycler",
    "event_buffer",
    "room_in_turns",
]

_DATA: Final = DataType.DATA_BUFFER  # the `data_type` of all buffers that hold data


class Recycler(Protocol):
    """The pool or channel that takes a segment back."""

    __slots__ = ()

    def recycle(self, segment: MemorySegment, subpartition: int = -1) -> None:
        """Take back `segment`, which was requested for `subpartition`."""
        ...

    def return_at(self, time: float, buffer: BufferSlice) -> bool:
        """Take over `buffer`, whose bytes have left at `time` in seconds; returns False if the caller has to
        release it then.
        """
        return False


class BufferBuilder:
    """The writing half of a buffer, which owns the segment.

    A complete record is not copied at once: the builder *notes* its index in a `RecordBlock`. It copies all
    noted records together when a reader needs the bytes. While the buffer holds only blank records, the
    builder stores just their number of bytes. `blank_stride` is then the length of each record in bytes,
    otherwise 0. During a round-robin distribution (`turns`), `position` and the number of distributed records
    in this buffer, `share`, are updated only when a reader needs them. `write_due`, if set, lets the writer
    write what is due before a reader looks. Invariant: ``0 <= position <= capacity <= segment.size``;
    `position` includes noted records and never decreases.
    """

    __slots__ = (
        "_copied",
        "_phase",
        "_references",
        "blank_stride",
        "block",
        "capacity",
        "finished",
        "indices",
        "position",
        "recycler",
        "segment",
        "share",
        "subpartition",
        "turns",
        "write_due",
    )

    def __init__(self, segment: MemorySegment, recycler: Recycler, subpartition: int = -1) -> None:
        self.segment = segment
        self.capacity = segment.size
        self.position = 0
        self.finished = False
        self.block: RecordBlock | None = None
        self.indices: list[int] = []
        self.blank_stride = 0
        self.turns: BufferTurns | None = None
        self.write_due: Callable[[], None] | None = None
        self.share = 0
        self.subpartition = subpartition
        self._phase = 0
        self._copied = 0
        self.recycler = recycler
        self._references = 1

    @property
    def room(self) -> int:
        """Bytes that still fit."""
        return self.capacity - self.position

    def append(self, data: Payload) -> int:
        """Copy as much of `data` as fits; returns the number of bytes copied."""
        if isinstance(data, BlankBytes):
            return self._append_blank(data)
        if self.blank_stride:
            self._write_out()
        if self.indices:
            self.settle()
        start = self.position
        count = min(len(data), self.capacity - start)
        self.position = self._copied = end = start + count
        self.segment.memory[start:end] = data[:count]
        return count

    def _append_blank(self, data: BlankBytes) -> int:
        stride = data.stride
        if self.position == 0:
            self.blank_stride, self._phase = stride, data.phase
        elif self.blank_stride != stride or (self._phase + self.position) % stride != data.phase:
            return self.append(memoryview(bytes(data)))
        count = min(data.size, self.capacity - self.position)
        self.position += count
        return count

    def _write_out(self) -> None:
        """Write the blank records as bytes, because other data follows them."""
        self.segment.memory[: self.position] = bytes(self._blank(0, self.position))
        self.blank_stride = 0
        self._copied = self.position

    def _blank(self, start: int, end: int) -> BlankBytes:
        return BlankBytes((self._phase + start) % self.blank_stride, end - start, self.blank_stride)

    def note(self, block: RecordBlock, index: int, size: int) -> None:
        """Append a complete record of `size` encoded bytes; the caller has checked that it fits."""
        if self.blank_stride:
            self._write_out()
        if block is not self.block:
            self.settle()
            self.block, self.indices = block, []
        self.indices.append(index)
        self.position += size

    def catch_up(self) -> None:
        """Write what is due by now: called before a reader looks at the buffer."""
        if self.write_due is not None and not self.finished:
            self.write_due()
        if self.turns is not None:
            self.turns.settle(self)

    def settle(self) -> None:
        """Copy the noted records into the segment."""
        indices, block = self.indices, self.block
        if not indices or block is None:
            return
        _copy_records(block, indices, self.segment, self._copied)
        self._copied = self.position
        self.indices = []

    def trim(self, size: int) -> None:
        """Lower the capacity to `size` bytes, but not below `position` nor above the segment's size."""
        self.capacity = min(max(size, self.position), self.segment.size)

    def extend(self, size: int) -> None:
        """Raise the capacity to `size` bytes, but not above the segment's size."""
        self.capacity = max(self.capacity, min(size, self.segment.size))

    def finish(self) -> None:
        """Close the buffer for writing; may be called again."""
        if not self.finished:
            self.finished = True
            self.settle()
            self.block = None
            self.release()

    def consumer(self) -> BufferConsumer:
        """Return a new reading half; each reader needs its own."""
        self._references += 1
        return BufferConsumer(self)

    def slice(self, start: int) -> BufferSlice:
        """Return a slice of all bytes from `start` on."""
        if self.indices:
            self.settle()
        self._references += 1
        return BufferSlice(self, start, self.position - start)

    def payload(self, start: int, end: int) -> Payload:
        """Return the bytes from `start` to `end`; call `settle` before. A view is valid until `release`."""
        return self._blank(start, end) if self.blank_stride else self.segment.memory[start:end]

    def release(self) -> None:
        """Drop one reference. The last release recycles the segment."""
        self._references -= 1
        if self._references == 0:
            self.recycler.recycle(self.segment, self.subpartition)


_FEW: Final = 10
"""Maximum number of records for which copying one by one is faster than numpy."""


def _copy_records(block: RecordBlock, indices: list[int], segment: MemorySegment, start: int) -> None:
    """Copy records, in the order of `indices`, into `segment` from byte `start` on."""
    count, stride = len(indices), block.stride
    if not stride:
        _copy_one_by_one(map(block.encoded, indices), segment.memory, start)
    elif count <= _FEW:
        memory = block.memory
        rows = [memory[index * stride : (index + 1) * stride] for index in indices]
        _copy_one_by_one(rows, segment.memory, start)
    else:
        first, step = indices[0], indices[1] - indices[0]
        matrix = block.data.reshape(-1, stride)
        target = segment.array[start : start + count * stride].reshape(count, stride)
        if step > 0 and indices == list(range(first, first + step * count, step)):
            target[:] = matrix[first : indices[-1] + 1 : step]
        else:
            np.take(matrix, indices, axis=0, out=target, mode="clip")


def _copy_one_by_one(records: Iterable[memoryview], memory: memoryview, start: int) -> None:
    for record in records:
        end = start + len(record)
        memory[start:end] = record
        start = end


class BufferSlice:
    """A slice of the bytes of a buffer, passed to the reader."""

    __slots__ = ("_builder", "size", "start")

    data_type = _DATA
    is_event = False

    def __init__(self, builder: BufferBuilder, start: int, size: int) -> None:
        self._builder = builder
        self.start = start
        self.size = size

    @property
    def payload(self) -> Payload:
        """The bytes, valid until released."""
        return self._builder.payload(self.start, self.start + self.size)

    def release_at(self, time: float) -> bool:
        """Let the pool release this buffer when its bytes have left, at `time` in seconds; returns False if
        the caller has to release it then.
        """
        return self._builder.recycler.return_at(time, self)

    def release(self) -> None:
        """Drop the reference to the segment."""
        self._builder.release()


class BufferConsumer:
    """The reading half of a buffer.

    `finished`: whether the builder was finished at the last `build`. As in Flink, a buffer that the builder
    finishes later counts as unfinished until the next `build`, and causes no notification yet.
    """

    __slots__ = ("_builder", "_read", "finished")

    data_type = _DATA
    is_event = False

    def __init__(self, builder: BufferBuilder) -> None:
        self._builder = builder
        self._read = 0
        self.finished = False

    @property
    def unread(self) -> int:
        """Bytes appended since the last `build`."""
        builder = self._builder
        builder.catch_up()
        return builder.position - self._read

    def build(self) -> BufferSlice:
        """Return a slice of all unread bytes, which may be empty."""
        builder = self._builder
        builder.catch_up()
        piece = builder.slice(self._read)
        self._read = builder.position
        self.finished = builder.finished
        return piece

    def copy_unread(self) -> Content:
        """Return a copy of the bytes that the next `build` will return. These bytes stay unread."""
        builder = self._builder
        builder.catch_up()
        builder.settle()
        return content_of(builder.payload(self._read, builder.position))

    def close(self) -> None:
        """End reading and drop the reference to the segment."""
        self._builder.release()


class EventBuffer:
    """An event and its bytes. As in Flink, they are not in pooled memory.

    If the `event` is not given, it is decoded at its first use.
    """

    __slots__ = ("_event", "data_type", "payload", "size")

    is_event = True

    def __init__(self, payload: bytes, data_type: DataType, event: Event | None = None) -> None:
        if data_type not in EVENT_TYPES:
            raise ValueError(f"{data_type.name} is a type of data buffers, not of events")
        self.payload = memoryview(payload)
        self.size = len(payload)
        self.data_type = data_type
        self._event = event

    @property
    def event(self) -> Event:
        """The event.

        Raises:
            MalformedEvent: if the payload is not exactly one event.
        """
        if self._event is None:
            self._event = decode_event(self.payload)
        return self._event

    def with_priority(self) -> EventBuffer:
        """Return the same event as a priority event."""
        return EventBuffer(bytes(self.payload), DataType.PRIORITIZED_EVENT_BUFFER, self._event)

    def release(self) -> None:
        """Do nothing: there is no segment to return."""


def event_buffer(event: Event, *, priority: bool = False) -> EventBuffer:
    """Return a buffer for `event`; `priority`: whether the event overtakes data."""
    return EventBuffer(encode_event(event), data_type_of(event, priority=priority), event)


class EventConsumer:
    """An event in a queue of buffers; always finished."""

    __slots__ = ("_buffer", "data_type", "unread")

    is_event = True
    finished = True

    def __init__(self, buffer: EventBuffer) -> None:
        self._buffer = buffer
        self.data_type = buffer.data_type
        self.unread = buffer.size

    def build(self) -> EventBuffer:
        """Return the complete event."""
        return self._buffer

    def close(self) -> None:
        """Do nothing: there is no segment to return."""


class ReceivedBuffer:
    """A buffer of `size` bytes in a segment of the receiver; its bytes may still be arriving."""

    __slots__ = ("_blank", "_recycler", "segment", "size")

    data_type = _DATA
    is_event = False

    def __init__(self, segment: MemorySegment, recycler: Recycler, size: int) -> None:
        self.segment = segment
        self._recycler = recycler
        self._blank: BlankBytes | None = None
        self.size = size

    def fill(self, payload: bytes | memoryview | DescribedBytes) -> None:
        """Store all `size` bytes. Blank bytes are not written to the segment."""
        if isinstance(payload, BlankBytes):
            self._blank = payload
        else:
            assert isinstance(payload, bytes | memoryview)
            self.segment.memory[: self.size] = payload

    @property
    def payload(self) -> Payload:
        """The bytes, valid until released."""
        return self.segment.memory[: self.size] if self._blank is None else self._blank

    def release(self) -> None:
        """Return the segment to its pool or channel."""
        self._recycler.recycle(self.segment)


class BufferTurns:
    """Round-robin distribution of records of `stride` bytes to `builders`, starting at index `first`.

    `left`: number of records that may still be written. `written`: number of records written; the positions
    of the buffers may not include all of them yet.
    """

    __slots__ = ("_builders", "_first", "_stride", "left", "written")

    def __init__(self, builders: Sequence[BufferBuilder | None], first: int, stride: int, left: int) -> None:
        """Begin a distribution. The builder at index i belongs to subpartition i."""
        self._builders = builders
        self._first = first
        self._stride = stride
        self.written = 0
        self.left = left
        for builder in builders:
            if builder is not None:
                builder.turns, builder.share = self, 0

    @property
    def next_channel(self) -> int:
        """Index of the builder that gets the next record."""
        return (self._first + self.written) % len(self._builders)

    def continues(self, channel: int, stride: int) -> bool:
        """Whether a record of `stride` bytes for `channel` is next."""
        return stride == self._stride and channel == self.next_channel

    def take(self, count: int, channel: int, stride: int) -> bool:
        """Write `count` records of `stride` bytes, the first to `channel`.

        Returns False, and writes no record, if too few records are `left`, or if this distribution has
        another stride or next channel.
        """
        if count > self.left or not self.continues(channel, stride):
            return False
        self.left -= count
        self.written += count
        return True

    def settle(self, builder: BufferBuilder) -> None:
        """Update the position and the share of `builder`."""
        count = len(self._builders)
        place = (builder.subpartition - self._first) % count
        share = (self.written - place + count - 1) // count
        builder.position += (share - builder.share) * self._stride
        builder.share = share

    def end(self) -> None:
        """Update all positions and end the distribution. The buffers can then be written directly again."""
        for builder in self._builders:
            if builder is not None:
                self.settle(builder)
                builder.turns = None


def room_in_turns(builders: Sequence[BufferBuilder | None], first: int, stride: int) -> tuple[int, bool]:
    """Return the number of blank records of `stride` bytes that fit round robin from index `first` on, and
    whether every buffer has room for a record.

    A record that would fill a buffer completely does not count, because it closes the buffer. If a buffer has
    no room, the number covers the records before the turn of the first such buffer.
    """
    count = len(builders)
    least = -1
    for turn in range(count):
        place = first + turn
        builder = builders[place if place < count else place - count]
        if builder is None or builder.blank_stride != stride:
            return turn, False
        room = builder.capacity - builder.position - 1
        if room < stride:
            return turn, False
        fitting = turn + room // stride * count
        if least < 0 or fitting < least:
            least = fitting
    return least, True
