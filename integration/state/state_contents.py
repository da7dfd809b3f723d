"""A checkpoint's state in figures: how much there is, how it is spread over key groups, its largest keys."""

from __future__ import annotations

import heapq
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from netstack import (
    CHANNEL_STATE,
    HandleReader,
    InitialCheckpoint,
    StateEntry,
    decode_value,
    encode_value,
    keyed_entries,
    operator_lists,
)

from ..errors import UsageError
from ..extras import is_installed
from .stores import RocksStores

SCHEMA = "netstack.state/1"


class LargeKey(msgspec.Struct, frozen=True):
    """A key, as JSON shows it, with its entries (values in a list, entries of a map) and bytes."""

    key: str
    key_group: int
    entries: int
    size: int


class KeyedContents(msgspec.Struct, frozen=True, kw_only=True):
    """A keyed state of a vertex: its `size` in bytes, and those by key group and by subtask.

    `entries` are keys, or of map state the entries of all maps. `largest` are the keys that take the most.
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
    """How many there are, empty ones too."""

    @property
    def skew(self) -> float:
        """The largest subtask's bytes over the mean one's."""
        mean = sum(self.by_subtask) / len(self.by_subtask)
        return max(self.by_subtask) / mean if mean else 1.0

    @property
    def group_skew(self) -> float:
        """The largest key group's bytes over the mean one's."""
        mean = self.size / self.key_groups
        return max(self.by_key_group.values(), default=0) / mean if mean else 1.0


class OperatorContents(msgspec.Struct, frozen=True, kw_only=True):
    """A list of operator state: how it is dealt out, its values in each subtask, and bytes in all."""

    vertex: str
    state: str
    redistribution: str
    by_subtask: list[int]
    size: int


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """Data in flight of a vertex: bytes in its inputs and outputs, and in how many channels."""

    vertex: str
    input_bytes: int
    output_bytes: int
    channels: int


class StateContents(msgspec.Struct, frozen=True, kw_only=True):
    """All state of a checkpoint or savepoint, in figures; sizes in bytes."""

    schema: str = SCHEMA
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
    """Stores in a folder that is gone afterwards; None if RocksDB is not installed."""
    if not is_installed("rocksdb"):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="netstack-tables-") as folder:
        stores = RocksStores(Path(folder))
        try:
            yield stores
        finally:
            stores.close()


def entries_of(
    checkpoint: InitialCheckpoint, vertex: str | None = None, state: str | None = None
) -> Iterator[StateEntry]:
    """Yield the keyed state of a checkpoint, subtask by subtask.

    Raises:
        StorageError: A file could not be read.
        StateError: The bytes are not those of such state, or need rocksdict, which is not installed.
        UsageError: There is no such vertex or state in it, which names those that are.
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
    """Raise ScenarioError, one line, if a checkpoint has no such vertex, or no such keyed state."""
    names = list(checkpoint.metadata.parallelism)
    if vertex is not None and vertex not in names:
        raise UsageError([f"{checkpoint.path}: there is no vertex {vertex!r}; there are {', '.join(names)}"])
    if state is not None:
        there = dict.fromkeys(entry.state for entry in entries_of(checkpoint, vertex))
        if state not in there:
            known = f"there is {', '.join(there)}" if there else "there is no keyed state"
            raise UsageError([f"{checkpoint.path}: there is no keyed state {state!r}; {known}"])


class _Tally:
    """What has been counted of one keyed state."""

    def __init__(self, kind: str, parallelism: int) -> None:
        self.kind = kind
        self.entries = 0
        self.groups: Counter[int] = Counter()
        self.subtasks = [0] * parallelism
        self._sizes: Counter[bytes] = Counter()
        self._counts: Counter[bytes] = Counter()
        self._group_of: dict[bytes, int] = {}

    def add(self, entry: StateEntry) -> None:
        key = encode_value(entry.key)
        self.entries += 1
        self.groups[entry.key_group] += entry.size
        self.subtasks[entry.subtask] += entry.size
        self._sizes[key] += entry.size
        self._counts[key] += len(entry.value) if entry.kind == "list" else 1
        self._group_of[key] = entry.key_group

    @property
    def keys(self) -> int:
        return len(self._sizes)

    def largest(self, number: int) -> list[LargeKey]:
        keys = heapq.nsmallest(number, self._sizes, key=lambda key: (-self._sizes[key], key))
        return [
            LargeKey(shown(key), self._group_of[key], self._counts[key], self._sizes[key]) for key in keys
        ]


def shown(encoded: bytes) -> str:
    """Return an encoded key as JSON."""
    return as_json(decode_value(encoded))


def as_json(value: Any) -> str:
    """Return a value as JSON; bytes stand as text if they are UTF-8, else in base64, and tuples as arrays."""
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
    """Return what lies in a checkpoint or savepoint; with the ``top`` largest keys of each keyed state.

    Raises what `entries_of` raises.
    """
    metadata = checkpoint.metadata
    tallies: dict[tuple[str, str], _Tally] = {}
    for entry in entries_of(checkpoint, vertex, state):
        tally = tallies.get((entry.vertex, entry.state))
        if tally is None:
            tally = tallies[entry.vertex, entry.state] = _Tally(
                entry.kind, metadata.parallelism[entry.vertex]
            )
        tally.add(entry)
    keyed = [
        KeyedContents(
            vertex=name,
            state=of_state,
            kind=tally.kind,
            keys=tally.keys,
            entries=tally.entries,
            size=sum(tally.subtasks),
            by_key_group=dict(sorted(tally.groups.items())),
            by_subtask=tally.subtasks,
            largest=tally.largest(top),
            key_groups=metadata.max_parallelism_of(name),
        )
        for (name, of_state), tally in tallies.items()
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
    found = []
    for name in checkpoint.metadata.parallelism:
        handles = [
            handle
            for snapshot in checkpoint.metadata.subtasks
            if snapshot.vertex == name and vertex in (None, name)
            for handle in snapshot.handles
            if handle.kind in CHANNEL_STATE and handle.size
        ]
        sizes: Counter[str] = Counter()
        for handle in handles:
            sizes[handle.kind] += handle.size
        if handles:
            found.append(
                InFlight(
                    vertex=name,
                    input_bytes=sizes["input channel"],
                    output_bytes=sizes["output channel"],
                    channels=len(handles),
                )
            )
    return found
