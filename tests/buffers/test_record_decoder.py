import random
import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from buffers import Bytes, CorruptRecord, NetworkBufferPool, RecordBlock, RecordDecoder
from tests.vectors import flink_vectors

VECTORS = flink_vectors("serialization_spanning_records")

SHORT = st.binary(max_size=20)
LONG = st.integers(250, 700).map(lambda length: bytes(length))
EQUAL = st.binary(min_size=9, max_size=9)
PAYLOADS = st.lists(SHORT | LONG, max_size=25) | st.lists(SHORT, max_size=40) | st.lists(EQUAL, max_size=40)
"""Records for each way of decoding, and for the changes between them."""


def decode(portions: Iterable[bytes | memoryview | Bytes], decoder: RecordDecoder) -> list[bytes]:
    return [bytes(payload) for portion in portions for payload in decoder.feed(portion).payloads()]


def cut(stream: bytes, size: int) -> list[bytes]:
    return [stream[start : start + size] for start in range(0, len(stream), size)]


def encode(payloads: Sequence[bytes]) -> bytes:
    return RecordBlock.from_payloads(payloads).data.tobytes()


@pytest.mark.parametrize("scenario", VECTORS.values(), ids=VECTORS)
def test_flinks_spanning_records(scenario: dict[str, Any]) -> None:
    given_ = scenario["given"]
    chosen = random.Random(1)
    length = given_.get("payload_bytes")
    payloads = [
        chosen.randbytes(chosen.randrange(300) if length is None else length)
        for _ in range(given_["records"])
    ]
    stream = encode(payloads)
    assert len(stream) == sum(len(payload) + given_["overhead_bytes"] for payload in payloads)
    segment = NetworkBufferPool(1, given_["segment_size"]).request_pooled()
    assert segment is not None
    decoder = RecordDecoder()
    blocks = []
    for portion in cut(stream, segment.size):
        # One segment for all: nothing that was decoded may still refer to it.
        segment.memory[: len(portion)] = portion
        blocks.append(decoder.feed(segment.memory[: len(portion)]))
        segment.memory[:] = bytes(segment.size)
    decoded = [bytes(payload) for block in blocks for payload in block.payloads()]
    assert scenario["expect"] == {
        "all_equal_in_order": decoded == payloads,
        "left_over_records": len(payloads) - len(decoded),
        "serializer_has_data": False,  # a block is encoded at once
        "deserializer_unfinished": decoder.pending_bytes > 0,
    }


@given(payloads=PAYLOADS, size=st.integers(1, 200))
def test_records_come_back_from_segments_of_any_size(payloads: list[bytes], size: int) -> None:
    decoder = RecordDecoder()
    assert decode(cut(encode(payloads), size), decoder) == payloads
    assert decoder.pending_bytes == 0


@given(payloads=PAYLOADS, data=st.data())
def test_every_record_comes_with_the_portion_that_completes_it(
    payloads: list[bytes], data: st.DataObject
) -> None:
    stream = encode(payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    ends = RecordBlock.from_payloads(payloads).ends.tolist()
    decoder = RecordDecoder()
    done = 0
    for start, stop in pairwise([0, *cuts, len(stream)]):
        block = decoder.feed(memoryview(stream)[start:stop])
        complete = sum(end <= stop for end in ends)
        assert [bytes(payload) for payload in block.payloads()] == payloads[done:complete]
        assert decoder.pending_bytes == stop - (ends[complete - 1] if complete else 0)
        assert block.stride in (0, *{len(payload) + 4 for payload in payloads[done:complete]})
        assert block.stride == 0 or block.stride * len(block) == block.nbytes
        done = complete


@given(payloads=PAYLOADS, size=st.integers(1, 200))
def test_arrays_are_decoded_like_views(payloads: list[bytes], size: int) -> None:
    portions = [np.frombuffer(portion, dtype=np.uint8) for portion in cut(encode(payloads), size)]
    assert decode(portions, RecordDecoder()) == payloads


def test_equal_records_give_a_block_with_a_stride() -> None:
    decoder = RecordDecoder()
    stream = encode([b"abcd"] * 10)
    first, second = decoder.feed(stream[:37]), decoder.feed(stream[37:])
    assert [(len(block), block.stride) for block in (first, second)] == [(4, 8), (6, 8)]


@pytest.mark.parametrize("lengths", [(100, 5, 5), (100, 100, 5), (5, 100), (5, 5, 100, 5), (5, 0), (0, 0, 1)])
def test_a_shorter_record_behind_equal_ones_is_not_held_back(lengths: tuple[int, ...]) -> None:
    payloads = [bytes(length) for length in lengths]
    assert decode([encode(payloads)], RecordDecoder()) == payloads


def test_short_records_between_long_ones() -> None:
    payloads = [bytes(length) for length in (1, 255, 256, 2, 65536, 3, 70000, 255)]
    decoder = RecordDecoder()
    assert decode([encode(payloads), encode(payloads[:2])], decoder) == payloads + payloads[:2]


def test_a_record_over_many_portions_is_gathered() -> None:
    payload = random.Random(2).randbytes(100_000)
    decoder = RecordDecoder()
    assert decode(cut(encode([b"x", payload, b"y"]), 1000), decoder) == [b"x", payload, b"y"]


def test_a_header_may_be_split_anywhere() -> None:
    stream = encode([b"abc", b"defg"])
    for size in range(1, len(stream)):
        decoder = RecordDecoder()
        assert decode([stream[:size], stream[size:]], decoder) == [b"abc", b"defg"]


def test_an_empty_portion_changes_nothing() -> None:
    decoder = RecordDecoder()
    assert len(decoder.feed(b"")) == 0
    decoder.feed(b"\0\0")
    assert len(decoder.feed(b"")) == 0
    assert decoder.pending_bytes == 2


@pytest.mark.parametrize("before", [[], [b"abc"], [b"abc", b"de"], [b"abc"] * 3, [bytes(300), b"a"]])
@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
@pytest.mark.parametrize("behind", [0, 3, 2000])
def test_an_impossible_length_is_an_error_that_changes_nothing(
    before: list[bytes], length: int, behind: int
) -> None:
    decoder = RecordDecoder(max_record_bytes=1000)
    good = encode(before)
    with pytest.raises(
        CorruptRecord,
        match=f" of the stream has a length of {length} bytes; its length must be from 0 to 1000",
    ) as caught:
        decoder.feed(good + struct.pack(">i", length) + bytes(behind))
    assert (caught.value.length, caught.value.position) == (length, len(good))
    assert decoder.pending_bytes == 0
    assert decode([good], decoder) == before


def test_a_header_that_completes_to_an_impossible_length_is_an_error() -> None:
    decoder = RecordDecoder()
    decoder.feed(b"\xff\xff\xff")
    with pytest.raises(
        CorruptRecord,
        match="the record at byte 0 of the stream has a length of -2 bytes; its length must be from 0 to ",
    ):
        decoder.feed(b"\xfe")
    assert decoder.pending_bytes == 3


def test_the_position_of_an_error_counts_from_the_start_of_the_stream() -> None:
    decoder = RecordDecoder()
    decoder.feed(encode([b"first"]) + b"\0\0")
    with pytest.raises(CorruptRecord, match="the record at byte 14 of the stream has a length of "):
        decoder.feed(b"\0\1a" + b"\xff" * 4)
    assert decoder.pending_bytes == 2


def test_the_longest_possible_record_is_no_error() -> None:
    payload = bytes(1000)
    assert decode([encode([payload, b"a"])], RecordDecoder(max_record_bytes=1000)) == [payload, b"a"]


@given(stream=st.binary(max_size=300), size=st.integers(1, 50))
@example(stream=b"\0\0\0\1a\0\0\1\0" + bytes(100), size=50)
def test_any_bytes_give_records_or_an_error(stream: bytes, size: int) -> None:
    decoder = RecordDecoder(max_record_bytes=100)
    decoded = 0
    for portion in cut(stream, size):
        pending = decoder.pending_bytes
        try:
            block = decoder.feed(portion)
        except CorruptRecord:
            assert decoder.pending_bytes == pending
            break
        assert block.data.tobytes() == stream[decoded : decoded + block.nbytes]
        decoded += block.nbytes
        assert decoder.pending_bytes == pending + len(portion) - block.nbytes
