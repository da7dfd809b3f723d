"""Measures the network speed below which compressed pieces save time; prints a table as Markdown.

Run it with ``python -m benches.compression``; it takes half a minute and does not need Spark. Rows of several
kinds are cut to four targets, encoded and decoded, as in the tasks of a shuffle. Below the break-even speed
of a link, sending the saved bytes would take longer than compressing::

    break-even = bytes saved / extra processor time

This speed is for one task with one core. Several tasks on a machine share its link, and each has its own
core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from integration.spark.shuffling.pieces import Cutter, decode_piece
from integration.spark.shuffling.placement import hash_placement

ROWS, BATCHES, ROUNDS, TARGETS = 10_000, 100, 3, 4
MB = 1_000_000

Codec = Literal["lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("lz4", "zstd")

_random = np.random.default_rng(1)


def random_longs(first: int) -> pa.RecordBatch:
    """Return rows of two random longs, which cannot be compressed."""
    return pa.record_batch({name: _random.integers(-(1 << 62), 1 << 62, ROWS) for name in ("key", "value")})


def small_longs(first: int) -> pa.RecordBatch:
    """Return rows of two longs that increase from row to row, like keys and times."""
    numbers = np.arange(first, first + ROWS)
    return pa.record_batch({"key": numbers, "value": numbers * 7})


def random_texts(first: int) -> pa.RecordBatch:
    """Return rows of a long and 100 random characters."""
    letters = _random.integers(65, 123, (ROWS, 100), dtype=np.uint8)
    text = [row.tobytes().decode() for row in letters]
    return pa.record_batch({"key": np.arange(first, first + ROWS), "text": text})


def words(first: int) -> pa.RecordBatch:
    """Return rows of a long and a text of some twelve words out of a thousand."""
    known = [f"word{number:x}" for number in range(1000)]
    picks = _random.integers(0, len(known), (ROWS, 12))
    return pa.record_batch(
        {
            "key": np.arange(first, first + ROWS),
            "text": [" ".join(known[pick] for pick in row) for row in picks],
        }
    )


def categories(first: int) -> pa.RecordBatch:
    """Return rows whose columns have only a few distinct values, like flags, dates and codes."""
    return pa.record_batch(
        {
            "day": _random.integers(0, 365, ROWS).astype(np.int32),
            "flag": _random.integers(0, 2, ROWS),
            "price": _random.integers(0, 10_000, ROWS) / 100,
            "code": [f"C{number}" for number in _random.integers(0, 50, ROWS)],
        }
    )


KINDS: dict[str, Callable[[int], pa.RecordBatch]] = {
    "random longs": random_longs,
    "consecutive longs": small_longs,
    "random text": random_texts,
    "words": words,
    "a few values a column": categories,
}


class Cost(NamedTuple):
    """Bytes of all pieces, and the minimum processor seconds for cutting and for decoding them."""

    size: int
    cut_s: float
    decode_s: float


def measured(batches: list[pa.RecordBatch], compression: Codec | None) -> Cost:
    """Return the cost of the pieces of batches."""
    best_cut = best_decode = float("inf")
    size = 0
    for _ in range(ROUNDS):
        schema = batches[0].schema
        cutter = Cutter(schema, hash_placement(schema, schema.names[:1], TARGETS), compression=compression)
        start = process_time()
        made = [pieces for batch in batches for pieces in cutter.add(batch)] + [cutter.flush()]
        cut = process_time()
        for pieces in made:
            for _, piece in pieces:
                decode_piece(piece, cutter.schema)
        best_cut, best_decode = min(best_cut, cut - start), min(best_decode, process_time() - cut)
        size = sum(len(piece) for pieces in made for _, piece in pieces)
    return Cost(size, best_cut, best_decode)


def main() -> None:
    """Print the table."""
    pa.set_cpu_count(1)
    print(f"Python {sys.version.split()[0]}, pyarrow {pa.__version__}; least of {ROUNDS}\n")
    print(
        "| rows | codec | size | sender: extra ns for each byte | receiver: extra ns for each byte "
        "| saves time on links below |"
    )
    print("|---|---|---:|---:|---:|---:|")
    for kind, make in KINDS.items():
        batches = [make(number * ROWS) for number in range(BATCHES)]
        plain = measured(batches, None)
        for compression in CODECS:
            compressed = measured(batches, compression)
            sender_s, receiver_s = compressed.cut_s - plain.cut_s, compressed.decode_s - plain.decode_s
            rate = (plain.size - compressed.size) / max(sender_s + receiver_s, 1e-9) / MB
            pays = f"{rate:.0f} MB/s" if compressed.size < 0.98 * plain.size else "never"
            print(
                f"| {kind} | {compression} | {compressed.size / plain.size:.2f} "
                f"| {sender_s / plain.size * 1e9:.2f} | {receiver_s / plain.size * 1e9:.2f} | {pays} |"
            )


if __name__ == "__main__":
    main()
