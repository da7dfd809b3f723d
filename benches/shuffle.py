"""Compares the shuffle between PySpark tasks with Spark's own for the same rows; prints tables as Markdown.

Run it with ``python -m benches.shuffle``; it takes some minutes. Each Spark master runs in its own process,
which measures all ways to move the rows alternately, in several rounds. The first round is a warm-up and does
not count. Figures are medians over the rounds. A ratio compares two medians of one process. Every way writes
to the ``noop`` sink.

The source is ``spark.range`` with as many partitions as the master has cores. `repartition` stays in the JVM.
With an identity `mapInArrow` after it, the rows also pass through Python, like those of a Python user. This
function alone, without any shuffle, shows the minimum cost of a shuffle in Python. An RDD of Python pairs is
so slow that it gets a tenth of the rows, and its time is multiplied by ten.

``python -m benches.shuffle kinds [MASTER]`` compares skewed keys, strings and nested rows, in as many
partitions as slots and in 200, on ``local[2]`` or the given master. A consumer in Python after the shuffle
notes when its first batch comes, and the peak memory of its process. ``python -m benches.shuffle slow`` has
one slow consumer.

The comparison has rows with and without a limit for the bytes of a batch. With a limit, as by default, Spark
measures the bytes of a batch for Python after each row. Users can lift the limit if their rows are small.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from statistics import median
from time import perf_counter, sleep, time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from integration.spark import shuffle, shuffle_statistics, spark_session
from integration.spark.driver import count_slots
from integration.spark.python_workers import send_packages

from . import wire

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 5
PAUSE_S = 0.5
RDD_SHARE = 10
SHUFFLE, REPARTITION, IDENTITY = "shuffle", "repartition", "identity mapInArrow"
REPARTITION_IDENTITY, PARTITION_BY = "repartition, identity mapInArrow", "RDD partitionBy"

T = TypeVar("T")

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


SKEW = 1.1
"""Exponent of the Zipf distribution of a million keys; the most frequent one has 9 % of the rows."""

_UNIFORM = "(pmod(xxhash64(id), 1000000007) / 1000000007)"
_ZIPF = f"cast(pow(1 - {_UNIFORM} * (1 - pow(1e6, {1 - SKEW})), {1 / (1 - SKEW)}) as long)"
"""A key from 1 to a million, from the inverse of a continuous distribution with the same exponent."""

KINDS = {
    "2 M rows of 2 longs, Zipf keys": (2_000_000, [f"{_ZIPF} as key", "id as value"]),
    "1 M rows of strings": (1_000_000, ["concat('key ', id) as key", "lpad(id, 100, 'x') as value"]),
    "500 k nested rows": (
        500_000,
        ["id as key", "struct(id as a, array(id, id + 1) as b, map('k', cast(id as string)) as c) as value"],
    ),
}
"""Number of rows, and columns, by the name of a table's row."""

KIND_ROUNDS = 1


def arrivals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read all rows; yield the time of the first batch, the number of rows and the peak memory in bytes."""
    import time
    from pathlib import Path

    import pyarrow as pa

    process = Path("/proc/self")
    (process / "clear_refs").write_text("5")  # resets the peak, since Spark uses a worker again
    first, rows = None, 0
    for batch in batches:
        first = first or time.time()
        rows += batch.num_rows
    status = (process / "status").read_text().partition("VmHWM:")[2]
    memory = int(status.split()[0]) << 10
    yield pa.RecordBatch.from_pylist([{"first": first, "rows": rows, "memory": memory}], _arrivals_schema(pa))


def slow_arrivals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read all rows as `arrivals` does, with a pause after each batch."""
    import time

    def slowly() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(SLOW_S * batch.num_rows / 10_000)
            yield batch

    yield from arrivals(slowly())


def _arrivals_schema(pa: Any) -> Any:
    return pa.schema([("first", pa.float64()), ("rows", pa.int64()), ("memory", pa.int64())])


ARRIVALS = "first double, rows long, memory long"
SLOW_S = 0.1
"""Pause of the slow consumer, in seconds for each 10,000 rows."""


class Arrived(NamedTuple):
    """Measurements of one run of `arrivals`."""

    seconds: float
    first_s: float
    memory: int
    """Peak memory of a consumer's process in bytes."""


def arrived(frame: DataFrame, consumer: Any = arrivals) -> Arrived:
    """Run the consumer after a shuffle."""
    start = time()
    found = frame.mapInArrow(consumer, ARRIVALS).collect()
    end = time()
    first = min(row["first"] for row in found if row["rows"])
    return Arrived(end - start, first - start, max(row["memory"] for row in found))


def kinds(master: str) -> None:
    """Print the table of kinds of rows."""
    spark = spark_session(master)
    send_packages(spark)
    slots = count_slots(spark, 4)  # waits for the executors of a cluster
    print(f"{master.partition(':')[0]}, {slots} slots\n")
    print("| rows | partitions | way | rows/s | first row, s | worker, MiB |")
    print("|---|---:|---|---:|---:|---:|")
    warm_up = spark.range(0, 1_000_000, 1, slots)
    for moved in (shuffle(warm_up, "id"), warm_up.repartition(slots, "id")):
        arrived(moved)
    for name, (rows, columns) in KINDS.items():
        frame = spark.range(0, rows, 1, slots).selectExpr(*columns)
        for partitions in (slots, MANY):
            repartitioned = frame.repartition(partitions, "key")
            shuffled = shuffle(frame, "key", num_partitions=partitions)
            ways = {REPARTITION: repartitioned, SHUFFLE: shuffled}
            runs: dict[str, list[Arrived]] = {way: [] for way in ways}
            for _ in range(KIND_ROUNDS):
                for way, moved in ways.items():
                    runs[way].append(settled(spark, partial(arrived, moved)))
            workers = shuffle_statistics(shuffled).agg({"worker_memory_bytes": "max"}).collect()[0][0]
            for way, found in runs.items():
                pace = rows / median(run.seconds for run in found)
                first = median(run.first_s for run in found)
                memory = max(workers if way == SHUFFLE else 0, *(run.memory for run in found))
                figures = f"{pace:,.0f} | {first:.2f} | {memory / (1 << 20):.0f}"
                print(f"| {name} | {partitions} | {way} | {figures} |")


def slow() -> None:
    """Print memory and files of rows of one key, 600 MB, whose consumer is slow."""
    spark = spark_session("local[2]")
    frame = spark.range(0, 1_000_000, 1, 2).selectExpr(
        "0 as key",
        "concat(sha2(string(id), 512), sha2(string(-id), 512), sha2(string(id + 0.5), 512)) as text",
    )
    small = {"taskmanager.memory.network.max": "8 mb"}
    shuffled = shuffle(frame, "key", num_partitions=2, config=small)
    arrived(shuffle(spark.range(9, numPartitions=2), "id"))  # a warm-up
    print("| way | s | network memory, MiB | shuffle files, MiB | spilled, MiB | worker, MiB |")
    print("|---|---:|---:|---:|---:|---:|")
    for way, moved in {SHUFFLE: shuffled, REPARTITION: frame.repartition(2, "key")}.items():
        before = _stage_bytes(spark)
        run = arrived(moved, slow_arrivals)
        written, spilled = (now - then for now, then in zip(_stage_bytes(spark), before, strict=True))
        peak = 0
        if way == SHUFFLE:
            peak = max(row.peak_network_memory_bytes for row in shuffle_statistics(shuffled).collect())
        figures = (peak, written, spilled, run.memory)
        print(f"| {way} | {run.seconds:.1f} |", *(f"{size / (1 << 20):.0f} |" for size in figures))
    reports = shuffle_statistics(shuffled).collect()
    blocked = sum(report.credit_blocked_s for report in reports)
    waited = sum(report.write_blocked_s for report in reports)
    stalls = sum(report.credit_stalls for report in reports)
    print(f"\n{stalls} stalls without credit, {blocked:.1f} s; writers waited {waited:.1f} s for memory")


def _stage_bytes(spark: SparkSession) -> tuple[int, int]:
    """Return the bytes of shuffle files and of spilled data that the executors have written so far."""
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    written = spilled = stage = 0
    while True:
        try:
            data = store.lastStageAttempt(stage)
        except Exception:
            return written, spilled
        written += data.shuffleWriteBytes()
        spilled += data.diskBytesSpilled()
        stage += 1


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


def settled(spark: SparkSession, run: Callable[[], T]) -> T:
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
        for way, spent in times.items():
            ratio = times[SHUFFLE] / spent
            print(f"| {data} | local[{cores}] | {limit} | {way} | {spent:.2f} | {ratio:.2f} |")


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
    for way, spent in figures.times.items():
        print(f"| {way} | {spent:.1f} | {figures.times[SHUFFLE] / spent:.2f} |")
    print(f"\npeak memory of a Python worker of the shuffle: {max(figures.workers) / (1 << 20):.0f} MiB")


def main() -> None:
    """Print all tables, or measure one line of a table.

    With the argument ``many``, print only the last table; with ``kinds`` or ``slow``, only that table.
    """
    if sys.argv[1:] == ["many"]:
        many()
        return
    if sys.argv[1:2] == ["kinds"]:
        kinds(*sys.argv[2:] or ["local[2]"])
        return
    if sys.argv[1:] == ["slow"]:
        slow()
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
