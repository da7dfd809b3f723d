"""What the sources of a scenario read, and by which key the records behind them are dealt out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ScenarioError
from ..scenarios.scenario import Edge, GeneratorSpec, PathSpec, Scenario, SourceObject, SourceSpec, Vertex
from ..scenarios.user_code import KeyHash, Source
from ..tasks.keys import hash_by
from ..tasks.source import GeneratedSource


def source_of(scenario: Scenario, vertex: Vertex, *, blank: bool = False) -> Source:
    """Return what a source vertex of a scenario reads; if that is generated, without bytes where `blank`.

    Raises:
        ScenarioError: it is no source, or its path has not been opened.
    """
    spec = vertex.source
    if isinstance(spec, SourceObject):
        return spec.source
    if isinstance(spec, GeneratorSpec):
        return GeneratedSource(spec.record_bytes, _source_seed(scenario, vertex), spec.keys, blank=blank)
    what = "is no source" if spec is None else f"reads {spec.path!r}, which has not been opened"
    raise ScenarioError([f"vertex {vertex.name!r} {what}; use integration.open_sources(scenario)"])


def key_hash_of(scenario: Scenario, edge: Edge) -> KeyHash:
    """Return the hash of a record's key that an edge uses.

    It is its own, or that of the source before it; where neither is given, or a function has made other
    records, it follows from the key that the operator behind it says.

    Raises:
        ScenarioError: a path has not been opened.
    """
    if edge.key_hash is not None:
        return edge.key_hash
    before = scenario.vertices_before(edge.source)
    key_of = scenario.key_of(scenario.vertex(edge.target))
    if key_of is not None and not _have_keys(before):
        return hash_by(key_of)
    return source_of(scenario, next(vertex for vertex in before if vertex.source is not None)).key_hash


def key_hashes_of(scenario: Scenario) -> dict[int, KeyHash]:
    """Return the hash of each edge that deals records out by their key, by the edge's number.

    Raises:
        ScenarioError: a path has not been opened.
    """
    edges = enumerate(scenario.edges)
    return {
        number: key_hash_of(scenario, edge)
        for number, edge in edges
        if edge.strategy.by_key and not edge.shares
    }


def _have_keys(vertices: Sequence[Vertex]) -> bool:
    """Whether the records that these make have the keys that their sources, all of a kind, gave them."""
    sources = [vertex.source for vertex in vertices if vertex.source is not None]
    return (
        len({type(source) for source in sources}) == 1
        and all(map(_gives_keys, sources))
        and all(vertex.operator is None for vertex in vertices)
    )


def _gives_keys(spec: SourceSpec) -> bool:
    """Whether somebody said what the keys of a source's records are."""
    if isinstance(spec, SourceObject):
        named = spec.spec is None or bool(spec.spec.key)
        return named and bool(getattr(spec.source, "gives_keys", True))
    return bool(spec.key) if isinstance(spec, PathSpec) else True


def _source_seed(scenario: Scenario, vertex: Vertex) -> int:
    """A seed of the vertex's own, from the scenario's."""
    mixed = np.random.SeedSequence([scenario.seed, scenario.vertices.index(vertex)])
    return int(mixed.generate_state(1, np.uint64)[0])
