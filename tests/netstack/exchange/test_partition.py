"""Result partitions: records into buffers, sizes, and where writing stops."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffers import BufferSlice, NetworkBufferPool, PipelinedSubpartition, RecordBlock, RecordDecoder
from flowcontrol import (
    BufferResponse,
    CheckpointBarrier,
    EndOfOutputChannelState,
    EndOfPartition,
    Event,
    NewBufferSize,
    PartitionRequest,
    SendQueue,
    decode_event,
)
from netstack.checkpoints.recovery import restore_subpartition
from netstack.exchange.partition import ALL, LEAST_LOADED, ResultPartition
from tests.vectors import flink_vectors

SEGMENT_SIZE = 16


def records(*sizes: int) -> RecordBlock:
    """Records of these sizes in bytes, header included; each is filled with its number."""
    return RecordBlock.from_payloads([bytes([number]) * (size - 4) for number, size in enumerate(sizes, 1)])


class Exchange:
    """A result partition over a pool of `segments` segments, and readers of its subpartitions."""

    def __init__(
        self,
        subpartitions: int = 1,
        *,
        segments: int = 32,
        segment_size: int = SEGMENT_SIZE,
        overdraft: int = 0,
        quota: int | None = None,
    ) -> None:
        self.memory = NetworkBufferPool(segments + overdraft, segment_size)
        self.pool = self.memory.create_pool(
            segments,
            segments,
            segments,
            subpartitions=subpartitions,
            max_buffers_per_channel=quota,
            max_overdraft=overdraft,
        )
        self.subpartitions = [PipelinedSubpartition(index) for index in range(subpartitions)]
        self.partition = ResultPartition(self.pool, self.subpartitions)
        self.decoders = [RecordDecoder() for _ in range(subpartitions)]

    def write(self, block: RecordBlock, channels: list[int] | None = None, start: int = 0) -> int:
        """Write a block from `start` on, to subpartition 0 unless said otherwise."""
        return self.partition.write(block, channels or [0] * len(block), start, len(block))

    def read(self, index: int = 0, *, limit: int | None = None) -> list[bytes | Event]:
        """At most `limit` buffers and events of a subpartition, which are recycled.

        Reads on where a notified reader would wait: what is in the open buffer needs no flush.
        """
        items: list[bytes | Event] = []
        while limit is None or len(items) < limit:
            polled = self.subpartitions[index].poll()
            if polled is None:
                break
            payload = polled.buffer.payload
            items.append(decode_event(payload) if polled.buffer.is_event else bytes(payload))
            polled.buffer.release()
        return items

    def sizes(self, index: int = 0) -> list[int]:
        """Sizes of all data buffers that can be read, in bytes."""
        return [len(item) for item in self.read(index) if isinstance(item, bytes)]

    def payloads(self, index: int) -> list[bytes | Event]:
        """What a consumer reads: payloads of records, and events."""
        found: list[bytes | Event] = []
        for item in self.read(index):
            if isinstance(item, bytes):
                found.extend(bytes(payload) for payload in self.decoders[index].feed(item).payloads())
            else:
                found.append(item)
        return found

    def close(self) -> None:
        """Release, and expect all memory back."""
        self.partition.release()
        assert self.memory.used == 0


def test_vector_new_buffer_size() -> None:
    scenario = flink_vectors("credit_sender_request_queue")["tx-new-buffer-size"]
    new_size, emit, available = scenario["steps"]
    exchange = Exchange(segments=4, segment_size=scenario["given"]["segment_size"])
    queue = SendQueue()
    sender = queue.open(PartitionRequest(0, scenario["given"]["initial_credit"]), exchange.subpartitions[0])
    queue.handle(NewBufferSize(0, new_size["n"]))
    assert exchange.write(records(*emit["sizes"])) == len(emit["sizes"])
    queue.data_available(sender)
    sizes = []
    while (item := queue.next_message()) is not None:
        message, buffer = item
        assert isinstance(message, BufferResponse)
        assert buffer is not None
        sizes.append(len(message.payload))
        buffer.release()
    assert sizes == available["expect"]["buffer_sizes"]
    exchange.close()


def test_records_share_a_buffer_and_span_buffers() -> None:
    exchange = Exchange()
    block = records(6, 6, 40)
    exchange.write(block)
    assert exchange.sizes() == [16, 16, 16, 4]


def test_a_full_buffer_is_finished_at_once() -> None:
    exchange = Exchange()
    exchange.write(records(8, 8))
    assert exchange.pool.used == 1
    exchange.read()
    assert exchange.pool.used == 0


def test_the_wanted_size_cuts_buffers_but_not_the_record_that_starts_one() -> None:
    exchange = Exchange(segment_size=64)
    exchange.subpartitions[0].set_buffer_size(10)
    exchange.write(records(4, 5, 30, 7, 4))
    # 4 + 5 and 1 byte of the third; its 29 left; 7 and 3 bytes of the last.
    assert exchange.sizes() == [10, 29, 10, 1]


def test_a_buffer_never_grows_past_its_segment() -> None:
    exchange = Exchange()
    exchange.subpartitions[0].set_buffer_size(1000)
    exchange.write(records(40))
    assert exchange.sizes() == [16, 16, 8]


def test_a_new_size_holds_for_buffers_added_from_then_on() -> None:
    exchange = Exchange(segment_size=64)
    exchange.subpartitions[0].set_buffer_size(20)
    exchange.write(records(8))
    exchange.subpartitions[0].set_buffer_size(10)
    exchange.write(records(8, 8, 8))
    assert exchange.sizes() == [20, 10, 2]


def test_writing_stops_behind_the_record_that_takes_the_last_segment() -> None:
    exchange = Exchange(segments=3)
    block = records(16, 16, 16, 16)
    assert exchange.write(block) == 3
    assert not exchange.partition.available
    assert not exchange.partition.blocked
    exchange.read(limit=1)
    assert exchange.partition.available
    assert exchange.write(block, start=3) == 4
    assert exchange.partition.records_out == 4


def test_room_in_the_last_segment_is_not_used_while_unavailable() -> None:
    exchange = Exchange(segments=2)
    assert exchange.write(records(20, 4)) == 1
    assert not exchange.partition.available
    assert not exchange.partition.blocked


def test_overdraft_lets_a_begun_record_be_finished() -> None:
    exchange = Exchange(segments=2, overdraft=2)
    assert exchange.write(records(60, 4)) == 1
    assert not exchange.partition.blocked
    assert (exchange.pool.used, exchange.partition.available) == (4, False)
    exchange.read(limit=2)
    assert not exchange.partition.available
    exchange.read(limit=1)
    assert exchange.partition.available
    exchange.close()


def test_a_record_without_segments_blocks_and_goes_on() -> None:
    exchange = Exchange(segments=2)
    block = records(60, 4)
    assert exchange.write(block) == 1
    assert exchange.partition.blocked
    assert not exchange.partition.go_on()
    assert exchange.partition.blocked
    payloads = exchange.payloads(0)
    assert exchange.partition.go_on()
    assert not exchange.partition.blocked
    assert exchange.write(block, start=1) == 2
    payloads += exchange.payloads(0)
    assert payloads == [bytes(payload) for payload in block.payloads()]
    assert (exchange.partition.records_out, exchange.partition.bytes_out) == (2, 64)
    exchange.close()


def test_a_record_may_block_before_its_first_byte() -> None:
    exchange = Exchange(segments=1)
    exchange.write(records(16))
    block = records(8)
    assert exchange.write(block) == 1
    assert exchange.partition.blocked
    assert not exchange.partition.go_on()
    exchange.payloads(0)
    assert exchange.partition.go_on()
    assert exchange.payloads(0) == [bytes(block.payload(0))]


def test_a_subpartition_at_its_quota_makes_the_partition_unavailable() -> None:
    exchange = Exchange(2, quota=2)
    assert exchange.write(records(16, 16, 16, 16), [1, 0, 1, 0]) == 3
    assert not exchange.partition.available
    exchange.read(1, limit=1)
    assert exchange.partition.available


def test_a_broadcast_record_takes_one_segment_for_all() -> None:
    exchange = Exchange(3)
    block = records(8, 20)
    assert exchange.partition.broadcast(block, 0, 2) == 2
    assert exchange.pool.used == 2
    expected = [bytes(payload) for payload in block.payloads()]
    assert exchange.payloads(0) == exchange.payloads(1) == expected
    assert exchange.pool.used == 2
    assert exchange.payloads(2) == expected
    assert exchange.pool.used == 1  # the open one
    assert (exchange.partition.records_out, exchange.partition.bytes_out) == (2, 28)
    exchange.close()


def test_a_broadcast_stops_as_a_write_does() -> None:
    exchange = Exchange(2, segments=2)
    block = records(16, 16, 16)
    assert exchange.partition.broadcast(block, 0, 3) == 2
    assert not exchange.partition.available
    exchange.read(0)
    assert not exchange.partition.available
    exchange.read(1)
    assert exchange.partition.broadcast(block, 2, 3) == 3


def test_a_broadcast_blocks_and_goes_on() -> None:
    exchange = Exchange(2, segments=1)
    block = records(30)
    assert exchange.partition.broadcast(block, 0, 1) == 1
    assert exchange.partition.blocked
    assert [exchange.payloads(0), exchange.payloads(1)] == [[], []]
    assert exchange.partition.go_on()
    assert exchange.payloads(0) == exchange.payloads(1) == [bytes(block.payload(0))]


@pytest.mark.parametrize("channel", [ALL, 0, 1, 2])
def test_the_rest_of_a_record_that_had_to_wait_is_flushed_to_all_that_get_it(channel: int) -> None:
    exchange, block = Exchange(3, segments=1), records(30)
    if channel == ALL:
        exchange.partition.broadcast(block, 0, 1)
    else:
        exchange.write(block, [channel])
    assert exchange.partition.blocked
    exchange.partition.flush()  # as the flush timer does meanwhile
    written = [channel in (ALL, index) for index in range(3)]
    assert [bool(exchange.read(index)) for index in range(3)] == written
    assert exchange.partition.go_on()
    assert not any(subpartition.can_send(1) for subpartition in exchange.subpartitions)
    exchange.partition.flush()
    assert [subpartition.can_send(1) for subpartition in exchange.subpartitions] == written


def test_an_event_finishes_the_open_buffers() -> None:
    exchange = Exchange(3)
    block = records(5, 6)
    exchange.write(block, [0, 2])
    barrier = CheckpointBarrier(1, 2.5)
    exchange.partition.broadcast_event(barrier)
    assert [exchange.payloads(index) for index in range(3)] == [
        [bytes(block.payload(0)), barrier],
        [barrier],
        [bytes(block.payload(1)), barrier],
    ]
    assert exchange.pool.used == 0
    assert all(subpartition.blocked for subpartition in exchange.subpartitions)


def test_queues_are_summed_over_subpartitions() -> None:
    exchange = Exchange(2)
    exchange.write(records(16, 20, 5), [0, 0, 1])
    exchange.partition.broadcast_event(EndOfPartition())
    assert exchange.partition.queued == (6, 6, 41 + 2 * 4)


def test_release_gives_back_what_is_open_queued_and_half_written() -> None:
    exchange = Exchange(2, segments=3)
    exchange.write(records(16, 5, 60), [0, 1, 0])
    assert exchange.partition.blocked
    exchange.close()
    assert not exchange.partition.blocked


def test_release_waits_for_what_is_being_read() -> None:
    exchange = Exchange()
    exchange.write(records(16, 5))
    polled = exchange.subpartitions[0].poll()
    assert polled is not None
    exchange.partition.release()
    assert exchange.memory.used == 1
    polled.buffer.release()
    assert exchange.memory.used == 0


@st.composite
def step(draw: st.DrawFn) -> tuple[str, list[int], list[int]]:
    """What to do, sizes of payloads, and a subpartition for each."""
    kind = draw(st.sampled_from(["write", "write", "broadcast", "flush", "resize", "event"]))
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=8))
    if draw(st.booleans()):
        sizes = [sizes[0]] * len(sizes)  # blocks of equal records are written another way
    channels = draw(st.lists(st.integers(0, 2), min_size=len(sizes), max_size=len(sizes)))
    return kind, sizes, channels


class Journal:
    """Plays steps whatever the pool says; keeps what went into each subpartition and what came out."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.written: list[list[bytes | Event]] = [[], [], []]
        self.read: list[list[bytes | Event]] = [[], [], []]
        self._serial = 0

    def play(self, kind: str, sizes: list[int], channels: list[int]) -> None:
        partition = self.exchange.partition
        if kind == "flush":
            partition.flush()
        elif kind == "resize":
            self.exchange.subpartitions[channels[0]].set_buffer_size(sizes[0])
        elif kind == "event":
            self._expect(range(3), EndOfPartition())
            partition.broadcast_event(EndOfPartition())
        else:
            self._write(sizes, None if kind == "broadcast" else channels)

    def _expect(self, channels: Sequence[int], item: bytes | Event) -> None:
        for channel in channels:
            self.written[channel].append(item)

    def _write(self, sizes: list[int], channels: list[int] | None) -> None:
        payloads = []
        for number, size in enumerate(sizes):
            self._serial += 1
            payloads.append(bytes([self._serial % 256]) * size)
            self._expect(range(3) if channels is None else [channels[number]], payloads[-1])
        block, partition = RecordBlock.from_payloads(payloads), self.exchange.partition
        index = 0
        while index < len(block):
            if not partition.available:
                self.drain()
            if channels is None:
                index = partition.broadcast(block, index, len(block))
            else:
                index = partition.write(block, channels, index, len(block))
            while not partition.go_on():
                self.drain()

    def drain(self) -> None:
        for index in range(3):
            self.read[index] += self.exchange.payloads(index)


@settings(max_examples=150)
@given(st.lists(step(), max_size=12), st.integers(4, 8), st.integers(0, 3))
def test_records_come_back_equal_and_in_order(
    steps: list[tuple[str, list[int], list[int]]], segments: int, overdraft: int
) -> None:
    exchange = Exchange(3, segments=segments, overdraft=overdraft, quota=4)
    journal = Journal(exchange)
    for kind, sizes, channels in steps:
        journal.play(kind, sizes, channels)
    journal.drain()
    assert journal.read == journal.written
    assert all(decoder.pending_bytes == 0 for decoder in exchange.decoders)
    exchange.close()


def least_loaded_by_the_rule(exchange: Exchange, last: int, traverse: int) -> int:
    """The rule of FLIP-339, word for word, from what the test itself counts."""
    count = len(exchange.subpartitions)
    looked_at = [(last + step) % count for step in range(1, min(traverse, count) + 1)]
    held = {channel: exchange.held[channel] for channel in looked_at}
    for channel in looked_at:
        if held[channel] == 0:
            return channel
    fewest = [channel for channel in looked_at if held[channel] == min(held.values())]
    waiting = {channel: exchange.written[channel] - exchange.left[channel] for channel in fewest}
    return next(channel for channel in fewest if waiting[channel] == min(waiting.values()))


class CountedExchange(Exchange):
    """An exchange that chooses by load; buffers and bytes are counted here once more."""

    def __init__(self, subpartitions: int, traverse: int, segments: int) -> None:
        super().__init__(subpartitions, segments=segments)
        self.partition = ResultPartition(self.pool, self.subpartitions, max_traverse=traverse)
        self.held = [0] * subpartitions
        self.written = [0] * subpartitions
        self.left = [0] * subpartitions
        self.room = [0] * subpartitions
        self.unreturned: list[tuple[int, BufferSlice]] = []

    def note(self, channel: int, size: int) -> None:
        """Count a record of `size` bytes, which begins a new buffer where the open one is full."""
        self.written[channel] += size
        while size > self.room[channel]:
            size -= self.room[channel]
            self.held[channel] += 1
            self.room[channel] = SEGMENT_SIZE
        self.room[channel] -= size

    def send(self, channel: int) -> None:
        """Let the reader take a whole buffer; it is recycled later."""
        queue = self.subpartitions[channel]
        if queue.data_buffers > 1 or not self.room[channel]:
            polled = queue.poll()
            if polled is not None and isinstance(polled.buffer, BufferSlice):
                self.left[channel] += polled.buffer.size
                self.unreturned.append((channel, polled.buffer))

    def recycle(self) -> None:
        """Give back what was sent first."""
        if self.unreturned:
            channel, buffer = self.unreturned.pop(0)
            buffer.release()
            self.held[channel] -= 1


@given(
    st.integers(2, 5),
    st.integers(1, 6),
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(4, 20)),
            st.tuples(st.just("send"), st.integers(0, 4)),
            st.tuples(st.just("recycle"), st.just(0)),
        ),
        max_size=60,
    ),
)
def test_a_record_goes_to_the_least_loaded_of_the_next_few(
    subpartitions: int, traverse: int, steps: list[tuple[str, int]]
) -> None:
    exchange, last = CountedExchange(subpartitions, traverse, 300), -1
    for kind, number in steps:
        if kind == "write":
            last = least_loaded_by_the_rule(exchange, last, traverse)
            channels = [LEAST_LOADED]
            assert exchange.write(records(number), channels) == 1
            assert channels == [last]
            exchange.note(last, number)
        elif kind == "send":
            exchange.send(number % subpartitions)
        else:
            exchange.recycle()
        assert exchange.pool.subpartition_buffers == exchange.held


def test_writing_to_the_least_loaded_stops_where_memory_ends_and_all_looks_are_counted() -> None:
    exchange = Exchange(3, segments=4)
    exchange.partition = ResultPartition(exchange.pool, exchange.subpartitions, max_traverse=2)
    channels = [LEAST_LOADED] * 8
    stopped = exchange.write(records(*[SEGMENT_SIZE] * 8), channels)
    assert (stopped, exchange.partition.available) == (4, False)
    assert channels == [0, 1, 2, 0, *[LEAST_LOADED] * 4]
    assert exchange.partition.compared == 1 + 1 + 1 + 2


def test_recovered_data_comes_first_and_waits_for_its_reader() -> None:
    exchange = Exchange()
    assert not list(restore_subpartition(exchange.pool, exchange.subpartitions[0], bytes(range(40))))
    exchange.partition.broadcast_event(EndOfOutputChannelState())
    exchange.write(records(8))
    exchange.partition.flush()
    *data, end = exchange.read()
    assert b"".join(item for item in data if isinstance(item, bytes)) == bytes(range(40))
    assert end == EndOfOutputChannelState()
    exchange.subpartitions[0].resume()
    assert exchange.read() == [records(8).data.tobytes()]


def test_recovered_data_that_does_not_fit_waits_for_memory() -> None:
    exchange = Exchange(segments=2)
    putting_back = restore_subpartition(exchange.pool, exchange.subpartitions[0], bytes(range(40)))
    next(putting_back)
    found = [exchange.read()]
    assert not list(putting_back)  # all that was missing fits where the first part has been
    found.append(exchange.read())
    assert [b"".join(item for item in part if isinstance(item, bytes)) for part in found] == [
        bytes(range(32)),
        bytes(range(32, 40)),
    ]


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(4, 7),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_a_record_in_parts_is_written_like_one_in_a_piece(
    sizes: list[list[int]], segments: int, overdraft: int, places: int
) -> None:
    """Buffer for buffer, and wherever segments run out; parts may be empty, but not the first."""
    whole, parted = (Exchange(2, segments=segments, overdraft=overdraft) for _ in range(2))
    for number, of_parts in enumerate(sizes):
        payload = bytes([number + 1]) * sum(of_parts)
        pieces, start = [len(payload).to_bytes(4)], 0
        for size in of_parts:
            pieces.append(payload[start : start + size])
            start += size
        channel = (0, 1, ALL)[(number + places) % 3]
        begins_next = [
            whole.partition.write_record(channel, memoryview(b"".join(pieces))),
            parted.partition.write_record(channel, *map(memoryview, pieces)),
        ]
        assert begins_next[0] == begins_next[1]
        while whole.partition.blocked:
            assert parted.partition.blocked
            read = [[each.read(0), each.read(1)] for each in (whole, parted)]
            assert read[0] == read[1]
            assert whole.partition.go_on() == parted.partition.go_on()
        assert not parted.partition.blocked
    for each in (whole, parted):
        each.partition.broadcast_event(EndOfPartition())
    assert [whole.read(0), whole.read(1)] == [parted.read(0), parted.read(1)]
    assert (whole.partition.bytes_out, whole.partition.queued.buffers_out) == (
        parted.partition.bytes_out,
        parted.partition.queued.buffers_out,
    )


@pytest.mark.parametrize(("grows", "written"), [(True, 4), (False, 2)])
def test_the_last_buffer_of_an_exhausted_pool_grows_beyond_the_size_that_was_announced(grows, written):
    exchange = Exchange(segments=2, segment_size=64)
    partition = ResultPartition(exchange.pool, exchange.subpartitions, grows=grows)
    exchange.subpartitions[0].set_buffer_size(8)
    block = records(8, 8, 8, 8)
    done = 0
    while done < len(block) and not partition.blocked:
        done = partition.write(block, [0] * len(block), done, len(block))
    assert done - partition.blocked == written
    assert exchange.pool.used == 2
