"""Settings and counters of an exchange between processes."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from buffers import GateBuffersSpec, gate_buffers, gate_segments, partition_segments

from ..scenarios.config import NetworkConfig
from ..tcp.pipe import ConnectionLimits


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


class TransportStatistics(msgspec.Struct, frozen=True):
    """Counters of one process; times in seconds.

    Records include those of a process to itself, which take no buffers until one went to all. Record bytes
    include the 4-byte length of each record, and buffers the events. A record to all counts once where it is
    sent, and so does a buffer that leaves in several parts because of the buffer timeout; each part counts
    where it is received.
    """

    index: int
    records_sent: int
    record_bytes_sent: int
    records_received: int
    record_bytes_received: int
    buffers_sent: int
    buffers_received: int
    bytes_sent: int
    """Bytes on the wire with those of the protocol, also in the next fields."""
    bytes_received: int
    credit_stalls: int
    """Times that a channel with data had no credit."""
    credit_blocked_s: float
    """Sum of these times over channels, in seconds."""
    write_blocked_s: float
    """Time for which the writer waited for network memory."""
    read_blocked_s: float
    """Time for which the reader waited for data."""
    network_memory_bytes: int
    """Network memory of the process."""
    peak_network_memory_bytes: int
    """Most that it has used."""
