"""Verifications of change packages on a terminal: the verdict, and a table of before, promised and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column
from rich.text import Text

from ...advise.tune.change_package import TEXTS, TITLES
from ...base.number_text import NOTHING
from .table_style import figures, number

if TYPE_CHECKING:
    from ...advise.tune.verification import Verification, VerifiedFigure

_MARKS = {True: "ok", False: "broken", None: ""}


def print_verification(verification: Verification, console: Console) -> None:
    """Print the verdict in one line, and then the figures before, as promised, and after."""
    console.print(Text(verification.sentence, style="bold"), soft_wrap=True)
    console.print()
    heads = [Column(""), *map(number, ("before", "promised", "range", "after")), Column("")]
    table = figures(heads, edge=False)
    for each in verification.figures:
        text, promise = TEXTS[each.figure], each.promise
        table.add_row(
            TITLES[each.figure],
            text(promise.before),
            text(promise.promised),
            _range_text(each),
            text(each.after),
            _MARKS[each.ok],
            style="bold red" if each.ok is False else "",
        )
    console.print(table)
    console.print()
    source = "measured in Flink" if verification.measured else "emulated"
    legend = (
        f"before: {source}. after: the last {verification.checkpoints} completed checkpoints of job "
        f"{verification.job}, Flink {verification.flink}, {verification.url}. Figures without a mark are "
        "not judged."
    )
    console.print(Text(legend, style="dim"))


def _range_text(verified: VerifiedFigure) -> str:
    promise, text = verified.promise, TEXTS[verified.figure]
    return NOTHING if promise.low is None else f"{text(promise.low)}–{text(promise.high)}"
