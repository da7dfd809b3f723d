import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from buffers import RecordBlock

PAYLOADS = st.lists(st.binary(max_size=12), max_size=30) | st.integers(0, 9).flatmap(
    lambda length: st.lists(st.binary(min_size=length, max_size=length), max_size=30)
)
"""Records of any lengths, and of equal ones."""


def encode(payloads: list[bytes]) -> bytes:
    """The encoding, spelled out."""
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def payloads_of(block: RecordBlock) -> list[bytes]:
    return [bytes(payload) for payload in block.payloads()]


def check(block: RecordBlock, payloads: list[bytes]) -> None:
    """Everything a block tells about itself agrees with `payloads`."""
    encoded = [encode([payload]) for payload in payloads]
    sizes = [len(record) for record in encoded]
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    assert len(block) == len(payloads)
    assert block.data.tobytes() == b"".join(encoded)
    assert block.data.dtype == np.uint8
    assert block.nbytes == sum(sizes)
    assert payloads_of(block) == payloads
    assert [bytes(block.payload(index)) for index in range(len(block))] == payloads
    assert [bytes(block.encoded(index)) for index in range(len(block))] == encoded
    assert [block.size(index) for index in range(len(block))] == sizes == block.sizes().tolist()
    assert block.starts.tolist() == [0, *ends][: len(sizes)]
    assert block.ends.tolist() == ends
    assert block.stride == 0 or set(sizes) == {block.stride}
    assert not block.data.flags.writeable


@given(payloads=PAYLOADS)
def test_payloads_are_encoded_behind_their_lengths(payloads: list[bytes]) -> None:
    block = RecordBlock.from_payloads(payloads)
    check(block, payloads)
    assert bool(block.stride) == (len({len(payload) for payload in payloads}) == 1)


@given(payloads=PAYLOADS | st.lists(st.binary(max_size=2000), max_size=5))
def test_concatenated_payloads_with_their_lengths_give_the_same(payloads: list[bytes]) -> None:
    lengths = [len(payload) for payload in payloads]
    block = RecordBlock.from_lengths(b"".join(payloads), lengths)
    check(block, payloads)
    assert block.stride == RecordBlock.from_payloads(payloads).stride


def test_long_records_of_different_lengths() -> None:
    payloads = [bytes([number]) * (1000 + number) for number in range(9)]
    check(RecordBlock.from_lengths(b"".join(payloads), [len(payload) for payload in payloads]), payloads)


@given(count=st.integers(0, 20), length=st.integers(0, 20), data=st.data())
def test_the_rows_of_a_matrix_become_records(count: int, length: int, data: st.DataObject) -> None:
    flat = data.draw(st.binary(min_size=count * length, max_size=count * length))
    matrix = np.frombuffer(flat, dtype=np.uint8).reshape(count, length)
    check(RecordBlock.from_matrix(matrix), [bytes(row) for row in matrix])


def test_a_matrix_need_not_be_contiguous() -> None:
    matrix = np.arange(48, dtype=np.uint8).reshape(6, 8)[::2, 1:5]
    check(RecordBlock.from_matrix(matrix), [bytes(row) for row in matrix])


def test_payloads_may_come_from_views() -> None:
    assert payloads_of(RecordBlock.from_payloads([memoryview(b"abc")[1:], b"d"])) == [b"bc", b"d"]


@given(payloads=PAYLOADS, data=st.data())
def test_a_slice_holds_its_records_without_copying(payloads: list[bytes], data: st.DataObject) -> None:
    block = RecordBlock.from_payloads(payloads)
    part = data.draw(st.slices(len(payloads)).filter(lambda part: part.step in (None, 1)))
    check(block[part], payloads[part])
    if len(block[part]):
        assert np.shares_memory(block[part].data, block.data)
        check(block[part][1:], payloads[part][1:])


@given(payloads=PAYLOADS.filter(len), data=st.data())
def test_records_can_be_taken_in_any_order(payloads: list[bytes], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(-len(payloads), len(payloads) - 1), max_size=40))
    taken = RecordBlock.from_payloads(payloads).take(indices)
    check(taken, [payloads[index] for index in indices])


@given(groups=st.lists(PAYLOADS, max_size=5))
@example(groups=[[b"ab"], [b"cd", b"ef"]])
@example(groups=[[b"ab"], [b"c"]])
def test_blocks_can_be_joined(groups: list[list[bytes]]) -> None:
    joined = RecordBlock.concat([RecordBlock.from_payloads(group) for group in groups])
    check(joined, [payload for group in groups for payload in group])


def test_joined_blocks_of_one_length_keep_their_stride() -> None:
    blocks = [
        RecordBlock.from_payloads([b"ab"]),
        RecordBlock.from_payloads([]),
        RecordBlock.from_payloads([b"cd"]),
    ]
    assert RecordBlock.concat(blocks).stride == 6


@given(payloads=PAYLOADS, data=st.data())
def test_the_span_of_records_is_the_sum_of_their_sizes(payloads: list[bytes], data: st.DataObject) -> None:
    stop = data.draw(st.integers(0, len(payloads)))
    start = data.draw(st.integers(0, stop))
    assert RecordBlock.from_payloads(payloads).span(start, stop) == len(encode(payloads[start:stop]))


@pytest.mark.parametrize("payloads", [[b"ab", b"cd"], [b"ab", b"c"]])
def test_records_are_indexed_like_a_sequence(payloads: list[bytes]) -> None:
    block = RecordBlock.from_payloads(payloads)
    assert bytes(block.payload(-1)) == payloads[-1]
    for index in (2, -3):
        with pytest.raises(IndexError, match=" does not exist in a block of 2 records"):
            block.payload(index)


def test_a_slice_with_another_step_is_an_error() -> None:
    with pytest.raises(ValueError, match="step 1, got 2"):
        RecordBlock.from_payloads([b"a", b"b"])[::2]


@pytest.mark.parametrize(
    ("payload", "lengths"), [(b"abc", [1, 1]), (b"abc", []), (b"abc", [4, -1]), (b"", [1])]
)
def test_lengths_that_do_not_fit_are_an_error(payload: bytes, lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=" lengths do not add up to the "):
        RecordBlock.from_lengths(payload, lengths)


@pytest.mark.parametrize("shape", [(4,), (1, 2, 2)])
def test_a_matrix_has_two_dimensions(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="2-D uint8"):
        RecordBlock.from_matrix(np.zeros(shape, dtype=np.uint8))


def test_a_matrix_holds_bytes() -> None:
    with pytest.raises(ValueError, match="int64"):
        RecordBlock.from_matrix(np.zeros((1, 1), dtype=np.int64))


@pytest.mark.parametrize(
    "payloads", [[b"abcd", b"efgh", b"ijkl"], [b"a", b"bcd", b"efghijkl"], [b"abcd"], []], ids=str
)
@pytest.mark.parametrize("size", [2, 6])
def test_resized_records_are_cut_or_filled(payloads: list[bytes], size: int) -> None:
    resized = RecordBlock.from_payloads(payloads).resized(size, filler=ord("."))
    assert list(resized.payloads()) == [payload[:size].ljust(size, b".") for payload in payloads]
