"""Statistics of the tasks of shuffles, from the workers to a DataFrame.

A task adds its report to an accumulator, which Spark brings to the driver if the task succeeds. There is one
accumulator for each Spark context, with the latest reports of all shuffles. A shuffle is identified by its
name, which is in the plan of every DataFrame derived from it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from netstack import TransportStatistics

from ...base.errors import ShuffleError
from ..python_workers import driver_accumulator
from .frame_partitions import class_name

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import DataFrame

NAME = "netstack_shuffle_"
"""Prefix of the names of shuffles."""

MAX_REPORTS = 10_000
"""Maximum number of task reports kept for each Spark context. The oldest are dropped."""

_lock = threading.Lock()
_ledgers: weakref.WeakKeyDictionary[SparkContext, Accumulator[Any]] = weakref.WeakKeyDictionary()


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


def shuffle_statistics(df: DataFrame) -> DataFrame:
    """Return the statistics of the shuffles in a DataFrame's plan: a row for each task and run.

    The DataFrame may be the shuffled one or one derived from it, as long as the shuffle is in its plan. A
    checkpoint, or writing and reading again, removes the shuffle from the plan. A run is an execution of the
    shuffle's stage, numbered from 0. Each retry is a run, and so is each action, unless Spark still has the
    output of the stage. Failed tasks do not appear. Before the first run there are no rows. The latest
    `MAX_REPORTS` reports of a Spark context are kept. ``explain()`` shows the names of shuffles. If tasks
    have several partitions, "partition" is the number of the task, and "peak_held_bytes" the most bytes that
    this task held.

    Raises:
        ShuffleError: There is no shuffle in the plan.
    """
    names = list(dict.fromkeys(_shuffles(df._jdf.queryExecution().analyzed())))
    if not names:
        raise ShuffleError("the plan of this DataFrame contains no shuffle")
    session = df.sparkSession
    with _lock:
        ledger = _ledgers.get(session.sparkContext)
        reports = [] if ledger is None else [report for report in ledger.value if report.shuffle in names]
    rows = sorted(_rows(reports), key=lambda row: (names.index(row[0]), *row[1:3]))
    return session.createDataFrame(rows, _DDL)


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
    "partition": "long",
    "stage": "long",
    "host": "string",
    "rows_read": "long",
    "rows": "long",
    "seconds": "double",
    **{name: "double" if name.endswith("_s") else "long" for name in _COUNTED},
    "worker_memory_bytes": "long",
    "peak_held_bytes": "long",
}
_DDL = ", ".join(f"{name} {kind} not null" for name, kind in _COLUMNS.items())


def _rows(reports: Iterable[TaskReport]) -> Iterator[tuple[Any, ...]]:
    runs: dict[str, dict[str, int]] = {}
    for report in reports:
        of_shuffle = runs.setdefault(report.shuffle, {})
        values = {
            **report._asdict(),
            **msgspec.structs.asdict(report.transport),
            "run": of_shuffle.setdefault(report.attempt, len(of_shuffle)),
            "partition": report.transport.index,
        }
        yield tuple(values[name] for name in _COLUMNS)
