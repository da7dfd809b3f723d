"""Work on Spark: the progress of a distributed run and of a shuffle, and the counts of a shuffle's tasks.

Tasks on other machines report nothing while they run, and some files do not state their number of rows. In
these cases the progress is the number of Spark's finished tasks, or the elapsed time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.text import Text

from netstack import Scenario, task_managers

from ...base.number_text import counted, digits, milliseconds, size
from ...base.signals import held_interrupts
from ...spark.driver import local_slots
from ...spark.python_workers import TaskNotes
from .progress import Report, activity, progress
from .table_style import AFTER, TIGHT, figures, fits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .documents import Shuffled

LEGEND = (
    "sent, received: bytes on the wire. stalls: number of times that a channel with data had no credit. "
    "blocked: time that channels had no credit, summed over all channels. buffers: peak of the network "
    "memory in use. worker: peak memory of the Python process."
)

MILLION = 1_000_000
"""Minimum count that is written with three digits and M, so that a row fits."""


@contextmanager
def job_progress(
    scenario: Scenario, master: str | None, console: Console
) -> Iterator[Callable[[float | None], None]]:
    """Show the progress of a job that runs in tasks of Spark.

    Yield a function with which a caller reports the job's seconds so far; None: unknown.
    """
    tasks = counted(len(task_managers(scenario)), "task")
    if master is not None and local_slots(master) is None:
        doing = f"{tasks} on {master}, {scenario.duration_s:g} s"
        with activity(scenario.name, console) as describe:
            describe(doing)
            yield lambda seconds: describe(doing)
        return
    total, before, behind = scenario.duration_s, f"{tasks} on Spark", "collecting the measurements"
    with progress(scenario.name, total, "s", console, before=before, behind=behind) as report:
        report_work = _from_now_on(report)
        yield lambda seconds: None if seconds is None else report_work(seconds)


@contextmanager
def shuffle_progress(
    session: SparkSession, notes: TaskNotes, rows: int | None, console: Console
) -> Iterator[Callable[[], None]]:
    """Show the progress of a shuffle. Yield a function that updates the progress.

    `rows` is the number of rows of all its partitions; None: unknown.
    """
    if rows and notes.possible:
        with progress("shuffle", rows, "rows", console, before="reading", behind="writing") as report:
            report_work = _from_now_on(report)

            def update() -> None:
                if numbers := notes.numbers():
                    report_work(sum(numbers))

            yield update
        return

    with activity("shuffle", console) as describe:

        def update_text() -> None:
            text = tasks_text(session)
            if numbers := notes.numbers():
                text += f", {sum(numbers):,.0f} rows so far"
            describe(text)

        yield update_text


def _from_now_on(report: Report) -> Report:
    """Return a function that measures the pace from its first call, not from the start of Spark."""
    started = False

    def report_work(done: float) -> None:
        nonlocal started
        if not started:
            started = True
            report(0.0)
        report(done)

    return report_work


def tasks_text(session: SparkSession) -> str:
    """Return the number of finished tasks of Spark's active stages, as "1 of 4 tasks done"."""
    with held_interrupts():
        tracker = session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    done, total = (sum(getattr(stage, name) for stage in known) for name in ("numCompletedTasks", "numTasks"))
    return f"{done} of {counted(total, 'task')} done" if total else "no task of Spark is running"


def _count(number: float) -> str:
    return f"{number:,}" if number < MILLION else f"{digits(number / MILLION)} M"


class _Statistic(NamedTuple):
    """A column of the table of tasks, and its aggregate over all tasks."""

    heading: str
    name: str
    """Name of the statistic in the report of a task."""
    text: Callable[[float], str]
    aggregate: Callable[[Sequence[float]], float]


_STATISTICS = (
    _Statistic("rows in", "rows_read", _count, sum),
    _Statistic("rows out", "rows", _count, sum),
    _Statistic("sent", "bytes_sent", size, sum),
    _Statistic("received", "bytes_received", size, sum),
    _Statistic("stalls", "credit_stalls", _count, sum),
    _Statistic("blocked", "credit_blocked_s", lambda seconds: milliseconds(1000 * seconds), sum),
    _Statistic("buffers", "peak_network_memory_bytes", size, max),
    _Statistic("worker", "worker_memory_bytes", size, max),
)


def print_shuffle(shuffled: Shuffled, console: Console) -> None:
    """Print a shuffle: a row for each task, and a row of sums (for memory, the maximum)."""
    rows = sum(task["rows_read"] for task in shuffled.tasks)
    how = f"{shuffled.ship} by {', '.join(shuffled.keys)}" if shuffled.keys else shuffled.ship
    rule = f", {shuffled.partitioner.capitalize()}'s placement" if shuffled.ship == "hash" else ""
    done = f"{rows:,} rows into {shuffled.partitions} partitions in {shuffled.wall_seconds:.2f} s"
    console.print(Text(shuffled.output, "bold"), soft_wrap=True)
    console.print(f"{done}: {how}{rule}", highlight=False)
    console.print()
    table = figures(["", *(column.heading for column in _STATISTICS)], edge=False)
    table.columns[0].justify = "right"
    for row in shuffled.tasks:
        table.add_row(str(row["task"]), *(column.text(row[column.name]) for column in _STATISTICS))
    if len(shuffled.tasks) > 1:
        table.add_section()
        totals = (
            column.text(column.aggregate([row[column.name] for row in shuffled.tasks]))
            for column in _STATISTICS
        )
        table.add_row("all", *totals)
    table.padding = AFTER if fits(table, console) else TIGHT
    console.print(table)
    console.print(LEGEND, style="dim", highlight=False)
