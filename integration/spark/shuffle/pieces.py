"""Pieces: some rows of one batch as bytes, and back.

A piece is one record batch message of Arrow's IPC format, without the schema, which both ends know. Writing
it copies the rows that it holds and nothing else, whatever part of a larger batch they are; reading it copies
nothing.

Columns travel in Arrow's plain layouts. Dictionaries would have to be sent ahead of the rows, and views can
neither be reordered nor cut, so columns of such types travel, and arrive, as the values that they stand for.
Spark has neither.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import types

from netstack import SourceError

from ..row_types import UnsupportedColumnError


class PieceError(Exception):
    """The bytes of a piece are not rows of the schema that is expected."""


def encode_piece(batch: pa.RecordBatch) -> memoryview:
    """Return the rows of a batch, which may be a slice of another, as bytes.

    The batch has a plain schema: see `plain_schema`.
    """
    return memoryview(batch.serialize())


def decode_piece(data: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a piece as a batch whose columns lie in ``data``, which must not change afterwards.

    Raises:
        PieceError: The bytes are not a piece, or its columns do not fit the schema. Of the values only their
            extent is checked, so that to join and to encode them is safe.
    """
    try:
        batch = pa.ipc.read_record_batch(data, schema)
        batch.validate()
    except (pa.ArrowException, OSError, EOFError, MemoryError) as error:
        raise PieceError(f"{len(data)} bytes are not rows of the columns expected: {error}") from error
    return batch if batch.num_rows else _empty(schema)  # what lies in no row was not checked


def split(batch: pa.RecordBatch, max_bytes: int, max_rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Cut a batch by rows into even parts within both limits; a single row may be larger."""
    rows = batch.num_rows
    parts = -(-batch.nbytes // max_bytes)
    if max_rows is not None:
        parts = max(parts, -(-rows // max_rows))
    parts = min(parts, rows)
    if parts <= 1:
        yield batch
        return
    middle = rows * (parts // 2) // parts  # all the bytes may lie on one side
    yield from split(batch.slice(0, middle), max_bytes, max_rows)
    yield from split(batch.slice(middle), max_bytes, max_rows)


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of one or more batches of one schema as one batch, in order.

    Raises:
        pa.ArrowInvalid: Text or binary of a column is 2 GiB or more.
    """
    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with which rows travel: the same, but for dictionaries and views.

    Raises:
        UnsupportedColumnError: A column cannot travel.
    """
    fields = [field.with_type(_plain_type(field.name, field.type)) for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def as_plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of the schema that `plain_schema` gives; most often as it is.

    Raises:
        SourceError: It has other columns.
    """
    if batch.schema.equals(schema):
        return batch
    try:
        return batch.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise SourceError(f"a batch does not have the columns that were announced: {error}") from error


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _plain_type(column: str, kind: pa.DataType) -> pa.DataType:
    def plain(field: pa.Field) -> pa.Field:
        return field.with_type(_plain_type(column, field.type))

    if types.is_dictionary(kind):
        return _plain_type(column, kind.value_type)
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if not types.is_nested(kind):
        return kind
    if types.is_struct(kind):
        return pa.struct([plain(kind.field(index)) for index in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(plain(kind.key_field), plain(kind.item_field), kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(plain(kind.value_field), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(plain(kind.value_field))
    if types.is_list(kind):
        return pa.list_(plain(kind.value_field))
    raise UnsupportedColumnError(column, kind, "cannot be sent in a shuffle")
