"""A spool: the partitions of a Spark DataFrame as Arrow files in a private directory.

One Spark job writes each partition to a file of its own. Afterwards the emulation needs neither Spark nor
memory for the data: a subtask maps its files and reads them batch by batch. There may be more partitions than
Spark has slots, since a task that has written its file makes room for the next.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from netstack import SourceError

from .interrupts import held_interrupts
from .row_types import UnsupportedColumnError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX = ".arrow"

CANCEL_PERIOD_S = 0.2
"""Time in seconds between two attempts to cancel the jobs of interrupted work."""

_T = TypeVar("_T")


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
        written = _by_place(frame).mapInArrow(writer, "partition long, rows long").collect()
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


def _by_place(frame: DataFrame) -> DataFrame:
    """Name the columns by their places: Spark looks some up by name, where dots and repeated names fail."""
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


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the Arrow schema in which Spark hands out a DataFrame; runs no Spark job.

    Raises:
        UnsupportedColumnError: Spark cannot turn a column into Arrow.
    """
    from pyspark.errors import PySparkException

    try:
        return frame.limit(0).toArrow().schema
    except PySparkException:
        placed = _by_place(frame)
        for field, column in zip(frame.schema, placed.columns, strict=True):
            try:
                placed.select(column).limit(0).toArrow()
            except PySparkException as error:
                raise UnsupportedColumnError(field.name, field.dataType.simpleString()) from error
        raise


def run_cancellable(session: SparkSession, work: Callable[[], _T]) -> _T:
    """Run work on Spark in a thread of its own, and cancel its jobs if the wait is interrupted by Ctrl-C.

    Waiting in this thread for Spark's answer would leave half an answer on the connection.

    Raises:
        BaseException: Whatever ``work`` raises, or whatever interrupts the wait.
    """
    from pyspark import InheritableThread

    context = session.sparkContext  # the session's own tags do not find its jobs
    tag = f"netstack-{uuid.uuid4().hex}"
    outcome: list[Any] = [None, None]
    done = threading.Event()  # an interrupted Thread.join would take the thread for dead

    def run() -> None:
        try:
            context.addJobTag(tag)
            outcome[0] = work()
        except BaseException as error:
            outcome[1] = error
        finally:
            done.set()

    thread = InheritableThread(target=run, session=session, daemon=True)
    try:
        with held_interrupts():
            thread.start()
        done.wait()
    except BaseException:
        while True:  # one job may follow another
            with held_interrupts():
                context.cancelJobsWithTag(tag)
            if done.wait(CANCEL_PERIOD_S):
                raise
    if outcome[1] is not None:
        raise outcome[1]
    result: _T = outcome[0]
    return result
