"""A local buffer pool: the segments of the network memory that one partition or one gate may use.

::

    NetworkBufferPool --(one ahead)----> free --request--> in use
            ^                              ^                 |
            |                              +-- otherwise ----+-- recycle
            +-- pool holds more than `size`, or destroyed ---+
                first waiting listener that takes it <-------+

The pool requests one segment ahead of its user, so that it is *available* exactly while the next request
would succeed without overdraft. *Overdraft* is the number of segments requested beyond `size`. It lets a
writer finish a record, and never makes the pool available. A subpartition that has reached its quota makes
the whole pool unavailable, but requests are still served. The rules are those of Flink's LocalBufferPool.

In emulated time, a buffer that is being sent returns at a known time. The pool keeps it and releases it when
its user asks (`collect`). So no event is needed for each buffer. A user that waits for a segment
(`await_return`) gets the next one at once, and has to wait until `freed_at`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from .buffer import BufferSlice, Recycler
from .errors import PoolDestroyed
from .pool_statistics import LocalPoolStatistics
from .segment import MemorySegment

if TYPE_CHECKING:
    from .network_pool import NetworkBufferPool

__all__ = ["BufferListener", "LocalBufferPool"]

UNBOUNDED: Final = 2**31 - 1
"""Java's largest int: the maximum of a pool without a limit, and a quota that is never reached."""


class BufferListener(Protocol):
    """A channel that waits in a pool's queue for a segment."""

    __slots__ = ()

    def buffer_available(self, segment: MemorySegment) -> bool:
        """Take `segment` and return True, or refuse it and return False.

        In both cases the listener leaves the queue.
        """
        ...


class LocalBufferPool(Recycler):
    """Provides segments up to a size that the network pool may change at any time.

    `on_available` is called each time `available` turns from False to True, as the last step of an operation.
    The constructor does not call it. Use `NetworkBufferPool.create_pool`: a pool that is created directly has
    no guaranteed minimum.

    Invariants: the pool is `available` exactly while a segment is free and no subpartition has reached its
    quota (`max_buffers_per_channel`).
    No segment is free while ``requested > size``, and no listener waits while a segment is free. If no
    segment is free and more may be requested, the pool has registered a callback with the network pool.
    """

    __slots__ = (
        "_free",
        "_full_subpartitions",
        "_listeners",
        "_quota",
        "_return_times",
        "_returning",
        "_waiting",
        "available",
        "awaited",
        "destroyed",
        "expected",
        "freed_at",
        "max_overdraft",
        "maximum",
        "minimum",
        "network_pool",
        "on_available",
        "requested",
        "size",
        "subpartition_buffers",
    )

    def __init__(
        self,
        network_pool: NetworkBufferPool,
        expected: int,
        minimum: int,
        maximum: int | None,
        *,
        subpartitions: int = 0,
        max_buffers_per_channel: int | None = None,
        max_overdraft: int = 0,
        on_available: Callable[[], None] | None = None,
    ) -> None:
        self.network_pool = network_pool
        self.expected = expected
        self.minimum = minimum
        self.maximum = UNBOUNDED if maximum is None else maximum
        self.max_overdraft = max_overdraft
        self._quota = UNBOUNDED if max_buffers_per_channel is None else max_buffers_per_channel
        self._check()
        self.size = minimum
        self.requested = 0
        self.available = False
        self.destroyed = False
        self._free: list[MemorySegment] = []
        self._listeners: deque[BufferListener] = deque()
        self.subpartition_buffers = [0] * subpartitions
        self._full_subpartitions = 0
        self._waiting = False
        self.awaited = False
        self.freed_at = 0.0
        self._return_times: list[float] = []
        self._returning: list[BufferSlice] = []  # in the order of the times
        self.on_available: Callable[[], None] | None = None
        self._update()
        self.on_available = on_available

    def _check(self) -> None:
        if not 1 <= self.minimum <= self.maximum or self.expected < 1:
            raise ValueError(
                "a pool needs 1 <= minimum <= maximum and 1 <= expected, got minimum "
                f"{self.minimum}, maximum {self.maximum}, expected {self.expected}"
            )
        if self._quota < 1 or self.max_overdraft < 0:
            raise ValueError(
                "max_buffers_per_channel must be at least 1 and max_overdraft at least 0, got "
                f"{self._quota} and {self.max_overdraft}"
            )

    def __repr__(self) -> str:
        return f"LocalBufferPool({self.statistics()})"

    @property
    def used(self) -> int:
        """Segments in use; more than `size` during overdraft. The metric outPoolUsage is computed from it."""
        return max(0, self.requested - len(self._free))

    @property
    def free(self) -> int:
        """Segments held but not in use."""
        return len(self._free)

    def request(self, subpartition: int = -1) -> MemorySegment | None:
        """Return a segment for a subpartition (-1: for no particular subpartition), or None if no segment is
        left.

        Raises:
            PoolDestroyed: if the pool was destroyed.
        """
        free = self._free
        if free:
            segment = free.pop()
            if not free:
                self._update()
        else:
            overdraft = self._request_overdraft()
            if overdraft is None:
                return None
            segment = overdraft
        if subpartition >= 0:
            counts = self.subpartition_buffers
            counts[subpartition] = count = counts[subpartition] + 1
            if count == self._quota:
                self._full_subpartitions += 1
                self.available = False
        return segment

    def _request_overdraft(self) -> MemorySegment | None:
        if self.destroyed:
            raise PoolDestroyed("the buffer pool has been destroyed")
        overdraft = self.requested - self.size
        if not 0 <= overdraft < self.max_overdraft:
            return None
        return self._request_from_network_pool()

    def _request_from_network_pool(self) -> MemorySegment | None:
        segment = self.network_pool.request_pooled()
        if segment is not None:
            self.requested += 1
        return segment

    def recycle(self, segment: MemorySegment, subpartition: int = -1) -> None:
        """Take back a segment that was requested for `subpartition`."""
        if subpartition >= 0:
            counts = self.subpartition_buffers
            count = counts[subpartition]
            counts[subpartition] = count - 1
            if count == self._quota:
                self._full_subpartitions -= 1
        if self.requested > self.size or self.destroyed:
            self._return(segment)
        elif not self._listeners or not self._offer(segment):
            self._free.append(segment)
        if not self.available and self._free and not self._full_subpartitions:
            self._turn_available()

    def return_at(self, time: float, buffer: BufferSlice) -> bool:
        """Take over `buffer`, whose bytes have left at `time` in seconds; returns False if the caller has to
        release it then, since its segment does not stay in this pool.
        """
        if self.destroyed or self.requested > self.size:
            return False
        place = bisect_right(self._return_times, time)
        self._return_times.insert(place, time)
        self._returning.insert(place, buffer)
        if self.awaited:
            self._bring_forward()
        return True

    def collect(self, now: float) -> None:
        """Release all buffers whose bytes have left by `now`, in seconds."""
        times = self._return_times
        while times and times[0] <= now:
            times.pop(0)
            self._returning.pop(0).release()

    def await_return(self) -> None:
        """Become available with the next segment that returns, and set `freed_at` to the time of its return.

        The user must not use the segment before.
        """
        self.awaited = True
        self._bring_forward()

    def _bring_forward(self) -> None:
        before = self.freed_at
        while self._returning and not self.available:
            self.freed_at = self._return_times.pop(0)
            self._returning.pop(0).release()
        if not self.available:
            self.freed_at = before

    def _return(self, segment: MemorySegment) -> None:
        self.requested -= 1
        self.network_pool.recycle_pooled(segment)

    def _offer(self, segment: MemorySegment) -> bool:
        """Offer `segment` to the listeners in order; returns whether a listener took it."""
        listeners = self._listeners
        while listeners:
            if listeners.popleft().buffer_available(segment):
                return True
        return False

    def _turn_available(self) -> None:
        self.available = True
        self.awaited = False
        if self.on_available is not None:
            self.on_available()

    def add_listener(self, listener: BufferListener) -> bool:
        """Add a listener to the queue; returns False if a segment is free or the pool is destroyed."""
        if self._free or self.destroyed:
            return False
        self._listeners.append(listener)
        return True

    def set_size(self, size: int) -> None:
        """Set the size to `size` segments, but at most the maximum.

        Surplus segments in use are returned when recycled.

        Raises:
            ValueError: if `size` is below the minimum.
        """
        if size < self.minimum:
            raise ValueError(f"a pool with a minimum of {self.minimum} segments cannot be set to {size}")
        self.size = min(size, self.maximum)
        self.collect(inf)
        free = self._free
        while free and self.requested > self.size:
            self._return(free.pop())
        if not self.destroyed:
            self._update()

    def _update(self) -> None:
        """Restore the invariants: request one segment ahead if allowed, and update `available`."""
        free = self._free
        while not free and self.requested < self.size:
            segment = self._request_from_network_pool()
            if segment is None:
                if not self._waiting:
                    self._waiting = True
                    self.network_pool.call_when_available(self._network_pool_available)
                break
            # Flink keeps this segment until the next recycle, so that a listener may wait for ever.
            if not self._listeners or not self._offer(segment):
                free.append(segment)
        if not free or self._full_subpartitions:
            self.available = False
        elif not self.available:
            self._turn_available()

    def _network_pool_available(self) -> None:
        self._waiting = False
        if not self.destroyed:
            self._update()

    def lazy_destroy(self) -> None:
        """Destroy the pool. Free segments are returned now, segments in use when they are recycled."""
        if self.destroyed:
            return
        self.destroyed = True
        self.available = False
        self.collect(inf)
        self._listeners.clear()
        while self._free:
            self._return(self._free.pop())
        self.network_pool.destroy_pool(self)

    def statistics(self) -> LocalPoolStatistics:
        """Return a snapshot of the current state."""
        return LocalPoolStatistics(
            size=self.size,
            expected=self.expected,
            minimum=self.minimum,
            maximum=self.maximum,
            requested=self.requested,
            free=len(self._free),
            used=self.used,
            overdraft=max(0, self.requested - self.size),
            listeners=len(self._listeners),
            available=self.available,
            destroyed=self.destroyed,
        )
