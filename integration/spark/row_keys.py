"""Java hash codes of Arrow columns: which columns can be a key, and how each type is hashed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from netstack import SourceError, java_hash

from .row_types import UnsupportedColumnError, is_binary, is_text

MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in one unit of a timestamp; nanoseconds are divided instead."""

_NANOS_PER_MICRO = 1_000


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
