"""Runs the points of a sweep in local processes or over Spark, and stores finished points.

Over Spark all points are one RDD with a partition for each, and one Spark job. So each free core takes the
next point. An accumulator brings each row to the driver as soon as its task ends.

A point returns a row even if its emulation fails. If a process is killed or Spark aborts the job, for example
for lack of memory, the points without a row run again one by one. So only the point that caused the failure
fails. Points that read files run in this process, because Spark collects the file contents on this machine.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from netstack import Scenario, SourceError

from ...base.signals import held_interrupts, starting_processes
from ...runs.seeds import Done, worker_pool
from ...spark.driver import is_local, run_cancellable
from ...spark.failure_causes import first_cause, is_from_spark, one_line
from ...spark.python_workers import driver_accumulator, send_packages
from ...spark.session import spark_session
from .point_rows import PointRow, PointStore, failed_row, spark_schema, to_table
from .point_runs import reads_files, run_point, run_reading, sweep_function
from .points import Grid, Point

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

_RAISED = "Traceback (most recent call last)"
"""Text in Spark's error if a Python task raised an exception."""


def sweep(
    scenario: Scenario, grid: Grid, spark: SparkSession | None = None, out: str | Path | None = None
) -> DataFrame:
    """Run a scenario at every point of a grid, and return a DataFrame with a row for each.

    A row has the point (``key``, ``name``, ``labels``, ``seed``), its ``status``, a column for each measure
    (times in ms, sizes in bytes, rates per second), and the whole result without its series as JSON. The
    emulations have run when this returns, each until its figures have settled, or its window holds ten
    completed checkpoints: ``emulated_seconds`` says how long. `spark` is a session, by default the active one
    or a new local one.
    In the folder `out` each finished point is kept as Parquet, and is not run again.

    Axes of Flink's options come from texts, any other axes from functions that change the scenario::

        from dataclasses import replace

        from integration.tuning import Axis, AxisValue, Grid, option_axes, sweep
        from netstack import Edge, GeneratorSpec, NetworkConfig, Scenario, Vertex

        job = Scenario(
            name="slow consumers",
            duration_s=20.0,
            warmup_s=5.0,
            config=NetworkConfig(checkpoint_interval_s=1.0, debloat_enabled=True),
            vertices=(
                Vertex(name="source", source=GeneratorSpec(record_bytes=1000)),
                Vertex(name="consumer", service=((0.0, 0.002),)),
            ),
            edges=(Edge(source="source", target="consumer"),),
        )
        seconds = Axis("duration", tuple(
            AxisValue(f"{number} s", lambda scenario, number=number: replace(scenario, duration_s=number))
            for number in (20.0, 30.0)
        ))
        targets = option_axes(["taskmanager.network.memory.buffer-debloat.target=300ms,1s"])
        points = sweep(job, Grid((*targets, seconds), seeds=1))
        points.select("labels", "status", "end_to_end_ms").show(truncate=False)

    Raises:
        ScenarioError: the scenario makes no sense with some value of an axis.
        SourceError: Spark does not start or stops, or a file cannot be read.
        OSError: nothing can be written to `out`.
    """
    session = spark or spark_session()
    rows = run_points(grid.points(scenario), session, None if out is None else Path(out))
    return session.createDataFrame(to_table(rows), spark_schema())


def run_points(
    points: Sequence[Point],
    spark: SparkSession | None = None,
    out: Path | None = None,
    progress: Done = lambda count: None,
    *,
    processes: LocalProcesses | None = None,
    master: str | None = None,
) -> list[PointRow]:
    """Run points in `processes`, by default over Spark, and return their rows in the same order.

    A point that fails is a row with the status "failed". Points with a finished row in ``out/points`` are not
    run. Spark is started only if points remain: if `spark` is None, the active session or a new one of
    `master` is used. `progress` is called from several threads, one at a time. After Ctrl-C the finished rows
    stay in ``out/points``.

    Raises:
        SourceError: Spark does not start, stops, or its workers lack our packages; a file cannot be read.
        OSError: nothing can be written to `out`.
    """
    store = None if out is None else PointStore(out)
    ledger = _Ledger(points, store, progress)
    missing = ledger.missing()
    here = [point for point in missing if reads_files(point)]
    away = [point for point in missing if not reads_files(point)]
    if processes is not None:
        for row in processes.run(away):
            ledger.add(row)
    elif away:
        _run_on_spark(away, spark or spark_session(master, small=True), ledger)
    for row in run_reading(here):
        ledger.add(row)
    return ledger.rows()


class LocalProcesses:
    """Runs points in local processes, which start with the first point and end with the `with` block."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._stack = ExitStack()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, *raised: Any) -> bool | None:
        return self._stack.__exit__(*raised)

    def run(self, points: Sequence[Point]) -> Iterator[PointRow]:
        """Yield the rows of points as they finish. A point whose process is killed gives a failed row."""
        if self._pool is None and points:
            self._pool = self._stack.enter_context(worker_pool(self._count))
        waiting = {}
        if self._pool is not None:
            with starting_processes():
                waiting = {self._pool.submit(run_point, point): point for point in points}
        try:
            for future in as_completed(waiting):
                row = future.result()
                del waiting[future]
                yield row
        except BrokenProcessPool:
            self._pool = None
            yield from map(_run_alone, waiting.values())


def _run_alone(point: Point) -> PointRow:
    with worker_pool(1) as pool:
        with starting_processes():
            future = pool.submit(run_point, point)
        try:
            return future.result()
        except BrokenProcessPool:
            return failed_row(point, "the process that ran it was killed; the machine may be short of memory")


class _Ledger:
    """Collected rows by key; thread-safe."""

    def __init__(self, points: Sequence[Point], store: PointStore | None, progress: Done) -> None:
        self._points = points
        self._store = store
        self._progress = progress
        self._lock = threading.Lock()
        self._trouble: OSError | None = None
        self._rows = {} if store is None else store.read(point.key for point in points)
        self._report()

    def missing(self) -> list[Point]:
        """Return one point for each key that has no row yet."""
        with self._lock:
            return list({point.key: point for point in self._points if point.key not in self._rows}.values())

    def add(self, row: PointRow) -> None:
        """Add and store a row, and report the number of finished points; ignore a repeated key."""
        with self._lock:
            if row.key in self._rows:
                return
            self._rows[row.key] = row
            try:
                if self._store is not None:
                    self._store.write(row)
            except OSError as error:
                self._trouble = self._trouble or error
            self._report()

    def rows(self) -> list[PointRow]:
        """Return the rows of all points.

        Raises:
            OSError: a row could not be stored.
        """
        if self._trouble is not None:
            raise self._trouble
        rows = ((self._rows[point.key], point.labels) for point in self._points)
        return [msgspec.structs.replace(row, labels=labels) for row, labels in rows]

    def _report(self) -> None:
        self._progress(sum(point.key in self._rows for point in self._points))


def _run_on_spark(points: Sequence[Point], session: SparkSession, ledger: _Ledger) -> None:
    arrivals = run_cancellable(session, lambda: _arrivals(session, ledger))
    try:
        _run_job(points, session, arrivals, ledger)
        return
    except Exception as error:
        if not _costs_one_point(error, session):
            raise
    wanted = {point.key for point in points}
    for point in [point for point in ledger.missing() if point.key in wanted]:
        try:
            _run_job([point], session, arrivals, ledger)
        except Exception as error:
            if not _costs_one_point(error, session):
                raise
            ledger.add(failed_row(point, first_cause(error)))


def _run_job(
    points: Sequence[Point], session: SparkSession, arrivals: Accumulator[Any], ledger: _Ledger
) -> None:
    """Run points as one Spark job with a task for each."""

    documents = [msgspec.msgpack.encode(point) for point in points]

    def run() -> list[bytes]:
        # One slice per point. An RDD, because Spark SQL takes seconds to start.
        slices = session.sparkContext.parallelize(documents, len(documents))
        return slices.mapPartitions(sweep_function(arrivals, is_local(session))).collect()

    try:
        rows = run_cancellable(session, run)
    except Exception as error:
        if is_from_spark(error) and _RAISED in str(error):
            raise SourceError(first_cause(error)) from error
        raise
    for row in rows:
        ledger.add(msgspec.msgpack.decode(row, type=PointRow))


def _costs_one_point(error: Exception, session: SparkSession) -> bool:
    """Whether a job failed because a point crashed its worker.

    Raises:
        SourceError: Spark has stopped.
    """
    if not is_from_spark(error):
        return False
    context = session.sparkContext._jsc
    with held_interrupts():
        stopped = context is None or context.sc().isStopped()
    if stopped:
        raise SourceError(f"Spark has stopped: {one_line(error)}") from error
    return True


def _arrivals(session: SparkSession, ledger: _Ledger) -> Accumulator[list[bytes]]:
    """Send our packages to the workers if they lack them, and return the accumulator that fills the ledger.

    The accumulator adds the rows of a task when the task succeeds.
    """
    send_packages(session)
    reference = weakref.ref(ledger)  # PySpark never releases an accumulator

    def add(value: object, rows: list[bytes]) -> None:
        if (listening := reference()) is not None:
            for row in rows:
                listening.add(msgspec.msgpack.decode(row, type=PointRow))

    return driver_accumulator(session.sparkContext, None, add)
