"""Rows of Arrow batches as payloads of records, and the types of their columns.

One row is one payload::

    +----------------------+---------------------------------------------------+
    | hash of the key      | MessagePack array with the values of all columns, |
    | int32, big-endian    | in the order of the schema                        |
    +----------------------+---------------------------------------------------+

The hash is Java's ``hashCode`` of the key column, or of several columns combined; 0 without a key. So a hash
exchange reads four bytes and never decodes a row. Both ends know the schema, so records do not contain it.

| column                                | MessagePack                                                       |
|---------------------------------------|-------------------------------------------------------------------|
| null                                  | nil                                                               |
| boolean, integer, text, binary        | bool, int, str, bin                                               |
| float (NaN too)                       | float 64                                                          |
| decimal                               | str, its digits                                                   |
| date, time, timestamp, duration       | int, in the unit of the column                                    |
| list                                  | array                                                             |
| struct                                | map from field name to value                                      |
| map                                   | array of [key, value]                                             |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from inspect import signature
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from buffers import RecordBlock
from netstack import SourceError, java_hash, leading_bytes

from ..base.errors import UnsupportedColumnError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HASH_BYTES = 4
"""Bytes of the key's hash, at the beginning of a payload."""

_PLACEHOLDER = bytes(HASH_BYTES)
_BIG_ENDIAN_INT = np.dtype(">i4")
_typed_dict: Any = TypedDict  # called with fields that are only known at run time

MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in one unit of a timestamp. Nanoseconds are divided instead."""


class RowCodec:
    """Encodes Arrow batches of one schema as blocks of records, and decodes them.

    Args:
        schema: The columns. Their names may repeat, except for those of the key.
        key: The column, or columns, whose hash begins each record; None: no key.

    Raises:
        UnsupportedColumnError: A column cannot be sent, or cannot be a key.
        SourceError: There is no such key column, or more than one.

    Invariant: ``codec.decode(codec.encode(batch)).equals(batch)``, except that all NaNs become the same NaN.
    """

    __slots__ = ("_decoder", "_encoder", "_keys", "_wire", "key", "schema")

    def __init__(self, schema: pa.Schema, key: str | Sequence[str] | None = None) -> None:
        self.schema = schema
        self.key = (key,) if isinstance(key, str) else tuple(key or ())
        self._keys = [key_index(schema, name) for name in self.key]
        self._wire = [wire_type(field.name, field.type) for field in schema]
        self._encoder = msgspec.msgpack.Encoder()
        row: Any = tuple.__class_getitem__(tuple(python_type(kind) for kind in self._wire))
        self._decoder = msgspec.msgpack.Decoder(row)

    def encode(self, batch: pa.RecordBatch) -> RecordBlock:
        """Return one record per row of a batch of this schema.

        Raises:
            SourceError: The batch has other columns, or text in it is not UTF-8.
        """
        if batch.schema.types != self.schema.types:
            raise SourceError(f"expected columns of types {self.schema.types}, got {batch.schema.types}")
        try:
            columns = [
                (column if column.type == wire else column.cast(wire)).to_pylist()
                for column, wire in zip(batch.columns, self._wire, strict=True)
            ]
            packed = list(map(self._encoder.encode, _rows(columns, batch.num_rows)))
            hashes = key_hashes([batch.column(index) for index in self._keys]) if self._keys else None
        except UnicodeDecodeError as error:
            raise SourceError(f"column {_broken_text(batch)!r} holds text that is not UTF-8") from error
        return _block(packed, hashes)

    def decode(self, block: RecordBlock) -> pa.RecordBatch:
        """Return the rows of a block of records as an Arrow batch.

        Raises:
            msgspec.DecodeError: The records are not rows of this schema.
        """
        try:
            rows = [self._decoder.decode(payload[HASH_BYTES:]) for payload in block.payloads()]
        except (UnicodeDecodeError, RecursionError) as error:
            raise msgspec.DecodeError(str(error)) from None
        if not self._wire:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        columns = zip(*rows, strict=True) if rows else iter([()] * len(self._wire))
        try:
            arrays = [
                pa.array(values, type=wire).cast(field.type)
                for values, wire, field in zip(columns, self._wire, self.schema, strict=True)
            ]
        except (pa.ArrowException, OverflowError) as error:  # a number is too large for its column
            raise msgspec.DecodeError(str(error)) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def rows(self, block: RecordBlock) -> list[tuple[Any, ...]]:
        """Return the rows of a block as Python tuples, with dates as `datetime.date` and so on."""
        batch = self.decode(block)
        return list(_rows([column.to_pylist() for column in batch.columns], batch.num_rows))


def key_hash(block: RecordBlock) -> NDArray[np.int32]:
    """Return the Java hash code of each record's key: the first four bytes of its payload."""
    return leading_bytes(block, HASH_BYTES).view(_BIG_ENDIAN_INT).ravel().astype(np.int32)


def _rows(columns: list[list[Any]], count: int) -> Iterator[tuple[Any, ...]]:
    return zip(*columns, strict=True) if columns else iter([()] * count)


def _block(packed: list[bytes], hashes: NDArray[np.int32] | None) -> RecordBlock:
    """Join packed rows into a block, each with its hash in front."""
    lengths = np.fromiter(map(len, packed), dtype=np.int64, count=len(packed)) + HASH_BYTES
    payloads = np.frombuffer(bytearray(_PLACEHOLDER.join([b"", *packed])), dtype=np.uint8)
    if hashes is not None:
        starts = np.cumsum(lengths) - lengths
        raw = hashes.astype(_BIG_ENDIAN_INT).view(np.uint8).reshape(-1, HASH_BYTES)
        payloads[starts[:, None] + np.arange(HASH_BYTES)] = raw
    return RecordBlock.from_lengths(payloads, lengths)


def _broken_text(batch: pa.RecordBatch) -> str:
    """Return the name of the text column that does not decode."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.to_pylist()
        except UnicodeDecodeError:
            return str(name)
    return "?"


# Types of columns.


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the Arrow schema of the batches of a DataFrame, without running a job.

    Raises:
        UnsupportedColumnError: Spark cannot convert a column to Arrow; its cause is Spark's error.
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
    # Not all versions have all options. If a batch has another schema, the schema of the batch counts.
    options = {name: options[name] for name in options.keys() & signature(to_arrow_schema).parameters.keys()}
    fields: list[pa.Field] = []
    for field in frame.schema:
        try:
            fields += to_arrow_schema(StructType([field]), **options)
        except PySparkException as error:
            raise UnsupportedColumnError(field.name, field.dataType.simpleString()) from error
    return pa.schema(fields)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's layouts of strings."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's layouts of byte strings."""
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    """Whether Python represents a type's values exactly: null, booleans, integers, decimals and floats."""
    return bool(
        types.is_null(kind)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_decimal(kind)
    )


def wire_type(column: str, kind: pa.DataType) -> pa.DataType:
    """Return the type to which a column is cast before its values become Python values, and then MessagePack.

    The cast and its inverse lose nothing.

    Raises:
        UnsupportedColumnError: No such type exists, so the column cannot be sent.
    """
    if _is_number(kind) or is_text(kind) or is_binary(kind):
        return kind
    if types.is_temporal(kind) and not types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    if types.is_float16(kind):
        return pa.float32()
    names = [field.name for field in kind] if types.is_struct(kind) else []
    if len(set(names)) < len(names):
        raise UnsupportedColumnError(column, kind, "has two fields of the same name")
    nested = _with_parts(kind, lambda part: wire_type(column, part))
    if nested is None:
        raise UnsupportedColumnError(column, kind)
    return nested


def python_type(wire: pa.DataType) -> Any:
    """Return the Python type of the values of a wire type, for the type checks of a decoder."""
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
    item: Any
    if types.is_struct(wire):
        item = _typed_dict("Struct", {field.name: python_type(field.type) for field in wire})
        return item | None
    if types.is_map(wire):
        item = tuple.__class_getitem__((python_type(wire.key_type), python_type(wire.item_type)))
    else:
        item = python_type(wire.value_type)
    return list[item] | None


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows in a shuffle: plain types replace dictionaries and views.

    Raises:
        UnsupportedColumnError: A column cannot be sent.
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
    """Return a nested type with the types of its parts changed; None for an unknown one."""

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(change(field.type))

    if types.is_struct(kind):
        return pa.struct([changed(field) for field in kind])
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
    """Return whether Java's hash code of a type's values is known. It is not for nested types and times."""
    return (
        _is_number(kind)
        or bool(types.is_date32(kind) or types.is_timestamp(kind))
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
    """Return the position of a named column; ``role`` is the column's purpose in error messages.

    Raises:
        SourceError: There is no such column, or more than one.
    """
    indices = schema.get_all_field_indices(name)
    if not indices:
        names = ", ".join(schema.names) or "none"
        raise SourceError(f"there is no {role} {name!r}; the columns are: {names}")
    if len(indices) > 1:
        raise SourceError(f"the {role} {name!r} exists {len(indices)} times")
    return int(indices[0])


# Hash codes of keys: Java's, as everywhere in Flink.


def key_hashes(columns: Sequence[pa.Array]) -> java_hash.Hashes:
    """Return the Java hash code of each row's key; the hash codes of several columns are combined."""
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
    """Return the hash of every slot, including nulls, whose hashes are not used."""
    kind = column.type
    if types.is_boolean(kind):
        return java_hash.hash_booleans(column.fill_null(False).to_numpy(zero_copy_only=False))
    if is_text(kind):
        return java_hash.hash_utf8(*_bytes_and_offsets(column, pa.large_string()))
    if is_binary(kind):
        return java_hash.hash_binary(*_bytes_and_offsets(column, pa.large_binary()))
    if types.is_decimal(kind):
        return java_hash.hash_decimals(_fixed_width(column), kind.scale)
    raw = _fixed_width(column)
    if types.is_floating(kind):
        if kind.bit_width == 32:
            return java_hash.hash_floats(raw.view(np.float32).ravel())
        return java_hash.hash_doubles(raw.view(np.float64).ravel())
    if types.is_timestamp(kind):
        moments = raw.view(np.int64).ravel()
        nanos = kind.unit == "ns"
        return java_hash.hash_longs(moments // 1_000 if nanos else moments * MICROS_PER_UNIT[kind.unit])
    signed = not types.is_unsigned_integer(kind)
    values = raw.view(f"{'i' if signed else 'u'}{kind.bit_width // 8}").ravel()
    fits_int = kind.bit_width < 32 or (kind.bit_width == 32 and signed)
    return java_hash.hash_ints(values) if fits_int else java_hash.hash_longs(values.astype(np.int64))


def _fixed_width(column: pa.Array) -> NDArray[np.uint8]:
    """Return the bytes of the values, one row each, without a copy."""
    width, data = column.type.bit_width // 8, column.buffers()[1]
    raw = np.frombuffer(data, dtype=np.uint8, count=len(column) * width, offset=column.offset * width)
    return raw.reshape(len(column), width)


def _bytes_and_offsets(column: pa.Array, layout: pa.DataType) -> tuple[bytes, NDArray[np.int64]]:
    """Return the bytes of all values back to back, and the start of each. A null value has no bytes."""
    if column.type != layout:
        column = column.cast(layout)
    if column.null_count:
        column = column.fill_null(b"" if is_binary(layout) else "")
    _, positions, data = column.buffers()
    offsets = np.frombuffer(positions, dtype=np.int64, count=len(column) + 1, offset=column.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    return (data.slice(first, last - first).to_pybytes() if last > first else b""), offsets - first
