"""What a shuffle gives: the same rows, each where it belongs."""

from __future__ import annotations

import json
import math
import os
import random
import runpy
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from integration.spark import ShuffleWarning, shuffle, shuffle_statistics, shuffled_by
from netstack import assign_to_operators, default_max_parallelism, java_hash
from tests.integration.clusters import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COUNT = 3

ALL_TYPES = """
    select * from values
        (1, 'Zürich €😀', 1.50BD, date'2020-02-29', timestamp'2020-07-01 12:00:00.000001 Europe/Paris',
         timestamp_ntz'2020-07-01 12:00:00.000001', true, X'00FF', double('NaN'), 1Y, 2S, 1.5f,
         9223372036854775807L, array(1, null), map('k', array(date'2020-01-01'), 'n', null),
         struct(1.5f as x, struct('in' as y, X'01' as z) as s), interval '1' day, void),
        (2, '', -99.99BD, date'0001-01-01', timestamp'1969-12-31 23:59:59.999999 UTC',
         timestamp_ntz'9999-12-31 23:59:59', false, X'', double('-0.0'), -128Y, -1S, float('-inf'),
         -1L, array(), map(), struct(null as x, null as s), interval '-1.000001' second, void),
        (3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
         null)
    as t(k, s, d, day, zoned, naive, b, raw, x, tiny, small, f, big, list, m, st, gap, nothing)
"""


def rows_of(frame: DataFrame) -> Counter[str]:
    """The rows as text, in which NaN is equal to NaN, and how often there is each."""
    return Counter(map(repr, frame.collect()))


def partitions(frame: DataFrame, count: int) -> list[list[tuple[Any, ...]]]:
    """The rows of each partition, in one action."""
    from pyspark.sql import functions as sf

    found: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
    for *row, partition in frame.select("*", sf.spark_partition_id()).collect():
        found[partition].append(tuple(row))
    return found


def numbers(spark: SparkSession, rows: int = 1000, count: int = COUNT) -> DataFrame:
    return spark.range(rows, numPartitions=count).selectExpr("id", "concat('name ', id % 50) as name")


def owners(hashes: java_hash.Hashes, count: int = COUNT) -> list[int]:
    """The partitions to which Flink sends hash codes."""
    return assign_to_operators(hashes, default_max_parallelism(count), count).tolist()


def test_rows_of_all_types_arrive_as_they_were(spark: SparkSession) -> None:
    void = spark.sql(ALL_TYPES.replace("void", "null"))
    frame = void.unionByName(void).repartition(COUNT)
    shuffled = shuffle(frame, "k", "s", "d", "day", "zoned", "naive", "b", "raw", "x", "tiny", "f", "big")
    assert shuffled.schema == frame.schema
    assert rows_of(shuffled) == rows_of(frame)


def test_schema_nullability_and_metadata_stay(spark: SparkSession) -> None:
    from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

    inner = StructType([StructField("in", StringType(), False, {"inner": 1})])
    schema = StructType(
        [
            StructField("k", IntegerType(), False, {"comment": "the key"}),
            StructField("v", StringType(), True),
            StructField("list", ArrayType(inner, False), False),
        ]
    )
    frame = spark.createDataFrame([(1, None, [("a",)]), (2, "x", [])], schema).repartition(2)
    shuffled = shuffle(frame, "k")
    assert shuffled.schema == schema
    assert [field.metadata for field in shuffled.schema] == [{"comment": "the key"}, {}, {}]
    assert rows_of(shuffled) == rows_of(frame)


def test_rows_land_where_key_groups_put_them(spark: SparkSession) -> None:
    found = partitions(shuffle(numbers(spark), "id"), COUNT)
    expected = owners(java_hash.hash_longs(np.arange(1000)))
    assert [sorted(row[0] for row in part) for part in found] == [
        [number for number, owner in enumerate(expected) if owner == target] for target in range(COUNT)
    ]


def test_rows_of_one_sender_keep_their_order(spark: SparkSession) -> None:
    for part in partitions(shuffle(numbers(spark, 9000), "id"), COUNT):
        for first in range(0, 9000, 3000):
            ids = [row[0] for row in part if first <= row[0] < first + 3000]
            assert ids == sorted(ids)


NOT_UTF8 = ["C3", "A9", "C328", "C0AF", "E282", "EDA080", "EDA041", "EDB0", "F09041", "F48FBF", "F8", "41FF"]


def test_keys_that_are_not_utf8_go_where_java_reads_them(spark: SparkSession) -> None:
    keys = [bytes.fromhex(text) for text in NOT_UTF8]
    java = spark._jvm
    assert java is not None
    utf8 = java.java.nio.charset.StandardCharsets.UTF_8
    read = [java.java.util.Objects.hashCode(java.java.lang.String(bytearray(key), utf8)) for key in keys]
    home = dict(zip(NOT_UTF8, owners(np.array(read, np.int32)), strict=True))
    texts = ", ".join(f"'{text}'" for text in NOT_UTF8)
    frame = spark.range(200, numPartitions=COUNT).selectExpr(f"explode(shuffle(array({texts}))) as hex")
    shuffled = shuffle(frame.selectExpr("hex", "cast(unhex(hex) as string) as key"), "key")
    found = partitions(shuffled.select("hex"), COUNT)
    assert sum(map(len, found)) == 200 * len(keys)
    assert {(text, target) for target, part in enumerate(found) for (text,) in part} == set(home.items())


@pytest.mark.parametrize(("ship", "copies"), [("rebalance", 1), ("broadcast", COUNT), ("hash", 1)])
def test_rows_without_columns_arrive(spark: SparkSession, ship: Any, copies: int) -> None:
    from pyspark.sql import functions as sf

    frame = spark.range(0, 100, 1, COUNT).select()
    shuffled = shuffle(frame, *([sf.lit(1)] if ship == "hash" else []), ship=ship)
    assert (shuffled.columns, shuffled.count()) == ([], 100 * copies)
    assert sum(row.rows for row in shuffle_statistics(shuffled).collect()) == 100 * copies


def test_equal_keys_meet_whatever_the_key(spark: SparkSession) -> None:
    from pyspark.sql import functions as sf

    frame = numbers(spark).withColumn("s", sf.struct((sf.col("id") % 7).alias("seven")))
    for keys in (["name"], ["s.seven", "name"], [sf.col("id") % 10], ["NAME", sf.upper("name")]):
        key_rows = shuffle(frame, *keys).select(*keys)
        found = [{tuple(row) for row in part} for part in partitions(key_rows, COUNT)]
        assert len(set.union(*found)) == sum(map(len, found))
        assert set.union(*found) == {tuple(row) for row in frame.select(*keys).collect()}


def test_a_computed_key_goes_where_its_value_does(spark: SparkSession) -> None:
    from pyspark.sql import functions as sf

    found = partitions(shuffle(numbers(spark), (sf.col("id") % 10).cast("int")), COUNT)
    expected = owners(java_hash.hash_ints(np.arange(10, dtype=np.int32)))
    placed = {row[0] % 10: target for target, part in enumerate(found) for row in part}
    assert placed == dict(enumerate(expected))
    assert [len(row) for part in found for row in part[:1]] == [2] * len(set(expected))


MIXED = """select id, if(id % 11 = 0, null, id % 50) as a, concat('x', id % 20) as b,
    cast(id % 9 as decimal(12, 2)) as c, date_add(date'2020-01-01', cast(id % 30 as int)) as d,
    double(id % 6) - 3 as e, array(id % 3) as f from ids"""


@pytest.mark.parametrize("keys", [["a"], ["b", "c"], ["d", "e", "f", "a"]])
def test_sparks_placement_is_that_of_its_repartition(spark: SparkSession, keys: list[str]) -> None:
    spark.range(2000, numPartitions=4).createOrReplaceTempView("ids")
    frame = spark.sql(MIXED)
    ours = partitions(shuffle(frame, *keys, partitioner="spark"), 4)
    theirs = partitions(frame.repartition(4, *keys), 4)
    assert [Counter(map(repr, part)) for part in ours] == [Counter(map(repr, part)) for part in theirs]


def test_keys_have_any_form_that_repartition_takes(spark: SparkSession) -> None:
    from pyspark.sql import functions as sf

    frame = spark.range(90, numPartitions=COUNT).selectExpr("id", "id % 7 as k", "struct(id % 5 as a) as s")
    forms: list[list[Any]] = [
        [["k", "id"]],
        [[sf.col("k"), "id"]],
        ["s.a"],
        [frame.k, frame["id"]],
        [[frame.k + 1]],
    ]
    for form in forms:
        ours = shuffle(frame, *form, num_partitions=COUNT, partitioner="spark")
        theirs = frame.repartition(COUNT, *form)
        assert [sorted(part) for part in partitions(ours, COUNT)] == [
            sorted(part) for part in partitions(theirs, COUNT)
        ]


def test_a_shuffle_is_a_step_of_a_chain(spark: SparkSession) -> None:
    frame = numbers(spark)
    chained = frame.where("id > 10").transform(shuffled_by("name", num_partitions=COUNT)).select("name", "id")
    direct = shuffle(frame.where("id > 10"), "name", num_partitions=COUNT).select("name", "id")
    assert [sorted(part) for part in partitions(chained, COUNT)] == [
        sorted(part) for part in partitions(direct, COUNT)
    ]
    with pytest.raises(TypeError, match="'partitions'"):
        shuffled_by("name", partitions=COUNT)


def test_rebalance_deals_rows_out_evenly(spark: SparkSession) -> None:
    found = partitions(shuffle(numbers(spark, 1000), ship="rebalance"), COUNT)
    sizes = [len(part) for part in found]
    assert sum(sizes) == 1000
    assert max(sizes) - min(sizes) <= COUNT
    assert sorted(row[0] for part in found for row in part) == list(range(1000))


def test_broadcast_gives_every_row_to_every_partition(spark: SparkSession) -> None:
    found = partitions(shuffle(numbers(spark, 100), ship="broadcast"), COUNT)
    assert [sorted(row[0] for row in part) for part in found] == [list(range(100))] * COUNT


def test_a_range_ends_with_its_bound(spark: SparkSession) -> None:
    found = partitions(shuffle(numbers(spark), "id", ship="range", bounds=[10, 990]), 3)
    assert [sorted(row[0] for row in part) for part in found] == [
        list(range(11)),
        list(range(11, 991)),
        list(range(991, 1000)),
    ]


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ("null, double('NaN'), -1.0D, 0.0D, 5.0D, double('inf')", [-0.5, float("inf")]),
        ("'b', null, '', 'a', 'B', 'ä', 'z'", ["Z", "m"]),
        ("X'', X'80', null, X'7F', X'FF00'", [b"\x10", b"\x80"]),
    ],
)
def test_ranges_are_those_of_sparks_ordering(spark: SparkSession, values: str, bounds: list[Any]) -> None:
    listed = ", ".join(f"({value})" for value in values.split(", "))
    frame = spark.sql(f"select * from values {listed} as t(k)").repartition(3)
    found = partitions(shuffle(frame, "k", ship="range", bounds=bounds), 3)
    assert all(found)
    ordered = [row[0] for row in frame.orderBy("k").collect()]
    place = {repr(value): place for place, value in enumerate(ordered)}
    for lower, upper in pairwise(found):
        assert max(place[repr(row[0])] for row in lower) < min(place[repr(row[0])] for row in upper)


MOMENTS = [datetime(year, 3, 1, 12, 0, 0, 1) for year in (1, 999, 1000, 1582, 1900, 2020)]


@pytest.mark.parametrize("days", [True, False], ids=["dates", "timestamps"])
def test_ranges_of_days_long_ago(spark: SparkSession, days: bool) -> None:
    values = [moment.date() if days else moment for moment in MOMENTS]
    frame = spark.createDataFrame([(value,) for value in values], "k date" if days else "k timestamp")
    bounds = [values[0], values[2]]
    found = partitions(shuffle(frame.repartition(3), "k", ship="range", bounds=bounds), 3)
    assert [sorted(value for (value,) in part) for part in found] == [values[:1], values[1:3], values[3:]]


def test_ranges_of_two_columns(spark: SparkSession) -> None:
    frame = spark.sql("select id % 10 as a, id as b from range(0, 100, 1, 3)")
    found = partitions(shuffle(frame, "a", "b", ship="range", bounds=[(3, 50), (7, 0)]), 3)
    for target, part in enumerate(found):
        assert {target} == {0 if row <= (3, 50) else 1 if row <= (7, 0) else 2 for row in part}


def test_without_rows(spark: SparkSession) -> None:
    empty = spark.range(10, numPartitions=2).where("id < 0")
    assert shuffle(empty, "id").collect() == []
    assert shuffle(spark.sql("select * from values (1) as t(id) where id < 0"), "id").collect() == []
    # Adaptive execution has found out that nothing comes, and has left out all partitions but one.
    assert shuffle(empty.repartition(3), "id").count() == 0


def test_one_partition(spark: SparkSession) -> None:
    assert partitions(shuffle(numbers(spark, 10, 1), "id"), 1) == [
        [(number, f"name {number}") for number in range(10)]
    ]


def test_names_of_columns_may_repeat_and_hold_anything(spark: SparkSession) -> None:
    frame = spark.range(9, numPartitions=3).toDF("a.b").selectExpr("`a.b`", "`a.b` as x", "-`a.b` as X")
    shuffled = shuffle(frame, "`a.b`", partitioner="spark")
    assert shuffled.columns == ["a.b", "x", "X"]
    assert rows_of(shuffled) == rows_of(frame)
    assert rows_of(shuffle(frame, frame["`a.b`"])) == rows_of(frame)


def test_the_session_may_change_between_the_call_and_the_action(spark: SparkSession) -> None:
    frame = spark.sql("select timestamp'2020-07-01 12:00:00 UTC' as t, 'text' as s").repartition(2)
    shuffled = shuffle(frame, "t")
    changed = {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
    }
    before = {name: spark.conf.get(name) for name in changed}
    try:
        for name, value in changed.items():
            spark.conf.set(name, value)
        assert rows_of(shuffled) == rows_of(frame)
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


def test_the_number_of_partitions_is_that_of_the_input_or_what_fits(spark: SparkSession) -> None:
    def count(frame: DataFrame, **options: Any) -> int:
        return int(shuffle(frame, "id", **options).rdd.getNumPartitions())

    assert count(spark.range(10, numPartitions=2)) == 2
    assert count(spark.range(10, numPartitions=4)) == 4
    with pytest.warns(ShuffleWarning, match=r"has 7 partitions instead of the 4 that are wanted"):
        assert count(spark.range(10, numPartitions=7)) == 4
    with pytest.warns(
        ShuffleWarning, match=r"has 4 partitions instead of the 3 that are wanted.*repartition\(3\)"
    ):
        assert count(spark.range(10, numPartitions=4), num_partitions=3) == 3
    with pytest.warns(
        ShuffleWarning,
        match="adaptive execution may coalesce the partitions of its last exchange while the query runs",
    ):
        assert count(spark.range(10).groupBy("id").count().repartition("id")) == 4


def widened(frame: DataFrame) -> DataFrame:
    return frame.coalesce(2)


def united(frame: DataFrame) -> DataFrame:
    return frame.union(frame)


def shuffled_before(frame: DataFrame) -> DataFrame:
    return shuffle(frame, "id")


@pytest.mark.parametrize(
    ("change", "why"),
    [(widened, "a coalesce"), (united, "a union"), (shuffled_before, "another barrier stage")],
)
def test_what_no_barrier_stage_can_read_is_repartitioned(
    spark: SparkSession, change: Callable[[DataFrame], DataFrame], why: str
) -> None:
    frame = change(numbers(spark, 100, 2))
    with pytest.warns(ShuffleWarning, match=why):
        shuffled = shuffle(frame, "id", num_partitions=2)
    assert rows_of(shuffled) == rows_of(frame)


def test_a_shuffle_is_an_input_like_any_other(spark: SparkSession) -> None:
    from pyspark.sql import functions as sf

    frame = numbers(spark, 1000)
    ours = shuffle(frame, "id").join(shuffle(frame.groupBy("name").count().repartition(2), "name"), "name")
    theirs = frame.join(frame.groupBy("name").count(), "name")
    total = [sf.sum("id"), sf.sum("count"), sf.count("*")]
    assert ours.agg(*total).collect() == theirs.agg(*total).collect()


SLOW_BATCH_S = 0.02


def test_a_hot_key_and_a_slow_reader_do_not_take_memory(spark: SparkSession) -> None:
    import time
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import functions as sf

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(SLOW_BATCH_S)
            yield pa.RecordBatch.from_pydict({"bytes": [batch.nbytes]})

    rows, size, limit = 600_000, 1000, 2 << 20
    frame = spark.range(rows, numPartitions=2).select("id", sf.lit("x" * size).alias("text"))
    options = {"taskmanager.memory.network.max": f"{limit} b"}
    shuffled = shuffle(frame, sf.lit(0), config=options)
    received = shuffled.mapInArrow(slowly, "bytes long").agg(sf.sum("bytes")).collect()
    assert received[0][0] > rows * size
    reports = shuffle_statistics(shuffled).collect()
    assert sorted(report.rows for report in reports) == [0, rows]
    for report in reports:
        assert report.peak_network_memory_bytes <= report.network_memory_bytes <= limit
        assert report.worker_memory_bytes < rows * size / 2
    assert math.fsum(report.write_blocked_s for report in reports) > 0


EXAMPLE = ROOT / "docs" / "examples" / "shuffle_stream.py"

CITIES = ("Aachen", "Bonn", "Köln", "Ulm", "")


def write_file(folder: Path, number: int, draw: random.Random) -> Counter[str]:
    """Write a file of rows, which are read in the order of their numbers; returns each city's passengers."""
    path = folder / f"{number}.json"
    rows = [{"city": draw.choice(CITIES), "passengers": draw.randrange(1, 9)} for _ in range(200)]
    path.write_text("\n".join(map(json.dumps, rows)))
    os.utime(path, (number, number))
    passengers = Counter[str]()
    for row in rows:
        passengers[row["city"]] += row["passengers"]
    return passengers


def test_the_example_has_the_totals_of_each_city_after_each_batch(spark, tmp_path):
    folder = tmp_path / "input"
    folder.mkdir()
    draw = random.Random(7)
    files = [write_file(folder, number, draw) for number in range(6)]
    expected = [dict(sum(files[:number], Counter[str]())) for number in (2, 4, 6)]
    totals = runpy.run_path(str(EXAMPLE))["totals"]
    assert totals(str(folder)) == expected
