"""Values of sweeps for vertices: the cost of a record, its skew over subtasks, and the number of subtasks.

A value is written ``VALUE`` or ``VERTEX:VALUE``. Without a vertex it applies to the vertices that `axes`
lists for its axis.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from netstack import (
    QuantityError,
    Scenario,
    ShipStrategy,
    Vertex,
    did_you_mean,
    format_duration,
    parse_duration,
)

from ..errors import UsageError

SERVICE, SKEW, PARALLELISM = "service", "skew", "parallelism"

_FACTORS = re.compile(r"(?:(.+?):)??([0-9.]+(?::[0-9.]+)*)")

_FACTORS_HINT = "factors such as 1:1:1:4"


@dataclass(frozen=True, slots=True)
class VertexValue:
    """One value of an axis that changes vertices."""

    axis: str
    """Either `SERVICE`, `SKEW` or `PARALLELISM`."""
    vertex: str | None
    """The vertex that the value names; None: the vertices that `axes` lists for the axis."""
    number: float | int | tuple[float, ...]
    """Seconds, a number of subtasks, or factors."""

    @property
    def text(self) -> str:
        """The value as normalised text."""
        shown = _SHOWN[self.axis](self.number)
        return shown if self.vertex is None else f"{self.vertex}:{shown}"


def read_vertex_value(axis: str, text: str) -> VertexValue:
    """Read ``VALUE`` or ``VERTEX:VALUE``.

    Raises:
        QuantityError: the text is neither.
    """
    if axis == SKEW:
        match = _FACTORS.fullmatch(text)
        if match is None:
            raise QuantityError(f"{text!r} is not a list of factors", _FACTORS_HINT)
        return VertexValue(axis, match[1], _factors(match[2]))
    vertex, colon, value = text.rpartition(":")
    number = parse_duration(value) if axis == SERVICE else _count(value)
    return VertexValue(axis, vertex if colon else None, number)


def change_vertices(scenario: Scenario, value: VertexValue) -> Scenario:
    """Return the scenario with a value applied to its vertices.

    Raises:
        UsageError: there is no such vertex, or it is a source, which does not process records.
    """
    names = _names(scenario, value)
    vertices = tuple(
        _changed(vertex, value) if vertex.name in names else vertex for vertex in scenario.vertices
    )
    return dataclasses.replace(scenario, vertices=vertices)


def surplus_factors(before: Scenario, changed: Scenario) -> list[str]:
    """Return a line for each vertex with more factors than subtasks, because surplus factors have no effect.

    Fewer factors are valid, because they repeat.
    """
    had = {vertex.name: vertex.service_skew for vertex in before.vertices}
    return [
        f"{vertex.name!r} has {vertex.parallelism} subtasks, and {len(vertex.service_skew)} factors are given"
        for vertex in changed.vertices
        if vertex.service_skew != had.get(vertex.name) and len(vertex.service_skew) > vertex.parallelism
    ]


def _names(scenario: Scenario, value: VertexValue) -> set[str]:
    if value.vertex is not None:
        return {_named(scenario, value.vertex, value.axis)}
    working = {vertex.name for vertex in scenario.vertices if vertex.source is None}
    if value.axis != PARALLELISM:
        return {vertex.name for vertex in scenario.vertices if vertex.service} or working
    tied = {edge.source for edge in scenario.edges if edge.strategy is ShipStrategy.FORWARD}
    return working | tied


def _named(scenario: Scenario, name: str, axis: str) -> str:
    names = {vertex.name: vertex for vertex in scenario.vertices}
    if name not in names:
        raise UsageError([f"no vertex is named {name!r}; {did_you_mean(name, names)}"])
    if axis != PARALLELISM and names[name].source is not None:
        raise UsageError([f"{name!r} is a source, which does no work on records; name another vertex"])
    return name


def _changed(vertex: Vertex, value: VertexValue) -> Vertex:
    number = value.number
    if isinstance(number, tuple):
        return dataclasses.replace(vertex, service_skew=number)
    if value.axis == SERVICE:
        return dataclasses.replace(vertex, service=((0.0, number),))
    return _scaled(vertex, int(number))


def _scaled(vertex: Vertex, parallelism: int) -> Vertex:
    """Return a vertex with another number of subtasks. A source keeps its total rate."""
    source = vertex.source
    if source is not None and source.rates and all(source.rates):  # 0 means as fast as possible
        total = math.fsum(vertex.rate(subtask) for subtask in range(vertex.parallelism))
        after = dataclasses.replace(vertex, parallelism=parallelism)
        unscaled = math.fsum(after.rate(subtask) for subtask in range(parallelism))
        rates = tuple(rate * total / unscaled for rate in source.rates)
        source = dataclasses.replace(source, rates=rates)
    return dataclasses.replace(vertex, parallelism=parallelism, source=source)


def _factors(text: str) -> tuple[float, ...]:
    try:
        factors = tuple(float(factor) for factor in text.split(":"))
    except ValueError:
        raise QuantityError(f"{text!r} has a factor that is no number", _FACTORS_HINT) from None
    if not any(factors):  # records without cost would show nothing
        message = f"all factors in {text!r} are 0, so records would cost no time; give at least one above 0"
        raise QuantityError(message, _FACTORS_HINT)
    return factors


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise QuantityError(f"{text!r} is no parallelism", "a whole number from 1")
    return int(text)


_SHOWN: Mapping[str, Callable[..., str]] = {
    SERVICE: format_duration,
    SKEW: lambda factors: ":".join(f"{factor:g}" for factor in factors),
    PARALLELISM: str,
}
