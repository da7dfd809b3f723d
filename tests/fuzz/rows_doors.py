"""Doors of rows: pieces of a shuffle, rows as records, records in buffers; and what processes tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from buffers import CorruptRecord, RecordBlock, RecordDecoder
from flowcontrol import Alignment, AlignmentMetrics, CheckpointBarrier, CheckpointOptions, RemoteProtocolError
from integration import RowCodec
from integration.errors import PieceError
from integration.spark.shuffling.blocks import PartitionBlocks
from integration.spark.shuffling.pieces import Compression, Merger, decode_piece, encode_piece, with_ends
from netstack import Report, decode_report, encode_report
from netstack.checkpoints.pending_checkpoint import Acknowledgement
from netstack.cluster.control_messages import (
    Aborted,
    Acknowledge,
    Completed,
    Control,
    Decline,
    Ended,
    Ready,
    Running,
    Start,
    Stop,
    TriggerCheckpoint,
    decode_control,
    encode_control,
)
from netstack.state.snapshots import StateHandle, StateKind, SubtaskSnapshot

from .door import Arguments, Door, refused
from .mutation import EDGES, spoilt
from .wire_doors import draw_cuts, pieces

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


@cache
def batches() -> Sequence[pa.RecordBatch]:
    """Rows of that schema: none, one, and some."""
    row: dict[str, Any] = {"whole": 5, "small": -1, "text": "\u20ac", "bytes": b"\xff\0", "yes": True}
    row |= {"number": 1.5, "list": [1, None], "struct": {"a": 1, "b": "x"}, "map": [("k", 1)]}
    rows: list[dict[str, Any]] = [row | {"whole": number} for number in range(40)]
    rows[3] = {}
    return [pa.RecordBatch.from_pylist(rows[:count], schema=SCHEMA) for count in (0, 1, 4, 40)]


@cache
def right_pieces() -> Sequence[bytes]:
    """Pieces of these rows, plain and compressed."""
    kinds: tuple[Compression | None, ...] = (None, "lz4", "zstd")
    return [bytes(encode_piece(batch, compression)) for compression in kinds for batch in batches()]


def shuffled(random: Random) -> Iterator[Arguments]:
    """Pieces with something wrong, half of them with the ends of partitions behind them."""
    while True:
        data = random.choice(right_pieces())
        with_them = random.random() < 0.5
        if random.random() < 0.9:
            data = spoilt(random, data)
        if with_them:
            ends = sorted(random.choice((0, 1, 4, 40)) for _ in range(PARTITIONS))
            data = bytes(with_ends(memoryview(data), np.array(ends, dtype=np.int64)))
            data = spoilt(random, data) if random.random() < 0.1 else data
        yield data, with_them


def check_piece(data: bytes, with_ends: bool) -> bool:
    """A piece is rows that can be joined with others and encoded again, or is refused."""
    right = right_pieces()[1]
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


@cache
def _codec() -> RowCodec:
    return RowCodec(SCHEMA, "whole")


@cache
def _rows() -> Sequence[bytes]:
    return [bytes(payload) for batch in batches() for payload in _codec().encode(batch).payloads()]


def rows(random: Random) -> Iterator[Arguments]:
    """The payloads of some rows, most with something wrong."""
    while True:
        payloads = random.choices(_rows(), k=random.choice((1, 1, 2)))
        place = random.randrange(len(payloads))
        if random.random() < 0.9:
            payloads[place] = spoilt(random, payloads[place])
        yield (payloads,)


def check_rows(payloads: Sequence[bytes]) -> bool:
    """Payloads are rows of the schema, the same when they are encoded and read again, or are refused."""
    try:
        batch = _codec().decode(RecordBlock.from_payloads(payloads))
    except msgspec.DecodeError as error:
        return refused(error)
    again = _codec().decode(_codec().encode(batch))
    assert again.num_rows == batch.num_rows == len(payloads)
    assert _shown(again) == _shown(batch)
    return True


def _shown(batch: pa.RecordBatch) -> list[str]:
    """Columns as text: dates may be such that Python has none, and of numbers some are none."""
    return [column.to_string(window=_ALL, container_window=_ALL) for column in batch.columns]


def records(random: Random) -> Iterator[Arguments]:
    """Streams of records, with wrong lengths in some, and where they are cut."""
    while True:
        size = random.choice((0, 1, 5, 100, 300))
        payloads = [
            random.randbytes(random.choice((0, size, size, 255, 256))) for _ in range(random.randrange(8))
        ]
        data = RecordBlock.from_payloads(payloads).data.tobytes() if payloads else b""
        if random.random() < 0.3:
            data += b"\xff\xff\xff\xfe" + random.randbytes(8) + data[:30]
        for _ in range(random.choice((0, 0, 1, 2))):
            at = random.randrange(len(data) + 1)
            data = data[:at] + random.choice(EDGES).to_bytes(4) + data[at + random.choice((0, 4)) :]
        if random.random() < 0.3:
            data = spoilt(random, data)
        yield (
            data,
            draw_cuts(random, len(data)),
            random.choice((64, 300, 1000, 1 << 28)),
            random.random() < 0.5,
        )


def check_records(data: bytes, cuts: Sequence[int], longest: int, watermarks: bool) -> bool:
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


def _messages() -> list[Control]:
    barrier = CheckpointBarrier(5, 1.5, CheckpointOptions(Alignment.ALIGNED, None))
    handle = StateHandle(kind=StateKind.KEYED, name="seen", size=2, inline=b"ab", key_groups=(0, 127))
    snapshot = SubtaskSnapshot(vertex="count", subtask=1, handles=(handle,))
    report = Acknowledgement(
        5, AlignmentMetrics(*(0 for _ in AlignmentMetrics.__struct_fields__)), 0.5, snapshot
    )
    return [
        Ready(),
        Start(1.0, 2.0),
        Running(),
        Stop(),
        TriggerCheckpoint((0, 1), barrier),
        Completed((0, 1), 5),
        Aborted((0, 1), 5),
        Acknowledge((0, 1), report),
        Decline((0, 1), 5, "CHECKPOINT_DECLINED", "why"),
        Ended((0, 1), 4),
    ]


@cache
def _control() -> Sequence[bytes]:
    report = Report(index=0, origin=1.0, begins_at=2.0, ended_at=3.0, subtasks=1, samples=bytes(800))
    return [*map(encode_control, _messages()), encode_report(report)]


def control(random: Random) -> Iterator[Arguments]:
    """What processes of a job tell each other, most with something wrong."""
    while True:
        data = random.choice(_control())
        yield (spoilt(random, data) if random.random() < 0.9 else data,)


def check_control(data: bytes) -> bool:
    """A message or a report is the same when it is written and read again, or is refused."""
    try:
        message = decode_control(data)
        assert encode_control(decode_control(encode_control(message))) == encode_control(message)
    except RemoteProtocolError as error:
        refused(error)
    try:
        report = decode_report(data)
    except ValueError as error:
        return refused(error)
    assert encode_report(decode_report(encode_report(report))) == encode_report(report)
    return True


DOORS = [
    Door("piece", shuffled, check_piece, 3_000, 2, native=True),
    Door("rows", rows, check_rows, 700, 0.4),
    Door("records", records, check_records, 12_000, 10),
    Door("control", control, check_control, 15_000, 5),
]
