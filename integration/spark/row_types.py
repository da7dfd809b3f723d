"""Which Arrow types a record can carry, and as what: Arrow's type, its wire type, Python's type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypedDict

import pyarrow as pa
from pyarrow import types

from netstack import SourceError

_typed_dict: Any = TypedDict  # called with fields that are only known at run time


class UnsupportedColumnError(SourceError):
    """A column's type cannot be carried in a record, or cannot be a key; names the column and the type."""

    def __init__(self, column: str, kind: object, problem: str = "cannot be carried in a record") -> None:
        super().__init__(f"column {column!r}: type {kind} {problem}")
        self.column = column


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is one of Arrow's layouts of strings."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Tell whether a type is one of Arrow's layouts of byte strings."""
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def wire_type(column: str, kind: pa.DataType) -> pa.DataType:
    """Return the type to which a column is cast before its values become Python's, and then MessagePack.

    Casting there and back loses nothing.

    Args:
        column: Name of the column, for the error.
        kind: Its type.

    Raises:
        UnsupportedColumnError: There is no such type.
    """
    if _is_plain(kind):
        return kind
    if types.is_temporal(kind) and not types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    if types.is_float16(kind):
        return pa.float32()
    return _nested_wire_type(column, kind)


def python_type(wire: pa.DataType) -> Any:
    """Return the Python type of the values of a wire type, by which a decoder checks them."""
    if types.is_null(wire):
        return None
    if types.is_boolean(wire):
        return bool | None
    if types.is_integer(wire):
        return int | None
    if types.is_floating(wire):
        return float | None
    if types.is_decimal(wire):
        return Decimal | None
    if is_text(wire):
        return str | None
    if is_binary(wire):
        return bytes | None
    return _nested_python_type(wire) | None


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        types.is_null(kind)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_decimal(kind)
        or is_text(kind)
        or is_binary(kind)
    )


def _nested_wire_type(column: str, kind: pa.DataType) -> pa.DataType:
    def wire(field: pa.Field) -> pa.Field:
        return field.with_type(wire_type(column, field.type))

    if types.is_map(kind):
        return pa.map_(wire(kind.key_field), wire(kind.item_field))
    if types.is_struct(kind):
        fields = _fields(kind)
        if len({field.name for field in fields}) < len(fields):
            raise UnsupportedColumnError(column, kind, "has two fields of one name")
        return pa.struct([wire(field) for field in fields])
    if types.is_fixed_size_list(kind):
        return pa.list_(wire(kind.value_field), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(wire(kind.value_field))
    if types.is_list(kind):
        return pa.list_(wire(kind.value_field))
    raise UnsupportedColumnError(column, kind)


def _nested_python_type(wire: pa.DataType) -> Any:
    if types.is_map(wire):
        pair: Any = tuple.__class_getitem__((python_type(wire.key_type), python_type(wire.item_type)))
        return list[pair]
    if types.is_struct(wire):
        fields = {field.name: python_type(field.type) for field in _fields(wire)}
        return _typed_dict("Struct", fields)
    item: Any = python_type(wire.value_type)
    return list[item]


def _fields(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(index) for index in range(kind.num_fields)]
