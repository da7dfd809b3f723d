"""Counts of the tasks of a shuffle, as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration.spark import ShuffleError, ShuffleWarning, shuffle, shuffle_statistics
from integration.spark.shuffling.reports import MAX_REPORTS, TaskReport, _rows, reports_of
from netstack import TransportStatistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS, COUNT = 90_000, 3
COUNTED = [name for name in TransportStatistics.__struct_fields__ if name != "index"]


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(ROWS, numPartitions=COUNT)


def runs(df: DataFrame) -> list[tuple[int, int]]:
    return [(row.run, row.task) for row in shuffle_statistics(df).collect()]


def test_each_run_has_a_row_for_each_task(frame: DataFrame) -> None:
    shuffled = shuffle(frame, "id")
    with pytest.warns(ShuffleWarning, match="has not run yet"):
        statistics = shuffle_statistics(shuffled)
    assert statistics.columns == [
        *("shuffle", "run", "task", "stage", "host", "rows_read", "rows", "seconds"),
        *COUNTED,
        "worker_memory_bytes",
        "peak_held_bytes",
    ]
    assert statistics.collect() == []
    assert shuffled.count() == ROWS
    assert runs(shuffled) == [(0, 0), (0, 1), (0, 2)]
    assert shuffled.count() == ROWS
    assert runs(shuffled) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_the_numbers_are_those_of_the_rows(frame: DataFrame) -> None:
    shuffled = shuffle(frame, "id")
    sizes = [len(part) for part in shuffled.rdd.glom().collect()]
    rows = shuffle_statistics(shuffled).collect()
    assert [row.rows for row in rows] == sizes
    assert [row.rows_read for row in rows] == [ROWS // COUNT] * COUNT
    assert [row.host for row in rows] == ["127.0.0.1"] * COUNT
    for name in ("records", "record_bytes", "buffers", "bytes"):
        assert sum(row[f"{name}_sent"] for row in rows) == sum(row[f"{name}_received"] for row in rows) > 0
    assert sum(row.record_bytes_sent for row in rows) >= ROWS * 8
    for row in rows:
        assert 0 < row.peak_network_memory_bytes <= row.network_memory_bytes
        assert row.worker_memory_bytes > row.network_memory_bytes
        assert row.seconds > max(row.read_blocked_s, row.write_blocked_s) >= 0


def test_each_partition_has_a_row_too(frame: DataFrame) -> None:
    shuffled = shuffle(frame, "id")
    with pytest.warns(ShuffleWarning, match="has not run yet"):
        assert shuffle_statistics(shuffled, per="partition").collect() == []
    sizes = [len(part) for part in shuffled.rdd.glom().collect()]
    statistics = shuffle_statistics(shuffled, per="partition")
    assert statistics.columns == ["shuffle", "run", "partition", "task", "rows", "bytes"]
    rows = statistics.collect()
    assert [(row.run, row.partition, row.task, row.rows) for row in rows] == [
        (0, place, place, size) for place, size in enumerate(sizes)
    ]
    for row in rows:
        assert row.rows * 8 < row.bytes < row.rows * 12
    wrong: Any = "stage"
    with pytest.raises(ShuffleError, match="per is 'stage', which is not one of task, partition"):
        shuffle_statistics(shuffled, per=wrong)


def test_sparks_page_of_the_query_has_rows_and_bytes(spark: SparkSession, frame: DataFrame) -> None:
    """They are Spark's accumulators of the operator that sends rows to Python."""
    shuffled = shuffle(frame, "id")
    assert shuffled.count() == ROWS
    (name,) = {row.shuffle for row in shuffle_statistics(shuffled).collect()}
    store: Any = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    shown = next(
        execution
        for place in reversed(range(executions.size()))
        if name in (execution := executions.apply(place)).physicalPlanDescription()
    )
    values = store.executionMetrics(shown.executionId())
    found = {}
    for place in range(shown.metrics().size()):
        metric = shown.metrics().apply(place)
        if values.contains(metric.accumulatorId()):
            found[metric.name()] = str(values.apply(metric.accumulatorId()))
    assert "90,000" in found["number of output rows"]
    assert "iB" in found["data sent to Python workers"]
    assert "iB" in found["data returned from Python workers"]


def test_a_derived_frame_knows_its_shuffles(frame: DataFrame) -> None:
    by_id, by_rest = shuffle(frame, "id"), shuffle(frame.selectExpr("id", "id % 7 as rest"), "rest")
    joined = by_id.where("id > 10").join(by_rest, "id").groupBy("rest").count()
    assert joined.count() == 7
    of_joined = shuffle_statistics(joined).collect()
    of_each = [shuffle_statistics(part).collect() for part in (by_id, by_rest)]
    assert sorted(of_joined) == sorted(of_each[0] + of_each[1])
    assert {len({row.shuffle for row in rows}) for rows in of_each} == {1}
    assert [len(rows) for rows in of_each] == [COUNT, COUNT]


def test_the_plan_names_the_shuffle(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    shuffled = shuffle(frame, "id")
    assert shuffled.count() == ROWS
    (name,) = {row.shuffle for row in shuffle_statistics(shuffled).collect()}
    shuffled.explain()
    assert f"MapInArrow {name}(id" in capsys.readouterr().out


def test_a_cached_frame_has_run_once(frame: DataFrame) -> None:
    shuffled = shuffle(frame, "id").cache()
    for _ in range(2):
        assert shuffled.count() == ROWS
    assert runs(shuffled) == [(0, 0), (0, 1), (0, 2)]
    shuffled.unpersist()


def test_a_frame_without_a_shuffle_has_no_statistics(frame: DataFrame) -> None:
    with pytest.raises(ShuffleError, match="the plan of this DataFrame contains no shuffle"):
        shuffle_statistics(frame)
    with pytest.raises(ShuffleError, match="the plan of this DataFrame contains no shuffle"):
        shuffle_statistics(shuffle(frame, "id").localCheckpoint())


def test_the_latest_reports_are_kept(spark: SparkSession, frame: DataFrame) -> None:
    ledger = reports_of(spark.sparkContext)
    assert reports_of(spark.sparkContext) is ledger
    assert ledger.value.maxlen == MAX_REPORTS


def report(shuffle: str, attempt: str, task: int) -> TaskReport:
    others = dict.fromkeys(TransportStatistics.__struct_fields__[1:], 0)
    transport = TransportStatistics(task, **others)
    return TaskReport(shuffle, attempt, 7, "host", 10, 20, 0.5, 30, 40, transport, [])


def test_runs_are_numbered_for_each_shuffle_in_the_order_of_their_first_report() -> None:
    arrived = [
        ("a", "x", 1),
        ("b", "y", 0),
        ("a", "x", 0),
        ("c", "z", 0),
        ("a", "w", 0),  # the second run of a
        ("b", "y", 1),
        ("c", "x", 0),  # an attempt's name counts within its shuffle only
        ("a", "w", 1),
    ]
    numbered = [row[:3] for row in _rows(report(*each) for each in arrived)]
    assert numbered == [
        ("a", 0, 1),
        ("b", 0, 0),
        ("a", 0, 0),
        ("c", 0, 0),
        ("a", 1, 0),
        ("b", 0, 1),
        ("c", 1, 0),
        ("a", 1, 1),
    ]
