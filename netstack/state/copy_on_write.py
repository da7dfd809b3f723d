"""A map that takes snapshots in constant time.

Each open snapshot keeps only the values that have been overwritten since it was taken. A write saves the old
value once, in the newest snapshot. Older snapshots read it there::

    snapshot 1    saved: a -> 1            a in snapshot 1: 1, saved by itself
    snapshot 2    saved: b -> 2            b in snapshot 1: not saved by itself, so 2 from snapshot 2
    live          a -> 7, b -> 8, c -> 9   c in both snapshots: 9, the live value

A value that can be modified in place is copied on its first access after a snapshot, so that the snapshot
keeps the original. Flink's ``CopyOnWriteStateMap`` follows the same rule, with version counters. As in Flink,
a caller must not modify a value that it got before a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from .value_encoding import CONTAINERS, copy_value


class Ordered(Protocol):
    """A key that can be hashed and sorted."""

    def __lt__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...


K = TypeVar("K", bound=Ordered)
V = TypeVar("V")

_ABSENT: Any = object()


class CopyOnWriteMap(Generic[K, V]):
    """Entries by key, with any number of open snapshots. None cannot be a value."""

    __slots__ = ("_entries", "_open", "_saved")

    def __init__(self) -> None:
        self._entries: dict[K, V] = {}
        self._open: list[MapSnapshot[K, V]] = []
        self._saved: dict[K, V] | None = None  # of the newest open snapshot

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        """Yield the keys, ascending; the map may be changed during the iteration."""
        return iter(sorted(self._entries))

    def get(self, key: K) -> V | None:
        """Return the value or None; the caller may modify it in place until the next snapshot."""
        value = self._entries.get(key)
        saved = self._saved
        if saved is not None and isinstance(value, CONTAINERS) and key not in saved:
            saved[key] = value
            value = self._entries[key] = copy_value(value)
        return value

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        saved = self._saved
        if saved is not None and key not in saved:
            saved[key] = self._entries.get(key, _ABSENT)
        self._entries[key] = value

    def beginning_with(self, prefix: K) -> Iterator[K]:
        """Yield the keys with this prefix, ascending; searches all keys."""
        return (key for key in self if key.startswith(prefix))  # type: ignore[attr-defined]

    def append(self, key: K, values: Sequence[Any]) -> None:
        """Append values to the list of a key; creates the list if the key has none."""
        kept: Any = self.get(key)
        if kept is None:
            kept = []
            CopyOnWriteMap.put(self, key, kept)
        kept.extend(values)

    def remove(self, key: K) -> None:
        """Remove a key, if present."""
        value = self._entries.pop(key, _ABSENT)
        if value is not _ABSENT and self._saved is not None:
            self._saved.setdefault(key, value)

    def snapshot(self) -> MapSnapshot[K, V]:
        """Return a snapshot of the current entries, in constant time."""
        snapshot = MapSnapshot(self)
        self._open.append(snapshot)
        self._saved = snapshot.saved
        return snapshot

    def _entries_of(self, snapshot: MapSnapshot[K, V]) -> Mapping[K, V]:
        entries = dict(self._entries)
        for newer in reversed(self._open[self._open.index(snapshot) :]):
            entries.update(newer.saved)
        return entries

    def _release(self, snapshot: MapSnapshot[K, V]) -> None:
        place = self._open.index(snapshot)
        del self._open[place]
        if place:  # the snapshot before relies on values saved here
            before = self._open[place - 1].saved
            for key, value in snapshot.saved.items():
                before.setdefault(key, value)
        self._saved = self._open[-1].saved if self._open else None


class MapSnapshot(Generic[K, V]):
    """The entries of a map at one moment; keeps them in memory until it is released."""

    __slots__ = ("_map", "saved")

    def __init__(self, owner: CopyOnWriteMap[K, V]) -> None:
        self._map: CopyOnWriteMap[K, V] | None = owner
        self.saved: dict[K, V] = {}
        """The values overwritten since the snapshot; only the map reads them."""

    def __len__(self) -> int:
        """Return the number of entries; correct only until the next write to the map."""
        return 0 if self._map is None else len(self._map)

    def items(self) -> list[tuple[K, V]]:
        """Return the entries at the time of the snapshot, ascending by key; the values must not be modified.

        Raises:
            RuntimeError: if the snapshot has been released.
        """
        if self._map is None:
            raise RuntimeError("a snapshot was read after it had been released")
        entries = self._map._entries_of(self)
        return [(key, entries[key]) for key in sorted(entries) if entries[key] is not _ABSENT]

    def release(self) -> None:
        """Release the saved values; a second call does nothing."""
        if self._map is not None:
            owner, self._map = self._map, None
            owner._release(self)
            self.saved = {}
