"""A job as a change leaves it."""

from __future__ import annotations

from dataclasses import replace

from .changes import ScheduledChange
from .config import with_options
from .scenario import Scenario, Vertex


def changed(scenario: Scenario, change: ScheduledChange) -> Scenario:
    """Return what a job is from a change on, as far as the scenario has what the change names."""
    config = with_options(scenario.config, dict(change.settings)) if change.settings else scenario.config
    vertices = tuple(
        _changed_vertex(vertex, change) if vertex.name == change.vertex else vertex
        for vertex in scenario.vertices
    )
    return replace(scenario, config=config, vertices=vertices)


def _changed_vertex(vertex: Vertex, change: ScheduledChange) -> Vertex:
    source = vertex.source
    return replace(
        vertex,
        service=vertex.service if change.service_s is None else ((0.0, change.service_s),),
        service_skew=change.service_skew or vertex.service_skew,
        source=source if source is None or not change.rates else replace(source, rates=change.rates),
    )
