"""Checkpoints in a directory: of this machine, or of whatever else Arrow can reach.

A root is a path or a URI: ``/data/checkpoints``, ``file:///data/checkpoints``, ``s3://bucket/checkpoints``,
``hdfs://namenode:8020/checkpoints``. `CHECKPOINT_LAYOUT.md` says what lies in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from netstack import FileLayout, MissingFileError, StorageError

PARTIAL = ".partial"
"""End of the name of metadata that is being written."""

LONGEST_REASON = 200
"""Characters of what Arrow says that are repeated."""

_T = TypeVar("_T")


class DirectoryStorage(FileLayout):
    """Keeps the files of checkpoints below a directory, which is made with the first of them.

    Metadata is written under another name and then renamed, so it is there whole or not at all. Bytes are
    handed to the operating system; a machine that loses power may still lose the last of them, which the
    checksums tell.

    Args:
        root: A path, or the URI of a file system that Arrow knows.

    Raises:
        StorageError: The URI leads nowhere: an unknown scheme, a missing library, no such bucket.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = str(root)
        with_scheme = "://" in self.root
        filesystem, path = _telling(
            self.root,
            lambda: (
                fs.FileSystem.from_uri(self.root)
                if with_scheme
                else (fs.LocalFileSystem(), os.path.abspath(self.root))
            ),
        )
        self._filesystem: Any = filesystem
        self._path: str = path.rstrip("/") or "/"

    def exists(self) -> bool:
        """Return whether the root is there, and a directory.

        Raises:
            StorageError: That cannot be found out.
        """
        kind: object = self._info("").type
        return bool(kind == fs.FileType.Directory)

    def _at(self, path: str) -> str:
        return f"{self._path.rstrip('/')}/{path}".rstrip("/") or "/"

    def _info(self, path: str) -> Any:
        return _telling(self._at(path), lambda: self._filesystem.get_file_info(self._at(path)))

    def _put(self, path: str, data: bytes) -> None:
        _telling(self._at(path), lambda: self._write(self._at(path), data))

    def _write(self, path: str, data: bytes) -> None:
        try:
            stream = self._filesystem.open_output_stream(path, compression=None)
        except FileNotFoundError:
            self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            stream = self._filesystem.open_output_stream(path, compression=None)
        with stream:
            stream.write(data)

    def _publish(self, path: str, data: bytes) -> None:
        partial = path + PARTIAL
        self._put(partial, data)
        _telling(self._at(path), lambda: self._filesystem.move(self._at(partial), self._at(path)))

    def _get(self, path: str) -> bytes:
        return _telling(self._at(path), lambda: self._read(self._at(path)))

    def _read(self, path: str) -> bytes:
        with self._filesystem.open_input_stream(path, compression=None) as stream:
            data: bytes = stream.read()
        return data

    def _size(self, path: str) -> int | None:
        info = self._info(path)
        return int(info.size) if info.type == fs.FileType.File else None

    def _remove(self, path: str) -> None:
        self._unless_missing(path, self._filesystem.delete_file)

    def _remove_folder(self, folder: str) -> None:
        self._unless_missing(folder, self._filesystem.delete_dir)

    def _unless_missing(self, path: str, delete: Callable[[str], None]) -> None:
        """Delete something; where it is not there, object stores say other things than file systems."""
        if self._info(path).type != fs.FileType.NotFound:
            _telling(self._at(path), lambda: delete(self._at(path)))

    def _folders(self) -> list[str]:
        return [info.base_name for info in self._list("") if info.type == fs.FileType.Directory]

    def _files(self, folder: str) -> dict[str, int]:
        files = [info for info in self._list(folder) if info.type == fs.FileType.File]
        return {f"{folder}/{info.base_name}": int(info.size) for info in sorted(files, key=_name)}

    def _list(self, folder: str) -> list[Any]:
        selector = fs.FileSelector(self._at(folder), allow_not_found=True)
        found: list[Any] = _telling(self._at(folder), lambda: self._filesystem.get_file_info(selector))
        return found


def _name(info: Any) -> str:
    return str(info.base_name)


def _telling(path: str, action: Callable[[], _T]) -> _T:
    """Do something with a file, and say in one line what went wrong with which."""
    try:
        return action()
    except FileNotFoundError as error:
        raise MissingFileError(f"{path} is not there") from error
    except (OSError, pa.ArrowException) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        # HDFS lists every place where it has looked for a library.
        raise StorageError(f"{path}: {shorten(reason, LONGEST_REASON, placeholder=' ...')}") from error
