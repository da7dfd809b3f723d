"""The kinds of state, and those of keyed state: value, list, reducing, aggregating and map.

All keyed states of a subtask share the current key. Each keeps its value for this key in one entry of its
table. A map state has one table entry for each entry of the map, so a large map is never rewritten. The table
key of such an entry consists of key group, key, key in the map, and the length of the key in the map (4
bytes), which separates the two keys. No encoded key is a prefix of another one. So the entries of one map are
all those whose table key begins with the map's key group and key. They are ordered by the bytes of their keys
in the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ..errors import StateError
from .copy_on_write import CopyOnWriteMap
from .value_encoding import copy_value, decode_value, encode_value

__all__ = [
    "CHANNEL_STATE",
    "AggregatingState",
    "ListState",
    "MapState",
    "ReducingState",
    "StateKind",
    "ValueState",
]


class StateKind(StrEnum):
    """The type of a piece of state: keyed, operator or channel state."""

    KEYED = "keyed"
    OPERATOR = "operator"
    INPUT_CHANNEL = "input channel"
    OUTPUT_CHANNEL = "output channel"


CHANNEL_STATE = frozenset({StateKind.INPUT_CHANNEL, StateKind.OUTPUT_CHANNEL})
"""Kinds of state that exist only in unaligned checkpoints: data that the barrier has overtaken."""


GROUP_BYTES = 2
"""Size in bytes of the key group in front of each key of a table."""


class CurrentKey:
    """The current key of all states of a subtask: key group and bytes; empty if none is set."""

    __slots__ = ("prefixed",)

    def __init__(self) -> None:
        self.prefixed = b""

    def get(self) -> bytes:
        """Return the key.

        Raises:
            StateError: if no key has been set.
        """
        if not self.prefixed:
            raise StateError("keyed state was used before a key was set")
        return self.prefixed


class Table(Protocol):
    """The entries of one state. Its keys consist of key group and key, as bytes; None cannot be a value."""

    def get(self, key: bytes) -> Any | None:
        """Return the value or None. After modifying a value in place, the caller has to put it again."""

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of a key."""

    def append(self, key: bytes, values: Sequence[Any]) -> None:
        """Append to the list of a key; creates the list if the key has none."""

    def remove(self, key: bytes) -> None:
        """Remove a key, if present."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys, ascending; the table may be changed during the iteration."""

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the keys with this prefix, ascending; the table may be changed during the iteration."""


V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


class KeyedState(Generic[V]):
    """Base of the kinds of state, which declare how they are stored; ``V`` is the type of the values read."""

    __slots__ = ("_current", "_table")

    kind: ClassVar[str] = ""
    """Name of the kind in stored state."""
    has_elements: ClassVar[bool] = False
    """Whether the value of a key is a list. Each element has its own time-to-live."""
    has_entries: ClassVar[bool] = False
    """Whether each key has a map, with a table entry for each entry of the map."""

    def __init__(self, table: Table, current: CurrentKey) -> None:
        self._table = table
        self._current = current

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._table.remove(self._current.get())

    def items(self) -> Iterator[tuple[Any, V]]:
        """Yield all keys with their values, ordered by key group and then by the bytes of the key.

        The current key does not change. Keys that are cleared during the iteration are skipped.
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

    kind = "value"

    def __init__(self, table: Table, current: CurrentKey, default: Any) -> None:
        super().__init__(table, current)
        self._default = default

    def get(self) -> V:
        """Return the value, or the default if no value is set."""
        value = self._table.get(self._current.get())
        result: V = copy_value(self._default) if value is None else value
        return result

    def update(self, value: V | None) -> None:
        """Set the value; None clears it."""
        self._write(self._current.get(), value)


class ListState(KeyedState[list[V]]):
    """A list of values for each key (Flink: ``ListState``)."""

    __slots__ = ()

    kind = "list"
    has_elements = True

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
        """Replace the list; an empty list clears it."""
        self._write(self._current.get(), list(values) or None)


class ReducingState(KeyedState[V]):
    """One value for each key; each added value is combined with it (Flink: ``ReducingState``)."""

    __slots__ = ("_function",)

    kind = "reducing"

    def __init__(self, table: Table, current: CurrentKey, function: Callable[[V, V], V]) -> None:
        super().__init__(table, current)
        self._function = function

    def get(self) -> V | None:
        """Return the reduced value, or None if nothing was added."""
        value: V | None = self._table.get(self._current.get())
        return value

    def add(self, value: V) -> None:
        """Combine the current value with `value`, and store the result."""
        key = self._current.get()
        kept = self._table.get(key)
        self._write(key, value if kept is None else self._function(kept, value))


class AggregatingState(KeyedState[R], Generic[V, A, R]):
    """One accumulator ``A`` for each key.

    Values ``V`` are added to it, and a result ``R`` is computed from it. Flink: ``AggregatingState`` with an
    ``AggregateFunction``. An accumulator may not be None.
    """

    __slots__ = ("_add", "_create", "_result")

    kind = "aggregating"

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
        """Return the result of the added values, or None if no value was added."""
        accumulator = self._table.get(self._current.get())
        return None if accumulator is None else self._result(accumulator)

    def add(self, value: V) -> None:
        """Add a value to the accumulator."""
        key = self._current.get()
        kept = self._table.get(key)
        self._write(key, self._add(self._create() if kept is None else kept, value))

    def _read(self, stored: Any) -> R:
        return self._result(stored)


K = TypeVar("K")

LONGEST_KEY = (1 << 16) - 1
"""Maximum length of an entry's key, in bytes."""

_LENGTH_BYTES = 4


def entry_key(key: bytes, key_in_map: bytes) -> bytes:
    """Return the table key of an entry of a map.

    Raises:
        StateError: if the key is too long for a changelog.
    """
    entry = key + key_in_map + len(key_in_map).to_bytes(_LENGTH_BYTES, "big")
    if len(entry) > LONGEST_KEY:
        text = (
            f"the two keys of an entry of map state have {len(entry)} bytes together; at most "
            f"{LONGEST_KEY} are allowed"
        )
        raise StateError(text)
    return entry


def parts_of(entry: bytes) -> tuple[bytes, bytes]:
    """Return the current key with its key group, and the key in the map.

    Raises:
        StateError: if `entry` is not the table key of a map's entry.
    """
    ends = len(entry) - _LENGTH_BYTES
    begins = ends - int.from_bytes(entry[ends:], "big")
    if begins < GROUP_BYTES or ends < 0:
        raise StateError("an entry of map state has a damaged key")
    return entry[:begins], entry[begins:ends]


class MapState(KeyedState[dict[K, V]], Generic[K, V]):
    """A map for each key (Flink: ``MapState``). None cannot be a value.

    Like keys of state, two keys in the map are equal if their bytes are equal.
    """

    __slots__ = ()

    kind = "map"
    has_entries = True

    def get(self, key: K) -> V | None:
        """Return the value of a key in the map, or None."""
        value: V | None = self._table.get(self._entry(key))
        return value

    def put(self, key: K, value: V) -> None:
        """Set the value of a key in the map; None removes it."""
        if value is None:
            self.remove(key)
        else:
            self._table.put(self._entry(key), value)

    def put_all(self, values: Mapping[K, V]) -> None:
        """Set the values of several keys in the map."""
        for key, value in values.items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove a key from the map, if present."""
        self._table.remove(self._entry(key))

    def __contains__(self, key: K) -> bool:
        return self._table.get(self._entry(key)) is not None

    def entries(self) -> Iterator[tuple[K, V]]:
        """Yield the keys in the map with their values; entries added during the iteration may be missing."""
        for entry in self._table.beginning_with(self._current.get()):
            value = self._table.get(entry)
            if value is not None:
                yield decode_value(parts_of(entry)[1]), value

    def keys(self) -> Iterator[K]:
        """Return the keys in the map."""
        return (key for key, _ in self.entries())

    def values(self) -> Iterator[V]:
        """Return the values in the map, in the order of their keys."""
        return (value for _, value in self.entries())

    @property
    def is_empty(self) -> bool:
        """Whether the map has no entries."""
        return next(self.entries(), None) is None

    def clear(self) -> None:
        """Remove the map of the current key."""
        for entry in list(self._table.beginning_with(self._current.get())):
            self._table.remove(entry)

    def items(self) -> Iterator[tuple[Any, dict[K, V]]]:
        """Yield all keys with their maps, ordered by key group and then by the bytes of the key."""
        key, entries = b"", dict[K, V]()
        for entry in self._table:
            value = self._table.get(entry)
            if value is None:
                continue
            of_key, in_map = parts_of(entry)
            if of_key != key and entries:
                yield decode_value(key[GROUP_BYTES:]), entries
                entries = {}
            key = of_key
            entries[decode_value(in_map)] = value
        if entries:
            yield decode_value(key[GROUP_BYTES:]), entries

    def _entry(self, key: K) -> bytes:
        return entry_key(self._current.get(), encode_value(key))


WITH_TTL = " with time-to-live"
"""Suffix of the kind of a state whose values are stored with timestamps."""

_KINDS: dict[str, type[KeyedState[Any]]] = {state.kind: state for state in KeyedState.__subclasses__()}


def class_of(kind: str) -> type[KeyedState[Any]]:
    """Return the class of a stored kind, with or without a time-to-live; the base if it is unknown."""
    return _KINDS.get(kind.removesuffix(WITH_TTL), KeyedState)


class CopyOnWriteMaps(CopyOnWriteMap[bytes, Any]):
    """The entries of map state in memory, indexed by key. Snapshots contain all entries."""

    __slots__ = ("_of_keys",)

    def __init__(self) -> None:
        super().__init__()
        self._of_keys: dict[bytes, set[bytes]] = {}

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of an entry."""
        super().put(key, value)
        self._of_keys.setdefault(parts_of(key)[0], set()).add(key)

    def remove(self, key: bytes) -> None:
        """Remove an entry, if present."""
        super().remove(key)
        of_key = parts_of(key)[0]
        entries = self._of_keys.get(of_key)
        if entries is not None:
            entries.discard(key)
            if not entries:
                del self._of_keys[of_key]

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the entries of a key, ascending; the map may be changed during the iteration."""
        return iter(sorted(self._of_keys.get(prefix, ())))
