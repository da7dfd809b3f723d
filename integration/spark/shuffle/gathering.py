"""Gathering: small batches become batches of a size that is worth handing on."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from .pieces import decode_piece, joined

_LARGE_PART = 32
"""What has this part of a full batch is handed on as it is, rather than copied."""


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


class Merger:
    """Joins the rows of pieces, in the order of their arrival.

    Args:
        schema: The columns of the pieces: `Cutter.schema`.
        max_rows: Most rows of a batch, unless a single piece has more.
        max_bytes: Most bytes of a batch, as encoded, unless a single piece has more; less than 2 GiB.
    """

    def __init__(self, schema: pa.Schema, *, max_rows: int = 1 << 16, max_bytes: int = 4 << 20) -> None:
        self.schema = schema
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
