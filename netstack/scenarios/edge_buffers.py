"""How many buffers the gates and partitions of an edge have: Flink's options, or the edge's own numbers.

Flink has one setting for all exchanges of a task manager. An edge that says `buffers` has its own, so that
network memory can go where it is of use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from buffers import GateBuffersSpec, gate_buffers, partition_buffers

from .config import NetworkConfig
from .wiring import channel_counts


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBuffers:
    """Buffers of an edge's gates and partitions; None: as the options say."""

    exclusive: int | None = None
    """Of each channel."""
    floating: int | None = None
    """Of each gate."""
    partition: int | None = None
    """The most that the pool of a producer's partition has, overdraft aside; None: by the two above."""
    max_per_channel: int | None = None
    """What a subpartition may hold of them."""

    def per_channel(self, config: NetworkConfig) -> int:
        """Return the exclusive buffers of a channel."""
        return config.exclusive_buffers_per_channel if self.exclusive is None else self.exclusive

    def per_gate(self, config: NetworkConfig) -> int:
        """Return the floating buffers of a gate."""
        return config.floating_buffers_per_gate if self.floating is None else self.floating

    def quota(self, config: NetworkConfig) -> int:
        """Return what a subpartition may hold at most."""
        return config.max_buffers_per_channel if self.max_per_channel is None else self.max_per_channel

    def gate(self, config: NetworkConfig, channels: int) -> GateBuffersSpec:
        """Return the buffers of a gate with so many channels."""
        each, floating = self.per_channel(config), self.per_gate(config)
        return gate_buffers(channels, each, floating, config.max_required_buffers_per_gate)

    def pool(self, config: NetworkConfig, subpartitions: int) -> tuple[int, int]:
        """Return the minimum and the maximum of the pool of a partition, overdraft aside."""
        minimum, most = partition_buffers(subpartitions, self.per_channel(config), self.per_gate(config))
        return minimum, most if self.partition is None else max(minimum, self.partition)

    def pool_segments(self, config: NetworkConfig, subpartitions: int) -> int:
        """Return the segments that a partition can use at most, overdraft included."""
        return self.pool(config, subpartitions)[1] + config.max_overdraft_buffers_per_gate


AS_OPTIONS_SAY = EdgeBuffers()
"""Those of an edge that says nothing of them."""

_LEAST = {"exclusive": 0, "floating": 1, "partition": 2, "max_per_channel": 2}


def buffer_problems(
    buffers: EdgeBuffers, ship: str, producers: int, consumers: int
) -> Iterator[tuple[str, str]]:
    """Yield the fields that no job can run with, and why; a parallelism of 0 is not known."""
    for each in fields(buffers):
        count, least = getattr(buffers, each.name), _LEAST[each.name]
        if count is not None and count < least:
            yield each.name, f"is {count}; it must be {least} or more"
            return
    if buffers.partition is None or not producers or not consumers:
        return
    subpartitions = max(channel_counts(ship, consumers, producers))
    if buffers.partition < subpartitions + 1:
        text = f"is {buffers.partition}; a producer has {subpartitions} subpartitions and needs one more"
        yield "partition", text
