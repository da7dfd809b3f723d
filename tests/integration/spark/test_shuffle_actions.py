"""All actions work on a shuffled DataFrame; docs/SHUFFLE.md has a table of them and their cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.spark import ShuffleFailedError, failure_cause, shuffle, shuffle_statistics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 100

Action = Callable[["DataFrame"], Any]


@pytest.fixture(scope="module")
def shuffled(spark: SparkSession) -> DataFrame:
    """Rows in two partitions, which is half of the slots."""
    return shuffle(spark.range(ROWS, numPartitions=2), "id")


def numbers(rows: Iterable[Any]) -> list[int]:
    return sorted(row.id for row in rows)


def through_sql(frame: DataFrame) -> int:
    frame.createOrReplaceTempView("netstack_rows")
    session = frame.sparkSession
    return len(session.sql("select * from netstack_rows where id >= 10 limit 7").collect())


def of_sql(frame: DataFrame) -> list[Any]:
    return frame.sparkSession.sql("select count(*) as n from {rows} where id < 10", rows=frame).collect()


EXCHANGED: dict[str, tuple[Action, Any]] = {
    "show": (lambda frame: frame.show(3), None),
    "take": (lambda frame: len(frame.take(5)), 5),
    "first": (lambda frame: frame.first() is None, False),
    "head": (lambda frame: len(frame.head(4)), 4),
    "tail": (lambda frame: len(frame.tail(3)), 3),
    "isEmpty": (lambda frame: frame.isEmpty(), False),
    "limit": (lambda frame: len(frame.limit(6).collect()), 6),
    "limit, then count": (lambda frame: frame.limit(6).count(), 6),
    "offset": (lambda frame: len(frame.offset(90).collect()), 10),
    "toLocalIterator": (lambda frame: numbers(frame.toLocalIterator()), list(range(ROWS))),
    "rdd.take": (lambda frame: len(frame.rdd.take(2)), 2),
    "rdd.getNumPartitions": (lambda frame: frame.rdd.getNumPartitions(), 2),
    "coalesce": (lambda frame: numbers(frame.coalesce(1).collect()), list(range(ROWS))),
    "union": (lambda frame: frame.union(frame).count(), 2 * ROWS),
    "union of another": (lambda frame: frame.union(frame.sparkSession.range(5)).count(), ROWS + 5),
    "union, then groupBy": (lambda frame: frame.unionAll(frame).groupBy().count().collect(), [(200,)]),
    "crossJoin": (lambda frame: frame.crossJoin(frame.sparkSession.range(3)).count(), 3 * ROWS),
    "SQL on a view": (through_sql, 7),
    "SQL on a DataFrame": (of_sql, [(10,)]),
    "localCheckpoint": (lambda frame: len(frame.localCheckpoint().take(2)), 2),
    "where, then take": (lambda frame: numbers(frame.where(frame.id < 3).take(9)), [0, 1, 2]),
    "select, then head": (lambda frame: len(frame.select(frame["id"], "id").head(2)), 2),
    "randomSplit, then take": (lambda frame: len(frame.randomSplit([1.0, 1.0], 7)[0].take(2)), 2),
    "join, then show": (lambda frame: frame.join(frame.sparkSession.range(5), "id").show(), None),
    "na.fill, then first": (lambda frame: frame.na.fill(0).first() is None, False),
}


@pytest.mark.parametrize("action", EXCHANGED)
def test_actions_on_some_partitions_work(shuffled: DataFrame, action: str) -> None:
    act, result = EXCHANGED[action]
    assert act(shuffled) == result


ALLOWED: dict[str, tuple[Action, Any]] = {
    "collect": (lambda frame: len(frame.collect()), ROWS),
    "count": (lambda frame: frame.count(), ROWS),
    "toPandas": (lambda frame: len(frame.toPandas()), ROWS),
    "toArrow": (lambda frame: frame.toArrow().num_rows, ROWS),
    "foreachPartition": (lambda frame: frame.foreachPartition(lambda rows: None), None),
    "rdd.count": (lambda frame: frame.rdd.count(), ROWS),
    "where, then count": (lambda frame: frame.where("id < 10").count(), 10),
    "groupBy, then show": (lambda frame: frame.groupBy("id").count().show(1), None),
    "distinct": (lambda frame: frame.distinct().count(), ROWS),
    "join": (lambda frame: frame.join(frame.sparkSession.range(5), "id").count(), 5),
    "orderBy, then take": (lambda frame: numbers(frame.orderBy("id").take(3)), [0, 1, 2]),
    "sortWithinPartitions": (lambda frame: len(frame.sortWithinPartitions("id").collect()), ROWS),
}


@pytest.mark.parametrize("action", ALLOWED)
def test_other_actions_work(shuffled: DataFrame, action: str) -> None:
    act, result = ALLOWED[action]
    assert act(shuffled) == result


def exchanges(frame: DataFrame) -> int:
    """The number of exchanges in the plan of a DataFrame."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return plan.count("Repartition")


def test_only_actions_on_some_partitions_have_an_exchange(shuffled: DataFrame) -> None:
    narrow = shuffled.where("id > 3").withColumn("twice", shuffled.id * 2).select("twice")
    assert exchanges(narrow) == 0
    assert exchanges(narrow.limit(5)) == exchanges(narrow.limit(5).limit(4)) == 1


def test_the_exchange_keeps_the_partitions(shuffled: DataFrame) -> None:
    from pyspark.sql import functions as sf

    place = sf.spark_partition_id().alias("place")
    direct = sorted(shuffled.select("id", place).collect())
    parts = shuffled.rdd.glom().collect()
    assert sorted((row.id, number) for number, part in enumerate(parts) for row in part) == direct


@pytest.mark.parametrize("keep", ["cache", "persist"])
def test_a_kept_frame_runs_once(spark: SparkSession, keep: str) -> None:
    frame = shuffle(spark.range(ROWS, numPartitions=2), "id")
    getattr(frame, keep)()  # the result, which is the same object, is often not used
    assert len(frame.take(3)) == 3
    assert frame.count() == ROWS
    frame.show(1)
    assert {row.run for row in shuffle_statistics(frame).collect()} == {0}
    frame.unpersist()


def test_a_notebook_shows_rows_if_the_session_is_set_so(spark: SparkSession, shuffled: DataFrame) -> None:
    option = "spark.sql.repl.eagerEval.enabled"
    assert repr(shuffled) == "DataFrame[id: bigint]"
    spark.conf.set(option, "true")
    try:
        assert repr(shuffled.where("id = 7")).splitlines()[3] == "|  7|"
        assert "<td>7</td>" in shuffled.where("id = 7")._repr_html_()  # type: ignore[operator]
    finally:
        spark.conf.unset(option)


def test_the_plan_shows_the_barrier_stage_alone(
    shuffled: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    shuffled.explain()
    shown = capsys.readouterr().out
    assert "MapInArrow netstack_shuffle_" in shown
    assert "Exchange" not in shown


def test_a_failure_begins_with_its_cause(spark: SparkSession, shuffled: DataFrame, tmp_path: Path) -> None:
    failing = shuffled.mapInArrow(failing_map, shuffled.schema)
    actions: list[Callable[[], Any]] = [
        failing.collect,
        failing.count,
        lambda: failing.take(1),
        lambda: failing.write.mode("overwrite").parquet(str(tmp_path / "rows")),
    ]
    for act in actions:
        with pytest.raises(ShuffleFailedError) as raised:
            act()
        assert str(raised.value).splitlines()[0] == "ZeroDivisionError: division by zero"
        assert "in failing_map" in str(raised.value)
        assert failure_cause(raised.value, spark) == "ZeroDivisionError: division by zero"


def failing_map(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        1 / 0  # noqa: B018
        yield batch


def test_mistakes_in_a_query_remain_errors_of_spark(shuffled: DataFrame) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        shuffled.select("nope")


def test_another_frame_that_takes_a_shuffled_one_names_the_way_out(
    spark: SparkSession, shuffled: DataFrame
) -> None:
    with pytest.raises(Exception, match="SPARK-24820") as raised:
        spark.range(5, numPartitions=2).join(shuffled.hint("broadcast"), "id").union(shuffled).count()
    assert "shuffled.union(other)" in failure_cause(raised.value, spark)
    assert shuffled.union(spark.range(5, numPartitions=2)).count() == ROWS + 5


def written(folder: Path) -> Action:
    def write_and_read(frame: DataFrame) -> DataFrame:
        frame.write.mode("overwrite").parquet(str(folder))
        return frame.sparkSession.read.parquet(str(folder))

    return write_and_read


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


def test_a_limit_before_a_write_ends_no_task_early(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    # One partition has all rows, more than fit into the network; its peers would fail if it ended early.
    small = {"taskmanager.memory.network.max": "2 mb"}
    frame = spark.range(60_000, numPartitions=2).select("id", sf.lit("x" * 1000).alias("text"))
    limited = shuffle(frame, sf.lit(0), config=small).limit(3)
    assert written(tmp_path / "rows")(limited).count() == 3
