"""What the tasks of shuffles have counted, from the workers to a DataFrame.

A task puts its report into an accumulator, which Spark brings to the driver if the task succeeds. There is
one accumulator for each Spark context, with the latest reports of all shuffles. A shuffle is known by its
name, which stands in the plan of every DataFrame that was made of it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from netstack import TransportStatistics

from ...errors import ShuffleError
from ..workers import driver_accumulator
from .partitions import class_name

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

NAME = "netstack_shuffle_"
"""What the names of shuffles begin with."""

MAX_REPORTS = 10_000
"""How many reports of tasks are kept for each Spark context; the oldest go first."""

_lock = threading.Lock()
_ledgers: weakref.WeakKeyDictionary[SparkContext, Accumulator[Any]] = weakref.WeakKeyDictionary()


class TaskReport(NamedTuple):
    """What a task says at its end."""

    shuffle: str
    """Name of the shuffle."""
    attempt: str
    """A name that the tasks of one attempt of one stage share."""
    stage: int
    """Spark's number of the stage."""
    host: str
    """Where the task listened."""
    rows_read: int
    """Rows of the input partition."""
    rows: int
    """Rows of the output partition, or of all partitions of the task."""
    seconds: float
    """Time from the first call of the task until its peers had read everything."""
    worker_memory_bytes: int
    """The most memory that the worker process has had since it began, in earlier tasks too."""
    peak_held_bytes: int
    """The most bytes of rows that it held for several partitions; 0 if it had only one."""
    transport: TransportStatistics
    """What its network layer has counted."""


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
    """Return what the tasks of the shuffles in a DataFrame's plan have counted: a row for each task and run.

    The DataFrame may be the shuffled one or any that was made of it, as long as the shuffle is in its plan;
    in that of what was checkpointed, or written and read again, it is not. A run is one execution of the
    shuffle's stage, numbered from 0: each action is one, unless Spark still has what the stage gave, and
    each retry. Tasks that failed do not appear. Before the first run there are no rows. Of a Spark context
    the latest `MAX_REPORTS` reports are kept. ``explain()`` shows the names of shuffles. Where tasks take
    several partitions, "partition" is the number of the task, and "peak_held_bytes" what it held at most.

    Raises:
        ShuffleError: There is no shuffle in the plan.
    """
    names = list(dict.fromkeys(_shuffles(df._jdf.queryExecution().analyzed())))
    if not names:
        raise ShuffleError("there is no shuffle in the plan of this DataFrame")
    session = df.sparkSession
    with _lock:
        ledger = _ledgers.get(session.sparkContext)
        reports = [] if ledger is None else [report for report in ledger.value if report.shuffle in names]
    rows = sorted(_rows(reports), key=lambda row: (names.index(row[0]), *row[1:3]))
    return session.createDataFrame(rows, _schema())


def _shuffles(plan: Any) -> Iterator[str]:
    """The names of the shuffles in a logical plan, from the last to the first."""
    if class_name(plan) == "MapInArrow":
        name = str(plan.functionExpr().name())
        if name.startswith(NAME):
            yield name
    children = plan.children()
    for place in range(children.size()):
        yield from _shuffles(children.apply(place))


def _rows(reports: Iterable[TaskReport]) -> Iterator[tuple[Any, ...]]:
    runs: dict[str, dict[str, int]] = {}
    for report in reports:
        of_shuffle = runs.setdefault(report.shuffle, {})
        run = of_shuffle.setdefault(report.attempt, len(of_shuffle))
        counted = report.transport
        numbers = [
            getattr(counted, name) for name in TransportStatistics.__struct_fields__ if name != "index"
        ]
        measured = (report.rows_read, report.rows, report.seconds, *numbers)
        memory = (report.worker_memory_bytes, report.peak_held_bytes)
        yield (report.shuffle, run, counted.index, report.stage, report.host, *measured, *memory)


def _schema() -> StructType:
    from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

    def field(name: str, kind: DataType) -> StructField:
        return StructField(name, kind, nullable=False)

    counted = [
        field(name, DoubleType() if name.endswith("_s") else LongType())
        for name in TransportStatistics.__struct_fields__
        if name != "index"
    ]
    return StructType(
        [
            field("shuffle", StringType()),
            field("run", LongType()),
            field("partition", LongType()),
            field("stage", LongType()),
            field("host", StringType()),
            field("rows_read", LongType()),
            field("rows", LongType()),
            field("seconds", DoubleType()),
            *counted,
            field("worker_memory_bytes", LongType()),
            field("peak_held_bytes", LongType()),
        ]
    )
