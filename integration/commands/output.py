"""Where output goes: documents to stdout or to files, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from .terminal import Terminal, shown, shown_json

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


def prepare_folder(folder: Path | None) -> None:
    """Make a folder for output, before long work begins.

    Raises:
        OutputError: it cannot be made.
    """
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: no folder can be made there: {error.strerror}") from None


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by name, and say so.

    Raises:
        OutputError: one cannot be written.
    """
    for name, content in files.items():
        path = folder / name
        try:
            path.write_bytes(content)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
        say(f"wrote {path}")
