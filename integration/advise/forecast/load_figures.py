"""Figures of a job over its load."""

from __future__ import annotations

import msgspec

from ..diagnose.headroom import Bottleneck, Headroom


class LoadFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a job at one load; times in ms, sizes in bytes. None: not measured."""

    load: float
    """Multiple of today's load."""
    keeps_up: bool
    """Whether the job takes all records that arrive."""
    throughput_per_s: float | None
    """Records per second that all subtasks of the last vertices read."""
    checkpoint_ms: float | None
    """Duration of checkpoints, from trigger to completion: the mean."""
    checkpoint_p95_ms: float | None
    checkpoint_max_ms: float | None
    record_delay_ms: float | None
    """Time from emission to processing. A job that does not keep up has a backlog beside, which grows."""
    in_flight_bytes: float | None
    """Bytes in all queues."""
    persisted_bytes: float | None
    """Data in flight that a checkpoint stores."""
    checkpoints_expired: int
    busiest: Bottleneck
    """The subtask with the least time left."""
    busy: dict[str, float] = {}
    """Share of the time for which the busiest subtask of each vertex is busy, 0 to 1, if it is known."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A job with one setting, over the load."""

    setting: str
    """Name of the setting."""
    headroom: Headroom
    points: list[LoadFigures]
    """Figures by load, ascending."""
