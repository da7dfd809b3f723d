"""State that is a map for each key, of which every entry is one of the table: a large map is never rewritten.

An entry of the table is called by key group, key, the key in the map, and the length of that in 4 bytes, by
which the others are told from it. No encoded key begins with another one, so the entries of a key are those
that begin with it; they come in the order of the bytes of their keys in the map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from ..errors import StateError
from .copy_on_write import CopyOnWriteMap
from .table import GROUP_BYTES, CurrentKey, Table
from .values import decode_value, encode_value

K = TypeVar("K")
V = TypeVar("V")

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
