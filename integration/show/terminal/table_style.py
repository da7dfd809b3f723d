"""The style of tables on a terminal: a rule below the head, names left-aligned, figures right-aligned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Column, Table

Padding = tuple[int, int, int, int]
"""Number of blanks around a cell: above, right, below, left."""

AFTER: Padding = (0, 1, 0, 0)
BEFORE: Padding = (0, 0, 0, 1)
BOTH: Padding = (0, 1, 0, 1)
TIGHT: Padding = (0, 0, 0, 0)


def figures(
    heads: Sequence[str | Column],
    rows: Iterable[Sequence[RenderableType]] = (),
    *,
    padding: Padding = AFTER,
    edge: bool = True,
) -> Table:
    """Return a table with names in the first column and right-aligned figures in the others.

    A `Column` in place of a head overrides the alignment. With `edge`, the sides of the table have the
    padding too.
    """
    columns = [
        head if isinstance(head, Column) else Column(head, justify="right" if place else "left")
        for place, head in enumerate(heads)
    ]
    table = Table(*columns, box=box.SIMPLE_HEAD, padding=padding, show_edge=False, pad_edge=edge)
    for row in rows:
        table.add_row(*row)
    return table


def number(head: str) -> Column:
    """Return a column of figures that never wrap."""
    return Column(head, justify="right", no_wrap=True)


def grid(columns: Sequence[Column], rows: Iterable[Sequence[RenderableType]]) -> Table:
    """Return a table without a header row."""
    table = Table.grid(*columns, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    return table


def fits(table: Table, console: Console) -> bool:
    """Whether a table can be printed without cutting or wrapping its cells."""
    unlimited = console.options.update(max_width=10 * console.width)
    return console.measure(table, options=unlimited).maximum <= console.width
