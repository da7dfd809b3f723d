"""Rows as records: how the rows of an Arrow batch become the payloads of records, and back.

One row is one payload::

    +----------------------+---------------------------------------------------+
    | hash of the key      | MessagePack array with the values of all columns, |
    | int32, big-endian    | in the order of the schema                        |
    +----------------------+---------------------------------------------------+

The hash is Java's ``hashCode`` of the key column (several columns: combined), 0 where there is no key, so a
hash exchange reads four bytes and never decodes a row. The schema is not in the record: both ends know it.

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

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import SourceError, leading_bytes

from .arrow_types import key_hashes, key_index, python_type, wire_type

HASH_BYTES = 4
"""Bytes of the key's hash, at the beginning of a payload."""

_PLACEHOLDER = bytes(HASH_BYTES)
_BIG_ENDIAN_INT = np.dtype(">i4")


class RowCodec:
    """Encodes Arrow batches of one schema as blocks of records, and decodes them.

    Args:
        schema: The columns; their names may repeat, unless the key is among those that do.
        key: The column, or columns, whose hash begins each record; None for none.

    Raises:
        UnsupportedColumnError: A column cannot be carried, or cannot be a key.
        SourceError: There is no such key column, or more than one.

    Invariant: ``codec.decode(codec.encode(batch)).equals(batch)``, but for the NaNs, all of which are alike.
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
            packed = list(map(self._encoder.encode, self._python_rows(batch)))
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
        except (pa.ArrowException, OverflowError) as error:  # a number that is too large for its column
            raise msgspec.DecodeError(str(error)) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def rows(self, block: RecordBlock) -> list[tuple[Any, ...]]:
        """Return the rows of a block of records as Python tuples (dates as `datetime.date`, and so on)."""
        batch = self.decode(block)
        return list(_rows([column.to_pylist() for column in batch.columns], batch.num_rows))

    def _python_rows(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        columns = [
            (column if column.type == wire else column.cast(wire)).to_pylist()
            for column, wire in zip(batch.columns, self._wire, strict=True)
        ]
        return _rows(columns, batch.num_rows)


def key_hash(block: RecordBlock) -> NDArray[np.int32]:
    """Return the Java hash code of each record's key, from the first four bytes of its payload."""
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
    """Return the name of the column, of text, that does not decode."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.to_pylist()
        except UnicodeDecodeError:
            return str(name)
    return "?"
