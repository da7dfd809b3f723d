"""Traces as people read them: one line for each step of a checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rich.console import Console
from rich.text import Text

from netstack import TraceEvent


class TracePrinter:
    """Prints each step as it happens; to be given to `emulate` as `trace`.

    `checkpoints`: print only the steps of these, by id; empty: all steps.
    """

    def __init__(self, console: Console, checkpoints: Collection[int] = ()) -> None:
        self._console = console
        self._checkpoints = frozenset(checkpoints)

    def __call__(self, at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        """Print one step, unless it is of another checkpoint."""
        if not self._checkpoints or checkpoint_id in self._checkpoints:
            line = str(TraceEvent(at, place, text, checkpoint_id))
            self._console.print(Text(line), soft_wrap=True)


def print_trace(log: Iterable[TraceEvent], console: Console, checkpoints: Collection[int] = ()) -> None:
    """Print the steps of a trace; with `checkpoints` only those of these, by id."""
    printer = TracePrinter(console, checkpoints)
    for event in log:
        printer(*event)
