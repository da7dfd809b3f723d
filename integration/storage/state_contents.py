"""State in a checkpoint: sizes by key group and subtask, largest keys, and keyed entries as Arrow batches."""

from __future__ import annotations

import heapq
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from netstack import (
    CHANNEL_STATE,
    HandleReader,
    InitialCheckpoint,
    StateEntry,
    StateHandle,
    decode_value,
    encode_value,
    keyed_entries,
    operator_lists,
)

from ..base.errors import UsageError
from ..base.extras import is_installed
from ..base.writing import written_whole
from .rocksdb import RocksStores

STATE_SCHEMA = "netstack.state/1"

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
"""Columns of keyed entries. Keys and values are JSON. `key_in_map` is null except for map state."""


class LargeKey(msgspec.Struct, frozen=True):
    """A key as JSON, with the number of its entries (values in a list, entries of a map) and their bytes."""

    key: str
    key_group: int
    entries: int
    size: int


class KeyedContents(msgspec.Struct, frozen=True, kw_only=True):
    """A keyed state of a vertex. Sizes are in bytes: `size` in total, others by key group and by subtask.

    `entries` counts keys; for map state, the entries of all maps. `largest` are the keys with the most bytes.
    """

    vertex: str
    state: str
    kind: str
    keys: int
    entries: int
    size: int
    by_key_group: dict[int, int]
    by_subtask: list[int]
    largest: list[LargeKey]
    key_groups: int
    """Number of key groups, empty ones included."""

    @property
    def skew(self) -> float:
        """Bytes of the largest subtask relative to the mean of all subtasks."""
        mean = sum(self.by_subtask) / len(self.by_subtask)
        return max(self.by_subtask) / mean if mean else 1.0

    @property
    def group_skew(self) -> float:
        """Bytes of the largest key group relative to the mean of all key groups."""
        mean = self.size / self.key_groups
        return max(self.by_key_group.values(), default=0) / mean if mean else 1.0


class OperatorContents(msgspec.Struct, frozen=True, kw_only=True):
    """A list of operator state: its redistribution, the number of values in each subtask, and its bytes."""

    vertex: str
    state: str
    redistribution: str
    by_subtask: list[int]
    size: int


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """Data in flight of a vertex: bytes in its inputs and outputs, and the number of channels with data."""

    vertex: str
    input_bytes: int
    output_bytes: int
    channels: int


class StateContents(msgspec.Struct, frozen=True, kw_only=True):
    """All state of a checkpoint or savepoint, as figures; sizes in bytes."""

    schema: str = STATE_SCHEMA
    path: str
    checkpoint_id: int
    checkpoint_type: str
    job: str
    size: int
    parallelism: dict[str, int]
    keyed: list[KeyedContents]
    operator: list[OperatorContents]
    in_flight: list[InFlight]


@contextmanager
def scratch_stores() -> Iterator[RocksStores | None]:
    """Yield table stores in a temporary folder; None if RocksDB is not installed."""
    if not is_installed("rocksdb"):
        yield None
        return
    with (
        tempfile.TemporaryDirectory(prefix="netstack-tables-") as folder,
        closing(RocksStores(Path(folder))) as stores,
    ):
        yield stores


def entries_of(
    checkpoint: InitialCheckpoint, vertex: str | None = None, state: str | None = None
) -> Iterator[StateEntry]:
    """Yield the keyed state of a checkpoint, subtask by subtask.

    Raises:
        StorageError: A file could not be read.
        StateError: The bytes are not keyed state, or rocksdict is needed and not installed.
        UsageError: The checkpoint has no such vertex or state; the message names those that exist.
    """
    require_state(checkpoint, vertex, None)
    metadata, read, found = checkpoint.metadata, HandleReader(checkpoint.storage), state is None
    with scratch_stores() as tables:
        for snapshot in metadata.subtasks:
            if vertex is None or snapshot.vertex == vertex:
                for entry in keyed_entries(metadata, snapshot, read, tables, state):
                    found = True
                    yield entry
    if not found:
        require_state(checkpoint, vertex, state)


def require_state(checkpoint: InitialCheckpoint, vertex: str | None, state: str | None) -> None:
    """Raise a UsageError, one line, if a checkpoint lacks a vertex or its keyed state."""
    names = list(checkpoint.metadata.parallelism)
    if vertex is not None and vertex not in names:
        raise UsageError(
            [f"{checkpoint.path}: has no vertex {vertex!r}; its vertices are {', '.join(names)}"]
        )
    if state is not None:
        there = dict.fromkeys(entry.state for entry in entries_of(checkpoint, vertex))
        if state not in there:
            known = f"its keyed states are {', '.join(there)}" if there else "it has no keyed state"
            raise UsageError([f"{checkpoint.path}: has no keyed state {state!r}; {known}"])


class _Tally:
    """Counts and sizes of one keyed state."""

    def __init__(self, kind: str, parallelism: int) -> None:
        self.kind = kind
        self.entries = 0
        self.groups: Counter[int] = Counter()
        self.subtasks = [0] * parallelism
        self.sizes: Counter[bytes] = Counter()
        self._counts: Counter[bytes] = Counter()
        self._group_of: dict[bytes, int] = {}

    def add(self, entry: StateEntry) -> None:
        key = encode_value(entry.key)
        self.entries += 1
        self.groups[entry.key_group] += entry.size
        self.subtasks[entry.subtask] += entry.size
        self.sizes[key] += entry.size
        self._counts[key] += entry.values
        self._group_of[key] = entry.key_group

    def largest(self, number: int) -> list[LargeKey]:
        keys = heapq.nsmallest(number, self.sizes, key=lambda key: (-self.sizes[key], key))
        return [
            LargeKey(as_json(decode_value(key)), self._group_of[key], self._counts[key], self.sizes[key])
            for key in keys
        ]


def as_json(value: Any) -> str:
    """Return a value as JSON. Tuples become arrays. Bytes become text if they are UTF-8, else base64."""
    return msgspec.json.encode(_plain(value)).decode()


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return value
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            if all(isinstance(key, str) for key in value):
                return {key: _plain(each) for key, each in value.items()}
            return [[_plain(key), _plain(each)] for key, each in value.items()]
        case _:
            return value


def contents_of(
    checkpoint: InitialCheckpoint, vertex: str | None = None, state: str | None = None, top: int = 5
) -> StateContents:
    """Return the state in a checkpoint or savepoint in figures, with the ``top`` largest keys of each state.

    Raises what `entries_of` raises.
    """
    metadata = checkpoint.metadata
    tallies: dict[tuple[str, str], _Tally] = {}
    for entry in entries_of(checkpoint, vertex, state):
        of_state = entry.vertex, entry.state
        if of_state not in tallies:
            tallies[of_state] = _Tally(entry.kind, metadata.parallelism[entry.vertex])
        tallies[of_state].add(entry)
    keyed = [
        KeyedContents(
            vertex=name,
            state=named,
            kind=tally.kind,
            keys=len(tally.sizes),
            entries=tally.entries,
            size=sum(tally.subtasks),
            by_key_group=dict(sorted(tally.groups.items())),
            by_subtask=tally.subtasks,
            largest=tally.largest(top),
            key_groups=metadata.max_parallelism_of(name),
        )
        for (name, named), tally in tallies.items()
    ]
    return StateContents(
        path=checkpoint.path,
        checkpoint_id=metadata.checkpoint_id,
        checkpoint_type=metadata.checkpoint_type,
        job=metadata.job,
        size=metadata.size,
        parallelism=metadata.parallelism,
        keyed=keyed,
        operator=[] if state is not None else _operator(checkpoint, vertex),
        in_flight=[] if state is not None else _in_flight(checkpoint, vertex),
    )


def _operator(checkpoint: InitialCheckpoint, vertex: str | None) -> list[OperatorContents]:
    metadata, read = checkpoint.metadata, HandleReader(checkpoint.storage)
    found: dict[tuple[str, str], OperatorContents] = {}
    for snapshot in metadata.subtasks:
        if vertex is None or snapshot.vertex == vertex:
            for each in operator_lists(snapshot, read):
                known = found.get((each.vertex, each.state)) or OperatorContents(
                    vertex=each.vertex,
                    state=each.state,
                    redistribution=each.redistribution,
                    by_subtask=[0] * metadata.parallelism[each.vertex],
                    size=0,
                )
                known.by_subtask[each.subtask] += len(each.values)
                found[each.vertex, each.state] = msgspec.structs.replace(known, size=known.size + each.size)
    return list(found.values())


def _in_flight(checkpoint: InitialCheckpoint, vertex: str | None) -> list[InFlight]:
    channels: dict[str, list[StateHandle]] = {}
    for snapshot in checkpoint.metadata.subtasks:
        if vertex in (None, snapshot.vertex):
            with_data = (each for each in snapshot.handles if each.kind in CHANNEL_STATE and each.size)
            channels.setdefault(snapshot.vertex, []).extend(with_data)
    return [
        InFlight(
            vertex=name,
            input_bytes=sum(each.size for each in channels[name] if each.kind == "input channel"),
            output_bytes=sum(each.size for each in channels[name] if each.kind == "output channel"),
            channels=len(channels[name]),
        )
        for name in checkpoint.metadata.parallelism
        if channels.get(name)
    ]


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
            [as_json(row.key_in_map) if row.is_in_map else None for row in rows],
            [as_json(row.value) for row in rows],
            [row.size for row in rows],
        ]
        yield pa.record_batch(columns, schema=SCHEMA)


def write_entries(checkpoint: InitialCheckpoint, vertex: str | None, state: str | None, file: Path) -> int:
    """Write the keyed state of a checkpoint to an Arrow file; return the number of entries.

    The file is written whole or not at all.

    Raises what `entries_of` raises, and:
        OSError: The file cannot be written.
    """
    rows = 0
    with (
        written_whole(file) as partial,
        pa.OSFile(str(partial), "wb") as sink,
        pa.ipc.new_file(sink, SCHEMA) as writer,
    ):
        for batch in batches_of(entries_of(checkpoint, vertex, state)):
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows
