"""What the fuzzer knows of a door: a place where foreign bytes come in, and what must hold of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
