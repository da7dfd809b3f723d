"""The content of a checkpoint, entry by entry: a small counterpart of Flink's state processor API.

Keyed state is first restored into a state backend, and then read from this backend. So the entries are the
same as in a restored job, in every format of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import StateError
from ..exchange.key_groups import key_group_range
from ..state.backend import ReadHandle
from ..state.changelog import restore_logged
from ..state.handles import WHOLE_FILES, StateHandle
from ..state.keyed_state import KeyedStateBackend, require_shape
from ..state.operator_state import list_in
from ..state.state_kinds import GROUP_BYTES, WITH_TTL, StateKind, class_of, parts_of
from ..state.table_backend import TableSettings, TableStateBackend
from ..state.table_store import TableStores
from ..state.value_encoding import decode_value, encode_value
from .metadata import CheckpointMetadata, SubtaskSnapshot

__all__ = ["StateEntry", "keyed_entries", "operator_lists"]


class StateEntry(NamedTuple):
    """One entry of keyed state; `key_in_map` is set for map state only.

    `size` is the size of the entry in a table, in bytes, without the key group.
    """

    vertex: str
    subtask: int
    state: str
    kind: str
    key_group: int
    key: Any
    key_in_map: Any
    value: Any
    size: int

    @property
    def is_in_map(self) -> bool:
        """Whether it is an entry of a map."""
        return class_of(self.kind).has_entries

    @property
    def values(self) -> int:
        """Number of values: the length of a list, else 1."""
        return len(self.value) if class_of(self.kind).has_elements else 1


def keyed_entries(
    metadata: CheckpointMetadata,
    snapshot: SubtaskSnapshot,
    read: ReadHandle,
    tables: TableStores | None = None,
    state: str | None = None,
) -> Iterator[StateEntry]:
    """Yield the keyed state of one subtask, ordered by state, key group and key.

    Args:
        metadata: The checkpoint.
        snapshot: The state of one subtask in the checkpoint.
        read: Returns the bytes of a handle.
        tables: Opens table stores, which state in files of RocksDB requires.
        state: Name of the only state to read; None: all states.

    Raises:
        StorageError: if a file could not be read.
        StateError: if the bytes are not keyed state, or they are files of RocksDB and `tables` is None.
    """
    handles = [handle for handle in snapshot.handles if handle.kind is StateKind.KEYED]
    backend = _backend_of(metadata, snapshot, handles, tables)
    try:
        restore_logged(backend, handles, read)
        for name, kind, table in backend.tables():
            if state is None or name == state:
                for key in table:
                    value = table.get(key)
                    if value is not None:
                        require_shape(kind, name, value)
                        yield _entry(
                            snapshot, name, kind.removesuffix(WITH_TTL), key, _without_times(kind, value)
                        )
    finally:
        backend.close()


def _backend_of(
    metadata: CheckpointMetadata,
    snapshot: SubtaskSnapshot,
    handles: Sequence[StateHandle],
    tables: TableStores | None,
) -> KeyedStateBackend:
    most, parallelism = metadata.max_parallelism_of(snapshot.vertex), metadata.parallelism[snapshot.vertex]
    groups = key_group_range(most, parallelism, snapshot.subtask)
    if not any(handle.format in WHOLE_FILES for handle in handles):
        return KeyedStateBackend(groups, most)
    if tables is None:
        raise StateError(f"the state of {snapshot.vertex} is in files of RocksDB; pass `tables` to open them")
    name = f"{snapshot.vertex}-{snapshot.subtask}"
    return TableStateBackend(name, groups, most, None, TableSettings(tables))


def _without_times(kind: str, stored: Any) -> Any:
    """Return a stored value without timestamps, which only state with a time to live has."""
    if not kind.endswith(WITH_TTL):
        return stored
    return [value for value, _ in stored] if class_of(kind).has_elements else stored[0]


def _entry(snapshot: SubtaskSnapshot, name: str, kind: str, key: bytes, value: Any) -> StateEntry:
    size = len(key) - GROUP_BYTES + len(encode_value(value))
    in_map = None
    if class_of(kind).has_entries:
        key, encoded = parts_of(key)
        in_map = decode_value(encoded)
    group, plain = int.from_bytes(key[:GROUP_BYTES], "big"), decode_value(key[GROUP_BYTES:])
    return StateEntry(snapshot.vertex, snapshot.subtask, name, kind, group, plain, in_map, value, size)


class StateList(NamedTuple):
    """One list of operator state of a subtask; `size` is in bytes."""

    vertex: str
    subtask: int
    state: str
    redistribution: str
    values: list[Any]
    size: int


def operator_lists(snapshot: SubtaskSnapshot, read: ReadHandle) -> Iterator[StateList]:
    """Yield the operator state of one subtask, including positions of sources.

    Raises:
        StorageError: if a file could not be read.
        StateError: if the bytes are not operator state.
    """
    for handle in snapshot.handles:
        if handle.kind is StateKind.OPERATOR:
            yield StateList(
                snapshot.vertex,
                snapshot.subtask,
                handle.name,
                str(handle.redistribution),
                list_in(handle, read),
                handle.size,
            )
