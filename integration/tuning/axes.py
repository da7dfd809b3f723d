"""Axes of a sweep: the settings of a scenario that vary, and their values.

An axis is written as a user types it, with commas between values. Values of an axis change::

    target        the job; turns debloating on
    OPTION=       the job, any option of Flink's by its name
    policy        the job: how its gates size their buffers
    latency       the network between all task managers
    service       the vertices that have a service time; if there are none, all except the sources
    skew          the same vertices: a factor for the service time of each subtask, such as 1:1:1:4; a list
                  with fewer factors than subtasks repeats
    parallelism   all vertices except the sources, and sources that an edge `forward` ties to them; such a
                  source keeps its total rate

For the last three axes, ``VERTEX:VALUE`` changes only this vertex.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from netstack import (
    OPTIONS,
    InputError,
    NetworkConfig,
    QuantityError,
    Scenario,
    Section,
    ShipStrategy,
    Vertex,
    did_you_mean,
    format_duration,
    parse_duration,
    parse_flink_duration,
    read_options,
    scenario_problems,
    split_assignment,
    with_options,
)

from ..errors import UsageError

Change = Callable[[Scenario], Scenario]
"""Function that changes a scenario; raises ScenarioError if the scenario lacks the part to change."""

TARGET, POLICY, LATENCY = "target", "policy", "latency"
SERVICE, SKEW, PARALLELISM = "service", "skew", "parallelism"

FLINK = NetworkConfig().debloat_policy
"""The only policy that a real Flink has."""


@dataclass(frozen=True, slots=True)
class AxisValue:
    """One value of an axis: its normalised text, and the change that it makes."""

    text: str
    change: Change


Read = Callable[[str], AxisValue]
"""Function that reads one value of an axis; raises QuantityError or UsageError."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A varied quantity: its name, as in the labels of points, and its values in order."""

    name: str
    values: tuple[AxisValue, ...]

    def problems(self, scenario: Scenario) -> list[str]:
        """Return a line for each problem that a value of this axis causes in a valid scenario."""
        return [
            f"{self.name} {value.text}: {problem}"
            for value in self.values
            for problem in problems_after(scenario, (value,))
        ]


def apply(scenario: Scenario, values: Iterable[AxisValue]) -> Scenario:
    """Return the scenario with all values applied, in their order.

    Raises:
        UsageError: the scenario lacks the part to change. Other rules are not checked.
    """
    for value in values:
        scenario = value.change(scenario)
    return scenario


def problems_after(scenario: Scenario, values: Iterable[AxisValue]) -> list[str]:
    """Return the problems of a scenario once the values are applied, one line each."""
    try:
        changed = apply(scenario, values)
    except InputError as error:
        return list(error.problems)
    problems = [f"{key}: {message}" for key, message in scenario_problems(changed)]
    # Surplus factors have no effect. Fewer factors than subtasks are valid, because they repeat.
    had = {vertex.name: vertex.service_skew for vertex in scenario.vertices}
    return problems + [
        f"{vertex.name!r} has {vertex.parallelism} subtasks, and {len(vertex.service_skew)} factors are given"
        for vertex in changed.vertices
        if vertex.service_skew != had.get(vertex.name) and len(vertex.service_skew) > vertex.parallelism
    ]


def read_axes(
    *,
    target: str | None = None,
    options: Sequence[str] = (),
    service: str | None = None,
    skew: str | None = None,
    parallelism: str | None = None,
    latency: str | None = None,
    policy: str | None = None,
) -> tuple[Axis, ...]:
    """Return the axes that these texts describe, in this order; a quantity without a text does not vary.

    Args:
        target: Debloat targets, ``50ms,100ms``; they turn debloating on.
        options: For each option ``OPTION=v1,v2``, values in Flink's syntax.
        service: Service times of a record, ``2ms,5ms``.
        skew: Lists of factors, ``1:1:1:1,1:1:1:4``.
        parallelism: Whole numbers.
        latency: Network latencies, by which each message is delayed, ``1ms,20ms``.
        policy: Names of debloat policies.

    Raises:
        UsageError: with a line for each mistake, beginning with the axis.
    """
    all_given: tuple[tuple[str, str | None, Read], ...] = (
        (TARGET, target, _target),
        *map(_option, options),
        (SERVICE, service, _service),
        (SKEW, skew, _skew),
        (PARALLELISM, parallelism, _parallelism),
        (LATENCY, latency, _latency),
        (POLICY, policy, _policy),
    )
    problems: list[str] = []
    axes: list[Axis] = []
    for name, text, read in all_given:
        if text is None:
            continue
        if any(axis.name == name for axis in axes):
            problems.append(f"{name}: is given twice; give the option once, with all values")
        if target is not None and name in _OF_TARGET:
            problems.append(
                f"{name}: conflicts with the axis target, which sets this option too; use only one of the two"
            )
        axes.append(Axis(name, tuple(_values(name, text, read, problems))))
    if problems:
        raise UsageError(list(dict.fromkeys(problems)))
    return tuple(axes)


_OF_TARGET = {
    name
    for field in ("debloat_enabled", "debloat_target_s")
    for name in (OPTIONS[field].name, *OPTIONS[field].former)
}
"""Options that a target sets.

An axis for one of them would override the target, and its labels would be wrong.
"""


def _values(name: str, text: str, read: Read, problems: list[str]) -> Iterator[AxisValue]:
    """Split a text at commas, and return each different value once. Add mistakes to `problems`."""
    seen = set()
    for part in text.split(","):
        try:
            value = read(part.strip())
        except QuantityError as error:
            problems.append(f"{name}: {error.wrong}; it must be {error.right}")
        except InputError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
        else:
            if value.text not in seen:
                seen.add(value.text)
                yield value


def _option(text: str) -> tuple[str, str, Read]:
    """Return the name of an option, its values, and the function that reads a value."""
    assigned = split_assignment(text)
    if assigned is None or not assigned[0]:
        wrong = "sets no value" if assigned is None else "names no option"
        return text, "", lambda value: _no_option(wrong)
    name, values = assigned
    return name, values, partial(_option_value, name)


def _no_option(wrong: str) -> AxisValue:
    raise QuantityError(wrong, f"{OPTIONS['debloat_samples'].name}=5,20, for example")


def _option_value(name: str, text: str) -> AxisValue:
    problems: list[str] = []
    read = read_options(Section({name: text}, "", problems), NetworkConfig())
    if problems:
        raise UsageError([problem.removeprefix(f"{name}: ") for problem in problems])
    (field,) = read.given
    value = getattr(read, field)
    return AxisValue(shown_value(field, value), _setting({field: value}))


def _target(text: str) -> AxisValue:
    target_s = parse_flink_duration(text, needs_unit=True)
    change = _setting({"debloat_enabled": True, "debloat_target_s": target_s})
    return AxisValue(shown_value("debloat_target_s", target_s), change)


def _policy(text: str) -> AxisValue:
    def change(scenario: Scenario) -> Scenario:
        return replace(scenario, config=replace(scenario.config, debloat_policy=text))

    return AxisValue(text, change)


def _latency(text: str) -> AxisValue:
    latency_s = parse_duration(text)

    def change(scenario: Scenario) -> Scenario:
        return replace(scenario, link=replace(scenario.link, latency_s=latency_s))

    return AxisValue(format_duration(latency_s), change)


def _service(text: str) -> AxisValue:
    vertex, colon, value = text.rpartition(":")
    cost_s = parse_duration(value)

    def change(vertex: Vertex) -> Vertex:
        return replace(vertex, service=((0.0, cost_s),))

    return _vertex_value(SERVICE, vertex if colon else None, format_duration(cost_s), change)


_FACTORS = re.compile(r"(?:(.+?):)??([0-9.]+(?::[0-9.]+)*)")

_FACTORS_HINT = "factors such as 1:1:1:4"


def _skew(text: str) -> AxisValue:
    match = _FACTORS.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a list of factors", _FACTORS_HINT)
    try:
        factors = tuple(float(factor) for factor in match[2].split(":"))
    except ValueError:
        raise QuantityError(f"{match[2]!r} has a factor that is no number", _FACTORS_HINT) from None
    if not any(factors):  # records without cost would show nothing
        message = (
            f"all factors in {match[2]!r} are 0, so records would cost no time; give at least one above 0"
        )
        raise QuantityError(message, _FACTORS_HINT)

    def change(vertex: Vertex) -> Vertex:
        return replace(vertex, service_skew=factors)

    return _vertex_value(SKEW, match[1], ":".join(f"{factor:g}" for factor in factors), change)


def _parallelism(text: str) -> AxisValue:
    vertex, colon, value = text.rpartition(":")
    if not value.strip().isdecimal() or int(value) < 1:
        raise QuantityError(f"{value!r} is no parallelism", "a whole number from 1")
    change = partial(_scaled, parallelism=int(value))
    return _vertex_value(PARALLELISM, vertex if colon else None, str(int(value)), change)


def _scaled(vertex: Vertex, parallelism: int) -> Vertex:
    """Return a vertex with another number of subtasks. A source keeps its total rate."""
    source = vertex.source
    if source is not None and source.rates and all(source.rates):  # 0 means as fast as possible
        total = math.fsum(vertex.rate(subtask) for subtask in range(vertex.parallelism))
        after = replace(vertex, parallelism=parallelism)
        unscaled = math.fsum(after.rate(subtask) for subtask in range(parallelism))
        rates = tuple(rate * total / unscaled for rate in source.rates)
        source = replace(source, rates=rates)
    return replace(vertex, parallelism=parallelism, source=source)


def _vertex_value(axis: str, name: str | None, text: str, change: Callable[[Vertex], Vertex]) -> AxisValue:
    """Return a value of an axis that changes the named vertex, or the vertices that the module lists."""

    def change_all(scenario: Scenario) -> Scenario:
        names = _names(scenario, axis) if name is None else {_named(scenario, axis, name)}
        vertices = (change(vertex) if vertex.name in names else vertex for vertex in scenario.vertices)
        return replace(scenario, vertices=tuple(vertices))

    return AxisValue(text if name is None else f"{name}:{text}", change_all)


def _names(scenario: Scenario, axis: str) -> set[str]:
    working = {vertex.name for vertex in scenario.vertices if vertex.source is None}
    if axis != PARALLELISM:
        return {vertex.name for vertex in scenario.vertices if vertex.service} or working
    tied = {edge.source for edge in scenario.edges if edge.strategy is ShipStrategy.FORWARD}
    return working | tied


def _named(scenario: Scenario, axis: str, name: str) -> str:
    names = {vertex.name: vertex for vertex in scenario.vertices}
    if name not in names:
        raise UsageError([f"no vertex is named {name!r}; {did_you_mean(name, names)}"])
    if axis != PARALLELISM and names[name].source is not None:
        raise UsageError([f"{name!r} is a source, which does no work on records; name another vertex"])
    return name


def shown_value(field: str, value: object) -> str:
    """Return a value as a user would write it, with true and false in lower case."""
    rendered = OPTIONS[field].kind.render(value)
    return str(rendered).lower() if isinstance(rendered, bool) else str(rendered)


def _setting(values: dict[str, object]) -> Change:
    return lambda scenario: replace(scenario, config=with_options(scenario.config, values))
