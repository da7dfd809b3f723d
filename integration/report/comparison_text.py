"""Comparisons as people read them: a table for an 80-column terminal, and Markdown for a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ..analysis.comparison import Comparison, Row, Spread
from ..analysis.wording import size, size_in, size_unit

LEGEND = (
    "Medians, with ranges over Flink's repetitions and over our seeds. ok: within what is allowed. "
    "seeds: Flink's number lies within our range, widened by 10 %. flink: ours lies within Flink's range."
)
UNITS = "Times in ms, throughput in records/s. "
_VERDICTS = {
    "tolerance": "ok",
    "our range": "seeds",
    "Flink's range": "flink",
    "outside": "OUTSIDE",
}
_HEAD = ("", "Flink", "ours", "ratio", "allowed", "")


def comparison_table(comparison: Comparison) -> Group:
    """Return one scenario's table: medians, with ranges where there are several runs."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for head in _HEAD:
        table.add_column(head, justify="right" if head in ("ratio", "allowed") else "left")
    for subject, rows in groupby(comparison.rows, key=lambda row: (row.window, row.vertex)):
        table.add_row(Text(" ".join(subject).strip(), style="bold"))
        for row in rows:
            table.add_row(f" {row.quantity}", *_cells_with_units(row), style="" if row.ok else "bold red")
    seeds = ", ".join(map(str, comparison.seeds))
    title = Text(f"{comparison.scenario}   (seed{'s' * (len(comparison.seeds) > 1)} {seeds})", style="bold")
    return Group(title, table)


def print_comparisons(comparisons: Sequence[Comparison], console: Console, sides: Sequence[str] = ()) -> None:
    """Print all tables, what their last column means, and how many numbers are outside.

    `sides` say of each comparison what its two sides are, if they are given.
    """
    shown = list(comparisons)
    for place, comparison in enumerate(shown):
        if sides:
            console.print(Text(sides[place], style="dim", overflow="fold"))
        console.print(comparison_table(comparison))
        console.print()
    console.print(Text(UNITS + LEGEND, style="dim"))
    console.print(verdict(shown))


def verdict(comparisons: Sequence[Comparison]) -> str:
    """Return the one sentence that says how it went."""
    rows = [row for comparison in comparisons for row in comparison.rows]
    outside = sum(not row.ok for row in rows)
    scenarios = "1 scenario" if len(comparisons) == 1 else f"{len(comparisons)} scenarios"
    if not outside:
        return f"All {len(rows)} numbers of {scenarios} are inside the tolerance."
    return f"{outside} of {len(rows)} numbers of {scenarios} are outside the tolerance."


def comparison_markdown(comparisons: Sequence[Comparison]) -> str:
    """Return one Markdown table over all scenarios, with the legend and the verdict below."""
    head = ("scenario", "window", "vertex", "quantity", "Flink", "ours", "ratio", "allowed", "")
    lines = [_line(head), _line("---" for _ in head)]
    for comparison in comparisons:
        for row in comparison.rows:
            subject = (comparison.scenario, row.window, row.vertex, f"{row.quantity}, {row.unit}")
            cells = list(cells_of(row))
            if not row.ok:
                cells[-1] = f"**{cells[-1].lower()}**"
            lines.append(_line((*subject, *cells)))
    return "\n".join([*lines, "", LEGEND, "", verdict(comparisons), ""])


def figure(value: float) -> str:
    """Return a number with about three digits that mean something."""
    if float(value).is_integer() or abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def cells_of(row: Row) -> Iterator[str]:
    """Yield the texts of a row beside its name: Flink's, ours, their ratio, what is allowed, the verdict."""
    yield _spread(row.flink)
    yield "none" if row.ours is None else _spread(row.ours)
    yield "" if row.ratio is None else f"{row.ratio:.2f}"
    yield figure(row.tolerance)
    yield _VERDICTS[row.why]


def _cells_with_units(row: Row) -> Iterator[str]:
    """Yield what `cells_of` does, with sizes as people read them; other units are named below the table."""
    if row.unit != "bytes":
        yield from cells_of(row)
        return
    _, _, ratio, _, verdict = cells_of(row)
    yield _size_spread(row.flink)
    yield "none" if row.ours is None else _size_spread(row.ours)
    yield from (ratio, size(row.tolerance), verdict)


def _size_spread(spread: Spread) -> str:
    """A median of bytes, and the range in its unit."""
    if spread.least == spread.most:
        return size(spread.median)
    unit = size_unit(spread.median)
    return f"{size(spread.median)} ({size_in(unit, spread.least)}-{size_in(unit, spread.most)})"


def _spread(spread: Spread) -> str:
    if spread.least == spread.most:
        return figure(spread.median)
    return f"{figure(spread.median)} ({figure(spread.least)}-{figure(spread.most)})"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
