"""Records whose content a task reads, and blank records, which have only a length.

User functions read the content of records, and so does the writing side of a hash exchange. Vertices without
a function forward the records that they read. If no task downstream reads the content of an edge's records,
and they have one length, these records need no bytes (`buffers/payload.py`)::

    generator --rebalance--> map --hash--> window --forward--> sink
              ^ bytes, for the hash behind        ^ none     ^ bytes if the sink is the user's
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .scenario import GeneratorSpec
from .watermark_reach import readers_of_watermarks, sources_with_watermarks

if TYPE_CHECKING:
    from .scenario import Scenario


class Contents(NamedTuple):
    """Vertices (by name) and edges (by number) whose records need bytes."""

    vertices: frozenset[str]
    edges: frozenset[int]


def contents_of(scenario: Scenario) -> Contents:
    """Return the vertices and edges whose records need contents, not only a size.

    All edges with watermarks or with records of different lengths are among them.
    """
    with_bytes = sources_with_watermarks(scenario) | readers_of_watermarks(scenario)
    with_bytes |= _of_different_lengths(scenario)
    vertices: set[str] = set()
    edges: set[int] = set()
    for vertex in reversed(scenario.topological_order()):
        for number, edge in enumerate(scenario.edges):
            if edge.source != vertex.name:
                continue
            has_function = scenario.vertex(edge.target).operator is not None
            if has_function or edge.target in vertices or vertex.name in with_bytes:
                edges.add(number)
            if number in edges or (edge.strategy.by_key and not edge.shares):
                vertices.add(vertex.name)
    return Contents(frozenset(vertices), frozenset(edges))


def _of_different_lengths(scenario: Scenario) -> set[str]:
    """Return the names of the vertices that emit records of different lengths."""
    found: set[str] = set()
    for vertex in scenario.topological_order():
        if isinstance(vertex.source, GeneratorSpec):
            is_uneven = vertex.source.record_spread > 0
        else:
            inputs = (edge.source for edge in scenario.inputs(vertex))
            is_uneven = vertex.record_bytes is None and not found.isdisjoint(inputs)
        if is_uneven:
            found.add(vertex.name)
    return found
