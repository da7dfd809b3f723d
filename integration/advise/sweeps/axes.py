"""Axes of a sweep: the parts of a scenario that vary, and their values.

An axis of one of Flink's options is written as a user types it, ``OPTION=V1,V2``. Any other axis is made from
functions that change the scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from netstack import (
    OPTIONS,
    InputError,
    NetworkConfig,
    Scenario,
    Section,
    read_options,
    scenario_problems,
    split_assignment,
    with_options,
)

from ...base.errors import UsageError

Change = Callable[[Scenario], Scenario]
"""Function that changes a scenario; raises ScenarioError if the scenario lacks the part to change."""

FLINK = NetworkConfig().debloat_policy
"""The only policy that a real Flink has."""

_EXAMPLE = f"it must be {OPTIONS['debloat_samples'].name}=5,20, for example"


@dataclass(frozen=True, slots=True)
class AxisValue:
    """One value of an axis: its normalised text, and the change that it makes."""

    text: str
    change: Change


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
    return [f"{key}: {message}" for key, message in scenario_problems(changed)]


def option_axes(options: Sequence[str]) -> tuple[Axis, ...]:
    """Return an axis for each text ``OPTION=V1,V2``, in their order; values are in Flink's syntax.

    Raises:
        UsageError: with a line for each mistake, beginning with the option.
    """
    problems: list[str] = []
    axes: list[Axis] = []
    for text in options:
        name, values = split_assignment(text) or ("", "")
        if not name:
            wrong = "names no option" if split_assignment(text) else "sets no value"
            problems.append(f"{text}: {wrong}; {_EXAMPLE}")
        elif any(axis.name == name for axis in axes):
            problems.append(f"{name}: is given twice; give the option once, with all values")
        else:
            axes.append(Axis(name, tuple(_values(name, values, problems))))
    if problems:
        raise UsageError(list(dict.fromkeys(problems)))
    return tuple(axes)


def _values(name: str, text: str, problems: list[str]) -> Iterator[AxisValue]:
    """Split a text at commas, and return each different value once. Add mistakes to `problems`."""
    seen = set()
    for part in text.split(","):
        wrong: list[str] = []
        read = read_options(Section({name: part.strip()}, "", wrong), NetworkConfig())
        problems += wrong
        if wrong:
            continue
        (field,) = read.given
        value = getattr(read, field)
        shown = shown_value(field, value)
        if shown not in seen:
            seen.add(shown)
            yield AxisValue(shown, _setting(field, value))


def shown_value(field: str, value: object) -> str:
    """Return a value as a user would write it, with true and false in lower case."""
    rendered = OPTIONS[field].kind.render(value)
    return str(rendered).lower() if isinstance(rendered, bool) else str(rendered)


def _setting(field: str, value: object) -> Change:
    return lambda scenario: replace(scenario, config=with_options(scenario.config, {field: value}))
