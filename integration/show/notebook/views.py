"""Views of results, comparisons, imported jobs, recommendations and forecasts for notebooks.

netstack finds them by the entry points ``netstack.views``.

A `View` makes Arrow and pandas tables, charts, and the HTML that a notebook shows: sentences, the first chart
and a table of texts, the same rows as on a terminal. The HTML takes the colours of the notebook
(``currentColor``), needs no network and runs no script.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from netstack import FaultResult, RestartResult, Result, Steady

from ...advise.forecast.load_figures import LoadFigures
from ...advise.sweeps.restart_drill import RestartDrill
from ...advise.tune.recommend import Recommendation
from ...advise.tune.settings import NOW
from ...base.extras import is_installed, missing_line, require
from ...base.number_text import NOTHING, percent
from ...runs.quantities import (
    IMPORTED_JOB,
    JOB,
    NOTEBOOK_SETTINGS,
    VERTEX,
    in_view,
    vertex_windows,
)
from ...runs.reference_comparison import ComparedFigure, Comparison
from ...runs.window_figures import COUNTS, FIGURES, figures_of_runs
from ..terminal.comparison import cells_of, verdict
from ..terminal.forecast import LOAD_COLUMNS, forecast_words, load_rows
from ..terminal.run import summary_table
from ..terminal.sentences import describe, fell_behind, what_went_wrong
from . import arrow_tables
from .arrow_tables import struct_table, table_of, value_fields, values_of

if TYPE_CHECKING:
    from ...advise.forecast.forecast import Forecast
    from ...flink.importing import Imported
    from ..charts.chart_style import Chart

T = TypeVar("T")

MOST_ROWS = 20
"""Maximum number of table rows that a notebook shows. The first ones are shown."""

_TABLE = "color: inherit; border-collapse: collapse; margin: 0.5em 0"
_CELL = "padding: 0.15em 0.8em; border-bottom: 1px solid rgba(128, 128, 128, 0.35); text-align:"


class Grid(NamedTuple):
    """A table of texts, with a head. The first column is left-aligned, the others are right-aligned."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class View(ABC, Generic[T]):
    """The view of a class; satisfies `netstack.results.notebook_views.View`."""

    kind: str
    """Name of the class."""
    tables: Mapping[str, Callable[[T], pa.Table]]
    """Tables by name; the first one is the default."""

    @abstractmethod
    def pictures(self, shown: T) -> Sequence[Chart]:
        """Return the charts that have data. Called only if the chart library is installed."""

    @abstractmethod
    def sentences(self, shown: T) -> Sequence[str]:
        """Return the sentences above the chart."""

    @abstractmethod
    def grid(self, shown: T) -> Grid:
        """Return the table below the chart."""

    def table(self, shown: T, name: str | None) -> pa.Table:
        """Return a table as Arrow.

        Raises:
            ValueError: There is no table of that name.
        """
        if name is None:
            name = next(iter(self.tables))
        if name not in self.tables:
            raise ValueError(self._no_such("table", name, self.tables))
        return self.tables[name](shown)

    def frame(self, shown: T, name: str | None) -> Any:
        """Return a table as a pandas.DataFrame.

        Raises:
            ValueError: There is no table of that name.
            MissingExtraError: pandas is not installed.
        """
        require("pandas", f"{self.kind}.to_pandas")
        return self.table(shown, name).to_pandas()

    def chart(self, shown: T, name: str | None) -> Any:
        """Return a chart, with its title, as an altair chart.

        Raises:
            ValueError: There is no chart of that name, or nothing to draw.
            MissingExtraError: The libraries for charts are not installed.
        """
        require("report", f"{self.kind}.plot")
        from ..charts.chart_style import to_altair  # imported here, because altair takes a while

        charts = {chart.name: chart for chart in self.pictures(shown)}
        if not charts:
            raise ValueError(f"this {self.kind} has nothing to draw")
        if name is not None and name not in charts:
            raise ValueError(self._no_such("picture", name, charts))
        return to_altair(charts[next(iter(charts)) if name is None else name])

    def html(self, shown: T) -> str:
        """Return the HTML of a notebook cell."""
        said = "".join(f'<p style="margin: 0.3em 0">{escape(line)}</p>' for line in self.sentences(shown))
        if is_installed("report"):
            from ..charts.chart_style import to_svg

            drawn = next((to_svg(chart) for chart in self.pictures(shown)), "")
        else:
            drawn = f"<p><em>{escape(missing_line('report', 'the picture'))}</em></p>"
        return f"<div>{said}{drawn}{_grid_html(self.grid(shown))}</div>"

    def _no_such(self, what: str, name: str, names: Iterable[str]) -> str:
        return f"this {self.kind} has no {what} {name!r}; use one of {', '.join(names)}"


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


class _ResultView(View[Result]):
    def pictures(self, shown: Result) -> Sequence[Chart]:
        from ..charts.run_charts import charts

        return charts({shown.scenario.name: shown}) if shown.steady else []

    def sentences(self, shown: Result) -> Sequence[str]:
        windows = figures_of_runs({shown.scenario.name: shown})
        several = len(windows) > 1
        said = [f"{name}: {describe(each)}" if several else describe(each) for name, each in windows.items()]
        return [repr(shown)[1:-1], *said, *fell_behind(shown), *what_went_wrong(shown)]

    def grid(self, shown: Result) -> Grid:
        table = summary_table({shown.scenario.name: shown})
        return Grid(("", *table.columns), [(row.name, *row.texts) for row in table.rows])


RESULT = _ResultView(
    "Result",
    {
        "vertices": lambda result: arrow_tables.vertices(result.steady),
        "subtasks": lambda result: arrow_tables.subtasks(result.steady),
        "windows": lambda result: struct_table(result.steady, Steady),
        "checkpoints": lambda result: arrow_tables.checkpoints(result.checkpoints),
        "checkpoint_subtasks": lambda result: arrow_tables.checkpoint_subtasks(result.checkpoints),
        "series": lambda result: arrow_tables.series(result.series),
        "restarts": lambda result: struct_table(result.restarts, RestartResult),
        "faults": lambda result: struct_table(result.faults, FaultResult),
    },
)


_TEXTS = ("window", "vertex", "quantity", "unit")
_NUMBERS = {
    **dict.fromkeys(_TEXTS, pa.string()),
    **dict.fromkeys(("flink", "flink_least", "flink_most"), pa.float64()),
    **dict.fromkeys(("ours", "ours_least", "ours_most", "ratio", "tolerance"), pa.float64()),
    "ok": pa.bool_(),
    "why": pa.string(),
}


def _number(row: ComparedFigure) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in (*_TEXTS, "ratio", "tolerance", "ok", "why")}
    for side, spread in (("flink", row.flink), ("ours", row.ours)):
        if spread is not None:
            values |= {side: spread.median, f"{side}_least": spread.least, f"{side}_most": spread.most}
    return values


class _ComparisonView(View[Comparison]):
    def pictures(self, shown: Comparison) -> Sequence[Chart]:
        from ..charts.notebook_charts import ratios

        return [chart for chart in [ratios(shown)] if chart is not None]

    def sentences(self, shown: Comparison) -> Sequence[str]:
        return [repr(shown)[1:-1], verdict([shown])]

    def grid(self, shown: Comparison) -> Grid:
        head = ("quantity", "vertex", "window", shown.other_side, "ours", "ratio", "allowed", "")
        rows = [
            (f"{row.quantity}, {row.unit}", row.vertex, row.window, *cells_of(row, shown.other_side))
            for row in shown.rows
        ]
        return Grid(head, rows)


COMPARISON = _ComparisonView(
    "Comparison", {"numbers": lambda comparison: table_of(map(_number, comparison.rows), _NUMBERS)}
)


class _ImportedView(View["Imported"]):
    def pictures(self, shown: Imported) -> Sequence[Chart]:
        from ..charts.notebook_charts import task_time

        return [chart for chart in [task_time(shown.measured.steady.vertices)] if chart is not None]

    def sentences(self, shown: Imported) -> Sequence[str]:
        return [repr(shown)[1:-1], *shown.notes]

    def grid(self, shown: Imported) -> Grid:
        quantities = in_view(VERTEX, IMPORTED_JOB)
        head = ("vertex", "subtasks", *(each.head(IMPORTED_JOB) for each in quantities))
        rows = []
        for vertex in vertex_windows(shown.scenario, shown.measured.steady):
            texts = (each.unit.text(each.of(vertex)) for each in quantities)
            rows.append((vertex.steady.name, str(vertex.steady.parallelism), *texts))
        return Grid(head, rows)


IMPORTED = _ImportedView(
    "Imported",
    {
        "vertices": lambda imported: arrow_tables.vertices([imported.measured.steady]),
        "subtasks": lambda imported: arrow_tables.subtasks([imported.measured.steady]),
        "checkpoints": lambda imported: arrow_tables.checkpoints(imported.measured.checkpoints),
        "checkpoint_subtasks": lambda imported: arrow_tables.checkpoint_subtasks(
            imported.measured.checkpoints
        ),
        "notes": lambda imported: table_of(
            ({"note": str(note)} for note in imported.notes), {"note": pa.string()}
        ),
    },
)


def _settings(recommendation: Recommendation) -> pa.Table:
    """Return a row for each setting: means over seeds, and the ends of their 95 % intervals."""
    figures = [*FIGURES, "throughput_share"]
    ends = [f"{name}{end}" for name in figures for end in ("", "_low", "_high")]
    columns = {
        "setting": pa.string(),
        "recommended": pa.bool_(),
        "seeds": pa.int64(),
        "failed": pa.int64(),
        **dict.fromkeys(COUNTS, pa.int64()),
        **dict.fromkeys(ends, pa.float64()),
    }
    rows = []
    for setting in recommendation.settings:
        row: dict[str, Any] = {"setting": setting.name, "seeds": len(setting.seeds), "failed": setting.failed}
        row["recommended"] = setting.name == recommendation.chosen
        row |= {name: getattr(setting, name) for name in COUNTS}
        known = setting.figures
        if setting.throughput_share is not None:
            known = {**known, "throughput_share": setting.throughput_share}
        for name, estimate in known.items():
            row |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        rows.append(row)
    return table_of(rows, columns)


class _RecommendationView(View[Recommendation]):
    def pictures(self, shown: Recommendation) -> Sequence[Chart]:
        from ..charts.tuning_charts import tuning_charts

        return tuning_charts([shown])

    def sentences(self, shown: Recommendation) -> Sequence[str]:
        return [*shown.words, *shown.configuration]

    def grid(self, shown: Recommendation) -> Grid:
        quantities = in_view(JOB, NOTEBOOK_SETTINGS)
        head = ("setting", "throughput", *(each.head(NOTEBOOK_SETTINGS) for each in quantities), "")
        marks = {shown.chosen: "set", NOW: shown.present}  # the present setting may be the chosen one
        rows = []
        for setting in shown.settings:
            share = setting.throughput_share
            texts = (each.unit.text(setting.mean(each.name)) for each in quantities)
            throughput = NOTHING if share is None else percent(share.mean)
            rows.append((setting.name, throughput, *texts, marks.get(setting.name, "")))
        return Grid(head, rows)


RECOMMENDATION = _RecommendationView("Recommendation", {"settings": _settings})


_LOAD = value_fields(LoadFigures)


def _loads(forecast: Forecast) -> pa.Table:
    """Return a row for each setting and load."""
    busiest = {"busiest_vertex": pa.string(), "busiest_subtask": pa.int64(), "busy_share": pa.float64()}
    rows = []
    for curve in forecast.curves:
        for point in curve.points:
            row = {"setting": curve.setting, "limit": curve.headroom.limit} | values_of(point, _LOAD)
            busy = (point.busiest.vertex, point.busiest.subtask, point.busiest.busy_share)
            rows.append(row | dict(zip(busiest, busy, strict=True)))
    return table_of(rows, {"setting": pa.string(), "limit": pa.float64(), **_LOAD, **busiest})


class _ForecastView(View["Forecast"]):
    def pictures(self, shown: Forecast) -> Sequence[Chart]:
        from ..charts.forecast_charts import forecast_charts

        return forecast_charts(shown)

    def sentences(self, shown: Forecast) -> Sequence[str]:
        return [*forecast_words(shown), *shown.recommendation.configuration]

    def grid(self, shown: Forecast) -> Grid:
        rows = [(curve.setting, *row.texts) for curve in shown.curves for row in load_rows(curve)]
        return Grid(("setting", "load", *LOAD_COLUMNS), rows)


FORECAST = _ForecastView(
    "Forecast",
    {"loads": _loads, "restarts": lambda forecast: struct_table(forecast.restarts, RestartDrill)},
)
