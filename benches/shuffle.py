"""Compares the shuffle between PySpark tasks with Spark's own for the same rows; prints tables as Markdown.

Run it with ``python -m benches.shuffle``; it takes some minutes. Each Spark master runs in its own process,
which measures all ways to move the rows alternately, in several rounds. The first round is a warm-up and does
not count. Figures are medians over the rounds. A ratio compares two medians of one process. Every way writes
to the ``noop`` sink.

The source is ``spark.range`` with as many partitions as the master has cores. `repartition` stays in the JVM.
With an identity `mapInArrow` after it, the rows also pass through Python, like those of a Python user. This
function alone, without any shuffle, shows the minimum cost of a shuffle in Python. An RDD of Python pairs is
so slow that it gets a tenth of the rows, and its time is multiplied by ten.

The comparison has rows with and without a limit for the bytes of a batch. With a limit, as by default, Spark
measures the bytes of a batch for Python after each row. Users can lift the limit if their rows are small.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from statistics import median
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import msgspec

from integration.spark import shuffle, shuffle_statistics, spark_session

from . import wire

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 5
PAUSE_S = 0.5
RDD_SHARE = 10
SHUFFLE, REPARTITION, IDENTITY = "shuffle", "repartition", "identity mapInArrow"
REPARTITION_IDENTITY, PARTITION_BY = "repartition, identity mapInArrow", "RDD partitionBy"

Times = dict[str, float]
"""Seconds by the name of the way to move the rows."""


class ShuffleFigures(msgspec.Struct):
    """Measurements of one process: seconds, and peak memory of the shuffle's Python workers in bytes."""

    times: Times
    workers: list[int]


def longs(spark: SparkSession, partitions: int, share: int = 1) -> DataFrame:
    """Return 10 million rows of two longs."""
    return spark.range(0, 10_000_000 // share, 1, partitions).selectExpr("id as key", "id * 7 as value")


def texts(spark: SparkSession, partitions: int, share: int = 1) -> DataFrame:
    """Return 2 million rows of a long and a string of 100 characters."""
    return spark.range(0, 2_000_000 // share, 1, partitions).selectExpr(
        "id as key", "lpad(cast(id as string), 100, 'x') as value"
    )


def mixed(spark: SparkSession, partitions: int, share: int = 1) -> DataFrame:
    """Return a million rows of 50 columns: the key, and columns of the types in `MIXED`."""
    columns = [f"{MIXED[place % len(MIXED)]} as c{place}" for place in range(49)]
    return spark.range(0, 1_000_000 // share, 1, partitions).selectExpr("id as key", *columns)


def large(spark: SparkSession, partitions: int, share: int = 1) -> DataFrame:
    """Return 20 million rows of a long and a string of 100 characters: 2.2 GB in Arrow's layout."""
    return spark.range(0, 20_000_000 // share, 1, partitions).selectExpr(
        "id as key", "lpad(cast(id as string), 100, 'x') as value"
    )


MIXED = (
    "id * 3",
    "cast(id % 1000 as int)",
    "id / 7",
    "concat('text ', id % 5000)",
    "cast(id % 2 = 0 as boolean)",
    "date_add(date'2020-01-01', cast(id % 3000 as int))",
    "timestamp_micros(id * 1000)",
    "cast(id % 100000 as decimal(12, 2))",
    "if(id % 3 = 0, null, id)",
    "cast(id % 100 as float)",
)

DATA: dict[str, Callable[..., DataFrame]] = {
    "10 M rows of 2 longs": longs,
    "2 M rows of 100 bytes": texts,
    "1 M rows of 50 columns": mixed,
}
MANY, SLOTS = 200, 4
"""Number of partitions, and number of slots for them, in the table with more partitions than slots."""
MASTERS = (2, 4)
LIMITS: dict[str, dict[str, str]] = {
    "as set": {},
    "none": {"spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1)},
}
"""Limits for the bytes of a batch by name, and the options of Spark that set them."""
TASKS = (2, 4, 8, 16)


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield every batch unchanged."""
    yield from batches


def consume(rows: Iterable[object]) -> None:
    """Read every row."""
    for _ in rows:
        pass


def seconds(frame: DataFrame) -> float:
    """Return the seconds to compute all rows."""
    start = perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return perf_counter() - start


def settled(spark: SparkSession, run: Callable[[], float]) -> float:
    """Run one way after a garbage collection and a pause.

    So the clean-up after the previous way does not slow it down.
    """
    assert spark._jvm is not None
    spark._jvm.System.gc()
    sleep(PAUSE_S)
    return run()


def partition_by(frame: DataFrame, partitions: int) -> float:
    """Return the seconds to repartition an RDD of Python pairs."""
    pairs = frame.rdd.map(lambda row: (row[0], row[1])).partitionBy(partitions)
    start = perf_counter()
    pairs.foreachPartition(consume)
    return perf_counter() - start


def measure(data: str, cores: int, limit: str, *, alone: bool = False) -> ShuffleFigures:
    """Measure all ways alternately in this process; `alone`: only the shuffle and `repartition`."""
    spark = spark_session(f"local[{cores}]", LIMITS[limit])
    frame, small = DATA[data](spark, cores), DATA[data](spark, cores, RDD_SHARE)
    repartitioned = frame.repartition(cores, "key")
    shuffled = shuffle(frame, "key", num_partitions=cores)
    ways: dict[str, Callable[[], float]] = {
        SHUFFLE: lambda: seconds(shuffled),
        REPARTITION: lambda: seconds(repartitioned),
        REPARTITION_IDENTITY: lambda: seconds(repartitioned.mapInArrow(identity, frame.schema)),
        IDENTITY: lambda: seconds(frame.mapInArrow(identity, frame.schema)),
        PARTITION_BY: lambda: partition_by(small, cores) * RDD_SHARE,
    }
    if alone:
        ways = {way: ways[way] for way in (SHUFFLE, REPARTITION)}
    rounds = [{way: settled(spark, run) for way, run in ways.items()} for _ in range(1 + ROUNDS)][1:]
    times = {way: median(times[way] for times in rounds) for way in ways}
    rows = shuffle_statistics(shuffled).select("worker_memory_bytes").collect()
    return ShuffleFigures(times, [row[0] for row in rows[-cores:]])


def measure_many() -> ShuffleFigures:
    """Measure a shuffle of 2 GB of rows to more partitions than slots, with the default of ``max_memory``."""
    spark = spark_session(f"local[{SLOTS}]")
    frame = large(spark, SLOTS)
    repartitioned = frame.repartition(MANY, "key")
    shuffled = shuffle(frame, "key", num_partitions=MANY)
    times = {
        SHUFFLE: seconds(shuffled),
        REPARTITION_IDENTITY: seconds(repartitioned.mapInArrow(identity, frame.schema)),
        REPARTITION: seconds(repartitioned),
    }
    rows = shuffle_statistics(shuffled).select("worker_memory_bytes").collect()
    return ShuffleFigures(times, [row[0] for row in rows])


def in_a_process(data: str, cores: int, limit: str = "as set", *, alone: bool = False) -> ShuffleFigures:
    """Run `measure` in another process, whose master has `cores` cores."""
    return run_apart([data, str(cores), limit, "alone" if alone else "all"])


def run_apart(arguments: list[str]) -> ShuffleFigures:
    """Run this module in another process, and return the figures that it has measured."""
    command = [sys.executable, "-m", "benches.shuffle", *arguments]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    output = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True).stdout
    return msgspec.json.decode(output.splitlines()[-1], type=ShuffleFigures)


def comparison() -> None:
    """Print the tables that compare the shuffle with the other ways."""
    print("| rows | master | limit of bytes | way | s | shuffle / this way |")
    print("|---|---|---|---|---:|---:|")
    for data, cores, limit in product(DATA, MASTERS, LIMITS):
        times = in_a_process(data, cores, limit).times
        for way, time in times.items():
            ratio = times[SHUFFLE] / time
            print(f"| {data} | local[{cores}] | {limit} | {way} | {time:.2f} | {ratio:.2f} |")


def scaling() -> None:
    """Print the table of the cost of more tasks on the same cores."""
    print("| tasks | shuffle, s | repartition, s | ratio | peak memory of a Python worker, MiB |")
    print("|---:|---:|---:|---:|---:|")
    for tasks in TASKS:
        figures = in_a_process("10 M rows of 2 longs", tasks, alone=True)
        ours, theirs = figures.times[SHUFFLE], figures.times[REPARTITION]
        most = max(figures.workers) / (1 << 20)
        print(f"| {tasks} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} | {most:.0f} |")


def many() -> None:
    """Print the table of the time and memory of a shuffle with more partitions than slots."""
    figures = run_apart([str(MANY)])
    print(f"| 20 M rows of 100 bytes into {MANY} partitions on {SLOTS} slots | s | shuffle / this way |")
    print("|---|---:|---:|")
    for way, time in figures.times.items():
        print(f"| {way} | {time:.1f} | {figures.times[SHUFFLE] / time:.2f} |")
    print(f"\npeak memory of a Python worker of the shuffle: {max(figures.workers) / (1 << 20):.0f} MiB")


def main() -> None:
    """Print all tables, or measure one line of a table.

    With the argument ``many``, print only the last table.
    """
    if sys.argv[1:] == ["many"]:
        many()
        return
    if sys.argv[1:] == [str(MANY)]:
        print(msgspec.json.encode(measure_many()).decode())
        return
    if len(sys.argv) > 1:
        data, cores, limit, which = sys.argv[1:]
        print(msgspec.json.encode(measure(data, int(cores), limit, alone=which == "alone")).decode())
        return
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; medians of {ROUNDS}\n")
    wire.table()
    print()
    comparison()
    print()
    scaling()
    print()
    many()


if __name__ == "__main__":
    main()
