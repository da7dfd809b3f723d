"""Keyed state in a store of table files, which may be larger than memory, and snapshots that share files.

A snapshot flushes the writes and keeps the current table files. It consists of these files and of a
catalogue, which lists the files and the states in them, and contains the metadata files of the store. Full
snapshots store all files again. Incremental snapshots refer to table files of confirmed checkpoints, and
store only the other files; the catalogue is always their own. So after a compaction, which writes old entries
to new files, the next snapshot is large. A canonical savepoint contains the entries of the tables in the
layout that all backends read. (Flink: ``RocksDBKeyedStateBackend`` with
``RocksNativeFullSnapshotStrategy``, ``RocksIncrementalSnapshotStrategy`` and ``RocksFullSnapshotStrategy``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec

from flowcontrol import SavepointFormat

from ..engine.event_clock import EventClock
from ..errors import StateError
from .backend import NO_CHECKPOINT_ID, ReadHandle, SnapshotWork, WriteFile, store_pieces
from .handles import StateFormat, StateHandle, StoredFile
from .keyed_state import FILE_NAME, KeyedStateBackend, bounds_of, encode_table, table_piece
from .state_kinds import GROUP_BYTES, StateKind
from .table_store import (
    FamilyTable,
    StoreView,
    TableOptions,
    TableStore,
    TableStores,
)
from .time_to_live import Expiry
from .value_encoding import decode_value, encode_value

LAYOUT = 3
"""Number of the layout of a catalogue."""

CATALOGUE_NAME = "catalogue"

REMEMBERED_KEYS = 1 << 16
"""Maximum number of keys of a vertex whose key groups are remembered; all keys would need too much memory."""


class TableSettings(NamedTuple):
    """The stores and options of a backend, and whether its snapshots share files.

    `first_checkpoint`: id of the first checkpoint that the attempt may take. It is part of the names of
    tables. Ids are never reused, so these names are unique among all attempts that have completed a
    checkpoint.
    """

    stores: TableStores
    options: TableOptions = TableOptions()
    incremental: bool = False
    first_checkpoint: int = 1


class Catalogue(msgspec.Struct, frozen=True, array_like=True):
    """The states and files of a snapshot.

    `states`: kinds of states by name. `tables`: file names in the store, by the names of tables. `metadata`:
    metadata files of the store by name.
    """

    layout: int
    states: dict[str, str]
    tables: dict[str, str]
    metadata: dict[str, bytes]


class TableStateBackend(KeyedStateBackend):
    """The keyed state of one subtask in a store of tables, which is opened when the first state is declared.

    Args:
        name: Name of the subtask's state, unique in the job.
        key_groups: The key groups of the subtask.
        max_parallelism: Number of all key groups.
        groups_of_keys: See `KeyedStateBackend`; this class adds at most `REMEMBERED_KEYS` to it.
        settings: The stores and options of the tables.
        clock: Time for states with a time-to-live.

    `on_flush` is called after each flush, so that its caller can begin a compaction. `accesses` counts reads
    and writes of the store.
    """

    _cleans_on_access = False

    def __init__(
        self,
        name: str,
        key_groups: range,
        max_parallelism: int,
        groups_of_keys: dict[bytes, int] | None,
        settings: TableSettings,
        clock: EventClock | None = None,
    ) -> None:
        super().__init__(key_groups, max_parallelism, groups_of_keys, clock)
        self.on_flush: Callable[[], None] = lambda: None
        self.accesses = Accesses()
        self._name = name
        self._settings = settings
        self._store: TableStore | None = None
        self._names: dict[str, str] = {}  # of tables, by file name in the store
        self._stored: dict[int, dict[str, StoredFile]] = {}  # by checkpoint and file name in the store
        self._confirmed: Mapping[str, StoredFile] = {}

    @property
    def store(self) -> TableStore:
        """The store, which is opened on first use."""
        if self._store is None:
            self._store = self._settings.stores.open(self._name, self._settings.options)
        return self._store

    def _new_table(self, kind: str, name: str) -> StoredState:
        return StoredState(name, self.store.family(name), self._written, self.accesses)

    def drop_expired(self) -> None:
        """Remove expired values, so that a compaction that begins now drops them.

        All entries of states with a time-to-live are read, and the removals are flushed.
        """
        if self._clock is not None:
            now_ms = self._clock.now_ms
            dropped = [self._drop_expired(*item, now_ms) for item in sorted(self._expiries.items())]
            if any(dropped):
                self.store.flush()

    def _drop_expired(self, name: str, expiry: Expiry, now_ms: int) -> bool:
        family, dropped = self.store.family(name), False
        for key, data in family.items():
            stored = decode_value(data)
            left = expiry.left(stored, now_ms)
            if left is not stored:
                dropped = True
                if left is None:
                    family.remove(key)
                else:
                    family.put(key, encode_value(left))
                if self.store.unflushed_bytes() >= self._settings.options.write_buffer_bytes:
                    self.store.flush()
        return dropped

    def _written(self) -> None:
        self.accesses.writes += 1
        if self.store.unflushed_bytes() >= self._settings.options.write_buffer_bytes:
            self.store.flush()
            self.on_flush()

    def _remember(self, key: bytes, key_group: int) -> int:
        known = self._groups_of_keys
        if len(known) < REMEMBERED_KEYS:
            return known.setdefault(key, key_group)
        return known.get(key, key_group)

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> TableSnapshot:
        """Flush, and keep the current files for a checkpoint; takes the time of a flush."""
        if self._store is None:
            return TableSnapshot(None, 0, self._store_entries)
        flushed, view = self._store.flush(), self._store.view()
        if savepoint is SavepointFormat.CANONICAL:
            snapshot = TableSnapshot(view, flushed, self._store_entries)
        else:
            shares = self._settings.incremental and savepoint is None
            confirmed = self._confirmed if shares else None
            snapshot = TableSnapshot(view, flushed, partial(self._store_files, checkpoint_id, confirmed))
        self.on_flush()
        return snapshot

    def _store_entries(self, view: StoreView, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the entries of a snapshot's tables, one piece for each state that has entries.

        Their layout is the one that all backends read.
        """
        pieces = []
        files = ((table.name, table.read()) for table in view.files)
        with self._beside("savepoint", files, view.metadata) as store:
            for name, (kind, _) in sorted(self._tables.items()):
                data = encode_table(kind, self._unexpired(name, store.family(name).items()))
                if data is not None:
                    pieces.append(table_piece(name, self.key_groups, data))
        return store_pieces(pieces, FILE_NAME, write, inline_up_to)

    def _unexpired(self, name: str, entries: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
        """Return the encoded entries of a state, without expired values."""
        if name not in self._expiries or self._clock is None:
            return entries
        expiry, now_ms = self._expiries[name], self._clock.now_ms
        left = ((key, expiry.left(decode_value(value), now_ms)) for key, value in entries)
        return ((key, encode_value(stored)) for key, stored in left if stored is not None)

    @contextmanager
    def _beside(
        self, suffix: str, files: Iterable[tuple[str, bytes]], metadata: Mapping[str, bytes]
    ) -> Iterator[TableStore]:
        """Open a temporary store with these files, besides the backend's own store."""
        store = self._settings.stores.open(f"{self._name}-{suffix}", self._settings.options)
        try:
            store.restore(files, metadata)
            yield store
        finally:
            store.close()

    def _store_files(
        self,
        checkpoint_id: int,
        confirmed: Mapping[str, StoredFile] | None,
        view: StoreView,
        write: WriteFile,
        inline_up_to: int,
    ) -> list[StateHandle]:
        """Store the files of a snapshot that are not stored yet; returns handles to all tables and the
        catalogue.

        `confirmed`: table files that need not be stored again; None if the snapshot shares no files.
        """
        known, stored = confirmed or {}, dict[str, StoredFile]()
        number = "" if checkpoint_id == NO_CHECKPOINT_ID else f"-{checkpoint_id}"
        handles = []
        for table in view.files:
            new_name = f"{self._name}-{self._settings.first_checkpoint}-{len(self._names) + 1}"
            name = self._names.setdefault(table.name, new_name)
            file, inline = known.get(table.name), None
            if file is None:
                if table.size > inline_up_to:
                    own = name.removeprefix(f"{self._name}-")  # `write` adds this prefix
                    file = write(f"{own}{number}", table.read(), shared=confirmed is not None)
                else:
                    inline = table.read()
            if file is not None:
                stored[table.name] = file
            handles.append(
                StateHandle(
                    kind=StateKind.KEYED,
                    name=name,
                    format=StateFormat.TABLE_FILE,
                    size=table.size,
                    inline=inline,
                    file=file,
                    key_groups=bounds_of(self.key_groups),
                    stored_before=table.name in known,
                )
            )
        kinds = {name: kind for name, (kind, _) in sorted(self._tables.items())}
        tables = {self._names[table.name]: table.name for table in view.files}
        size = len(msgspec.msgpack.encode(Catalogue(LAYOUT, kinds, tables, {}))) + view.metadata_size
        catalogue = Catalogue(LAYOUT, kinds, tables, dict(view.metadata))
        handles.append(self._store_catalogue(catalogue, size, write, inline_up_to))
        if confirmed is not None and checkpoint_id != NO_CHECKPOINT_ID:
            self._stored[checkpoint_id] = stored
        return handles

    def _store_catalogue(
        self, catalogue: Catalogue, size: int, write: WriteFile, inline_up_to: int
    ) -> StateHandle:
        data = msgspec.msgpack.encode(catalogue)
        in_file = size > inline_up_to
        return StateHandle(
            kind=StateKind.KEYED,
            name=CATALOGUE_NAME,
            format=StateFormat.CATALOGUE,
            size=size,
            inline=None if in_file else data,
            file=write(CATALOGUE_NAME, data) if in_file else None,
            key_groups=bounds_of(self.key_groups),
        )

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Add the part of the keyed state that belongs to this subtask's key groups.

        Tables of a subtask with the same key groups are taken over as files. If these files are shared, later
        incremental snapshots refer to them. From all other state, the entries of this subtask's key groups
        are copied.

        Raises:
            StorageError: if a file could not be read.
            StateError: if the bytes are not keyed state, or a name has state of another kind.
        """
        super().restore([handle for handle in handles if handle.format is StateFormat.CANONICAL], read)
        keyed = [each for each in handles if each.kind is StateKind.KEYED]
        own = [each for each in keyed if each.has_some_of(self.key_groups)]
        tables: list[StateHandle] = []
        catalogues: list[tuple[Catalogue, list[StateHandle]]] = []
        for handle in own:
            if handle.format is StateFormat.TABLE_FILE:
                tables.append(handle)
            elif handle.format is StateFormat.CATALOGUE:  # follows the tables that it lists
                catalogues.append((_catalogue(read(handle), tables), tables))
                tables = []
        if tables:
            raise StateError(
                f"the checkpoint has no catalogue for the tables of keyed state, such as {tables[0].name!r}"
            )
        ranges = [each.key_groups for each in own if each.format is StateFormat.CATALOGUE]
        if ranges == [bounds_of(self.key_groups)] and self._store is None:
            self._take_over(*catalogues[0], read)
        else:
            for catalogue, files in catalogues:
                self._copy(catalogue, files, read)

    def _take_over(self, catalogue: Catalogue, tables: Sequence[StateHandle], read: ReadHandle) -> None:
        self.store.restore(_named(catalogue, tables, read), catalogue.metadata)
        self._names = {file_name: name for name, file_name in catalogue.tables.items()}
        if self._settings.incremental:
            self._confirmed = {
                catalogue.tables[handle.name]: handle.file
                for handle in tables
                if handle.file is not None and handle.file.shared
            }
        for name, kind in catalogue.states.items():
            self._table(kind, name)

    def _copy(self, catalogue: Catalogue, tables: Sequence[StateHandle], read: ReadHandle) -> None:
        """Open tables in a temporary store, and copy the entries of this subtask's key groups."""
        groups = self.key_groups
        first, stop = (bound.to_bytes(GROUP_BYTES, "big") for bound in (groups.start, groups.stop))
        with self._beside("restored", _named(catalogue, tables, read), catalogue.metadata) as beside:
            for name, kind in catalogue.states.items():
                self._table(kind, name)
                own = self.store.family(name)
                for key, value in beside.family(name).items(first, stop):
                    own.put(key, value)
                    self._written()

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Record that later checkpoints may use the files of this checkpoint."""
        stored = self._stored.get(checkpoint_id)
        if stored is not None:
            self._confirmed = stored
            self._stored = {other: files for other, files in self._stored.items() if other > checkpoint_id}

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Record that the files of this checkpoint have been or will be deleted."""
        self._stored.pop(checkpoint_id, None)

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        if self._store is not None:
            self._store.close()


class TableSnapshot:
    """The tables of a subtask at one moment, none if `view` is None; a `BackendSnapshot`.

    `flushed_bytes`: bytes written when it was taken. `store` stores the tables and returns their handles.
    """

    def __init__(
        self,
        view: StoreView | None,
        flushed_bytes: int,
        store: Callable[[StoreView, WriteFile, int], list[StateHandle]],
    ) -> None:
        self.work = SnapshotWork(flushed_bytes=flushed_bytes, linked=int(view is not None))
        self._view = view
        self._store = store

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store what no confirmed checkpoint has stored; release all tables."""
        if self._view is None:
            return []
        try:
            return self._store(self._view, write, inline_up_to)
        finally:
            self.release()

    def release(self) -> None:
        """Release the files; a second call does nothing."""
        if self._view is not None:
            self._view.release()


def _catalogue(data: bytes, tables: Sequence[StateHandle]) -> Catalogue:
    try:
        catalogue = msgspec.msgpack.decode(data, type=Catalogue)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateError(f"the catalogue of keyed state cannot be read: {error}") from error
    if catalogue.layout != LAYOUT:
        raise StateError(f"the catalogue of keyed state has the layout {catalogue.layout}, not {LAYOUT}")
    if list(catalogue.tables) != [handle.name for handle in tables]:
        raise StateError("the catalogue of keyed state lists tables that differ from those in the checkpoint")
    return catalogue


def _named(
    catalogue: Catalogue, tables: Iterable[StateHandle], read: ReadHandle
) -> Iterator[tuple[str, bytes]]:
    """Yield the table files, each with its name in the store."""
    return ((catalogue.tables[handle.name], read(handle)) for handle in tables)


@dataclass(slots=True)
class Accesses:
    """Numbers of reads and writes of a store, from which a task computes the time that they take."""

    reads: int = 0
    writes: int = 0


class StoredState:
    """One state in a column family; a `Table` whose values are bytes in the store."""

    def __init__(
        self, name: str, family: FamilyTable, written: Callable[[], None], accesses: Accesses
    ) -> None:
        self._name = name
        self._family = family
        self._written = written
        self._accesses = accesses

    def get(self, key: bytes) -> Any | None:
        """Return the value or None."""
        self._accesses.reads += 1
        data = self._family.get(key)
        return None if data is None else decode_value(data)

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of a key.

        Raises:
            StateError: if the value has a type that cannot be stored.
        """
        try:
            data = encode_value(value)
        except StateError as error:
            raise StateError(f"state {self._name!r}: {error}") from error
        self._family.put(key, data)
        self._written()

    def append(self, key: bytes, values: Sequence[Any]) -> None:
        """Append to the list of a key."""
        self.put(key, [*(self.get(key) or ()), *values])

    def remove(self, key: bytes) -> None:
        """Remove a key, if present."""
        self._family.remove(key)
        self._written()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys, ascending; the table may be changed during the iteration."""
        return (key for key, _ in self._family.items())

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the keys with this prefix, ascending; the table may be changed during the iteration."""
        for key, _ in self._family.items(prefix):
            if not key.startswith(prefix):
                return
            yield key
