"""The one way to the terminal: what names and peers bring along is shown, and never obeyed.

A vertex, a file or a server may be called anything. Sent as it is, a name can move the cursor, retitle the
window, or hide what stands beside it. So control characters are shown by their codes, such as ``\x1b``; those
of rich, for colours and bars, are no part of a text and pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# Of Unicode: C0, delete and C1; line separators and what turns the direction of writing; halves of pairs,
# as Python has them for bytes of file names that are no UTF-8.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_WITHIN_LAYOUT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""The same without tabulator and line feed, which layouts are made of."""

_JSON_UNSHOWN = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
"""What of these stands raw in the texts of a JSON document in UTF-8."""


class Terminal(Console):
    """A console that shows control characters."""

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
    return _JSON_UNSHOWN.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), document)


def _code(found: re.Match[str]) -> str:
    number = ord(found[0])
    short = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}.get(found[0])
    return short or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
