"""Reads the spooled files of one subtask, which are Arrow, as records; no Spark is needed for that."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from buffers import RecordBlock
from netstack import SourceError

from .files import one_line
from .rows import RowCodec

READ_ROWS = 512
"""Rows that are turned into records at a time."""


class _Place(NamedTuple):
    """A row of the files: number of the file, of the batch in it, and of the row in that."""

    file: int = 0
    batch: int = 0
    row: int = 0


_START = _Place()


class SparkReader:
    """The records of one subtask, out of the memory-mapped files of its partitions.

    It holds one batch of Arrow and `READ_ROWS` encoded rows at a time, however large the files are.
    """

    __slots__ = (
        "_block",
        "_codec",
        "_counts",
        "_files",
        "_position",
        "_repeat",
        "_repeated_whole",
        "_slices",
    )

    def __init__(self, files: Sequence[Path], codec: RowCodec, repeat: bool) -> None:
        self._files = files
        self._codec = codec
        self._repeat = repeat
        self._counts: list[list[int]] | None = None
        self._slices = self._read_files(_START)
        self._block: RecordBlock | None = None
        self._position = 0
        self._repeated_whole = False  # an input of one block is encoded once and not read again

    def read(self, max_records: int) -> RecordBlock | None:
        """Return the next records, or None at the end of the last file.

        Raises:
            SourceError: The files are damaged, or a text is not UTF-8.
        """
        if self._block is None or self._position == len(self._block):
            if not self._next_block():
                return None
            assert self._block is not None
        start = self._position
        self._position = min(start + max_records, len(self._block))
        return self._block[start : self._position]

    def seek(self, position: int) -> None:
        """Go to a row; what is before it is not read. Where the input repeats, its rows count again.

        Raises:
            ValueError: ``position`` is negative.
            SourceError: The files are damaged.
        """
        if position < 0:
            raise ValueError(f"position is {position}, but the first record is at 0")
        if self._counts is None:
            self._counts = [_rows_of_batches(path) for path in self._files]
        place = self._place_of(position, self._counts)
        self._slices.close()
        self._slices = self._read_files(place._replace(row=place.row - place.row % READ_ROWS))
        self._block, self._position, self._repeated_whole = None, 0, False
        if self._next_block():
            self._position = place.row % READ_ROWS

    def _place_of(self, position: int, counts: list[list[int]]) -> _Place:
        """Return where a record is; behind the last file for the end of the input."""
        rows = sum(map(sum, counts))
        left = position % rows if self._repeat and rows else position
        for number, batches in enumerate(counts):
            for batch, count in enumerate(batches):
                if left < count:
                    return _Place(number, batch, left)
                left -= count
        return _Place(len(counts))

    def close(self) -> None:
        """Unmap the file that is open; the input is at its end."""
        self._slices.close()
        self._block = None

    def _next_block(self) -> bool:
        """Encode the next rows; False at the end."""
        batch = next(self._slices, None)
        if batch is not None:
            self._block = self._codec.encode(batch)
        elif self._block is None or not self._repeated_whole:
            return False
        elif len(self._block) < READ_ROWS // 2:
            self._block = RecordBlock.concat([self._block] * (READ_ROWS // len(self._block)))
        self._position = 0
        return True

    def _read_files(self, start: _Place) -> Generator[pa.RecordBatch, None, None]:
        """Yield all slices from one on, over and over if the input repeats and has more than one."""
        slices = yield from self._read_once(start)
        while self._repeat and (slices > 1 or start != _START):
            start = _START
            slices = yield from self._read_once(start)
        self._repeated_whole = self._repeat and slices == 1

    def _read_once(self, start: _Place) -> Generator[pa.RecordBatch, None, int]:
        slices = 0
        for path in self._files[start.file :]:
            slices += yield from _read_file(path, start.batch, start.row)
            start = _START
        return slices


def _read_file(path: Path, first: int, row: int) -> Generator[pa.RecordBatch, None, int]:
    """Yield slices from a row of a batch on; return their number."""
    slices = 0
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            for index in range(first, file.num_record_batches):
                batch = file.get_batch(index)
                for begin in range(row, batch.num_rows, READ_ROWS):
                    slices += 1
                    yield batch.slice(begin, READ_ROWS)
                row = 0
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path}: {one_line(error)}") from error
    return slices


def _rows_of_batches(path: Path) -> list[int]:
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            return [file.get_batch(index).num_rows for index in range(file.num_record_batches)]
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path}: {one_line(error)}") from error
