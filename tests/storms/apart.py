"""Cases whose jobs have several pipelined regions, which fail and restart apart from each other.

Two ways: a second pipeline beside the one that was drawn, which shares task managers with it and nothing
else; or only exchanges that join no rows of subtasks. Some of these jobs restart as a whole all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from netstack import FailoverStrategy, NetworkConfig, ShipStrategy

from .case import KEYED, StormCase, StormVertex, Work

Edges = tuple[tuple[str, str, str], ...]

Drawn = tuple[tuple[StormVertex, ...], Edges]
"""The vertices and edges of a job."""

_SHARE = 0.3
"""Of the cases that are drawn so."""

_FULL = 0.15
"""Of those, jobs that restart as a whole."""


def set_apart(chance: random.Random, job: Drawn, another: Callable[[], Drawn]) -> Drawn:
    """Return a job, most as they were drawn; `another` draws one more."""
    if chance.random() > _SHARE:
        return job
    if chance.random() < 0.5:
        return _in_rows(chance, job)
    vertices, edges = job
    more, more_edges = another()
    return (
        (*vertices, *(replace(vertex, name=_beside(vertex.name)) for vertex in more)),
        (*edges, *((_beside(source), _beside(target), ship) for source, target, ship in more_edges)),
    )


def _beside(name: str) -> str:
    return f"{name}-beside"


def _in_rows(chance: random.Random, job: Drawn) -> Drawn:
    """The job with as many subtasks of all vertices, whose records stay in their row."""
    vertices, edges = job
    parallelism, ship = chance.randint(2, 4), chance.choice(("forward", "forward", "rescale"))
    return (
        tuple(
            replace(vertex, parallelism=parallelism, work=Work.PASS if vertex.work in KEYED else vertex.work)
            for vertex in vertices
        ),
        tuple((source, target, ship) for source, target, _ in edges),
    )


def with_failover(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    """The settings, some with restarts of the whole job."""
    full = chance.random() < _FULL
    return replace(config, failover_strategy=FailoverStrategy.FULL) if full else config


def paths_meet(case: StormCase) -> bool:
    """Whether records of one source come to a vertex on two ways."""
    sources: dict[str, frozenset[str]] = {}
    for vertex in case.vertices:  # each stands behind those that it reads from
        ways = [sources[producer.name] for producer, _ in case.inputs(vertex)]
        union = frozenset[str]().union(*ways)
        if len(union) < sum(map(len, ways)):
            return True
        sources[vertex.name] = union or frozenset({vertex.name})
    return False


def pipelines(case: StormCase) -> list[set[str]]:
    """The vertices of each pipeline, in their order: of those that no edge joins."""
    joined: list[set[str]] = [{vertex.name} for vertex in case.vertices]
    for source, target, _ in case.edges:
        one = next(names for names in joined if source in names)
        other = next(names for names in joined if target in names)
        if one is not other:
            one |= other
            joined.remove(other)
    return joined


def has_regions(case: StormCase) -> bool:
    """Whether parts of the job may restart apart from each other."""
    if len(pipelines(case)) > 1:
        return True
    in_rows = all(ShipStrategy.of(ship).pointwise for _, _, ship in case.edges)
    return in_rows and any(vertex.parallelism > 1 for vertex in case.vertices)
