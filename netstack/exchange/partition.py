"""A result partition: where one subtask writes what one exchange carries away.

Each subpartition has at most one open buffer. A record that does not fit is continued in the next
buffer; a buffer is trimmed to the announced size, but never below the record that starts it::

    block of records --+--> open buffer of subpartition 0 --> queue 0
    channel of each    +--> open buffer of subpartition 1 --> queue 1
                       ...        ^ new segments from the partition's LocalBufferPool

Writing is synchronous. It stops behind the record that took the pool's last segment, or within a record
if not even an overdraft segment was left. The rules are those of Flink's BufferWritingResultPartition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from buffers import (
    BufferBuilder,
    EventBuffer,
    EventConsumer,
    LocalBufferPool,
    MemorySegment,
    PipelinedSubpartition,
    RecordBlock,
)
from flowcontrol import (
    CheckpointBarrier,
    Event,
    data_type_of,
    encode_event,
)

ALL = -1
"""The channel of a record that goes to every subpartition."""


class ResultPartition:
    """Subpartitions, their open buffers and the pool behind them.

    `flush_always` makes records available to the readers as soon as they are written (a buffer timeout of
    0). `supports_unaligned`: whether barriers may overtake the data of this exchange. `records_out` and
    `bytes_out` count records with their 4-byte lengths. Invariant: an open buffer has room.
    """

    def __init__(
        self,
        pool: LocalBufferPool,
        subpartitions: Sequence[PipelinedSubpartition],
        *,
        flush_always: bool = False,
        supports_unaligned: bool = True,
    ) -> None:
        self.pool = pool
        self.supports_unaligned = supports_unaligned
        self._flush_always = flush_always
        self.subpartitions = list(subpartitions)
        self.records_out = 0
        self.bytes_out = 0
        self._builders: list[BufferBuilder | None] = [None] * len(self.subpartitions)
        self._broadcast: BufferBuilder | None = None
        self._unwritten: tuple[int, memoryview, bool] | None = None
        self._unwritten_parts: list[memoryview] = []

    @property
    def available(self) -> bool:
        """Whether the next record may be begun."""
        return self.pool.available

    @property
    def blocked(self) -> bool:
        """Whether a record is half written, for want of a segment."""
        return self._unwritten is not None

    def write(self, block: RecordBlock, channels: Sequence[int], start: int, stop: int) -> int:
        """Write the records ``start..stop-1`` of `block`, each to its channel.

        `channels` holds one subpartition for each record of the block. Returns the index of the first
        record that was not begun: less than `stop` if the pool became unavailable. If the last begun
        record is `blocked`, call `go_on` until it is not.
        """
        builders = self._builders
        pool = self.pool
        stride = block.stride
        index = start
        while index < stop:
            channel = channels[index]
            size = stride or block.size(index)
            builder = builders[channel]
            if builder is not None and builder.position + size < builder.capacity:
                if builder.block is block:  # `note`, spelled out: this is the hottest line of a job
                    builder.indices.append(index)
                    builder.position += size
                else:
                    builder.note(block, index, size)
                index += 1
                continue
            written = self._write_record(channel, block.encoded(index), size)
            index += 1
            if not written or not pool.available:
                break
        self.records_out += index - start
        self.bytes_out += block.span(start, index)
        if self._flush_always:
            self.flush()
        return index

    def broadcast(self, block: RecordBlock, start: int, stop: int) -> int:
        """Write records to every subpartition; returns and blocks as `write` does."""
        index = start
        while index < stop:
            record = block.encoded(index)
            self.records_out += 1
            self.bytes_out += len(record)
            index += 1
            if not self._write_record(ALL, record, len(record)) or not self.pool.available:
                break
        if self._flush_always:
            self.flush()
        return index

    def write_record(self, channel: int, *parts: memoryview) -> bool:
        """Write one encoded record to a subpartition, or to `ALL`; returns whether the next may be begun.

        The record is what its parts are together. If it is then `blocked`, call `go_on` until it is not.
        """
        size = sum(map(len, parts))
        self.records_out += 1
        self.bytes_out += size
        self._unwritten_parts += parts[1:]
        written = self._write_record(channel, parts[0], size) and self._write_parts(channel)
        if self._flush_always:
            self.flush()
        return written and self.pool.available

    def go_on(self) -> bool:
        """Try to write the rest of a half-written record; returns whether it is complete."""
        if self._unwritten is None:
            return True
        channel, rest, begun = self._unwritten
        self._unwritten = None
        later = sum(map(len, self._unwritten_parts))
        complete = (
            self._continue(channel, None, rest)
            if begun
            else self._write_record(channel, rest, len(rest) + later)
        ) and self._write_parts(channel)
        if complete and self._flush_always:
            self.flush()
        return complete

    def _write_record(self, channel: int, record: memoryview, size: int) -> bool:
        """Write a record of `size` bytes, or its first part; False if that could not be completed."""
        builder = self._open_builder(channel)
        if builder is None:
            segment = self.pool.request(channel)
            if segment is None:
                self._unwritten = channel, record, False
                return False
            builder = self._new_builder(channel, segment)
            self._publish(channel, builder, size)
        copied = builder.append(record)
        return self._continue(channel, builder, record[copied:])

    def _write_parts(self, channel: int) -> bool:
        """Write the other parts of a record; False if they could not be completed."""
        while self._unwritten_parts:
            part = self._unwritten_parts.pop(0)
            builder = self._open_builder(channel)
            copied = builder.append(part) if builder is not None else 0
            if len(part) and not self._continue(channel, builder, part[copied:]):
                return False
        return True

    def _continue(self, channel: int, builder: BufferBuilder | None, rest: memoryview) -> bool:
        """Write what of a record did not fit into `builder`; False if segments ran out."""
        while len(rest):
            if builder is not None:
                self._close(channel, builder)
            segment = self.pool.request(channel)
            if segment is None:
                self._unwritten = channel, rest, True
                return False
            builder = self._new_builder(channel, segment)
            copied = builder.append(rest)
            self._publish(channel, builder, copied)
            rest = rest[copied:]
        assert builder is not None
        if builder.position >= builder.capacity:
            self._close(channel, builder)
        return True

    def _open_builder(self, channel: int) -> BufferBuilder | None:
        """The open buffer for `channel`; buffers of the other way of writing are finished first."""
        if channel == ALL:
            if self._broadcast is None:
                self._finish_unicast()
            return self._broadcast
        if self._broadcast is not None:
            self._close(ALL, self._broadcast)
        return self._builders[channel]

    def _new_builder(self, channel: int, segment: MemorySegment) -> BufferBuilder:
        builder = BufferBuilder(segment, self.pool, channel)
        if channel == ALL:
            self._broadcast = builder
        else:
            self._builders[channel] = builder
        return builder

    def _publish(self, channel: int, builder: BufferBuilder, minimum: int) -> None:
        """Queue the reading half of `builder` and trim it to the size that is wanted for new buffers."""
        if channel == ALL:
            wanted = min([s.add(builder.consumer()) for s in self.subpartitions])
        else:
            wanted = self.subpartitions[channel].add(builder.consumer())
        if wanted > 0:
            builder.trim(max(wanted, minimum))

    def _close(self, channel: int, builder: BufferBuilder) -> None:
        builder.finish()
        if channel == ALL:
            self._broadcast = None
        else:
            self._builders[channel] = None

    def _finish_builders(self) -> None:
        if self._broadcast is not None:
            self._close(ALL, self._broadcast)
        self._finish_unicast()

    def _finish_unicast(self) -> None:
        for channel, builder in enumerate(self._builders):
            if builder is not None:
                self._close(channel, builder)

    def broadcast_event(self, event: Event) -> None:
        """Finish the open buffers and queue `event` behind them in every subpartition."""
        self._finish_builders()
        consumer = _event_buffer(event)
        for subpartition in self.subpartitions:
            subpartition.add(EventConsumer(consumer))

    def broadcast_barrier(
        self, barrier: CheckpointBarrier, settled: Callable[[int, list[bytes]], None]
    ) -> bool:
        """Send a checkpoint barrier on, in the way that its options and this exchange allow.

        An unaligned barrier overtakes all data; one that may time out does when `alignment_timeout` says
        so. `settled` is called once for each subpartition with the data overtaken there, which may be
        none. Returns whether that is, or may become, anything.
        """
        if not self.supports_unaligned:
            barrier = replace(barrier, options=barrier.options.with_unaligned_unsupported())
        if not (barrier.options.is_unaligned or barrier.options.timeoutable):
            self.broadcast_event(barrier)
            return False
        self._finish_builders()
        buffer = _event_buffer(barrier)
        for number, subpartition in enumerate(self.subpartitions):
            if barrier.options.is_unaligned:
                settled(number, subpartition.overtake(EventConsumer(buffer)))
            else:
                told = partial(settled, number)
                subpartition.add_timeoutable(EventConsumer(buffer), barrier.checkpoint_id, told)
        return True

    def alignment_timeout(self, barrier: CheckpointBarrier) -> None:
        """Let `barrier`, now unaligned, overtake the data of each subpartition where it is still queued."""
        buffer = _event_buffer(barrier)
        for subpartition in self.subpartitions:
            subpartition.alignment_timeout(barrier.checkpoint_id, EventConsumer(buffer))

    def flush(self) -> None:
        """Make all that is written available to the readers."""
        for subpartition in self.subpartitions:
            subpartition.flush()

    def finish(self) -> None:
        """Write nothing more."""
        for subpartition in self.subpartitions:
            subpartition.finish()

    @property
    def acknowledged(self) -> bool:
        """Whether every consumer has processed all records before the end of data."""
        return all(subpartition.acknowledged for subpartition in self.subpartitions)

    @property
    def buffers_out(self) -> int:
        """Buffers and events that were queued so far."""
        return sum(subpartition.total_buffers for subpartition in self.subpartitions)

    @property
    def queue_length(self) -> int:
        """Buffers and events queued over all subpartitions."""
        return sum(len(subpartition) for subpartition in self.subpartitions)

    @property
    def queued_bytes(self) -> int:
        """Bytes queued over all subpartitions."""
        return sum(subpartition.queued_bytes for subpartition in self.subpartitions)

    def release(self) -> None:
        """Drop what is queued and give all segments back."""
        self._unwritten = None
        self._unwritten_parts.clear()
        self._finish_builders()
        for subpartition in self.subpartitions:
            subpartition.release()
        self.pool.lazy_destroy()


def _event_buffer(event: Event) -> EventBuffer:
    priority = isinstance(event, CheckpointBarrier) and event.options.is_unaligned
    return EventBuffer(encode_event(event), data_type_of(event, priority=priority))
