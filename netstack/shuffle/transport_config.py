"""Settings and statistics of an exchange between processes."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from buffers import GateBuffersSpec, gate_buffers, gate_segments, partition_segments

from ..scenarios.options import NetworkConfig
from ..tcp.pipe import ConnectionLimits

__all__ = ["TransportConfig", "TransportStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportConfig:
    """Flink's options of the network layer, and the limits of connections.

    Only the options for segments, buffers, debloating and the buffer timeout have an effect.

    Raises:
        ValueError: if a channel may have only one buffer. This buffer would always be open for writing, so
            nothing would be sent.
    """

    network: NetworkConfig = field(default_factory=NetworkConfig)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)

    def __post_init__(self) -> None:
        if self.network.max_buffers_per_channel < 2:
            raise ValueError(
                "max_buffers_per_channel must be at least 2: with 1, no record would ever be sent"
            )

    def gate(self, size: int) -> GateBuffersSpec:
        """Return the numbers of buffers in a process's gate if `size` processes take part."""
        network = self.network
        return gate_buffers(
            size,
            network.exclusive_buffers_per_channel,
            network.floating_buffers_per_gate,
            network.max_required_buffers_per_gate,
        )

    def segments(self, size: int) -> int:
        """Return a process's number of segments if `size` processes take part: the most that its gate and its
        partition can use together, but at most the configured network memory.
        """
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

    Records of a process to itself are included. They take no buffers until a record has been sent to all
    processes. Record bytes include the 4-byte length of each record. Buffers include events. A record to all
    counts once at its sender. A buffer that is sent in several parts because of the buffer timeout counts
    once at its sender, but each part counts at the receiver.
    """

    index: int
    records_sent: int
    record_bytes_sent: int
    records_received: int
    record_bytes_received: int
    buffers_sent: int
    buffers_received: int
    bytes_sent: int
    """Bytes on the wire, including the protocol."""
    bytes_received: int
    """Bytes on the wire, including the protocol."""
    credit_stalls: int
    """Number of times that a channel with data had no credit."""
    credit_blocked_s: float
    """Total duration of these stalls over all channels, in seconds."""
    write_blocked_s: float
    """Time that the writer waited for network memory."""
    read_blocked_s: float
    """Time that the reader waited for data."""
    network_memory_bytes: int
    """Network memory of the process."""
    peak_network_memory_bytes: int
    """Maximum network memory used."""
