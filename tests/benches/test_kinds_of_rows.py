"""The rows and the consumer with which the shuffle is compared with Spark's repartition."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from benches.shuffle import KINDS, arrivals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_consumer_counts_rows_and_notes_the_time_of_the_first() -> None:
    begin = time()
    batches = iter([pa.record_batch({"key": [1, 2, 3]}), pa.record_batch({"key": [4, 5]})])
    (found,) = (row for batch in arrivals(batches) for row in batch.to_pylist())
    assert found["rows"] == 5
    assert begin <= found["first"] <= time()
    assert found["memory"] > 1 << 20
    (nothing,) = (row for batch in arrivals(iter([])) for row in batch.to_pylist())
    assert (nothing["rows"], nothing["first"]) == (0, None)


@pytest.mark.spark
def test_keys_have_a_zipf_distribution(spark: SparkSession) -> None:
    rows, columns = KINDS["2 M rows of 2 longs, Zipf keys"]
    frame = spark.range(rows // 20).selectExpr(*columns)
    counts = {row["key"]: row["count"] for row in frame.groupBy("key").count().collect()}
    shares = [counts[key] / (rows // 20) for key in (1, 2, 4)]
    assert shares == pytest.approx([0.089, 0.050, 0.026], abs=0.004)
    assert max(counts) <= 1_000_000
