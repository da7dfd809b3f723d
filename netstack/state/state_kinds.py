"""The kinds of keyed state that operators use, but for maps: value, list, reducing and aggregating.

All states of a subtask share the current key, and keep what they have for it in one entry of their table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from .table import GROUP_BYTES, CurrentKey, Table
from .values import copy_value, decode_value

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
