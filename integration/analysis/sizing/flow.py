"""How much flows through a job: from the rates of its sources and the costs of its records.

Every record goes on along every edge, to all consumers of a broadcast. A vertex can take what its slowest
subtask takes, times its parallelism: exchanges that deal out evenly tie all subtasks to the slowest. Sources
whose rates are too much are slowed down, all by the same factor. Then those without a rate grow together, all
subtasks alike; when a vertex becomes full, the sources before it stop, and the others go on growing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from netstack import GeneratorSpec, Scenario, ScenarioError, Vertex

LENGTH_BYTES = 4
"""Bytes of the length in front of each record."""

_FULL = 1 - 1e-9


class Flow(NamedTuple):
    """What flows into a vertex, or out of a source; of all its subtasks."""

    records_per_s: float
    bytes_per_s: float
    """Bytes of records with their lengths."""
    is_full: bool
    """Whether it takes no more, so that it holds back all before it."""

    @property
    def record_bytes(self) -> float:
        """Bytes of a record with its length, the mean of all that flow there."""
        return self.bytes_per_s / self.records_per_s if self.records_per_s else 0.0


def flows(scenario: Scenario, record_bytes: int | None = None) -> dict[str, Flow]:
    """Return the flow of each vertex; `record_bytes` is the size of records that are read from files.

    Raises:
        ScenarioError: a source reads files, and `record_bytes` is not given.
    """
    wire = {vertex.name: wire_bytes(vertex, record_bytes) for vertex in scenario.vertices if vertex.source}
    reach = {name: _reach(scenario, name) for name in wire}
    capacity = {vertex.name: _capacity(scenario, vertex, max(wire.values())) for vertex in scenario.vertices}
    emitted = _emitted(scenario, reach, capacity)
    flow_of = {}
    for vertex in scenario.vertices:
        arriving = {source: emitted[source] * reach[source].get(vertex.name, 0) for source in wire}
        records = sum(arriving.values())
        size = sum(wire[source] * flow for source, flow in arriving.items())
        flow_of[vertex.name] = Flow(records, size, records >= _FULL * capacity[vertex.name])
    return flow_of


def wire_bytes(vertex: Vertex, record_bytes: int | None = None) -> int:
    """Return the bytes that a source's record takes in buffers.

    Raises:
        ScenarioError: it reads files, and `record_bytes` is not given.
    """
    if isinstance(vertex.source, GeneratorSpec):
        return vertex.source.record_bytes + LENGTH_BYTES
    if record_bytes is None:
        text = f"vertices.{vertex.name}.source: the size of its records is unknown; give --record-bytes"
        raise ScenarioError([text])
    return record_bytes + LENGTH_BYTES


def held_back(scenario: Scenario, flow_of: Mapping[str, Flow]) -> set[str]:
    """Return the vertices before which data piles up: those that are full, and all on the way to one."""
    names: set[str] = set()
    for vertex in scenario.vertices:
        if vertex.source is None and flow_of[vertex.name].is_full:
            names |= {before.name for before in scenario.vertices_before(vertex.name)}
    return {name for name in names if scenario.vertex(name).source is None}


def slowest_cost_s(vertex: Vertex) -> float:
    """Return the greatest cost of a record in any subtask at any time, in seconds."""
    return max(cost for subtask in range(vertex.parallelism) for _, cost in vertex.service_steps(subtask))


def share_of_slowest(vertex: Vertex) -> float:
    """Return the share of a vertex's subtasks that are as slow as its slowest; of equal ones 1."""
    costs = [max(cost for _, cost in vertex.service_steps(subtask)) for subtask in range(vertex.parallelism)]
    return costs.count(max(costs)) / len(costs)


def _reach(scenario: Scenario, source: str) -> dict[str, int]:
    """How often a record of a source comes to each vertex, to itself once."""
    times: dict[str, int] = {}
    for vertex in scenario.topological_order():
        arriving = sum(
            times.get(edge.source, 0) * (vertex.parallelism if edge.strategy.copies else 1)
            for edge in scenario.inputs(vertex)
        )
        times[vertex.name] = 1 if vertex.name == source else arriving
    return {name: count for name, count in times.items() if count}


def _emitted(
    scenario: Scenario, reach: Mapping[str, Mapping[str, int]], capacity: Mapping[str, float]
) -> dict[str, float]:
    """Records/s of each source."""
    rates = {name: _rates(scenario.vertex(name)) for name in reach}
    emitted = {name: sum(each) for name, each in rates.items()}
    factor = min([1.0, *(capacity[name] / flow for name, flow in _totals(emitted, reach).items() if flow)])
    emitted = {name: factor * flow for name, flow in emitted.items()}
    growing = {name: each.count(0) for name, each in rates.items() if 0 in each}
    while growing:
        taken, more = _totals(emitted, reach), _totals(growing, reach)
        room = {name: max(0.0, capacity[name] - taken.get(name, 0.0)) / more[name] for name in more}
        step = min(room.values())
        if math.isinf(step):
            return emitted
        for name, count in growing.items():
            emitted[name] += step * count
        full = {name for name, most in room.items() if most <= step}
        growing = {name: count for name, count in growing.items() if not full & reach[name].keys()}
    return emitted


def _totals(emitted: Mapping[str, float], reach: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """The flow of each vertex that sources reach, if they emit that much."""
    total: dict[str, float] = {}
    for source, flow in emitted.items():
        for name, times in reach[source].items():
            total[name] = total.get(name, 0.0) + flow * times
    return total


def _rates(source: Vertex) -> list[float]:
    return [source.rate(subtask) for subtask in range(source.parallelism)]


def _capacity(scenario: Scenario, vertex: Vertex, record_bytes: int) -> float:
    """Records/s that a vertex can take, or a source emit: its service, and the costs of the machine."""
    costs = scenario.costs
    if vertex.source is not None:
        cost = costs.source_record_s
    else:
        buffers = record_bytes / scenario.config.segment_bytes
        cost = slowest_cost_s(vertex) + costs.consumer_record_s + buffers * costs.consumer_buffer_s
    return vertex.parallelism / cost if cost > 0 else math.inf
