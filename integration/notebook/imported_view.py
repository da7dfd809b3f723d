"""A job read from Flink in a notebook: what its vertices do now, and what could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from netstack import VertexSteady

from ..analysis.known_values import highest
from ..analysis.wording import NOTHING, milliseconds, per_second, percent
from ..flink import Imported
from . import run_tables
from .arrow_columns import table_of
from .view import Grid, View

if TYPE_CHECKING:
    from ..report.panels import Chart


def _notes(imported: Imported) -> pa.Table:
    return table_of(({"note": str(note)} for note in imported.notes), {"note": pa.string()})


def _pictures(imported: Imported) -> Sequence[Chart]:
    from .notebook_charts import task_time  # here, since its libraries take a while to import

    return [chart for chart in [task_time(imported.measured.steady.vertices)] if chart is not None]


def _grid(imported: Imported) -> Grid:
    head = ("vertex", "subtasks", "records in", "records out", "busy", "start delay", "alignment")
    return Grid(head, [_texts(vertex) for vertex in imported.measured.steady.vertices])


def _texts(vertex: VertexSteady) -> tuple[str, ...]:
    busy = highest(vertex.busy_ms_per_s)
    return (
        vertex.name,
        str(vertex.parallelism),
        per_second(run_tables.sum_of_all(vertex.records_in_per_s)),
        per_second(run_tables.sum_of_all(vertex.records_out_per_s)),
        NOTHING if busy is None else percent(busy / 1000),
        milliseconds(vertex.start_delay_ms),
        milliseconds(vertex.alignment_ms),
    )


VIEW: View[Imported] = View(
    kind="Imported",
    tables={
        "vertices": lambda imported: run_tables.vertices([imported.measured.steady]),
        "subtasks": lambda imported: run_tables.subtasks([imported.measured.steady]),
        "checkpoints": lambda imported: run_tables.checkpoints(imported.measured.checkpoints),
        "checkpoint_subtasks": lambda imported: run_tables.checkpoint_subtasks(imported.measured.checkpoints),
        "notes": _notes,
    },
    pictures=_pictures,
    sentences=lambda imported: [repr(imported)[1:-1], *imported.notes],
    grid=_grid,
)
"""How an `Imported` is shown."""
