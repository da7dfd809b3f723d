"""A snapshot of a local pool."""

from __future__ import annotations

import msgspec

__all__ = ["LocalPoolStatistics"]


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
    available: bool
    destroyed: bool
