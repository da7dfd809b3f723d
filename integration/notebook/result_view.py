"""A result in a notebook: what happened, its checkpoints as a picture, its figures as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netstack import FaultResult, RestartResult, Result

from ..analysis.window_figures import figures_of_runs
from ..analysis.wording import describe
from ..report.incidents import what_went_wrong
from ..report.keeping_up import fell_behind
from ..report.tables import summary_table
from . import run_tables
from .arrow_columns import table_of, value_fields, values_of
from .view import Grid, View

if TYPE_CHECKING:
    from ..report.panels import Chart


def _pictures(result: Result) -> Sequence[Chart]:
    from ..report.charts import charts  # here, since its libraries take a while to import

    return charts({result.scenario.name: result}) if result.steady else []


def _sentences(result: Result) -> list[str]:
    windows = figures_of_runs({result.scenario.name: result})
    several = len(windows) > 1
    said = [f"{name}: {describe(each)}" if several else describe(each) for name, each in windows.items()]
    return [repr(result)[1:-1], *said, *fell_behind(result), *what_went_wrong(result)]


def _grid(result: Result) -> Grid:
    table = summary_table({result.scenario.name: result})
    return Grid(("", *table.columns), [(row.name, *row.texts) for row in table.rows])


VIEW: View[Result] = View(
    kind="Result",
    tables={
        "vertices": lambda result: run_tables.vertices(result.steady),
        "subtasks": lambda result: run_tables.subtasks(result.steady),
        "windows": lambda result: run_tables.windows(result.steady),
        "checkpoints": lambda result: run_tables.checkpoints(result.checkpoints),
        "checkpoint_subtasks": lambda result: run_tables.checkpoint_subtasks(result.checkpoints),
        "series": lambda result: run_tables.series(result.series),
        "restarts": lambda result: table_of(
            (values_of(restart, value_fields(RestartResult)) for restart in result.restarts),
            value_fields(RestartResult),
        ),
        "faults": lambda result: table_of(
            (values_of(fault, value_fields(FaultResult)) for fault in result.faults),
            value_fields(FaultResult),
        ),
    },
    pictures=_pictures,
    sentences=_sentences,
    grid=_grid,
)
"""How a `Result` is shown."""
