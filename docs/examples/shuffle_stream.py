"""Totals of a stream: each micro-batch of a Structured Streaming query is shuffled by its key.

After the shuffle all rows of a key are in one partition, the same one in every micro-batch, so a function
that sees a partition sees all that there is of a key. No exchange of Spark's, with its sort and files, is
needed.

Run it with ``python docs/examples/shuffle_stream.py``.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from integration.spark import shuffle
from integration.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "city string, passengers long"
PARTITIONS = 2


def sums_of_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up what a partition has of each key."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    if tables:
        sums = pa.concat_tables(tables).group_by("city").aggregate([("passengers", "sum")])
        yield from sums.select(["city", "passengers_sum"]).to_batches()


def totals(folder: str) -> list[dict[str, int]]:
    """Read JSON files as a stream, two files a micro-batch; returns the totals after each."""
    session = spark_session(f"local[{PARTITIONS}]")
    history: list[dict[str, int]] = []

    def add(rows: DataFrame, number: int) -> None:
        shuffled = shuffle(rows, "city", num_partitions=PARTITIONS)
        sums = dict(shuffled.mapInArrow(sums_of_keys, COLUMNS).collect())  # each city comes once
        before = history[-1] if history else {}
        history.append({city: before.get(city, 0) + sums.get(city, 0) for city in before | sums})

    # A file is a partition here: with as many as the shuffle has, it reads them as they are.
    stream = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", PARTITIONS).json(folder)
    stream.writeStream.foreachBatch(add).trigger(availableNow=True).start().awaitTermination()
    return history


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for number, cities in enumerate((("Ulm", "Bonn"), ("Ulm",), ("Bonn",), ("Ulm", "Bonn"))):
            rows = [{"city": city, "passengers": 10 + number} for city in cities]
            Path(folder, f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        for after in totals(folder):
            print(after)
