"""Keyed state of a checkpoint or savepoint as a DataFrame, read by one task for each subtask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from netstack import HandleReader, InitialCheckpoint, keyed_entries

from ..base.extras import require
from ..storage.checkpoint_list import find_checkpoint
from ..storage.state_contents import SCHEMA, batches_of, require_state, scratch_stores
from .driver import is_local
from .python_workers import send_packages, worker_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_state(spark: SparkSession, path: str, vertex: str, state: str) -> DataFrame:
    """Return a keyed state of a vertex: a row for each key or, for map state, for each entry of a map.

    Columns are ``vertex, subtask, state, kind, key_group, key, key_in_map, value, bytes``; keys and values
    are JSON, for `pyspark.sql.functions.from_json` or a cast. Files are read when an action needs them, by a
    task for each subtask of the checkpoint; on a cluster all executors have to reach them.

    Args:
        spark: The session.
        path: A chk-N, a savepoint, or a directory of checkpoints, of which the latest is read.
        vertex: The name of the vertex.
        state: The name of the state.

    Raises:
        StorageError: There is no such checkpoint, or it is damaged.
        StateError: The checkpoint's state cannot be read here.
        UsageError: The checkpoint has no such vertex or state. The message lists the existing ones.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    require("pandas", "read_state")
    checkpoint = find_checkpoint(path)
    require_state(checkpoint, vertex, state)
    subtasks = checkpoint.metadata.parallelism[vertex]
    send_packages(spark)
    work = worker_function(_read, checkpoint, vertex, state, on_one_machine=is_local(spark))
    return spark.range(0, subtasks, 1, subtasks).mapInArrow(work, from_arrow_schema(SCHEMA))


def _read(
    batches: Iterable[pa.RecordBatch], checkpoint: InitialCheckpoint, vertex: str, state: str
) -> Iterator[pa.RecordBatch]:
    """Read the state of the subtasks whose numbers are in the rows of `batches`."""
    metadata, read = checkpoint.metadata, HandleReader(checkpoint.storage)
    with scratch_stores() as tables:
        for batch in batches:
            for subtask in batch.column(0).to_pylist():
                snapshot = metadata.of(vertex, subtask)
                if snapshot is not None:
                    yield from batches_of(keyed_entries(metadata, snapshot, read, tables, state))
