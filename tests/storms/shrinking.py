"""Shrinks a case that fails to the smallest one that fails in the same way, step by step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from netstack import DEFAULT_PRESET, CostModel, InputError, LinkConditions, NetworkConfig, ScenarioError

from .case import Reading, StormCase, StormVertex, Work
from .draw_job import at_once, pipelines
from .one_storm import ANOTHER_RESULT, IN_FAIR_WEATHER, in_fair_weather, run_case

_KEPT_SETTINGS = {"given", "checkpoint_interval_s", "restart_strategy"}
"""Settings whose defaults make another job of it, rather than a simpler one."""

Step = Callable[[StormCase], StormCase]

_SHORTEST_RECORD = 24


def steps(case: StormCase) -> Iterator[tuple[str, Step]]:
    """Yield the steps that a case leaves to be taken, the most promising first, by name."""
    yield from _without_what_goes_wrong(case)
    yield from _without_pipelines(case)
    yield from _without_vertices(case)
    yield from _with_less_of_each(case)
    yield from _with_defaults(case)


def simplified(case: StormCase, names: Sequence[str]) -> StormCase:
    """Return a case after the steps of these names.

    Raises:
        ScenarioError: one is not a step of the case as it is by then; says which.
    """
    for name in names:
        step = dict(steps(case)).get(name)
        if step is None:
            known = next((each for each, _ in steps(case)), "none")
            raise ScenarioError([f"seed {case.seed}: {name!r} is no step from here on; one is {known!r}"])
        case = step(case)
    return case


def _without_what_goes_wrong(case: StormCase) -> Iterator[tuple[str, Step]]:
    for name, empty in (
        ("going on", {"continuation": None}),
        ("faults", {"faults": ()}),
        ("files that cannot be read directly: ", {"trouble": ()}),
        ("neighbours", {"neighbours": ()}),
        ("requests", {"manual_checkpoints_s": ()}),
        ("fractions", {"fractions": ()}),
    ):
        if any(getattr(case, field) != value for field, value in empty.items()):
            yield f"without {name}", lambda now, empty=empty: replace(now, **empty)  # type: ignore[misc]
    for name, field in (
        ("fault", "faults"),
        ("file that cannot be read directly: ", "trouble"),
        ("neighbour", "neighbours"),
        ("request", "manual_checkpoints_s"),
    ):
        if len(getattr(case, field)) > 1:
            for number in range(len(getattr(case, field))):
                yield f"without {name} {number + 1}", _Without(field, number)


class _Without:
    """Takes one of several things away."""

    def __init__(self, field: str, number: int) -> None:
        self._field = field
        self._number = number

    def __call__(self, case: StormCase) -> StormCase:
        """Without it."""
        values = getattr(case, self._field)
        rest = (*values[: self._number], *values[self._number + 1 :])
        return replace(case, **{self._field: rest})  # type: ignore[arg-type]


def _without_pipelines(case: StormCase) -> Iterator[tuple[str, Step]]:
    apart = pipelines(case)
    for names in apart if len(apart) > 1 else ():
        name = next(vertex.name for vertex in case.vertices if vertex.name in names)
        yield f"without the pipeline of {name}", lambda now, names=names: _removed(now, names)  # type: ignore[misc]


def _removed(case: StormCase, names: set[str]) -> StormCase:
    """A case without a whole pipeline."""
    continuation = case.continuation
    if continuation is not None:
        numbers = zip(case.vertices, continuation.parallelism, strict=True)
        continuation = replace(
            continuation, parallelism=tuple(each for vertex, each in numbers if vertex.name not in names)
        )
    return replace(
        case,
        vertices=tuple(vertex for vertex in case.vertices if vertex.name not in names),
        edges=tuple(edge for edge in case.edges if edge[0] not in names),
        faults=tuple(fault for fault in case.faults if not any(f"'{name}'" in repr(fault) for name in names)),
        continuation=continuation,
    )


def _without_vertices(case: StormCase) -> Iterator[tuple[str, Step]]:
    sources = [vertex for vertex in case.vertices if vertex.work is Work.SOURCE]
    for vertex in case.vertices:
        if vertex.work is Work.SINK or (vertex.work is Work.SOURCE and len(sources) == 1):
            continue
        yield f"without {vertex.name}", lambda now, name=vertex.name: _bypassed(now, name)  # type: ignore[misc]


def _bypassed(case: StormCase, name: str) -> StormCase:
    """A case without a vertex, whose producers hand their records to its consumers."""
    before = [source for source, target, _ in case.edges if target == name]
    after = [(target, ship) for source, target, ship in case.edges if source == name]
    edges = [edge for edge in case.edges if name not in edge[:2]]
    known = {edge[:2] for edge in edges}
    edges += [(one, to, ship) for one in before for to, ship in after if (one, to) not in known]
    place = [vertex.name for vertex in case.vertices].index(name)
    continuation = case.continuation
    if continuation is not None:
        numbers = continuation.parallelism
        continuation = replace(continuation, parallelism=(*numbers[:place], *numbers[place + 1 :]))
    return replace(
        case,
        vertices=tuple(vertex for vertex in case.vertices if vertex.name != name),
        edges=tuple(edges),
        faults=tuple(fault for fault in case.faults if f"'{name}'" not in repr(fault)),
        continuation=continuation,
    )


def _with_less_of_each(case: StormCase) -> Iterator[tuple[str, Step]]:
    sources = [vertex for vertex in case.vertices if vertex.work is Work.SOURCE]
    if any(max(vertex.records) > 1 for vertex in sources):
        yield "records halved", lambda now: _each(now, _half_the_records)
    if any(vertex.record_bytes[1] > _SHORTEST_RECORD for vertex in sources):
        yield "records shorter", lambda now: _each(now, _shorter)
    for vertex in case.vertices:
        if vertex.parallelism > 1:
            for number in sorted({1, vertex.parallelism // 2, vertex.parallelism - 1}):
                yield f"{vertex.name} x{number}", _Changed(vertex.name, parallelism=number)
        plain = StormVertex(name="", work=vertex.work, parallelism=1, task_manager="")
        if vertex.reading is not Reading.MEMORY:
            yield f"{vertex.name} in memory", _Changed(vertex.name, reading=Reading.MEMORY)
        for field in ("rates", "keys", "hot_share", "service_s", "service_skew", "service_mode"):
            if getattr(vertex, field) != getattr(plain, field):
                yield f"{vertex.name} plain {field}", _Changed(vertex.name, **{field: getattr(plain, field)})
        if vertex.selectivity.denominator > 1:
            whole = Fraction(ceil(vertex.selectivity))
            yield f"{vertex.name} whole selectivity", _Changed(vertex.name, selectivity=whole)
        if vertex.emit_every_s:
            yield f"{vertex.name} at once", lambda now, name=vertex.name: _at_once(now, name)  # type: ignore[misc]
        for field in ("service_steps", "apart", "at_random"):
            if getattr(vertex, field):
                yield f"{vertex.name} plain {field}", _Changed(vertex.name, **{field: getattr(plain, field)})
        if len(vertex.managers) > 1:
            yield f"{vertex.name} in one place", _Changed(vertex.name, task_manager=vertex.managers[0])


class _Changed:
    """Changes fields of a vertex."""

    def __init__(self, name: str, **values: object) -> None:
        self._name = name
        self._values = values

    def __call__(self, case: StormCase) -> StormCase:
        """With these values; a run that goes on keeps its own."""
        return _each(case, lambda each: replace(each, **self._values) if each.name == self._name else each)  # type: ignore[arg-type]


def _each(case: StormCase, change: Callable[[StormVertex], StormVertex]) -> StormCase:
    return replace(case, vertices=tuple(map(change, case.vertices)))


def _at_once(case: StormCase, name: str) -> StormCase:
    return _each(case, lambda each: at_once(each) if each.name == name else each)


def _half_the_records(vertex: StormVertex) -> StormVertex:
    return replace(vertex, records=tuple(max(1, number // 2) for number in vertex.records))


def _shorter(vertex: StormVertex) -> StormVertex:
    least, greatest = vertex.record_bytes
    return replace(vertex, record_bytes=(least, max(least, min(greatest, _SHORTEST_RECORD), greatest // 4)))


def _with_defaults(case: StormCase) -> Iterator[tuple[str, Step]]:
    if case.preset != DEFAULT_PRESET:
        yield "default preset", lambda now: replace(now, preset=DEFAULT_PRESET)
    if case.on_disk:
        yield "checkpoints in memory", lambda now: replace(now, on_disk=False)
    if case.costs != CostModel():
        yield "default costs", lambda now: replace(now, costs=CostModel())
    if case.link != LinkConditions():
        yield "default link", lambda now: replace(now, link=LinkConditions())
    usual = NetworkConfig()
    for each in fields(NetworkConfig):
        if each.name not in _KEPT_SETTINGS and getattr(case.config, each.name) != getattr(usual, each.name):
            value = {each.name: getattr(usual, each.name)}
            yield (
                f"default {each.name}",
                lambda now, value=value: replace(  # type: ignore[misc]
                    now, config=replace(now.config, **value)
                ),
            )


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
