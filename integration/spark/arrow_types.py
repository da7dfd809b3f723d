"""Columns by their Arrow type: as what a record carries them, how a shuffle sends them, how a key is hashed.

The hash codes are Java's, as everywhere in Flink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from inspect import signature
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from netstack import SourceError, java_hash

from ..errors import UnsupportedColumnError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_typed_dict: Any = TypedDict  # called with fields that are only known at run time

MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in one unit of a timestamp; nanoseconds are divided instead."""

_NANOS_PER_MICRO = 1_000


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the Arrow schema in which Spark hands out a DataFrame, without asking it to hand out any.

    Raises:
        UnsupportedColumnError: Spark cannot turn a column into Arrow; its cause is what Spark says.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    session = frame.sparkSession.conf
    options: dict[str, Any] = {
        "error_on_duplicated_field_names_in_struct": True,
        "timezone": session.get("spark.sql.session.timeZone"),
        "prefers_large_types": session.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true",
    }
    # Not all versions know all. What a batch has otherwise is found in it.
    options = {name: options[name] for name in options.keys() & signature(to_arrow_schema).parameters.keys()}
    fields: list[pa.Field] = []
    for field in frame.schema:
        try:
            fields += to_arrow_schema(StructType([field]), **options)
        except PySparkException as error:
            raise UnsupportedColumnError(field.name, field.dataType.simpleString()) from error
    return pa.schema(fields)


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
    names = [field.name for field in _fields(kind)] if types.is_struct(kind) else []
    if len(set(names)) < len(names):
        raise UnsupportedColumnError(column, kind, "has two fields of one name")
    nested = _with_parts(kind, lambda part: wire_type(column, part))
    if nested is None:
        raise UnsupportedColumnError(column, kind)
    return nested


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


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with which rows travel in a shuffle: the same, but for dictionaries and views.

    Raises:
        UnsupportedColumnError: A column cannot travel.
    """
    fields = [field.with_type(_plain_type(field.name, field.type)) for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def _plain_type(column: str, kind: pa.DataType) -> pa.DataType:
    if types.is_dictionary(kind):
        return _plain_type(column, kind.value_type)
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if not types.is_nested(kind):
        return kind
    nested = _with_parts(kind, lambda part: _plain_type(column, part))
    if nested is None:
        raise UnsupportedColumnError(column, kind, "cannot be sent in a shuffle")
    return nested


def _with_parts(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType | None:
    """A nested type with the types of its parts changed; None for one that is not known."""

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(change(field.type))

    if types.is_struct(kind):
        return pa.struct([changed(field) for field in _fields(kind)])
    if types.is_map(kind):
        return pa.map_(changed(kind.key_field), changed(kind.item_field), kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(changed(kind.value_field), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(changed(kind.value_field))
    if types.is_list(kind):
        return pa.list_(changed(kind.value_field))
    return None


def can_be_key(kind: pa.DataType) -> bool:
    """Tell whether Java's hash code of a column's values is known; all but nested and times."""
    return bool(
        types.is_null(kind)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or (types.is_floating(kind) and not types.is_float16(kind))
        or types.is_decimal(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or is_text(kind)
        or is_binary(kind)
    )


def key_index(schema: pa.Schema, name: str) -> int:
    """Return the position of a key column.

    Raises:
        SourceError: There is no such column, or more than one.
        UnsupportedColumnError: The column's type cannot be a key.
    """
    index = column_index(schema, name, "key column")
    kind = schema.field(index).type
    if not can_be_key(kind):
        raise UnsupportedColumnError(name, kind, "cannot be a key")
    return index


def column_index(schema: pa.Schema, name: str, role: str) -> int:
    """Return the position of the column of a name; ``role`` says in errors what the column is for.

    Raises:
        SourceError: There is no such column, or more than one.
    """
    indices = schema.get_all_field_indices(name)
    if not indices:
        names = ", ".join(schema.names) or "none"
        raise SourceError(f"there is no {role} {name!r}; the columns are: {names}")
    if len(indices) > 1:
        raise SourceError(f"the {role} {name!r} is there {len(indices)} times")
    return int(indices[0])


def key_hashes(columns: Sequence[pa.Array]) -> java_hash.Hashes:
    """Return the Java hash code of each row's key.

    Args:
        columns: The key columns, all of one length and of types for which `can_be_key` holds; one column
            gives its own hash codes, several are combined.
    """
    hashes = [_column_hashes(column) for column in columns]
    return hashes[0] if len(hashes) == 1 else java_hash.combine(hashes)


def _column_hashes(column: pa.Array) -> java_hash.Hashes:
    if column.null_count == 0:
        return _value_hashes(column)
    if column.null_count == len(column):
        return np.zeros(len(column), dtype=np.int32)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return java_hash.with_nulls(_value_hashes(column), valid)


def _value_hashes(column: pa.Array) -> java_hash.Hashes:
    """Hash every slot, those of nulls too: what lies in them does not matter."""
    kind = column.type
    if types.is_boolean(kind):
        return java_hash.hash_booleans(column.fill_null(False).to_numpy(zero_copy_only=False))
    if is_text(kind):
        return java_hash.hash_utf8(*_bytes_and_offsets(column, pa.large_string()))
    if is_binary(kind):
        return java_hash.hash_binary(*_bytes_and_offsets(column, pa.large_binary()))
    if types.is_decimal(kind):
        return java_hash.hash_decimals(_fixed_width(column), kind.scale)
    return _number_hashes(kind, _fixed_width(column))


def _number_hashes(kind: pa.DataType, raw: NDArray[np.uint8]) -> java_hash.Hashes:
    if types.is_floating(kind):
        if kind.bit_width == 32:
            return java_hash.hash_floats(raw.view(np.float32).ravel())
        return java_hash.hash_doubles(raw.view(np.float64).ravel())
    if types.is_timestamp(kind):
        return java_hash.hash_longs(_micros(raw.view(np.int64).ravel(), kind.unit))
    signed = not types.is_unsigned_integer(kind)
    values = raw.view(f"{'i' if signed else 'u'}{kind.bit_width // 8}").ravel()
    fits_int = kind.bit_width < 32 or (kind.bit_width == 32 and signed)
    return java_hash.hash_ints(values) if fits_int else java_hash.hash_longs(values.astype(np.int64))


def _micros(values: NDArray[np.int64], unit: str) -> NDArray[np.int64]:
    return values // _NANOS_PER_MICRO if unit == "ns" else values * MICROS_PER_UNIT[unit]


def _fixed_width(column: pa.Array) -> NDArray[np.uint8]:
    """Return the bytes of the values, one row each, without a copy."""
    width, data = column.type.bit_width // 8, column.buffers()[1]
    raw = np.frombuffer(data, dtype=np.uint8, count=len(column) * width, offset=column.offset * width)
    return raw.reshape(len(column), width)


def _bytes_and_offsets(column: pa.Array, layout: pa.DataType) -> tuple[bytes, NDArray[np.int64]]:
    """Return the bytes of all values back to back, and where each begins; a null has none."""
    if column.type != layout:
        column = column.cast(layout)
    if column.null_count:
        column = column.fill_null(b"" if is_binary(layout) else "")
    _, positions, data = column.buffers()
    offsets = np.frombuffer(positions, dtype=np.int64, count=len(column) + 1, offset=column.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    return (data.slice(first, last - first).to_pybytes() if last > first else b""), offsets - first
