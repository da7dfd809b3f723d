"""Rows to records and back: the encoding that Spark sources use.

Expected: 2 million rows a second each way for a narrow row; for one like a flight's, with 19 columns, 850,000
encoded and 550,000 decoded. Most of the time goes into the Python objects that MessagePack is made from.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ..spark.rows import RowCodec, key_hash
from .micro import Work, micro_case

ROWS = 512


def narrow() -> pa.RecordBatch:
    """A key and a number."""
    numbers = np.arange(ROWS, dtype=np.int64)
    return pa.record_batch({"key": [f"key {number % 16}" for number in range(ROWS)], "number": numbers})


def flight() -> pa.RecordBatch:
    """Columns like those of the flights: 14 integers, half of them with nulls, 4 texts and a time."""
    numbers = np.arange(ROWS, dtype=np.int32)
    columns: dict[str, Any] = {f"number{index}": numbers * index for index in range(7)}
    nulls = numbers % 40 == 0
    columns |= {f"maybe{index}": pa.array(numbers * index, mask=nulls) for index in range(7)}
    columns |= {f"text{index}": [f"N{number % 400}" for number in range(ROWS)] for index in range(3)}
    columns["key"] = [f"C{number % 16}" for number in range(ROWS)]
    columns["time"] = pa.array(numbers.astype(np.int64) * 1_000_000, pa.timestamp("us", "UTC"))
    return pa.record_batch(columns)


BATCHES = {"narrow": narrow, "flight": flight}


def encoding(kind: str) -> Work:
    """A step returns the records of a batch of rows."""
    batch = BATCHES[kind]()
    codec = RowCodec(batch.schema, "key")
    return Work(partial(codec.encode, batch), ROWS, codec.encode(batch).nbytes)


def decoding(kind: str) -> Work:
    """A step returns the batch of rows of some records."""
    batch = BATCHES[kind]()
    codec = RowCodec(batch.schema, "key")
    block = codec.encode(batch)
    return Work(partial(codec.decode, block), ROWS, block.nbytes)


def hashing() -> Work:
    """A step returns the hash of the key of each row."""
    batch = narrow()
    block = RowCodec(batch.schema, "key").encode(batch)
    return Work(partial(key_hash, block), ROWS, block.nbytes)


CASES = (
    micro_case("rowEncode", "a row to a record", {kind: partial(encoding, kind) for kind in BATCHES}),
    micro_case("rowDecode", "a record to a row", {kind: partial(decoding, kind) for kind in BATCHES}),
    micro_case("rowKeyHash", "the hash of a row's key", {"": hashing}),
)
