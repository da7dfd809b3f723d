"""Records whose content a task reads, and blank records, which have only a length.

User functions read the content of records, and so does the writing side of a hash exchange. Vertices without
a function forward the records that they read. If no task downstream reads the content of an edge's records,
these records need no bytes (`buffers/payload.py`)::

    generator --rebalance--> map --hash--> window --forward--> sink
              ^ bytes, for the hash behind        ^ none     ^ bytes if the sink is the user's
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .watermark_reach import readers_of_watermarks, sources_with_watermarks

if TYPE_CHECKING:
    from .scenario import Scenario


class Contents(NamedTuple):
    """Vertices (by name) and edges (by number) whose records need bytes, since a task reads them later."""

    vertices: frozenset[str]
    edges: frozenset[int]


def contents_of(scenario: Scenario) -> Contents:
    """Return the vertices and edges whose records need contents, not only a size.

    All edges with watermarks are among them.
    """
    with_watermarks = sources_with_watermarks(scenario) | readers_of_watermarks(scenario)
    vertices: set[str] = set()
    edges: set[int] = set()
    for vertex in reversed(scenario.topological_order()):
        for number, edge in enumerate(scenario.edges):
            if edge.source != vertex.name:
                continue
            has_function = scenario.vertex(edge.target).operator is not None
            if has_function or edge.target in vertices or vertex.name in with_watermarks:
                edges.add(number)
            if number in edges or (edge.strategy.by_key and not edge.shares):
                vertices.add(vertex.name)
    return Contents(frozenset(vertices), frozenset(edges))
