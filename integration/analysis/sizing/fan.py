"""How many channels the subtasks at both ends of an exchange have."""

from __future__ import annotations

from itertools import pairwise

from netstack import Edge, Scenario

POINTWISE = ("forward", "rescale")
"""Exchanges in which a producer reaches only its own group of consumers."""


def subpartitions(scenario: Scenario, edge: Edge) -> int:
    """Return the most subpartitions that a producer of an exchange has."""
    producers, consumers = _ends(scenario, edge)
    return -(-consumers // producers) if edge.ship in POINTWISE else consumers


def channels(scenario: Scenario, edge: Edge) -> int:
    """Return the most channels that a consumer of an exchange has."""
    producers, consumers = _ends(scenario, edge)
    return -(-producers // consumers) if edge.ship in POINTWISE else producers


def partition_counts(scenario: Scenario, edge: Edge) -> list[int]:
    """Return the subpartitions of each producer; pointwise exchanges deal them out evenly, as in Flink."""
    producers, consumers = _ends(scenario, edge)
    if edge.ship not in POINTWISE:
        return [consumers] * producers
    if producers >= consumers:
        return [1] * producers
    owners = [consumer * producers // consumers for consumer in range(consumers)]
    return [owners.count(producer) for producer in range(producers)]


def channel_counts(scenario: Scenario, edge: Edge) -> list[int]:
    """Return the channels of each consumer."""
    producers, consumers = _ends(scenario, edge)
    if edge.ship not in POINTWISE:
        return [producers] * consumers
    if producers < consumers:
        return [1] * consumers
    bounds = [consumer * producers // consumers for consumer in range(consumers + 1)]
    return [end - start for start, end in pairwise(bounds)]


def is_local(scenario: Scenario, edge: Edge) -> bool:
    """Return whether both ends are in one task manager: no link, no credit, no buffers at the receiver."""
    return scenario.vertex(edge.source).manager == scenario.vertex(edge.target).manager


def _ends(scenario: Scenario, edge: Edge) -> tuple[int, int]:
    return scenario.vertex(edge.source).parallelism, scenario.vertex(edge.target).parallelism
