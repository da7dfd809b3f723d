"""Where output goes: documents to stdout or to files, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ..files.writing import is_device, require_writable, write_whole
from .terminal import Terminal, shown, shown_json

PAGE = "report.html"
"""The name of a page in the folder of a report."""

WIDTH = 80
"""Columns of what is printed for people."""


class OutputError(Exception):
    """A file could not be written; the message is one line that says why."""


def to_stderr() -> Console:
    """Return a console for progress and notices."""
    return Terminal(stderr=True, markup=False, emoji=False)


def to_stdout() -> Console:
    """Return a console for tables, of a width that does not depend on the terminal."""
    return Terminal(width=WIDTH, markup=False, emoji=False)


def say(line: str) -> None:
    """Print a text to stderr, on one line however long it is, with control characters shown."""
    to_stderr().print(Text(shown(line)), soft_wrap=True)


def write_json(document: bytes) -> None:
    """Print a document to stdout, with nothing else but a line feed at its end."""
    sys.stdout.flush()
    sys.stdout.buffer.write(shown_json(document) + b"\n")
    sys.stdout.buffer.flush()


def prepare_folder(folder: Path | None, *names: str) -> None:
    """Make a folder for output, before long work begins, and check that files of these names can be in it.

    Raises:
        OutputError: it cannot be made, no file can be made in it, or a folder lies where a file would.
    """
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputError(f"{folder}: no folder can be made there: it is a file") from None
    except OSError as error:
        raise OutputError(f"{folder}: no folder can be made there: {error.strerror}") from None
    require_place(folder)
    for name in names:
        if (folder / name).is_dir():
            raise OutputError(f"{folder / name}: is a folder, where a file would be written")


def require_place(path: Path) -> None:
    """Check that there can be files in a folder, or in the nearest one above it that there is; make none.

    Raises:
        OutputError: there cannot.
    """
    try:
        require_writable(path)
    except OSError as error:
        raise OutputError(f"{path}: nothing can be written there: {error.strerror}") from None


def prepare_file(file: Path | None) -> None:
    """As `prepare_folder`, for one file and the folder that it will lie in.

    Raises:
        OutputError: it cannot be written.
    """
    if file is not None and not is_device(file):
        prepare_folder(file.parent, file.name)


def write_outputs(files: Mapping[Path, bytes]) -> list[Path]:
    """Write files, all of them or none, and return their paths.

    Raises:
        OutputError: one cannot be written.
    """
    try:
        write_whole(files)
    except OSError as error:
        raise OutputError(f"{error.filename}: cannot be written: {error.strerror}") from None
    return list(files)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by name, and say so.

    Raises:
        OutputError: one cannot be written; then none is.
    """
    for path in write_outputs({folder / name: content for name, content in files.items()}):
        say(f"wrote {path}")
