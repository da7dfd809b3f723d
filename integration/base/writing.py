"""Output files: each appears complete, or the previous file stays unchanged.

A file is written in its folder under a temporary name, and renamed when it is complete::

    out/.3f9c...partial  -- written, closed -->  out/report.html

If a full disk, a limit or Ctrl-C interrupts this, neither half a file nor the temporary file remains.
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

from .errors import OutputError


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename that file to `path` when the block ends.

    Links are followed, and the file keeps its mode. Terminals and pipes are written to directly.

    Raises:
        OSError: the file cannot be written.
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
    """Write all files or none: they are renamed only when all are complete.

    Raises:
        OSError: a file cannot be written; `filename` of the error is its path.
    """
    with ExitStack() as stack:
        for path, content in files.items():
            try:
                stack.enter_context(written_whole(path)).write_bytes(content)
            except OSError as error:
                error.filename = str(path)
                raise


def write_outputs(files: Mapping[Path, bytes]) -> list[Path]:
    """Write files, all of them or none, and return their paths.

    Raises:
        OutputError: A file cannot be written.
    """
    try:
        write_whole(files)
    except OSError as error:
        raise OutputError(f"{error.filename}: cannot be written: {error.strerror}") from None
    return list(files)


def prepare_folder(folder: Path | None, *names: str) -> None:
    """Create an output folder before long work begins, and check that these files can be written there.

    Raises:
        OutputError: The folder cannot be made, no file can be made in it, or a name is taken by a folder.
    """
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputError(f"{folder}: cannot create this folder: a file has that name") from None
    except OSError as error:
        raise OutputError(f"{folder}: cannot create this folder: {error.strerror}") from None
    require_place(folder)
    for name in names:
        if (folder / name).is_dir():
            raise OutputError(f"{folder / name}: is a folder, so the file cannot be written")


def prepare_file(file: Path | None) -> None:
    """Create the folder of an output file before long work begins, and check that the file can be written.

    Raises:
        OutputError: The file cannot be written.
    """
    if file is not None and not is_device(file):
        prepare_folder(file.parent, file.name)


def require_place(path: Path) -> None:
    """Check that files can be created in a folder, or in its nearest existing parent. No file remains.

    Raises:
        OutputError: No file can be made there.
    """
    try:
        nearest = path.absolute()
        while not nearest.exists() and not nearest.is_symlink():
            nearest = nearest.parent
        # Permission bits are not enough: root ignores them, and they do not show a read-only file system.
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None


def is_device(path: Path) -> bool:
    """Return whether a path exists and is neither a file nor a folder, such as a terminal or a pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
