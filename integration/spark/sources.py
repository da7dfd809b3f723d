"""Spark sources: a job reads what Spark reads, one subtask for each Spark partition.

::

    with SparkSource("flights.parquet", "carrier", parallelism=4) as source:
        ...                     # pass it to a job; the files exist until the block ends

One Spark job writes each partition of the DataFrame to an Arrow file of its own, in a private directory: the
spool. Afterwards the emulation needs neither Spark nor memory for the data. A subtask maps its files into
memory and reads them as records, batch by batch. There may be more partitions than Spark has slots, because a
task that has written its file frees its slot.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import FILE_FORMATS, SourceError

from ..base.extras import require
from ..base.signals import held_interrupts
from .data_files import read_files, require_columns, require_path
from .driver import run_cancellable
from .failure_causes import is_from_spark, one_line
from .rows import RowCodec, arrow_schema, key_hash
from .session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUFFIX = ".arrow"
"""End of the name of a spooled file."""

READ_ROWS = 512
"""Rows that are encoded as records at a time."""


class SparkSource:
    """The rows of files that Spark reads, or of a DataFrame, as the records of a source vertex.

    Args:
        data: A Parquet, CSV (with a header) or JSON file, a folder of them, or a DataFrame.
        key: The column, or columns, by which a hash exchange partitions; None: no key.
        parallelism: Number of subtasks, among which Spark repartitions the rows; None: one for each of
            Spark's partitions.
        repeat: Whether a subtask starts again at the end of its rows, so that its input never ends.
        format: "parquet", "csv" or "json"; None: by the extension.
        options: Options of Spark's reader, such as ``{"nullValue": "NA"}``.

    One Spark job spools the rows when they are first needed. The files are deleted by `close`, at the end of
    a ``with`` block, on an error, and when the interpreter ends. `RowCodec` encodes the records. The active
    session is used, or a local one is started; neither is stopped here.

    Raises:
        ValueError: ``parallelism`` is not positive, or ``format`` is none of the three.
    """

    def __init__(
        self,
        data: str | Path | DataFrame,
        key: str | Sequence[str] | None = None,
        *,
        parallelism: int | None = None,
        repeat: bool = False,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        if parallelism is not None and parallelism < 1:
            raise ValueError(f"parallelism is {parallelism}; it must be at least 1")
        if format is not None and format not in FILE_FORMATS:
            raise ValueError(f"format is {format!r}, which is not one of {sorted(FILE_FORMATS)}")
        self._data = data
        self._key = key
        self._parallelism = parallelism
        self._repeat = repeat
        self._format = format
        self._options = options
        self._spooled: _Spooled | None = None

    @property
    def parallelism_hint(self) -> int:
        """Number of subtasks: the given number, else the number of Spark's partitions, at least 1.

        Raises:
            SourceError: The data cannot be read.
        """
        return self._parallelism or max(1, self.prepare().partitions)

    @property
    def codec(self) -> RowCodec:
        """The codec of the records, for operators that need the columns.

        Raises:
            SourceError: The data cannot be read.
        """
        self.prepare()
        assert self._spooled is not None
        return self._spooled.codec

    def prepare(self) -> Spool:
        """Spool the data unless this has been done. This is the slow step.

        Raises:
            SourceError: The data cannot be read: no such file or column, an unknown format, an unsupported
                type, no Java. The message is one line.
        """
        if self._spooled is None:
            require("pandas", "reading files through Spark")
            self._spooled = self._make_spool()
        return self._spooled.spool

    def open(self, subtask: int, parallelism: int) -> SparkReader:
        """Return the reader of one subtask: partitions ``subtask``, ``subtask + parallelism``, and so on.

        Raises:
            SourceError: The data cannot be read.
        """
        spool = self.prepare()
        files = [file for file in spool.files[subtask::parallelism] if file is not None]
        return SparkReader(files, self.codec, self._repeat)

    def open_split(self, subtask: int, parallelism: int) -> SparkReader:
        """Return the reader of the rows that a subtask read in an earlier run with this parallelism.

        Raises:
            SourceError: The data cannot be read, or has another number of partitions now.
        """
        require_same_cut(parallelism, self.parallelism_hint)
        return self.open(subtask, parallelism)

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return Java's hash code of each record's key column, or 0 without a key."""
        return key_hash(block)

    def close(self) -> None:
        """Delete the files, when no reader needs them any more. A second call does nothing."""
        if self._spooled is not None:
            self._spooled.spool.close()
            self._spooled = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_spool(self) -> _Spooled:
        data, where = self._data, ""
        if isinstance(data, str | Path):
            where = f"{data}: "
            require_path(data)
            keys = (self._key,) if isinstance(self._key, str) else self._key or ()
            require_columns(data, keys, self._format, self._options)
            session = spark_session()
        else:
            session = data.sparkSession
        spool = Spool()

        def fill() -> RowCodec:
            if isinstance(data, str | Path):
                frame = read_files(session, data, self._format, self._options)
            else:
                frame = data
            codec = RowCodec(arrow_schema(frame), self._key)  # reports unsupported columns before the job
            spool.fill(frame.repartition(self._parallelism) if self._parallelism else frame)
            return codec_of([file for file in spool.files if file is not None], codec.schema, self._key)

        try:
            return _Spooled(spool, run_cancellable(session, fill))
        except BaseException as error:
            spool.close()
            if not is_from_spark(error):
                raise
            raise SourceError(where + one_line(error)) from error


class Spool:
    """A private directory (mode 0700) with an Arrow file for each partition that has rows.

    The directory is deleted by `close`, and at the latest when the interpreter ends, also after Ctrl-C. A
    file that is still mapped stays readable until it is closed.
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
        """Write every partition of ``frame`` by one Spark job.

        Raises:
            SourceError: The job's tasks write to another file system than this one.
        """
        directory, names = str(self.directory), frame.columns

        # Nested, so it is pickled by value: a worker needs pyarrow for it, but not this package.
        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context: Any = TaskContext.get()
            partition = context.partitionId()
            partial = f"{directory}/{partition}-{context.taskAttemptId()}.partial"
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

        written = by_place(frame).mapInArrow(write, "partition long, rows long").collect()
        counts = {row["partition"]: row["rows"] for row in written}
        self.partitions, self.rows = len(counts), sum(counts.values())
        self.files = tuple(
            self.directory / f"{partition}{SUFFIX}" if rows else None
            for partition, rows in sorted(counts.items())
        )
        if not all(file is None or file.exists() for file in self.files):
            raise SourceError(
                f"Spark's workers cannot reach {self.directory}; set TMPDIR to a folder that they share"
            )

    def close(self) -> None:
        """Delete the directory; a second call does nothing."""
        self._delete()


class _Spooled(NamedTuple):
    """The spooled rows, and the codec of their records."""

    spool: Spool
    codec: RowCodec


def _delete_tree(directory: Path) -> None:
    # A cancelled task may still add a file.
    for _ in range(3):
        shutil.rmtree(directory, ignore_errors=True)


def by_place(frame: DataFrame) -> DataFrame:
    """Return a DataFrame with its columns named by their positions.

    Spark looks up some columns by name, which fails for names that contain dots or repeat.
    """
    return frame.toDF(*(f"column{place}" for place in range(len(frame.columns))))


@contextmanager
def open_spooled(path: Path) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """Map a spooled file until the end of the block.

    Raises:
        SourceError: The file is damaged.
    """
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path}: {one_line(error)}") from error


def codec_of(files: Sequence[Path], schema: pa.Schema, key: str | Sequence[str] | None) -> RowCodec:
    """Return the codec for the columns that Spark has written to files; without files, for `schema`."""
    if files:
        with open_spooled(files[0]) as file:
            schema = file.schema
    return RowCodec(schema, key)


def require_same_cut(parts: int, partitions: int) -> None:
    """Check that Spark cuts the rows into as many parts as when the checkpoint was taken.

    Raises:
        SourceError: The number of partitions differs.
    """
    if parts != partitions:
        raise SourceError(
            f"its rows were in {parts} parts when the checkpoint was taken, but Spark now splits them "
            f"into {partitions}; give it the parallelism {parts}"
        )


class _Place(NamedTuple):
    """Position of a row: index of the file, of the batch in it, and of the row in the batch."""

    file: int = 0
    batch: int = 0
    row: int = 0


_START = _Place()


class SparkReader:
    """The records of one subtask, read from the memory-mapped files of its partitions.

    It holds one Arrow batch and `READ_ROWS` encoded rows at a time, however large the files are.
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
        """Go to a row without reading those before it.

        If the input repeats, its rows follow again after the last one.

        Raises:
            ValueError: ``position`` is negative.
            SourceError: The files are damaged.
        """
        if position < 0:
            raise ValueError(f"position is {position}, but the first record is at 0")
        if self._counts is None:
            self._counts = []
            for path in self._files:
                with open_spooled(path) as file:
                    batches = range(file.num_record_batches)
                    self._counts.append([file.get_batch(index).num_rows for index in batches])
        place = self._place_of(position, self._counts)
        self._slices.close()
        self._slices = self._read_files(place._replace(row=place.row - place.row % READ_ROWS))
        self._block, self._position, self._repeated_whole = None, 0, False
        if self._next_block():
            self._position = place.row % READ_ROWS

    def _place_of(self, position: int, counts: list[list[int]]) -> _Place:
        """Return the position of a record in the files. The position of the end of the input is after the
        last file.
        """
        rows = sum(map(sum, counts))
        left = position % rows if self._repeat and rows else position
        for number, batches in enumerate(counts):
            for batch, count in enumerate(batches):
                if left < count:
                    return _Place(number, batch, left)
                left -= count
        return _Place(len(counts))

    def close(self) -> None:
        """Unmap the open file; the input is then at its end."""
        self._slices.close()
        self._block = None

    def _next_block(self) -> bool:
        """Encode the next rows. Return False at the end."""
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
        """Yield all slices from `start`.

        If the input repeats and has more than one slice, continue without end.
        """
        slices = yield from self._read_once(start)
        while self._repeat and (slices > 1 or start != _START):
            start = _START
            slices = yield from self._read_once(start)
        self._repeated_whole = self._repeat and slices == 1

    def _read_once(self, start: _Place) -> Generator[pa.RecordBatch, None, int]:
        slices, first, row = 0, start.batch, start.row
        for path in self._files[start.file :]:
            with open_spooled(path) as file:
                for index in range(first, file.num_record_batches):
                    batch = file.get_batch(index)
                    for begin in range(row, batch.num_rows, READ_ROWS):
                        slices += 1
                        yield batch.slice(begin, READ_ROWS)
                    row = 0
            first = row = 0
        return slices
