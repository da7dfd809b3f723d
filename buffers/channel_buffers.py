"""The buffers of one receiving channel: exclusive buffers, and borrowed floating buffers.

The sender reports its backlog with every buffer. The channel then *requires* backlog + exclusive buffers. It
borrows floating buffers from the gate's pool until it has the required number, or waits in the pool's queue::

    floating pool [f f f] --- borrow ---> channel: floating [f f]  exclusive [e]
          ^                                  | arriving data takes a floating buffer first
          +--- recycled floating buffer <----+---> a recycled exclusive buffer stays in the channel;
          +--- surplus floating buffer <-----+     if more than required are free, a floating buffer leaves

Every buffer that the channel gains becomes credit. The rules are those of Flink's BufferManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flowcontrol import CreditAnnouncer

from .buffer import Recycler
from .local_pool import BufferListener, LocalBufferPool
from .segment import MemorySegment

__all__ = ["ChannelBuffers", "CreditOwner"]


class CreditOwner(Protocol):
    """The owner of a channel's buffers; announces the channel's credit to the sender."""

    __slots__ = ()

    def credit_gained(self) -> None:
        """Announce credit: the unannounced credit has risen from 0."""
        ...


class ChannelBuffers(Recycler, BufferListener):
    """Exclusive and floating buffers of one channel, and the credit for them.

    `owner` is notified when unannounced credit rises from 0. Exclusive segments are taken from the network
    pool when first needed; `reserved` segments have not been taken yet. Invariant: each segment is in
    `_exclusive` or `_floating`, or holds data. While `waiting`, the channel is in the pool's queue exactly
    once.
    """

    __slots__ = (
        "_exclusive",
        "_floating",
        "credit",
        "exclusive_total",
        "owner",
        "pool",
        "released",
        "required",
        "reserved",
        "waiting",
    )

    def __init__(
        self,
        exclusive: Sequence[MemorySegment],
        pool: LocalBufferPool,
        credit: CreditAnnouncer,
        owner: CreditOwner,
        *,
        reserved: int = 0,
    ) -> None:
        # Lists are created when needed: most channels of a large job are idle.
        self._exclusive: list[MemorySegment] | tuple[()] = list(exclusive) if exclusive else ()
        self._floating: list[MemorySegment] | tuple[()] = ()
        self.reserved = reserved
        self.exclusive_total = credit.initial
        self.pool = pool
        self.credit = credit
        self.owner = owner
        self.required = 0
        self.waiting = False
        self.released = False

    @property
    def available(self) -> int:
        """Number of free buffers."""
        return self.reserved + len(self._exclusive) + len(self._floating)

    @property
    def exclusive_available(self) -> int:
        """Free exclusive buffers."""
        return self.reserved + len(self._exclusive)

    @property
    def floating_available(self) -> int:
        """Free floating buffers."""
        return len(self._floating)

    @property
    def announced_backlog(self) -> int:
        """Number of data buffers that wait at the sender, according to its last report."""
        return max(0, self.required - self.exclusive_total)

    def take(self) -> tuple[MemorySegment, ChannelBuffers | LocalBufferPool] | None:
        """Return a free buffer for arriving data and the object that recycles it; None if no buffer is free.

        Floating buffers are taken first.
        """
        if self.required > 0:
            self.required -= 1
        if self._floating:
            return self._floating.pop(), self.pool
        if self._exclusive:
            return self._exclusive.pop(), self
        if self.reserved:
            self.reserved -= 1
            return self.pool.network_pool.take_reserved(), self
        return None

    def report_backlog(self, backlog: int) -> None:
        """Borrow the floating buffers that the channel requires when `backlog` data buffers wait."""
        self.required = backlog + self.exclusive_total
        self._gain(self._borrow())

    def _borrow(self) -> int:
        borrowed = 0
        missing = self.required - self.reserved - len(self._exclusive) - len(self._floating)
        while borrowed < missing and not self.waiting:
            segment = self.pool.request()
            if segment is not None:
                self._add_floating(segment)
                borrowed += 1
            elif self.pool.add_listener(self):
                self.waiting = True
        return borrowed

    def _add_floating(self, segment: MemorySegment) -> None:
        if isinstance(self._floating, tuple):
            self._floating = [segment]
        else:
            self._floating.append(segment)

    def recycle(self, segment: MemorySegment, subpartition: int = -1) -> None:
        """Take back an exclusive segment.

        If the channel then has a surplus, a floating segment is returned to the pool.
        """
        if self.released:
            self.pool.network_pool.recycle_unpooled([segment])
            return
        if isinstance(self._exclusive, tuple):
            self._exclusive = [segment]
        else:
            self._exclusive.append(segment)
        if self._floating and self.available > self.required:
            self.pool.recycle(self._floating.pop())
        else:
            self._gain(1)

    def buffer_available(self, segment: MemorySegment) -> bool:
        """Take `segment` from the floating pool if the channel needs it; returns whether it was taken."""
        self.waiting = False
        if self.released or self.available >= self.required:
            return False
        self._add_floating(segment)
        self._gain(1 + self._borrow())
        return True

    def block(self) -> None:
        """Handle a blocking event: a channel without exclusive buffers returns its floating buffers."""
        if self.exclusive_total == 0:
            self.required = 0
            self._return_floating()

    def release(self) -> None:
        """Return all free buffers. Buffers that hold data are returned when they are recycled."""
        self.released = True
        self._return_floating()
        if self._exclusive or self.reserved:
            self.pool.network_pool.recycle_unpooled(self._exclusive, self.reserved)
            self._exclusive = ()
            self.reserved = 0

    def _return_floating(self) -> None:
        while self._floating:
            self.pool.recycle(self._floating.pop())

    def _gain(self, buffers: int) -> None:
        if self.credit.gain(buffers):
            self.owner.credit_gained()
