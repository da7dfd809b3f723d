"""Entries of keyed state as record batches of Arrow: for files, and for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from netstack import InitialCheckpoint, StateEntry

from .state_contents import as_json, entries_of

BATCH_ENTRIES = 10_000

SCHEMA = pa.schema(
    [
        ("vertex", pa.string()),
        ("subtask", pa.int32()),
        ("state", pa.string()),
        ("kind", pa.string()),
        ("key_group", pa.int32()),
        ("key", pa.string()),
        ("key_in_map", pa.string()),
        ("value", pa.string()),
        ("bytes", pa.int64()),
    ]
)
"""Keys and values are JSON; `key_in_map` is null but for map state."""


def batches_of(entries: Iterator[StateEntry]) -> Iterator[pa.RecordBatch]:
    """Yield entries as record batches of `SCHEMA`."""
    while rows := list(islice(entries, BATCH_ENTRIES)):
        columns = [
            [row.vertex for row in rows],
            [row.subtask for row in rows],
            [row.state for row in rows],
            [row.kind for row in rows],
            [row.key_group for row in rows],
            [as_json(row.key) for row in rows],
            [as_json(row.key_in_map) if row.kind == "map" else None for row in rows],
            [as_json(row.value) for row in rows],
            [row.size for row in rows],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def write_entries(checkpoint: InitialCheckpoint, vertex: str | None, state: str | None, file: Path) -> int:
    """Write the keyed state of a checkpoint to a file of Arrow's; returns how many entries there are.

    The file is there whole or not at all.

    Raises what `entries_of` raises, and:
        OSError: The file cannot be written.
    """
    partial, rows = file.with_name(f"{file.name}.partial"), 0
    try:
        with pa.OSFile(str(partial), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
            for batch in batches_of(entries_of(checkpoint, vertex, state)):
                writer.write_batch(batch)
                rows += batch.num_rows
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return rows
