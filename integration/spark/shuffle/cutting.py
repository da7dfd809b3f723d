"""Cutting: batches of rows become pieces, each for one target.

    batches ==> gathered ==> target of each row ==> rows in the order of the targets ==> slices ==> pieces
                              2 0 1 0 2 2             0 0 | 1 | 2 2 2

Batches are gathered first, because each piece costs some microseconds at both ends, however few rows it has:
the more targets, the more rows it takes until each has a decent piece. Rows are sorted by target, once and
stably, so rows for one target keep their order; then each target's rows lie side by side, and no work is left
for targets that have none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from .gathering import Gathered
from .pieces import as_plain, encode_piece, plain_schema, split
from .placement import Placement, Targets

Pieces = list[tuple[int, memoryview]]
"""Pieces with their targets, in the order in which they have to be sent."""

PIECE_BYTES = 512 << 10
"""Most bytes of a piece that has more than one row, but for its header."""

# While rows are sorted each takes some twenty bytes more, which is why bytes are not all that is limited.
_ROWS_PER_TARGET, _LEAST_ROWS, _MOST_ROWS = 1 << 10, 1 << 17, 1 << 18
_BYTES_PER_TARGET, _LEAST_BYTES, _MOST_BYTES = 32 << 10, 2 << 20, 16 << 20
_RETAINED_BYTES = 4 << 20


def gathered_bytes(targets: int) -> int:
    """Return how many bytes of rows are gathered by default: 32 KiB for each target, within 2 to 16 MiB."""
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
        piece_bytes: Most bytes of a piece that has more than one row, but for its header.

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
        row_bytes = batch.nbytes / batch.num_rows
        runs = _runs(batch, targets, self._placement.count)
        return [(target, piece) for target, run in runs for piece in self._encoded(run, row_bytes)]

    def _encoded(self, run: pa.RecordBatch, row_bytes: float) -> Iterator[memoryview]:
        """Encode the rows of one target, without measuring them first, which would take longer."""
        if run.num_rows * row_bytes <= self._piece_bytes:
            piece = encode_piece(run)
            if len(piece) <= self._piece_bytes:
                yield piece
                return
        yield from map(encode_piece, split(run, self._piece_bytes))


def _runs(batch: pa.RecordBatch, targets: Targets | int, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Give the rows of each target that has any, in their order."""
    if isinstance(targets, int):
        yield targets, batch
        return
    order = np.argsort(targets, kind="stable")
    each = np.arange(count, dtype=targets.dtype)
    ends = np.searchsorted(targets, each, side="right", sorter=order)
    lengths = np.diff(ends, prepend=0)
    present = np.flatnonzero(lengths)
    batch = batch.take(pa.array(order))
    for target, end in zip(present.tolist(), ends[present].tolist(), strict=True):
        length = int(lengths[target])
        yield target, batch.slice(end - length, length)


def _keep_freed_memory() -> None:
    """Have the C library keep the memory of arrays when they are freed.

    glibc gives the memory of each large array back, and fetching pages anew takes longer than sorting does,
    until an array of at least that size has been freed; then it keeps what is freed, up to twice that size.
    """
    np.empty(_RETAINED_BYTES, dtype=np.uint8)
