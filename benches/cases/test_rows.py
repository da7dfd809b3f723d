"""Rows to records and back: the encoding of Spark sources.

Expected: 2 million narrow rows are encoded, or decoded, per second. Of rows with 19 columns like those of the
flights, 850,000 are encoded or 550,000 decoded per second. Most of the time is spent on the Python objects
that MessagePack encodes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from integration import RowCodec, key_hash

from ..harness import Measure

ROWS = 512


def narrow() -> pa.RecordBatch:
    """Return rows of a key and a number."""
    numbers = np.arange(ROWS, dtype=np.int64)
    return pa.record_batch({"key": [f"key {number % 16}" for number in range(ROWS)], "number": numbers})


def flight() -> pa.RecordBatch:
    """Return rows like those of the flights: 14 integers, half of them with nulls, 4 texts and a time."""
    numbers = np.arange(ROWS, dtype=np.int32)
    columns: dict[str, Any] = {f"number{index}": numbers * index for index in range(7)}
    nulls = numbers % 40 == 0
    columns |= {f"maybe{index}": pa.array(numbers * index, mask=nulls) for index in range(7)}
    columns |= {f"text{index}": [f"N{number % 400}" for number in range(ROWS)] for index in range(3)}
    columns["key"] = [f"C{number % 16}" for number in range(ROWS)]
    columns["time"] = pa.array(numbers.astype(np.int64) * 1_000_000, pa.timestamp("us", "UTC"))
    return pa.record_batch(columns)


BATCHES = {"narrow": narrow, "flight": flight}


@pytest.mark.parametrize("rows", BATCHES)
def test_rowEncode(measure: Measure, rows: str) -> None:
    batch = BATCHES[rows]()
    codec = RowCodec(batch.schema, "key")
    measure.steps(partial(codec.encode, batch), operations=ROWS, copied_bytes=codec.encode(batch).nbytes)


@pytest.mark.parametrize("rows", BATCHES)
def test_rowDecode(measure: Measure, rows: str) -> None:
    batch = BATCHES[rows]()
    codec = RowCodec(batch.schema, "key")
    block = codec.encode(batch)
    measure.steps(partial(codec.decode, block), operations=ROWS, copied_bytes=block.nbytes)


def test_rowKeyHash(measure: Measure) -> None:
    batch = narrow()
    block = RowCodec(batch.schema, "key").encode(batch)
    measure.steps(partial(key_hash, block), operations=ROWS, copied_bytes=block.nbytes)
