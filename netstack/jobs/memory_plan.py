"""How much network memory each task manager of a scenario has."""

from __future__ import annotations

from collections.abc import Iterator

from buffers import GateBuffersSpec, InsufficientBuffers, gate_segments

from ..scenarios.scenario import Edge, Scenario
from ..scenarios.topology import consumers_of_producers, producers_of_consumers


def plan_segments(scenario: Scenario) -> dict[str, int]:
    """Segments of each task manager's network memory.

    The configured size, if there is one; else exactly what its pools can use at most, so that
    redistribution does not bind.
    """
    config = scenario.config
    limit = config.network_memory_max_bytes
    if limit is not None:
        return dict.fromkeys(scenario.task_managers, limit // config.segment_bytes)
    needed = dict.fromkeys(scenario.task_managers, 0)
    for edge in scenario.edges:
        for manager, subpartitions in _partitions(scenario, edge):
            needed[manager] += edge.buffers.pool_segments(config, subpartitions)
        for manager, spec, remote in _gates(scenario, edge):
            needed[manager] += gate_segments(spec, remote)
    return needed


def required_segments(scenario: Scenario) -> dict[str, int]:
    """Segments without which each task manager's subtasks cannot begin: the minima of all their pools."""
    config = scenario.config
    needed = dict.fromkeys(scenario.task_managers, 0)
    for edge in scenario.edges:
        for manager, subpartitions in _partitions(scenario, edge):
            needed[manager] += edge.buffers.pool(config, subpartitions)[0]
        for manager, spec, remote in _gates(scenario, edge):
            needed[manager] += remote * spec.exclusive_per_channel + spec.required_floating
    return needed


def check_memory(scenario: Scenario, task_manager: str | None = None) -> None:
    """Refuse a network memory that is too small for what a task manager has to run; None: for any of them.

    Raises:
        InsufficientBuffers: it names the first such task manager, what that needs, and what it has.
    """
    if scenario.config.network_memory_max_bytes is None:
        return
    segments = plan_segments(scenario)
    for name, required in required_segments(scenario).items():
        if required > segments[name] and task_manager in (None, name):
            total = segments[name]
            raise InsufficientBuffers(required, total, total, scenario.config.segment_bytes, name)


def _partitions(scenario: Scenario, edge: Edge) -> Iterator[tuple[str, int]]:
    """The task manager and the number of subpartitions of each partition of an edge."""
    producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
    reached = consumers_of_producers(edge.ship, producer.parallelism, consumer.parallelism)
    for index, targets in enumerate(reached):
        yield producer.manager_of(index), len(targets)


def _gates(scenario: Scenario, edge: Edge) -> Iterator[tuple[str, GateBuffersSpec, int]]:
    """The task manager, the buffers, and the number of remote channels of each gate of an edge."""
    producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
    reached = consumers_of_producers(edge.ship, producer.parallelism, consumer.parallelism)
    managers = [producer.manager_of(source) for source in range(producer.parallelism)]
    for index, channels in enumerate(producers_of_consumers(reached, consumer.parallelism)):
        manager = consumer.manager_of(index)
        remote = sum([managers[source] != manager for source, _ in channels])
        yield manager, edge.buffers.gate(scenario.config, len(channels)), remote
