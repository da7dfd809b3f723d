"""What a state is kept in: entries by key, in memory or in a store of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ..errors import StateError

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

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """The keys that begin so, ascending; the table may be changed meanwhile."""
        ...
