"""Where the bytes of checkpoints go: an interface, what can go wrong, and how handles are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

from buffers import Pieces

from ..errors import DamagedFileError, StorageError
from ..state.snapshots import CheckpointMetadata, StateHandle, StoredFile


class CheckpointStorage(Protocol):
    """Keeps the files of checkpoints (Flink: ``CheckpointStorage`` and its ``CheckpointStorageAccess``).

    A checkpoint is complete from the moment `complete` returns; before that, and after a failure in between,
    no other method takes it for one.
    """

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file of a checkpoint that is not complete yet; ``shared`` if later ones may use it too.

        ``name`` must be unique within the checkpoint, and that of a shared file within the storage; what may
        not stand in the name of a file is escaped. A file of the same name that an attempt before has left
        is replaced.

        Raises:
            StorageError: It could not be written, the checkpoint is complete, or the shared file exists.
            ValueError: ``name`` is empty or that of the metadata, or the id is negative.
        """
        ...

    def read(self, file: StoredFile) -> bytes:
        """Return the bytes of a file.

        Raises:
            MissingFileError: It is not there.
            DamagedFileError: It has another size or checksum.
            StorageError: It could not be read.
        """
        ...

    def complete(self, metadata: CheckpointMetadata) -> None:
        """Write the metadata, whole or not at all, which makes the checkpoint complete.

        Raises:
            StorageError: It could not be written, or the checkpoint is complete already.
        """
        ...

    def checkpoints(self) -> list[int]:
        """Return the ids of the complete checkpoints, ascending; whatever is broken is left out.

        Raises:
            StorageError: The storage could not be read.
        """
        ...

    def load(self, checkpoint_id: int) -> CheckpointMetadata:
        """Return the metadata of a complete checkpoint.

        Raises:
            MissingFileError: There is no such checkpoint, or it was never completed.
            DamagedFileError: Its metadata is broken.
            StorageError: The storage could not be read.
        """
        ...

    def discard(self, checkpoint_id: int) -> None:
        """Delete the metadata and then all files that belong to this checkpoint alone, complete or not.

        Shared files stay: whoever knows which checkpoints still use them deletes them. An id that is not
        there is nothing to do.

        Raises:
            StorageError: Something could not be deleted.
        """
        ...

    def delete(self, files: Iterable[StoredFile]) -> None:
        """Delete single files, shared ones or those of an unfinished checkpoint; missing ones are fine.

        Raises:
            StorageError: One could not be deleted.
        """
        ...

    def claim(self, checkpoint_id: int, claimant: str) -> None:
        """Note that a complete checkpoint is another run's from now on, which nobody else may claim then.

        Raises:
            StorageError: It has been claimed before, which the message tells, or nothing can be noted.
        """
        ...

    def free_location(self, directory: str | None, name: str) -> str:
        """Return a location for a savepoint of about this name, at which there is nothing yet.

        It is in ``directory``, or beside the checkpoints. No other job is given it: jobs with the same ids
        may store savepoints in one directory. (Under object stores, that holds once one
        of them has stored a file.)

        Raises:
            StorageError: The directory cannot be read or written, or the storage knows none.
        """
        ...

    def savepoint(self, location: str) -> CheckpointStorage:
        """Return the storage of one savepoint, in which nothing else is and which shares no file.

        Nothing is made yet.

        Raises:
            StorageError: The storage knows no such location.
        """
        ...


class HandleReader:
    """Reads what handles point to; of several handles to one file in a row, the file is read once."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self._storage = storage
        self._file: StoredFile | None = None
        self._data = b""

    def __call__(self, handle: StateHandle) -> bytes:
        """Return the bytes of a handle.

        Raises:
            MissingFileError: Its file is not there.
            DamagedFileError: Its file is damaged, or the handle has not as many bytes as it says.
            StorageError: Its file could not be read.
        """
        if handle.file is None:
            data = handle.inline or b""
        else:
            if handle.file != self._file:
                self._data = self._storage.read(handle.file)
                self._file = handle.file
            data = self._data[handle.offset : handle.offset + handle.size]
        if len(data) != handle.size:
            where = handle.file.path if handle.file else "the metadata"
            raise DamagedFileError(
                f"{where} has no {handle.size} bytes of {handle.kind} state {handle.name!r}"
            )
        return data


def exclusively(storage: CheckpointStorage | None) -> AbstractContextManager[None]:
    """Return a context in which no other run has the storage; nothing to do for one that cannot be shared.

    Raises:
        StorageError: another run has it; says which. It is raised on entry.
    """
    exclusive: Callable[[], AbstractContextManager[None]] | None = getattr(storage, "exclusive", None)
    return nullcontext() if exclusive is None else exclusive()


def delete_where_possible(storage: CheckpointStorage, files: Iterable[StoredFile]) -> None:
    """Delete files that nobody needs; what cannot be deleted stays, and belongs to no checkpoint."""
    with suppress(StorageError):
        storage.delete(files)


def write_pieces(storage: CheckpointStorage, checkpoint_id: int, name: str, data: Pieces) -> StoredFile:
    """Store a file of a checkpoint as `CheckpointStorage.write` does, with no bytes where nobody needs them.

    A storage that can keep what is blank as it is has a `write_pieces` of its own; any other one gets bytes.

    Raises:
        StorageError: as `write` does.
    """
    keep: Callable[[int, str, Pieces], StoredFile] | None = getattr(storage, "write_pieces", None)
    if keep is None or not data.blank:
        return storage.write(checkpoint_id, name, bytes(data))
    return keep(checkpoint_id, name, data)
