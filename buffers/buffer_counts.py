"""Numbers of segments for gates and partitions: arithmetic only.

::

    gate:       exclusive_per_channel * channels            taken once, as exclusive segments
                required_floating .. total_floating         the gate's floating pool
    partition:  subpartitions + 1 .. subpartitions * per_channel + floating

A partition's minimum lets each subpartition hold a partly filled buffer without blocking the others.
"""

from __future__ import annotations

import msgspec

__all__ = ["GateBuffersSpec", "gate_buffers", "gate_segments", "partition_buffers", "partition_segments"]


class GateBuffersSpec(msgspec.Struct, frozen=True):
    """The numbers of segments of an input gate.

    Floating segments form a pool of `required_floating` to `total_floating` segments. Invariant: ``1 <=
    required_floating <= total_floating``, and ``channels * exclusive_per_channel + total_floating ==
    target_total``.
    """

    exclusive_per_channel: int
    required_floating: int
    total_floating: int
    target_total: int


def gate_buffers(
    channels: int, exclusive: int, floating: int, max_required: int | None = None
) -> GateBuffersSpec:
    """Divide a gate's segments into exclusive and floating ones (Flink's InputGateSpecUtils).

    `exclusive`: segments per channel. `floating`: segments per gate. `max_required`: maximum number of
    segments that the gate requires (None: no limit, Flink's default for pipelined exchanges; 1000 for
    blocking exchanges). If the limit is exceeded, exclusive segments become floating segments.

    Raises:
        ValueError: if `channels`, `floating` or `max_required` is below 1, or `exclusive` below 0.
    """
    if channels < 1 or exclusive < 0 or floating < 1 or (max_required is not None and max_required < 1):
        raise ValueError(
            f"a gate was given {channels} channels (at least 1), {exclusive} exclusive buffers per channel "
            f"(at least 0), {floating} floating buffers (at least 1) and a maximum of {max_required} "
            "required buffers (at least 1)"
        )
    target = channels * exclusive + floating
    required = channels * exclusive + 1
    if max_required is not None:
        required = min(required, max_required)
    per_channel = min(exclusive, (required - 1) // channels)
    taken = per_channel * channels
    return GateBuffersSpec(per_channel, required - taken, target - taken, target)


def partition_buffers(subpartitions: int, per_channel: int, floating: int) -> tuple[int, int]:
    """Return the minimum and maximum size of the pool of a bounded pipelined partition (Flink's
    NettyShuffleUtils).

    `per_channel` and `floating` are the same options as for a gate. In Flink 2 a pool also has an expected
    size, its weight when memory is scarce. For a partition, the expected size equals the minimum.

    Raises:
        ValueError: if `subpartitions` is below 1, or another number below 0.
    """
    if subpartitions < 1 or per_channel < 0 or floating < 0:
        raise ValueError(
            f"a partition was given {subpartitions} subpartitions (at least 1), {per_channel} buffers per "
            f"subpartition (at least 0) and {floating} floating buffers (at least 0)"
        )
    minimum = subpartitions + 1
    return minimum, max(minimum, subpartitions * per_channel + floating)


def gate_segments(spec: GateBuffersSpec, remote_channels: int) -> int:
    """Return the maximum number of segments of a gate; local channels have no exclusive segments."""
    return remote_channels * spec.exclusive_per_channel + spec.total_floating


def partition_segments(subpartitions: int, per_channel: int, floating: int, overdraft: int) -> int:
    """Return the maximum number of segments of a partition, overdraft included."""
    return partition_buffers(subpartitions, per_channel, floating)[1] + overdraft
