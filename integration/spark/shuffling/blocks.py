"""Blocks: the rows of one partition as a value of a Spark row, for tasks with several partitions.

A stage has as many partitions as tasks, so tasks of the network exchange cannot return more partitions than
there are slots. If more are needed, each task returns blocks instead of rows, and Spark brings the blocks to
the partitions, in its own shuffle files::

    pieces ==> PartitionBlocks ==> (partition, block) ==> Spark's exchange ==> read_blocks ==> rows
               holds up to max_memory                     by the number of the partition

So Spark keeps the blocks like all data between two stages. An executor on another machine can fetch them, and
a second action can read them again. Spark deletes them when they are unreachable, or when it ends, in
whatever way. Files of our own could guarantee none of this.

A block is a piece: a message of Arrow's IPC format. Rows stay in memory until they reach the limit. Then all
of them are yielded, partition by partition, and their memory is freed. With more memory there are fewer and
larger blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ...base.errors import PieceError
from .pieces import Compression, Gathered, Merger, decode_piece, encode_piece, without_ends

BLOCK_SCHEMA = pa.schema([pa.field("partition", pa.int32()), pa.field("block", pa.binary())])
"""The output of the tasks. A row without a block prevents Spark's exchange from dropping an empty partition.
"""

BLOCK_COLUMNS = "partition int, block binary"
"""`BLOCK_SCHEMA` as Spark DDL."""

BLOCK_BYTES = 4 << 20
"""Approximate maximum bytes of a block, and of a batch of blocks, unless a single row is larger."""

_BLOCK_ROWS = 1 << 18


class PartitionBlocks:
    """Makes blocks of the pieces that arrive for the partitions of one task.

    Args:
        schema: The columns of the pieces.
        partitions: The partitions of the task, in rising order; at least one.
        max_bytes: Maximum bytes of rows that are held before they are yielded, not counting the last piece.
            Yielding them takes up to three times `BLOCK_BYTES` more.
        to_all: Whether every row is for each of the partitions. Pieces then have no end positions.
        compression: Compression of the blocks.

    Invariant: each row is in one block of its partition, or in one block of each partition if `to_all`; the
    rows of a sender are in the order of arrival.
    """

    def __init__(
        self,
        schema: pa.Schema,
        partitions: Sequence[int],
        max_bytes: int,
        *,
        to_all: bool = False,
        compression: Compression | None = None,
    ) -> None:
        self.schema = schema
        self.rows = 0
        """Number of rows that have arrived so far. A row for all partitions counts once for each."""
        self.peak_bytes = 0
        """Maximum bytes of rows that were held at one time."""
        self.partition_rows = dict.fromkeys(partitions, 0)
        """Number of rows in the blocks of each partition so far."""
        self.partition_bytes = dict.fromkeys(partitions, 0)
        """Bytes of the blocks of each partition so far."""
        self._sections = [list(partitions)] if to_all else [[partition] for partition in partitions]
        self._to_all = to_all
        self._max_bytes = max_bytes
        self._compression = compression
        self._held: list[tuple[pa.RecordBatch, list[int]]] = []
        self._bytes = 0
        self._is_empty = True

    def add(self, piece: bytes | memoryview) -> Iterator[pa.RecordBatch]:
        """Add a piece, whose bytes must not change any more. If too many rows are held, yield them all.

        The iterator has to be exhausted before the next call.

        Raises:
            PieceError: The bytes are not a piece of this schema for so many partitions.
        """
        batch, ends = self._decode(memoryview(piece))
        if not batch.num_rows:
            return
        self.rows += batch.num_rows * (len(self._sections[0]) if self._to_all else 1)
        self._held.append((batch, ends))
        self._bytes += max(batch.nbytes, len(piece))
        self.peak_bytes = max(self.peak_bytes, self._bytes)
        if self._bytes >= self._max_bytes:
            yield from self._yield_held()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of all rows still held. If no row has arrived, yield one row without a block."""
        yield from self._yield_held()
        if self._is_empty:
            self._is_empty = False
            columns = [pa.array(self._sections[0][:1], pa.int32()), pa.nulls(1, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=BLOCK_SCHEMA)

    def _decode(self, piece: memoryview) -> tuple[pa.RecordBatch, list[int]]:
        if self._to_all:
            batch = decode_piece(piece, self.schema)
            return batch, [batch.num_rows]
        try:
            message, ends = without_ends(piece, len(self._sections))
        except ValueError as error:
            raise PieceError(str(error)) from None
        batch = decode_piece(message, self.schema)
        if ends[-1] != batch.num_rows:
            raise PieceError(f"the piece has {batch.num_rows} rows, but its end positions say {ends[-1]}")
        return batch, ends

    def _yield_held(self) -> Iterator[pa.RecordBatch]:
        held, self._held, self._bytes = self._held, [], 0
        blocks: list[tuple[int, memoryview]] = []
        size = 0
        for place, partitions in enumerate(self._sections):
            for rows in _joined(held, place):
                block = encode_piece(rows, self._compression)
                for partition in partitions:
                    self.partition_rows[partition] += rows.num_rows
                    self.partition_bytes[partition] += len(block)
                    if blocks and size + len(block) > BLOCK_BYTES:
                        yield _batch_of(blocks)
                        blocks, size = [], 0
                    blocks.append((partition, block))
                    size += len(block)
        if blocks:
            yield _batch_of(blocks)
            self._is_empty = False


def _joined(held: Iterable[tuple[pa.RecordBatch, list[int]]], place: int) -> Iterator[pa.RecordBatch]:
    """Return the rows of one partition, in batches of useful size."""
    gathered = Gathered(_BLOCK_ROWS, BLOCK_BYTES)
    for batch, ends in held:
        start = ends[place - 1] if place else 0
        if ends[place] > start:
            part = batch.slice(start, ends[place] - start)
            size = part.nbytes
            if not gathered.fits(part, size):
                yield from filter(None, [gathered.take()])
            gathered.hold(part, size)
    rest = gathered.take()
    if rest is not None:
        yield rest


def _batch_of(blocks: Sequence[tuple[int, memoryview]]) -> pa.RecordBatch:
    partitions, values = zip(*blocks, strict=True)
    # `pa.array` would never free the memory of a memoryview.
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    columns = [pa.array(partitions, pa.int32()), pa.Array.from_buffers(pa.binary(), len(values), buffers)]
    return pa.RecordBatch.from_arrays(columns, schema=BLOCK_SCHEMA)


def read_blocks(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the blocks of one partition; `batches` are of `BLOCK_SCHEMA`, the rows of `schema`.

    Raises:
        PieceError: On iteration, if a block does not have rows of this schema.
    """
    merger = Merger(schema)
    for batch in batches:
        for value in batch.column(1):
            block = value.as_buffer()
            if block is not None:
                yield from merger.add(memoryview(block))
    yield from merger.flush()
