"""The barrier stage that runs one attempt, and what it needs of Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from netstack import (
    Assignment,
    LaunchError,
    Report,
    RestartStrategy,
    Scenario,
    SourceError,
    decode_report,
    fresh_secret,
    source_of,
    task_managers,
)

from ..files import one_line
from ..shuffle.errors import ShuffleError
from ..shuffle.slots import count_slots, require_barriers
from ..source import is_from_spark
from ..spool import run_cancellable
from .feeding import FedSource, in_pieces
from .task import REPORTS, Job, barrier_task

if TYPE_CHECKING:
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*?(\w[^\n]*)")
_WORKER_DIED = "Python worker exited unexpectedly"


def require_slots(session: SparkSession, tasks: int) -> None:
    """Check that Spark can run so many tasks at once, which Spark itself would find out much later.

    Raises:
        SourceError: It cannot; names the setting.
    """
    context = session.sparkContext
    try:
        require_barriers(context)
    except ShuffleError:
        problem = "Spark runs no barrier stage, which a job is, with dynamic allocation"
        raise SourceError(f"{problem}; set spark.dynamicAllocation.enabled to false") from None
    slots = count_slots(context, tasks)
    if slots < tasks:
        problem = (
            f"the job needs {tasks} tasks at once, one for each task manager, and Spark has slots for {slots}"
        )
        more = f"--master local[{tasks}]" if is_local(session) else "more spark.executor.instances or cores"
        raise SourceError(f"{problem}; give it {more}, or let vertices share a task_manager")


def is_local(session: SparkSession) -> bool:
    """Tell whether all tasks run in the process of the session."""
    return bool(session.sparkContext._jsc.sc().isLocal())


class BarrierStage:
    """Runs attempts of `scenario` as barrier stages of `session`, one after the other.

    `frames` has what the sources read, by the number of their vertex; `checkpoints` is the root of the
    checkpoint storage, `initial` that of the one with the checkpoint to begin with, if there is one. Rows
    that may be needed again, after a restart, stay on Spark's disks until `close`.

    Raises:
        SourceError: This version of Spark cannot bring rows to a task.
    """

    def __init__(
        self,
        session: SparkSession,
        scenario: Scenario,
        frames: Mapping[int, DataFrame],
        checkpoints: str,
        initial: str | None = None,
    ) -> None:
        self._session = session
        self._checkpoints = checkpoints
        self._initial = initial
        self._tasks = len(task_managers(scenario))
        pieces = _pieces(scenario, frames)
        if pieces is not None and not hasattr(pieces, "repartitionById"):
            raise SourceError("sources with a path need PySpark 4.1 or newer where a job runs on Spark")
        self._rows = None if pieces is None else pieces.repartitionById(self._tasks, "task")
        if self._rows is not None and scenario.restart_strategy is not RestartStrategy.NONE:
            self._rows = self._rows.persist(_disk_only())

    def launch(self, assignment: Assignment) -> list[Report]:
        """Run one attempt, and return what its tasks report.

        Raises:
            LaunchError: They did not come to that; says why the first of them failed.
        """
        try:
            return run_cancellable(self._session, lambda: self._run(assignment))
        except Exception as error:
            if is_from_spark(error):
                raise LaunchError(first_cause(error), again=not _TRACEBACK.search(str(error))) from error
            raise

    def _run(self, assignment: Assignment) -> list[Report]:
        tasks, rows = self._tasks, self._rows
        inputs = self._session.range(0, tasks, 1, tasks) if rows is None else rows
        job = Job(
            assignment=assignment,
            checkpoints=self._checkpoints,
            initial=self._initial,
            secret=fresh_secret(),
            loopback=is_local(self._session),
        )
        work = barrier_task(job)
        found = inputs.mapInArrow(work, REPORTS, barrier=True).collect()
        return [decode_report(bytes(row["report"])) for row in found]

    def close(self) -> None:
        """Let go of the rows."""
        if self._rows is not None:
            self._rows.unpersist()


def _disk_only() -> StorageLevel:
    from pyspark import StorageLevel

    return StorageLevel.DISK_ONLY


def _pieces(scenario: Scenario, frames: Mapping[int, DataFrame]) -> DataFrame | None:
    """The rows of all sources as pieces for the tasks that host them; None where nothing is read."""
    places = {name: task for task, name in enumerate(task_managers(scenario))}
    together: DataFrame | None = None
    first = 0
    for number, frame in frames.items():
        vertex = scenario.vertices[number]
        source = source_of(scenario, vertex)
        assert isinstance(source, FedSource)
        pieces = in_pieces(frame, source, places[vertex.manager], first)
        first += source.partitions
        together = pieces if together is None else together.unionAll(pieces)
    return together


def first_cause(error: BaseException) -> str:
    """Return in one line why a stage has failed: what its first task to fail said."""
    text = str(error)
    if _WORKER_DIED in text:
        return "a Python worker of Spark has died"
    told = _TRACEBACK.search(text)
    return told[1].strip() if told else one_line(error)
