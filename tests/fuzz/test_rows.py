"""Doors of rows: pieces of a shuffle, rows as records, records in buffers; and messages between processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from buffers import CorruptRecord, RecordBlock, RecordDecoder
from flowcontrol import RemoteProtocolError
from integration import RowCodec
from integration.base.errors import PieceError
from integration.spark.shuffling.blocks import PartitionBlocks
from integration.spark.shuffling.pieces import Compression, Merger, decode_piece, encode_piece, with_ends
from netstack import Report, decode_report, encode_report
from netstack.cluster.control_messages import decode_control, encode_control
from tests.netstack.cluster.test_control_messages import MESSAGES

from .damage import EDGES, cuts, damaged, door, pieces, refused

SCHEMA = pa.schema(
    [
        ("whole", pa.int64()),
        ("small", pa.int8()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("yes", pa.bool_()),
        ("number", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("list", pa.list_(pa.int32())),
        ("struct", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("none", pa.null()),
    ]
)
"""A column of each type."""

PARTITIONS = 3


def _batches() -> Sequence[pa.RecordBatch]:
    """Rows of that schema: none, one, and some."""
    row: dict[str, Any] = {"whole": 5, "small": -1, "text": "\u20ac", "bytes": b"\xff\0", "yes": True}
    row |= {"number": 1.5, "list": [1, None], "struct": {"a": 1, "b": "x"}, "map": [("k", 1)]}
    rows: list[dict[str, Any]] = [row | {"whole": number} for number in range(40)]
    rows[3] = {}
    return [pa.RecordBatch.from_pylist(rows[:count], schema=SCHEMA) for count in (0, 1, 4, 40)]


BATCHES = _batches()
KINDS: tuple[Compression | None, ...] = (None, "lz4", "zstd")
PIECES = [bytes(encode_piece(batch, kind)) for kind in KINDS for batch in BATCHES]


@st.composite
def shuffled(draw: st.DrawFn) -> tuple[bytes, bool]:
    """A damaged piece of a shuffle, and whether the ends of partitions follow it."""
    data = draw(damaged(st.sampled_from(PIECES)))
    if not draw(st.booleans()):
        return data, False
    ends = sorted(draw(st.sampled_from((0, 1, 4, 40))) for _ in range(PARTITIONS))
    return bytes(with_ends(memoryview(data), np.array(ends, dtype=np.int64))), True


@door(shuffled())
def test_pieces(data: bytes, with_ends: bool) -> bool:
    """A piece is rows that can be joined with others and encoded again, or is refused."""
    right = PIECES[1]
    try:
        if with_ends:
            blocks = PartitionBlocks(SCHEMA, range(PARTITIONS), 1 << 20)
            given = [*blocks.add(data), *blocks.flush()]
            assert all(batch.num_rows for batch in given)
            return True
        merger = Merger(SCHEMA)
        merged = [*merger.add(data), *merger.add(right), *merger.flush()]
    except PieceError as error:
        return refused(error)
    assert sum(batch.num_rows for batch in merged) == merger.rows
    for batch in merged:
        again = decode_piece(bytes(encode_piece(batch)), SCHEMA)
        assert again.num_rows == batch.num_rows
    return True


_ALL = 1 << 30
"""As many values as there are."""


CODEC = RowCodec(SCHEMA, "whole")
ROWS = [bytes(payload) for batch in BATCHES for payload in CODEC.encode(batch).payloads()]


@door(st.lists(damaged(st.sampled_from(ROWS)), min_size=1, max_size=2), 0.3)
def test_rows(payloads: Sequence[bytes]) -> bool:
    """Payloads are rows of the schema, the same when they are encoded and read again, or are refused."""
    try:
        batch = CODEC.decode(RecordBlock.from_payloads(payloads))
    except msgspec.DecodeError as error:
        return refused(error)
    again = CODEC.decode(CODEC.encode(batch))
    assert again.num_rows == batch.num_rows == len(payloads)
    assert _shown(again) == _shown(batch)
    return True


def _shown(batch: pa.RecordBatch) -> list[str]:
    """Columns as text: dates may be such that Python has none, and of numbers some are none."""
    return [column.to_string(window=_ALL, container_window=_ALL) for column in batch.columns]


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes, list[int], int, bool]:
    """A stream of records, some with wrong lengths, and its cuts."""
    payloads = draw(st.lists(st.binary(max_size=6) | st.sampled_from((100, 255, 300)).map(bytes), max_size=8))
    data = RecordBlock.from_payloads(payloads).data.tobytes() if payloads else b""
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        number = draw(st.sampled_from((*EDGES, 0xFFFFFFFE)))
        data = data[:at] + number.to_bytes(4) + data[at + draw(st.sampled_from((0, 4))) :]
    data = draw(damaged(st.just(data)))
    return data, draw(cuts(data)), draw(st.sampled_from((1 << 28, 64, 300, 1000))), draw(st.booleans())


@door(records(), 2)
def test_records(data: bytes, cuts: Sequence[int], longest: int, watermarks: bool) -> bool:
    """A stream comes to the same records however it is cut, and to nothing but what it holds."""
    whole = _fed([data], longest, watermarks)
    parts = _fed(pieces(data, cuts), longest, watermarks)
    assert data.startswith(whole[0])
    if whole[1] is None:
        assert whole == parts
        assert whole[0] + whole[2] == data
    else:  # what came before the cut is given before the error is found
        assert parts[1] is not None
        assert data.startswith(parts[0])
        refused(whole[1])
    return whole[1] is None


def _fed(parts: Sequence[bytes], longest: int, watermarks: bool) -> tuple[bytes, CorruptRecord | None, bytes]:
    """What the blocks hold together, the error, and what is left."""
    decoder = RecordDecoder(longest, watermarks=watermarks)
    found = b""
    for part in parts:
        try:
            found += decoder.feed(part).data.tobytes()
        except CorruptRecord as error:
            return found, error, b""
    return found, None, bytes(decoder.pending)


REPORT = Report(index=0, origin=1.0, begins_at=2.0, ended_at=3.0, subtasks=1, samples=bytes(800))
CONTROL = [encode_report(REPORT), *map(encode_control, MESSAGES)]


@door(damaged(st.sampled_from(CONTROL)))
def test_control(data: bytes) -> bool:
    """A message or a report is the same when it is written and read again, or is refused."""
    try:
        message = decode_control(data)
        assert encode_control(decode_control(encode_control(message))) == encode_control(message)
        is_message = True
    except RemoteProtocolError as error:
        is_message = refused(error)
    try:
        report = decode_report(data)
    except ValueError as error:
        return refused(error) or is_message
    assert encode_report(decode_report(encode_report(report))) == encode_report(report)
    return True
