"""Pieces of a shuffle: nanoseconds a row of placing, cutting, encoding, decoding and merging, beside a copy.

A cut is everything from Spark's batches of 10,000 rows to pieces: gathering, the key groups of the key, the
sort, and the encoding. Expected on one core at 3 GHz, in ns a row of two longs: 4 to 5 for the targets alone,
12 to 15 for a cut to 4 targets, 16 to 22 to 200, where a copy takes 0.4. With a string of 100 bytes, which no
longer fits the cache, it is 30 to 45 and 60 to 80, where a copy takes 3 to 8. To encode a piece takes that
copy and 2 to 3 us, to decode it 2 us, as nothing is copied. Each case has ``ns_per_row`` and ``times_a_copy``
in its ``extra_info`` (``--benchmark-json``).
"""

from __future__ import annotations

from collections.abc import Sequence
from timeit import repeat

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from integration import Cutter, HashPlacement, Merger, decode_piece, encode_piece

ROWS = 10_000
"""Rows of a batch, as Spark hands them over."""

BATCHES = 40
KEYS = np.random.default_rng(1).integers(0, 1 << 62, (BATCHES, ROWS))
TEXTS = pa.array([f"{row:0100}" for row in range(ROWS)])
COPIES = 20


def longs() -> list[pa.RecordBatch]:
    """Rows of 16 bytes: a key and a number."""
    return [pa.record_batch({"key": keys, "value": keys}) for keys in KEYS]


def texts() -> list[pa.RecordBatch]:
    """Rows of 112 bytes: a key and a string of 100."""
    return [pa.record_batch({"key": keys, "value": TEXTS}) for keys in KEYS]


KINDS = {"longs": longs, "texts": texts}
CASES = pytest.mark.parametrize("kind", KINDS)


def note(benchmark: BenchmarkFixture, rows: int, pieces: Sequence[memoryview]) -> None:
    """Measure a copy of the same bytes and note the time a row, and in multiples of that copy."""

    def copy() -> None:
        for piece in pieces:
            bytes(piece)

    copy_s = min(repeat(copy, number=COPIES, repeat=5)) / COPIES
    benchmark.extra_info["copy_ns_per_row"] = round(copy_s / rows * 1e9, 2)
    if benchmark.stats is not None:  # absent where benchmarks are disabled and only run once
        least = benchmark.stats.stats.min
        benchmark.extra_info["ns_per_row"] = round(least / rows * 1e9, 2)
        benchmark.extra_info["times_a_copy"] = round(least / copy_s, 2)


def cut(batches: list[pa.RecordBatch], targets: int) -> list[tuple[int, memoryview]]:
    """Cut all batches to pieces by the key groups of their key."""
    schema = batches[0].schema
    cutter = Cutter(schema, HashPlacement(schema, ["key"], targets))
    made = [pieces for batch in batches for pieces in cutter.add(batch)]
    return [piece for pieces in (*made, cutter.flush()) for piece in pieces]


def test_place(benchmark: BenchmarkFixture) -> None:
    batch = longs()[0]
    targets = benchmark(HashPlacement(batch.schema, ["key"], 4).place, batch)
    assert len(targets) == ROWS
    note(benchmark, ROWS, [memoryview(batch.column(0).buffers()[1])])


@pytest.mark.parametrize("targets", [4, 200])
@CASES
def test_cut(benchmark: BenchmarkFixture, kind: str, targets: int) -> None:
    batches = KINDS[kind]()
    pieces = benchmark(cut, batches, targets)
    benchmark.extra_info["pieces"] = len(pieces)
    note(benchmark, BATCHES * ROWS, [piece for _, piece in pieces])
    assert len({target for target, _ in pieces}) == targets


@pytest.mark.parametrize("rows", [200, 2000])
@CASES
def test_encode(benchmark: BenchmarkFixture, kind: str, rows: int) -> None:
    batch = KINDS[kind]()[0].slice(ROWS // 2, rows)
    piece = benchmark(encode_piece, batch)
    note(benchmark, rows, [piece])


@pytest.mark.parametrize("rows", [200, 2000])
@CASES
def test_decode(benchmark: BenchmarkFixture, kind: str, rows: int) -> None:
    batch = KINDS[kind]()[0].slice(ROWS // 2, rows)
    piece = encode_piece(batch)
    assert benchmark(decode_piece, piece, batch.schema).equals(batch)
    note(benchmark, rows, [piece])


@pytest.mark.parametrize("targets", [4, 200])
@CASES
def test_merge(benchmark: BenchmarkFixture, kind: str, targets: int) -> None:
    batches = KINDS[kind]()
    pieces = [piece for _, piece in cut(batches, targets)]

    def merge() -> int:
        merger = Merger(batches[0].schema)
        merged = [batch for piece in pieces for batch in merger.add(piece)]
        return sum(batch.num_rows for batch in (*merged, *merger.flush()))

    assert benchmark(merge) == BATCHES * ROWS
    note(benchmark, BATCHES * ROWS, pieces)
