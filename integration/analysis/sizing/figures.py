"""What a job needs and what waits in it: the figures, in the order of the printed page.

Counts are of buffers, times in milliseconds, rates of one subtask in bytes/s. None: it cannot be said.
"""

from __future__ import annotations

import msgspec


class ExchangeSize(msgspec.Struct, frozen=True, kw_only=True):
    """The buffers at both ends of an exchange; of the subtasks that have the most channels."""

    source: str
    target: str
    ship: str
    producers: int
    consumers: int
    is_local: bool
    """Whether both ends are in one task manager; then the receiver needs no buffers."""
    subpartitions: int
    """Of a producer."""
    channels: int
    """Of a consumer."""
    partition_required: int
    """A producer's, without which it does not start."""
    partition_most: int
    overdraft: int
    """What a producer may take beyond that to finish a record."""
    exclusive: int
    """A consumer's, of all its channels."""
    floating_required: int
    floating_most: int


class MemorySize(msgspec.Struct, frozen=True, kw_only=True):
    """The network memory of a task manager."""

    task_manager: str
    required_buffers: int
    """Without which its subtasks do not start."""
    most_buffers: int
    """What all its pools can use, overdraft included."""
    required_bytes: int
    most_bytes: int
    given_bytes: int | None
    """taskmanager.memory.network.max; None: not given."""


class LinkSize(msgspec.Struct, frozen=True, kw_only=True):
    """What the link into a consumer needs so that it is never idle for want of credit."""

    round_trip_ms: float
    needed_buffers: int
    """Throughput times round trip over the size of a segment, rounded up."""
    credit_buffers: int
    """What the consumer can have: exclusive and floating."""
    most_bytes_per_s: float | None
    """The throughput that these allow; None: there is no round trip."""
    least_target_ms: float
    """The debloat target below which buffers are too small for the round trip."""


class ConsumerSize(msgspec.Struct, frozen=True, kw_only=True):
    """What waits before the slowest subtask of a vertex, over all its inputs."""

    name: str
    parallelism: int
    records_per_s: float
    bytes_per_s: float
    is_held_back: bool
    """Whether data piles up before it: it is full, or a vertex behind it is."""
    expected_buffers: float
    """What waits once it is full, half of each open buffer included."""
    expected_bytes: int
    expected_drain_ms: float | None
    worst_buffers: int
    """What can wait if all senders hold as much for this one subtask as they may."""
    worst_bytes: int
    worst_drain_ms: float | None
    least_buffer_bytes: int
    """The smallest size of a buffer that debloating can use: a record, and enough for the round trip."""
    least_drain_ms: float | None
    """The time that debloating cannot get below without a loss of throughput."""
    target_ms: float | None
    """The debloat target; None: debloating is off, and so are the next two."""
    debloated_bytes: int | None
    """The size that it comes to."""
    debloated_drain_ms: float | None
    link: LinkSize | None
    """None: all its channels are local."""


class JobSize(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a job."""

    schema: str = "netstack.size/1"
    name: str
    preset: str
    segment_bytes: int
    exchanges: list[ExchangeSize]
    consumers: list[ConsumerSize]
    task_managers: list[MemorySize]
