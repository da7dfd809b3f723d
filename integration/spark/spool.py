"""A spool: the partitions of a Spark DataFrame as Arrow files in a private directory.

One Spark job writes each partition to a file of its own. Afterwards the emulation needs neither Spark nor
memory for the data: a subtask maps its files and reads them as records, batch by batch. There may be more
partitions than Spark has slots, since a task that has written its file makes room for the next.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from buffers import RecordBlock
from netstack import SourceError

from .interrupts import held_interrupts
from .rows import RowCodec
from .spark_errors import one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUFFIX = ".arrow"
"""End of the name of a spooled file."""

READ_ROWS = 512
"""Rows that are turned into records at a time."""


class Spool:
    """A private directory (mode 0700) with an Arrow file for each partition that has rows.

    It is deleted by `close`, and at the latest when the interpreter ends, Ctrl-C included. A file that is
    still mapped stays readable until it is closed.
    """

    __slots__ = ("__weakref__", "_delete", "directory", "files", "partitions", "rows")

    def __init__(self) -> None:
        with held_interrupts():
            self.directory = Path(tempfile.mkdtemp(prefix="netstack-spool-"))
            self._delete = weakref.finalize(self, _delete_tree, self.directory)
        self.partitions = 0
        """Number of Spark partitions, empty ones included."""
        self.rows = 0
        """Rows in all partitions."""
        self.files: tuple[Path | None, ...] = ()
        """One file per partition, in Spark's order; None for a partition without rows."""

    def fill(self, frame: DataFrame) -> None:
        """Write every partition of ``frame``; one Spark job.

        Raises:
            SourceError: The job's tasks write to another file system than this one.
        """
        writer = _partition_writer(str(self.directory), frame.columns)
        written = by_place(frame).mapInArrow(writer, "partition long, rows long").collect()
        counts = {row["partition"]: row["rows"] for row in written}
        self.partitions, self.rows = len(counts), sum(counts.values())
        self.files = tuple(self._file(partition, rows) for partition, rows in sorted(counts.items()))

    def close(self) -> None:
        """Delete the directory; a second call does nothing."""
        self._delete()

    def _file(self, partition: int, rows: int) -> Path | None:
        if rows == 0:
            return None
        path = self.directory / f"{partition}{SUFFIX}"
        if not path.exists():
            raise SourceError(f"{self.directory} is not shared with Spark's workers; set TMPDIR to what is")
        return path


def _delete_tree(directory: Path) -> None:
    # A task that was cancelled may add a file meanwhile.
    for _ in range(3):
        shutil.rmtree(directory, ignore_errors=True)


def by_place(frame: DataFrame) -> DataFrame:
    """Return a DataFrame with its columns named by their places.

    Spark looks some up by name, where dots and repeated names fail.
    """
    return frame.toDF(*(f"column{place}" for place in range(len(frame.columns))))


def _partition_writer(
    directory: str, names: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that writes one partition, with these names of columns, in a worker of Spark.

    It is nested, so it travels by value: a worker needs pyarrow, but not this package.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId()  # type: ignore[union-attr]
        partial = f"{directory}/{partition}-{context.taskAttemptId()}.partial"  # type: ignore[union-attr]
        writer, rows = None, 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            named = batch.rename_columns(names)
            if writer is None:
                writer = pa.ipc.new_file(partial, named.schema)
            writer.write_batch(named)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
            os.replace(partial, f"{directory}/{partition}{SUFFIX}")
        yield pa.RecordBatch.from_pydict({"partition": [partition], "rows": [rows]})

    return write


@contextmanager
def open_spooled(path: Path) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """Map a spooled file for the time of the block.

    Raises:
        SourceError: The file is damaged.
    """
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path}: {one_line(error)}") from error


def codec_of(files: Sequence[Path], schema: pa.Schema, key: str | Sequence[str] | None) -> RowCodec:
    """Return the codec of files: with the columns that Spark has written; with `schema` without files."""
    if files:
        with open_spooled(files[0]) as file:
            schema = file.schema
    return RowCodec(schema, key)


def require_same_cut(parts: int, partitions: int) -> None:
    """Refuse to read on in parts that are not the partitions of now, which have other rows.

    Raises:
        SourceError: They are of another number.
    """
    if parts != partitions:
        raise SourceError(
            f"its rows were in {parts} parts when the checkpoint was taken, and Spark cuts them into "
            f"{partitions} now; give it the parallelism {parts}"
        )


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
        """Unmap the file that is open, so that the input is at its end."""
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
    with open_spooled(path) as file:
        for index in range(first, file.num_record_batches):
            batch = file.get_batch(index)
            for begin in range(row, batch.num_rows, READ_ROWS):
                slices += 1
                yield batch.slice(begin, READ_ROWS)
            row = 0
    return slices


def _rows_of_batches(path: Path) -> list[int]:
    with open_spooled(path) as file:
        return [file.get_batch(index).num_rows for index in range(file.num_record_batches)]
