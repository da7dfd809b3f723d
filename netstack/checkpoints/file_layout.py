"""What a checkpoint storage is in terms of files; in memory, and of a savepoint in a folder of another one.

Paths are relative to the root of the storage (`paths`), so a whole directory can be moved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import chain, count

from buffers import Pieces

from ..errors import DamagedFileError, MissingFileError, StorageError
from ..state.snapshots import CheckpointMetadata, StoredFile
from .metadata import checksum, decode_metadata, encode_metadata
from .paths import (
    CLAIM_NAME,
    METADATA_NAME,
    SAVEPOINT_PREFIX,
    SHARED_FOLDER,
    checkpoint_id_of,
    file_name,
    folder_of,
    is_file_name,
    is_file_path,
    metadata_path,
)

MAX_METADATA_BYTES = 32 << 20
"""Size of a checkpoint's metadata at most, to be written or read."""

MAX_CLAIMANT_BYTES = 1 << 12
"""Size of what stands in a claim at most."""


class FileLayout(ABC):
    """A `CheckpointStorage` over anything that keeps files by path; subclasses say how it does."""

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file of a checkpoint that is not complete yet; see `CheckpointStorage`."""
        path = self._free_path(checkpoint_id, name, shared=shared)
        file = StoredFile(path=path, size=len(data), checksum=checksum(data), shared=shared)
        self._put(path, data)
        return file

    def _free_path(self, checkpoint_id: int, name: str, *, shared: bool) -> str:
        """Where a new file goes; see `CheckpointStorage.write`."""
        path = self._path_of(checkpoint_id, file_name(name), shared=shared)
        in_the_way = path if shared else self._metadata_path(checkpoint_id)
        if self._size(in_the_way) is not None:
            raise StorageError(f"{path} cannot be written, since {in_the_way} exists")
        return path

    def read(self, file: StoredFile) -> bytes:
        """Return the bytes of a file; see `CheckpointStorage`."""
        size = self._size(self._checked(file.path))
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
        path, data = self._metadata_path(metadata.checkpoint_id), encode_metadata(metadata)
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
        path = self._metadata_path(checkpoint_id)
        metadata = self._metadata_at(path)
        if metadata.checkpoint_id != checkpoint_id:
            raise DamagedFileError(f"{path} is the metadata of checkpoint {metadata.checkpoint_id}")
        return metadata

    def discard(self, checkpoint_id: int) -> None:
        """Delete what belongs to this checkpoint alone; see `CheckpointStorage`."""
        self._remove(self._metadata_path(checkpoint_id))  # first: it never looks complete and is not
        self._remove_folder(self._folder_of(checkpoint_id))

    def delete(self, files: Iterable[StoredFile]) -> None:
        """Delete single files; see `CheckpointStorage`."""
        paths = [self._checked(file.path) for file in files]
        for path in paths:
            self._remove(path)
        for folder in sorted({path.partition("/")[0] for path in paths} - {SHARED_FOLDER}):
            if not self._files(folder):  # the folder of a checkpoint that has been discarded before
                self._remove_folder(folder)

    def claim(self, checkpoint_id: int, claimant: str) -> None:
        """Note that a checkpoint is another run's from now on; see `CheckpointStorage`."""
        path = self._path_of(checkpoint_id, CLAIM_NAME, shared=False)
        if not self._create(path, claimant.encode()):
            earlier = self._get(path, MAX_CLAIMANT_BYTES).decode("utf-8", "replace")
            raise StorageError(
                f"it has been claimed by {earlier}; go on from it without a claim, or delete {path} if that "
                "run needs it no longer"
            )

    def free_location(self, directory: str | None, name: str) -> str:
        """Return a location for a savepoint, which is reserved; see `CheckpointStorage`."""
        first = name if directory is None else f"{directory}/{name}"
        numbered = (f"{first}-{number}" for number in count(2))
        return next(place for place in chain([first], numbered) if self.savepoint(place).reserve())

    def savepoint(self, location: str) -> SavepointFolder:
        """Return the storage of one savepoint; see `CheckpointStorage`."""
        return SavepointFolder(self, location)

    def present(self) -> list[int]:
        """Return the ids of all checkpoints that there is anything of, complete or not, ascending."""
        ids = (checkpoint_id_of(folder) for folder in self._folders())
        return sorted(number for number in ids if number is not None)

    def savepoints(self) -> list[SavepointFolder]:
        """Return the savepoints that lie beside the checkpoints, by name; some may be broken or incomplete.

        A folder of another name than savepoints are given is one if it has metadata.
        """
        others = [folder for folder in self._folders() if checkpoint_id_of(folder) is None]
        return [
            SavepointFolder(self, folder)
            for folder in sorted(others)
            if folder.startswith(SAVEPOINT_PREFIX)
            or METADATA_NAME in SavepointFolder(self, folder).contents(0)
        ]

    def contents(self, checkpoint_id: int) -> dict[str, int]:
        """Return the sizes in bytes, by path, of the files in the folder of one checkpoint."""
        return self._files(self._folder_of(checkpoint_id))

    def shared_files(self) -> dict[str, int]:
        """Return the sizes in bytes, by path, of the files that several checkpoints may use."""
        return self._files(SHARED_FOLDER)

    def _folder_of(self, checkpoint_id: int) -> str:
        """Return the folder of what belongs to a checkpoint alone."""
        return folder_of(checkpoint_id)

    def _path_of(self, checkpoint_id: int, name: str, *, shared: bool) -> str:
        """Return the path of a file."""
        return f"{SHARED_FOLDER if shared else folder_of(checkpoint_id)}/{name}"

    def _metadata_path(self, checkpoint_id: int) -> str:
        """Return the path of a checkpoint's metadata."""
        return metadata_path(checkpoint_id)

    def _metadata_at(self, path: str) -> CheckpointMetadata:
        try:
            return decode_metadata(self._get(path, MAX_METADATA_BYTES))
        except ValueError as error:
            raise DamagedFileError(f"{path}: {error}") from error

    def _checked(self, path: str) -> str:
        """A path that metadata names; what does not lie in a folder of the layout is never touched."""
        if not is_file_path(path):
            raise DamagedFileError(f"{path} is no path of a file of a checkpoint")
        return path

    def _is_complete(self, checkpoint_id: int) -> bool:
        try:
            self.load(checkpoint_id)
        except (MissingFileError, DamagedFileError):
            return False
        return True

    @abstractmethod
    def _put(self, path: str, data: bytes) -> None:
        """Store a file; one that exists is replaced. After a failure, part of it may be there."""

    def _create(self, path: str, data: bytes) -> bool:
        """Store a file that is not there yet; whether it was not."""
        if self._size(path) is not None:
            return False
        self._put(path, data)
        return True

    def _create_folder(self, folder: str) -> bool:
        """Make a folder of which there is nothing yet; whether there was not."""
        return not self._files(folder)

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


class SavepointFolder(FileLayout):
    """A savepoint in a folder of another storage: its files lie there side by side, and name no other.

    So the folder can be moved and renamed as a whole. Nothing in it is shared.
    """

    def __init__(self, storage: FileLayout, folder: str) -> None:
        self.folder = folder
        self._storage = storage

    @property
    def is_taken(self) -> bool:
        """Whether there is anything in the folder."""
        return bool(self._files(""))

    def reserve(self) -> bool:
        """Keep the place from all other savepoints, unless it is taken; whether it was not.

        Raises:
            StorageError: The storage could not be read, or nothing can be made there.
        """
        return self._storage._create_folder(self.folder)

    @property
    def metadata(self) -> CheckpointMetadata:
        """What the savepoint consists of.

        Raises:
            MissingFileError: It is not there, or was never completed.
            DamagedFileError: Its metadata is broken.
            StorageError: The storage could not be read.
        """
        return self._metadata_at(METADATA_NAME)

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file of the savepoint; see `CheckpointStorage`."""
        return super().write(checkpoint_id, name, data)

    def present(self) -> list[int]:
        """Return the id of the savepoint, if it is complete."""
        try:
            return [self.metadata.checkpoint_id]
        except (MissingFileError, DamagedFileError):
            return []

    def shared_files(self) -> dict[str, int]:
        """Return nothing."""
        return {}

    def savepoint(self, location: str) -> SavepointFolder:
        """Refuse: a savepoint has no savepoints."""
        raise StorageError(f"{self.folder} is a savepoint, and {location} cannot be in it")

    def _folder_of(self, checkpoint_id: int) -> str:
        return ""

    def _path_of(self, checkpoint_id: int, name: str, *, shared: bool) -> str:
        return name

    def _metadata_path(self, checkpoint_id: int) -> str:
        return METADATA_NAME

    def _checked(self, path: str) -> str:
        if not is_file_name(path):
            raise DamagedFileError(f"{path} is no name of a file of a savepoint")
        return path

    def _at(self, path: str) -> str:
        return f"{self.folder}/{path}"

    def _put(self, path: str, data: bytes) -> None:
        self._storage._put(self._at(path), data)

    def _create(self, path: str, data: bytes) -> bool:
        return self._storage._create(self._at(path), data)

    def _publish(self, path: str, data: bytes) -> None:
        self._storage._publish(self._at(path), data)

    def _get(self, path: str, at_most: int) -> bytes:
        return self._storage._get(self._at(path), at_most)

    def _size(self, path: str) -> int | None:
        return self._storage._size(self._at(path))

    def _remove(self, path: str) -> None:
        self._storage._remove(self._at(path))

    def _remove_folder(self, folder: str) -> None:
        self._storage._remove_folder(self.folder)

    def _folders(self) -> list[str]:
        return []

    def _files(self, folder: str) -> dict[str, int]:
        found = self._storage._files(self.folder)
        return {path.removeprefix(f"{self.folder}/"): size for path, size in found.items()}


class MemoryStorage(FileLayout):
    """Keeps checkpoints in memory, for as long as it is kept itself.

    Flink: ``JobManagerCheckpointStorage``, but with files, so that nothing depends on what keeps them.
    Data in flight that is blank stays so; the checksum of such a file is that of its description.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes | Pieces] = {}
        """What is stored, by path."""

    def write_pieces(self, checkpoint_id: int, name: str, data: Pieces) -> StoredFile:
        """Store a file as it is described; see the function of that name."""
        path = self._free_path(checkpoint_id, name, shared=False)
        self.files[path] = data
        return StoredFile(path=path, size=len(data), checksum=checksum(data.description))

    def read(self, file: StoredFile) -> bytes:
        """Return the bytes of a file; see `CheckpointStorage`."""
        kept = self.files.get(file.path)
        if not isinstance(kept, Pieces):
            return super().read(file)
        if (len(kept), checksum(kept.description)) != (file.size, file.checksum):
            raise DamagedFileError(f"{file.path} is not what was written")
        return bytes(kept)

    def _put(self, path: str, data: bytes) -> None:
        self.files[path] = bytes(data)

    def _publish(self, path: str, data: bytes) -> None:
        self._put(path, data)

    def _get(self, path: str, at_most: int) -> bytes:
        if path not in self.files:
            raise MissingFileError(f"{path} is not there")
        return bytes(self.files[path])

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
