"""Keyed state: for each key, the values that an operator keeps for it.

All states of a subtask share the current key, which is set before a record is processed::

    counts = backend.reducing("count", add)
    backend.set_current_key("flink", key_group)
    counts.add(1)

A table of a state is ordered by key group, so that a subtask of another parallelism finds its part. Two keys
are the same if their bytes are: 1, 1.0 and True are three. What is put into a state, or got from it, must
not be changed afterwards unless it is put again at once. (Flink: ``HeapKeyedStateBackend`` and its states.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from flowcontrol import SavepointFormat

from .backend import NO_CHECKPOINT_ID, BackendSnapshot, ReadHandle
from .changelog import Change, Changelog, LoggedTable, Operation
from .copy_on_write import CopyOnWriteMap
from .keyed_snapshot import KeyedSnapshot, decode_table
from .map_state import MAP, CopyOnWriteMaps, MapState, parts_of
from .snapshots import StateFormat, StateHandle, StateKind
from .table import GROUP_BYTES, CurrentKey, Table
from .values import StateError, copy_value, decode_value, encode_value

V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


class KeyedState(Generic[V]):
    """What the kinds of state have in common; ``V`` is what reading gives."""

    __slots__ = ("_current", "_table")

    def __init__(self, table: Table, current: CurrentKey) -> None:
        self._table = table
        self._current = current

    def clear(self) -> None:
        """Forget what is kept for the current key."""
        self._table.remove(self._current.get())

    def items(self) -> Iterator[tuple[Any, V]]:
        """All keys with what is kept for them, by key group and then by the bytes of the key.

        The current key stays as it is. Keys that are cleared meanwhile are left out.
        """
        for prefixed in self._table:
            stored = self._table.get(prefixed)
            if stored is not None:
                yield decode_value(prefixed[GROUP_BYTES:]), self._read(stored)

    def _read(self, stored: Any) -> V:
        value: V = stored
        return value

    def _write(self, key: bytes, value: Any) -> None:
        if value is None:
            self._table.remove(key)
        else:
            self._table.put(key, value)


class ValueState(KeyedState[V]):
    """One value for each key (Flink: ``ValueState``)."""

    __slots__ = ("_default",)

    def __init__(self, table: Table, current: CurrentKey, default: Any) -> None:
        super().__init__(table, current)
        self._default = default

    def get(self) -> V:
        """Return the value, or the default if there is none."""
        value = self._table.get(self._current.get())
        result: V = copy_value(self._default) if value is None else value
        return result

    def update(self, value: V | None) -> None:
        """Set the value; None clears it."""
        self._write(self._current.get(), value)


class ListState(KeyedState[list[V]]):
    """A list of values for each key (Flink: ``ListState``)."""

    __slots__ = ()

    def get(self) -> list[V]:
        """Return the list, empty if there is none."""
        values = self._table.get(self._current.get())
        return [] if values is None else values

    def add(self, value: V) -> None:
        """Append a value."""
        self.add_all((value,))

    def add_all(self, values: Iterable[V]) -> None:
        """Append values."""
        added = list(values)
        if added:
            self._table.append(self._current.get(), added)

    def update(self, values: Iterable[V]) -> None:
        """Replace the list; no values clear it."""
        self._write(self._current.get(), list(values) or None)


class ReducingState(KeyedState[V]):
    """One value for each key, which added ones are reduced into (Flink: ``ReducingState``)."""

    __slots__ = ("_function",)

    def __init__(self, table: Table, current: CurrentKey, function: Callable[[V, V], V]) -> None:
        super().__init__(table, current)
        self._function = function

    def get(self) -> V | None:
        """Return the reduced value, None if nothing was added."""
        value: V | None = self._table.get(self._current.get())
        return value

    def add(self, value: V) -> None:
        """Reduce a value into what there is."""
        key = self._current.get()
        kept = self._table.get(key)
        self._write(key, value if kept is None else self._function(kept, value))


class AggregatingState(KeyedState[R], Generic[V, A, R]):
    """One accumulator ``A`` for each key, to which values ``V`` are added and which gives a result ``R``.

    Flink: ``AggregatingState`` with an ``AggregateFunction``. An accumulator may not be None.
    """

    __slots__ = ("_add", "_create", "_result")

    def __init__(
        self,
        table: Table,
        current: CurrentKey,
        create: Callable[[], A],
        add: Callable[[A, V], A],
        result: Callable[[A], R],
    ) -> None:
        super().__init__(table, current)
        self._create = create
        self._add = add
        self._result = result

    def get(self) -> R | None:
        """Return the result of what was added, None if that is nothing."""
        accumulator = self._table.get(self._current.get())
        return None if accumulator is None else self._result(accumulator)

    def add(self, value: V) -> None:
        """Add a value to the accumulator."""
        key = self._current.get()
        kept = self._table.get(key)
        self._write(key, self._add(self._create() if kept is None else kept, value))

    def _read(self, stored: Any) -> R:
        return self._result(stored)


class KeyedStateBackend:
    """The keyed state of one subtask, in memory; a `StateBackend`.

    Args:
        key_groups: Those that the subtask owns.
        max_parallelism: Number of all key groups.
        groups_of_keys: The key group of each key that any subtask of the vertex has met, shared by all of
            them: so none can have state for a key that another one has state for.
    """

    def __init__(
        self, key_groups: range, max_parallelism: int, groups_of_keys: dict[bytes, int] | None = None
    ) -> None:
        self.key_groups = key_groups
        self.max_parallelism = max_parallelism
        self._groups_of_keys = {} if groups_of_keys is None else groups_of_keys
        self._current = CurrentKey()
        self._tables: dict[str, tuple[str, Table]] = {}  # kind of state and table, by name
        self._maps: dict[str, CopyOnWriteMap[bytes, Any]] = {}  # the same tables
        self._log: Changelog | None = None

    def log_to(self, log: Changelog) -> None:
        """Have the changes of all states, of which there are none yet, go to a log too."""
        self._log = log

    def set_current_key(self, key: Any, key_group: int) -> None:
        """Make all states refer to this key.

        Raises:
            StateError: The key is of a type that cannot be stored, of a key group of another subtask, or has
                been met with another key group.
        """
        if key_group not in self.key_groups:
            first, last = self.key_groups.start, self.key_groups.stop - 1
            raise StateError(f"key group {key_group} is not one of this subtask's, {first} to {last}")
        encoded = encode_value(key)
        if self._remember(encoded, key_group) != key_group:
            self._refuse(encoded, key_group)
        self._current.prefixed = key_group.to_bytes(GROUP_BYTES, "big") + encoded

    def _remember(self, key: bytes, key_group: int) -> int:
        """Return the key group that a key was met with first, which is this one if it was not met."""
        return self._groups_of_keys.setdefault(key, key_group)

    def _refuse(self, key: bytes, key_group: int) -> NoReturn:
        groups = f"{self._groups_of_keys[key]} and {key_group}"
        raise StateError(
            f"records of the key {decode_value(key)!r} come with the key groups {groups}, which would split "
            "its state: the exchange does not deal them out by this key; give the edge the hash of the key "
            "as key_hash, or none"
        )

    def value(self, name: str, default: Any = None) -> ValueState[Any]:
        """Return the value state of that name.

        Raises:
            StateError: The name is that of a state of another kind; so with the others.
        """
        return ValueState(self._table("value", name), self._current, default)

    def list(self, name: str) -> ListState[Any]:
        """Return the list state of that name."""
        return ListState(self._table("list", name), self._current)

    def reducing(self, name: str, function: Callable[[V, V], V]) -> ReducingState[V]:
        """Return the reducing state of that name; ``function`` combines what is kept with what is added."""
        return ReducingState(self._table("reducing", name), self._current, function)

    def aggregating(
        self, name: str, create: Callable[[], A], add: Callable[[A, V], A], result: Callable[[A], R]
    ) -> AggregatingState[V, A, R]:
        """Return the aggregating state of that name; ``add`` returns the accumulator, which it may change."""
        return AggregatingState(self._table("aggregating", name), self._current, create, add, result)

    def map(self, name: str) -> MapState[Any, Any]:
        """Return the map state of that name."""
        return MapState(self._table(MAP, name), self._current)

    def tables(self) -> Iterator[tuple[str, str, Table]]:
        """Name and kind of each state, by name, and the table that it is kept in."""
        return ((name, kind, table) for name, (kind, table) in sorted(self._tables.items()))

    def _table(self, kind: str, name: str) -> Table:
        if name not in self._tables:
            table = self._new_table(kind, name)
            self._tables[name] = (
                kind,
                table if self._log is None else LoggedTable(table, self._log, kind, name),
            )
        known, table = self._tables[name]
        if known != kind:
            raise StateError(f"state {name!r} is of kind {known}, not {kind}")
        return table

    def _new_table(self, kind: str, name: str) -> Table:
        table = self._maps[name] = CopyOnWriteMaps() if kind == MAP else CopyOnWriteMap()
        return table

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> BackendSnapshot:
        """Mark all states as they are now; takes time by their number only, and is always canonical."""
        tables = {name: (self._tables[name][0], table.snapshot()) for name, table in self._maps.items()}
        return KeyedSnapshot(self.key_groups, tables)

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Add the part of the keyed state that belongs to this subtask's key groups.

        Raises:
            StorageError: A file could not be read.
            StateError: The bytes are not those of keyed state, or a name has state of another kind.
        """
        for handle in handles:
            if handle.kind is StateKind.KEYED and self._owns_some_of(handle):
                if handle.format is not StateFormat.CANONICAL:
                    needs = "state.backend.type: rocksdb restores it, hashmap does not"
                    raise StateError(f"keyed state is stored as a {handle.format}: {needs}")
                kind, entries = decode_table(read(handle))
                table = self._table(kind, handle.name)
                for key, value in entries:
                    if self._takes(kind, key):
                        table.put(key, value)

    def replay(self, change: Change) -> None:
        """Make a change that a log has kept, if its key is one of this subtask's.

        Raises:
            StateError: The name has state of another kind.
        """
        table = self._table(change.kind, change.name)
        if not self._takes(change.kind, change.key):
            return
        match change.operation:
            case Operation.PUT:
                table.put(change.key, change.value)
            case Operation.APPEND:
                table.append(change.key, change.value)
            case Operation.REMOVE:
                table.remove(change.key)

    def _takes(self, kind: str, key: bytes) -> bool:
        """Whether a key that was stored is one of this subtask's; its key group is known from then on."""
        if kind == MAP:
            key = parts_of(key)[0]
        group, plain = int.from_bytes(key[:GROUP_BYTES], "big"), key[GROUP_BYTES:]
        if group not in self.key_groups:
            return False
        if self._remember(plain, group) != group:
            self._refuse(plain, group)
        return True

    def _owns_some_of(self, handle: StateHandle) -> bool:
        if handle.key_groups is None:
            return True
        first, last = handle.key_groups
        return first < self.key_groups.stop and self.key_groups.start <= last

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Nothing to do: every checkpoint stores all of the state."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do: the state is in memory."""
