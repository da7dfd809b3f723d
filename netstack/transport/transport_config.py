"""What an exchange between processes is set to."""

from __future__ import annotations

from dataclasses import dataclass, field

from buffers import GateBuffersSpec, gate_buffers, gate_segments, partition_segments

from ..scenarios.config import NetworkConfig
from ..tcp.limits import ConnectionLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportConfig:
    """Flink's options of the network layer, and what connections are held to.

    Of the options, those of segments, buffers, debloating and the buffer timeout take effect.

    Raises:
        ValueError: if a channel may have one buffer only, which is the one that is being written.
    """

    network: NetworkConfig = field(default_factory=NetworkConfig)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)

    def __post_init__(self) -> None:
        if self.network.max_buffers_per_channel < 2:
            raise ValueError("max_buffers_per_channel must be at least 2, or nothing would ever be sent")

    def gate(self, size: int) -> GateBuffersSpec:
        """The buffers of the gate of each of `size` processes."""
        network = self.network
        return gate_buffers(
            size,
            network.exclusive_buffers_per_channel,
            network.floating_buffers_per_gate,
            network.max_required_buffers_per_gate,
        )

    def segments(self, size: int) -> int:
        """Segments of each of `size` processes: what its gate and its partition can use, or the limit."""
        network = self.network
        wanted = gate_segments(self.gate(size), size - 1) + partition_segments(
            size,
            network.exclusive_buffers_per_channel,
            network.floating_buffers_per_gate,
            network.max_overdraft_buffers_per_gate,
        )
        if network.network_memory_max_bytes is None:
            return wanted
        return min(wanted, network.network_memory_max_bytes // network.segment_bytes)
