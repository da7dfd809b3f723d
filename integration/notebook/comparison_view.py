"""A comparison in a notebook: each number of ours by Flink's, and whether it is inside the tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..analysis.comparison import Comparison, Row, Spread
from ..report.comparison_text import cells_of, verdict
from .arrow_columns import table_of
from .view import Grid, View

if TYPE_CHECKING:
    from ..report.panels import Chart

_TEXTS = ("window", "vertex", "quantity", "unit")
_ENDS = ("flink", "flink_least", "flink_most", "ours", "ours_least", "ours_most")
_COLUMNS = {
    **dict.fromkeys(_TEXTS, pa.string()),
    **dict.fromkeys((*_ENDS, "ratio", "tolerance"), pa.float64()),
    "ok": pa.bool_(),
    "why": pa.string(),
}


def _numbers(comparison: Comparison) -> pa.Table:
    return table_of(map(_number, comparison.rows), _COLUMNS)


def _number(row: Row) -> Mapping[str, Any]:
    named = {name: getattr(row, name) for name in (*_TEXTS, "ratio", "tolerance", "ok", "why")}
    return named | _ends("flink", row.flink) | _ends("ours", row.ours)


def _ends(side: str, spread: Spread | None) -> dict[str, float | None]:
    if spread is None:
        return {}
    return {side: spread.median, f"{side}_least": spread.least, f"{side}_most": spread.most}


def _pictures(comparison: Comparison) -> Sequence[Chart]:
    from .notebook_charts import ratios  # here, since its libraries take a while to import

    return [chart for chart in [ratios(comparison)] if chart is not None]


def _grid(comparison: Comparison) -> Grid:
    head = ("quantity", "vertex", "window", "Flink", "ours", "ratio", "allowed", "")
    rows = [
        (f"{row.quantity}, {row.unit}", row.vertex, row.window, *cells_of(row)) for row in comparison.rows
    ]
    return Grid(head, rows)


VIEW: View[Comparison] = View(
    kind="Comparison",
    tables={"numbers": _numbers},
    pictures=_pictures,
    sentences=lambda comparison: [repr(comparison)[1:-1], verdict([comparison])],
    grid=_grid,
)
"""How a `Comparison` is shown."""
