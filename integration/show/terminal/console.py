"""Consoles for stdout and stderr, which show control characters instead of obeying them.

The name of a vertex, a file or a server may contain anything. Sent to a terminal as it is, a name can move
the cursor, change the window's title, or hide the text beside it. So control characters in texts appear as
their codes, such as ``\\x1b``. The codes that rich adds for colours and bars are not part of a text and stay.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

PAGE = "report.html"
"""Name of a page in the folder of a report."""

WIDTH = 80
"""Width of the output in columns, if stdout is no terminal."""

# C0, delete and C1; line separators and characters that change the direction of writing; surrogates, which
# Python uses for bytes of file names that are not UTF-8.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_CONTROL_BUT_LAYOUT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, which are needed for layout."""

_TRAILING_SPACES = re.compile(r" +$", re.MULTILINE)


class Terminal(Console):
    """Console that shows control characters as codes and, if it is no terminal, omits trailing spaces."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print like `Console`; if this is no terminal, without trailing spaces."""
        if self.is_terminal:
            super().print(*objects, **how)
            return
        with self.capture() as captured:
            super().print(*objects, **how)
        self.file.write(_TRAILING_SPACES.sub("", captured.get()))
        self.file.flush()

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of `Console`, with control characters replaced by codes."""
        for segment in super().render(renderable, options):
            if segment.control or not _CONTROL_BUT_LAYOUT.search(segment.text):
                yield segment
            else:
                yield segment._replace(text=_CONTROL_BUT_LAYOUT.sub(_code, segment.text))


def to_stderr() -> Console:
    """Return a console for progress and notices."""
    return Terminal(stderr=True, markup=False, emoji=False)


def to_stdout() -> Console:
    """Return a console for results: as wide as the terminal, or `WIDTH` columns if stdout is no terminal."""
    width = None if sys.stdout.isatty() else WIDTH
    return Terminal(width=width, markup=False, emoji=False)


def say(line: str) -> None:
    """Print a text to stderr as one line of any length, with control characters shown as codes."""
    to_stderr().print(Text(shown(line)), soft_wrap=True)


def print_next(command: str, console: Console) -> None:
    """Print the command to run next, on one line so that it can be copied."""
    console.print(Text.assemble(("next: ", "bold"), command), soft_wrap=True)


def print_assumptions(notes: Sequence[str], console: Console) -> None:
    """Print the assumptions of an import, a line for each note. Print nothing if there are no notes."""
    if notes:
        console.print(Text("\nAssumptions", style="bold"))
    for note in notes:
        console.print(Text(f"  {shown(note)}"), soft_wrap=True)


def print_line(line: str) -> None:
    """Print a line to stdout and flush it, for programs that read stdout."""
    print(line, flush=True)


def shown(text: str) -> str:
    """Return a text as one line with control characters replaced by their codes."""
    return _CONTROL.sub(_code, text)


def _code(match: re.Match[str]) -> str:
    number = ord(match[0])
    short = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}.get(match[0])
    return short or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
