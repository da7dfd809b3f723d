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

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from netstack import (
    OPTIONS,
    InputError,
    NetworkConfig,
    QuantityError,
    Scenario,
    Section,
    format_duration,
    parse_duration,
    parse_flink_duration,
    read_options,
    scenario_problems,
    split_assignment,
    with_options,
)

from ..errors import UsageError
from .vertex_axes import PARALLELISM, SERVICE, SKEW, change_vertices, read_vertex_value, surplus_factors

Change = Callable[[Scenario], Scenario]
"""Function that changes a scenario; raises ScenarioError if the scenario lacks the part to change."""

TARGET, POLICY, LATENCY = "target", "policy", "latency"

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
    return problems + surplus_factors(scenario, changed)


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
    of_vertices = {SERVICE: service, SKEW: skew, PARALLELISM: parallelism}
    all_given: tuple[tuple[str, str | None, Read], ...] = (
        (TARGET, target, _target),
        *map(_option, options),
        *((axis, text, partial(_vertex_value, axis)) for axis, text in of_vertices.items()),
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
        return dataclasses.replace(scenario, config=dataclasses.replace(scenario.config, debloat_policy=text))

    return AxisValue(text, change)


def _latency(text: str) -> AxisValue:
    latency_s = parse_duration(text)

    def change(scenario: Scenario) -> Scenario:
        return dataclasses.replace(scenario, link=dataclasses.replace(scenario.link, latency_s=latency_s))

    return AxisValue(format_duration(latency_s), change)


def _vertex_value(axis: str, text: str) -> AxisValue:
    value = read_vertex_value(axis, text)
    return AxisValue(value.text, lambda scenario: change_vertices(scenario, value))


def shown_value(field: str, value: object) -> str:
    """Return a value as a user would write it, with true and false in lower case."""
    rendered = OPTIONS[field].kind.render(value)
    return str(rendered).lower() if isinstance(rendered, bool) else str(rendered)


def _setting(values: dict[str, object]) -> Change:
    return lambda scenario: dataclasses.replace(scenario, config=with_options(scenario.config, values))
