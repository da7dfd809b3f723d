"""What commands are given: types of options that they share, the line itself, what is wrong with it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

from cyclopts import CoercionError, CycloptsError, Parameter, Token, UnusedCliTokensError


def _whole(wanted: type, tokens: Sequence[Token]) -> int:
    """Read a whole number; left to itself, the library rounds "1.5"."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise CoercionError(token=tokens[0], target_type=wanted) from None


Flag = Annotated[bool, Parameter(negative=())]
Whole = Annotated[int, Parameter(converter=_whole)]

Several = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]
"""An option that may be given several times."""

Settings = Annotated[tuple[str, ...], Parameter(name="--set", negative=(), show_default=False)]

_NEGATIVE = re.compile(r"-[0-9.]")


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


def usage_problem(error: CycloptsError, arguments: Sequence[str]) -> str:
    """Return what to say of arguments that could not be read; `arguments` are those after ``netstack``."""
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        extra = ", ".join(map(repr, error.unused_tokens))
        return f"netstack {' '.join(arguments[:1])}: {extra}: one argument too many; leave it out"
    said = " ".join(str(error).split())
    for option, value in pairwise(arguments):
        if said.endswith(f"parameter {option} requires an argument.") and _NEGATIVE.match(value):
            return f"netstack {arguments[0]}: {option}: {value!r} is negative; it must be positive"
    return f"netstack: {said}"
