"""Blocks: the rows of one partition as a value of a Spark row, for tasks that take several partitions.

A stage has as many partitions as it has tasks, so the tasks of the network exchange cannot give Spark more
partitions than there are slots. Where more are wanted, each gives blocks instead, and Spark brings those, not
rows, to the partitions that were asked for, in its own shuffle files::

    pieces ==> PartitionBlocks ==> (partition, block) ==> Spark's exchange ==> read_blocks ==> rows
               holds up to max_memory                     by partition, as it stands there

So the blocks lie where Spark keeps all that is between two stages: an executor on another machine can fetch
them, a second action can read them again, and Spark deletes them when nobody can ask for them any more, or
when it ends, however it does. A file of ours could promise none of that.

A block is a piece: a message of Arrow's IPC format. What arrives lies in memory until that is as much as it
may be; then all of it is given away, partition by partition, and its memory is free. The more memory, the
larger and the fewer the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ...errors import PieceError
from .layout import without_ends
from .pieces import Compression, Gathered, Merger, PieceEncoder, decode_piece

BLOCK_SCHEMA = pa.schema([pa.field("partition", pa.int32()), pa.field("block", pa.binary())])
"""What the tasks give Spark. A row without a block says that its task is there."""

BLOCK_COLUMNS = "partition int, block binary"
"""The same in Spark's words."""

BLOCK_BYTES = 4 << 20
"""About the most bytes of a block, and of a batch of blocks, unless a single row is larger."""

_BLOCK_ROWS = 1 << 18


class PartitionBlocks:
    """Makes blocks of the pieces that arrive for the partitions of one task.

    Args:
        schema: The columns of the pieces.
        partitions: Those of the task, in rising order; at least one.
        max_bytes: Most bytes of rows that are held before they are given away, beside the piece that comes
            last. To give them away takes up to three times `BLOCK_BYTES` more.
        to_all: Whether every row is for each of the partitions; pieces are then without ends.
        compression: That of the blocks.

    Invariant: each row is in one block of its partition, or in one of each if `to_all`; those of one sender
    are in the order in which they came.
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
        """Rows that came so far; to all partitions, as often as there are partitions."""
        self.peak_bytes = 0
        """Most bytes of rows that were held."""
        self._sections = [list(partitions)] if to_all else [[partition] for partition in partitions]
        self._to_all = to_all
        self._max_bytes = max_bytes
        self._encoder = PieceEncoder(schema, compression)
        self._held: list[tuple[pa.RecordBatch, list[int]]] = []
        self._bytes = 0
        self._mute = True

    def add(self, piece: bytes | memoryview) -> Iterator[pa.RecordBatch]:
        """Take a piece, whose bytes must not change any more, and give all that is held if it is too much.

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
            yield from self._given_away()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Give all that is held at the end; if nothing ever came, a row without a block."""
        yield from self._given_away()
        if self._mute:
            self._mute = False
            yield empty_block(self._sections[0][0])

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
            raise PieceError(f"{batch.num_rows} rows end at {ends[-1]}")
        return batch, ends

    def _given_away(self) -> Iterator[pa.RecordBatch]:
        held, self._held, self._bytes = self._held, [], 0
        batch = _BlockBatch()
        for place, partitions in enumerate(self._sections):
            for rows in _joined(held, place):
                block = self._encoder.encode(rows)
                for partition in partitions:
                    if not batch.fits(len(block)):
                        yield batch.take()
                    batch.add(partition, block)
        if batch.count:
            yield batch.take()
            self._mute = False


def _joined(held: Iterable[tuple[pa.RecordBatch, list[int]]], place: int) -> Iterator[pa.RecordBatch]:
    """The rows of one partition, in batches of a decent size."""
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


class _BlockBatch:
    """Rows of `BLOCK_SCHEMA` that are gathered until they are worth handing on."""

    def __init__(self) -> None:
        self._partitions: list[int] = []
        self._blocks: list[memoryview] = []
        self._bytes = 0

    @property
    def count(self) -> int:
        return len(self._blocks)

    def fits(self, size: int) -> bool:
        return not self._blocks or self._bytes + size <= BLOCK_BYTES

    def add(self, partition: int, block: memoryview) -> None:
        self._partitions.append(partition)
        self._blocks.append(block)
        self._bytes += len(block)

    def take(self) -> pa.RecordBatch:
        columns = [pa.array(self._partitions, pa.int32()), _binary(self._blocks)]
        self._partitions, self._blocks, self._bytes = [], [], 0
        return pa.RecordBatch.from_arrays(columns, schema=BLOCK_SCHEMA)


def _binary(values: Sequence[memoryview]) -> pa.Array:
    """Return values as a column; `pa.array` would never free the memory of one that is a memoryview."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def empty_block(partition: int) -> pa.RecordBatch:
    """Return a row without a block: Spark leaves out the partitions of an exchange that carries nothing."""
    return pa.RecordBatch.from_arrays(
        [pa.array([partition], pa.int32()), pa.nulls(1, pa.binary())], schema=BLOCK_SCHEMA
    )


def read_blocks(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give the rows of the blocks of one partition, as Spark hands them to its task.

    Args:
        batches: Rows of `BLOCK_SCHEMA`.
        schema: The columns of the rows.

    Raises:
        PieceError: when iterated, if a block is not rows of this schema.
    """
    merger = Merger(schema)
    for batch in batches:
        for value in batch.column(1):
            block = value.as_buffer()
            if block is not None:
                yield from merger.add(memoryview(block))
    yield from merger.flush()
