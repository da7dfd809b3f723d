"""Progress of long work: a bar on a terminal, occasional lines elsewhere.

If the total is known, the finished share and the remaining time at the pace so far are shown. Otherwise the
present step and the elapsed time are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from .console import say, shown, to_stderr

LINE_EVERY_S = 5.0
"""Minimum time in seconds between two lines if stderr is no terminal."""

Report = Callable[[float], None]
"""Function that reports the work done so far, in the unit of the total."""

Describe = Callable[[str], None]
"""Function that reports the present step in a few words."""


@contextmanager
def progress(
    label: str, total: float, unit: str, console: Console, *, before: str = "", behind: str = ""
) -> Iterator[Report]:
    """Show the finished share of `total` while the block runs. The bar disappears afterwards.

    `before` and `behind` are the names of the steps before the first report and after the last one. A report
    of 0 restarts the clock that measures the pace.
    """
    if not console.is_terminal:
        yield _report_in_lines(label, total, unit, console)
        return
    with Progress(*_columns(console), console=console, transient=True) as bar:
        task = bar.add_task(_labelled(label, before), total=total, shown=_done_of_total(0, total, unit))

        def report(done: float) -> None:
            name = _labelled(label, behind) if done >= total else label
            bar.update(
                task, description=name, completed=min(done, total), shown=_done_of_total(done, total, unit)
            )

        yield report


@contextmanager
def activity(label: str, console: Console) -> Iterator[Describe]:
    """Show the present step of work without a known total, and the elapsed time, while the block runs."""
    if not console.is_terminal:
        yield _describe_in_lines(label, console)
        return
    text = TextColumn("{task.description}", markup=False)
    with Progress(SpinnerColumn(), text, TimeElapsedColumn(), console=console, transient=True) as line:
        task = line.add_task(_cut(label, console), total=None)
        yield lambda doing: line.update(task, description=_cut(_labelled(label, doing), console))


@contextmanager
def stage(what: str) -> Iterator[None]:
    """Show that a stage of work is running, and report its duration on stderr afterwards."""
    started = monotonic()
    with activity(what, to_stderr()):
        yield
    say(f"{what}: {monotonic() - started:.1f} s")


def _cut(text: str, console: Console) -> str:
    """Return a text as one line, short enough for the time beside it."""
    line = Text(shown(text))
    line.truncate(max(1, console.width - len("* 100:00:00 ")), overflow="ellipsis")
    return line.plain


def _columns(console: Console) -> list[ProgressColumn]:
    """Return the columns of a bar. In a narrow terminal the bar shrinks, so that the time stays visible."""
    label = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1))
    done = TextColumn("{task.fields[shown]}", table_column=Column(no_wrap=True))
    elapsed, left = (Column(no_wrap=True, min_width=7) for _ in range(2))
    times = [TimeElapsedColumn(elapsed), TextColumn("left"), TimeRemainingColumn(table_column=left)]
    bar_width = max(6, min(40, console.width // 4))
    return [label, BarColumn(bar_width=bar_width), done, *times]


def _labelled(label: str, doing: str) -> str:
    return f"{label}: {doing}" if doing else label


def _report_in_lines(label: str, total: float, unit: str, console: Console) -> Report:
    started = monotonic()
    due = started + LINE_EVERY_S

    def report(done: float) -> None:
        nonlocal started, due
        now = monotonic()
        if done <= 0:
            started = now
        if now >= due:
            due = now + LINE_EVERY_S
            left = _left(done, total, now - started)
            console.print(Text(f"{label}: {_done_of_total(done, total, unit)}{left}"), soft_wrap=True)

    return report


def _describe_in_lines(label: str, console: Console) -> Describe:
    started = monotonic()
    due = started + LINE_EVERY_S

    def describe(doing: str) -> None:
        nonlocal due
        now = monotonic()
        if now >= due:
            due = now + LINE_EVERY_S
            line = f"{_labelled(label, doing)}, {duration_text(now - started)} so far"
            console.print(Text(shown(line)), soft_wrap=True)

    return describe


def _left(done: float, total: float, elapsed_s: float) -> str:
    """Return the remaining time at the pace so far; empty before the first progress."""
    if done <= 0 or done >= total:
        return ""
    return f", {duration_text(elapsed_s * (total - done) / done)} left"


def duration_text(seconds: float) -> str:
    """Return an estimated time as "40 s", "3 min" or "1 h 20 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _done_of_total(done: float, total: float, unit: str) -> str:
    whole = f"{total:,.0f}" if total == int(total) else f"{total:g}"
    return f"{min(done, total):,.0f} of {whole} {unit}"
