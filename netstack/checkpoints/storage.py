"""Storages of checkpoints: their interface, and their layout as files.

Paths are relative to the root of the storage, so a whole directory can be moved::

    chk-17/_metadata         written last; with it the checkpoint is complete
    chk-17/source-0-...      belongs to checkpoint 17 alone, and is deleted with it
    shared/window-1-...      may belong to several checkpoints; is deleted by name

A savepoint is a folder of its own, by any name, with its metadata and its files side by side::

    savepoint-17-5f3a/_metadata
    savepoint-17-5f3a/source-0-...

The names are those of Flink's file-based checkpoint storage (``AbstractFsCheckpointStorageAccess``), below
one job's directory. The data that an unaligned barrier has overtaken lies in two places, in the queues of the
input channel and of the subpartition that feeds it; each subtask stores its part, all channels in one file.
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
from ..state.snapshots import CheckpointMetadata, StateHandle, StateKind, StoredFile
from .metadata import checksum, decode_metadata, encode_metadata


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

        Shared files stay: the caller deletes those that no checkpoint uses. An unknown id is no error.

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
        """Note that a complete checkpoint belongs to another run from now on; no other run may claim it.

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
    """Delete files that are not needed; a file that cannot be deleted stays, and belongs to no checkpoint."""
    with suppress(StorageError):
        storage.delete(files)


def write_pieces(storage: CheckpointStorage, checkpoint_id: int, name: str, data: Pieces) -> StoredFile:
    """Store a file of a checkpoint as `CheckpointStorage.write` does; blank data may stay blank.

    A storage that can keep what is blank as it is has a `write_pieces` of its own; any other one gets bytes.

    Raises:
        StorageError: as `write` does.
    """
    keep: Callable[[int, str, Pieces], StoredFile] | None = getattr(storage, "write_pieces", None)
    if keep is None or not data.blank:
        return storage.write(checkpoint_id, name, bytes(data))
    return keep(checkpoint_id, name, data)


class ChannelPlace(NamedTuple):
    """One channel of a subtask: the numbers of the gate (or the output), and of the channel within it."""

    kind: StateKind
    exchange: int
    channel: int


def channel_handles(
    data: Mapping[ChannelPlace, Pieces], write: Callable[[Pieces], StoredFile], inline_up_to: int
) -> list[StateHandle]:
    """Store the data of channels: in one file, or in the handles if it is at most `inline_up_to` bytes.

    Raises:
        StorageError: if it cannot be written.
    """
    joined = Pieces(chain.from_iterable(data.values()))
    file = write(joined) if len(joined) > inline_up_to else None
    handles, offset = [], 0
    for place, piece in data.items():
        handles.append(
            StateHandle(
                kind=place.kind,
                exchange=place.exchange,
                channel=place.channel,
                size=len(piece),
                inline=bytes(piece) if file is None else None,
                file=file,
                offset=0 if file is None else offset,
            )
        )
        offset += len(piece)
    return handles


METADATA_NAME = "_metadata"
"""Name of the file that makes a checkpoint complete."""

CLAIM_NAME = "_claimed"
"""Name of the file that says which run a checkpoint belongs to, if that is not the one that took it."""

SAVEPOINT_PREFIX = "savepoint-"
"""Prefix of the names of new savepoints; they may be renamed."""

SHARED_FOLDER = "shared"
"""Folder of the files that several checkpoints may use."""

LONGEST_NAME = 200
"""Characters of a file's name at most; file systems allow 255 bytes, and some add to what they are given."""

_CHECKSUM_LENGTH = 16
_FOLDER = re.compile(r"chk-(0|[1-9][0-9]*)")
_PATH = re.compile(r"(?:chk-[0-9]+|shared)/[A-Za-z0-9_%-]+")
_NAME = re.compile(r"[A-Za-z0-9_%-]+")
_ESCAPED = re.compile(rb"[^A-Za-z0-9_-]")


def file_name(name: str) -> str:
    """Return a name as one of a file: all but ASCII letters, digits, ``_`` and ``-`` as %XX of their UTF-8.

    The end of a very long one gives way to a checksum.

    Raises:
        ValueError: It is empty, or that of the metadata.
    """
    if name in ("", METADATA_NAME, CLAIM_NAME):
        raise ValueError(f"{name!r} is no name for a file of a checkpoint")
    plain = name.encode("utf-8", "replace")
    escaped = _ESCAPED.sub(lambda match: b"%%%02X" % match[0][0], plain).decode()
    if len(escaped) <= LONGEST_NAME:
        return escaped
    return f"{escaped[: LONGEST_NAME - _CHECKSUM_LENGTH - 1]}-{checksum(plain)[:_CHECKSUM_LENGTH]}"


def folder_of(checkpoint_id: int) -> str:
    """Return the folder of a checkpoint's own files.

    Raises:
        ValueError: The id is negative.
    """
    if checkpoint_id < 0:
        raise ValueError(f"{checkpoint_id} is no checkpoint id")
    return f"chk-{checkpoint_id}"


def metadata_path(checkpoint_id: int) -> str:
    """Return the path of a checkpoint's metadata."""
    return f"{folder_of(checkpoint_id)}/{METADATA_NAME}"


def claim_path(checkpoint_id: int) -> str:
    """Return the path of the file that says whose a checkpoint is."""
    return f"{folder_of(checkpoint_id)}/{CLAIM_NAME}"


def checkpoint_id_of(folder: str) -> int | None:
    """Return the id of the checkpoint whose folder has this name, None if it is none."""
    match = _FOLDER.fullmatch(folder)
    return int(match[1]) if match else None


def is_file_path(path: str) -> bool:
    """Return whether a path is one of a file that a checkpoint may have, so that it is safe to use."""
    return _PATH.fullmatch(path) is not None


def is_file_name(name: str) -> bool:
    """Return whether a name is one of a file of a savepoint, which lies in no folder of its own."""
    return _NAME.fullmatch(name) is not None and name not in (METADATA_NAME, CLAIM_NAME)


MAX_METADATA_BYTES = 32 << 20
"""Size of a checkpoint's metadata at most, to be written or read."""

MAX_CLAIMANT_BYTES = 1 << 12
"""Size of a claim at most."""


class FileLayout(ABC):
    """A `CheckpointStorage` over anything that keeps files by path, which subclasses implement."""

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file of a checkpoint that is not complete yet; see `CheckpointStorage`."""
        path = self._free_path(checkpoint_id, name, shared=shared)
        file = StoredFile(path=path, size=len(data), checksum=checksum(data), shared=shared)
        self._put(path, data)
        return file

    def _free_path(self, checkpoint_id: int, name: str, *, shared: bool) -> str:
        """Return the path of a new file; see `CheckpointStorage.write`."""
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
        """The metadata of the savepoint.

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
        """The stored files, by path."""

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
