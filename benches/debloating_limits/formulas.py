"""Arithmetic of the bytes in flight and of the time that they take, with as many producers as consumers."""

from __future__ import annotations

from math import ceil

from buffers import HEADER_BYTES, gate_buffers, partition_buffers
from netstack import NetworkConfig

CONFIG = NetworkConfig()
SEGMENT = CONFIG.segment_bytes
LEAST = CONFIG.min_segment_bytes


def in_use(parallelism: int, exclusive: int = 2, floating: int = 8) -> float:
    """Buffers that wait for a consumer, when all are full.

    Those of its gate, and its share of those of the partitions: as many as one of these has. Of each channel
    one is being written, and is half full when a barrier comes.
    """
    gate = gate_buffers(parallelism, exclusive, floating, CONFIG.max_required_buffers_per_gate)
    received = parallelism * gate.exclusive_per_channel + gate.total_floating
    return received + in_partition(parallelism, exclusive, floating) - parallelism / 2


def in_partition(parallelism: int, exclusive: int = 2, floating: int = 8) -> int:
    """The buffers of the pool of a partition, with as many producers as consumers."""
    _, most = partition_buffers(parallelism, exclusive, floating)
    return most


def floor_ms(parallelism: int, bytes_per_s: float, size: float = LEAST) -> float:
    """How long buffers of `size` take a consumer, which is the least where that is the least size."""
    return in_use(parallelism) * size / bytes_per_s * 1000


def buffers_of(record_bytes: int) -> int:
    """The segments that a record takes."""
    return ceil((record_bytes + HEADER_BYTES) / SEGMENT)


def bytes_of_buffer(record_bytes: int, wanted: float) -> float:
    """What a buffer holds where `wanted` bytes are asked for.

    No less than the record that begins it, as far as that goes in; one that takes several buffers ends in
    one of its own, about. Whole segments are filled by as many records as go in.
    """
    record = record_bytes + HEADER_BYTES
    return wanted if record <= wanted or wanted >= SEGMENT else record / buffers_of(record_bytes)


def begun(parallelism: int, record_bytes: int) -> float:
    """Buffers' worth of records that are written or read in part, on average, beyond the buffers of pools.

    A producer takes overdraft buffers for what is missing of its record. A consumer collects what has come of
    a record, of each channel by itself, and gives the buffers back.
    """
    missing = (buffers_of(record_bytes) - 1) / 2
    return min(missing, CONFIG.max_overdraft_buffers_per_gate) + parallelism * missing


def waiting_bytes(
    parallelism: int, record_bytes: int, wanted: float, exclusive: int = 2, floating: int = 8
) -> float:
    """What waits for a consumer where buffers of `wanted` bytes are asked for."""
    count = in_use(parallelism, exclusive, floating) + begun(parallelism, record_bytes)
    return count * bytes_of_buffer(record_bytes, wanted)


def delay_ms(
    parallelism: int,
    record_bytes: int,
    bytes_per_s: float,
    wanted: float,
    exclusive: int = 2,
    floating: int = 8,
) -> float:
    """How long it takes a consumer to read it."""
    return waiting_bytes(parallelism, record_bytes, wanted, exclusive, floating) / bytes_per_s * 1000


def wanted_bytes(parallelism: int, bytes_per_s: float, target_s: float | None) -> float:
    """The size that FLIP-183 is after; whole segments without a target."""
    if target_s is None:
        return SEGMENT
    return max(LEAST, min(SEGMENT, target_s * bytes_per_s / in_use(parallelism)))
