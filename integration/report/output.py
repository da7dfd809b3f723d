"""Where output goes: documents to stdout or to files, everything else to stderr, and what a terminal shows.

A vertex, a file or a server may be called anything. Sent to a terminal as it is, a name can move the cursor,
retitle the window, or hide what stands beside it. So control characters are shown by their codes, such as
``\\x1b``, and never obeyed; those of rich, for colours and bars, are no part of a text and pass.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..files.writing import is_device, require_writable, write_whole

PAGE = "report.html"
"""The name of a page in the folder of a report."""

WIDTH = 80
"""Columns of what is printed for people, where there is no terminal."""

# Of Unicode: C0, delete and C1; line separators and what turns the direction of writing; halves of pairs,
# as Python has them for bytes of file names that are no UTF-8.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_WITHIN_LAYOUT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tabulator and line feed, which layouts are made of."""

_TRAILING_SPACES = re.compile(r" +$", re.MULTILINE)

_JSON_UNSHOWN = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
"""What of these stands raw in the texts of a JSON document in UTF-8."""


def to_stderr() -> Console:
    """Return a console for progress and notices."""
    return Terminal(stderr=True, markup=False, emoji=False)


def to_stdout() -> Console:
    """Return a console for tables: as wide as the terminal; of one width wherever else it goes."""
    width = None if sys.stdout.isatty() else WIDTH
    return Terminal(width=width, markup=False, emoji=False)


def fits(table: Table, console: Console) -> bool:
    """Whether a table can be printed without cutting or wrapping what is in it."""
    unlimited = console.options.update(max_width=10 * console.width)
    return console.measure(table, options=unlimited).maximum <= console.width


def say(line: str) -> None:
    """Print a text to stderr, on one line however long it is, with control characters shown."""
    to_stderr().print(Text(shown(line)), soft_wrap=True)


def write_json(document: bytes) -> None:
    """Print a document to stdout, with nothing else but a line feed at its end."""
    sys.stdout.flush()
    sys.stdout.buffer.write(shown_json(document) + b"\n")
    sys.stdout.buffer.flush()


def indented(document: bytes) -> bytes:
    """Return a JSON document as files have it: a line for each value, and a line feed at the end."""
    return msgspec.json.format(document, indent=1) + b"\n"


def _output_error(line: str) -> Exception:
    from ..errors import OutputError  # here, since a command's help needs nothing of what it imports

    return OutputError(line)


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
        raise _output_error(f"{folder}: no folder can be made there: it is a file") from None
    except OSError as error:
        raise _output_error(f"{folder}: no folder can be made there: {error.strerror}") from None
    require_place(folder)
    for name in names:
        if (folder / name).is_dir():
            raise _output_error(f"{folder / name}: is a folder, where a file would be written")


def require_place(path: Path) -> None:
    """Check that there can be files in a folder, or in the nearest one above it that there is; make none.

    Raises:
        OutputError: there cannot.
    """
    try:
        require_writable(path)
    except OSError as error:
        raise _output_error(f"{path}: nothing can be written there: {error.strerror}") from None


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
        raise _output_error(f"{error.filename}: cannot be written: {error.strerror}") from None
    return list(files)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by name, and say so.

    Raises:
        OutputError: one cannot be written; then none is.
    """
    for path in write_outputs({folder / name: content for name, content in files.items()}):
        say(f"wrote {path}")


class Terminal(Console):
    """A console that shows control characters; no line that goes elsewhere ends in spaces."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as `Console` does."""
        if self.is_terminal:
            super().print(*objects, **how)
            return
        with self.capture() as captured:
            super().print(*objects, **how)
        self.file.write(_TRAILING_SPACES.sub("", captured.get()))
        self.file.flush()

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what `Console` does, with the texts shown."""
        for segment in super().render(renderable, options):
            if segment.control or not _WITHIN_LAYOUT.search(segment.text):
                yield segment
            else:
                yield segment._replace(text=_WITHIN_LAYOUT.sub(_code, segment.text))


def shown(text: str) -> str:
    """Return a text as one line in which every character can be seen."""
    return _UNSHOWN.sub(_code, text)


def shown_json(document: bytes) -> bytes:
    """Return a JSON document of the same content that a terminal shows and does not obey."""
    return _JSON_UNSHOWN.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), document)


def _code(match: re.Match[str]) -> str:
    number = ord(match[0])
    short = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}.get(match[0])
    return short or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
