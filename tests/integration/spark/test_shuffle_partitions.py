"""The partitions of a DataFrame before anything runs, and files read in a number of partitions."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from integration.spark import shuffle
from integration.spark.shuffling.frame_partitions import StageInput, inspect_input, read_in_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Change = Callable[["DataFrame"], "DataFrame"]


@pytest.fixture
def jobs(spark: SparkSession) -> Iterator[Callable[[], list[int]]]:
    """Tells which jobs have been run by this test; adaptive execution runs each stage as one."""
    context, group = spark.sparkContext, uuid.uuid4().hex
    context.setJobGroup(group, "a test")
    yield lambda: list(context.statusTracker().getJobIdsForGroup(group))
    context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


@pytest.fixture(params=["true", "false"], ids=["adaptive", "static"])
def adaptive(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    spark.conf.set("spark.sql.adaptive.enabled", request.param)
    yield request.param == "true"
    spark.conf.unset("spark.sql.adaptive.enabled")


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def barrier(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(identity, "id long", barrier=True)


def with_dimension(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    dimension = frame.sparkSession.range(5).withColumnRenamed("id", "other")
    return frame.join(sf.broadcast(dimension), frame["id"] == dimension["other"])


def dimension_first(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    dimension = frame.sparkSession.range(5).withColumnRenamed("id", "other")
    return sf.broadcast(dimension).join(frame, frame["id"] == dimension["other"], "right")


def with_python(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return frame.withColumn("one", sf.udf(lambda number: number)("id")).mapInArrow(
        identity, "id long, one string"
    )


KEEPING: list[tuple[Change, int]] = [
    (lambda frame: frame, 100),
    (lambda frame: frame.where("id > 3").selectExpr("id", "id + 1 as next"), 96),
    (lambda frame: frame.sample(1.0), 100),
    (lambda frame: frame.sortWithinPartitions("id"), 100),
    (lambda frame: frame.selectExpr("explode(array(id, id)) as id"), 200),
    (with_dimension, 5),
    (dimension_first, 100),
    (with_python, 100),
]
"""What may be done to 100 rows, and how many it makes of them."""


@pytest.mark.parametrize(("change", "rows"), KEEPING)
def test_nodes_that_keep_partitions_are_seen_through(
    spark: SparkSession, jobs: Callable[[], list[int]], change: Change, rows: int
) -> None:
    changed = change(spark.range(100, numPartitions=3)).select("id")
    assert inspect_input(changed) == StageInput(3)
    assert jobs() == []
    assert barrier(changed).count() == rows  # Spark accepts it


def test_sources_know_their_partitions(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "files")
    spark.range(1000, numPartitions=5).write.parquet(folder)
    files = spark.read.parquet(folder)
    for frame in (
        files.select("id"),
        spark.sparkContext.parallelize([(1,), (2,)], 3).toDF(["id"]),
        spark.createDataFrame([(1,), (2,)], ["id"]),
        spark.sql("select * from values (1), (2), (3) as t(id)"),
        spark.range(10, numPartitions=3).localCheckpoint(),
    ):
        assert inspect_input(frame) == StageInput(frame.rdd.getNumPartitions())


def test_a_repartition_into_a_number_is_kept_by_adaptive_execution(
    spark: SparkSession, jobs: Callable[[], list[int]], adaptive: bool
) -> None:
    frame = spark.range(100, numPartitions=4)
    for exchanged in (
        frame.repartition(3),
        frame.repartition(3, "id"),
        frame.repartition(7).repartition(3, "id"),
    ):
        assert inspect_input(exchanged.where("id > 3")) == StageInput(3)
    assert jobs() == []


def test_other_exchanges_may_be_coalesced_by_adaptive_execution(
    spark: SparkSession, jobs: Callable[[], list[int]], adaptive: bool
) -> None:
    frame = spark.range(100, numPartitions=2)
    for exchanged in (frame.repartition("id"), frame.selectExpr("id % 5 as id").groupBy("id").count()):
        found = inspect_input(exchanged)
        if adaptive:
            assert found.partitions is None
            assert (
                "adaptive execution may coalesce the partitions of its last exchange while the query runs"
            ) in found.reason
        else:
            assert found == StageInput(4)  # spark.sql.shuffle.partitions
    assert jobs() == []


def union_of_rdds(frame: DataFrame) -> DataFrame:
    context = frame.sparkSession.sparkContext
    return context.parallelize([(1,)], 1).union(context.parallelize([(2,)], 1)).toDF("id long")


UNKNOWN: list[tuple[Change, str]] = [
    (lambda frame: frame.union(frame), "a union"),
    (lambda frame: frame.union(frame).where("id > 3").select("id"), "a union"),
    (lambda frame: frame.coalesce(1), "a coalesce"),
    (union_of_rdds, "there is a union or a coalesce of RDDs after its last exchange"),
    (barrier, "another barrier stage"),
    (lambda frame: barrier(frame).where("id > 3"), "another barrier stage"),
    (
        lambda frame: frame.repartitionByRange(3, "id"),
        "an exchange by range may produce fewer partitions than it was asked for",
    ),
    (
        lambda frame: frame.orderBy(-frame["id"]),
        "an exchange by range may produce fewer partitions than it was asked for",
    ),
    (lambda frame: frame.limit(3), "a CollectLimit"),
    (lambda frame: frame.join(frame.hint("merge"), "id"), "a SortMergeJoin"),
]


@pytest.mark.parametrize(("change", "reason"), UNKNOWN)
def test_what_no_barrier_stage_can_read_is_seen(
    spark: SparkSession, jobs: Callable[[], list[int]], change: Change, reason: str
) -> None:
    found = inspect_input(change(spark.range(100, numPartitions=2)))
    assert found.partitions is None
    assert reason in found.reason
    assert jobs() == []


def test_what_is_cached_is_looked_into(spark: SparkSession, jobs: Callable[[], list[int]]) -> None:
    frame = spark.range(100, numPartitions=4)
    for exchanged, known in ((frame.repartition(3), StageInput(3)), (frame.where("id > 1"), StageInput(4))):
        derived = exchanged.cache().where("id > 5")
        assert inspect_input(derived) == known
        assert inspect_input(exchanged) == known
        exchanged.unpersist()
    united = frame.union(frame).cache()
    assert inspect_input(united.select("id")).partitions is None
    assert jobs() == []
    assert united.count() == 200
    assert "a union" in inspect_input(united.select("id")).reason
    united.unpersist()
    grouped = frame.selectExpr("id % 5 as id").groupBy("id").count().cache()
    assert inspect_input(grouped.select("id")).partitions is None  # nobody knows yet
    assert grouped.count() == 5
    assert inspect_input(grouped.select("id")) == StageInput(grouped.rdd.getNumPartitions())
    grouped.unpersist()


def test_a_cached_barrier_stage_remains_one(spark: SparkSession) -> None:
    cached = barrier(spark.range(10, numPartitions=2)).cache()
    assert cached.count() == 10
    assert "another barrier stage" in inspect_input(cached.select("id")).reason
    cached.unpersist()


@pytest.fixture
def checked(spark: SparkSession) -> None:
    """The workers of the session have been checked, by the first shuffle."""
    shuffle(spark.range(100, numPartitions=3), "id")


def test_a_shuffle_runs_nothing_until_an_action(
    spark: SparkSession, checked: None, jobs: Callable[[], list[int]]
) -> None:
    from pyspark.sql import functions as sf

    frame = spark.range(100, numPartitions=3)
    shuffle(frame, "id")
    shuffle(frame, sf.col("id") % 10, partitioner="spark")
    shuffle(frame, "id", ship="range", bounds=[10, 20])
    shuffle(frame.repartition(2).where("id > 3"), ship="rebalance")
    with pytest.warns(match="adaptive execution"):
        shuffle(frame.groupBy("id").count().repartition("count"), "id", num_partitions=2)
    with pytest.warns(match="an exchange by range may produce fewer partitions than it was asked for"):
        ordered = shuffle(frame.orderBy(-frame["id"]), "id", num_partitions=2)
    assert jobs() == []
    assert ordered.count() == 100
    assert jobs() != []


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    table = pa.table({"number": range(5000)})
    csv.write_csv(table, folder / "one.csv")
    parquet.write_table(table, folder / "one.parquet")
    with gzip.open(folder / "one.csv.gz", "wt") as packed:
        packed.write("number\n1\n")
    (folder / "many").mkdir()
    for name in range(9):
        csv.write_csv(table.slice(0, 100 + 450 * name), folder / "many" / f"{name}.csv")
    return folder


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("name", ["one.csv", "one.parquet", "many"])
def test_files_are_cut_into_just_as_many_partitions(spark, files, name, count):
    frame = read_in_partitions(spark, str(files / name), count)
    assert frame.rdd.getNumPartitions() == count


def test_the_session_stays_as_it_is(spark, files):
    before = spark.conf.getAll
    read_in_partitions(spark, str(files / "many"), 7)
    assert spark.conf.getAll == before


def test_no_row_is_lost_where_files_are_cut(spark, files):
    frame = read_in_partitions(spark, str(files / "one.csv"), 7)
    assert sorted(row["number"] for row in frame.collect()) == list(range(5000))


def test_a_file_that_cannot_be_cut_stays_whole(spark, files):
    frame = read_in_partitions(spark, str(files / "one.csv.gz"), 4)
    assert frame.rdd.getNumPartitions() == 1
