"""A door: a place where foreign bytes come in, with its inputs and checks; and a folder for their files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

Arguments = tuple[Any, ...]
"""One input, as the check of its door takes it; its `repr` is Python that makes it again."""


class Door(NamedTuple):
    """A place where foreign bytes come in.

    `inputs` gives an endless sequence that the random numbers alone decide. `check` returns whether an input
    was accepted; it raises AssertionError, or whatever else but the door's own error comes out.
    """

    name: str
    inputs: Callable[[Random], Iterator[Arguments]]
    check: Callable[..., bool]
    per_second: int
    """About how many inputs a core does; a piece of a run takes some seconds by it."""
    share: float
    """Of all inputs of a run, against those of the other doors."""
    native: bool = False
    """Whether most of it is code of others in C++, which bad input may bring down with the process."""


def refused(error: Exception) -> bool:
    """Check that a refusal can be shown to a person: one line for each mistake; returns False."""
    problems = getattr(error, "problems", None) or (str(error),)
    for problem in problems:
        assert problem.strip(), f"{type(error).__name__} says nothing"
        assert "\n" not in problem, f"{type(error).__name__} says more than a line: {problem!r}"
        assert len(problem) <= LONGEST_LINE, f"{type(error).__name__} says {len(problem)} letters"
    return False


LONGEST_LINE = 4096
"""Letters of a refusal; names of files, and lists of what there is, stand in some."""


@lru_cache(maxsize=1)
def _folder_of(process: int) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="netstack-fuzz-")


def scratch() -> Path:
    """The folder of this process; what lies in it may be overwritten."""
    return Path(_folder_of(os.getpid()).name)


def tidy() -> None:
    """Delete the folder of this process, which may end without doing so by itself."""
    _folder_of(os.getpid()).cleanup()
    _folder_of.cache_clear()


def written(name: str, data: bytes) -> Path:
    """A file in that folder."""
    path = scratch() / name
    path.write_bytes(data)
    return path
