"""Progress on stderr: a bar where a person looks on, now and then a line where a file does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

LINE_EVERY_S = 5.0
"""Least time between two lines where there is no terminal."""

Report = Callable[[float], None]
"""Told how much is done, in the unit of the total."""


@contextmanager
def progress(label: str, total: float, unit: str, console: Console) -> Iterator[Report]:
    """Show how much of `total` is done while the block runs; the bar is gone afterwards."""
    if not console.is_terminal:
        yield _lines(label, total, unit, console)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[shown]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=total, shown="")

        def report(done: float) -> None:
            bar.update(task, completed=done, shown=_shown(done, total, unit))

        report(0)
        yield report


def _lines(label: str, total: float, unit: str, console: Console) -> Report:
    begun = monotonic()
    due = begun + LINE_EVERY_S

    def report(done: float) -> None:
        nonlocal due
        if monotonic() >= due:
            due = monotonic() + LINE_EVERY_S
            left = _left(done, total, monotonic() - begun)
            console.print(Text(f"{label}: {_shown(done, total, unit)}{left}"), soft_wrap=True)

    return report


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
    return f"{min(done, total):.0f} of {total:g} {unit}"
