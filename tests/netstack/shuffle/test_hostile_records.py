"""A proven peer whose buffers hold no records, or no events: whatever they hold, all memory comes back."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from buffers import CorruptRecord
from flowcontrol import BufferResponse, DataType, EndOfPartition, RemoteProtocolError, encode, encode_event
from netstack import ConnectionLimits, NetworkConfig, TransportConfig, TransportError, with_options
from netstack.exchange.tcp_link import TcpLink
from netstack.shuffle.endpoint import Endpoint

SEGMENT_BYTES = 256
CONFIG = TransportConfig(network=with_options(NetworkConfig(), {"segment_bytes": SEGMENT_BYTES}))
PATIENT = ConnectionLimits(keep_alive_s=300)
CHANNEL = 2
"""By which process 0 of two reads from process 1."""

Item = tuple[DataType, bytes]

NEGATIVE, TOO_LONG = struct.pack(">i", -1), struct.pack(">I", 256 * 1024 * 1024 + 1)


def record(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


async def read_what_comes(items: list[Item]) -> tuple[list[bytes], Exception | None]:
    """Let a peer send `items`; returns the records that were read, and what ended the reading."""
    ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
    endpoint = Endpoint(0, 2, CONFIG)
    link = TcpLink(ours, PATIENT, "the peer")
    link.on_error = endpoint.fail
    endpoint.attach(1, link)
    endpoint.open()
    records: list[bytes] = []
    error: Exception | None = None

    async def serve() -> None:
        with suppress(TransportError, RemoteProtocolError):
            await link.run()

    async def read() -> None:
        nonlocal error
        try:
            while (block := await endpoint.read()) is not None:
                records.extend(map(bytes, block))
        except (TransportError, RemoteProtocolError, CorruptRecord) as caught:
            error = caught

    async with theirs, trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        nursery.start_soon(read)
        with suppress(trio.BrokenResourceError):
            for number, (data_type, payload) in enumerate(items):
                await theirs.send_all(
                    encode(BufferResponse(CHANNEL, 0, number, 0, data_type, False, payload))
                )
                await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert endpoint.release() == 0
    return records, error


@pytest.mark.parametrize("length", [NEGATIVE, TOO_LONG])
@pytest.mark.parametrize("before", [b"", record(b"first")])
def test_a_corrupt_length_ends_the_reading_and_leaves_no_segment_behind(length: bytes, before: bytes) -> None:
    items = [(DataType.DATA_BUFFER, before), (DataType.DATA_BUFFER, length + bytes(8))]
    records, error = trio.run(read_what_comes, items)
    assert isinstance(error, CorruptRecord)
    assert records == ([b"first"] if before else [])


pieces = st.one_of(
    st.binary(max_size=60).map(record),
    st.binary(max_size=20),
    st.sampled_from([NEGATIVE, TOO_LONG, struct.pack(">I", 300), encode_event(EndOfPartition())]),
)
items = st.tuples(
    st.sampled_from([*[DataType.DATA_BUFFER] * 4, DataType.EVENT_BUFFER, DataType.PRIORITIZED_EVENT_BUFFER]),
    st.lists(pieces, max_size=4).map(b"".join).map(lambda data: data[:SEGMENT_BYTES]),
)


@given(st.lists(items, max_size=12))
@example([(DataType.DATA_BUFFER, NEGATIVE)])
@example([(DataType.DATA_BUFFER, record(b"x")), (DataType.EVENT_BUFFER, b"?")])
@settings(max_examples=150)
def test_in_whichever_way_decoding_fails_all_memory_comes_back(items: list[Item]) -> None:
    trio.run(read_what_comes, items)
