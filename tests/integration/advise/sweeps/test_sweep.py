"""Sweeps over Spark: rows of points, whatever happens to their emulations, their workers, or the user."""

from __future__ import annotations

import inspect
import os
import re
import signal
import textwrap
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from integration.advise.sweeps import sweep as sweep_module
from integration.advise.sweeps.axes import Axis, option_axes
from integration.advise.sweeps.point_rows import PointRow
from integration.advise.sweeps.point_runs import run_point, sweep_function
from integration.advise.sweeps.points import Grid, Point
from integration.advise.sweeps.sweep import LocalProcesses, run_points, sweep
from netstack import Edge, GeneratorSpec, NetworkConfig, PathSpec, Scenario, SourceError, Vertex, from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def job(duration_s: float = 1.0, source: Any = None) -> Scenario:
    """A short job whose checkpoints wait for its buffers; its runs go on until their times have settled."""
    return Scenario(
        name="job",
        duration_s=duration_s,
        config=NetworkConfig(checkpoint_interval_s=0.5, debloat_enabled=True),
        vertices=(
            Vertex(name="source", source=source or GeneratorSpec(record_bytes=1000)),
            Vertex(name="slow", service=((0.0, 0.002),)),
        ),
        edges=(Edge(source="source", target="slow"),),
    )


TARGET = "taskmanager.network.memory.buffer-debloat.target"


def targets_of(texts: str) -> tuple[Axis, ...]:
    return option_axes([f"{TARGET}={texts}"])


def points_for(targets: str, seeds: int = 1, scenario: Scenario | None = None) -> list[Point]:
    return Grid(targets_of(targets), seeds).points(scenario or job())


def timeless(row: PointRow) -> PointRow:
    """A row without what differs from run to run."""
    result = None
    if row.result is not None:
        kept = msgspec.structs.replace(from_json(row.result), wall_seconds=0.0)
        result = msgspec.json.encode(kept).decode()
    return msgspec.structs.replace(row, wall_seconds=0.0, result=result)


def test_rows_are_those_of_the_emulations_in_the_order_of_the_points(
    spark: SparkSession, tmp_path: Path
) -> None:
    points = points_for("50ms,200ms,1s", 2)
    counts: list[int] = []
    rows = run_points(points, spark, tmp_path, counts.append)
    assert [timeless(row) for row in rows] == [timeless(run_point(point)) for point in points]
    assert counts == list(range(7))
    assert len(list((tmp_path / "points").iterdir())) == 6


def test_finished_points_are_not_run_again_and_need_no_spark(spark: SparkSession, tmp_path: Path) -> None:
    first = run_points(points_for("50ms"), spark, tmp_path)
    counts: list[int] = []
    more = run_points(points_for("200ms,50ms"), spark, tmp_path, counts.append)
    assert counts == [1, 2]
    assert more[1] == first[0]  # its wall_seconds too
    again = run_points(points_for("50ms"), None, tmp_path, master="no master at all")
    assert again == first


def test_the_example_of_sweep_works_as_printed(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    paragraphs = inspect.cleandoc(str(sweep.__doc__)).split("\n\n")
    code = "\n\n".join(text for text in paragraphs if text.startswith("    "))
    exec(textwrap.dedent(code), {})
    shown = capfd.readouterr().out
    for target in ("300 ms", "1 s"):
        for duration in ("20.0 s", "30.0 s"):
            assert re.search(rf"{{{TARGET} -> {target}, duration -> {duration}}} *\|finished\|\d", shown)


def test_local_processes_give_the_rows_that_spark_gives(tmp_path: Path) -> None:
    points = points_for("50ms,200ms,1s", 2)
    counts: list[int] = []
    with LocalProcesses(2) as processes:
        rows = run_points(points, None, tmp_path, counts.append, processes=processes)
        assert run_points(points, None, tmp_path, processes=processes) == rows, "kept, and not run again"
    assert [timeless(row) for row in rows] == [timeless(run_point(point)) for point in points]
    assert counts == list(range(7))


def test_a_local_process_that_dies_costs_one_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = points_for("50ms,200ms,1s")
    monkeypatch.setattr(sweep_module, "run_point", partial(die_of, points[1].key))
    with LocalProcesses(2) as processes:
        rows = run_points(points, processes=processes)
        assert [row.status for row in rows] == ["finished", "failed", "finished"]
        assert rows[1].error == "the process that ran it was killed; the machine may be short of memory"
        monkeypatch.undo()
        assert run_points(points, processes=processes)[1].status == "finished", (
            "it goes on with new processes"
        )


def die_of(key: str, point: Point) -> PointRow:
    """Run a point, but end the process at one of them."""
    if point.key == key:
        os._exit(9)
    return run_point(point)


def test_a_sweep_is_a_data_frame_with_a_column_for_each_measure(spark: SparkSession, tmp_path: Path) -> None:
    frame = sweep(job(), Grid(targets_of("50ms,1s"), 1), spark, tmp_path)
    columns = ["labels", "status", "checkpoints_failed"]
    found = [tuple(row) for row in frame.select(*columns).collect()]
    assert found == [({TARGET: "50 ms"}, "finished", 0), ({TARGET: "1 s"}, "finished", 0)]
    assert frame.where("checkpoints_completed > 5 and emulated_seconds > 1").count() == 2
    delays = [row["end_to_end_ms"] for row in frame.orderBy(frame.labels[TARGET].desc()).collect()]
    assert 0 < delays[0] < delays[1]
    assert spark.read.parquet(str(tmp_path / "points")).count() == 2


def test_a_point_that_fails_is_a_row_and_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    memory = option_axes(["taskmanager.memory.network.max=32kb,64mb"])
    points = Grid(memory, 1).points(job())
    failed, finished = run_points(points, spark, tmp_path)
    assert (failed.status, finished.status) == ("failed", "finished")
    assert failed.error is not None
    assert "buffers" in failed.error
    counts: list[int] = []
    assert run_points(points, spark, tmp_path, counts.append)[0].error == failed.error
    assert counts == [1, 2]


def deadly(key: str, deed: Callable[[], None]) -> Callable[[Any, bool], Any]:
    """Return a replacement of `sweep_function` that calls `deed` in the worker that gets a point."""

    def made(arrivals: Any, on_one_machine: bool) -> Any:
        proper = sweep_function(arrivals, on_one_machine)

        def run(points: Any) -> Any:
            for point in points:
                if key.encode() in point:
                    deed()
                yield from proper([point])

        return run

    return made


def test_a_worker_that_dies_costs_one_point(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = points_for("50ms,200ms,1s")
    # By value: workers cannot import the tests.
    monkeypatch.setattr(sweep_module, "sweep_function", deadly(points[1].key, lambda: os._exit(9)))
    rows = run_points(points, spark, tmp_path)
    assert [row.status for row in rows] == ["finished", "failed", "finished"]
    assert rows[1].error == "a Python worker of Spark has died"
    assert [timeless(row) for row in rows[::2]] == [timeless(run_point(point)) for point in points[::2]]


def test_what_is_wrong_with_all_workers_is_told_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = points_for("50ms,200ms")

    def fail() -> None:
        raise RuntimeError("this worker has no module 'netstack'")

    monkeypatch.setattr(sweep_module, "sweep_function", deadly(points[0].key, fail))
    with pytest.raises(SourceError, match="no module 'netstack'"):
        run_points(points, spark)


def test_ctrl_c_keeps_what_is_finished(spark: SparkSession, tmp_path: Path) -> None:
    points = points_for("50ms,200ms") + points_for("1s", 1, job(3e5))

    def interrupt(count: int) -> None:
        if count == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_points(points, spark, tmp_path, interrupt)
    counts: list[int] = []
    run_points(points[:2], spark, tmp_path, counts.append)
    assert counts == [2]


def test_ctrl_c_during_a_call_to_spark_prints_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fifo = tmp_path / "called"
    os.mkfifo(fifo)

    def interrupt() -> None:
        with fifo.open("wb"):  # when Java reads from it
            os.kill(os.getpid(), signal.SIGINT)

    def calling(*rows: Any) -> Any:
        jvm: Any = spark._jvm
        return jvm.java.io.FileInputStream(str(fifo)).read()

    monkeypatch.setattr(spark.sparkContext, "parallelize", calling)
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_points(points_for("50ms"), spark)
    assert caplog.records == []
    assert spark.range(3).count() == 3


def test_points_that_read_files_run_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "numbers.parquet"
    spark.range(50, numPartitions=1).write.parquet(str(data))
    spec = PathSpec(path=str(data), repeat=True)
    points = points_for("50ms,1s", 1, job(source=spec))
    threads: list[threading.Thread] = []
    rows = run_points(points, spark, progress=lambda _: threads.append(threading.current_thread()))
    assert [row.status for row in rows] == ["finished", "finished"]
    assert set(threads) == {threading.main_thread()}
    assert all(row.measures is not None and row.measures.throughput_per_s for row in rows)


def test_a_file_that_is_missing_is_an_error_of_the_sweep(spark: SparkSession) -> None:
    points = points_for("50ms", 1, job(source=PathSpec(path="nowhere.parquet")))
    with pytest.raises(SourceError, match=r"nowhere\.parquet"):
        run_points(points, spark)
