"""Where in a job somebody looks at what is in records, and not only at how many there are and how long.

A function of the user's does, and so does a hash exchange, on the side that writes to it; vertices without a
function hand on what they read. The records of all other edges need no bytes (`buffers/blank_bytes.py`)::

    generator --rebalance--> map --hash--> window --forward--> sink
              ^ bytes, for the hash behind        ^ none     ^ bytes if the sink is the user's
"""

from __future__ import annotations

from typing import NamedTuple

from .event_time import readers_of_watermarks, sources_with_watermarks
from .scenario import Scenario
from .topology import JobShape


class Contents(NamedTuple):
    """Where the bytes of records are looked at, there or further on.

    `vertices`: names of those whose output it is; `edges`: numbers of those over which it is carried.
    """

    vertices: frozenset[str]
    edges: frozenset[int]


def contents_of(scenario: Scenario) -> Contents:
    """Return where the bytes of records are looked at.

    Records among which there are watermarks keep theirs.
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


def shape_of(scenario: Scenario) -> JobShape:
    """Return what the checkpoints of a job depend on."""
    exchanges = tuple((edge.source, edge.target, edge.ship) for edge in scenario.edges)
    read = contents_of(scenario).edges
    return JobShape(
        scenario.name,
        {vertex.name: vertex.parallelism for vertex in scenario.vertices},
        exchanges,
        tuple(exchange for number, exchange in enumerate(exchanges) if number not in read),
    )
