"""One state in a store of tables: its values as bytes, and how often they are read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import StateError
from .table_store import FamilyTable
from .values import decode_value, encode_value


class Accesses:
    """How often a store was read from and written to, for whoever wants to know what that takes."""

    __slots__ = ("reads", "writes")

    def __init__(self) -> None:
        self.reads = 0
        self.writes = 0


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
            StateError: The value is of a type that cannot be stored.
        """
        try:
            data = encode_value(value)
        except StateError as error:
            raise StateError(f"state {self._name!r}: {error}") from error
        self._family.put(key, data)
        self._written()

    def append(self, key: bytes, values: Sequence[Any]) -> None:
        """Append to the list that is the value of a key."""
        self.put(key, [*(self.get(key) or ()), *values])

    def remove(self, key: bytes) -> None:
        """Forget a key, if it is there."""
        self._family.remove(key)
        self._written()

    def __iter__(self) -> Iterator[bytes]:
        """The keys, ascending; the table may be changed meanwhile."""
        return (key for key, _ in self._family.items())

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """The keys that begin so, ascending; the table may be changed meanwhile."""
        for key, _ in self._family.items(prefix):
            if not key.startswith(prefix):
                return
            yield key
