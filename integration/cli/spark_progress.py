"""How far work on Spark is: of a job its seconds, of a shuffle its rows.

Tasks on other machines tell nothing while they run, and not all files say how many rows they have. What is
known then is said: how many of Spark's tasks have ended, or for how long it has gone on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from netstack import Scenario, task_managers

from ..analysis.wording import counted
from ..report.progress import Report, activity, progress
from ..spark.interrupts import held_interrupts
from ..spark.masters import local_slots
from ..spark.task_notes import TaskNotes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def job_progress(
    scenario: Scenario, master: str | None, console: Console
) -> Iterator[Callable[[float | None], None]]:
    """Show how far a job over Spark's tasks is; what is given is told its seconds, None: nobody knows."""
    tasks = counted(len(task_managers(scenario)), "task")
    if master is not None and local_slots(master) is None:
        doing = f"{tasks} on {master}, {scenario.duration_s:g} s"
        with activity(scenario.name, console) as tell:
            tell(doing)
            yield lambda seconds: tell(doing)
        return
    total, before, behind = scenario.duration_s, f"{tasks} on Spark", "gathering what was measured"
    with progress(scenario.name, total, "s", console, before=before, behind=behind) as report:
        told = _from_now_on(report)
        yield lambda seconds: None if seconds is None else told(seconds)


@contextmanager
def shuffle_progress(
    session: SparkSession, notes: TaskNotes, rows: int | None, console: Console
) -> Iterator[Callable[[], None]]:
    """Show how far the shuffle of the block is, as often as what is given is called.

    `rows` is how many its partitions will have together; None: nobody has counted them.
    """
    if rows and notes.possible:
        with progress("shuffle", rows, "rows", console, before="reading", behind="writing") as report:
            told = _from_now_on(report)
            yield lambda: told(sum(numbers)) if (numbers := notes.numbers()) else None
        return
    with activity("shuffle", console) as tell:
        yield lambda: tell(_doing(session, notes))


def _from_now_on(report: Report) -> Report:
    """Let the pace count from the first report, and not from when Spark was started."""
    begun = False

    def told(done: float) -> None:
        nonlocal begun
        if not begun:
            begun = True
            report(0.0)
        report(done)

    return told


def _doing(session: SparkSession, notes: TaskNotes) -> str:
    numbers = notes.numbers()
    rows = [f"{sum(numbers):,.0f} rows so far"] if numbers else []
    return ", ".join([tasks_text(session), *rows])


def tasks_text(session: SparkSession) -> str:
    """Return how many of the tasks have ended that Spark has now, as "1 of 4 tasks done"."""
    with held_interrupts():
        tracker = session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    done, total = (sum(getattr(stage, name) for stage in known) for name in ("numCompletedTasks", "numTasks"))
    return f"{done} of {counted(total, 'task')} done" if total else "no task of Spark's runs"
