"""Rows to records and back: rows a second of the encoding that Spark sources use.

Expected: 2 million rows a second each way for a narrow row; for one like a flight's, with 19 columns, 850,000
encoded and 550,000 decoded. Most of the time goes into the Python objects that MessagePack is made from. The
rate of each case is in its ``extra_info`` (``--benchmark-json``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from integration import RowCodec, key_hash

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


def state_rate(benchmark: BenchmarkFixture) -> None:
    """Add the rows a second of the fastest round; there is none where benchmarks are only tried out."""
    if benchmark.stats is not None:
        benchmark.extra_info["rows_per_s"] = round(ROWS / benchmark.stats["min"])


BATCHES = {"narrow": narrow, "flight": flight}


@pytest.mark.parametrize("kind", BATCHES)
def test_encode(benchmark: BenchmarkFixture, kind: str) -> None:
    batch = BATCHES[kind]()
    codec = RowCodec(batch.schema, "key")
    block = benchmark(codec.encode, batch)
    benchmark.extra_info["bytes_per_row"] = block.nbytes / ROWS
    state_rate(benchmark)


@pytest.mark.parametrize("kind", BATCHES)
def test_decode(benchmark: BenchmarkFixture, kind: str) -> None:
    batch = BATCHES[kind]()
    codec = RowCodec(batch.schema, "key")
    decoded = benchmark(codec.decode, codec.encode(batch))
    state_rate(benchmark)
    assert decoded.equals(batch)


def test_key_hash(benchmark: BenchmarkFixture) -> None:
    batch = narrow()
    hashes = benchmark(key_hash, RowCodec(batch.schema, "key").encode(batch))
    assert len(hashes) == ROWS
    state_rate(benchmark)
