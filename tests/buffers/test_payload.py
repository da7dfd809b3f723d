"""Records without bytes stand for definite ones, whatever they are mixed with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import BlankBytes, BufferBuilder, Content, NetworkBufferPool, Pieces, RecordBlock, RecordDecoder
from buffers.buffer import BufferConsumer

SIZE = 64
BLOCKS = st.lists(
    st.tuples(st.booleans(), st.integers(1, 6), st.sampled_from([4, 5, 13, 13, 13, 100])), max_size=12
)
"""Runs of records: whether they are blank, how many, and how long each is."""


def zeros(count: int, stride: int) -> RecordBlock:
    return RecordBlock.from_payloads([bytes(stride - 4)] * count)


@given(st.integers(4, 40), st.integers(0, 100), st.data())
def test_they_are_what_records_of_zeros_are(stride: int, size: int, data: st.DataObject) -> None:
    phase = data.draw(st.integers(0, stride - 1))
    everything = zeros((phase + size) // stride + 1, stride).data.tobytes()
    blank = BlankBytes(phase, size, stride)
    assert bytes(blank) == everything[phase : phase + size]
    count = data.draw(st.integers(0, size))
    end = data.draw(st.integers(0, size + 1))
    assert bytes(blank[count:]) == everything[phase + count : phase + size]
    assert bytes(blank[count:end]) == everything[phase : phase + size][count:end]
    assert len(blank[count:]) == size - count


def test_a_block_is_blank_until_somebody_asks() -> None:
    block = RecordBlock.blank(5, 13)
    resized = block.resized(12, filler=0x2E)
    parts = [block[1:3], block.take([4, 0]), RecordBlock.concat([block[:2], block[3:]]), resized, block[2:2]]
    assert [part.is_blank for part in parts] == [True, True, True, True, False]
    assert [(len(part), part.nbytes) for part in parts] == [(2, 26), (2, 26), (4, 52), (5, 80), (0, 0)]
    assert block.is_blank
    assert block.span(1, 4) == 39
    mixed = RecordBlock.concat([block, RecordBlock.from_payloads([b"abc"])])
    assert [bytes(payload) for payload in mixed.payloads()] == [bytes(9)] * 5 + [b"abc"]
    assert bytes(block.payload(3)) == bytes(9)
    assert not block.is_blank
    with pytest.raises(
        ValueError, match="a record must have at least 4 bytes, its header, but the stride is 3"
    ):
        RecordBlock.blank(1, 3)


class Writer:
    """Writes records into buffers of `SIZE` bytes, as a result partition does, and cuts slices in between."""

    def __init__(self) -> None:
        self.pool = NetworkBufferPool(200, SIZE)
        self.builder: BufferBuilder | None = None
        self.consumer: BufferConsumer
        self.read = bytearray()
        self.payloads: list[memoryview | BlankBytes] = []

    def write(self, block: RecordBlock, blank: bool) -> None:
        for index in range(len(block)):
            size, rest = block.size(index), None
            if self.builder is not None and self.builder.position + size < SIZE and not blank:
                self.builder.note(block, index, size)
                continue
            record: memoryview | BlankBytes = (
                BlankBytes(0, size, size) if blank else memoryview(block.encoded(index))
            )
            while rest is None or len(rest):
                if self.builder is None:
                    segment = self.pool.request_pooled()
                    assert segment is not None
                    self.builder = BufferBuilder(segment, self)
                    self.consumer = self.builder.consumer()
                rest = record if rest is None else rest
                copied = self.builder.append(rest)
                rest = rest[copied:]
                if self.builder.room == 0:
                    self.cut(finish=True)

    def cut(self, finish: bool = False) -> None:
        if self.builder is not None:
            unread = bytes(self.consumer.copy_unread())
            piece = self.consumer.build()
            assert bytes(piece.payload) == unread
            self.payloads.append(piece.payload)
            self.read += unread
            if finish:
                self.builder.finish()
                self.builder = None

    def recycle(self, segment: object, subpartition: int = -1) -> None:
        """Keep every segment as it is, since the views into it are compared in the end."""


@given(BLOCKS, st.sets(st.integers(0, 12)))
def test_buffers_and_decoders_take_them_among_others(
    blocks: Sequence[tuple[bool, int, int]], cuts: set[int]
) -> None:
    writer, sizes, stream = Writer(), list[int](), b""
    for number, (blank, count, stride) in enumerate(blocks):
        block = zeros(count, stride) if blank else RecordBlock.from_payloads([b"x" * (stride - 4)] * count)
        writer.write(block, blank)
        sizes += [stride] * count
        stream += block.data.tobytes()
        if number in cuts:
            writer.cut()
    writer.cut()
    assert bytes(writer.read) == stream
    decoder, decoded, begun = RecordDecoder(), list[RecordBlock](), 0
    for payload in writer.payloads:
        decoded.append(decoder.feed(payload))
        begun += len(payload) - decoded[-1].nbytes
        assert decoder.pending_bytes == len(decoder.pending) == begun
    assert [size for block in decoded for size in block.sizes().tolist()] == sizes
    assert b"".join(block.data.tobytes() for block in decoded) == stream
    if all(blank for blank, _, _ in blocks) and len({stride for *_, stride in blocks}) == 1:
        assert all(isinstance(payload, BlankBytes) for payload in writer.payloads)


CONTENTS = st.one_of(
    st.binary(max_size=5),
    st.builds(BlankBytes, st.integers(0, 4), st.integers(0, 9), st.sampled_from([5, 6])),
)


@given(st.lists(CONTENTS, max_size=6))
def test_pieces_are_the_bytes_of_all_of_them(contents: list[Content]) -> None:
    pieces = Pieces(contents[:3])
    pieces.extend(contents[3:])
    everything = b"".join(map(bytes, contents))
    assert (bytes(pieces), len(pieces)) == (everything, len(everything))
    assert pieces.blank == any(isinstance(each, BlankBytes) and each.size for each in contents)
    again = Pieces(pieces)
    assert (bytes(again), again.description) == (everything, pieces.description)


@given(st.lists(CONTENTS, max_size=4), st.lists(CONTENTS, max_size=4))
def test_pieces_that_are_described_alike_are_the_same_bytes(one: list[Content], other: list[Content]) -> None:
    if Pieces(one).description == Pieces(other).description:
        assert bytes(Pieces(one)) == bytes(Pieces(other))


def test_blank_pieces_that_go_on_one_another_are_one() -> None:
    whole = BlankBytes(3, 40, 13)
    cut = [BlankBytes(3, 11, 13), b"", whole[11:], b"x", whole, BlankBytes(0, 5, 13)]
    assert [len(each) for each in Pieces(cut)] == [40, 1, 40, 5]
