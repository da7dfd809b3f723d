"""Operator state: lists of values by name that belong to a subtask rather than to keys.

Positions in sources and transactions that wait for their checkpoint are kept here. (Flink:
``DefaultOperatorStateBackend`` with ``ListState``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flowcontrol import SavepointFormat

from .backend import NO_CHECKPOINT_ID, ReadHandle, SnapshotWork, StatePiece, WriteFile, store_pieces
from .copy_on_write import CopyOnWriteMap, MapSnapshot
from .snapshots import StateHandle, StateKind
from .values import StateError, decode_value, encode_value

FILE_NAME = "operator"


class OperatorStateBackend:
    """The operator state of one subtask, in memory; a `StateBackend`."""

    def __init__(self) -> None:
        self._lists: CopyOnWriteMap[str, list[Any]] = CopyOnWriteMap()

    @property
    def names(self) -> list[str]:
        """The names of all lists that are not empty, ascending."""
        return list(self._lists)

    def get(self, name: str) -> list[Any]:
        """Return the values of a list, none if there is no such list; it is the caller's."""
        return list(self._lists.get(name) or ())

    def put(self, name: str, values: Iterable[Any]) -> None:
        """Replace a list; the values must not be changed afterwards."""
        kept = list(values)
        if kept:
            self._lists.put(name, kept)
        else:
            self._lists.remove(name)

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> OperatorSnapshot:
        """Mark all lists as they are now, in constant time."""
        return OperatorSnapshot(self._lists.snapshot())

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
                self.put(handle.name, self.get(handle.name) + values)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Nothing to do: every checkpoint stores all of the state."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do: the state is in memory."""


class OperatorSnapshot:
    """All lists at one moment; a `BackendSnapshot`."""

    work = SnapshotWork()

    def __init__(self, lists: MapSnapshot[str, list[Any]]) -> None:
        self._lists = lists

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the lists, one handle for each, and release them."""
        try:
            pieces = [_piece(name, values) for name, values in self._lists.items()]
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
