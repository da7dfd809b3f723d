"""Pieces: the rows of batches as bytes, each piece for one target, and back.

    batches ==> gathered ==> target of each row ==> rows in the order of the targets ==> slices ==> pieces
                              2 0 1 0 2 2             0 0 | 1 | 2 2 2

Batches are gathered first, because each piece costs some microseconds at both ends, however few rows it has:
the more targets, the more rows it takes until each has a decent piece. Rows are sorted by target, once and
stably, so rows for one target keep their order; then each target's rows lie side by side, and no work is left
for targets that have none. What arrives is gathered too, to batches of a size that is worth handing on.

A piece is one record batch message of Arrow's IPC format, without the schema, which both ends know. Writing
it copies the rows that it holds and nothing else, whatever part of a larger batch they are; reading it copies
nothing, unless it is compressed.

A task may take several partitions (`Layout`). Rows are then sorted by partition, what lies side by side for
one task is a piece, and behind the message stands where each of its partitions ends::

    5 partitions, 2 tasks    0 0 | 1 2 2 || 3 3 | 4     task 0: message, 2 3 5    task 1: message, 2 3

Columns travel in Arrow's plain layouts. Dictionaries would have to be sent ahead of the rows, and views can
neither be reordered nor cut, so columns of such types travel, and arrive, as the values that they stand for.
Spark has neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from netstack import SourceError

from ...errors import PieceError
from ..arrow_types import plain_schema
from .layout import Layout, with_ends
from .offsets import require_rising_offsets
from .placement import Placement, Targets

Pieces = list[tuple[int, memoryview]]
"""Pieces with their targets, in the order in which they have to be sent."""

PIECE_BYTES = 1 << 20
"""Most bytes of a piece that has more than one row, but for its header."""

# While rows are sorted each takes some twenty bytes more, which is why bytes are not all that is limited.
_ROWS_PER_TARGET, _LEAST_ROWS, _MOST_ROWS = 1 << 10, 1 << 17, 1 << 18
_BYTES_PER_TARGET, _LEAST_BYTES, _MOST_BYTES = 32 << 10, 4 << 20, 16 << 20
_RETAINED_BYTES = 4 << 20
"""Size of the array that is freed once: see `_keep_freed_memory`."""

_LARGE_PART = 32
"""What has this part of a full batch is handed on as it is, rather than copied."""


Compression = Literal["lz4", "zstd"]
"""How the columns of a piece are compressed, each for itself, by Arrow's IPC format."""

_END_OF_STREAM_BYTES = 8


def encode_piece(batch: pa.RecordBatch) -> memoryview:
    """Return the rows of a batch, which may be a slice of another, as bytes.

    The batch has a plain schema: see `plain_schema`.
    """
    return memoryview(batch.serialize())


class PieceEncoder:
    """Encodes the rows of batches of one plain schema, compressed or not.

    Args:
        schema: Their columns: see `plain_schema`.
        compression: None sends the columns as they lie.
    """

    def __init__(self, schema: pa.Schema, compression: Compression | None = None) -> None:
        self._options = None
        if compression is not None:
            self._options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
        self._schema = schema
        self._schema_bytes = schema.serialize().size

    def encode(self, batch: pa.RecordBatch) -> memoryview:
        """Return the rows of a batch, which may be a slice of another, as a piece for `decode_piece`."""
        if self._options is None:
            return encode_piece(batch)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema, options=self._options) as stream:
            stream.write_batch(batch)
        return memoryview(sink.getvalue())[self._schema_bytes : -_END_OF_STREAM_BYTES]


def decode_piece(data: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a piece as a batch whose columns lie in ``data``, which must not change afterwards.

    Raises:
        PieceError: The bytes are not a piece, or its columns do not fit the schema. Of the values only their
            extent is checked, so that to join and to encode them is safe.
    """
    try:
        batch = pa.ipc.read_record_batch(data, schema)
        batch.validate()
        for column in batch.columns:
            require_rising_offsets(column)
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


class Gathered:
    """Batches of one schema that are held until together they are one of a decent size.

    Args:
        max_rows: Most rows held, unless a single batch has more.
        max_bytes: Most bytes held, unless a single batch has more; less than 2 GiB.
    """

    __slots__ = ("_batches", "_bytes", "_max_bytes", "_max_rows", "_rows")

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def fits(self, batch: pa.RecordBatch, size: int) -> bool:
        """Tell whether a batch of ``size`` bytes can be held too; the first one always can."""
        rows = self._rows + batch.num_rows
        return not self._batches or (rows <= self._max_rows and self._bytes + size <= self._max_bytes)

    def hold(self, batch: pa.RecordBatch, size: int) -> None:
        """Hold a batch that fits."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += size

    def take(self) -> pa.RecordBatch | None:
        """Return all that is held as one batch, in order, and hold nothing; None if nothing was held."""
        batches, self._batches = self._batches, []
        self._rows = self._bytes = 0
        return joined(batches) if batches else None


def gathered_bytes(targets: int) -> int:
    """Return how many bytes of rows are gathered by default: 32 KiB for each target, within 4 to 16 MiB."""
    return min(max(targets * _BYTES_PER_TARGET, _LEAST_BYTES), _MOST_BYTES)


def gathered_rows(targets: int) -> int:
    """Return how many rows are gathered, however small: 1024 for each target, within 2^17 to 2^18."""
    return min(max(targets * _ROWS_PER_TARGET, _LEAST_ROWS), _MOST_ROWS)


class Cutter:
    """Turns the batches of one task into pieces.

    Args:
        schema: The columns of the batches.
        placement: Where rows go.
        gather_bytes: Most bytes of rows that are gathered, unless a single row is larger. Cutting them takes
            up to four times as much: they are held, joined, sorted and encoded.
        piece_bytes: Most bytes of a piece that has more than one row, but for its header and before it is
            compressed.
        tasks: How many tasks take in the targets, which are then partitions, and pieces are for tasks, with
            ends if there are fewer tasks than targets: see `Layout`. By default one for each target.
        compression: That of the pieces.

    Raises:
        UnsupportedColumnError: A column cannot travel.

    Invariant: each row is in one piece of its target, and the pieces of one target, one after the other, have
    its rows in the order in which they came.
    """

    def __init__(
        self,
        schema: pa.Schema,
        placement: Placement,
        *,
        gather_bytes: int | None = None,
        piece_bytes: int = PIECE_BYTES,
        tasks: int | None = None,
        compression: Compression | None = None,
    ) -> None:
        self._input = plain_schema(schema)
        self._placement = placement
        self._max_bytes = gather_bytes or gathered_bytes(placement.count)
        self._max_rows = gathered_rows(placement.count)
        self._gathered = Gathered(self._max_rows, self._max_bytes)
        self._piece_bytes = piece_bytes
        dropped = placement.dropped
        self.schema = self._input if dropped is None else self._input.remove(dropped)
        """The schema of the pieces."""
        self._encoder = PieceEncoder(self.schema, compression)
        layout = Layout(placement.count, tasks or placement.count)
        self._bounds = layout.bounds() if layout.several else None
        _keep_freed_memory()

    def add(self, batch: pa.RecordBatch) -> Iterator[Pieces]:
        """Take a batch, and give the pieces of what was gathered before if both together are too much.

        The iterator has to be exhausted before the next call.

        Raises:
            SourceError: The batch has other columns, or a row has no valid target.
        """
        if not batch.num_rows:
            return
        for part in split(as_plain(batch, self._input), self._max_bytes, self._max_rows):
            size = part.nbytes
            if not self._gathered.fits(part, size):
                yield self.flush()
            self._gathered.hold(part, size)

    def flush(self) -> Pieces:
        """Return the pieces of all rows that are left.

        Raises:
            SourceError: A row has no valid target.
        """
        batch = self._gathered.take()
        if batch is None:
            return []
        targets = self._placement.place(batch)
        if self._placement.dropped is not None:
            batch = batch.remove_column(self._placement.dropped)
        if isinstance(targets, int):
            return self._of_one_run(targets, batch, batch.nbytes / batch.num_rows)
        batch, ends = _sorted(batch, targets, self._placement.count)
        if self._bounds is None:
            return self._by_target(batch, ends)
        return self._by_task(batch, ends, self._bounds)

    def _by_target(self, batch: pa.RecordBatch, ends: NDArray[np.int64]) -> Pieces:
        """The pieces of sorted rows, where each target is a task."""
        pieces: Pieces = []
        row_bytes = batch.nbytes / batch.num_rows
        for target, run, _ in _runs(batch, ends):
            pieces += self._of_one_run(target, run, row_bytes)
        return pieces

    def _by_task(self, batch: pa.RecordBatch, ends: NDArray[np.int64], bounds: NDArray[np.int64]) -> Pieces:
        """The pieces of sorted rows, where each task has the targets between two bounds."""
        pieces: Pieces = []
        row_bytes = batch.nbytes / batch.num_rows
        for task, run, start in _runs(batch, ends[bounds[1:] - 1]):
            of_task = ends[bounds[task] : bounds[task + 1]]
            for part, piece in self._encoded(run, row_bytes):
                pieces.append((task, with_ends(piece, (of_task - start).clip(0, part.num_rows))))
                start += part.num_rows
        return pieces

    def _of_one_run(self, target: int, run: pa.RecordBatch, row_bytes: float) -> Pieces:
        return [(target, piece) for _, piece in self._encoded(run, row_bytes)]

    def _encoded(self, run: pa.RecordBatch, row_bytes: float) -> Iterator[tuple[pa.RecordBatch, memoryview]]:
        """Encode the rows of one target, without measuring them first, which would take longer."""
        if run.num_rows * row_bytes <= self._piece_bytes:
            piece = self._encoder.encode(run)
            if len(piece) <= self._piece_bytes:
                yield run, piece
                return
        for part in split(run, self._piece_bytes):
            yield part, self._encoder.encode(part)


def _sorted(batch: pa.RecordBatch, targets: Targets, count: int) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    """Bring rows into the order of their targets, stably, and tell where the rows of each target end."""
    order = np.argsort(targets, kind="stable")
    ends = np.searchsorted(targets, np.arange(count, dtype=targets.dtype), side="right", sorter=order)
    return compute.take(batch, pa.array(order), boundscheck=False), ends


def _runs(batch: pa.RecordBatch, ends: NDArray[np.int64]) -> Iterator[tuple[int, pa.RecordBatch, int]]:
    """Give the rows up to each end from the one before it, if there are any, and where they start."""
    lengths = np.diff(ends, prepend=0)
    for place in np.flatnonzero(lengths).tolist():
        length = int(lengths[place])
        start = int(ends[place]) - length
        yield place, batch.slice(start, length), start


def _keep_freed_memory() -> None:
    """Have the C library keep the memory of arrays when they are freed.

    glibc gives the memory of each large array back, and fetching pages anew takes longer than sorting does,
    until an array of at least that size has been freed; then it keeps what is freed, up to twice that size.
    """
    np.empty(_RETAINED_BYTES, dtype=np.uint8)


class Merger:
    """Joins the rows of pieces, in the order of their arrival.

    Args:
        schema: The columns of the pieces: `Cutter.schema`.
        max_rows: Most rows of a batch, unless a single piece has more.
        max_bytes: Most bytes of a batch, as encoded, unless a single piece has more; less than 2 GiB.
    """

    def __init__(self, schema: pa.Schema, *, max_rows: int = 1 << 16, max_bytes: int = 4 << 20) -> None:
        self.schema = schema
        self.rows = 0
        """Rows that came so far."""
        self._large_rows, self._large_bytes = max_rows // _LARGE_PART, max_bytes // _LARGE_PART
        self._gathered = Gathered(max_rows, max_bytes)

    def add(self, piece: bytes | memoryview) -> Iterator[pa.RecordBatch]:
        """Take a piece, whose bytes must not change any more, and give the batches that it completes.

        The iterator has to be exhausted before the next call.

        Raises:
            PieceError: The bytes are not a piece of this schema.
        """
        batch, size = decode_piece(piece, self.schema), len(piece)
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        large = batch.num_rows > self._large_rows or size > self._large_bytes
        if large or not self._gathered.fits(batch, size):
            yield from self.flush()
        if large:
            yield batch
        else:
            self._gathered.hold(batch, size)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Give the batch of what is left, if anything is."""
        batch = self._gathered.take()
        if batch is not None:
            yield batch
