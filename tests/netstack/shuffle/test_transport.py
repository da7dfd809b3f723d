"""Exchanges of records between processes, played by threads of one: each has its own network thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netstack import (
    ALL_TARGETS,
    ConnectionLimits,
    HandshakeError,
    LinkClosedError,
    NetworkConfig,
    PeerFailedError,
    Transport,
    TransportConfig,
    TransportError,
    fresh_secret,
    with_options,
)
from netstack.shuffle.endpoint import RECORD_BYTES, LoopbackRecords

SMALL = TransportConfig(network=with_options(NetworkConfig(), {"segment_bytes": 4096}))


def opened(size: int, config: TransportConfig = SMALL) -> list[Transport]:
    """Connected transports of all processes."""
    secret = fresh_secret()
    transports = [Transport(index, size, config) for index in range(size)]
    addresses = [transport.listen() for transport in transports]
    in_parallel([lambda t=transport: t.connect(addresses, secret) for transport in transports])  # type: ignore[misc]
    return transports


def in_parallel(work: Sequence[Callable[[], object]]) -> list[object]:
    """Return the result or the error of each call, made in a thread of its own."""

    def guarded(one: Callable[[], object]) -> object:
        try:
            return one()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(work)) as threads:
        return list(threads.map(guarded, work))


def exchange(
    transports: Sequence[Transport], records: Sequence[Sequence[tuple[int, bytes]]]
) -> list[list[bytes]]:
    """Let each process write its records, in portions, and read all that comes; gives what each has read."""
    size = len(transports)
    read: list[list[bytes]] = [[] for _ in range(size)]

    def write_all(index: int) -> None:
        own = records[index]
        for start in range(0, len(own), 3):
            transports[index].write(own[start : start + 3])
        transports[index].finish_writing()

    def read_all(index: int) -> None:
        while (arrived := transports[index].read()) is not None:
            assert arrived
            read[index].extend(map(bytes, arrived))
        transports[index].close()

    jobs = [lambda i=i: write_all(i) for i in range(size)] + [lambda i=i: read_all(i) for i in range(size)]  # type: ignore[misc]
    assert in_parallel(jobs) == [None] * (2 * size)
    return read


def numbered(sender: int, target: int, number: int, padding: int) -> bytes:
    return bytes([sender, target]) + number.to_bytes(4) + bytes(padding)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_record_arrives_once_where_it_should_and_in_order(size: int) -> None:
    transports = opened(size)
    records = [
        [(number % size, numbered(sender, number % size, number, number % 1000)) for number in range(400)]
        for sender in range(size)
    ]
    read = exchange(transports, records)
    for target in range(size):
        for sender in range(size):
            mine = [record for record in read[target] if record[0] == sender]
            assert mine == [record for to, record in records[sender] if to == target]
    assert [transport.leaked_segments for transport in transports] == [0] * size


@settings(max_examples=25)
@given(st.integers(1, 3), st.data())
def test_records_of_any_length_arrive(size: int, data: st.DataObject) -> None:
    lengths = st.integers(0, 20) | st.integers(0, 100_000)
    records = [
        [
            (to, numbered(sender, to, n, length))
            for n, (to, length) in enumerate(
                data.draw(st.lists(st.tuples(st.integers(0, size - 1), lengths), max_size=12))
            )
        ]
        for sender in range(size)
    ]
    read = exchange(opened(size), records)
    for target in range(size):
        sent = [record for own in records for to, record in own if to == target]
        assert sorted(read[target]) == sorted(sent)


def test_a_record_to_all_reaches_every_process() -> None:
    transports = opened(3)
    records = [
        [(ALL_TARGETS, bytes([sender]) * 5000) for _ in range(20)] + [(sender, b"own")] for sender in range(3)
    ]
    for read in exchange(transports, records):
        assert sorted(read) == sorted([bytes([sender]) * 5000 for sender in range(3)] * 20 + [b"own"])


@settings(max_examples=25)
@given(st.lists(st.sampled_from([0, 1, ALL_TARGETS]), max_size=30), st.integers(0, 3000))
def test_records_to_all_keep_their_place_among_those_to_oneself(targets: list[int], length: int) -> None:
    records = [(to, numbered(0, 0, number, length)) for number, to in enumerate(targets)]
    read = exchange(opened(2), [records, []])
    for index in range(2):
        assert read[index] == [record for to, record in records if to in (index, ALL_TARGETS)]


def test_a_record_to_oneself_is_what_it_was_when_it_was_written() -> None:
    """Also where it was written through a view that cannot write itself."""
    (transport,) = opened(1)
    record = bytearray(b"before")
    transport.write([(0, record), (0, memoryview(record).toreadonly())])
    record[:] = b"behind"
    transport.finish_writing()
    assert list(map(bytes, transport.read() or ())) == [b"before", b"before"]
    assert transport.read() is None
    transport.close()


def test_a_small_part_of_a_large_record_does_not_keep_the_rest_alive() -> None:
    """Nor is a record copied that is as large as its memory."""
    queue, whole = LoopbackRecords(1 << 20), bytes(100_000)
    queue.add(memoryview(whole))
    queue.add(memoryview(whole)[:10])
    assert queue.take().obj is whole
    assert queue.take().obj == bytes(10)


def test_records_to_oneself_take_no_segments_and_are_counted() -> None:
    (transport,) = opened(1)
    read = exchange([transport], [[(0, bytes(1000))] * 30])
    statistics = transport.statistics()
    assert read == [[bytes(1000)] * 30]
    assert (statistics.records_sent, statistics.records_received) == (30, 30)
    assert statistics.record_bytes_sent == statistics.record_bytes_received == 30 * 1004
    assert statistics.buffers_sent == 2  # events: the end of the data, and of the partition


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_a_writer_to_itself_waits_for_its_reader(size: int) -> None:
    (transport,) = opened(1)
    limit = SMALL.network.max_buffers_per_channel * SMALL.network.segment_bytes
    record, count = bytes(size), 3 * limit // (size + RECORD_BYTES)
    until_full = -(-limit // (size + RECORD_BYTES)) - 1
    written = 0

    def write_all() -> None:
        nonlocal written
        for _ in range(count):
            transport.write([(0, record)])
            written += 1
        transport.finish_writing()

    def read_all() -> int:
        while written < until_full:
            pass
        for _ in range(20):  # the writer would go on meanwhile
            assert transport.statistics().write_blocked_s == 0.0
        assert written == until_full
        read = 0
        while (arrived := transport.read()) is not None:
            read += len(arrived)
        transport.close()
        return read

    assert in_parallel([write_all, read_all]) == [None, count]


@pytest.mark.long
def test_memory_stays_what_it_is_when_nobody_reads() -> None:
    transports = opened(2)
    writer, reader = transports
    limit = writer.statistics().network_memory_bytes + reader.statistics().network_memory_bytes
    total = 100 * limit
    record = bytes(10_000)
    written = 0
    stopped = threading.Event()

    def write_all() -> None:
        nonlocal written
        while written < total:
            writer.write([(1, record)])
            written += len(record)
        writer.finish_writing()

    def read_all() -> int:
        # The first look at what is written waits until the writer has had to wait.
        while writer.statistics().credit_stalls == 0:
            pass
        stopped.set()
        assert written <= limit
        read = 0
        while (arrived := reader.read()) is not None:
            read += sum(map(len, arrived))
            assert written - read <= limit + (2 << 20)
        return read

    reader.finish_writing()
    assert in_parallel([write_all, read_all]) == [None, written]
    assert stopped.is_set()
    assert writer.read() is None
    in_parallel([writer.close, reader.close])
    for transport in transports:
        statistics = transport.statistics()
        assert statistics.peak_network_memory_bytes <= statistics.network_memory_bytes
        assert transport.leaked_segments == 0
    assert writer.statistics().credit_blocked_s > 0
    assert writer.statistics().write_blocked_s > 0


def test_statistics_add_up() -> None:
    # With a timeout, a buffer may leave in several parts, each of which arrives as one.
    network = with_options(NetworkConfig(), {"segment_bytes": 4096, "buffer_timeout_enabled": False})
    transports = opened(3, TransportConfig(network=network))
    records = [[(to, bytes(1000)) for to in range(3)] * 50 for _ in range(3)]
    exchange(transports, records)
    all_of_them = [transport.statistics() for transport in transports]
    for statistics in all_of_them:
        assert statistics.records_sent == statistics.records_received == 150
        assert statistics.record_bytes_sent == statistics.record_bytes_received == 150 * 1004
    for what in ("buffers", "bytes"):
        sent = sum(getattr(statistics, f"{what}_sent") for statistics in all_of_them)
        assert sent == sum(getattr(statistics, f"{what}_received") for statistics in all_of_them) > 0


def test_the_first_cause_reaches_everybody_who_waits() -> None:
    transports = opened(4)

    def fail() -> None:
        transports[2].close(ValueError("no such\nday"))

    def wait(index: int) -> None:
        try:
            while True:
                transports[index].read()
        except TransportError as error:
            transports[index].close(error)
            raise

    results = in_parallel([lambda: wait(0), lambda: wait(1), fail, lambda: wait(3)])
    assert results.pop(2) is None
    for error in results:
        assert isinstance(error, PeerFailedError)
        assert str(error) == "task 2 failed: ValueError: no such day"


def test_closing_before_all_is_read_tells_the_others() -> None:
    transports = opened(2)
    transports[0].close()
    with pytest.raises(
        PeerFailedError, match="task 0: the transport was closed before all records had been read"
    ):
        transports[1].read()
    transports[1].close()
    with pytest.raises(LinkClosedError, match="task 1: this side of the transport has been closed"):
        transports[1].read()


def test_a_call_that_waits_ends_when_its_transport_is_closed() -> None:
    transports = opened(2)
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        transports[0].read()

    def close() -> None:
        waiting.wait()
        transports[0].close(RuntimeError("enough"))

    error, nothing = in_parallel([wait, close])
    assert isinstance(error, RuntimeError | LinkClosedError)
    assert nothing is None
    transports[1].close()


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    transports = opened(3)
    assert threading.active_count() == before + 3
    exchange(transports, [[(0, b"x")]] * 3)
    assert threading.active_count() == before


def test_a_transport_that_was_never_connected_can_be_closed() -> None:
    transport = Transport(0, 2)
    transport.close()
    transport = Transport(0, 2)
    transport.listen()
    transport.close()
    assert transport.leaked_segments == 0


def test_a_peer_that_does_not_come_is_named() -> None:
    config = TransportConfig(limits=ConnectionLimits(connect_timeout_s=0.2))
    with Transport(0, 2, config) as transport:
        own = transport.listen()
        with pytest.raises(HandshakeError, match="1"):
            transport.connect([own, own], fresh_secret())


def test_debloating_announces_sizes_over_tcp() -> None:
    network = with_options(
        NetworkConfig(), {"segment_bytes": 4096, "debloat_enabled": True, "debloat_period_s": 0.001}
    )
    transports = opened(2, TransportConfig(network=network))

    def write_all() -> None:
        while transports[0]._endpoint._subpartitions[1].buffer_size == network.starting_segment_bytes:
            transports[0].write([(1, bytes(1000))])
        transports[0].finish_writing()

    def read_all(index: int) -> None:
        while transports[index].read() is not None:
            pass
        transports[index].close()

    results = in_parallel([write_all, transports[1].finish_writing, lambda: read_all(0), lambda: read_all(1)])
    assert results == [None] * 4
