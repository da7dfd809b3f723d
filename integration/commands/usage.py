"""What is wrong with a command line, in our words where those of the library leave one guessing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from cyclopts import CycloptsError, UnusedCliTokensError

_NEGATIVE = re.compile(r"-[0-9.]")


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
