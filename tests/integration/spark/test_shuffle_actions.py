"""What Spark refuses to do with what a barrier stage gives, what it does, and what to write instead.

docs/SHUFFLE.md has these as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.spark import shuffle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 100
CHAIN = r"\[SPARK-24820\]\[SPARK-24821\]: .* does not allow the following pattern of RDD chain"
SLOTS = r"\[SPARK-24819\]: .* requires more slots than the total number of slots"

Action = Callable[["DataFrame"], Any]


@pytest.fixture(scope="module")
def shuffled(spark: SparkSession) -> DataFrame:
    """Rows in two partitions, which is half of the slots."""
    return shuffle(spark.range(ROWS, numPartitions=2), "id")


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, DataFrame]]:
    """Others of them, kept in all ways in which Spark keeps rows."""
    spark.sparkContext.setCheckpointDir(str(tmp_path_factory.mktemp("checkpoints")))
    frame = shuffle(spark.range(ROWS, numPartitions=2), "id")
    checkpoints = {"localCheckpoint": frame.localCheckpoint(), "checkpoint": frame.checkpoint()}
    cached = frame.cache()
    assert cached.count() == ROWS
    yield {"cache": cached, **checkpoints}
    cached.unpersist()


REFUSED: dict[str, Action] = {
    "show": lambda frame: frame.show(),
    "take": lambda frame: frame.take(1),
    "first": lambda frame: frame.first(),
    "head": lambda frame: frame.head(),
    "tail": lambda frame: frame.tail(1),
    "limit": lambda frame: frame.limit(1).collect(),
    "toLocalIterator": lambda frame: list(frame.toLocalIterator()),
    "rdd.take": lambda frame: frame.rdd.take(1),
    "rdd.first": lambda frame: frame.rdd.first(),
    "coalesce": lambda frame: frame.coalesce(1).count(),
    "union": lambda frame: frame.union(frame).count(),
    "union of another": lambda frame: frame.union(frame.sparkSession.range(5, numPartitions=2)).count(),
}


@pytest.mark.parametrize("action", REFUSED)
def test_spark_refuses(shuffled: DataFrame, action: str) -> None:
    with pytest.raises(Exception, match=CHAIN):
        REFUSED[action](shuffled)


def test_a_union_of_more_partitions_than_slots_is_refused_for_its_size(shuffled: DataFrame) -> None:
    # Outside of adaptive execution Spark looks for more slots for ten minutes before it says so.
    wide = shuffled.sparkSession.range(5, numPartitions=5)
    with pytest.raises(Exception, match=SLOTS):
        shuffled.union(wide).groupBy().count().collect()


@pytest.mark.parametrize("way", ["cache", "localCheckpoint", "checkpoint"])
@pytest.mark.parametrize("action", ["show", "take", "limit", "coalesce", "union"])
def test_keeping_the_rows_changes_nothing(kept: dict[str, DataFrame], way: str, action: str) -> None:
    with pytest.raises(Exception, match=CHAIN):
        REFUSED[action](kept[way])


ALLOWED: dict[str, tuple[Action, Any]] = {
    "collect": (lambda frame: len(frame.collect()), ROWS),
    "count": (lambda frame: frame.count(), ROWS),
    "toPandas": (lambda frame: len(frame.toPandas()), ROWS),
    "toArrow": (lambda frame: frame.toArrow().num_rows, ROWS),
    "foreachPartition": (lambda frame: frame.foreachPartition(lambda rows: None), None),
    "rdd.count": (lambda frame: frame.rdd.count(), ROWS),
    "coalesce to as many": (lambda frame: frame.coalesce(2).count(), ROWS),
    "where, then count": (lambda frame: frame.where("id < 10").count(), 10),
    "groupBy, then show": (lambda frame: frame.groupBy("id").count().show(1), None),
    "distinct": (lambda frame: frame.distinct().count(), ROWS),
    "join": (lambda frame: frame.join(frame.sparkSession.range(5), "id").count(), 5),
    "sortWithinPartitions": (lambda frame: len(frame.sortWithinPartitions("id").collect()), ROWS),
}


@pytest.mark.parametrize("action", ALLOWED)
def test_spark_allows(shuffled: DataFrame, action: str) -> None:
    act, result = ALLOWED[action]
    assert act(shuffled) == result


def written(folder: Path) -> Action:
    def write_and_read(frame: DataFrame) -> DataFrame:
        frame.write.mode("overwrite").parquet(str(folder))
        return frame.sparkSession.read.parquet(str(folder))

    return write_and_read


INSTEAD: dict[str, tuple[Action, int]] = {
    "the first rows of an order": (lambda frame: frame.orderBy("id").take(3), 3),
    "a limit behind an exchange": (lambda frame: frame.repartition(2).limit(3).collect(), 3),
    "a coalesce behind an exchange": (lambda frame: frame.repartition(1).collect(), ROWS),
    "a union behind exchanges": (lambda frame: frame.repartition(2).union(frame.repartition(2)).take(3), 3),
    "rows of an aggregation": (lambda frame: frame.groupBy("id").count().limit(3).collect(), 3),
    "rows in the driver": (lambda frame: frame.toArrow().slice(0, 3).to_pylist(), 3),
}


@pytest.mark.parametrize("way", INSTEAD)
def test_what_to_write_instead(shuffled: DataFrame, way: str) -> None:
    act, rows = INSTEAD[way]
    assert len(act(shuffled)) == rows


def test_what_is_written_can_be_read_in_any_way(shuffled: DataFrame, tmp_path: Path) -> None:
    read = written(tmp_path / "rows")(shuffled)
    assert len(read.take(3)) == 3
    assert read.union(read).coalesce(1).count() == 2 * ROWS


def first_batch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, 3)
        return


def test_a_python_function_may_stop_early(spark: SparkSession) -> None:
    frame = spark.range(1_000_000, numPartitions=2)
    assert len(shuffle(frame, "id").mapInArrow(first_batch, frame.schema).collect()) == 6


def test_a_limit_that_spark_accepts_may_end_a_task_before_its_peers_are_done(spark: SparkSession) -> None:
    from pyspark.sql import functions as sf

    # One partition has all rows, more than fit into the network, and Spark ends its task after three of them.
    small = {"taskmanager.memory.network.max": "2 mb"}
    frame = spark.range(60_000, numPartitions=2).select("id", sf.lit("x" * 1000).alias("text"))
    limited = shuffle(frame, sf.lit(0), config=small).limit(3)
    with pytest.raises(Exception, match=r"task \d .*(were not all read|rows ended)"):
        limited.write.format("noop").mode("overwrite").save()
