"""Where watermarks flow in a job, and what makes no sense about event time.

A source sends watermarks only where some vertex behind it emits by event time: then they reach every vertex
behind that source, as in Flink. The event time of a record is when its source emitted it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from .config_rules import Problem, option_key
from .quantities import time_text
from .scenario import EMITS_BY, Edge, Scenario, Vertex
from .tables import did_you_mean

_LEAST_S = 0.001
"""Event time is in milliseconds, as in Flink."""


def sources_with_watermarks(scenario: Scenario) -> frozenset[str]:
    """Return the sources that send watermarks, by name."""
    return frozenset(
        source.name
        for vertex in scenario.vertices
        if vertex.emits_by_event_time
        for source in _sources_of(scenario, vertex)
        if source.source is not None and source.source.out_of_orderness_s is not None
    )


def readers_of_watermarks(scenario: Scenario) -> frozenset[str]:
    """Return the vertices that watermarks reach, by name."""
    sources = sources_with_watermarks(scenario)
    return frozenset(
        vertex.name
        for vertex in scenario.vertices
        if vertex.source is None and any(each.name in sources for each in _sources_of(scenario, vertex))
    )


def disorder_s(scenario: Scenario, edge: Edge) -> float:
    """Return how far the watermarks of an edge stay behind the records before them, in seconds.

    Where the records of several sources come together, the least watermark goes on, which is that of the
    source with the most disorder. What a window gives by event time comes right before the watermark that
    made it fire.
    """
    behind: dict[str, float] = {}
    """How far the watermarks that each vertex sends stay behind."""
    for vertex in scenario.vertices_before(edge.source):
        if vertex.source is not None:
            behind[vertex.name] = vertex.source.out_of_orderness_s or 0.0
        elif vertex.emits_by_event_time:
            behind[vertex.name] = 0.0
        else:
            behind[vertex.name] = max(behind[each.source] for each in scenario.inputs(vertex))
    return behind[edge.source]


def event_time_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield what is wrong with the event time of a job whose vertices and edges are all right."""
    for vertex in scenario.vertices:
        for field, message in _about_vertex(scenario, vertex):
            yield f"vertices.{vertex.name}.{field}", message
    if scenario.config.auto_watermark_interval_s <= 0 and sources_with_watermarks(scenario):
        names = [vertex.name for vertex in scenario.vertices if vertex.emits_by_event_time]
        text = f"is 0, so no watermarks are sent, and {names[0]} emits by event time; give it 200 ms"
        yield option_key("auto_watermark_interval_s"), text


def _about_vertex(scenario: Scenario, vertex: Vertex) -> Iterator[Problem]:
    if vertex.emit_by not in EMITS_BY:
        yield "emit_by", f"{vertex.emit_by!r} is unknown; {did_you_mean(vertex.emit_by, EMITS_BY)}"
    if vertex.emits_by_event_time and vertex.emit_every_s is None:
        yield "emit_by", "is given, and nothing is held back; give it emit_every, the size of its windows"
    elif vertex.emits_by_event_time:
        if vertex.emit_every_s is not None and 0 < vertex.emit_every_s < _LEAST_S:
            yield "emit_every", f"is {time_text(vertex.emit_every_s)}; by event time it must be 1 ms or more"
        for source in _sources_of(scenario, vertex):
            if source.source is not None and source.source.out_of_orderness_s is None:
                text = f"is event_time, and {source.name}, whose records come here, sends no watermarks"
                yield "emit_by", f"{text}; give that source an out_of_orderness, such as 0 s"
    if vertex.source is not None and vertex.source.out_of_orderness_s is not None:
        disorder_s = vertex.source.out_of_orderness_s
        if not 0 <= disorder_s < math.inf:
            yield "source.out_of_orderness", f"is {time_text(disorder_s)}; it must be 0 s or more"
        elif vertex.name not in sources_with_watermarks(scenario):
            text = "changes nothing: no vertex behind it emits by event time"
            yield "source.out_of_orderness", f'{text}; drop it, or give one emit_by = "event_time"'


def _sources_of(scenario: Scenario, vertex: Vertex) -> list[Vertex]:
    """The sources whose records reach a vertex, or itself if it is one."""
    return [each for each in scenario.vertices_before(vertex.name) if each.source is not None]
