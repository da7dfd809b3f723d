"""Spark sources: a job reads what Spark reads, one subtask per Spark partition.

::

    with SparkSource("flights.parquet", "carrier", parallelism=4) as source:
        ...                     # hand it to a job; the files exist until the block ends
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import FILE_FORMATS, SourceError

from ..extras import require
from .arrow_types import arrow_schema
from .files import read_files, require_columns, require_path
from .interrupts import run_cancellable
from .rows import RowCodec, key_hash
from .session import spark_session
from .spark_errors import is_from_spark, one_line
from .spool import SparkReader, Spool, codec_of, require_same_cut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkSource:
    """The rows of files that Spark reads, or of a DataFrame, as the records of a source vertex.

    Args:
        data: A Parquet, CSV (with a header) or JSON file, a folder of them, or a DataFrame.
        key: The column, or columns, by which a hash exchange partitions; None for none.
        parallelism: Number of subtasks, made by repartitioning; None for one per partition as Spark cuts it.
        repeat: Whether a subtask starts again at the end of its rows, so that its input never ends.
        format: "parquet", "csv" or "json", where the extension does not tell.
        options: Options of Spark's reader, such as ``{"nullValue": "NA"}``.

    The rows are spooled by one Spark job when they are first needed; the files are deleted by `close`, at the
    end of a ``with`` block, on an error, and when the interpreter ends. Records are encoded by `RowCodec`. A
    session that is active is used; else a local one is started. Neither is stopped here.

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
            raise ValueError(f"parallelism is {parallelism}, but a source has at least one subtask")
        if format is not None and format not in FILE_FORMATS:
            raise ValueError(f"format is {format!r}, which is none of {sorted(FILE_FORMATS)}")
        self._data = data
        self._key = key
        self._parallelism = parallelism
        self._repeat = repeat
        self._format = format
        self._options = options
        self._spooled: tuple[Spool, RowCodec] | None = None

    @property
    def parallelism_hint(self) -> int:
        """Number of subtasks: the one asked for, else that of Spark's partitions, at least 1.

        Raises:
            SourceError: The data cannot be read.
        """
        return self._parallelism or max(1, self.prepare().partitions)

    @property
    def codec(self) -> RowCodec:
        """The codec of the records, for operators that want the columns.

        Raises:
            SourceError: The data cannot be read.
        """
        self.prepare()
        assert self._spooled is not None
        return self._spooled[1]

    def prepare(self) -> Spool:
        """Spool the data, unless that has been done; whatever takes long happens here.

        Raises:
            SourceError: The data cannot be read: no such file or column, an unknown format, a type that
                cannot be carried, no Java. One line that says so.
        """
        if self._spooled is None:
            require("pandas", "reading files through Spark")
            self._spooled = self._make_spool()
        return self._spooled[0]

    def open(self, subtask: int, parallelism: int) -> SparkReader:
        """Return the reader of one subtask: partitions ``subtask``, ``subtask + parallelism``, and so on.

        Raises:
            SourceError: The data cannot be read.
        """
        spool = self.prepare()
        files = [file for file in spool.files[subtask::parallelism] if file is not None]
        return SparkReader(files, self.codec, self._repeat)

    def open_split(self, subtask: int, parallelism: int) -> SparkReader:
        """Return the reader of what was a subtask of so many when an earlier run read the source.

        Raises:
            SourceError: The data cannot be read, or is cut into another number of partitions now.
        """
        require_same_cut(parallelism, self.parallelism_hint)
        return self.open(subtask, parallelism)

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return Java's hash code of each record's key column, or 0 where there is no key."""
        return key_hash(block)

    def close(self) -> None:
        """Delete the files, once no reader needs them any more; a second call does nothing."""
        if self._spooled is not None:
            self._spooled[0].close()
            self._spooled = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_spool(self) -> tuple[Spool, RowCodec]:
        if isinstance(self._data, str | Path):
            require_path(self._data)
            keys = (self._key,) if isinstance(self._key, str) else self._key or ()
            require_columns(self._data, keys, self._format, self._options)
            session = spark_session()
        else:
            session = self._data.sparkSession
        spool = Spool()
        try:
            return spool, run_cancellable(session, lambda: self._fill(spool, session))
        except BaseException as error:
            spool.close()
            if not is_from_spark(error):
                raise
            where = f"{self._data}: " if isinstance(self._data, str | Path) else ""
            raise SourceError(where + one_line(error)) from error

    def _fill(self, spool: Spool, session: SparkSession) -> RowCodec:
        data = self._data
        if isinstance(data, str | Path):
            frame = read_files(session, data, self._format, self._options)
        else:
            frame = data
        codec = RowCodec(arrow_schema(frame), self._key)  # raises before the job if the columns will not do
        spool.fill(frame.repartition(self._parallelism) if self._parallelism else frame)
        return codec_of([file for file in spool.files if file is not None], codec.schema, self._key)
