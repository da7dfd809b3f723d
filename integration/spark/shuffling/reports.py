"""Statistics of the tasks and partitions of shuffles, from the workers to a DataFrame.

A task adds its report to an accumulator, which Spark brings to the driver if the task succeeds. There is one
accumulator for each Spark context, with the latest reports of all shuffles. A shuffle is identified by its
name, which is in the plan of every DataFrame derived from it.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec

from netstack import TransportStatistics

from ...base.errors import ShuffleError, ShuffleWarning
from ..python_workers import driver_accumulator
from .frame_partitions import class_name

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import DataFrame

Per = Literal["task", "partition"]

NAME = "netstack_shuffle_"
"""Prefix of the names of shuffles."""

MAX_REPORTS = 10_000
"""Maximum number of task reports kept for each Spark context. The oldest are dropped."""

_lock = threading.Lock()
_ledgers: weakref.WeakKeyDictionary[SparkContext, Accumulator[Any]] = weakref.WeakKeyDictionary()


class PartitionReport(NamedTuple):
    """Statistics of a partition after the shuffle."""

    partition: int
    rows: int
    bytes: int
    """Encoded bytes of the rows, in Arrow's format."""


class TaskReport(NamedTuple):
    """Statistics of a task at its end."""

    shuffle: str
    """Name of the shuffle."""
    attempt: str
    """Name shared by the tasks of one attempt of one stage."""
    stage: int
    """Spark's number of the stage."""
    host: str
    """Address at which the task listened."""
    rows_read: int
    """Rows of the input partition."""
    rows: int
    """Rows of the output partition, or of all partitions of the task."""
    seconds: float
    """Time from the first call of the task until its peers had read everything."""
    worker_memory_bytes: int
    """Peak memory of the worker process since its start, earlier tasks included."""
    peak_held_bytes: int
    """Peak bytes of rows held by a task with several partitions; 0 if it had only one."""
    transport: TransportStatistics
    """Counters of the task's network layer."""
    partitions: list[PartitionReport]
    """The partitions of the task."""


def reports_of(context: SparkContext) -> Accumulator[Any]:
    """Return the accumulator of a Spark context, to which a worker adds lists of `TaskReport`."""
    with _lock:
        if context not in _ledgers:
            latest = deque[TaskReport](maxlen=MAX_REPORTS)
            _ledgers[context] = driver_accumulator(context, latest, _keep)
        return _ledgers[context]


def _keep(latest: deque[TaskReport], arrived: list[TaskReport]) -> None:
    with _lock:
        latest.extend(arrived)


def shuffle_statistics(df: DataFrame, per: Per = "task") -> DataFrame:
    """Return the statistics of the shuffles in a DataFrame's plan: a row for each task or partition, and run.

    The DataFrame may be the shuffled one or one derived from it, as long as the shuffle is in its plan. A
    checkpoint, or writing and reading again, removes the shuffle from the plan. A run is an execution of the
    shuffle's stage, numbered from 0. Each retry is a run, and so is each action, unless Spark still has the
    output of the stage. Failed tasks do not appear. The latest `MAX_REPORTS` reports of a Spark context are
    kept. ``explain()`` shows the names of shuffles.

    Args:
        df: The DataFrame.
        per: "task": the columns "task", "stage" and "host", rows read and rows after the shuffle, seconds,
            counters of the network layer, and memory in bytes. If tasks have several partitions,
            "peak_held_bytes" is the most bytes of rows that the task held. "partition": the columns
            "partition", "task" that received it, "rows", and "bytes" of its rows in Arrow's format.

    Raises:
        ShuffleError: There is no shuffle in the plan, or `per` is something else.

    Warns:
        ShuffleWarning: No shuffle of the plan has run to its end, so there are no rows.
    """
    if per not in get_args(Per):
        raise ShuffleError(f"per is {per!r}, which is not one of {', '.join(get_args(Per))}")
    names = list(dict.fromkeys(_shuffles(df._jdf.queryExecution().analyzed())))
    if not names:
        raise ShuffleError("the plan of this DataFrame contains no shuffle")
    session = df.sparkSession
    with _lock:
        ledger = _ledgers.get(session.sparkContext)
        reports = [] if ledger is None else [report for report in ledger.value if report.shuffle in names]
    if not reports:
        text = "the shuffle has not run yet, so it has no statistics; run an action on the DataFrame first"
        warnings.warn(text, ShuffleWarning, stacklevel=2)
    rows = _rows(reports) if per == "task" else _partition_rows(reports)
    columns = _COLUMNS if per == "task" else _PARTITION_COLUMNS
    ddl = ", ".join(f"{name} {kind} not null" for name, kind in columns.items())
    return session.createDataFrame(sorted(rows, key=lambda row: (names.index(row[0]), *row[1:3])), ddl)


def _shuffles(plan: Any) -> Iterator[str]:
    """Yield the names of the shuffles in a logical plan, from the last to the first."""
    if class_name(plan) == "MapInArrow":
        name = str(plan.functionExpr().name())
        if name.startswith(NAME):
            yield name
    children = plan.children()
    for place in range(children.size()):
        yield from _shuffles(children.apply(place))


_COUNTED = [name for name in TransportStatistics.__struct_fields__ if name != "index"]
_COLUMNS = {
    "shuffle": "string",
    "run": "long",
    "task": "long",
    "stage": "long",
    "host": "string",
    "rows_read": "long",
    "rows": "long",
    "seconds": "double",
    **{name: "double" if name.endswith("_s") else "long" for name in _COUNTED},
    "worker_memory_bytes": "long",
    "peak_held_bytes": "long",
}
_PARTITION_COLUMNS = {
    "shuffle": "string",
    "run": "long",
    "partition": "long",
    "task": "long",
    "rows": "long",
    "bytes": "long",
}


def _numbered(reports: Iterable[TaskReport]) -> Iterator[tuple[int, TaskReport]]:
    """Yield each report after the number of its run."""
    runs: dict[str, dict[str, int]] = {}
    for report in reports:
        of_shuffle = runs.setdefault(report.shuffle, {})
        yield of_shuffle.setdefault(report.attempt, len(of_shuffle)), report


def _rows(reports: Iterable[TaskReport]) -> Iterator[tuple[Any, ...]]:
    for run, report in _numbered(reports):
        values = {
            **report._asdict(),
            **msgspec.structs.asdict(report.transport),
            "run": run,
            "task": report.transport.index,
        }
        yield tuple(values[name] for name in _COLUMNS)


def _partition_rows(reports: Iterable[TaskReport]) -> Iterator[tuple[Any, ...]]:
    for run, report in _numbered(reports):
        for partition, rows, size in report.partitions:
            yield report.shuffle, run, partition, report.transport.index, rows, size
