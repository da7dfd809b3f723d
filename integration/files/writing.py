"""Files that a user gets: each appears whole, or what was there before stays as it was.

A file is written beside its place, under a name that begins with a dot, and moved there when it is complete::

    out/.3f9c...partial  -- written, closed -->  out/report.html

A full disk, a limit or Ctrl-C in between leaves neither half a file nor the one that was being written.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give the path to write a file to, and move what was written to `path` when the block ends.

    A link is followed, and the file keeps its mode. What is no file, such as a terminal or a pipe, is
    written to as it is.

    Raises:
        OSError: it cannot be written, or may not be.
    """
    place = path.resolve()
    if is_device(place):
        yield place
        return
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    partial = place.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        yield partial
        if place.exists():
            shutil.copymode(place, partial)
        os.replace(partial, place)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_whole(files: Mapping[Path, bytes]) -> None:
    """Write files, all of them or none: none is moved to its place before all are complete.

    Raises:
        OSError: one cannot be written; its `filename` is the path of that one.
    """
    with ExitStack() as stack:
        for path, content in files.items():
            try:
                stack.enter_context(written_whole(path)).write_bytes(content)
            except OSError as error:
                error.filename = str(path)
                raise


def require_writable(folder: Path) -> None:
    """Check that files can be made in a folder, or in the folder that will hold it, by making one.

    Permission bits do not tell: they do not hold for root, nor say that a file system is read-only.

    Raises:
        OSError: they cannot.
    """
    nearest = folder.absolute()
    while not nearest.exists() and not nearest.is_symlink():
        nearest = nearest.parent
    with tempfile.TemporaryFile(dir=nearest):
        pass


def is_device(path: Path) -> bool:
    """Tell whether a path leads to what is neither file nor folder, such as a terminal or a pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
