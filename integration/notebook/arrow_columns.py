"""Columns of tables, out of the fields of structs: what a struct says of itself is what its table has.

A field of one value is a column; a list of values, one for each subtask, is a column of a table with a row
for each subtask. What is absent is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, inspect

Rows = Iterable[Mapping[str, Any]]

_TYPES: Mapping[type, pa.DataType] = {
    inspect.IntType: pa.int64(),
    inspect.FloatType: pa.float64(),
    inspect.StrType: pa.string(),
    inspect.BoolType: pa.bool_(),
}


def value_fields(struct: type[msgspec.Struct]) -> dict[str, pa.DataType]:
    """Return the fields of a struct that have one value, with their types; a list of texts is a value too."""
    types = {field.name: _value_type(field.type) for field in inspect.type_info(struct).fields}  # type: ignore[attr-defined]
    return {name: kind for name, kind in types.items() if kind is not None}


def list_fields(struct: type[msgspec.Struct]) -> dict[str, pa.DataType]:
    """Return the fields of a struct that have a number or a flag for each subtask, with its type."""
    fields = {}
    for field in inspect.type_info(struct).fields:  # type: ignore[attr-defined]
        kind = _without_none(field.type)
        while isinstance(kind, inspect.ListType):  # a list for each subtask, where it is over time
            kind = _without_none(kind.item_type)
            if type(kind) in (inspect.IntType, inspect.FloatType, inspect.BoolType):
                fields[field.name] = _TYPES[type(kind)]
    return fields


def values_of(struct: msgspec.Struct, fields: Iterable[str]) -> dict[str, Any]:
    """Return the values of some fields; None for what is absent."""
    values = {name: getattr(struct, name) for name in fields}
    return {name: None if value is UNSET else value for name, value in values.items()}


def at_subtask(struct: msgspec.Struct, fields: Iterable[str], subtask: int) -> dict[str, Any]:
    """Return the values that some fields have for a subtask; None where they have none."""
    values = {}
    for name in fields:
        listed: Sequence[Any] = getattr(struct, name) or ()
        values[name] = listed[subtask] if subtask < len(listed) else None
    return values


def table_of(rows: Rows, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Return rows as a table of these columns, which it has without rows, too."""
    return pa.Table.from_pylist(list(rows), schema=pa.schema(list(columns.items())))


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
