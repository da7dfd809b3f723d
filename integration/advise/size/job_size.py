"""Size a job by arithmetic: throughput, buffers at each place, memory, queued data, and credit for links.

A vertex sends each record along all its edges; a broadcast sends it to all consumers. Exchanges that
distribute evenly slow all subtasks down to the slowest. So the throughput of a vertex is its parallelism
times the throughput of its slowest subtask. With adaptive partition selection, each subtask reads at its own
speed (`capacity_by_load`), and an equal number of buffers waits for each subtask. If the given rates of
sources are too high, one factor reduces all of them. Then the rates of the other sources grow together,
equally for all subtasks, until a vertex is saturated. The rates of sources upstream of that vertex stop
growing, and the others continue.

Once a consumer is saturated, its gate holds all its buffers except the one being read. Each sender holds all
buffers of its pool, but the open buffer of each subpartition is only half full on average::

    sender -> consumer   min(quota - 1, (pool - subpartitions) / subpartitions to the slowest) + 1/2
    gate                 channels * exclusive + floating - 1

The quota is max-buffers-per-channel. A buffer is empty while its credit is on the way to the sender. Drain
times are bytes divided by the rate at which the subtask reads. Debloating makes no buffer smaller than its
first record. If buffers become smaller than rate * round trip / credit, the sender waits for credit.

Fields are in the order of the printed page. Counts are numbers of buffers, times are in milliseconds, and
rates are those of one subtask in bytes/s. None: unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from buffers import HEADER_BYTES
from netstack import (
    FROM_SOURCE,
    Edge,
    GeneratorSpec,
    Scenario,
    ScenarioError,
    Vertex,
    capacity_by_load,
    channel_counts,
    plan_segments,
    required_segments,
)

from ...base.errors import UsageError

_MS = 1000.0

_FULL = 1 - 1e-9
"""A vertex that uses at least this share of its capacity counts as saturated."""

_OPEN = 0.5
"""Average filled share of a buffer that is still being written."""


class ExchangeSize(msgspec.Struct, frozen=True, kw_only=True):
    """Buffers at both ends of an exchange, for the subtasks with the most channels."""

    source: str
    target: str
    ship: str
    producers: int
    consumers: int
    is_local: bool
    """Whether both ends are in one task manager. The receiver then needs no buffers."""
    subpartitions: int
    """Subpartitions of one producer."""
    channels: int
    """Channels of one consumer."""
    partition_required: int
    """Minimum number of buffers for a producer to start."""
    partition_most: int
    overdraft: int
    """Buffers that a producer may take beyond its pool to finish a record."""
    exclusive: int
    """Exclusive buffers of all channels of a consumer."""
    floating_required: int
    floating_most: int

    @property
    def receiving(self) -> int:
        """Maximum number of buffers of a consumer."""
        return 0 if self.is_local else self.exclusive + self.floating_most


class MemorySize(msgspec.Struct, frozen=True, kw_only=True):
    """The network memory of a task manager."""

    task_manager: str
    required_buffers: int
    """Minimum number of buffers for its subtasks to start."""
    most_buffers: int
    """Maximum number of buffers that all its pools can use, overdraft included."""
    required_bytes: int
    most_bytes: int
    given_bytes: int | None
    """Value of taskmanager.memory.network.max; None: not given."""


class LinkSize(msgspec.Struct, frozen=True, kw_only=True):
    """Buffers that the link into a consumer needs so that it never waits for credit."""

    round_trip_ms: float
    needed_buffers: int
    """Buffers needed: throughput times round trip over the size of a segment, rounded up."""
    credit_buffers: int
    """Buffers for which the consumer can give credit: exclusive and floating."""
    most_bytes_per_s: float | None
    """Maximum throughput that the credit allows; None: there is no round trip."""
    least_target_ms: float
    """Smallest useful debloat target: with a shorter one, buffers are too small for the round trip."""


class ConsumerSize(msgspec.Struct, frozen=True, kw_only=True):
    """Queued data for the slowest subtask of a vertex, over all its inputs."""

    name: str
    parallelism: int
    by_load: bool = False
    """Whether adaptive partition selection lets faster subtasks read more. Otherwise all read equally."""
    records_per_s: float
    bytes_per_s: float
    is_held_back: bool
    """Whether data queues up before the vertex, because it or a downstream vertex is saturated."""
    expected_buffers: float
    """Buffers that wait once the vertex is saturated; an open buffer counts as half full."""
    expected_bytes: int
    expected_drain_ms: float | None
    worst_buffers: int
    """Buffers that wait if all senders hold as many for this subtask as they are allowed to."""
    worst_bytes: int
    worst_drain_ms: float | None
    least_buffer_bytes: int
    """Minimum useful buffer size for debloating: one record, or more if the round trip needs it."""
    least_drain_ms: float | None
    """Minimum drain time that debloating can reach without a loss of throughput."""
    target_ms: float | None
    """The debloat target; None: debloating is off."""
    debloated_bytes: int | None
    """The buffer size that debloating sets; None: debloating is off."""
    debloated_drain_ms: float | None
    """Drain time with buffers of `debloated_bytes`; None: debloating is off."""
    link: LinkSize | None
    """Buffers that the link needs; None: all channels are local."""


class JobSize(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a job."""

    schema: str = "netstack.size/1"
    name: str
    preset: str
    segment_bytes: int
    exchanges: list[ExchangeSize]
    consumers: list[ConsumerSize]
    task_managers: list[MemorySize]


def size_job(scenario: Scenario, record_bytes: int | None = None) -> JobSize:
    """Return all figures of a job. `record_bytes` is the size of records that are read from files.

    Raises:
        UsageError: a source reads files, and `record_bytes` is None.
        ScenarioError: the parallelism of a source is missing.
    """
    unknown = [vertex.name for vertex in scenario.vertices if vertex.parallelism == FROM_SOURCE]
    if unknown:
        raise ScenarioError([f"vertices.{name}.parallelism: is missing; give a number" for name in unknown])
    flow_of = flows(scenario, record_bytes)
    full = held_back(scenario, flow_of)
    exchanges = [_exchange(scenario, edge) for edge in scenario.edges]
    consumers = []
    for vertex in scenario.vertices:
        pairs = zip(scenario.edges, exchanges, strict=True)
        inputs = [(edge, exchange) for edge, exchange in pairs if edge.target == vertex.name]
        if inputs:
            consumers.append(_consumer(scenario, vertex, inputs, flow_of[vertex.name], vertex.name in full))
    return JobSize(
        name=scenario.name,
        preset=scenario.preset,
        segment_bytes=scenario.config.segment_bytes,
        exchanges=exchanges,
        consumers=consumers,
        task_managers=_memory(scenario),
    )


def to_drain_s(scenario: Scenario, record_bytes: int | None) -> float:
    """Return the time, at least one second, in which a barrier passes all queues if they are full."""
    full = [each for each in size_job(scenario, record_bytes).consumers if each.is_held_back]
    return max(1.0, sum(each.debloated_drain_ms or each.expected_drain_ms or 0.0 for each in full) / 1000)


def _exchange(scenario: Scenario, edge: Edge) -> ExchangeSize:
    config, local = scenario.config, not scenario.has_remote_channels(edge)
    producers, consumers = scenario.vertex(edge.source).parallelism, scenario.vertex(edge.target).parallelism
    parts = max(channel_counts(edge.ship, consumers, producers))
    count = max(channel_counts(edge.ship, producers, consumers))
    required, most = edge.buffers.pool(config, parts)
    spec = edge.buffers.gate(config, count)
    return ExchangeSize(
        source=edge.source,
        target=edge.target,
        ship=edge.ship,
        producers=producers,
        consumers=consumers,
        is_local=local,
        subpartitions=parts,
        channels=count,
        partition_required=required,
        partition_most=most,
        overdraft=config.max_overdraft_buffers_per_gate,
        exclusive=0 if local else count * spec.exclusive_per_channel,
        floating_required=spec.required_floating,
        floating_most=spec.total_floating,
    )


def _memory(scenario: Scenario) -> list[MemorySize]:
    config = scenario.config
    required = required_segments(scenario)
    most = plan_segments(replace(scenario, config=replace(config, network_memory_max_bytes=None)))
    return [
        MemorySize(
            task_manager=name,
            required_buffers=required[name],
            most_buffers=most[name],
            required_bytes=required[name] * config.segment_bytes,
            most_bytes=most[name] * config.segment_bytes,
            given_bytes=config.network_memory_max_bytes,
        )
        for name in required
    ]


def _consumer(
    scenario: Scenario,
    vertex: Vertex,
    inputs: Sequence[tuple[Edge, ExchangeSize]],
    flow: Flow,
    is_held_back: bool,
) -> ConsumerSize:
    config, latency_s = scenario.config, scenario.link.latency_s
    round_trip_s = 2 * latency_s
    by_load = _goes_by_load(scenario, vertex)
    rates = _rates_of_subtasks(scenario, vertex, flow.record_bytes)
    share = min(rates) / sum(rates) if by_load and math.isfinite(sum(rates)) else 1 / vertex.parallelism
    segment, rate = config.segment_bytes, share * flow.bytes_per_s
    credit = sum(exchange.receiving for _, exchange in inputs)
    expected, worst = 0.0, 0
    # Each sender holds `held` buffers for the slowest subtask, and at worst its whole quota.
    for edge, exchange in inputs:
        parts, pool, quota = exchange.subpartitions, exchange.partition_most, edge.buffers.quota(config)
        slowest = parts if by_load else max(1, min(parts, math.ceil(parts * share_of_slowest(vertex))))
        held = max(0.0, min(quota - 1, (pool - parts) / slowest)) + _OPEN
        expected += exchange.channels * held + max(0, exchange.receiving - 1)
        worst += exchange.channels * min(quota, pool) + exchange.receiving
    expected -= min(credit, rate * latency_s / segment)  # these are empty: their credit is on its way
    link = None
    if credit:
        link = LinkSize(
            round_trip_ms=round_trip_s * _MS,
            needed_buffers=math.ceil(rate * round_trip_s / segment),
            credit_buffers=credit,
            most_bytes_per_s=credit * segment / round_trip_s if round_trip_s else None,
            least_target_ms=expected / credit * round_trip_s * _MS,
        )
    for_link = 0.0 if link is None or not expected else link.least_target_ms / _MS * rate / expected
    least = min(segment, max(config.min_segment_bytes, math.ceil(flow.record_bytes), math.ceil(for_link)))
    target = config.debloat_target_s if config.debloat_enabled else None
    size = None if target is None else min(segment, max(least, rate * target / expected))
    return ConsumerSize(
        name=vertex.name,
        parallelism=vertex.parallelism,
        by_load=by_load and len(set(rates)) > 1,
        records_per_s=share * flow.records_per_s,
        bytes_per_s=rate,
        is_held_back=is_held_back,
        expected_buffers=expected,
        expected_bytes=round(expected * segment),
        expected_drain_ms=_drain_ms(expected * segment, rate),
        worst_buffers=worst,
        worst_bytes=worst * segment,
        worst_drain_ms=_drain_ms(worst * segment, rate),
        least_buffer_bytes=least,
        least_drain_ms=_drain_ms(expected * least, rate),
        target_ms=None if target is None else target * _MS,
        debloated_bytes=None if size is None else round(size),
        debloated_drain_ms=None if size is None else _drain_ms(expected * size, rate),
        link=link,
    )


def _drain_ms(size: float, rate: float) -> float | None:
    return size / rate * _MS if rate > 0 else None


class Flow(NamedTuple):
    """Rates into a vertex, or out of a source, over all its subtasks."""

    records_per_s: float
    bytes_per_s: float
    """Bytes of records, including their length fields."""
    is_full: bool
    """Whether the vertex is saturated, and so back-pressures all vertices before it."""

    @property
    def record_bytes(self) -> float:
        """Mean bytes of a record, including its length field."""
        return self.bytes_per_s / self.records_per_s if self.records_per_s else 0.0


def flows(scenario: Scenario, record_bytes: int | None = None) -> dict[str, Flow]:
    """Return the flow of each vertex; `record_bytes` is the size of records that are read from files.

    Raises:
        UsageError: a source reads files, and `record_bytes` is None.
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
        UsageError: the source reads files, and `record_bytes` is None.
    """
    if isinstance(vertex.source, GeneratorSpec):
        return vertex.source.record_bytes + HEADER_BYTES
    if record_bytes is None:
        text = f"record_bytes: is required, since vertices.{vertex.name}.source reads files"
        raise UsageError([text])
    return record_bytes + HEADER_BYTES


def held_back(scenario: Scenario, flow_of: Mapping[str, Flow]) -> set[str]:
    """Return the vertices before which data queues up: saturated ones, and all upstream of these."""
    names: set[str] = set()
    for vertex in scenario.vertices:
        if vertex.source is None and flow_of[vertex.name].is_full:
            names |= {before.name for before in scenario.vertices_before(vertex.name)}
    return {name for name in names if scenario.vertex(name).source is None}


def share_of_slowest(vertex: Vertex) -> float:
    """Return the share of a vertex's subtasks that are as slow as its slowest; 1 if all are equal."""
    costs = [max(cost for _, cost in vertex.service_steps(subtask)) for subtask in range(vertex.parallelism)]
    return costs.count(max(costs)) / len(costs)


def _reach(scenario: Scenario, source: str) -> dict[str, int]:
    """Return, by vertex, how many copies of a record of the source reach it; 1 for the source itself."""
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
    """Return the records/s of each source."""
    sources = [scenario.vertex(name) for name in reach]
    rates = {each.name: [each.rate(subtask) for subtask in range(each.parallelism)] for each in sources}
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
    """Return the records/s of each vertex, given the rates of the sources."""
    total: dict[str, float] = {}
    for source, flow in emitted.items():
        for name, times in reach[source].items():
            total[name] = total.get(name, 0.0) + flow * times
    return total


def _capacity(scenario: Scenario, vertex: Vertex, record_bytes: int) -> float:
    """Return the records/s that a vertex can process or a source emit, given service and machine costs."""
    if vertex.source is not None:
        cost = scenario.costs.source_record_s
        return vertex.parallelism / cost if cost > 0 else math.inf
    rates = _rates_of_subtasks(scenario, vertex, record_bytes)
    if not _goes_by_load(scenario, vertex):
        return vertex.parallelism * min(rates)
    writers = [(edge.ship, scenario.vertex(edge.source).parallelism) for edge in scenario.inputs(vertex)]
    return min(capacity_by_load(ship, producers, rates) for ship, producers in writers)


def _goes_by_load(scenario: Scenario, vertex: Vertex) -> bool:
    """Return whether adaptive partition selection distributes all records that a vertex reads."""
    inputs = scenario.inputs(vertex)
    in_turns = bool(inputs) and all(edge.strategy.in_turns for edge in inputs)
    return in_turns and scenario.config.adaptive_partitioner_enabled


def _rates_of_subtasks(scenario: Scenario, vertex: Vertex, record_bytes: float) -> list[float]:
    """Return the records/s that each subtask can read while its cost of a record is highest."""
    costs = scenario.costs
    added = costs.consumer_record_s + record_bytes / scenario.config.segment_bytes * costs.consumer_buffer_s
    each = (max(cost for _, cost in vertex.service_steps(number)) for number in range(vertex.parallelism))
    return [1 / (cost + added) if cost + added > 0 else math.inf for cost in each]
