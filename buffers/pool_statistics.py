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
    """Taken from the network pool: in use or free here."""
    free: int
    """Held but not in use."""
    used: int
    overdraft: int
    """Requested beyond `size`: real overdraft, or not yet returned after the pool shrank."""
    listeners: int
    """Waiting in the line."""
    full_subpartitions: int
    """Subpartitions that hold their quota."""
    available: bool
    destroyed: bool


class NetworkPoolStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a network pool at one moment, in segments unless said otherwise."""

    total: int
    free: int
    used: int
    """Taken by local pools (in use there or not) and as exclusive segments."""
    guaranteed: int
    """Minima of all local pools, and exclusive segments."""
    requested: int
    """Demand of the local pools: their maximum, or what an unbounded one expects."""
    usage_percent: int
    """`requested` in percent of `total`, rounded down; 0 without segments."""
    pools: int
    """Local pools, not segments."""
    segment_size: int
    """Bytes."""

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
        """Size of the segments taken."""
        return self.used * self.segment_size

    @property
    def requested_bytes(self) -> int:
        """Size of what the pools would take."""
        return self.requested * self.segment_size


class UsageNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the user about how much of the network memory the pools would like to have."""

    warning: bool
    """True: more than there is; False: back to normal."""
    requested: int
    """Segments that the pools would take if they could."""
    total: int
    """Segments that there are."""
    usage_percent: int
    missing_bytes: int
    """0 when back to normal."""
