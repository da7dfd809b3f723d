"""Checkpoints in a directory, of this machine or of another file system that Arrow can reach.

A root is a path or a URI: ``/data/checkpoints``, ``file:///data/checkpoints``, ``s3://bucket/checkpoints``,
``hdfs://namenode:8020/checkpoints``. `CHECKPOINT_LAYOUT.md` describes its contents.

One run at a time owns a directory. The run holds a lock of the operating system on the file `_lock` in the
directory. The lock ends with the process. The file describes the owner to other runs. It is never deleted,
because two runs could then lock two files of the same name.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from filelock import FileLock, Timeout
from pyarrow import fs

from netstack import (
    METADATA_NAME,
    DamagedFileError,
    FileLayout,
    MemoryStorage,
    MissingFileError,
    SavepointFolder,
    StorageError,
    StoredFile,
)

PARTIAL = ".partial"
"""Suffix of metadata while it is being written."""

LONGEST_REASON = 200
"""Maximum number of characters of Arrow's message that are repeated."""

PIECE_BYTES = 1 << 20
"""Number of bytes to read at once from a file whose contents are not kept in memory."""

_T = TypeVar("_T")

LOCK_NAME = "_lock"
"""The file in a checkpoint directory that its owner locks."""

LONGEST_OWNER = 1 << 10
"""Maximum number of bytes that are read of an owner's description."""


class DirectoryStorage(FileLayout):
    """Storage of checkpoints below a directory, which is created with the first checkpoint.

    Metadata is written under another name and then renamed, so it appears completely or not at all. A machine
    that loses power may lose the last bytes, which checksums detect.

    Args:
        root: A path, or the URI of a file system that Arrow knows.

    Raises:
        StorageError: The URI cannot be used: an unknown scheme, a missing library, no such bucket.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = str(root)
        filesystem, path = _naming(self.root, partial(_file_system_of, self.root))
        self._filesystem: Any = filesystem
        self._path: str = path.rstrip("/") or "/"
        local = isinstance(filesystem, fs.LocalFileSystem)
        self._ownership = DirectoryOwnership(Path(self._path)) if local else None

    @property
    def is_local(self) -> bool:
        """Whether the directory is in a file system of this machine, so that a run can lock it."""
        return self._ownership is not None

    def is_same_place(self, other: DirectoryStorage) -> bool:
        """Whether another storage has the same directory."""
        same: bool = self._filesystem.equals(other._filesystem)
        if same and self.is_local:
            return os.path.realpath(self._path) == os.path.realpath(other._path)
        return same and self._path == other._path

    def exclusive(self) -> AbstractContextManager[None]:
        """Return a context in which this run owns the directory; contexts may be nested.

        Entering the context creates the directory.

        S3 and HDFS have no locks, so there other runs can also use the directory.

        Raises:
            StorageError: Another run owns it, or locking fails; on entry.
        """
        return nullcontext() if self._ownership is None else self._ownership.held()

    def free_location(self, directory: str | None, name: str) -> str:
        """Return a location for a savepoint, independent of the working directory."""
        if directory is not None and "://" not in directory:
            directory = os.path.abspath(directory)
        return super().free_location(directory, name)

    def savepoint(self, location: str) -> SavepointFolder:
        """Return the storage of one savepoint: in this directory, or at a path or URI."""
        parent, slash, name = location.rstrip("/").rpartition("/")
        return SavepointFolder(DirectoryStorage(parent or slash) if slash else self, name)

    def exists(self) -> bool:
        """Whether the root exists and is a directory.

        Raises:
            StorageError: The file system gives no answer.
        """
        kind: object = self._info("").type
        return bool(kind == fs.FileType.Directory)

    def _at(self, path: str) -> str:
        return f"{self._path.rstrip('/')}/{path}".rstrip("/") or "/"

    def _info(self, path: str) -> Any:
        return _naming(self._at(path), lambda: self._filesystem.get_file_info(self._at(path)))

    def _put(self, path: str, data: bytes) -> None:
        _naming(self._at(path), lambda: self._write(self._at(path), data))

    def _write(self, path: str, data: bytes) -> None:
        try:
            stream = self._filesystem.open_output_stream(path, compression=None)
        except FileNotFoundError:
            self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            stream = self._filesystem.open_output_stream(path, compression=None)
        with stream:
            stream.write(data)

    def _create(self, path: str, data: bytes) -> bool:
        if not self.is_local:
            return super()._create(path, data)
        full = self._at(path)
        try:
            descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        except OSError as error:
            raise StorageError(f"{full}: {error.strerror}") from error
        with open(descriptor, "wb") as file:
            file.write(data)
        return True

    def _create_folder(self, folder: str) -> bool:
        if not self.is_local:  # object stores have no folders, so no name can be reserved there
            return super()._create_folder(folder)
        full = self._at(folder)
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            os.mkdir(full)
        except FileExistsError:
            if os.path.isdir(os.path.dirname(full)):
                return False
            raise StorageError(f"{os.path.dirname(full)} is not a directory") from None
        except OSError as error:
            raise StorageError(f"{full}: {error.strerror}") from error
        return True

    def _publish(self, path: str, data: bytes) -> None:
        partial = path + PARTIAL
        self._put(partial, data)
        _naming(self._at(path), lambda: self._filesystem.move(self._at(partial), self._at(path)))

    def verify(self, file: StoredFile) -> None:
        """Check the size and checksum of a file, piece by piece.

        Raises:
            StorageError: The size or checksum is wrong, or the file cannot be read. `read` raises the same
                errors.
        """
        size, digest = self._size(file.path), sha256()
        if size is not None and size != file.size:
            raise DamagedFileError(f"{file.path} has {size} bytes, but {file.size} bytes were written")
        for piece in self._pieces(file.path, file.size):
            digest.update(piece)
        if digest.hexdigest() != file.checksum:
            raise DamagedFileError(f"{file.path} does not have the checksum of the bytes that were written")

    def _get(self, path: str, at_most: int) -> bytes:
        return b"".join(self._pieces(path, at_most))

    def _pieces(self, path: str, at_most: int) -> Iterator[bytes]:
        """Yield the bytes of a regular file. Other kinds of files could be endless or block."""
        full = self._at(path)
        info = self._info(path)
        if info.type == fs.FileType.NotFound:
            raise MissingFileError(f"{full} does not exist")
        if info.type != fs.FileType.File:
            raise StorageError(f"{full} is not a regular file")
        if info.size > at_most:
            raise StorageError(f"{full} has {info.size} bytes, more than the {at_most} that it may have")
        stream = _naming(full, lambda: self._filesystem.open_input_stream(full, compression=None))
        with stream:
            for start in range(0, info.size, PIECE_BYTES):
                wanted = min(PIECE_BYTES, info.size - start)
                yield _naming(full, partial(stream.read, wanted))

    def _size(self, path: str) -> int | None:
        info = self._info(path)
        return int(info.size) if info.type == fs.FileType.File else None

    def _remove(self, path: str) -> None:
        self._unless_missing(path, self._filesystem.delete_file)

    def _remove_folder(self, folder: str) -> None:
        self._unless_missing(folder, self._filesystem.delete_dir)

    def _unless_missing(self, path: str, delete: Callable[[str], None]) -> None:
        """Delete something if it exists. The errors of object stores for missing files differ."""
        if self._info(path).type != fs.FileType.NotFound:
            _naming(self._at(path), lambda: delete(self._at(path)))

    def _folders(self) -> list[str]:
        return [info.base_name for info in self._list("") if info.type == fs.FileType.Directory]

    def _files(self, folder: str) -> dict[str, int]:
        files = [info for info in self._list(folder) if info.type == fs.FileType.File]
        return {f"{folder}/{info.base_name}": int(info.size) for info in sorted(files, key=_name)}

    def _list(self, folder: str) -> list[Any]:
        selector = fs.FileSelector(self._at(folder), allow_not_found=True)
        entries: list[Any] = _naming(self._at(folder), lambda: self._filesystem.get_file_info(selector))
        return entries


class SavepointsInDirectories(MemoryStorage):
    """Storage of checkpoints in memory, and of savepoints at paths or URIs."""

    def free_location(self, directory: str | None, name: str) -> str:
        """Return a location for a savepoint.

        Raises:
            StorageError: No directory is given.
        """
        if directory is None:
            raise StorageError("checkpoints are in memory, so give the savepoint a directory")
        return DirectoryStorage(directory).free_location(directory, name)

    def savepoint(self, location: str) -> SavepointFolder:
        """Return the storage of one savepoint."""
        return DirectoryStorage("/").savepoint(location)


def storage_at(root: str) -> DirectoryStorage | SavepointFolder:
    """Return the storage at a path or URI: of a savepoint if the path holds one, else of checkpoints.

    Raises:
        StorageError: The path or URI cannot be used.
    """
    folder = DirectoryStorage("/").savepoint(root if "://" in root else os.path.abspath(root))
    return folder if METADATA_NAME in folder.contents(0) else DirectoryStorage(root)


def _file_system_of(root: str) -> tuple[Any, str]:
    """Return the file system of a root, and the path in it."""
    if "://" in root:
        opened: tuple[Any, str] = fs.FileSystem.from_uri(root)
        return opened
    return fs.LocalFileSystem(), os.path.abspath(root)


def _name(info: Any) -> str:
    return str(info.base_name)


def _naming(path: str, action: Callable[[], _T]) -> _T:
    """Run an action on a file. Raise its errors as a StorageError of one line, with the path."""
    try:
        return action()
    except FileNotFoundError as error:
        raise MissingFileError(f"{path} is not there") from error
    except (OSError, pa.ArrowException) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        # HDFS lists all places where it searched for a library.
        raise StorageError(f"{path}: {shorten(reason, LONGEST_REASON, placeholder=' ...')}") from error


class Owner(msgspec.Struct, frozen=True):
    """The process that owns a directory."""

    pid: int
    host: str
    since: str
    """Time of locking, in UTC."""


class DirectoryOwnership:
    """The lock of one directory. Acquiring it again through the same object has no effect."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = FileLock(
            directory / LOCK_NAME,
            thread_local=False,
            # A lock file that outlives its process would keep all runs out.
            fallback_to_soft=False,
            on_acquired=_write_owner,
        )

    def __reduce__(self) -> tuple[type[DirectoryOwnership], tuple[Path]]:
        return type(self), (self._directory,)  # a copy in another process does not hold the lock

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; create the directory if necessary.

        Raises:
            StorageError: Another run, which the message names, holds the lock, or the directory cannot be
                locked.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(blocking=False)
        except Timeout:
            raise StorageError(
                f"{self._directory} is in use by {self._owner()}; wait until that run ends"
            ) from None
        except FileExistsError:
            raise StorageError(f"{self._directory} is a file; give a directory for checkpoints") from None
        except (OSError, NotImplementedError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise StorageError(f"{self._directory}: cannot be locked: {reason}") from error
        try:
            yield
        finally:
            self._lock.release()

    def _owner(self) -> str:
        try:
            with open(self._directory / LOCK_NAME, "rb") as file:
                owner = msgspec.json.decode(file.read(LONGEST_OWNER), type=Owner)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return "another run"
        return f"another run (process {owner.pid} on {owner.host}, since {owner.since})"


def _write_owner(descriptor: int) -> None:
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    owner = msgspec.json.encode(Owner(os.getpid(), platform.node(), since)) + b"\n"
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, owner, 0)
