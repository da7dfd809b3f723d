"""How much network memory each task manager of a scenario has."""

from __future__ import annotations

from buffers import gate_buffers, gate_segments, partition_segments

from ..scenarios.scenario import Scenario
from ..scenarios.wiring import consumers_of_producers, producers_of_consumers


def plan_segments(scenario: Scenario) -> dict[str, int]:
    """Segments of each task manager's network memory.

    The configured size, if there is one; else exactly what its pools can use at most, so that
    redistribution does not bind.
    """
    config = scenario.config
    limit = config.network_memory_max_bytes
    if limit is not None:
        return {vertex.manager: limit // config.segment_bytes for vertex in scenario.vertices}
    needed = {vertex.manager: 0 for vertex in scenario.vertices}
    each, floating = config.exclusive_buffers_per_channel, config.floating_buffers_per_gate
    overdraft = config.max_overdraft_buffers_per_gate
    for edge in scenario.edges:
        producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
        reached = consumers_of_producers(edge.ship, producer.parallelism, consumer.parallelism)
        for own in reached:
            needed[producer.manager] += partition_segments(len(own), each, floating, overdraft)
        for channels in producers_of_consumers(reached, consumer.parallelism):
            spec = gate_buffers(len(channels), each, floating, config.max_required_buffers_per_gate)
            remote = 0 if producer.manager == consumer.manager else len(channels)
            needed[consumer.manager] += gate_segments(spec, remote)
    return needed
