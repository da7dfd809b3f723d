"""Brings the rows of sources to the tasks that host them, by Spark's own exchange, before the job starts.

::

    files -> Spark's partitions -> pieces: (task, vertex, subtask, number, an Arrow file)
                                      |  repartitionById(task)
                                      v
    the task that hosts the source: a file in a private directory for each piece -> readers, over and over

A subtask reads one partition, in its order: pieces are numbered, as the exchange keeps no order. A source
has to be read again after a restart, and where it repeats, so the pieces are kept until the task ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import PathSpec, Scenario, SourceError, SourceObject, Vertex

from ..arrow_types import arrow_schema
from ..rows import RowCodec, key_hash
from ..spool import SUFFIX, SparkReader, by_place, codec_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PIECES = "task int, vertex int, subtask int, number int, data binary"
"""The columns in which pieces travel."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FedSource:
    """A source whose pieces lie in `directory`; None where they are in another process.

    `vertex` is its number in the scenario, `partitions` those of Spark, one for each subtask.
    """

    vertex: int
    partitions: int
    schema: pa.Schema
    key: tuple[str, ...]
    repeat: bool
    directory: str | None = None

    @property
    def parallelism_hint(self) -> int:
        """The number of subtasks: one for each partition."""
        return self.partitions

    def open(self, subtask: int, parallelism: int) -> SparkReader:
        """Return the reader of one subtask.

        Raises:
            SourceError: Its pieces are not in this process.
        """
        if self.directory is None:
            raise SourceError(f"the rows of vertex {self.vertex} are in another process")
        files = sorted(Path(self.directory).glob(f"{self.vertex}-{subtask}-*{SUFFIX}"))
        return SparkReader(files, codec_of(files, self.schema, self.key), self.repeat)

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return Java's hash code of each record's key, or 0 where there is no key."""
        return key_hash(block)


def fed_source(frame: DataFrame, vertex: int, spec: PathSpec) -> FedSource:
    """Return the source of vertex number `vertex`, whose subtasks read the partitions of `frame`.

    Raises:
        SourceError: A column cannot be carried, or is missing.
    """
    schema = arrow_schema(frame)
    RowCodec(schema, spec.key)  # raises now if the columns will not do
    partitions = frame.rdd.getNumPartitions()
    return FedSource(vertex=vertex, partitions=partitions, schema=schema, key=spec.key, repeat=spec.repeat)


def in_pieces(frame: DataFrame, source: FedSource, task: int, first: int) -> DataFrame:
    """Return the rows of a source as pieces for `task`.

    `first` is the number that the first partition of `frame` has in the stage that reads it.
    """
    cutter = _cutter(source.vertex, source.partitions, frame.columns, task, first)
    return by_place(frame).mapInArrow(cutter, PIECES)


def _cutter(
    vertex: int, partitions: int, names: list[str], task: int, first: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that makes pieces of one partition; nested, so it needs pyarrow only."""

    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        subtask = TaskContext.get().partitionId() - first  # type: ignore[union-attr]
        if not 0 <= subtask < partitions:
            raise RuntimeError(f"Spark has cut the source into other partitions than {partitions}")
        number = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            named = batch.rename_columns(names)
            file = pa.BufferOutputStream()
            with pa.ipc.new_file(file, named.schema) as writer:
                writer.write_batch(named)
            columns = [
                *(pa.array([value], pa.int32()) for value in (task, vertex, subtask, number)),
                pa.array([file.getvalue().to_pybytes()], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["task", "vertex", "subtask", "number", "data"])
            number += 1

    return cut


def keep_pieces(batches: Iterable[pa.RecordBatch], task: int, directory: str) -> None:
    """Write the pieces that have come to `task` into its directory; rows without pieces are none.

    Raises:
        SourceError: A piece has come to the wrong task.
    """
    for batch in batches:
        if batch.num_columns != len(PIECES.split(",")):
            continue
        for row in batch.to_pylist():
            if row["task"] != task:
                raise SourceError(f"Spark has brought rows for task {row['task']} to task {task}")
            name = f"{row['vertex']}-{row['subtask']}-{row['number']:08}{SUFFIX}"
            Path(directory, name).write_bytes(row["data"])


def with_pieces_from(directory: str, scenario: Scenario, task_manager: str) -> Scenario:
    """Return the scenario with the sources of a task manager reading their pieces from `directory`."""
    return dataclasses.replace(
        scenario,
        vertices=tuple(
            _fed_from(directory, vertex) if vertex.manager == task_manager else vertex
            for vertex in scenario.vertices
        ),
    )


def _fed_from(directory: str, vertex: Vertex) -> Vertex:
    spec = vertex.source
    if not (isinstance(spec, SourceObject) and isinstance(spec.source, FedSource)):
        return vertex
    source = dataclasses.replace(spec.source, directory=directory)
    return dataclasses.replace(vertex, source=dataclasses.replace(spec, source=source))
