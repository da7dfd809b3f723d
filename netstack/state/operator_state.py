"""Operator state: named lists of values that belong to a subtask and not to keys.

It holds positions in sources and transactions that wait for their checkpoint. When a job restarts with
another parallelism, a list is redistributed according to its `Redistribution`. Broadcast state is a map that
is equal in all subtasks, because all have read the same records of a broadcast exchange. (Flink:
``DefaultOperatorStateBackend`` with ``ListState`` and ``BroadcastState``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from flowcontrol import SavepointFormat

from ..errors import StateError
from .backend import NO_CHECKPOINT_ID, InMemory, ReadHandle, SnapshotWork, WriteFile, store_pieces
from .copy_on_write import CopyOnWriteMap, MapSnapshot
from .handles import Redistribution, StateHandle
from .state_kinds import StateKind
from .value_encoding import decode_value, encode_value

__all__ = ["BroadcastState", "OperatorStateBackend"]

FILE_NAME = "operator"

_BROADCAST = "a broadcast state"
_KINDS = {
    Redistribution.SPLIT: "a split list",
    Redistribution.UNION: "a union list",
    Redistribution.BROADCAST: _BROADCAST,
}


class OperatorStateBackend(InMemory):
    """The operator state of one subtask, in memory; a `StateBackend`.

    The first use of a name determines its kind of state and its `Redistribution`.
    """

    def __init__(self) -> None:
        self._states: CopyOnWriteMap[str, Any] = CopyOnWriteMap()
        """Lists, and dicts for broadcast state; none is empty."""
        self._redistributions: dict[str, Redistribution] = {}

    @property
    def names(self) -> list[str]:
        """Names of all states that are not empty, ascending."""
        return list(self._states)

    def get(self, name: str) -> list[Any]:
        """Return a copy of the list with this name; an empty list if there is none.

        Raises:
            StateError: if the name belongs to broadcast state.
        """
        _require_list(name, self._redistributions.get(name))
        return list(self._states.get(name) or ())

    def put(self, name: str, values: Iterable[Any], redistribution: Redistribution | None = None) -> None:
        """Replace a list; the values must not be changed afterwards.

        Without ``redistribution``, an existing list keeps its redistribution and a new list gets SPLIT.

        Raises:
            StateError: if the name belongs to a list with another redistribution, or to broadcast state.
        """
        redistribution = redistribution or self._redistributions.get(name, Redistribution.SPLIT)
        _require_list(name, redistribution)
        self._declare(name, redistribution)
        kept = list(values)
        if kept:
            self._states.put(name, kept)
        else:
            self._states.remove(name)

    def broadcast(self, name: str) -> BroadcastState:
        """Return the broadcast state with this name; every call returns the same entries.

        Raises:
            StateError: if the name belongs to a list.
        """
        self._declare(name, Redistribution.BROADCAST)
        return BroadcastState(self._states, name)

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> OperatorSnapshot:
        """Return a copy-on-write snapshot of all states, in constant time."""
        return OperatorSnapshot(self._states.snapshot(), dict(self._redistributions))

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Add the values of each handle to the state that the handle names.

        Raises:
            StorageError: if a file could not be read.
            StateError: if the bytes are not operator state, or a name has states of two kinds.
        """
        for handle in handles:
            if handle.kind is StateKind.OPERATOR:
                values = list_in(handle, read)
                if handle.redistribution is Redistribution.BROADCAST:
                    self.broadcast(handle.name).update(_entries(handle.name, values))
                    continue
                self._declare(handle.name, handle.redistribution)
                if values:
                    self._states.append(handle.name, values)

    def _declare(self, name: str, redistribution: Redistribution) -> None:
        known = self._redistributions.setdefault(name, redistribution)
        if known is not redistribution:
            raise StateError(
                f"operator state {name!r} was created as {_KINDS[known]}, so it cannot be used as "
                f"{_KINDS[redistribution]}"
            )


def list_in(handle: StateHandle, read: ReadHandle) -> list[Any]:
    """Return the values of a list of operator state; for broadcast state, the entries as pairs.

    Raises:
        StorageError: if a file could not be read.
        StateError: if the bytes are not a list.
    """
    values = decode_value(read(handle))
    if type(values) is not list:
        raise StateError(f"the operator state {handle.name!r} in the checkpoint is not a list")
    return values


class BroadcastState(MutableMapping[Any, Any]):
    """A map that is equal in all subtasks (Flink: ``BroadcastState``).

    Only the code that reads a broadcast exchange may write it, and it must write the same in each subtask.
    After a restore, a subtask may get the map of any former subtask. Keys are compared by equality. Values
    must not be modified in place. A read or write takes constant time, except that the first access after a
    snapshot copies the map if the snapshot is still open.
    """

    def __init__(self, states: CopyOnWriteMap[str, Any], name: str) -> None:
        self._states = states
        self._name = name

    def __getitem__(self, key: Any) -> Any:
        return self._entries()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        entries = self._states.get(self._name)
        if entries is None:
            self._states.put(self._name, {key: value})
        else:
            entries[key] = value

    def __delitem__(self, key: Any) -> None:
        entries = self._entries()
        del entries[key]
        if not entries:
            self._states.remove(self._name)

    def clear(self) -> None:
        """Remove all entries."""
        self._states.remove(self._name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())

    def _entries(self) -> dict[Any, Any]:
        return self._states.get(self._name) or {}


class OperatorSnapshot:
    """All operator states at one moment; a `BackendSnapshot`."""

    work = SnapshotWork()

    def __init__(self, states: MapSnapshot[str, Any], redistributions: Mapping[str, Redistribution]) -> None:
        self._states = states
        self._redistributions = redistributions

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the states, one handle for each, and release them."""
        try:
            pieces = [
                _piece(name, state, self._redistributions[name]) for name, state in self._states.items()
            ]
            return store_pieces(pieces, FILE_NAME, write, inline_up_to)
        finally:
            self.release()

    def release(self) -> None:
        """Release the data kept for the snapshot."""
        self._states.release()


def _require_list(name: str, redistribution: Redistribution | None) -> None:
    if redistribution is Redistribution.BROADCAST:
        raise StateError(f"operator state {name!r} is {_BROADCAST}, not a list; use broadcast({name!r})")


def _piece(
    name: str, state: list[Any] | dict[Any, Any], redistribution: Redistribution
) -> tuple[StateHandle, bytes]:
    values = state if isinstance(state, list) else [list(entry) for entry in state.items()]
    try:
        data = encode_value(values)
    except StateError as error:
        raise StateError(f"operator state {name!r}: {error}") from error
    handle = StateHandle(kind=StateKind.OPERATOR, name=name, size=len(data), redistribution=redistribution)
    return handle, data


def _entries(name: str, pairs: list[Any]) -> dict[Any, Any]:
    """Return the entries of broadcast state that was stored as (key, value) pairs."""
    try:
        return {key: value for key, value in pairs}  # noqa: C416
    except (TypeError, ValueError):
        raise StateError(
            f"operator state {name!r} is {_BROADCAST}, but its stored values are not (key, value) pairs"
        ) from None
