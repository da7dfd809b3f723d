"""Statistics of the pools: snapshots, and a message for the user."""

from __future__ import annotations

import msgspec


class LocalPoolStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a local pool at one moment, in segments unless said otherwise."""

    size: int
    """Segments that the pool may hold now, without overdraft."""
    expected: int
    minimum: int
    maximum: int
    requested: int
    """Segments taken from the network pool, in use or free."""
    free: int
    """Segments held but not in use."""
    used: int
    overdraft: int
    """Segments requested beyond `size`: overdraft, or segments not returned yet after the pool shrank."""
    listeners: int
    """Listeners that wait in the queue."""
    full_subpartitions: int
    """Subpartitions that have reached their quota."""
    available: bool
    destroyed: bool


class NetworkPoolStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a network pool at one moment, in segments unless said otherwise."""

    total: int
    free: int
    used: int
    """Segments taken by local pools, in use or free there, and exclusive segments."""
    guaranteed: int
    """Minima of all local pools, plus exclusive segments."""
    requested: int
    """Demand of the local pools: the maximum of each, or the expected size if it is unlimited."""
    usage_percent: int
    """`requested` in percent of `total`, rounded down; 0 if there are no segments."""
    pools: int
    """Number of local pools."""
    segment_size: int
    """Size of a segment in bytes."""

    @property
    def total_bytes(self) -> int:
        """Size of all segments."""
        return self.total * self.segment_size

    @property
    def free_bytes(self) -> int:
        """Size of the free segments."""
        return self.free * self.segment_size

    @property
    def used_bytes(self) -> int:
        """Size of the segments in use or reserved."""
        return self.used * self.segment_size

    @property
    def requested_bytes(self) -> int:
        """Size of the requested segments."""
        return self.requested * self.segment_size


class UsageNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the user about the demand for network memory."""

    warning: bool
    """True: the demand exceeds the memory; False: it no longer does."""
    requested: int
    """Segments that the pools would take if there were enough."""
    total: int
    """Segments of the task manager."""
    usage_percent: int
    missing_bytes: int
    """Memory that is missing; 0 if `warning` is False."""
