"""Draws what lets only some of the records through: edges with a fraction, and odd selectivities.

Which records go depends on their order, so of what comes out there are bounds only (`storm_flows`). A number
that is made of all records of a key has none: what would sum keeps the records instead.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from netstack import ShipStrategy

from .case import SUMS, StormVertex, Work

Edges = tuple[tuple[str, str, str], ...]
Fractions = tuple[tuple[str, str, Fraction], ...]

_SIDE_OUTPUT = 0.2
"""Share of the sinks that also read from a vertex further up."""

_OF_AN_EDGE = 0.5
"""Share of the edges that could have a fraction which have one."""

_ODD = 0.9
"""Share of the vertices that emit as the scenario says of which it says no whole number."""

_AT_RANDOM = 0.3
"""Share of the vertices with an odd selectivity whose records come at random, and not in turns."""

_MORE_ODD = 0.3
"""Share of the vertices that pass records on, or mark them, in whose place one emits so at once."""

_SHARES = {Work.EMIT: _ODD, Work.PASS: _MORE_ODD, Work.MARK: _MORE_ODD}

_FRACTIONS = tuple(map(Fraction, ("1/20", "1/4", "1/3", "2/5", "1/2", "3/4", "9/10")))
_SELECTIVITIES = tuple(map(Fraction, ("1/4", "1/3", "2/5", "1/2", "3/4", "9/10", "3/2", "7/3")))


def with_shares(
    chance: random.Random, vertices: Sequence[StormVertex], edges: Edges
) -> tuple[tuple[StormVertex, ...], Edges, Fractions]:
    """Return vertices and edges, some of which let a share of the records through, and the edges' shares."""
    for sink in vertices:
        if sink.work is Work.SINK and chance.random() < _SIDE_OUTPUT:
            edges = (*edges, *_side_output(chance, sink, vertices, edges))
    ways = Counter(source for source, _, _ in edges)
    fractions = tuple(
        (source, target, chance.choice(_FRACTIONS))
        for source, target, ship in edges
        if ways[source] > 1 and not ShipStrategy.of(ship).copies and chance.random() < _OF_AN_EDGE
    )
    odd = [
        replace(vertex, work=Work.EMIT, selectivity=chance.choice(_SELECTIVITIES))
        if chance.random() < _SHARES.get(vertex.work, 0.0)
        else vertex
        for vertex in vertices
    ]
    emitting = [
        replace(vertex, at_random=vertex.selectivity.denominator > 1 and chance.random() < _AT_RANDOM)
        for vertex in odd
    ]
    return _without_sums(emitting, edges, fractions), edges, fractions


def _side_output(
    chance: random.Random, sink: StormVertex, vertices: Sequence[StormVertex], edges: Edges
) -> Edges:
    """An edge to a sink from a vertex of its pipeline that it does not read from yet, if there is one."""
    before = {source for source, target, _ in edges if target == sink.name}
    further = {sink.name}
    for vertex in reversed(vertices):  # each stands behind those that it reads from
        if any(source == vertex.name and target in further for source, target, _ in edges):
            further.add(vertex.name)
    free = [vertex for vertex in vertices if vertex.name in further - before - {sink.name}]
    if not free:
        return ()
    producer = chance.choice(free)
    in_rows = all(ShipStrategy.of(ship).pointwise for _, _, ship in edges)
    ships = ["rescale"] if in_rows else ["rescale", "rebalance", "hash"]
    if producer.parallelism == sink.parallelism:
        ships.append("forward")
    return ((producer.name, sink.name, chance.choice(ships)),)


def _without_sums(
    vertices: Sequence[StormVertex], edges: Edges, fractions: Fractions
) -> tuple[StormVertex, ...]:
    """The vertices, of which none sums what it reads a share of."""
    partly: set[str] = set()
    shares = {edge[:2] for edge in fractions}
    known: list[StormVertex] = []
    for vertex in vertices:
        inputs = {source for source, target, _ in edges if target == vertex.name}
        reads_a_share = bool(inputs & partly) or any((source, vertex.name) in shares for source in inputs)
        if reads_a_share or vertex.selectivity.denominator > 1:
            partly.add(vertex.name)
        known.append(replace(vertex, work=Work.GATHER) if reads_a_share and vertex.work in SUMS else vertex)
    return tuple(known)
