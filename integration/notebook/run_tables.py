"""The tables of what was measured of a job: by vertex, by subtask, by checkpoint, over time.

A result of ours and what a real Flink shows have the same fields, and so the same tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec import UNSET

from netstack import CheckpointResult, Series, Steady, VertexCheckpoint, VertexSteady

from ..analysis.known_values import total
from .arrow_columns import at_subtask, list_fields, table_of, value_fields, values_of

_WINDOW = {"from_s": pa.float64(), "to_s": pa.float64()}
_SUBTASK = {"vertex": pa.string(), "subtask": pa.int64()}
_VERTEX = {name: kind for name, kind in value_fields(VertexSteady).items() if name != "name"}
_BY_SUBTASK = list_fields(VertexSteady)
_RATES = [name for name in _BY_SUBTASK if name.endswith(("_in_per_s", "_out_per_s"))]
_CHECKPOINT = value_fields(CheckpointResult)
_PART = list_fields(VertexCheckpoint)
_METRICS = {name: kind for name, kind in list_fields(Series).items() if name != "t"}


def windows(steadies: Sequence[Steady]) -> pa.Table:
    """A row for each window: medians over its checkpoints."""
    fields = value_fields(Steady)
    return table_of((values_of(steady, fields) for steady in steadies), fields)


def vertices(steadies: Sequence[Steady]) -> pa.Table:
    """A row for each window and vertex; rates are sums over subtasks, null where one of them is not known."""
    rows = (
        _times(steady)
        | {"vertex": vertex.name}
        | values_of(vertex, _VERTEX)
        | {name: sum_of_all(getattr(vertex, name)) for name in _RATES}
        for steady in steadies
        for vertex in steady.vertices
    )
    return table_of(rows, _WINDOW | {"vertex": pa.string()} | _VERTEX | dict.fromkeys(_RATES, pa.float64()))


def subtasks(steadies: Sequence[Steady]) -> pa.Table:
    """A row for each window, vertex and subtask."""
    rows = (
        _times(steady)
        | {"vertex": vertex.name, "subtask": subtask}
        | at_subtask(vertex, [name for name in _BY_SUBTASK if getattr(vertex, name) is not UNSET], subtask)
        for steady in steadies
        for vertex in steady.vertices
        for subtask in range(vertex.parallelism)
    )
    return table_of(rows, _WINDOW | _SUBTASK | _BY_SUBTASK)


def checkpoints(results: Sequence[CheckpointResult]) -> pa.Table:
    """A row for each checkpoint."""
    return table_of(map(_checkpoint, results), _CHECKPOINT)


def checkpoint_subtasks(results: Sequence[CheckpointResult]) -> pa.Table:
    """A row for each checkpoint, vertex and subtask."""
    columns = {"id": pa.int64(), "t": pa.float64()} | _SUBTASK | _PART
    return table_of(_parts(results), columns)


def series(of_vertices: Sequence[Series]) -> pa.Table:
    """A row for each vertex, subtask and sample, at `t` seconds; null where the vertex has no such metric."""
    columns: dict[str, list[Any]] = {name: [] for name in (*_SUBTASK, "t", *_METRICS)}
    for vertex in of_vertices:
        count = len(vertex.t)
        for subtask in range(_subtasks(vertex)):
            columns["vertex"] += [vertex.vertex] * count
            columns["subtask"] += [subtask] * count
            columns["t"] += vertex.t
            for name in _METRICS:
                values = getattr(vertex, name)
                columns[name] += [None] * count if values is UNSET or not values else values[subtask]
    return pa.table(columns, schema=pa.schema([*(_SUBTASK | {"t": pa.float64()} | _METRICS).items()]))


def _subtasks(vertex: Series) -> int:
    """How many subtasks a vertex has values of."""
    values = (getattr(vertex, name) for name in _METRICS)
    return max((len(each) for each in values if each is not UNSET), default=0)


def _checkpoint(checkpoint: CheckpointResult) -> dict[str, Any]:
    values = values_of(checkpoint, _CHECKPOINT)
    if checkpoint.checkpointed_bytes is UNSET:
        values["checkpointed_bytes"] = checkpoint.state_bytes
    return values


def sum_of_all(values: Sequence[float | None]) -> float | None:
    """Return the sum of values; None where one of them is not known, or there is none."""
    return None if None in values else total(values)


def _times(steady: Steady) -> dict[str, Any]:
    return {"from_s": steady.from_s, "to_s": steady.to_s}


def _parts(results: Iterable[CheckpointResult]) -> Iterator[dict[str, Any]]:
    for checkpoint in results:
        for vertex in checkpoint.vertices:
            for subtask in range(len(vertex.end_to_end_ms)):
                where = {"id": checkpoint.id, "t": checkpoint.t, "vertex": vertex.name, "subtask": subtask}
                yield where | at_subtask(vertex, _PART, subtask)
