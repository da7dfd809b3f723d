"""Pieces: rows of batches as bytes for one target, cut from batches by `Cutter` and joined by `Merger`.

    batches ==> gathered ==> target of each row ==> rows in the order of the targets ==> slices ==> pieces
                              2 0 1 0 2 2             0 0 | 1 | 2 2 2

Batches are gathered first, because each piece costs some microseconds at both ends, however few rows it has.
The more targets there are, the more rows are needed for a piece of useful size for each. Rows are sorted by
target, once and stably, so rows for one target keep their order. Then the rows of each target are contiguous,
and targets without rows cost nothing. Arriving rows are gathered too, into batches of useful size.

A piece is one record batch message of Arrow's IPC format, without the schema, which both ends know. Writing a
piece copies only its rows, even if they are part of a larger batch. Reading a piece copies nothing, unless it
is compressed.

With a slot for every partition, each task receives one partition. With fewer slots, each task receives
several adjacent partitions, as Flink's operators receive ranges of key groups::

    10 partitions, 4 tasks    0 1 2 | 3 4 | 5 6 7 | 8 9

Rows are then sorted by partition, and a piece has the rows for one task. After the message, the piece has the
end of each partition of the task, as a 4-byte number with the least significant byte first. So the last
number is the number of rows::

    5 partitions, 2 tasks    0 0 | 1 2 2 || 3 3 | 4     task 0: message, 2 3 5    task 1: message, 2 3

Columns are sent in Arrow's plain layouts. Dictionaries would have to be sent before the rows, and views can
neither be reordered nor cut. So columns of such types are sent, and arrive, as plain values. Spark itself
uses neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, types

from netstack import SourceError

from ...base.errors import PieceError
from ..rows import plain_schema
from .placement import Placement

Pieces = list[tuple[int, memoryview]]
"""Pieces with their targets, in the order in which they must be sent."""

PIECE_BYTES = 1 << 20
"""Maximum bytes of a piece with more than one row, without its header."""

# A sort takes some twenty bytes more per row, so rows are limited as well as bytes.
_ROWS_PER_TARGET, _LEAST_ROWS, _MOST_ROWS = 1 << 10, 1 << 17, 1 << 18
_BYTES_PER_TARGET, _LEAST_BYTES, _MOST_BYTES = 32 << 10, 4 << 20, 16 << 20
_RETAINED_BYTES = 4 << 20
"""Size of the array that `Cutter` allocates and frees at the beginning (see there)."""

_LARGE_PART = 32
"""A batch that is larger than a full batch divided by this number is passed on without a copy."""

Compression = Literal["lz4", "zstd"]
"""Compression of each column of a piece, by Arrow's IPC format."""

_END_OF_STREAM_BYTES = 8

_END = np.dtype("<u4")


class Layout(NamedTuple):
    """Numbers of partitions and tasks: at least one each, and no more tasks than partitions."""

    partitions: int
    tasks: int

    @property
    def several(self) -> bool:
        """Whether there are tasks with more than one partition."""
        return self.partitions > self.tasks

    def partitions_of(self, task: int) -> range:
        """Return the partitions of a task, at least one."""
        bounds = self.bounds()
        return range(int(bounds[task]), int(bounds[task + 1]))

    def bounds(self) -> NDArray[np.int64]:
        """Return the first partition of each task, followed by the number of partitions."""
        tasks = np.arange(self.tasks + 1, dtype=np.int64)
        return -(-tasks * self.partitions // self.tasks)


def with_ends(piece: memoryview, ends: NDArray[np.int64]) -> memoryview:
    """Return a piece, followed by the end positions of the rows of each of its partitions."""
    return memoryview(b"".join((piece, ends.astype(_END).tobytes())))


def without_ends(data: memoryview, partitions: int) -> tuple[memoryview, list[int]]:
    """Split bytes that `with_ends` returned into the piece and the end positions of its `partitions`
    partitions.

    Raises:
        ValueError: There are too few bytes, or the end positions are not in ascending order.
    """
    length = len(data) - partitions * _END.itemsize
    if length < 0:
        raise ValueError(
            f"the data has {len(data)} bytes, too few for the end positions of {partitions} partitions"
        )
    ends = np.frombuffer(data[length:], _END).astype(np.int64)
    if (np.diff(ends) < 0).any():
        raise ValueError("the ends of the partitions are not in ascending order")
    return data[:length], ends.tolist()


class Cutter:
    """Turns the batches of one task into pieces.

    Args:
        schema: The columns of the batches.
        placement: Targets of rows.
        gather_bytes: Maximum bytes of gathered rows, unless a single row is larger; by default 32 KiB for
            each target, but at least 4 and at most 16 MiB. Cutting takes up to four times as much, because
            rows are held, joined, sorted and encoded.
        piece_bytes: Maximum bytes of a piece with more than one row, without its header and before
            compression.
        tasks: Number of tasks that receive the targets, by default one for each target. If there are fewer
            tasks, the targets are partitions, and each piece is for a task and has end positions: see
            `Layout`.
        compression: Compression of the pieces.

    Raises:
        UnsupportedColumnError: A column cannot be sent.

    Invariant: each row is in one piece of its target, and the pieces of one target, one after the other, have
    its rows in the order of arrival.
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
        targets = placement.count
        self._max_bytes = gather_bytes or min(max(targets * _BYTES_PER_TARGET, _LEAST_BYTES), _MOST_BYTES)
        self._max_rows = min(max(targets * _ROWS_PER_TARGET, _LEAST_ROWS), _MOST_ROWS)
        self._gathered = Gathered(self._max_rows, self._max_bytes)
        self._piece_bytes = piece_bytes
        dropped = placement.dropped
        self.schema = self._input if dropped is None else self._input.remove(dropped)
        """The schema of the pieces."""
        self._compression = compression
        layout = Layout(placement.count, tasks or placement.count)
        self._bounds = layout.bounds() if layout.several else None
        # glibc returns the memory of each large array to the system, and using new pages takes longer than
        # sorting. Once an array of at least that size has been freed, glibc keeps up to twice that size.
        np.empty(_RETAINED_BYTES, dtype=np.uint8)

    def add(self, batch: pa.RecordBatch) -> Iterator[Pieces]:
        """Gather a batch. If the batch does not fit beside the gathered rows, first yield the pieces of the
        gathered rows.

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
            return [(targets, piece) for _, piece in self._encoded(batch, batch.nbytes / batch.num_rows)]
        # A stable sort by target, and the end of the rows of each target.
        order = np.argsort(targets, kind="stable")
        numbers = np.arange(self._placement.count, dtype=targets.dtype)
        ends = np.searchsorted(targets, numbers, side="right", sorter=order)
        batch = compute.take(batch, pa.array(order), boundscheck=False)
        if self._bounds is None:
            return self._pieces_of_targets(batch, ends)
        return self._pieces_of_tasks(batch, ends, self._bounds)

    def _pieces_of_targets(self, batch: pa.RecordBatch, ends: NDArray[np.int64]) -> Pieces:
        """Cut a sorted batch at the ends of its targets."""
        pieces: Pieces = []
        row_bytes = batch.nbytes / batch.num_rows
        for target, run, _ in _runs(batch, ends):
            pieces += [(target, piece) for _, piece in self._encoded(run, row_bytes)]
        return pieces

    def _pieces_of_tasks(
        self, batch: pa.RecordBatch, ends: NDArray[np.int64], bounds: NDArray[np.int64]
    ) -> Pieces:
        """Cut a sorted batch at the ends of its tasks; `bounds` are those of `Layout`."""
        pieces: Pieces = []
        row_bytes = batch.nbytes / batch.num_rows
        for task, run, start in _runs(batch, ends[bounds[1:] - 1]):
            ends_of_partitions = ends[bounds[task] : bounds[task + 1]]
            for part, piece in self._encoded(run, row_bytes):
                ends_in_part = (ends_of_partitions - start).clip(0, part.num_rows)
                pieces.append((task, with_ends(piece, ends_in_part)))
                start += part.num_rows
        return pieces

    def _encoded(self, run: pa.RecordBatch, row_bytes: float) -> Iterator[tuple[pa.RecordBatch, memoryview]]:
        """Encode the rows of one target; split them if the result is too large. Measuring first is slower."""
        if run.num_rows * row_bytes <= self._piece_bytes:
            piece = encode_piece(run, self._compression)
            if len(piece) <= self._piece_bytes:
                yield run, piece
                return
        for part in split(run, self._piece_bytes):
            yield part, encode_piece(part, self._compression)


def _runs(batch: pa.RecordBatch, ends: NDArray[np.int64]) -> Iterator[tuple[int, pa.RecordBatch, int]]:
    """Split a sorted batch at `ends`. Yield the number, rows and start of each part that has rows."""
    lengths = np.diff(ends, prepend=0)
    for place in np.flatnonzero(lengths).tolist():
        length = int(lengths[place])
        start = int(ends[place]) - length
        yield place, batch.slice(start, length), start


class Merger:
    """Joins the rows of pieces, in the order of their arrival.

    Args:
        schema: The columns of the pieces: `Cutter.schema`.
        max_rows: Maximum rows of a batch, unless a single piece has more.
        max_bytes: Maximum encoded bytes of a batch, unless a single piece has more; less than 2 GiB.
    """

    def __init__(self, schema: pa.Schema, *, max_rows: int = 1 << 16, max_bytes: int = 4 << 20) -> None:
        self.schema = schema
        self.rows = 0
        """Rows that have arrived so far."""
        self.bytes = 0
        """Encoded bytes of these rows."""
        self._large_rows, self._large_bytes = max_rows // _LARGE_PART, max_bytes // _LARGE_PART
        self._gathered = Gathered(max_rows, max_bytes)

    def add(self, piece: bytes | memoryview) -> Iterator[pa.RecordBatch]:
        """Add a piece, whose bytes must not change any more, and yield the batches that it completes.

        The iterator has to be exhausted before the next call.

        Raises:
            PieceError: The bytes are not a piece of this schema.
        """
        batch, size = decode_piece(piece, self.schema), len(piece)
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        self.bytes += size
        large = batch.num_rows > self._large_rows or size > self._large_bytes
        if large or not self._gathered.fits(batch, size):
            yield from self.flush()
        if large:
            yield batch
        else:
            self._gathered.hold(batch, size)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the batch of the rows that are left, if any."""
        batch = self._gathered.take()
        if batch is not None:
            yield batch


def split(batch: pa.RecordBatch, max_bytes: int, max_rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yield equally large parts of a batch, each within both limits. A single row may exceed the limits."""
    rows = batch.num_rows
    parts = -(-batch.nbytes // max_bytes)
    if max_rows is not None:
        parts = max(parts, -(-rows // max_rows))
    parts = min(parts, rows)
    if parts <= 1:
        yield batch
        return
    middle = rows * (parts // 2) // parts  # all the bytes may lie in one half
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
    """Return a batch with the types of `schema`, a result of `plain_schema`; usually the batch itself.

    Raises:
        SourceError: The batch has other columns.
    """
    if batch.schema.equals(schema):
        return batch
    try:
        return batch.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise SourceError(f"a batch does not have the expected columns: {error}") from error


class Gathered:
    """Collects batches of one schema until together they have a useful size.

    Args:
        max_rows: Maximum rows held, unless a single batch has more.
        max_bytes: Maximum bytes held, unless a single batch has more; less than 2 GiB.
    """

    __slots__ = ("_batches", "_bytes", "_max_bytes", "_max_rows", "_rows")

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def fits(self, batch: pa.RecordBatch, size: int) -> bool:
        """Return whether a batch of ``size`` bytes fits beside the held ones. The first batch always fits."""
        rows = self._rows + batch.num_rows
        return not self._batches or (rows <= self._max_rows and self._bytes + size <= self._max_bytes)

    def hold(self, batch: pa.RecordBatch, size: int) -> None:
        """Hold a batch that fits."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += size

    def take(self) -> pa.RecordBatch | None:
        """Return all held rows as one batch, in order, and hold nothing; None if nothing was held."""
        batches, self._batches = self._batches, []
        self._rows = self._bytes = 0
        return joined(batches) if batches else None


# Pieces as bytes.


def encode_piece(batch: pa.RecordBatch, compression: Compression | None = None) -> memoryview:
    """Return the rows of a batch, which may be a slice of another, as bytes for `decode_piece`.

    The batch must have a plain schema: see `plain_schema`.
    """
    if compression is None:
        return memoryview(batch.serialize())
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return memoryview(sink.getvalue())[batch.schema.serialize().size : -_END_OF_STREAM_BYTES]


def decode_piece(data: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a piece as a batch whose columns lie in ``data``, which must not change afterwards.

    Raises:
        PieceError: The bytes are not a piece, or its columns do not fit the schema. The bounds of values are
            checked, so that it is safe to join and encode the values, but not the contents.
    """
    try:
        batch = pa.ipc.read_record_batch(data, schema)
        batch.validate()
        for column in batch.columns:
            require_rising_offsets(column)
    except (pa.ArrowException, OSError, EOFError, MemoryError) as error:
        raise PieceError(
            f"{len(data)} bytes cannot be read as rows of the expected columns: {error}"
        ) from error
    if not batch.num_rows:  # values outside of rows were not checked
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    return batch


def require_rising_offsets(column: pa.Array) -> None:
    """Check that no value of a column, or of a column nested in it, ends before it begins.

    Arrow's quick check of a batch reads only the first and last offset of a column of texts or lists. With a
    wrong offset in between, joining or cutting the rows would read other memory. Checking all offsets takes a
    hundredth of the time of encoding. Arrow's full check, which also reads the text, takes several times
    longer.

    Raises:
        pa.ArrowInvalid: A value ends before it begins.
    """
    kind = column.type
    if not len(column) or types.is_fixed_size_binary(kind) or types.is_decimal(kind):
        return
    if types.is_struct(kind):
        for index in range(kind.num_fields):
            require_rising_offsets(column.field(index))
        return
    if types.is_fixed_size_list(kind):
        require_rising_offsets(column.values)
        return
    if types.is_string(kind) or types.is_binary(kind) or types.is_list(kind) or types.is_map(kind):
        width: np.dtype[np.signedinteger] = np.dtype("<i4")
    elif types.is_large_string(kind) or types.is_large_binary(kind) or types.is_large_list(kind):
        width = np.dtype("<i8")
    else:  # a column without offsets
        return
    raw = column.buffers()[1]
    offsets = np.frombuffer(raw, width, len(column) + 1, column.offset * width.itemsize)
    if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any():
        raise pa.ArrowInvalid(f"a value in a column of type {kind} ends before it begins")
    if types.is_map(kind):
        require_rising_offsets(column.keys)
        require_rising_offsets(column.items)
    elif types.is_list(kind) or types.is_large_list(kind):
        require_rising_offsets(column.values)
