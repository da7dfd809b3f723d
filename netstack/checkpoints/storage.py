"""Where the bytes of checkpoints go: an interface, what it means in terms of files, and a storage in memory.

Paths are relative to the root of the storage (`paths`), so a whole directory can be moved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

from ..state.snapshots import CheckpointMetadata, StateHandle, StoredFile
from .metadata import checksum, decode_metadata, encode_metadata
from .paths import (
    SHARED_FOLDER,
    checkpoint_id_of,
    file_name,
    folder_of,
    is_file_path,
    metadata_path,
)

MAX_METADATA_BYTES = 32 << 20
"""Size of a checkpoint's metadata at most, to be written or read."""


class StorageError(Exception):
    """The storage did not do what it was asked; the message is one line that names the file."""


class MissingFileError(StorageError):
    """A file, or the metadata of a checkpoint, is not there."""


class DamagedFileError(StorageError):
    """A file is there and has another size or checksum than it was written with."""


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


class FileLayout(ABC):
    """A `CheckpointStorage` over anything that keeps files by path; subclasses say how it does."""

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file of a checkpoint that is not complete yet; see `CheckpointStorage`."""
        path = f"{SHARED_FOLDER if shared else folder_of(checkpoint_id)}/{file_name(name)}"
        in_the_way = path if shared else metadata_path(checkpoint_id)
        if self._size(in_the_way) is not None:
            raise StorageError(f"{path} cannot be written, since {in_the_way} exists")
        file = StoredFile(path=path, size=len(data), checksum=checksum(data), shared=shared)
        self._put(path, data)
        return file

    def read(self, file: StoredFile) -> bytes:
        """Return the bytes of a file; see `CheckpointStorage`."""
        size = self._size(_checked(file.path))
        if size is not None and size != file.size:  # before anything is read: it may be any size
            raise DamagedFileError(f"{file.path} has {size} bytes instead of {file.size}")
        data = self._get(file.path, file.size)
        if checksum(data) != file.checksum:
            raise DamagedFileError(f"{file.path} has another checksum than it was written with")
        return data

    def verify(self, file: StoredFile) -> None:
        """Check that a file is as it was written, without keeping its bytes; raises what `read` raises."""
        self.read(file)

    def complete(self, metadata: CheckpointMetadata) -> None:
        """Write the metadata, which makes the checkpoint complete; see `CheckpointStorage`."""
        path, data = metadata_path(metadata.checkpoint_id), encode_metadata(metadata)
        if self._size(path) is not None:
            raise StorageError(f"{path} exists already")
        if len(data) > MAX_METADATA_BYTES:
            raise StorageError(
                f"{path} would have {len(data)} bytes, more than {MAX_METADATA_BYTES}; "
                "lower state.storage.fs.memory-threshold, so that it holds less state, or keep the changelog "
                "in files (state.changelog.storage: filesystem)"
            )
        self._publish(path, data)

    def checkpoints(self) -> list[int]:
        """Return the ids of the complete checkpoints, ascending."""
        return [checkpoint_id for checkpoint_id in self.present() if self._is_complete(checkpoint_id)]

    def load(self, checkpoint_id: int) -> CheckpointMetadata:
        """Return the metadata of a complete checkpoint; see `CheckpointStorage`."""
        path = metadata_path(checkpoint_id)
        try:
            metadata = decode_metadata(self._get(path, MAX_METADATA_BYTES))
        except ValueError as error:
            raise DamagedFileError(f"{path}: {error}") from error
        if metadata.checkpoint_id != checkpoint_id:
            raise DamagedFileError(f"{path} is the metadata of checkpoint {metadata.checkpoint_id}")
        return metadata

    def discard(self, checkpoint_id: int) -> None:
        """Delete what belongs to this checkpoint alone; see `CheckpointStorage`."""
        self._remove(metadata_path(checkpoint_id))  # first, so that it never looks complete and is not
        self._remove_folder(folder_of(checkpoint_id))

    def delete(self, files: Iterable[StoredFile]) -> None:
        """Delete single files; see `CheckpointStorage`."""
        paths = [_checked(file.path) for file in files]
        for path in paths:
            self._remove(path)
        for folder in sorted({path.partition("/")[0] for path in paths} - {SHARED_FOLDER}):
            if not self._files(folder):  # the folder of a checkpoint that has been discarded before
                self._remove_folder(folder)

    def present(self) -> list[int]:
        """Return the ids of all checkpoints that there is anything of, complete or not, ascending."""
        ids = (checkpoint_id_of(folder) for folder in self._folders())
        return sorted(number for number in ids if number is not None)

    def contents(self, checkpoint_id: int) -> dict[str, int]:
        """Return the sizes in bytes, by path, of the files in the folder of one checkpoint."""
        return self._files(folder_of(checkpoint_id))

    def shared_files(self) -> dict[str, int]:
        """Return the sizes in bytes, by path, of the files that several checkpoints may use."""
        return self._files(SHARED_FOLDER)

    def _is_complete(self, checkpoint_id: int) -> bool:
        try:
            self.load(checkpoint_id)
        except (MissingFileError, DamagedFileError):
            return False
        return True

    @abstractmethod
    def _put(self, path: str, data: bytes) -> None:
        """Store a file; one that exists is replaced. After a failure, part of it may be there."""

    @abstractmethod
    def _publish(self, path: str, data: bytes) -> None:
        """Store a file, whole or not at all."""

    @abstractmethod
    def _get(self, path: str, at_most: int) -> bytes:
        """Return a regular file of at most so many bytes.

        Raises:
            MissingFileError: It is not there.
            StorageError: It is something else, or larger.
        """

    @abstractmethod
    def _size(self, path: str) -> int | None:
        """Return the size of a file, None if there is none."""

    @abstractmethod
    def _remove(self, path: str) -> None:
        """Delete a file if there is one."""

    @abstractmethod
    def _remove_folder(self, folder: str) -> None:
        """Delete a folder and all in it if there is one."""

    @abstractmethod
    def _folders(self) -> list[str]:
        """Return the names of the folders in the root."""

    @abstractmethod
    def _files(self, folder: str) -> dict[str, int]:
        """Return the sizes of all files below a folder by path; none if there is no such folder."""


class MemoryStorage(FileLayout):
    """Keeps checkpoints in memory, for as long as it is kept itself.

    Flink: ``JobManagerCheckpointStorage``, but with files, so that nothing depends on what keeps them.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        """What is stored, by path."""

    def _put(self, path: str, data: bytes) -> None:
        self.files[path] = bytes(data)

    def _publish(self, path: str, data: bytes) -> None:
        self._put(path, data)

    def _get(self, path: str, at_most: int) -> bytes:
        if path not in self.files:
            raise MissingFileError(f"{path} is not there")
        return self.files[path]

    def _size(self, path: str) -> int | None:
        return len(self.files[path]) if path in self.files else None

    def _remove(self, path: str) -> None:
        self.files.pop(path, None)

    def _remove_folder(self, folder: str) -> None:
        for path in self._files(folder):
            del self.files[path]

    def _folders(self) -> list[str]:
        return sorted({path.partition("/")[0] for path in self.files})

    def _files(self, folder: str) -> dict[str, int]:
        return {path: len(data) for path, data in self.files.items() if path.startswith(f"{folder}/")}


def _checked(path: str) -> str:
    """A path that metadata names; what does not lie in a folder of the layout is never touched."""
    if not is_file_path(path):
        raise DamagedFileError(f"{path} is no path of a file of a checkpoint")
    return path
