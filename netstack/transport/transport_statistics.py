"""What one process has to tell of an exchange."""

from __future__ import annotations

import msgspec


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
    """On the wire, all that belongs to the protocol included; so are the next."""
    bytes_received: int
    credit_stalls: int
    """How often a channel with data had no credit."""
    credit_blocked_s: float
    """How long, added up over channels."""
    write_blocked_s: float
    """How long the writer waited for network memory."""
    read_blocked_s: float
    """How long the reader waited for data."""
    network_memory_bytes: int
    """What the process may use."""
    peak_network_memory_bytes: int
    """What it has used at most."""
