"""The kinds of keyed state that operators use: value, list, reducing, aggregating and map.

All states of a subtask share the current key, and keep their value for it in one entry of their table. A map
has an entry of the table for each of its own, so a large map is never rewritten. Such an entry is named by
key group, key, the key in the map, and the length of that in 4 bytes, which separates the two. No encoded key
begins with another one, so the entries of a key are those that begin with it; they come in the order of the
bytes of their keys in the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ..errors import StateError
from .copy_on_write import CopyOnWriteMap
from .value_encoding import copy_value, decode_value, encode_value

GROUP_BYTES = 2
"""Bytes of the key group in front of each key of a table."""


class CurrentKey:
    """The key that all states of a subtask refer to at the moment: key group and bytes; empty for none."""

    __slots__ = ("prefixed",)

    def __init__(self) -> None:
        self.prefixed = b""

    def get(self) -> bytes:
        """Return the key.

        Raises:
            StateError: None has been set.
        """
        if not self.prefixed:
            raise StateError("keyed state is used before a key is set")
        return self.prefixed


class Table(Protocol):
    """The entries of one state. A key is the bytes of key group and key; None cannot be a value."""

    def get(self, key: bytes) -> Any | None:
        """Return the value or None. A caller that changes it in place has to put it again."""
        ...

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of a key."""
        ...

    def append(self, key: bytes, values: Sequence[Any]) -> None:
        """Append to the list that is the value of a key; without one, to an empty list."""
        ...

    def remove(self, key: bytes) -> None:
        """Forget a key, if it is there."""
        ...

    def __iter__(self) -> Iterator[bytes]:
        """The keys, ascending; the table may be changed meanwhile."""
        ...

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """The keys that begin so, ascending; the table may be changed meanwhile."""
        ...


V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


class KeyedState(Generic[V]):
    """Base of the kinds of state; ``V`` is the type of values that are read."""

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


K = TypeVar("K")

MAP = "map"
"""The kind of such state."""

LONGEST_KEY = (1 << 16) - 1
"""Bytes that an entry may be called by."""

_LENGTH_BYTES = 4


def entry_key(key: bytes, key_in_map: bytes) -> bytes:
    """Return how an entry is called in the table.

    Raises:
        StateError: That would be too long for a changelog.
    """
    entry = key + key_in_map + len(key_in_map).to_bytes(_LENGTH_BYTES, "big")
    if len(entry) > LONGEST_KEY:
        text = f"the keys of an entry of a map have {len(entry)} bytes, more than {LONGEST_KEY}"
        raise StateError(text)
    return entry


def parts_of(entry: bytes) -> tuple[bytes, bytes]:
    """Return the key, with its key group, and the key in the map.

    Raises:
        StateError: It is not called so.
    """
    ends = len(entry) - _LENGTH_BYTES
    begins = ends - int.from_bytes(entry[ends:], "big")
    if begins < GROUP_BYTES or ends < 0:
        raise StateError("an entry of map state is not called as it should be")
    return entry[:begins], entry[begins:ends]


class MapState(Generic[K, V]):
    """A map for each key (Flink: ``MapState``). None cannot be a value.

    Keys in the map are the same if their bytes are, as with the keys of state.
    """

    __slots__ = ("_current", "_table")

    def __init__(self, table: Table, current: CurrentKey) -> None:
        self._table = table
        self._current = current

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
        """Set the values of some keys in the map."""
        for key, value in values.items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Forget a key in the map, if it is there."""
        self._table.remove(self._entry(key))

    def __contains__(self, key: K) -> bool:
        return self._table.get(self._entry(key)) is not None

    def entries(self) -> Iterator[tuple[K, V]]:
        """The keys in the map with their values; what is put meanwhile may be left out."""
        for entry in self._table.beginning_with(self._current.get()):
            value = self._table.get(entry)
            if value is not None:
                yield decode_value(parts_of(entry)[1]), value

    def keys(self) -> Iterator[K]:
        """The keys in the map."""
        return (key for key, _ in self.entries())

    def values(self) -> Iterator[V]:
        """The values in the map, in the order of their keys."""
        return (value for _, value in self.entries())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in the map."""
        return next(self.entries(), None) is None

    def clear(self) -> None:
        """Forget the map of the current key."""
        for entry in list(self._table.beginning_with(self._current.get())):
            self._table.remove(entry)

    def items(self) -> Iterator[tuple[Any, dict[K, V]]]:
        """All keys with their maps, by key group and then by the bytes of the key."""
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


class CopyOnWriteMaps(CopyOnWriteMap[bytes, Any]):
    """The entries of map state in memory; it knows those of each key. Snapshots are those of all entries."""

    __slots__ = ("_of_keys",)

    def __init__(self) -> None:
        super().__init__()
        self._of_keys: dict[bytes, set[bytes]] = {}

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of an entry."""
        super().put(key, value)
        self._of_keys.setdefault(parts_of(key)[0], set()).add(key)

    def remove(self, key: bytes) -> None:
        """Forget an entry, if it is there."""
        super().remove(key)
        of_key = parts_of(key)[0]
        entries = self._of_keys.get(of_key)
        if entries is not None:
            entries.discard(key)
            if not entries:
                del self._of_keys[of_key]

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """The entries of a key, ascending; the map may be changed meanwhile."""
        return iter(sorted(self._of_keys.get(prefix, ())))
