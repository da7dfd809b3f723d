"""Shuffles into more partitions than Spark has slots."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from integration.spark import ShuffleWarning, shuffle, shuffle_statistics
from integration.spark.failure_causes import one_line
from integration.spark.shuffling.pieces import Layout
from integration.spark.shuffling.placement import hash_placement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COUNT = 11
"""Partitions, for which the session has four slots."""

ROWS = 30_000
LIMIT = 1 << 20


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(ROWS, numPartitions=4).selectExpr(
        "id", "if(id % 7 = 0, null, concat('name ', id % 97)) as name", "repeat('x', 150) as text"
    )


def partitions(frame: DataFrame) -> list[list[Any]]:
    """The ids of each partition, in one action."""
    from pyspark.sql import functions as sf

    found: list[list[Any]] = [[] for _ in range(COUNT)]
    for row, partition in frame.select("id", sf.spark_partition_id()).collect():
        found[partition].append(row)
    return found


def test_partitions_are_those_of_sparks_repartition_within_the_memory(frame: DataFrame) -> None:
    shuffled = shuffle(frame, "name", num_partitions=COUNT, partitioner="spark", max_memory=LIMIT)
    assert shuffled.schema == frame.schema
    ours, theirs = partitions(shuffled), partitions(frame.repartition(COUNT, "name"))
    assert [Counter(part) for part in ours] == [Counter(part) for part in theirs]
    reports = shuffle_statistics(shuffled).collect()
    assert [report.task for report in reports] == [0, 1, 2, 3]
    of_partitions = shuffle_statistics(shuffled, per="partition").collect()
    assert [report.partition for report in of_partitions] == list(range(COUNT))
    assert [report.rows for report in of_partitions] == list(map(len, ours))
    for report in of_partitions:
        assert report.partition in Layout(COUNT, 4).partitions_of(report.task)
        assert report.rows * 150 < report.bytes < report.rows * 250
    assert sum(report.rows for report in reports) == ROWS
    for report in reports:
        assert 0 < report.peak_held_bytes < 2 * LIMIT < ROWS * 150


def test_there_are_as_many_partitions_as_were_asked_for_and_any_action_works(frame: DataFrame) -> None:
    shuffled = shuffle(frame, "id", num_partitions=COUNT, compression="zstd")
    assert shuffled.rdd.getNumPartitions() == COUNT
    some = shuffled.take(5)
    assert len({row.id for row in some}) == 5
    assert some[0].text == "x" * 150
    table = frame.select("id").toArrow().combine_chunks().to_batches()[0]
    targets = hash_placement(table.schema, ["id"], COUNT).place(table)
    expected: list[list[Any]] = [[] for _ in range(COUNT)]
    for number, target in zip(table.column(0).to_pylist(), targets, strict=True):  # type: ignore[arg-type]
        expected[target].append(number)
    assert list(map(sorted, partitions(shuffled))) == list(map(sorted, expected))


def test_turns_copies_and_ranges(spark: SparkSession) -> None:
    few = spark.range(110, numPartitions=2)
    turns = partitions(shuffle(few, ship="rebalance", num_partitions=COUNT))
    assert sorted(row for part in turns for row in part) == list(range(110))
    assert set(map(len, turns)) == {10}
    copies = partitions(shuffle(few, ship="broadcast", num_partitions=COUNT))
    assert list(map(sorted, copies)) == [list(range(110))] * COUNT
    ranges = partitions(shuffle(few, "id", ship="range", bounds=list(range(9, 109, 10))))
    assert list(map(sorted, ranges)) == [list(range(first, first + 10)) for first in range(0, 110, 10)]


def test_without_rows_there_are_as_many_partitions(spark: SparkSession) -> None:
    for empty in (
        spark.range(10, numPartitions=2).where("id < 0"),
        spark.range(10).where("id < 0").repartition(3),
    ):
        shuffled = shuffle(empty, "id", num_partitions=COUNT)
        assert shuffled.rdd.getNumPartitions() == COUNT
        assert shuffled.collect() == []


def test_tasks_are_as_many_as_partitions_of_the_input_if_those_are_fewer_than_slots(
    frame: DataFrame, spark: SparkSession, recwarn: pytest.WarningsRecorder
) -> None:
    shuffle(spark.range(9, numPartitions=3), "id", num_partitions=COUNT)
    assert not [warning for warning in recwarn if warning.category is ShuffleWarning]
    with pytest.warns(
        ShuffleWarning, match=r"has 9 partitions instead of the 4 that are wanted.*repartition\(4\)"
    ):
        shuffle(frame.repartition(9), "id", num_partitions=COUNT)
    with pytest.warns(ShuffleWarning, match="max_memory has no effect: each of the 4 partitions has a task"):
        shuffle(frame, "id", num_partitions=4, max_memory="64 mb")


@pytest.mark.long
def test_what_fails_in_the_input_is_said_in_one_line(frame: DataFrame) -> None:
    wrong = frame.selectExpr("if(id = 29999, raise_error('the first cause'), id) as id")
    with pytest.raises(Exception, match="the first cause") as raised:
        shuffle(wrong, "id", num_partitions=COUNT).collect()
    assert one_line(raised.value).endswith("the first cause")
