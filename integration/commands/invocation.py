"""The command that is being run, as reports name it for whoever wants to repeat it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

_given: list[str] | None = None


def set_arguments(arguments: Sequence[str] | None) -> list[str]:
    """Take note of the arguments of this call, those of the process unless given, and return them."""
    global _given
    _given = None if arguments is None else list(arguments)
    return _arguments()


def command_line() -> str:
    """Return the command with its arguments, quoted for a shell."""
    return shlex.join(["netstack", *_arguments()])


def _arguments() -> list[str]:
    return list(sys.argv[1:]) if _given is None else _given
