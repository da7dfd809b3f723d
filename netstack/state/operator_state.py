"""Operator state: lists of values by name that belong to a subtask rather than to keys.

Positions in sources and transactions that wait for their checkpoint are kept here. Where a job comes back at
another parallelism, a list is dealt out as its `Redistribution` says. Broadcast state is a map that all
subtasks have alike, as they all have seen the same records of a broadcast exchange. (Flink:
``DefaultOperatorStateBackend`` with ``ListState`` and ``BroadcastState``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from flowcontrol import SavepointFormat

from .backend import NO_CHECKPOINT_ID, ReadHandle, SnapshotWork, StatePiece, WriteFile, store_pieces
from .copy_on_write import CopyOnWriteMap, MapSnapshot
from .snapshots import Redistribution, StateHandle, StateKind
from .values import StateError, decode_value, encode_value

FILE_NAME = "operator"


class OperatorStateBackend:
    """The operator state of one subtask, in memory; a `StateBackend`."""

    def __init__(self) -> None:
        self._lists: CopyOnWriteMap[str, list[Any]] = CopyOnWriteMap()
        self._redistributions: dict[str, Redistribution] = {}

    @property
    def names(self) -> list[str]:
        """The names of all lists that are not empty, ascending."""
        return list(self._lists)

    def get(self, name: str) -> list[Any]:
        """Return the values of a list, none if there is no such list; it is the caller's."""
        return list(self._lists.get(name) or ())

    def put(self, name: str, values: Iterable[Any], redistribution: Redistribution | None = None) -> None:
        """Replace a list; the values must not be changed afterwards.

        Without ``redistribution`` that of the list stays, which is SPLIT to begin with.
        """
        kept = list(values)
        if redistribution is not None:
            self._redistributions[name] = redistribution
        if kept:
            self._lists.put(name, kept)
        else:
            self._lists.remove(name)

    def broadcast(self, name: str) -> BroadcastState:
        """Return the broadcast state of that name."""
        return BroadcastState(self, name)

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> OperatorSnapshot:
        """Mark all lists as they are now, in constant time."""
        return OperatorSnapshot(self._lists.snapshot(), dict(self._redistributions))

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Append the values behind the handles to the lists of their names.

        Raises:
            StorageError: A file could not be read.
            StateError: The bytes are not those of operator state.
        """
        for handle in handles:
            if handle.kind is StateKind.OPERATOR:
                values = decode_value(read(handle))
                if type(values) is not list:
                    raise StateError(f"operator state {handle.name!r} is no list")
                self.put(handle.name, self.get(handle.name) + values, handle.redistribution)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Nothing to do: every checkpoint stores all of the state."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do: the state is in memory."""


class BroadcastState(MutableMapping[Any, Any]):
    """A map that all subtasks have alike (Flink: ``BroadcastState``).

    It is for whoever reads a broadcast exchange to write, and the same way in each subtask: after a restore
    each is given the map of one of them. Keys are the same if they are equal; values must not be changed.
    """

    def __init__(self, backend: OperatorStateBackend, name: str) -> None:
        self._backend = backend
        self._name = name
        self._entries: dict[Any, Any] = {key: value for key, value in backend.get(name)}  # noqa: C416

    def __getitem__(self, key: Any) -> Any:
        return self._entries[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._entries[key] = value
        self._keep()

    def __delitem__(self, key: Any) -> None:
        del self._entries[key]
        self._keep()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _keep(self) -> None:
        pairs = [list(entry) for entry in self._entries.items()]
        self._backend.put(self._name, pairs, Redistribution.BROADCAST)


class OperatorSnapshot:
    """All lists at one moment; a `BackendSnapshot`."""

    work = SnapshotWork()

    def __init__(
        self, lists: MapSnapshot[str, list[Any]], redistributions: Mapping[str, Redistribution]
    ) -> None:
        self._lists = lists
        self._redistributions = redistributions

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the lists, one handle for each, and release them."""
        try:
            pieces = [
                _piece(name, values)._replace(
                    redistribution=self._redistributions.get(name, Redistribution.SPLIT)
                )
                for name, values in self._lists.items()
            ]
            return store_pieces(pieces, FILE_NAME, write, inline_up_to)
        finally:
            self.release()

    def release(self) -> None:
        """Give up what is kept for the snapshot."""
        self._lists.release()


def _piece(name: str, values: list[Any]) -> StatePiece:
    try:
        return StatePiece(StateKind.OPERATOR, encode_value(values), name)
    except StateError as error:
        raise StateError(f"operator state {name!r}: {error}") from error
