"""Watermarks among records: their bytes, and how they are found again in a stream of buffers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import (
    WATERMARK_BYTES,
    CorruptRecord,
    RecordBlock,
    RecordDecoder,
    encode_behind,
    encode_watermark,
    split_at_watermarks,
    watermark_at,
    watermark_places,
)

TIMES = st.integers(-(1 << 63), (1 << 63) - 1)
ELEMENTS = st.lists(st.one_of(st.binary(max_size=300), st.binary(min_size=9, max_size=9), TIMES), max_size=40)


def encoded(element: bytes | int) -> bytes:
    if isinstance(element, int):
        return encode_watermark(element)
    return RecordBlock.from_payloads([element]).data.tobytes()


def elements_of(block: RecordBlock) -> list[bytes | int]:
    places = set(watermark_places(block))
    return [
        watermark_at(block, place) if place in places else bytes(block.payload(place))
        for place in range(len(block))
    ]


def test_a_watermark_takes_the_bytes_that_it_takes_in_flink() -> None:
    assert encode_watermark(0x0102) == bytes.fromhex("80000009 02 0000000000000102")
    assert len(encode_watermark(-1)) == WATERMARK_BYTES == 4 + 1 + 8


def test_a_record_with_the_bytes_of_a_watermark_is_a_record() -> None:
    looks_like_one = encode_watermark(5)[4:]
    block = RecordDecoder(watermarks=True).feed(encoded(looks_like_one) + encode_watermark(5))
    assert elements_of(block) == [looks_like_one, 5]


def test_nobody_who_does_not_ask_for_watermarks_gets_one() -> None:
    with pytest.raises(CorruptRecord):
        RecordDecoder().feed(encode_watermark(5))
    with pytest.raises(CorruptRecord):
        RecordDecoder(watermarks=True).feed(b"\x80\x00\x00\x0a" + bytes(10))


@given(elements=ELEMENTS, cuts=st.lists(st.integers(0, 4000), max_size=8))
def test_elements_are_found_again_in_their_order_wherever_buffers_end(
    elements: list[bytes | int], cuts: list[int]
) -> None:
    stream = b"".join(map(encoded, elements))
    ends = [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    decoder, found, start = RecordDecoder(watermarks=True), list[bytes | int](), 0
    for end in ends:
        block = decoder.feed(stream[start:end])
        found += elements_of(block)
        start = end
    assert found == elements
    assert decoder.pending_bytes == 0


@given(elements=ELEMENTS)
def test_what_is_cut_off_a_block_keeps_its_watermarks(elements: list[bytes | int]) -> None:
    block = RecordDecoder(watermarks=True).feed(b"".join(map(encoded, elements)))
    for start in range(0, len(elements), 7):
        assert elements_of(block[start:]) == elements[start:]
        assert elements_of(block[:start]) == elements[:start]


@given(elements=ELEMENTS)
def test_a_block_is_split_into_records_and_watermarks_and_encoded_as_it_was(
    elements: list[bytes | int],
) -> None:
    data = b"".join(map(encoded, elements))
    parts = split_at_watermarks(RecordDecoder(watermarks=True).feed(data))
    found = list[bytes | int]()
    for records, watermark in parts:
        found += map(bytes, records.payloads())
        found += [] if watermark is None else [watermark]
    assert found == elements
    assert (parts[0][0].data.tobytes() + encode_behind(parts), parts[-1][1]) == (data, None)
