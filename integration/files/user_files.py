"""Files that a user names, read whole: regular ones, of a size that such a file has.

What never ends or never begins (a device, a pipe that nobody writes to) is refused before a byte is read, and
so is what is larger than any file of its kind.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from netstack import ScenarioError

LARGEST_CONFIGURATION = 1 << 20
"""Bytes of the largest file that a person writes: a scenario, options. Kubernetes takes no more either."""

LARGEST_RESULT = 64 << 20
"""Bytes of the largest file that a program writes; results of long runs have some megabytes."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_user_file(file: Path, largest: int) -> bytes:
    """Return what a file holds, at most `largest` bytes.

    Raises:
        ScenarioError: it is missing, cannot be read, is no regular file or is larger; one line with its name.
    """
    try:
        # Without waiting: to open a pipe takes until somebody writes to it.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _require_regular(file, os.fstat(descriptor).st_mode)
            with os.fdopen(descriptor, "rb", closefd=False) as opened:
                content = opened.read(largest + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise ScenarioError([f"{file}: there is no such file"]) from None
    except OSError as error:
        raise ScenarioError([f"{file}: cannot be read: {error.strerror}"]) from None
    except ValueError as error:  # a name with a character that no name has
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError([f"{file}: is no name of a file"]) from None
    if len(content) > largest:
        raise ScenarioError([f"{file}: has more than {largest >> 20} MiB, the most that is read here"])
    return content


def read_user_text(file: Path, largest: int, right: str) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark; `right` is what it should be.

    Raises:
        ScenarioError: as `read_user_file`, or it is no such text.
    """
    try:
        return read_user_file(file, largest).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScenarioError([f"{file}: is not text in UTF-8; {right}"]) from None


def _require_regular(file: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    raise ScenarioError([f"{file}: is {kind}; name a regular file"])
