"""Keyed state in memory: the values that an operator keeps for each key, and the encoding of snapshots.

All states of a subtask share the current key, which is set before a record is processed::

    counts = backend.reducing("count", add)
    backend.set_current_key("flink", key_group)
    counts.add(1)

The table of a state is ordered by key group, so that after rescaling a subtask finds its part. Two keys are
equal if their bytes are equal, so 1, 1.0 and True are three keys. A value that was put into a state or
returned by it must not be modified afterwards, unless it is put again at once. With a `StateTtlConfig`,
values expire. (Flink: ``HeapKeyedStateBackend`` and its states.)

A snapshot has one table for each state, with the entries ordered by key: a msgpack array ``[layout, kind,
[key, value, key, value, ...]]``. A key is a byte string: two bytes of key group, big-endian, and the key as
encoded by `value_encoding`. Equal state has equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import msgspec

from flowcontrol import SavepointFormat

from ..engine.event_clock import EventClock
from ..errors import StateError
from .backend import (
    NO_CHECKPOINT_ID,
    BackendSnapshot,
    InMemory,
    ReadHandle,
    SnapshotWork,
    WriteFile,
    store_pieces,
)
from .changelog import Change, Changelog, LoggedTable, Operation
from .copy_on_write import CopyOnWriteMap, MapSnapshot
from .handles import StateFormat, StateHandle
from .state_kinds import (
    GROUP_BYTES,
    WITH_TTL,
    AggregatingState,
    CopyOnWriteMaps,
    CurrentKey,
    KeyedState,
    ListState,
    MapState,
    ReducingState,
    StateKind,
    Table,
    ValueState,
    class_of,
    parts_of,
)
from .time_to_live import Expiry, StateTtlConfig, TtlListTable, TtlTable
from .value_encoding import decode_value, encode_value

__all__ = ["KeyedStateBackend"]

V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")

LAYOUT = 1
"""Number of the layout of a table; tables with another number are rejected."""

FILE_NAME = "keyed"

LEAST_ENTRY_BYTES = 6
"""Minimum size of an entry: a key with its length and key group, and a value."""


class KeyedSnapshot:
    """All keyed states of a subtask at one moment; a `BackendSnapshot`."""

    def __init__(
        self,
        key_groups: range,
        tables: Mapping[str, tuple[str, MapSnapshot[bytes, Any]]],
        expiries: Mapping[str, Expiry],
        now_ms: int,
    ) -> None:
        self._key_groups = key_groups
        self._tables = tables
        self._expiries = expiries
        lasting = [len(table) for name, (_, table) in tables.items() if name not in expiries]
        self.work = SnapshotWork(entry_bytes=sum(lasting) * LEAST_ENTRY_BYTES)
        self._now_ms = now_ms

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the states that have entries, one handle for each, and release them."""
        try:
            return store_pieces(list(self._pieces()), FILE_NAME, write, inline_up_to)
        finally:
            self.release()

    def release(self) -> None:
        """Release the data kept for the snapshot."""
        for _, table in self._tables.values():
            table.release()

    def _pieces(self) -> Iterator[tuple[StateHandle, bytes]]:
        for name, (kind, table) in sorted(self._tables.items(), key=lambda item: item[0]):
            entries = table.items()
            if name in self._expiries:
                left = partial(self._expiries[name].left, now_ms=self._now_ms)
                kept = ((key, left(stored)) for key, stored in entries)
                entries = [(key, stored) for key, stored in kept if stored is not None]
            data = encode_table(kind, _encoded(name, entries))
            if data is not None:
                yield table_piece(name, self._key_groups, data)


def _encoded(name: str, entries: Iterable[tuple[bytes, Any]]) -> Iterator[tuple[bytes, bytes]]:
    try:
        for key, value in entries:
            yield key, encode_value(value)
    except StateError as error:
        raise StateError(f"state {name!r}: {error}") from error


def encode_table(kind: str, entries: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the bytes of a table with these keys and encoded values; None if the table is empty."""
    flat: list[bytes | msgspec.Raw] = []
    for key, value in entries:
        flat += key, msgspec.Raw(value)
    return msgspec.msgpack.encode((LAYOUT, kind, flat)) if flat else None


def table_piece(name: str, key_groups: range, table: bytes) -> tuple[StateHandle, bytes]:
    """Return the table of a state, with its handle for `store_pieces`."""
    groups = bounds_of(key_groups)
    return StateHandle(kind=StateKind.KEYED, name=name, size=len(table), key_groups=groups), table


def bounds_of(key_groups: range) -> tuple[int, int]:
    """Return the first and the last key group, as in `StateHandle`."""
    return key_groups.start, key_groups.stop - 1


def decode_table(data: bytes) -> tuple[str, list[tuple[bytes, Any]]]:
    """Return the kind of a state and its entries from the bytes of a table.

    Raises:
        StateError: if the bytes are not a table, or have an unknown layout.
    """
    match decode_value(data):
        case [layout, str(kind), [*flat]] if layout == LAYOUT and len(flat) % 2 == 0 and _are_keys(flat[::2]):
            return kind, list(zip(flat[::2], flat[1::2], strict=True))
        case _:
            raise StateError("the stored keyed state is damaged: it cannot be read as keys and values")


def _are_keys(keys: list[Any]) -> bool:
    return {*map(type, keys)} <= {bytes} and min(map(len, keys), default=GROUP_BYTES) >= GROUP_BYTES


class KeyedStateBackend(InMemory):
    """The keyed state of one subtask, in memory; a `StateBackend`.

    Args:
        key_groups: The key groups of the subtask.
        max_parallelism: Number of all key groups.
        groups_of_keys: The key group of each key that any subtask of the vertex has seen. The subtasks share
            this mapping, so that no two of them keep state for the same key.
        clock: Time for states with a time-to-live.
    """

    _cleans_on_access = True
    """Whether each use of a state also removes some expired entries."""

    def __init__(
        self,
        key_groups: range,
        max_parallelism: int,
        groups_of_keys: dict[bytes, int] | None = None,
        clock: EventClock | None = None,
    ) -> None:
        self.key_groups = key_groups
        self.max_parallelism = max_parallelism
        self._groups_of_keys = {} if groups_of_keys is None else groups_of_keys
        self._current = CurrentKey()
        self._tables: dict[str, tuple[str, Table]] = {}  # kind of state and table, by name
        self._maps: dict[str, CopyOnWriteMap[bytes, Any]] = {}  # the same tables
        self._log: Changelog | None = None
        self._clock = clock
        self._expiries: dict[str, Expiry] = {}

    @property
    def has_expiring_states(self) -> bool:
        """Whether a state with a time-to-live has been used."""
        return bool(self._expiries)

    def log_to(self, log: Changelog) -> None:
        """Log the changes of all states; called before the first state is created."""
        self._log = log

    def set_current_key(self, key: Any, key_group: int) -> None:
        """Set the current key for all states.

        Raises:
            StateError: if the key has a type that cannot be stored, belongs to a key group of another
                subtask, or was seen before with another key group.
        """
        if key_group not in self.key_groups:
            first, last = bounds_of(self.key_groups)
            raise StateError(
                f"key group {key_group} does not belong to this subtask, which has the key groups "
                f"{first} to {last}"
            )
        encoded = encode_value(key)
        if self._remember(encoded, key_group) != key_group:
            self._refuse(encoded, key_group)
        self._current.prefixed = key_group.to_bytes(GROUP_BYTES, "big") + encoded

    def _remember(self, key: bytes, key_group: int) -> int:
        """Return the key group with which a key was first seen; for a new key, the given one."""
        return self._groups_of_keys.setdefault(key, key_group)

    def _refuse(self, key: bytes, key_group: int) -> NoReturn:
        groups = f"{self._groups_of_keys[key]} and {key_group}"
        raise StateError(
            f"the key {decode_value(key)!r} arrived with the key groups {groups}, so its state would be "
            "split: the exchange distributes the records by another key; give the edge a key_hash that "
            "is the hash of this key, or no key_hash"
        )

    def value(self, name: str, default: Any = None, *, ttl: StateTtlConfig | None = None) -> ValueState[Any]:
        """Return the value state with this name.

        Raises:
            StateError: if the name belongs to a state of another kind, or if only one of the two states has a
                time-to-live. The other methods that return states raise it too.
        """
        return ValueState(self._declared(ValueState, name, ttl), self._current, default)

    def list(self, name: str, *, ttl: StateTtlConfig | None = None) -> ListState[Any]:
        """Return the list state with this name; each element has its own time-to-live."""
        return ListState(self._declared(ListState, name, ttl), self._current)

    def map(self, name: str, *, ttl: StateTtlConfig | None = None) -> MapState[Any, Any]:
        """Return the map state with this name; each entry has its own time-to-live."""
        return MapState(self._declared(MapState, name, ttl), self._current)

    def reducing(
        self, name: str, function: Callable[[V, V], V], *, ttl: StateTtlConfig | None = None
    ) -> ReducingState[V]:
        """Return the reducing state with this name; ``function`` combines the current value with an added
        one.
        """
        return ReducingState(self._declared(ReducingState, name, ttl), self._current, function)

    def aggregating(
        self,
        name: str,
        create: Callable[[], A],
        add: Callable[[A, V], A],
        result: Callable[[A], R],
        *,
        ttl: StateTtlConfig | None = None,
    ) -> AggregatingState[V, A, R]:
        """Return the aggregating state with this name; ``add`` returns the accumulator and may modify it."""
        table = self._declared(AggregatingState, name, ttl)
        return AggregatingState(table, self._current, create, add, result)

    def _declared(self, state: type[KeyedState[Any]], name: str, ttl: StateTtlConfig | None) -> Any:
        """Return the table of a state. With a time-to-live, this table hides expired values."""
        if ttl is None:
            return self._table(state.kind, name)
        if self._clock is None:
            raise StateError(
                f"state {name!r} has a time-to-live, but this backend was created without a clock"
            )
        table: Any = self._table(state.kind + WITH_TTL, name)
        self._expiries[name] = expiry = Expiry(ttl.ttl_ms, of_elements=state.has_elements)
        wrapper = TtlListTable if state.has_elements else TtlTable
        return wrapper(table, ttl, expiry, self._clock, cleans=self._cleans_on_access)

    def tables(self) -> Iterator[tuple[str, str, Table]]:
        """Return name, kind and table of each state, ordered by name."""
        return ((name, kind, table) for name, (kind, table) in sorted(self._tables.items()))

    def _table(self, kind: str, name: str) -> Table:
        if name not in self._tables:
            table = self._new_table(kind, name)
            if self._log is not None:
                table = LoggedTable(table, self._log, kind, name)
            self._tables[name] = kind, table
        known, table = self._tables[name]
        if known != kind:
            raise StateError(
                f"state {name!r} has the kind {known}, so it cannot be used with the kind {kind}"
            )
        return table

    def _new_table(self, kind: str, name: str) -> Table:
        table = self._maps[name] = CopyOnWriteMaps() if class_of(kind).has_entries else CopyOnWriteMap()
        return table

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> BackendSnapshot:
        """Mark the current states, without expired values.

        The duration depends only on the number of states.
        """
        tables = {name: (self._tables[name][0], table.snapshot()) for name, table in self._maps.items()}
        expired_by = 0 if self._clock is None else self._clock.now_ms
        return KeyedSnapshot(self.key_groups, tables, dict(self._expiries), expired_by)

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Add the part of the keyed state that belongs to this subtask's key groups.

        Raises:
            StorageError: if a file could not be read.
            StateError: if the bytes are not keyed state, or a name has state of another kind.
        """
        for handle in handles:
            if handle.kind is StateKind.KEYED and handle.has_some_of(self.key_groups):
                if handle.format is not StateFormat.CANONICAL:
                    needs = "set state.backend.type to rocksdb, since hashmap cannot restore that format"
                    raise StateError(f"the keyed state is stored as a {handle.format}; {needs}")
                kind, entries = decode_table(read(handle))
                table = self._table(kind, handle.name)
                for key, value in entries:
                    if self._takes(kind, key):
                        require_shape(kind, handle.name, value)
                        table.put(key, value)

    def replay(self, change: Change) -> None:
        """Apply a logged change, if its key belongs to this subtask.

        Raises:
            StateError: if the name has state of another kind, or the value does not fit the state.
        """
        table = self._table(change.kind, change.name)
        if not self._takes(change.kind, change.key):
            return
        if change.operation is not Operation.REMOVE:
            require_shape(change.kind, change.name, change.value)
        match change.operation:
            case Operation.PUT:
                table.put(change.key, change.value)
            case Operation.APPEND:
                if not class_of(change.kind).has_elements:
                    raise StateError(
                        f"a change adds an element to state {change.name!r}, but this state is of kind "
                        f"{change.kind}"
                    )
                table.append(change.key, change.value)
            case Operation.REMOVE:
                table.remove(change.key)

    def _takes(self, kind: str, key: bytes) -> bool:
        """Whether a stored key belongs to this subtask; also remembers its key group."""
        if class_of(kind).has_entries:
            key = parts_of(key)[0]
        group, plain = int.from_bytes(key[:GROUP_BYTES], "big"), key[GROUP_BYTES:]
        if group not in self.key_groups:
            return False
        if self._remember(plain, group) != group:
            self._refuse(plain, group)
        return True


def require_shape(kind: str, name: str, value: Any) -> None:
    """Check that a stored value has the shape that its kind of state requires.

    Raises:
        StateError: if the value has another shape.
    """
    timed, is_list = kind.endswith(WITH_TTL), class_of(kind).has_elements
    if not (timed or is_list):
        return
    elements = value if is_list else [value]
    right = type(elements) is list and (not timed or all(map(_has_time, elements)))
    if not right:
        raise StateError(f"state {name!r} is of kind {kind}, but one of its stored values has another form")


def _has_time(stored: Any) -> bool:
    return type(stored) is list and len(stored) == 2 and type(stored[1]) is int
