"""What can be left out of the case of a storm, step by step, and by the name of each step.

A step says what it does, such as "without fault 2" or "records halved". Numbers are those of the case as it
is by then, so the same steps in the same order give the same case again: `simplified`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from math import ceil

from netstack import DEFAULT_PRESET, CostModel, LinkConditions, NetworkConfig, ScenarioError

from .apart import pipelines
from .case import Reading, StormCase, StormVertex, Work
from .storm_emissions import at_once

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
        ("going on", {"going_on": None}),
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
    going_on = case.going_on
    if going_on is not None:
        numbers = zip(case.vertices, going_on.parallelism, strict=True)
        going_on = replace(
            going_on, parallelism=tuple(each for vertex, each in numbers if vertex.name not in names)
        )
    return replace(
        case,
        vertices=tuple(vertex for vertex in case.vertices if vertex.name not in names),
        edges=tuple(edge for edge in case.edges if edge[0] not in names),
        faults=tuple(fault for fault in case.faults if not any(f"'{name}'" in repr(fault) for name in names)),
        going_on=going_on,
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
    going_on = case.going_on
    if going_on is not None:
        numbers = going_on.parallelism
        going_on = replace(going_on, parallelism=(*numbers[:place], *numbers[place + 1 :]))
    return replace(
        case,
        vertices=tuple(vertex for vertex in case.vertices if vertex.name != name),
        edges=tuple(edges),
        faults=tuple(fault for fault in case.faults if f"'{name}'" not in repr(fault)),
        going_on=going_on,
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
