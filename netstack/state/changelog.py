"""The changes of keyed state, one after the other, for a backend that stores these instead of the state.

Each change has a number, its sequence. What is kept begins with the first change since the state was last
stored as a whole (materialised)::

    sequence     0        17                     42
                 |--------|----------------------|
                  stored   kept: to be stored with
                  as a     each checkpoint
                  whole

A change is laid out so that it can be replayed without the state that it was made in, numbers big-endian:

| bytes | what |
|---|---|
| 1 | the operation |
| 2 | the number of the state, in the order of the segment's list |
| 2, n | the key: its length, its key group and its bytes |
| 4, m | the value: its length and msgpack; length 0 where there is none |

(Flink: ``StateChangelogWriter``, ``StateChangeLoggerImpl``; in memory ``InMemoryStateChangelogWriter``.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from ..errors import StateError
from .table import GROUP_BYTES, Table
from .values import decode_value, encode_value

LAYOUT = 1
"""Number of the layout of a segment; another one is refused."""

_LENGTH_BYTES = 4
_HEAD_BYTES = 5
"""Of operation, number of the state and length of the key."""


class Operation(IntEnum):
    """What a change does to the entry of a key."""

    PUT = 0
    APPEND = 1
    """Adds values to the list that is there."""
    REMOVE = 2


class Change(NamedTuple):
    """A change as it is replayed."""

    kind: str
    """Of the state."""
    name: str
    operation: Operation
    key: bytes
    """Key group and key, as tables have it."""
    value: Any


class Segment(NamedTuple):
    """Changes that follow each other: those with the sequences `begin` to before `end`."""

    begin: int
    end: int
    data: bytes


class Changelog:
    """The changes since the state was last stored as a whole.

    `begin` is the sequence of the first one, `end` that of the next one to come.
    """

    def __init__(self) -> None:
        self.begin = 0
        self._changes: list[bytes] = []
        self._states: list[tuple[str, str]] = []

    @property
    def end(self) -> int:
        """The sequence of the next change."""
        return self.begin + len(self._changes)

    def state(self, kind: str, name: str) -> int:
        """Return the number of a state, which `append` is given."""
        self._states.append((kind, name))
        return len(self._states) - 1

    def append(self, operation: Operation, state: int, key: bytes, value: Any = None) -> None:
        """Add a change.

        Raises:
            StateError: The value is of a type that cannot be stored.
        """
        try:
            encoded = b"" if operation is Operation.REMOVE else encode_value(value)
        except StateError as error:
            raise StateError(f"state {self._states[state][1]!r}: {error}") from error
        head = bytes((operation,)) + state.to_bytes(2, "big") + len(key).to_bytes(2, "big")
        self._changes.append(head + key + len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded)

    def since(self, begin: int) -> Segment:
        """Return all changes from a sequence on, which is one of those kept or the next."""
        states = msgspec.msgpack.encode((LAYOUT, self._states))
        data = len(states).to_bytes(_LENGTH_BYTES, "big") + states
        return Segment(begin, self.end, data + b"".join(self._changes[begin - self.begin :]))

    def truncate(self, upto: int) -> None:
        """Forget the changes before a sequence."""
        del self._changes[: upto - self.begin]
        self.begin = max(self.begin, upto)


class LoggedTable:
    """A table of a state whose changes go to a log too; a `Table`."""

    __slots__ = ("_log", "_state", "_table")

    def __init__(self, table: Table, log: Changelog, kind: str, name: str) -> None:
        self._table = table
        self._log = log
        self._state = log.state(kind, name)

    def get(self, key: bytes) -> Any | None:
        """Return the value of a key, None if there is none."""
        return self._table.get(key)

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of a key."""
        self._log.append(Operation.PUT, self._state, key, value)
        self._table.put(key, value)

    def append(self, key: bytes, values: Sequence[Any]) -> None:
        """Add values to the list of a key."""
        self._log.append(Operation.APPEND, self._state, key, list(values))
        self._table.append(key, values)

    def remove(self, key: bytes) -> None:
        """Forget a key."""
        self._log.append(Operation.REMOVE, self._state, key)
        self._table.remove(key)

    def __iter__(self) -> Iterator[bytes]:
        """The keys, ascending."""
        return iter(self._table)

    def beginning_with(self, prefix: bytes) -> Iterator[bytes]:
        """The keys that begin so, ascending."""
        return self._table.beginning_with(prefix)


def changes_in(data: bytes) -> Iterator[Change]:
    """Yield the changes of a segment in their order.

    Raises:
        StateError: The bytes are not those of a segment, or of a layout that is not known.
    """
    try:
        states, offset = _states_in(data)
        while offset < len(data):
            operation = Operation(data[offset])
            kind, name = states[int.from_bytes(data[offset + 1 : offset + 3], "big")]
            key_ends = offset + _HEAD_BYTES + int.from_bytes(data[offset + 3 : offset + 5], "big")
            begins = key_ends + _LENGTH_BYTES
            ends = begins + int.from_bytes(data[key_ends:begins], "big")
            if ends > len(data) or key_ends < offset + _HEAD_BYTES + GROUP_BYTES:
                raise ValueError
            value = None if operation is Operation.REMOVE else decode_value(data[begins:ends])
            yield Change(kind, name, operation, data[offset + _HEAD_BYTES : key_ends], value)
            offset = ends
    except (ValueError, IndexError):
        raise StateError("a changelog is not laid out as it should be") from None


def _states_in(data: bytes) -> tuple[list[tuple[str, str]], int]:
    """The states that a segment tells of, kind and name, and where its changes begin."""
    ends = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
    match decode_value(data[_LENGTH_BYTES:ends]):
        case [layout, [*states]] if layout == LAYOUT:
            return [_state(each) for each in states], ends
        case _:
            raise ValueError


def _state(entry: object) -> tuple[str, str]:
    match entry:
        case [str(kind), str(name)]:
            return kind, name
        case _:
            raise ValueError
