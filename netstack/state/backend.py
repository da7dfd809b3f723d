"""The interface of state backends, and the storage of pieces of state in files of a checkpoint.

A snapshot has two parts. The synchronous part, `StateBackend.snapshot`, runs between two records and only
marks the state that belongs to it. The asynchronous part, `BackendSnapshot.handles`, encodes and stores this
state while the task continues.

The interface also supports backends that do not store all state each time. An incremental backend writes
shared files, and returns handles to files of earlier checkpoints. `checkpoint_completed` informs it which of
these files it may use again. A backend with a changelog returns handles to a base and to the changes since
this base. (Flink: ``StateBackend``, ``SnapshotStrategy``, ``RunnableFuture<SnapshotResult>``.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from buffers import Pieces
from flowcontrol import SavepointFormat

from .handles import StateHandle, StoredFile

NO_CHECKPOINT_ID = -1
"""The id of a snapshot that is not taken for a checkpoint."""

ReadHandle = Callable[[StateHandle], bytes]
"""Returns the bytes of a handle; a `HandleReader` is one."""


class SnapshotWork(NamedTuple):
    """The work of a snapshot apart from storing files. The duration of the snapshot is computed from it."""

    logged_bytes: int = 0
    """Bytes of a changelog that the synchronous part collects."""
    flushed_bytes: int = 0
    """Bytes of a table file that the synchronous part writes."""
    linked: int = 0
    """1 if the synchronous part keeps table files by creating a link to each file, else 0."""
    entry_bytes: int = 0
    """Minimum number of bytes that the asynchronous part serializes from entries in memory."""


class WriteFile(Protocol):
    """Stores a file for the checkpoint of a snapshot."""

    def __call__(self, name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
        """Store ``data``; ``name`` is unique within the subtask and checkpoint, or within the subtask if
        shared.

        Raises:
            StorageError: if the file could not be stored.
        """


class BackendSnapshot(Protocol):
    """The state at one moment, before it is stored."""

    work: SnapshotWork

    def handles(self, write: WriteFile, inline_up_to: int) -> list[StateHandle]:
        """Store the state and release the snapshot, even after an error; returns the handles.

        State of at most ``inline_up_to`` bytes is stored in the handles themselves. Equal state has equal
        bytes.

        Raises:
            StorageError: if a file could not be stored.
            StateError: if a value has a type that cannot be stored.
        """

    def release(self) -> None:
        """Release the data kept for the snapshot; a second call does nothing."""


class StateBackend(Protocol):
    """Keeps state and takes snapshots of it."""

    def snapshot(
        self, checkpoint_id: int = NO_CHECKPOINT_ID, savepoint: SavepointFormat | None = None
    ) -> BackendSnapshot:
        """Mark the current state for a checkpoint. The duration does not depend on the size of the state.

        For a ``savepoint`` in the given format, the snapshot shares no files with any other snapshot.
        """

    def restore(self, handles: Sequence[StateHandle], read: ReadHandle) -> None:
        """Add the state in those handles that belong to this backend.

        Raises:
            StorageError: if a file could not be read.
            StateError: if the bytes are not state of this backend.
        """

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Record that later checkpoints may use the files of this checkpoint."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Record that the files of this checkpoint have been or will be deleted."""

    def close(self) -> None:
        """Release resources outside memory; a second call does nothing."""


class InMemory:
    """Base of backends in memory. Each checkpoint stores all of the state, and depends on no earlier one."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Do nothing."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


D = TypeVar("D", bytes, Pieces)


def located(
    pieces: Sequence[tuple[StateHandle, D]], store: Callable[[list[D]], StoredFile], inline_up_to: int
) -> list[StateHandle]:
    """Return the handles of some pieces of state, with the places of their bytes.

    If all pieces together have at most `inline_up_to` bytes, each handle contains its bytes. Otherwise,
    `store` stores all pieces in one file, one after the other. (Flink: ``FsCheckpointStreamFactory``.)

    Raises:
        StorageError: if the file could not be stored.
    """
    if sum(handle.size for handle, _ in pieces) <= inline_up_to:
        return [replace(handle, inline=bytes(data)) for handle, data in pieces]
    file = store([data for _, data in pieces])
    ends = accumulate(handle.size for handle, _ in pieces)
    return [
        replace(handle, file=file, offset=end - handle.size)
        for (handle, _), end in zip(pieces, ends, strict=True)
    ]


def store_pieces(
    pieces: Sequence[tuple[StateHandle, bytes]], name: str, write: WriteFile, inline_up_to: int
) -> list[StateHandle]:
    """Store pieces of state, as `located` does; the file has the given name.

    Raises:
        StorageError: if the file could not be stored.
    """
    return located(pieces, lambda data: write(name, b"".join(data)), inline_up_to)
