"""A result partition: receives the records of one subtask for one exchange.

Each subpartition has at most one open buffer, or all share one open buffer (broadcast). A record that does
not fit continues in the next buffer. A buffer is trimmed to the announced size, but always has room for its
first record::

    block of records --+--> open buffer of subpartition 0 --> queue 0
    channel of each    +--> open buffer of subpartition 1 --> queue 1
                       ...        ^ new segments from the partition's LocalBufferPool

Writing is synchronous. It stops after the record that took the pool's last segment, or within a record if no
overdraft segment was left. The rules are those of Flink's BufferWritingResultPartition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from buffers import (
    BufferBuilder,
    BufferTurns,
    Content,
    EventConsumer,
    LocalBufferPool,
    MemorySegment,
    Payload,
    PipelinedSubpartition,
    RecordBlock,
    event_buffer,
    room_in_turns,
)
from flowcontrol import CheckpointBarrier, Event

__all__ = ["ResultPartition"]

ALL: Final = -1
"""Value in place of a channel, for a record that goes to every subpartition."""

LEAST_LOADED: Final = -2
"""Value in place of a channel, for a record whose subpartition is chosen by load when the record is written.
"""

LEFT_OUT: Final = -3
"""Value in place of a channel, for a record that is not sent over this exchange; the subtask skips it."""


class OpenBuffers:
    """The open buffers of a partition, at most one for each channel; `unicast` holds them by subpartition.

    Invariants: an open buffer has room. While a buffer for `ALL` is open, no other buffer is open. Code that
    writes directly to buffers of `unicast` must call `end_turns` first, because a round-robin distribution
    (`write_in_turns`) updates the buffers only at its end.
    """

    def __init__(self, pool: LocalBufferPool, subpartitions: Sequence[PipelinedSubpartition]) -> None:
        self.unicast: list[BufferBuilder | None] = [None] * len(subpartitions)
        self._pool = pool
        self._subpartitions = subpartitions
        self._broadcast: BufferBuilder | None = None
        self._turns: BufferTurns | None = None
        self.write_due: Callable[[], None] | None = None
        self._no_turns_for = 0  # number of next records for which a round-robin distribution has no room

    def write_in_turns(self, stride: int, channel: int, count: int) -> bool:
        """Distribute `count` blank records of `stride` bytes round robin, if there is room for all.

        The first record goes to `channel`. Returns whether the records were written.
        """
        turns = self._turns
        if turns is not None:
            if turns.take(count, channel, stride):
                return True
            self.end_turns()
        if self._no_turns_for > 0 or not stride:
            self._no_turns_for -= count
            return False
        room, whole_turns = room_in_turns(self.unicast, channel, stride)
        if not whole_turns or room < count:
            self._no_turns_for = room - count
            return False
        self._turns = turns = BufferTurns(self.unicast, channel, stride, room)
        return turns.take(count, channel, stride)

    def room_in_turns(self, stride: int, channel: int) -> int:
        """Return how many blank records of `stride` bytes fit round robin, the first of them into the buffer
        for `channel`.
        """
        turns = self._turns
        if turns is not None and turns.continues(channel, stride):
            return turns.left
        self.end_turns()
        return room_in_turns(self.unicast, channel, stride)[0]

    def room_for_all(self, block: RecordBlock, start: int, stop: int) -> int:
        """Return how many of the records ``start..stop-1`` fit into the open broadcast buffer without filling
        it.
        """
        if self._broadcast is None:
            return 0
        room = self._broadcast.capacity - self._broadcast.position
        for index in range(start, stop):
            room -= block.size(index)
            if room <= 0:
                return index - start
        return stop - start

    def end_turns(self) -> None:
        """End a round-robin distribution: update the positions of all buffers, so that code can use them
        directly.
        """
        if self._turns is not None:
            self._turns.end()
            self._turns = None

    def get(self, channel: int) -> BufferBuilder | None:
        """Return the open buffer for `channel`, or None. First end a round-robin distribution, and finish
        open buffers of the other kind (unicast or broadcast).
        """
        self.end_turns()
        if channel == ALL:
            if self._broadcast is None:
                self._finish_unicast()
            return self._broadcast
        if self._broadcast is not None:
            self.close(ALL, self._broadcast)
        return self.unicast[channel]

    def new(self, channel: int, segment: MemorySegment) -> BufferBuilder:
        """Open a buffer in `segment`; `publish` adds it to the queue."""
        builder = BufferBuilder(segment, self._pool, channel)
        builder.write_due = self.write_due
        if channel == ALL:
            self._broadcast = builder
        else:
            self.unicast[channel] = builder
        return builder

    def publish(self, channel: int, builder: BufferBuilder, minimum: int) -> None:
        """Queue the reading half of `builder`, and trim the buffer to the size announced for new buffers.

        The buffer keeps room for at least `minimum` bytes.
        """
        if channel == ALL:
            wanted = min([s.add(builder.consumer()) for s in self._subpartitions])
        else:
            wanted = self._subpartitions[channel].add(builder.consumer())
        if wanted > 0:
            builder.trim(max(wanted, minimum))

    def close(self, channel: int, builder: BufferBuilder) -> None:
        """Finish `builder`; nothing more is written to it."""
        builder.finish()
        if channel == ALL:
            self._broadcast = None
        else:
            self.unicast[channel] = None

    def finish(self) -> None:
        """Finish all open buffers."""
        self.end_turns()
        if self._broadcast is not None:
            self.close(ALL, self._broadcast)
        self._finish_unicast()

    def _finish_unicast(self) -> None:
        for channel, builder in enumerate(self.unicast):
            if builder is not None:
                self.close(channel, builder)


class QueueFigures(NamedTuple):
    """Totals over subpartitions: `buffers_out` counts the buffers and events queued so far, `length` those
    queued now; `size` is the number of bytes queued now.
    """

    buffers_out: int
    length: int
    size: int


class _Rest(NamedTuple):
    """The part of a record that could not be written because no segment was free."""

    channel: int
    parts: list[Payload]
    started: bool


class ResultPartition:
    """Subpartitions, their open buffers and the pool behind them.

    `flush_always` makes records available to readers as soon as they are written (a buffer timeout of 0).
    `grows`: whether the last buffer of an exhausted pool may exceed its announced size. `supports_unaligned`:
    whether barriers may overtake the data of this exchange. `blank`: whether no task reads the content of the
    records, so that records of equal length are sent as `BlankBytes`. `max_traverse`: number of subpartitions
    compared for a `LEAST_LOADED` record; `compared` counts these comparisons since a caller last set it to 0.
    `records_out` and `bytes_out` count records with their 4-byte lengths.
    """

    def __init__(
        self,
        pool: LocalBufferPool,
        subpartitions: Sequence[PipelinedSubpartition],
        *,
        flush_always: bool = False,
        supports_unaligned: bool = True,
        grows: bool = False,
        blank: bool = False,
        in_turns: bool = False,
        max_traverse: int = 1,
    ) -> None:
        self.pool = pool
        self.supports_unaligned = supports_unaligned
        self._flush_always = flush_always
        self._grows = grows
        self._blank = blank
        self._writes_in_turns = blank and in_turns
        self.subpartitions = list(subpartitions)
        self.compared = 0
        self._max_traverse = min(max_traverse, len(self.subpartitions))
        self._last_chosen = -1
        self.records_out = 0
        self.bytes_out = 0
        self._open = OpenBuffers(pool, self.subpartitions)
        self._unwritten: _Rest | None = None
        self._unflushed: list[int] = []  # subpartitions written to since the last flush
        self._all_unflushed = True  # whether all may have been written to

    @property
    def write_due(self) -> Callable[[], None] | None:
        """Called before a reader looks at an open buffer: lets the task write the records that are due, if it
        writes ahead of time only up to `room`.
        """
        return self._open.write_due

    @write_due.setter
    def write_due(self, write_due: Callable[[], None]) -> None:
        self._open.write_due = write_due

    def room(self, block: RecordBlock, channels: list[int], start: int, stop: int) -> int:
        """Return how many of the records ``start..stop-1`` can be written so that no buffer is filled or
        begun. `channels` is empty for records that go to every subpartition.
        """
        if self._flush_always or not self.pool.available:
            return 0
        opened, stride = self._open, block.stride
        if not channels:
            return opened.room_for_all(block, start, stop)
        if self._writes_in_turns and stride and channels[start] >= 0:
            return min(opened.room_in_turns(stride, channels[start]), stop - start)
        opened.end_turns()
        rooms: dict[int, int] = {}
        for index in range(start, stop):
            channel = channels[index]
            if channel == LEFT_OUT:
                continue
            room = rooms.get(channel, -1)
            if room < 0:
                builder = None if channel == LEAST_LOADED else opened.unicast[channel]
                room = 0 if builder is None else builder.capacity - builder.position
            room -= stride or block.size(index)
            if room <= 0:
                return index - start
            rooms[channel] = room
        return stop - start

    @property
    def available(self) -> bool:
        """Whether writing the next record may begin."""
        return self.pool.available

    @property
    def blocked(self) -> bool:
        """Whether a record is partly written, because no segment was free."""
        return self._unwritten is not None

    def write(self, block: RecordBlock, channels: list[int], start: int, stop: int) -> int:
        """Write the records ``start..stop-1`` of `block`, each to its channel.

        `channels` holds a subpartition for each record of the block. Either all of them or none are
        `LEAST_LOADED`; if all are, each is overwritten with the chosen subpartition. Returns the index of the
        first record that was not begun, which is less than `stop` if the pool became unavailable. If the
        partition is then `blocked`, call `go_on` until the last begun record is complete.
        """
        if start < stop and channels[start] == LEAST_LOADED:
            self._open.end_turns()
            index = self._write_to_least_loaded(block, channels, start, stop)
        elif (
            self._writes_in_turns
            and start < stop
            and self._open.write_in_turns(block.stride, channels[start], stop - start)
        ):
            index = stop
        else:
            self._open.end_turns()
            index = self._write_each(block, channels, start, stop)
        count = index - start
        self.records_out += count
        self.bytes_out += block.span(start, index)
        self._mark_unflushed(channels[start:index])
        if self._flush_always:
            self.flush()
        return index

    def _mark_unflushed(self, channels: list[int]) -> None:
        """Record that these subpartitions have been written to."""
        if not self._all_unflushed:
            if len(self._unflushed) + len(channels) < len(self.subpartitions):
                self._unflushed += channels
            else:
                self._all_unflushed = True

    def _write_each(self, block: RecordBlock, channels: list[int], start: int, stop: int) -> int:
        builders = self._open.unicast
        pool = self.pool
        stride = block.stride
        blank_stride = stride if self._blank else 0
        index = start
        while index < stop:
            channel = channels[index]
            size = stride or block.size(index)
            builder = builders[channel]
            if builder is not None and builder.position + size < builder.capacity:
                if blank_stride and builder.blank_stride == blank_stride:
                    builder.position += size
                elif builder.block is block:  # `note` inlined: this is the hottest line of a job
                    builder.indices.append(index)
                    builder.position += size
                else:
                    builder.note(block, index, size)
                index += 1
                continue
            written = self._begin_record(channel, self._encoded(block, index), size)
            index += 1
            if not written or not pool.available:
                break
        return index

    def _write_to_least_loaded(self, block: RecordBlock, channels: list[int], start: int, stop: int) -> int:
        index = start
        while index < stop:
            channels[index] = self._least_loaded()
            index = self._write_each(block, channels, index, index + 1)
            if self._unwritten is not None or not self.pool.available:
                break
        return index

    def _least_loaded(self) -> int:
        """Return the subpartition with the fewest buffers among the next few.

        The search ends at an empty subpartition. Buffers count until they are recycled, even at the receiver.
        Of subpartitions with equally many buffers, the one with fewer queued bytes is chosen. The rule is
        that of Flink's AdaptiveLoadBasedRecordWriter (FLIP-339).
        """
        counts, subpartitions = self.pool.subpartition_buffers, self.subpartitions
        channel = chosen = (self._last_chosen + 1) % len(subpartitions)
        least = counts[channel]
        self.compared += 1
        for _ in range(self._max_traverse - 1):
            if not least:
                break
            channel = (channel + 1) % len(subpartitions)
            count = counts[channel]
            self.compared += 1
            if count < least or (
                count == least and subpartitions[channel].queued_bytes < subpartitions[chosen].queued_bytes
            ):
                chosen, least = channel, count
        self._last_chosen = chosen
        return chosen

    def broadcast(self, block: RecordBlock, start: int, stop: int) -> int:
        """Write records to every subpartition; see `write` for the result and for blocking."""
        self._all_unflushed = True
        index = start
        while index < stop:
            record = self._encoded(block, index)
            self.records_out += 1
            self.bytes_out += len(record)
            index += 1
            if not self._begin_record(ALL, record, len(record)) or not self.pool.available:
                break
        if self._flush_always:
            self.flush()
        return index

    def _encoded(self, block: RecordBlock, index: int) -> Payload:
        return block.unread(index) if self._blank else block.encoded(index)

    def write_record(self, channel: int, *parts: memoryview) -> bool:
        """Write one encoded record to a subpartition, or to `ALL`; returns whether the next record may begin.

        The record is the concatenation of `parts`. If the partition is then `blocked`, call `go_on` until the
        record is complete.
        """
        self._all_unflushed = True
        self.records_out += 1
        self.bytes_out += sum(map(len, parts))
        written = self._write_parts(channel, parts, started=False)
        if self._flush_always:
            self.flush()
        return written and self.pool.available

    def write_element(self, channel: int, element: memoryview) -> None:
        """Write a watermark, which does not count as a record, to a subpartition or to `ALL`.

        If the partition is then `blocked`, call `go_on` until the watermark is complete.
        """
        self._all_unflushed = True
        self.bytes_out += len(element)
        self._begin_record(channel, element, len(element))

    def go_on(self) -> bool:
        """Try to write the rest of a partly written record; returns whether it is complete."""
        if self._unwritten is None:
            return True
        rest, self._unwritten = self._unwritten, None
        if rest.channel == ALL:
            self._all_unflushed = True
        else:
            self._mark_unflushed([rest.channel])
        complete = self._write_parts(rest.channel, rest.parts, rest.started)
        if complete and self._flush_always:
            self.flush()
        return complete

    def _write_parts(self, channel: int, parts: Sequence[Payload], started: bool) -> bool:
        """Write a record, or the rest of one that was `started`; returns False if segments ran out."""
        for place, part in enumerate(parts):
            if started:
                written = self._append(channel, self._open.get(channel), part)
            else:
                written = self._begin_record(channel, part, sum(map(len, parts)))
                started = True
            if not written:
                assert self._unwritten is not None
                self._unwritten.parts.extend(parts[place + 1 :])
                return False
        return True

    def _begin_record(self, channel: int, record: Payload, size: int) -> bool:
        """Write a record of `size` bytes, or its first part; returns False if segments ran out."""
        builder = self._open.get(channel)
        if builder is None:
            segment = self.pool.request(channel)
            if segment is None:
                self._unwritten = _Rest(channel, [record], started=False)
                return False
            builder = self._open.new(channel, segment)
            self._open.publish(channel, builder, size)
        self._grow(builder, len(record))
        return self._append(channel, builder, record)

    def _grow(self, builder: BufferBuilder, size: int) -> None:
        """If the pool is exhausted, enlarge a buffer so that `size` bytes and one more byte fit
        (FLINK-33077). So the buffer stays open for the next record of the same call, whatever size was
        announced.
        """
        writable = builder.capacity - builder.position
        if self._grows and size >= writable and not self.pool.available:
            builder.extend(builder.capacity + size - writable + 1)

    def _append(self, channel: int, builder: BufferBuilder | None, part: Payload) -> bool:
        """Append a part of a record to the open buffer, if any, and the rest of it to new buffers.

        Returns False if segments ran out.
        """
        copied = 0 if builder is None else builder.append(part)  # mypyc 2 miscompiles a call within a slice
        rest = part[copied:]
        while len(rest):
            if builder is not None:
                self._open.close(channel, builder)
            segment = self.pool.request(channel)
            if segment is None:
                self._unwritten = _Rest(channel, [rest], started=True)
                return False
            builder = self._open.new(channel, segment)
            copied = builder.append(rest)
            self._open.publish(channel, builder, copied)
            rest = rest[copied:]
        if builder is not None and builder.position >= builder.capacity:
            self._open.close(channel, builder)
        return True

    def broadcast_event(self, event: Event) -> None:
        """Finish the open buffers, and queue `event` after them in every subpartition."""
        self._finish_open()
        consumer = EventConsumer(event_buffer(event))  # one for all, as it never changes
        for subpartition in self.subpartitions:
            subpartition.add(consumer)

    def broadcast_barrier(
        self, barrier: CheckpointBarrier, on_resolved: Callable[[int, list[Content] | None], None]
    ) -> bool:
        """Send a checkpoint barrier downstream, as its options and this exchange allow.

        An unaligned barrier overtakes all data; a barrier with a timeout does so when `alignment_timeout` is
        called. `on_resolved` is called once for each subpartition, with the data overtaken there, which may
        be empty. It is called with None if the data will never be known, for example because a newer barrier
        with a timeout is queued before `alignment_timeout`. Returns whether data was overtaken or may be
        overtaken later.
        """
        if not self.supports_unaligned:
            barrier = replace(barrier, options=barrier.options.with_unaligned_unsupported())
        if not (barrier.options.is_unaligned or barrier.options.timeoutable):
            self.broadcast_event(barrier)
            return False
        self._finish_open()
        unaligned = barrier.options.is_unaligned
        consumer = EventConsumer(event_buffer(barrier, priority=unaligned))
        for number, subpartition in enumerate(self.subpartitions):
            if unaligned:
                on_resolved(number, subpartition.overtake(consumer))
            else:
                resolved = partial(on_resolved, number)
                subpartition.add_timeoutable(consumer, barrier.checkpoint_id, resolved)
        return True

    def alignment_timeout(self, barrier: CheckpointBarrier) -> None:
        """Let `barrier`, which is now unaligned, overtake the data of each subpartition where it is still
        queued.
        """
        self._all_unflushed = True
        consumer = EventConsumer(event_buffer(barrier, priority=True))
        for subpartition in self.subpartitions:
            subpartition.alignment_timeout(barrier.checkpoint_id, consumer)

    def flush(self) -> None:
        """Make all written data available to the readers; skips subpartitions not written to since the last
        call.
        """
        if self._open.write_due is not None:
            self._open.write_due()
        subpartitions = self.subpartitions
        if self._all_unflushed:
            self._all_unflushed = False
            for subpartition in subpartitions:
                subpartition.flush()
        else:
            for channel in sorted(set(self._unflushed)):
                subpartitions[channel].flush()
        self._unflushed.clear()

    def _finish_open(self) -> None:
        """Finish all open buffers, before an event is queued in every subpartition."""
        self._all_unflushed = True
        self._open.finish()

    def finish(self) -> None:
        """Close all subpartitions for writing."""
        for subpartition in self.subpartitions:
            subpartition.finish()

    @property
    def acknowledged(self) -> bool:
        """Whether every consumer has processed all records before the end of data."""
        return all(subpartition.acknowledged for subpartition in self.subpartitions)

    @property
    def queued(self) -> QueueFigures:
        """Totals over all subpartitions, computed in one pass."""
        buffers_out = length = size = 0
        for subpartition in self.subpartitions:
            buffers_out += subpartition.total_buffers
            length += len(subpartition)
            size += subpartition.queued_bytes
        return QueueFigures(buffers_out, length, size)

    def release(self) -> None:
        """Drop all queued items and return all segments."""
        self._unwritten = None
        self._finish_open()
        for subpartition in self.subpartitions:
            subpartition.release()
        self.pool.lazy_destroy()
