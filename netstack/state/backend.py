"""The interface of state backends, and the storage of pieces of state in files of a checkpoint.

A snapshot is taken in two parts. The synchronous one, `StateBackend.snapshot`, runs between two records and
only marks what belongs to it. The asynchronous one, `BackendSnapshot.handles`, turns that into bytes and
stores them while the task goes on.

The interface has room for backends that do not store everything anew each time. One that is incremental
writes its files as shared ones, gives handles to files that earlier checkpoints have stored, and learns from
`checkpoint_completed` which of them it may use again. One with a changelog gives handles to a base and to the
changes since. (Flink: ``StateBackend``, ``SnapshotStrategy``, ``RunnableFuture<SnapshotResult>``.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from flowcontrol import SavepointFormat

from .snapshots import Redistribution, StateHandle, StateKind, StoredFile

NO_CHECKPOINT_ID = -1
"""The id of a snapshot that is not taken for a checkpoint."""

ReadHandle = Callable[[StateHandle], bytes]
"""Gives the bytes that a handle points to; a `HandleReader` is one."""


class SnapshotWork(NamedTuple):
    """The work of a snapshot besides storing files, from which its time is derived."""

    logged_bytes: int = 0
    """Bytes of a log, gathered in the synchronous part."""
    flushed_bytes: int = 0
    """Bytes of a table, written in the synchronous part."""
    linked: int = 0
    """1 where files of tables are kept, by a link to each, in the synchronous part."""
    entry_bytes: int = 0
    """Least number of bytes to serialize from entries in memory, in the asynchronous part."""


class WriteFile(Protocol):
    """Stores a file of the checkpoint that a snapshot is for."""

    def __call__(self, name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
        """Store ``data``; ``name`` is unique within the subtask and checkpoint, or the subtask if shared.

        Raises:
            StorageError: It could not be stored.
        """
        ...


class BackendSnapshot(Protocol):
    """State at one moment, not stored yet."""

    work: SnapshotWork

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the state, and release it however that ends; the sizes are known from here on.

        State of at most ``inline_up_to`` bytes stands in the handles themselves. The same state
        gives the same bytes.

        Raises:
            StorageError: A file could not be stored.
            StateError: A value is of a type that cannot be stored.
        """
        ...

    def release(self) -> None:
        """Give up what is kept for the snapshot; a second call does nothing."""
        ...


class StateBackend(Protocol):
    """Keeps state and takes snapshots of it."""

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> BackendSnapshot:
        """Mark the state as it is now for a checkpoint; takes time that does not depend on its size.

        For a ``savepoint`` it rests on no other snapshot and no other one will rest on it, in this format.
        """
        ...

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Add the state behind those of the handles that are for this backend.

        Raises:
            StorageError: A file could not be read.
            StateError: The bytes are not those of such state.
        """
        ...

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The files of this checkpoint may be used by later ones."""
        ...

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The files of this checkpoint are gone, or will be."""
        ...

    def close(self) -> None:
        """Give up what is kept outside memory; a second call does nothing."""
        ...


class StatePiece(NamedTuple):
    """Bytes of state that get a handle of their own; the fields are those of `StateHandle`."""

    kind: StateKind
    data: bytes
    name: str = ""
    key_groups: tuple[int, int] | None = None
    redistribution: Redistribution = Redistribution.SPLIT


def store_pieces(
    pieces: Sequence[StatePiece], name: str, write: WriteFile, inline_up_to: int
) -> list[StateHandle]:
    """Return handles to the pieces, one after the other in one file, or in the handles if that is enough.

    The limit is for all pieces together, as it is for a stream of Flink's ``FsCheckpointStreamFactory``.
    Nothing is written for no pieces.

    Raises:
        StorageError: The file could not be stored.
    """
    if sum(len(piece.data) for piece in pieces) <= inline_up_to:
        return [_handle(piece, None, 0) for piece in pieces]
    file = write(name, b"".join(piece.data for piece in pieces))
    handles, offset = [], 0
    for piece in pieces:
        handles.append(_handle(piece, file, offset))
        offset += len(piece.data)
    return handles


def _handle(piece: StatePiece, file: StoredFile | None, offset: int) -> StateHandle:
    return StateHandle(
        kind=piece.kind,
        name=piece.name,
        size=len(piece.data),
        inline=piece.data if file is None else None,
        file=file,
        offset=offset,
        key_groups=piece.key_groups,
        redistribution=piece.redistribution,
    )
