"""The view of a class: its tables as Arrow and pandas, its pictures, and what a notebook shows of it.

HTML is sentences, the first picture and a table, in the colours of the notebook around it (``currentColor``),
so that it can be read in light and in dark. It needs no network and runs no script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from ..extras import is_installed, missing_line, require

if TYPE_CHECKING:
    from ..report.panels import Chart

T = TypeVar("T")

Tables = Mapping[str, Callable[[T], pa.Table]]
"""What makes each table, by its name; the first one is meant where none is named."""

MOST_ROWS = 20
"""Rows of a table that a notebook shows; the first ones of more."""

_TABLE = "color: inherit; border-collapse: collapse; margin: 0.5em 0"
_CELL = "padding: 0.15em 0.8em; border-bottom: 1px solid rgba(128, 128, 128, 0.35); text-align:"


class Grid(NamedTuple):
    """A table as people read it: the head, and rows of texts; all columns but the first are to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """How objects of a class are shown; satisfies `netstack.results.viewed.View`."""

    kind: str
    """Name of the class."""
    tables: Tables[T]
    pictures: Callable[[T], Sequence[Chart]]
    """Those that there is something to show in; called only where charts are installed."""
    sentences: Callable[[T], Sequence[str]]
    """What stands above the picture."""
    grid: Callable[[T], Grid]
    """What stands below."""

    def table(self, shown: T, name: str | None) -> pa.Table:
        """Return a table as Arrow.

        Raises:
            ValueError: there is none of that name.
        """
        if name is None:
            name = next(iter(self.tables))
        if name not in self.tables:
            raise ValueError(_no_such("table", name, self.kind, list(self.tables)))
        return self.tables[name](shown)

    def frame(self, shown: T, name: str | None) -> Any:
        """Return a table as a pandas.DataFrame.

        Raises:
            ValueError: there is none of that name.
            MissingExtraError: pandas is not installed.
        """
        require("pandas", f"{self.kind}.to_pandas")
        return self.table(shown, name).to_pandas()

    def chart(self, shown: T, name: str | None) -> Any:
        """Return a picture, with its title, as an altair chart.

        Raises:
            ValueError: there is none of that name, or nothing to draw.
            MissingExtraError: what draws is not installed.
        """
        require("report", f"{self.kind}.plot")
        from .drawings import as_altair  # here, since its libraries take a while to import

        charts = {chart.name: chart for chart in self.pictures(shown)}
        if not charts:
            raise ValueError(f"this {self.kind} has nothing to draw")
        if name is not None and name not in charts:
            raise ValueError(_no_such("picture", name, self.kind, list(charts)))
        return as_altair(charts[next(iter(charts)) if name is None else name])

    def html(self, shown: T) -> str:
        """Return what a notebook shows: sentences, the first picture, a table."""
        said = "".join(f'<p style="margin: 0.3em 0">{escape(line)}</p>' for line in self.sentences(shown))
        return f"<div>{said}{self._drawn(shown)}{_grid_html(self.grid(shown))}</div>"

    def _drawn(self, shown: T) -> str:
        if not is_installed("report"):
            return f"<p><em>{escape(missing_line('report', 'the picture'))}</em></p>"
        from .drawings import inline_svg

        return next((inline_svg(chart) for chart in self.pictures(shown)), "")


def _no_such(what: str, name: str, kind: str, names: Sequence[str]) -> str:
    return f"there is no {what} {name!r}; those of this {kind} are {', '.join(names)}"


def _grid_html(grid: Grid) -> str:
    if not grid.rows:
        return ""
    head = _row_html("th", grid.head)
    body = "".join(_row_html("td", row) for row in grid.rows[:MOST_ROWS])
    left_out = len(grid.rows) - MOST_ROWS
    rest = f"<p><em>and {left_out} more</em></p>" if left_out > 0 else ""
    return f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{body}</tbody></table>{rest}'


def _row_html(element: str, texts: Sequence[str]) -> str:
    cells = (
        f'<{element} style="{_CELL} {"right" if place else "left"}">{escape(text)}</{element}>'
        for place, text in enumerate(texts)
    )
    return f"<tr>{''.join(cells)}</tr>"
