"""How far long work is: a bar where a person looks on, now and then a line where a file does.

What is known is said, and nothing else: of work with a total how much of it is done and how long the rest
takes at the pace so far, of other work what it is at, and for how long it has run.
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

from .output import shown

LINE_EVERY_S = 5.0
"""Least time between two lines where there is no terminal."""

Report = Callable[[float], None]
"""Told how much is done, in the unit of the total."""

Tell = Callable[[str], None]
"""Told what work is at, in a few words."""


@contextmanager
def progress(
    label: str, total: float, unit: str, console: Console, *, before: str = "", behind: str = ""
) -> Iterator[Report]:
    """Show how much of `total` is done while the block runs; the bar is gone afterwards.

    The label has what is done `before` anything is reported, and `behind` the total, where that takes time.
    A report of 0 says that the work begins only now: what is left is told by the pace since then.
    """
    if not console.is_terminal:
        yield _lines(label, total, unit, console)
        return
    with Progress(*_columns(console), console=console, transient=True) as bar:
        task = bar.add_task(_labelled(label, before), total=total, shown=_shown(0, total, unit))

        def report(done: float) -> None:
            name = _labelled(label, behind) if done >= total else label
            bar.update(task, description=name, completed=min(done, total), shown=_shown(done, total, unit))

        yield report


@contextmanager
def activity(label: str, console: Console) -> Iterator[Tell]:
    """Show what work is at, and for how long, while the block runs: nobody knows how much of it there is.

    Where nobody looks on, a line says so now and then, once anything is told.
    """
    if not console.is_terminal:
        yield _told_lines(label, console)
        return
    text = TextColumn("{task.description}", markup=False)
    with Progress(SpinnerColumn(), text, TimeElapsedColumn(), console=console, transient=True) as line:
        task = line.add_task(_cut(label, console), total=None)
        yield lambda doing: line.update(task, description=_cut(_labelled(label, doing), console))


def _cut(text: str, console: Console) -> str:
    """A text as one line that leaves room for the time beside it, which is to be in sight."""
    line = Text(shown(text))
    line.truncate(max(1, console.width - len("* 100:00:00 ")), overflow="ellipsis")
    return line.plain


def _columns(console: Console) -> list[ProgressColumn]:
    """What a bar has, narrower in a narrow terminal, so that what is left is always in sight."""
    label = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1))
    shown = TextColumn("{task.fields[shown]}", table_column=Column(no_wrap=True))
    elapsed, left = (Column(no_wrap=True, min_width=7) for _ in range(2))
    times = [TimeElapsedColumn(elapsed), TextColumn("left"), TimeRemainingColumn(table_column=left)]
    bar_width = max(6, min(40, console.width // 4))
    return [label, BarColumn(bar_width=bar_width), shown, *times]


def _labelled(label: str, doing: str) -> str:
    return f"{label}: {doing}" if doing else label


def _lines(label: str, total: float, unit: str, console: Console) -> Report:
    begun = monotonic()
    due = begun + LINE_EVERY_S

    def report(done: float) -> None:
        nonlocal begun, due
        now = monotonic()
        if done <= 0:
            begun = now
        if now >= due:
            due = now + LINE_EVERY_S
            left = _left(done, total, now - begun)
            console.print(Text(f"{label}: {_shown(done, total, unit)}{left}"), soft_wrap=True)

    return report


def _told_lines(label: str, console: Console) -> Tell:
    begun = monotonic()
    due = begun + LINE_EVERY_S

    def tell(doing: str) -> None:
        nonlocal due
        now = monotonic()
        if now >= due:
            due = now + LINE_EVERY_S
            line = f"{_labelled(label, doing)}, {duration_text(now - begun)} so far"
            console.print(Text(shown(line)), soft_wrap=True)

    return tell


def _left(done: float, total: float, elapsed_s: float) -> str:
    """How long the rest will take at the pace so far; nothing where nothing is done yet."""
    if done <= 0 or done >= total:
        return ""
    return f", {duration_text(elapsed_s * (total - done) / done)} left"


def duration_text(seconds: float) -> str:
    """Return a time that is only estimated, as people say it: "40 s", "3 min", "1 h 20 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _shown(done: float, total: float, unit: str) -> str:
    whole = f"{total:,.0f}" if total == int(total) else f"{total:g}"
    return f"{min(done, total):,.0f} of {whole} {unit}"
