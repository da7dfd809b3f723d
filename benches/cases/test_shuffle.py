"""Pieces of a shuffle: the time per row to place, cut, encode, decode and merge it, compared with a copy.

A cut turns Spark's batches of 10,000 rows into pieces: it gathers rows, computes the key groups of their
keys, sorts and encodes them. Expected times on one core at 3 GHz are per row. For rows of two longs,
computing the targets takes 4 to 5 ns, a cut to 4 targets 12 to 15 ns, a cut to 200 targets 16 to 22 ns, and a
plain copy 0.4 ns. For rows with a string of 100 bytes, which do not fit into the cache, a cut to 4 targets
takes 30 to 45 ns, a cut to 200 targets 60 to 80 ns, and a copy 3 to 8 ns. Encoding a piece takes the time of
a copy plus 2 to 3 us. Decoding it takes 2 us, because nothing is copied. An operation is a row.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from integration.spark.shuffling.pieces import Cutter, Merger, decode_piece, encode_piece
from integration.spark.shuffling.placement import hash_placement

from ..harness import Measure

ROWS = 10_000
"""Number of rows in a batch, as in Spark's batches."""

BATCHES = 40
KEYS = np.random.default_rng(1).integers(0, 1 << 62, (BATCHES, ROWS))
TEXTS = pa.array([f"{row:0100}" for row in range(ROWS)])


def longs() -> list[pa.RecordBatch]:
    """Return rows of 16 bytes: a key and a number."""
    return [pa.record_batch({"key": keys, "value": keys}) for keys in KEYS]


def texts() -> list[pa.RecordBatch]:
    """Return rows of 112 bytes: a key and a string of 100 bytes."""
    return [pa.record_batch({"key": keys, "value": TEXTS}) for keys in KEYS]


KINDS = {"longs": longs, "texts": texts}


def cut(batches: list[pa.RecordBatch], targets: int) -> list[tuple[int, memoryview]]:
    """Cut all batches to pieces by the key groups of their key."""
    schema = batches[0].schema
    cutter = Cutter(schema, hash_placement(schema, ["key"], targets))
    made = [pieces for batch in batches for pieces in cutter.add(batch)]
    return [piece for pieces in (*made, cutter.flush()) for piece in pieces]


def test_shufflePlace(measure: Measure) -> None:
    batch = longs()[0]
    place = partial(hash_placement(batch.schema, ["key"], 4).place, batch)
    measure.steps(place, operations=ROWS, copied_bytes=8 * ROWS)


@pytest.mark.parametrize("targets", [4, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_shuffleCut(measure: Measure, kind: str, targets: int) -> None:
    batches = KINDS[kind]()
    copied = sum(len(piece) for _, piece in cut(batches, targets))
    measure.steps(partial(cut, batches, targets), operations=BATCHES * ROWS, copied_bytes=copied)


@pytest.mark.parametrize("rows", [200, 2000])
@pytest.mark.parametrize("kind", KINDS)
def test_shuffleEncode(measure: Measure, kind: str, rows: int) -> None:
    batch = KINDS[kind]()[0].slice(ROWS // 2, rows)
    encode = partial(encode_piece, batch)
    measure.steps(encode, operations=rows, copied_bytes=len(encode()))


@pytest.mark.parametrize("rows", [200, 2000])
@pytest.mark.parametrize("kind", KINDS)
def test_shuffleDecode(measure: Measure, kind: str, rows: int) -> None:
    batch = KINDS[kind]()[0].slice(ROWS // 2, rows)
    piece = encode_piece(batch)
    measure.steps(partial(decode_piece, piece, batch.schema), operations=rows, copied_bytes=len(piece))


@pytest.mark.parametrize("targets", [4, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_shuffleMerge(measure: Measure, kind: str, targets: int) -> None:
    batches = KINDS[kind]()
    pieces = [piece for _, piece in cut(batches, targets)]

    def merge() -> int:
        merger = Merger(batches[0].schema)
        merged = [batch for piece in pieces for batch in merger.add(piece)]
        return sum(batch.num_rows for batch in (*merged, *merger.flush()))

    measure.steps(merge, operations=BATCHES * ROWS, copied_bytes=sum(map(len, pieces)))
