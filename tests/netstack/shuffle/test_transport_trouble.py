"""Transports that are used wrongly, closed early, or broken."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable

import pytest

from buffers import DEFAULT_MAX_RECORD_BYTES, InsufficientBuffers
from flowcontrol import ErrorResponse, wire_size
from netstack import (
    ConnectionLimits,
    LinkClosedError,
    NetworkConfig,
    PeerFailedError,
    Transport,
    TransportConfig,
    fresh_secret,
    with_options,
)
from tests.netstack.shuffle.test_transport import exchange, in_parallel, opened

SEGMENT_BYTES = 4096


def with_segments(count: int) -> TransportConfig:
    options = {"segment_bytes": SEGMENT_BYTES, "network_memory_max_bytes": count * SEGMENT_BYTES}
    return TransportConfig(network=with_options(NetworkConfig(), options))


def close_all(transports: list[Transport]) -> None:
    assert in_parallel([transport.close for transport in transports]) == [None] * len(transports)
    assert [transport.leaked_segments for transport in transports] == [0] * len(transports)


def read_to_the_end(transport: Transport) -> None:
    while transport.read() is not None:
        pass


@pytest.mark.parametrize("target", [-2, 2])
def test_a_target_that_does_not_exist_is_refused(target: int) -> None:
    transports = opened(2)
    with pytest.raises(ValueError, match=f"the target {target} does not exist among 2"):
        transports[0].write([(1, b"first"), (target, b"lost"), (1, b"behind")])
    assert exchange(transports, [[(1, b"second")], []]) == [[], [b"first", b"second"]]


def test_a_channel_that_fails_at_its_producer_fails_the_exchange_of_both() -> None:
    transports = opened(2)
    error = ErrorResponse("no disk", channel=1)  # by which process 1 reads from process 0

    async def fail_channel() -> None:
        transports[0]._endpoint.links[1].producing.write(wire_size(error), None, error)

    transports[0]._call(fail_channel)
    for transport in reversed(transports):
        with pytest.raises(PeerFailedError, match="no disk"):
            transport.read()
        with pytest.raises(PeerFailedError, match="no disk"):
            transport.write([(0, b"record")])
    for transport in transports:
        transport.close(RuntimeError("failed"))
        assert transport.leaked_segments == 0


def test_nothing_can_be_written_after_the_last_record() -> None:
    transports = opened(2)
    transports[0].finish_writing()
    with pytest.raises(LinkClosedError, match="task 0: a record cannot be sent after the last one"):
        transports[0].write([(1, b"late")])
    close_all(transports)


def test_a_record_that_no_reader_would_take_is_refused_where_it_is_written() -> None:
    transports = opened(2)
    with pytest.raises(ValueError, match="at most 268435456 bytes"):
        transports[0].write([(1, bytes(DEFAULT_MAX_RECORD_BYTES + 1))])
    close_all(transports)


def test_a_view_of_wider_items_is_all_its_bytes() -> None:
    transports = opened(2)
    transports[0].write([(1, memoryview(bytes(range(16))).cast("Q"))])
    assert exchange(transports, [[], []]) == [[], [bytes(range(16))]]


def test_records_written_before_the_connection_take_no_memory_of_the_channels() -> None:
    config = with_segments(10)
    secret = fresh_secret()
    transports = [Transport(index, 2, config) for index in range(2)]
    addresses = [transport.listen() for transport in transports]
    records = [(1, bytes(100_000))]
    written = threading.Thread(target=transports[0].write, args=(records,))
    written.start()
    while transports[0].statistics().buffers_sent < 5:  # all that the pool has
        pass
    connected = in_parallel([lambda t=transport: t.connect(addresses, secret) for transport in transports])  # type: ignore[misc]
    assert connected == [None, None]
    assert in_parallel([written.join, lambda: list(map(bytes, transports[1].read() or ()))])[1] == [
        bytes(100_000)
    ]
    close_all(transports)


def test_too_little_memory_is_told_before_anything_is_connected() -> None:
    with pytest.raises(InsufficientBuffers):
        Transport(0, 4, with_segments(9))
    with pytest.raises(ValueError, match="max_buffers_per_channel must be at least 2"):
        TransportConfig(network=with_options(NetworkConfig(), {"max_buffers_per_channel": 1}))


def test_a_process_without_descriptors_cannot_listen() -> None:
    transport = Transport(0, 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            transport.listen()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    transport.close()


@pytest.mark.parametrize("index", [0, 1])
def test_closing_ends_a_connect_that_waits_for_a_peer(index: int) -> None:
    config = TransportConfig(limits=ConnectionLimits(connect_timeout_s=300))
    transport = Transport(index, 2, config)
    own = transport.listen()
    begun = threading.Event()

    def connect() -> None:
        begun.set()
        transport.connect([own, own], fresh_secret())

    def close() -> None:
        begun.wait()
        transport.close()

    error, nothing = in_parallel([connect, close])
    assert isinstance(error, LinkClosedError)
    assert nothing is None


def test_several_threads_may_close_and_look_at_the_statistics() -> None:
    for finished in (True, False):
        transports = opened(2)
        if finished:
            exchanged = [work for t in transports for work in (t.finish_writing, lambda t=t: t.read())]
            assert in_parallel(exchanged) == [None] * 4

        def look(transport: Transport) -> None:
            for _ in range(20):
                assert transport.statistics().buffers_sent == 4 * finished  # noqa: B023

        work: list[Callable[[], object]] = [t.close for t in transports for _ in range(3)]
        work += [lambda t=transport: look(t) for transport in transports]  # type: ignore[misc]
        assert in_parallel(work) == [None] * 8


def test_statistics_are_there_before_it_listens() -> None:
    statistics = Transport(0, 2).statistics()
    assert (statistics.records_sent, statistics.credit_blocked_s) == (0, 0)


def test_who_closes_learns_that_a_peer_has_failed_before_it_had_read_everything() -> None:
    transports = opened(2)
    transports[1].finish_writing()
    transports[0].write([(1, b"never read")])
    transports[0].finish_writing()
    assert transports[0].read() is None
    error, nothing = in_parallel([transports[0].close, lambda: transports[1].close(ValueError("no day"))])
    assert isinstance(error, PeerFailedError)
    assert str(error) == "task 1 failed: ValueError: no day"
    assert nothing is None
    close_all(transports)


def test_a_cause_that_is_no_unicode_still_reaches_the_peers() -> None:
    transports = opened(2)
    transports[0].close(OSError("no file 'a\udcff'"))
    with pytest.raises(PeerFailedError, match=r"OSError: no file 'a\\udcff'"):
        transports[1].read()
    close_all(transports)


@pytest.mark.interpreted
@pytest.mark.parametrize("where", ["receiving", "flushing"])
def test_a_defect_in_the_network_thread_is_told_to_everybody(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transports = opened(3)

    def break_down(*_: object) -> None:
        raise AssertionError("boom")

    endpoint = transports[1]._endpoint
    if where == "receiving":
        monkeypatch.setattr(endpoint.links[0].consuming.receiver, "place", break_down)
    else:
        monkeypatch.setattr(endpoint._partition, "flush", break_down)
    transports[0].write([(1, bytes(9000))])
    results = in_parallel([lambda t=transport: read_to_the_end(t) for transport in transports])  # type: ignore[misc]
    error = results.pop(1)
    assert isinstance(error, AssertionError)
    assert [str(told) for told in results] == ["task 1 failed: AssertionError: boom"] * 2
    assert all(isinstance(told, PeerFailedError) for told in results)
    close_all(transports)
