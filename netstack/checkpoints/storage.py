"""Checkpoint storage: its interface and the layout of its files.

Paths are relative to the root of the storage, so a whole directory can be moved::

    chk-17/_metadata         written last; with it the checkpoint is complete
    chk-17/source-0-...      belongs to checkpoint 17 alone, and is deleted with it
    shared/window-1-...      may belong to several checkpoints; deleted when none of them is left

A savepoint is a separate folder, with any name, that contains its metadata and its files::

    savepoint-17-5f3a/_metadata
    savepoint-17-5f3a/source-0-...

The names are those of Flink's file-based checkpoint storage (``AbstractFsCheckpointStorageAccess``), below
one job's directory. The data that an unaligned barrier has overtaken is in two places: in the queue of the
input channel, and in the queue of the subpartition that feeds it. Each subtask stores its part, with all
channels in one file.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain, count
from typing import NamedTuple, Protocol

from buffers import Pieces

from ..errors import DamagedFileError, MissingFileError, StorageError
from ..state.backend import located
from ..state.handles import WHOLE_FILES, StateHandle, StoredFile
from ..state.state_kinds import StateKind
from .metadata import CheckpointMetadata
from .metadata_encoding import checksum, decode_metadata, encode_metadata

__all__ = [
    "CLAIM_NAME",
    "METADATA_NAME",
    "CheckpointStorage",
    "FileLayout",
    "HandleReader",
    "MemoryStorage",
    "SavepointFolder",
    "checkpoint_id_of",
    "claim_path",
    "file_name",
    "folder_of",
    "metadata_path",
]


class CheckpointStorage(Protocol):
    """Keeps the files of checkpoints (Flink: ``CheckpointStorage`` and its ``CheckpointStorageAccess``).

    A checkpoint is complete when `complete` returns. Before that, and after a failure, no other method treats
    it as complete.
    """

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file of an incomplete checkpoint; ``shared``: whether later checkpoints may use the file.

        ``name`` must be unique within the checkpoint, and for a shared file within the storage. Characters
        that are not allowed in file names are escaped. A file of the same name from an earlier attempt is
        replaced.

        Raises:
            StorageError: if the file could not be written, the checkpoint is complete, or the shared file
                exists.
            ValueError: if ``name`` is empty or reserved for the storage's own files, or the id is negative.
        """

    def read(self, file: StoredFile) -> bytes:
        """Return the bytes of a file.

        Raises:
            MissingFileError: if it does not exist.
            DamagedFileError: if it has another size or checksum.
            StorageError: if it could not be read.
        """

    def complete(self, metadata: CheckpointMetadata) -> None:
        """Write the metadata atomically, which makes the checkpoint complete.

        Raises:
            StorageError: if it could not be written, or the checkpoint is already complete.
        """

    def checkpoints(self) -> list[int]:
        """Return the ids of the complete checkpoints, ascending, without damaged ones.

        Raises:
            StorageError: if the storage could not be read.
        """

    def load(self, checkpoint_id: int) -> CheckpointMetadata:
        """Return the metadata of a complete checkpoint.

        Raises:
            MissingFileError: if there is no such checkpoint, or it was never completed.
            DamagedFileError: if its metadata is damaged.
            StorageError: if the storage could not be read.
        """

    def discard(self, checkpoint_id: int) -> None:
        """Delete the metadata, then all files that belong only to this checkpoint, complete or not.

        Shared files stay; the caller deletes those that no checkpoint uses. An unknown id is not an error.

        Raises:
            StorageError: if a file could not be deleted.
        """

    def delete(self, files: Iterable[StoredFile]) -> None:
        """Delete single files, shared or of an incomplete checkpoint; missing files are ignored.

        Raises:
            StorageError: if a file could not be deleted.
        """

    def claim(self, checkpoint_id: int, claimant: str) -> None:
        """Record that a complete checkpoint now belongs to another run. No further run may claim it.

        Raises:
            StorageError: if another run has claimed the checkpoint (the message names this run), or the claim
                cannot be stored.
        """

    def free_location(self, directory: str | None, name: str) -> str:
        """Return an unused location for a savepoint, with a name similar to ``name``.

        The location is in ``directory``; None: beside the checkpoints. No other job gets the same location,
        even if jobs with the same ids store savepoints in one directory. (In object stores, this holds once a
        file has been stored at the location.)

        Raises:
            StorageError: if the directory cannot be read or written, or the storage has no default directory.
        """

    def savepoint(self, location: str) -> CheckpointStorage:
        """Return the storage of one savepoint, which contains nothing else and shares no file.

        Nothing is created yet.

        Raises:
            StorageError: if the storage does not support this location.
        """


class HandleReader:
    """Reads the bytes that state handles refer to. If consecutive handles share a file, it is read once."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self._storage = storage
        self._file: StoredFile | None = None
        self._data = b""

    def __call__(self, handle: StateHandle) -> bytes:
        """Return the bytes of a handle.

        Raises:
            MissingFileError: if its file is missing.
            DamagedFileError: if its file is damaged, or shorter than the handle says.
            StorageError: if its file could not be read.
        """
        if handle.file is None:
            data = handle.inline or b""
        else:
            if handle.file != self._file:
                self._data = self._storage.read(handle.file)
                self._file = handle.file
            data = self._data
        if handle.format in WHOLE_FILES:
            return data
        if handle.file is not None:
            data = data[handle.offset : handle.offset + handle.size]
        if len(data) != handle.size:
            where = handle.file.path if handle.file else "the metadata"
            raise DamagedFileError(
                f"{where} does not contain the {handle.size} bytes of {handle.kind} state "
                f"{handle.name!r} that belong there"
            )
        return data


def exclusively(storage: CheckpointStorage | None) -> AbstractContextManager[None]:
    """Return a context that keeps other runs out of the storage.

    It does nothing if the storage cannot be shared.

    Raises:
        StorageError: on entry, if another run uses the storage; the message names this run.
    """
    exclusive: Callable[[], AbstractContextManager[None]] | None = getattr(storage, "exclusive", None)
    return nullcontext() if exclusive is None else exclusive()


def delete_where_possible(storage: CheckpointStorage, files: Iterable[StoredFile]) -> None:
    """Delete unneeded files. A file that cannot be deleted stays, and belongs to no checkpoint."""
    with suppress(StorageError):
        storage.delete(files)


def write_pieces(storage: CheckpointStorage, checkpoint_id: int, name: str, data: Pieces) -> StoredFile:
    """Store a file of a checkpoint, as `CheckpointStorage.write` does.

    Blank data is data that no task reads. A storage that can keep only its length has a method
    `write_pieces`. Other storages get all bytes.

    Raises:
        StorageError: see `CheckpointStorage.write`.
    """
    keep: Callable[[int, str, Pieces], StoredFile] | None = getattr(storage, "write_pieces", None)
    if keep is None or not data.blank:
        return storage.write(checkpoint_id, name, bytes(data))
    return keep(checkpoint_id, name, data)


class ChannelPlace(NamedTuple):
    """One channel of a subtask: index of the gate (or output), and of the channel within it."""

    kind: StateKind
    exchange: int
    channel: int


def channel_handles(
    data: Mapping[ChannelPlace, Pieces], write: Callable[[Pieces], StoredFile], inline_up_to: int
) -> list[StateHandle]:
    """Store the in-flight data of channels: up to `inline_up_to` bytes in the handles, more in one file.

    Raises:
        StorageError: if the file cannot be written.
    """
    pieces = [
        (StateHandle(kind=kind, exchange=exchange, channel=channel, size=len(piece)), piece)
        for (kind, exchange, channel), piece in data.items()
    ]
    return located(pieces, lambda each: write(Pieces(chain.from_iterable(each))), inline_up_to)


METADATA_NAME = "_metadata"
"""Name of the metadata file, whose existence makes a checkpoint complete."""

CLAIM_NAME = "_claimed"
"""Name of the file that records which run has claimed a checkpoint."""

SAVEPOINT_PREFIX = "savepoint-"
"""Prefix of the folder names of new savepoints; users may rename these folders."""

SHARED_FOLDER = "shared"
"""Folder of the files that several checkpoints may use."""

LONGEST_NAME = 200
"""Maximum length of a file name in bytes. File systems allow 255; the rest is for suffixes."""

_CHECKSUM_LENGTH = 16
_FOLDER = re.compile(r"chk-(0|[1-9][0-9]*)")
_PATH = re.compile(r"(?:chk-[0-9]+|shared)/[A-Za-z0-9_%-]+")
_NAME = re.compile(r"[A-Za-z0-9_%-]+")
_ESCAPED = re.compile(rb"[^A-Za-z0-9_-]")


def file_name(name: str) -> str:
    """Convert a name to a file name.

    ASCII letters, digits, ``_`` and ``-`` stay; each byte of other characters in UTF-8 becomes %XX. The end
    of a very long name is replaced by a checksum.

    Raises:
        ValueError: if the name is empty, or is the name of the metadata or of a claim.
    """
    if name in ("", METADATA_NAME, CLAIM_NAME):
        raise ValueError(f"{name!r} cannot be the name of a checkpoint's file: the name is empty or reserved")
    plain = name.encode("utf-8", "replace")
    escaped = _ESCAPED.sub(lambda match: b"%%%02X" % match[0][0], plain).decode()
    if len(escaped) <= LONGEST_NAME:
        return escaped
    return f"{escaped[: LONGEST_NAME - _CHECKSUM_LENGTH - 1]}-{checksum(plain)[:_CHECKSUM_LENGTH]}"


def folder_of(checkpoint_id: int) -> str:
    """Return the folder of the files that belong to one checkpoint only.

    Raises:
        ValueError: if the id is negative.
    """
    if checkpoint_id < 0:
        raise ValueError(f"{checkpoint_id} is not a valid checkpoint id")
    return f"chk-{checkpoint_id}"


def metadata_path(checkpoint_id: int) -> str:
    """Return the path of a checkpoint's metadata."""
    return f"{folder_of(checkpoint_id)}/{METADATA_NAME}"


def claim_path(checkpoint_id: int) -> str:
    """Return the path of the file that records which run has claimed a checkpoint."""
    return f"{folder_of(checkpoint_id)}/{CLAIM_NAME}"


def checkpoint_id_of(folder: str) -> int | None:
    """Return the id of the checkpoint with this folder name, or None."""
    match = _FOLDER.fullmatch(folder)
    return int(match[1]) if match else None


MAX_METADATA_BYTES = 32 << 20
"""Maximum size of a checkpoint's metadata, for writing and reading."""

MAX_CLAIMANT_BYTES = 1 << 12
"""Maximum size of a claim file."""


class FileLayout(ABC):
    """A `CheckpointStorage` that stores files by path; subclasses implement the access to the files."""

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file of an incomplete checkpoint; see `CheckpointStorage`."""
        path = self._free_path(checkpoint_id, name, shared=shared)
        file = StoredFile(path=path, size=len(data), checksum=checksum(data), shared=shared)
        self._put(path, data)
        return file

    def _free_path(self, checkpoint_id: int, name: str, *, shared: bool) -> str:
        """Return the path of a new file; see `CheckpointStorage.write`."""
        path = self._path_of(checkpoint_id, file_name(name), shared=shared)
        in_the_way = path if shared else self._metadata_path(checkpoint_id)
        if self._size(in_the_way) is not None:
            raise StorageError(f"{path} cannot be written, because {in_the_way} already exists")
        return path

    def read(self, file: StoredFile) -> bytes:
        """Return the bytes of a file; see `CheckpointStorage`."""
        size = self._size(self._checked(file.path))
        if size is not None and size != file.size:  # checked before reading: a wrong file may be huge
            raise DamagedFileError(f"{file.path} has {size} bytes, but {file.size} bytes were written")
        data = self._get(file.path, file.size)
        if checksum(data) != file.checksum:
            raise DamagedFileError(f"{file.path} does not have the checksum of the bytes that were written")
        return data

    def verify(self, file: StoredFile) -> None:
        """Check that a file is unchanged, without keeping its bytes; raises the same errors as `read`."""
        self.read(file)

    def complete(self, metadata: CheckpointMetadata) -> None:
        """Write the metadata, which makes the checkpoint complete; see `CheckpointStorage`."""
        path, data = self._metadata_path(metadata.checkpoint_id), encode_metadata(metadata)
        if self._size(path) is not None:
            raise StorageError(f"{path} already exists")
        if len(data) > MAX_METADATA_BYTES:
            raise StorageError(
                f"{path} would have {len(data)} bytes, but at most {MAX_METADATA_BYTES} are allowed; "
                "lower state.storage.fs.memory-threshold, so that the metadata holds less state, or "
                "keep the changelog in files (state.changelog.storage: filesystem)"
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
            raise DamagedFileError(
                f"{path} holds the metadata of checkpoint {metadata.checkpoint_id}, which belongs in another "
                "folder"
            )
        return metadata

    def discard(self, checkpoint_id: int) -> None:
        """Delete the files that belong only to this checkpoint; see `CheckpointStorage`."""
        self._remove(self._metadata_path(checkpoint_id))  # first, so that the rest never looks complete
        self._remove_folder(folder_of(checkpoint_id))

    def delete(self, files: Iterable[StoredFile]) -> None:
        """Delete single files; see `CheckpointStorage`."""
        paths = [self._checked(file.path) for file in files]
        for path in paths:
            self._remove(path)
        for folder in sorted({path.partition("/")[0] for path in paths} - {SHARED_FOLDER}):
            if not self._files(folder):  # the folder of a checkpoint that was discarded before
                self._remove_folder(folder)

    def claim(self, checkpoint_id: int, claimant: str) -> None:
        """Record that a checkpoint now belongs to another run; see `CheckpointStorage`."""
        path = self._path_of(checkpoint_id, CLAIM_NAME, shared=False)
        if not self._create(path, claimant.encode()):
            earlier = self._get(path, MAX_CLAIMANT_BYTES).decode("utf-8", "replace")
            raise StorageError(
                f"the checkpoint has already been claimed by {earlier}; restore it without claiming it, "
                f"or delete {path} if that run no longer needs it"
            )

    def free_location(self, directory: str | None, name: str) -> str:
        """Reserve and return an unused location for a savepoint; see `CheckpointStorage`."""
        first = name if directory is None else f"{directory}/{name}"
        numbered = (f"{first}-{number}" for number in count(2))
        return next(place for place in chain([first], numbered) if self.savepoint(place).reserve())

    def savepoint(self, location: str) -> SavepointFolder:
        """Return the storage of one savepoint; see `CheckpointStorage`."""
        return SavepointFolder(self, location)

    def present(self) -> list[int]:
        """Return the ids of all checkpoints that have any files, complete or not, ascending."""
        ids = (checkpoint_id_of(folder) for folder in self._folders())
        return sorted(number for number in ids if number is not None)

    def savepoints(self) -> list[SavepointFolder]:
        """Return the savepoints beside the checkpoints, sorted by name; some may be damaged or incomplete.

        A folder with metadata counts as a savepoint whatever its name.
        """
        others = [folder for folder in self._folders() if checkpoint_id_of(folder) is None]
        return [
            SavepointFolder(self, folder)
            for folder in sorted(others)
            if folder.startswith(SAVEPOINT_PREFIX)
            or METADATA_NAME in SavepointFolder(self, folder).contents(0)
        ]

    def contents(self, checkpoint_id: int) -> dict[str, int]:
        """Return the sizes in bytes of the files in the folder of one checkpoint, by path."""
        return self._files(folder_of(checkpoint_id))

    def shared_files(self) -> dict[str, int]:
        """Return the sizes in bytes of the files that several checkpoints may use, by path."""
        return self._files(SHARED_FOLDER)

    def _path_of(self, checkpoint_id: int, name: str, *, shared: bool) -> str:
        """Return the path of a file."""
        return f"{SHARED_FOLDER if shared else folder_of(checkpoint_id)}/{name}"

    def _metadata_path(self, checkpoint_id: int) -> str:
        """Return the path of a checkpoint's metadata."""
        return self._path_of(checkpoint_id, METADATA_NAME, shared=False)

    def _metadata_at(self, path: str) -> CheckpointMetadata:
        try:
            return decode_metadata(self._get(path, MAX_METADATA_BYTES))
        except ValueError as error:
            raise DamagedFileError(f"{path}: {error}") from error

    def _checked(self, path: str) -> str:
        """Return a path from metadata after checking that it lies in a folder of the layout.

        Other paths could lead out of the storage.
        """
        if _PATH.fullmatch(path) is None:
            raise DamagedFileError(f"{path} is not a path that files of a checkpoint can have")
        return path

    def _is_complete(self, checkpoint_id: int) -> bool:
        try:
            self.load(checkpoint_id)
        except (MissingFileError, DamagedFileError):
            return False
        return True

    @abstractmethod
    def _put(self, path: str, data: bytes) -> None:
        """Store a file, replacing an existing one. After a failure, a part of the file may remain."""

    def _create(self, path: str, data: bytes) -> bool:
        """Store a file if it does not exist; returns whether it was stored."""
        if self._size(path) is not None:
            return False
        self._put(path, data)
        return True

    def _create_folder(self, folder: str) -> bool:
        """Create a folder; returns False if it already contains files."""
        return not self._files(folder)

    @abstractmethod
    def _publish(self, path: str, data: bytes) -> None:
        """Store a file atomically."""

    @abstractmethod
    def _get(self, path: str, at_most: int) -> bytes:
        """Return the content of a regular file of at most `at_most` bytes.

        Raises:
            MissingFileError: if it does not exist.
            StorageError: if it is not a regular file, or is larger.
        """

    @abstractmethod
    def _size(self, path: str) -> int | None:
        """Return the size of a file, or None if it does not exist."""

    @abstractmethod
    def _remove(self, path: str) -> None:
        """Delete a file if it exists."""

    @abstractmethod
    def _remove_folder(self, folder: str) -> None:
        """Delete a folder and its contents if it exists."""

    @abstractmethod
    def _folders(self) -> list[str]:
        """Return the names of the folders in the root."""

    @abstractmethod
    def _files(self, folder: str) -> dict[str, int]:
        """Return the sizes of all files below a folder, by path; empty if the folder does not exist."""


class SavepointFolder(FileLayout):
    """A savepoint in a folder of another storage.

    All its files are in this folder, whatever folder the layout of checkpoints has for them, and none is
    shared. So the folder can be moved and renamed as a whole.
    """

    def __init__(self, storage: FileLayout, folder: str) -> None:
        self.folder = folder
        self._storage = storage

    @property
    def is_taken(self) -> bool:
        """Whether the folder has any files."""
        return bool(self._files(""))

    def reserve(self) -> bool:
        """Reserve the location for this savepoint; returns False if it is taken.

        Raises:
            StorageError: if the storage could not be read or written.
        """
        return self._storage._create_folder(self.folder)

    @property
    def metadata(self) -> CheckpointMetadata:
        """The metadata of the savepoint.

        Raises:
            MissingFileError: if the savepoint does not exist or was never completed.
            DamagedFileError: if its metadata is damaged.
            StorageError: if the storage could not be read.
        """
        return self._metadata_at(METADATA_NAME)

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file of the savepoint; see `CheckpointStorage`."""
        return super().write(checkpoint_id, name, data)

    def present(self) -> list[int]:
        """Return a list with the id of the savepoint if the savepoint is complete, else an empty list."""
        try:
            return [self.metadata.checkpoint_id]
        except (MissingFileError, DamagedFileError):
            return []

    def shared_files(self) -> dict[str, int]:
        """Return an empty dictionary: a savepoint shares no files."""
        return {}

    def savepoint(self, location: str) -> SavepointFolder:
        """Raise StorageError: a savepoint contains no savepoints."""
        raise StorageError(
            f"{self.folder} is a savepoint, so the savepoint {location} cannot be created in it"
        )

    def _path_of(self, checkpoint_id: int, name: str, *, shared: bool) -> str:
        return name

    def _checked(self, path: str) -> str:
        if _NAME.fullmatch(path) is None or path in (METADATA_NAME, CLAIM_NAME):
            raise DamagedFileError(f"{path} is not a name that files of a savepoint can have")
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
    """Keeps checkpoints in memory as long as the object exists.

    Corresponds to Flink's ``JobManagerCheckpointStorage``, but stores files. Blank in-flight data, which no
    task reads, is kept as a length. The checksum of a file then covers these lengths and the other bytes.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes | Pieces] = {}
        """The stored files, by path."""

    def write_pieces(self, checkpoint_id: int, name: str, data: Pieces) -> StoredFile:
        """Store a file without the bytes of its blank pieces: only their lengths are kept."""
        path = self._free_path(checkpoint_id, name, shared=False)
        self.files[path] = data
        return StoredFile(path=path, size=len(data), checksum=checksum(data.description))

    def read(self, file: StoredFile) -> bytes:
        """Return the bytes of a file; see `CheckpointStorage`."""
        kept = self.files.get(file.path)
        if not isinstance(kept, Pieces):
            return super().read(file)
        if (len(kept), checksum(kept.description)) != (file.size, file.checksum):
            raise DamagedFileError(f"the contents of {file.path} differ from what was written")
        return bytes(kept)

    def _put(self, path: str, data: bytes) -> None:
        self.files[path] = bytes(data)

    def _publish(self, path: str, data: bytes) -> None:
        self._put(path, data)

    def _get(self, path: str, at_most: int) -> bytes:
        if path not in self.files:
            raise MissingFileError(f"{path} does not exist")
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
