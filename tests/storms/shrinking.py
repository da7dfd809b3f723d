"""Shrinks a case that fails to the smallest that still fails in the same way.

One step after the other is tried, the most promising first. One that leaves the failure is taken, and what
it makes possible is tried next; when no step does, the case is the smallest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from netstack import InputError

from .case import StormCase
from .one_storm import ANOTHER_RESULT, IN_FAIR_WEATHER, in_fair_weather, run_case
from .simplifications import simplified, steps

_WORDS = 5
"""Words by which two problems are told to be the same."""

Problems = Callable[[StormCase], tuple[str, ...]]
"""Runs a case, and says what is wrong."""


class Shrunk(NamedTuple):
    """A case that fails, the steps that lead to it, and what is wrong with it."""

    case: StormCase
    steps: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def replay(self) -> str:
        """The command that runs it."""
        options = [f' --simpler "{step}"' for step in self.steps]
        return f"python -m tests.storms --seed {self.case.seed}{''.join(options)}"

    def lines(self) -> Iterator[str]:
        """The case as text, with how to run it."""
        yield from self.case.lines()
        for problem in self.problems:
            yield f"  WRONG: {problem}"
        yield f"  {self.replay}"


def kind_of(problem: str) -> tuple[str, ...]:
    """What a problem is about, whatever records, numbers and names it tells."""
    words = re.findall(r"(?<![\w'])[A-Za-z]+(?![\w'])", problem)
    return tuple(words[:_WORDS])


def shrink(case: StormCase, problems: tuple[str, ...], run: Problems | None = None) -> Iterator[Shrunk]:
    """Yield smaller and smaller cases that fail as this one does, the given one first.

    `problems` are those of the case, `run` says what is wrong with another one.
    """
    run = run or _runner_of(problems[0])
    smallest = Shrunk(case, (), problems)
    yield smallest
    place, tried = 0, set[StormCase]()
    while (found := _next(smallest, kind_of(problems[0]), run, place, tried)) is not None:
        smallest, place = found
        yield smallest


def _next(
    smallest: Shrunk, kind: tuple[str, ...], run: Problems, place: int, tried: set[StormCase]
) -> tuple[Shrunk, int] | None:
    """A smaller case that fails, and the place of its step; None if there is none.

    Steps are tried from `place` on, as those before were tried a short while ago, and then from the first.
    """
    possible = list(steps(smallest.case))
    for number in [*range(place, len(possible)), *range(min(place, len(possible)))]:
        name, step = possible[number]
        case = step(smallest.case)
        if case in tried or case == smallest.case:
            continue
        tried.add(case)
        try:
            found = run(case)
        except InputError:
            continue  # it makes no sense
        if any(kind_of(problem) == kind for problem in found):
            return Shrunk(case, (*smallest.steps, name), found), number
    return None


def again(case: StormCase, names: tuple[str, ...]) -> Shrunk:
    """Return a case after these steps, with what is wrong with it, which may be nothing.

    Raises:
        ScenarioError: a step is not one of the case.
    """
    case = simplified(case, names)
    return Shrunk(case, names, run_case(case, paranoid=True).problems)


def _runner_of(problem: str) -> Problems:
    """What finds a problem again: a run, a run without faults, or two runs."""
    if problem.startswith(IN_FAIR_WEATHER):
        return lambda case: tuple(
            IN_FAIR_WEATHER + each for each in run_case(in_fair_weather(case), paranoid=True).problems
        )
    if problem == ANOTHER_RESULT:
        return lambda case: (
            () if run_case(case).digest == run_case(replace(case)).digest else (ANOTHER_RESULT,)
        )
    return lambda case: run_case(case, paranoid=True).problems
