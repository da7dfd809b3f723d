"""Sources that send watermarks, the vertices that these reach, and their lag.

A source sends watermarks only if a downstream vertex emits by event time. As in Flink, its watermarks then
reach every vertex downstream of the source. The event time of a record is the time at which its source
emitted it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .scenario import Edge, Scenario, Vertex


def sources_with_watermarks(scenario: Scenario) -> frozenset[str]:
    """Return the names of the sources that send watermarks."""
    return frozenset(
        source.name
        for vertex in scenario.vertices
        if vertex.emits_by_event_time
        for source in sources_of(scenario, vertex)
        if source.source is not None and source.source.out_of_orderness_s is not None
    )


def readers_of_watermarks(scenario: Scenario) -> frozenset[str]:
    """Return the names of the vertices that watermarks reach."""
    sources = sources_with_watermarks(scenario)
    return frozenset(
        vertex.name
        for vertex in scenario.vertices
        if vertex.source is None and any(each.name in sources for each in sources_of(scenario, vertex))
    )


def disorder_s(scenario: Scenario, edge: Edge) -> float:
    """Return the lag of an edge's watermarks behind the preceding records, in seconds.

    If the records of several sources are merged, the lowest watermark is forwarded: that of the source with
    the largest lag. Behind an event-time window the lag is 0, since its results are sent directly before the
    watermark that fired the window.
    """
    behind: dict[str, float] = {}
    """Lag of the watermarks that each vertex sends, in seconds."""
    for vertex in scenario.vertices_before(edge.source):
        if vertex.source is not None:
            behind[vertex.name] = vertex.source.out_of_orderness_s or 0.0
        elif vertex.emits_by_event_time:
            behind[vertex.name] = 0.0
        else:
            behind[vertex.name] = max(behind[each.source] for each in scenario.inputs(vertex))
    return behind[edge.source]


def sources_of(scenario: Scenario, vertex: Vertex) -> list[Vertex]:
    """Return the sources whose records reach a vertex; for a source, the source itself."""
    return [each for each in scenario.vertices_before(vertex.name) if each.source is not None]
