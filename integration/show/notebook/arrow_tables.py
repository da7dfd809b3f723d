"""Arrow tables of measurements: by window, vertex, subtask and checkpoint, and over time.

Columns are the fields of msgspec structs. A field with one value becomes a column. A field with a list of
values, one per subtask, becomes a column of a table with a row for each subtask. Absent values are null.
Results of emulations and measurements of a Flink have the same fields, and so the same tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, inspect

from netstack import CheckpointResult, Series, Steady, VertexCheckpoint, VertexSteady

from ...base.optional_figures import total

Rows = Iterable[Mapping[str, Any]]

_TYPES: Mapping[type, pa.DataType] = {
    inspect.IntType: pa.int64(),
    inspect.FloatType: pa.float64(),
    inspect.StrType: pa.string(),
    inspect.BoolType: pa.bool_(),
}


def table_of(rows: Rows, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Return rows as a table with these columns, even without rows."""
    return pa.Table.from_pylist(list(rows), schema=pa.schema(list(columns.items())))


def struct_table(structs: Iterable[msgspec.Struct], struct: type[msgspec.Struct]) -> pa.Table:
    """Return a row for each struct, with a column for each field that holds a single value."""
    columns = value_fields(struct)
    return table_of((values_of(each, columns) for each in structs), columns)


def value_fields(struct: type[msgspec.Struct]) -> dict[str, pa.DataType]:
    """Return the fields of a struct that have one value, or a list of texts, with their types."""
    types = {field.name: _value_type(field.type) for field in inspect.type_info(struct).fields}  # type: ignore[attr-defined]
    return {name: kind for name, kind in types.items() if kind is not None}


def list_fields(struct: type[msgspec.Struct]) -> dict[str, pa.DataType]:
    """Return the fields of a struct that have a number or flag for each subtask, with the types of these
    numbers and flags.
    """
    fields = {}
    for field in inspect.type_info(struct).fields:  # type: ignore[attr-defined]
        kind = _without_none(field.type)
        while isinstance(kind, inspect.ListType):  # a list per subtask, in a series
            kind = _without_none(kind.item_type)
            if type(kind) in (inspect.IntType, inspect.FloatType, inspect.BoolType):
                fields[field.name] = _TYPES[type(kind)]
    return fields


def values_of(struct: msgspec.Struct, fields: Iterable[str]) -> dict[str, Any]:
    """Return the values of fields; None for absent ones."""
    values = {name: getattr(struct, name) for name in fields}
    return {name: None if value is UNSET else value for name, value in values.items()}


def at_subtask(struct: msgspec.Struct, fields: Iterable[str], subtask: int) -> dict[str, Any]:
    """Return the values of fields for one subtask; None for absent ones."""
    values = {}
    for name in fields:
        listed: Sequence[Any] = getattr(struct, name) or ()
        values[name] = listed[subtask] if subtask < len(listed) else None
    return values


def _value_type(kind: inspect.Type) -> pa.DataType | None:
    kind = _without_none(kind)
    if isinstance(kind, inspect.ListType) and isinstance(kind.item_type, inspect.StrType):
        return pa.list_(pa.string())
    return _TYPES.get(type(kind))


def _without_none(kind: inspect.Type) -> inspect.Type:
    if not isinstance(kind, inspect.UnionType):
        return kind
    kinds = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    return kinds[0] if len(kinds) == 1 else kind


_WINDOW = {"from_s": pa.float64(), "to_s": pa.float64()}
_SUBTASK = {"vertex": pa.string(), "subtask": pa.int64()}
_VERTEX = {name: kind for name, kind in value_fields(VertexSteady).items() if name != "name"}
_BY_SUBTASK = list_fields(VertexSteady)
_RATES = [name for name in _BY_SUBTASK if name.endswith(("_in_per_s", "_out_per_s"))]
_CHECKPOINT = value_fields(CheckpointResult)
_PART = list_fields(VertexCheckpoint)
_METRICS = {name: kind for name, kind in list_fields(Series).items() if name != "t"}


def vertices(windows: Sequence[Steady]) -> pa.Table:
    """Return a row for each window and vertex.

    Rates are sums over subtasks, null if a subtask's rate is unknown.
    """
    rows = (
        values_of(window, _WINDOW)
        | {"vertex": vertex.name}
        | values_of(vertex, _VERTEX)
        | {name: sum_of_all(getattr(vertex, name)) for name in _RATES}
        for window in windows
        for vertex in window.vertices
    )
    return table_of(rows, _WINDOW | {"vertex": pa.string()} | _VERTEX | dict.fromkeys(_RATES, pa.float64()))


def sum_of_all(values: Sequence[float | None]) -> float | None:
    """Return the sum of values; None if a value is unknown, or there are no values."""
    return None if None in values else total(values)


def subtasks(windows: Sequence[Steady]) -> pa.Table:
    """Return a row for each window, vertex and subtask."""
    rows = (
        values_of(window, _WINDOW)
        | {"vertex": vertex.name, "subtask": subtask}
        | at_subtask(vertex, [name for name in _BY_SUBTASK if getattr(vertex, name) is not UNSET], subtask)
        for window in windows
        for vertex in window.vertices
        for subtask in range(vertex.parallelism)
    )
    return table_of(rows, _WINDOW | _SUBTASK | _BY_SUBTASK)


def checkpoints(results: Sequence[CheckpointResult]) -> pa.Table:
    """Return a row for each checkpoint."""

    def row(checkpoint: CheckpointResult) -> dict[str, Any]:
        values = values_of(checkpoint, _CHECKPOINT)
        if checkpoint.checkpointed_bytes is UNSET:
            values["checkpointed_bytes"] = checkpoint.state_bytes
        return values

    return table_of(map(row, results), _CHECKPOINT)


def checkpoint_subtasks(results: Sequence[CheckpointResult]) -> pa.Table:
    """Return a row for each checkpoint, vertex and subtask."""
    rows = (
        {"id": checkpoint.id, "t": checkpoint.t, "vertex": vertex.name, "subtask": subtask}
        | at_subtask(vertex, _PART, subtask)
        for checkpoint in results
        for vertex in checkpoint.vertices
        for subtask in range(len(vertex.end_to_end_ms))
    )
    return table_of(rows, {"id": pa.int64(), "t": pa.float64()} | _SUBTASK | _PART)


def series(of_vertices: Sequence[Series]) -> pa.Table:
    """Return a row for each vertex, subtask and time `t` in seconds; metrics that a vertex lacks are null."""
    columns: dict[str, list[Any]] = {name: [] for name in (*_SUBTASK, "t", *_METRICS)}
    for vertex in of_vertices:
        count = len(vertex.t)
        metrics = {name: getattr(vertex, name) for name in _METRICS}
        known = {name: values for name, values in metrics.items() if values is not UNSET and values}
        for subtask in range(max(map(len, known.values()), default=0)):
            columns["vertex"] += [vertex.vertex] * count
            columns["subtask"] += [subtask] * count
            columns["t"] += vertex.t
            for name in _METRICS:
                columns[name] += known[name][subtask] if name in known else [None] * count
    return pa.table(columns, schema=pa.schema([*(_SUBTASK | {"t": pa.float64()} | _METRICS).items()]))
