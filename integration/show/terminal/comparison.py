"""Comparisons on a terminal and as Markdown: with a real Flink, with a running job, and of two results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Column
from rich.text import Text

from ...base.number_text import NOTHING, counted, figure, is_or_are, ratio, size, size_in, size_unit
from ...runs.quantities import END_TO_END, JOB, THROUGHPUT, WINDOWS, in_view
from ...runs.reference_comparison import TOO_SMALL, ComparedFigure, Comparison, Spread
from ...runs.result_differences import FigureDifference, ResultDifferences
from .console import WIDTH
from .table_style import BEFORE, BOTH, TIGHT, figures

if TYPE_CHECKING:
    from ...flink.validation import Validation

FLINK_SIDE = "Flink"


def legend(other: str = FLINK_SIDE) -> str:
    """Return the legend of a comparison with Flink, or with another side of the given name."""
    of = "Flink's" if other == FLINK_SIDE else f"the {other}'s"
    return (
        f"Medians, with ranges over {of} repetitions and over our seeds. ok: within the tolerance. "
        f"seeds: {of} number lies within our range, widened by 10 %. {other.lower()}: our number lies "
        f"within {of} range."
    )


UNITS = "Times in ms, throughput in records/s. "

VALIDATION_LEGEND = (
    "Flink: what the job shows now, times with their range over its checkpoints. ours: median and range "
    "over seeds, predicted from the load and options of the job. ratio: ours divided by Flink's. "
    "allowed: the tolerance. seeds: Flink's number lies within our range, widened by 10 %. too small: the "
    "number is inside an allowance of more than half of it, which proves nothing. Times in ms, throughput "
    "in records/s."
)

DIFFERENCES_LEGEND = (
    "Figures of the last window of each run. difference: second minus first; ratio: second divided by first."
)

_VERDICTS = {
    "tolerance": "ok",
    "our range": "seeds",
    "outside": "OUTSIDE",
    TOO_SMALL: "too small",
}

_PIECE = re.compile(r"[^.-]+[.-]*|[.-]+")

_TEXTS = {quantity.head(WINDOWS): quantity.unit.text for quantity in in_view(JOB, WINDOWS)}


def print_comparisons(comparisons: Sequence[Comparison], console: Console, sides: Sequence[str] = ()) -> None:
    """Print the table of each comparison, a legend, and the number of values outside their tolerance.

    `sides`, if given, has the names of the two sides of each comparison.
    """
    for place, comparison in enumerate(comparisons):
        if sides:
            console.print(Text(sides[place], style="dim", overflow="fold"))
        console.print(comparison_table(comparison))
        console.print()
    console.print(Text(UNITS + _legends(comparisons), style="dim"))
    console.print(verdict(comparisons))


def _legends(comparisons: Sequence[Comparison]) -> str:
    return " ".join(legend(other) for other in dict.fromkeys(each.other_side for each in comparisons))


def print_validation(validation: Validation, console: Console) -> None:
    """Print the prediction for a running Flink job beside its measurements."""
    console.print(Text(f"job {validation.job}, Flink {validation.flink}, {validation.url}", style="dim"))
    console.print(comparison_table(validation.comparison))
    console.print()
    console.print(Text(VALIDATION_LEGEND, style="dim"))
    console.print(verdict([validation.comparison]))
    console.print(trust(validation.comparison))


def comparison_table(comparison: Comparison) -> Group:
    """Return the table of one scenario: medians, with ranges where there are several runs."""
    heads = [Column(head) for head in ("", comparison.other_side, "ours")]
    heads += [Column(head, justify="right") for head in ("ratio", "allowed")]
    table = figures([*heads, Column("")], padding=TIGHT)
    for subject, rows in groupby(comparison.rows, key=lambda row: (row.window, row.vertex)):
        table.add_row(Text(" ".join(subject).strip(), style="bold"))
        for row in rows:
            table.add_row(
                f" {row.quantity}",
                *cells_of(row, comparison.other_side, units=True),
                style="" if row.ok else "bold red",
            )
    seeds = ", ".join(map(str, comparison.seeds))
    title = Text(f"{comparison.scenario}   (seed{'s' * (len(comparison.seeds) > 1)} {seeds})", style="bold")
    return Group(title, table)


def comparison_markdown(comparisons: Sequence[Comparison]) -> str:
    """Return one Markdown table of all scenarios, with legend and verdict below."""
    names = dict.fromkeys(comparison.other_side for comparison in comparisons)
    sides = " or ".join(names) or FLINK_SIDE, "ours"
    head = ("scenario", "window", "vertex", "quantity", *sides, "ratio", "allowed", "")
    lines = [_line(head), _line("---" for _ in head)]
    for comparison in comparisons:
        for row in comparison.rows:
            subject = (comparison.scenario, row.window, row.vertex, f"{row.quantity}, {row.unit}")
            cells = list(cells_of(row, comparison.other_side))
            if not row.ok:
                cells[-1] = f"**{cells[-1].lower()}**"
            lines.append(_line((*subject, *cells)))
    return "\n".join([*lines, "", _legends(comparisons), "", verdict(comparisons), ""])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def verdict(comparisons: Sequence[Comparison]) -> str:
    """Return the number of values outside their tolerance, and of those too small to judge, in words."""
    rows = [row for comparison in comparisons for row in comparison.rows]
    judged = [row for row in rows if row.why != TOO_SMALL]
    outside, small = sum(not row.ok for row in judged), len(rows) - len(judged)
    apart = ""
    if small:
        apart = f" {counted(small, 'further number')} {is_or_are(small)} too small to judge."
    scenarios = counted(len(comparisons), "scenario")
    if not judged:
        return f"No number of {scenarios} was judged.{apart}"
    if outside:
        numbers = f"{outside} of {counted(len(judged), 'number')} of {scenarios}"
        return f"{numbers} {is_or_are(outside)} outside the tolerance.{apart}"
    if len(judged) == 1:
        return f"1 number of {scenarios} is inside the tolerance.{apart}"
    return f"All {len(judged)} numbers of {scenarios} are inside the tolerance.{apart}"


def trust(comparison: Comparison) -> str:
    """Return as a sentence how far a validation supports the figures of `tune`.

    `tune` compares checkpoint times and throughput, so these two decide.
    """
    deciding = [row for row in comparison.rows if row.quantity in (END_TO_END, THROUGHPUT)]
    wrong = list(dict.fromkeys(row.quantity for row in deciding if not row.ok))
    if wrong:
        return (
            f"Of the figures that tune compares, {' and '.join(wrong)} differs: expect its figures for other "
            "settings to differ as much. The order of the settings is more reliable than their figures."
        )
    if not any(row.quantity == END_TO_END and row.why != TOO_SMALL for row in deciding):
        return "Checkpoint times were not judged, so this says little about the advice of tune."
    return "Checkpoint times and throughput, which tune compares, are inside: its figures can be trusted."


def cells_of(row: ComparedFigure, other: str = FLINK_SIDE, *, units: bool = False) -> Iterator[str]:
    """Yield the texts of a row after its name: the other side's value, ours, ratio, tolerance, verdict.

    With `units`, sizes have units. Other units are in the legend.
    """
    in_units = units and row.unit == "bytes"
    yield _spread(row.flink, in_units)
    yield "none" if row.ours is None else _spread(row.ours, in_units)
    yield "" if row.ratio is None else f"{row.ratio:.2f}"
    yield size(row.tolerance) if in_units else figure(row.tolerance)
    yield _VERDICTS.get(row.why, other.lower())


def _spread(spread: Spread, in_units: bool) -> str:
    """Return a median and its range; sizes in the unit of the median."""
    text = size(spread.median) if in_units else figure(spread.median)
    if spread.least == spread.most:
        return text
    unit = size_unit(spread.median)
    least, most = (size_in(unit, end) if in_units else figure(end) for end in (spread.least, spread.most))
    return f"{text} ({least}-{most})"


def print_differences(differences: ResultDifferences, console: Console) -> None:
    """Print the figures of two results, and the settings that differ."""
    console.print(Text(f"first: {differences.first}\nsecond: {differences.second}", style="bold"))
    least = 12 if console.width >= WIDTH else 0
    heads = [
        Column(head, justify="right", min_width=least) for head in ("first", "second", "difference", "ratio")
    ]
    rows = [(figure.quantity, *figure_cells(figure)) for figure in differences.figures]
    console.print(figures(["", *heads], rows, padding=BEFORE, edge=False))
    console.print(Text(DIFFERENCES_LEGEND, style="dim"))
    console.print()
    if not differences.settings:
        console.print("Both runs have the same settings.")
        return
    width = min(max(len(setting.key) for setting in differences.settings), console.width // 2)
    settings = figures(
        [Column("set otherwise", width=width), Column("first"), Column("second")], padding=BOTH, edge=False
    )
    for setting in differences.settings:
        cells = (_broken(setting.key, width), setting.first or NOTHING, setting.second or NOTHING)
        settings.add_row(*(Text(cell, overflow="fold") for cell in cells))
    console.print(settings)


def figure_cells(figure: FigureDifference) -> tuple[str, str, str, str]:
    """Return both values, their difference with its sign, and their ratio."""
    text, by = _TEXTS[figure.quantity], figure.difference
    difference = text(None if by is None else abs(by))
    if by is not None and difference != text(0):
        difference = ("-" if by < 0 else "+") + difference
    return text(figure.first), text(figure.second), difference, ratio(figure.ratio)


def _broken(key: str, width: int) -> str:
    """Break a key into lines of a width, after dots and hyphens if possible."""
    lines = [""]
    for piece in _PIECE.findall(key):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)
