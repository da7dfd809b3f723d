"""What a state is kept in: entries by key, in memory or in a store of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol


class Table(Protocol):
    """The entries of one state. A key is the bytes of key group and key; None cannot be a value."""

    def get(self, key: bytes) -> Any | None:
        """Return the value or None. Whoever changes it in place has to put it again."""
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
