"""The same job at another load: the rates of its sources times a factor, and sources at the limit.

Today's load is the load of the scenario. A source with a rate emits the factor times this rate. A source that
emits as fast as possible has no rate: its job is at the limit already, and a higher load changes nothing. For
a lower load, the rates at which it emits today are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from netstack import GeneratorSpec, Scenario, SourceSpec, Vertex

from ..base.errors import UsageError

SATURATED = 0.9
"""A subtask that is busy or back-pressured for at least this share of the time counts as always so."""

Rates = Mapping[str, Sequence[float]]
"""Records per second of each subtask of a source, by the name of the source."""


def check_load(factor: float) -> None:
    """Require a usable factor of the load.

    Raises:
        UsageError: it is not a number above 0.
    """
    if not 0 < factor < inf:
        raise UsageError([f"load: is {factor:g}; it must be a number above 0, such as 1.5"])


def has_unlimited_source(scenario: Scenario) -> bool:
    """Return whether a subtask of a source emits as fast as possible."""
    return any(not all(rates_of(vertex)) for vertex in scenario.vertices if vertex.source is not None)


def rates_of(source: Vertex) -> list[float]:
    """Return the rate of each subtask of a source; 0: as fast as possible."""
    return [source.rate(subtask) for subtask in range(max(1, source.parallelism))]


def burst_s(scenario: Scenario) -> float:
    """Return the longest period of bursts of a source, in seconds; 0: no source emits in bursts."""
    sources = (vertex.source for vertex in scenario.vertices)
    return max((each.burst_s or 0.0 for each in sources if isinstance(each, GeneratorSpec)), default=0.0)


def course_s(scenario: Scenario) -> float:
    """Return the longest period of the courses of vertices, in seconds; 0: no vertex has a course."""
    courses = (vertex.course for vertex in scenario.vertices)
    return max((sum(seconds for seconds, _ in course) for course in courses), default=0.0)


def at_load(scenario: Scenario, factor: float, emitted: Rates | None = None) -> Scenario:
    """Return a scenario whose sources have `factor` times today's load.

    Args:
        scenario: The job at today's load.
        factor: The load as a multiple of today's.
        emitted: Records per second that each subtask of an unlimited source emits today. Only a factor below
            1 needs it.

    Raises:
        UsageError: the factor is not a number above 0, or `emitted` lacks a source that needs it.
    """
    check_load(factor)
    if factor == 1:
        return scenario
    vertices = tuple(
        vertex if vertex.source is None else _with_load(vertex, vertex.source, factor, emitted or {})
        for vertex in scenario.vertices
    )
    changes = tuple(
        replace(change, rates=tuple(rate * factor for rate in change.rates)) for change in scenario.changes
    )
    return replace(scenario, vertices=_without_backlog(vertices), changes=changes)


def _with_load(vertex: Vertex, source: SourceSpec, factor: float, emitted: Rates) -> Vertex:
    rates = rates_of(vertex)
    if not all(rates):
        if factor >= 1:
            return vertex
        if vertex.name not in emitted:
            raise UsageError(
                [
                    f"load: {vertex.name} emits as fast as possible, so its rate today is unknown; give it a "
                    "rate to run it at a lower load"
                ]
            )
        rates = list(emitted[vertex.name])
    scaled = tuple(float(f"{rate * factor:.6g}") for rate in rates)
    if len(set(scaled)) == 1:
        scaled = scaled[:1]
    if isinstance(source, GeneratorSpec) and source.burst_s is not None and source.batch > 1:
        # A window in the source's chain emits all records of a period in one call.
        source = replace(source, batch=max(1, round(source.batch * factor)))
    return replace(vertex, source=replace(source, rates=scaled))


def _without_backlog(vertices: Sequence[Vertex]) -> tuple[Vertex, ...]:
    """Return the vertices without work that is left at the start, which belongs to today's load."""
    return tuple(replace(vertex, behind_s=(0.0,)) if any(vertex.behind_s) else vertex for vertex in vertices)
