"""The places that share network memory, the gates and the partitions of each exchange, and their sizes.

A size is one number of buffers for each gate, or each partition, of an exchange. Flink's three settings
follow from it: of a gate as many as go are exclusive, since these give credit for data that has yet to come,
where floating buffers are asked for by data that waits; a subpartition may hold what the others leave it when
each of them has one buffer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from netstack import Edge, EdgeBuffers, Scenario, consumers_of_producers, producers_of_consumers

Sizes = tuple[int, ...]
"""A number of buffers for each place, in the order of `places_of`."""

STEPS = 6
"""Sizes of a place that are emulated, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """All gates, or all partitions, of an exchange; they are of one size."""

    edge: int
    """Its number in the scenario."""
    kind: Literal["gate", "partition"]
    parts: int
    """Channels of a gate over the network, or subpartitions of a partition; of the one that has most."""
    counts: Mapping[str, int]
    """How many of them each task manager has."""
    needed: int
    """What bandwidth times round trip asks of it; of a partition what Flink does."""
    steps: Sizes
    """From the least to the greatest, the sizes to emulate."""
    base: int
    """The one of `steps` that it has while others are looked at."""


def places_of(scenario: Scenario, bytes_per_s: Mapping[int, float]) -> tuple[Place, ...]:
    """Return the places of a job; `bytes_per_s` is what the busiest consumer of each edge reads over it.

    A gate that reads within its task manager only needs no memory; its one floating buffer is Flink's least.
    """
    places = []
    for number, edge in enumerate(scenario.edges):
        partitions, gates = _ends(scenario, edge)
        places.append(_partition(scenario, number, partitions))
        places.append(_gate(scenario, number, gates, bytes_per_s[number]))
    return tuple(places)


def with_sizes(scenario: Scenario, places: tuple[Place, ...], sizes: Sizes) -> Scenario:
    """Return the job whose exchanges have buffers of these sizes."""
    buffers = dict.fromkeys((place.edge for place in places), EdgeBuffers())
    quota = scenario.config.max_buffers_per_channel
    for place, size in zip(places, sizes, strict=True):
        if place.kind == "gate":
            exclusive = (size - 1) // place.parts if place.parts else 0
            floating = size - exclusive * place.parts
            buffers[place.edge] = replace(buffers[place.edge], exclusive=exclusive, floating=floating)
        else:
            most = min(quota, max(2, size - place.parts + 1))
            buffers[place.edge] = replace(buffers[place.edge], partition=size, max_per_channel=most)
    edges = (replace(edge, buffers=buffers[number]) for number, edge in enumerate(scenario.edges))
    return replace(scenario, edges=tuple(edges))


def wide(scenario: Scenario) -> Scenario:
    """Return the job with gates so large that no link waits for credit; what it can do at most."""
    edges = []
    for edge in scenario.edges:
        _, gates = _ends(scenario, edge)
        channels = max(1, *(remote for remote, _ in gates))
        config, given = scenario.config, edge.buffers
        exclusive = max(given.per_channel(config), _WIDE // channels)
        floating = max(given.per_gate(config), _WIDE // 2)
        # A partition's size must not follow that of the gates.
        subpartitions = max(parts for parts, _ in _ends(scenario, edge)[0])
        partition = given.pool(config, subpartitions)[1]
        own = replace(given, exclusive=exclusive, floating=floating, partition=partition)
        edges.append(replace(edge, buffers=own))
    return replace(scenario, edges=tuple(edges))


_WIDE = 256


def _ends(scenario: Scenario, edge: Edge) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Subpartitions and task manager of each partition, remote channels and task manager of each gate."""
    sender, receiver = scenario.vertex(edge.source), scenario.vertex(edge.target)
    reached = consumers_of_producers(edge.ship, sender.parallelism, receiver.parallelism)
    partitions = [(len(targets), sender.manager_of(number)) for number, targets in enumerate(reached)]
    gates = []
    for number, channels in enumerate(producers_of_consumers(reached, receiver.parallelism)):
        manager = receiver.manager_of(number)
        gates.append((sum(sender.manager_of(source) != manager for source, _ in channels), manager))
    return partitions, gates


def _partition(scenario: Scenario, number: int, partitions: list[tuple[int, str]]) -> Place:
    parts = max(count for count, _ in partitions)
    least, most = scenario.edges[number].buffers.pool(scenario.config, parts)
    steps = tuple(_steps(least, max(most, 2 * least)))
    return Place(
        edge=number,
        kind="partition",
        parts=parts,
        counts=Counter(manager for _, manager in partitions),
        needed=least,
        steps=steps,
        base=steps[min(1, len(steps) - 1)],
    )


def _gate(scenario: Scenario, number: int, gates: list[tuple[int, str]], bytes_per_s: float) -> Place:
    parts = max(remote for remote, _ in gates)
    buffers, config = scenario.edges[number].buffers, scenario.config
    in_flight = bytes_per_s * 2 * scenario.link.latency_s / config.segment_bytes
    needed = max(1, math.ceil(in_flight))
    given = parts * buffers.per_channel(config) + buffers.per_gate(config)
    steps = tuple(_steps(needed, max(given, 4 * needed))) if parts else (1,)
    ample = max(2 * needed, parts + 1)
    return Place(
        edge=number,
        kind="gate",
        parts=parts,
        counts=Counter(manager for _, manager in gates),
        needed=needed,
        steps=steps,
        base=next((step for step in steps if step >= ample), steps[-1]),
    )


def _steps(least: int, most: int) -> Iterator[int]:
    """Whole numbers from `least` to `most`, each greater by about the same factor."""
    reached = 0
    for number in range(STEPS):
        step = round(least * (most / least) ** (number / (STEPS - 1)))
        if step > reached:
            reached = step
            yield step
