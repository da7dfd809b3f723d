"""The network memory of one task manager and its division among local pools.

Each local pool is guaranteed its minimum. The memory beyond all guarantees is divided among the pools that
may grow, in proportion to their expected sizes::

    total = guaranteed (minima of the pools, exclusive segments) + rest
    resizable pool:  minimum <= size <= maximum,  sum of sizes = rest + their minima, if maxima allow

The rules are those of Flink's NetworkBufferPool (2.x).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .errors import InsufficientBuffers, PoolDestroyed
from .local_pool import LocalBufferPool
from .pool_sizes import plan_sizes
from .segment import MemorySegment, MemorySlab

__all__ = ["NetworkBufferPool"]


class NetworkBufferPool:
    """All segments of a task manager: `segments` of `segment_size` bytes each.

    `available`: whether a segment is free. Invariants: each segment is free, reserved, or taken as a pooled
    or unpooled segment; ``guaranteed <= total``; the sizes of the local pools plus the unpooled and the
    reserved segments do not exceed `total`.
    """

    def __init__(self, segments: int, segment_size: int) -> None:
        self._slab: MemorySlab | None = MemorySlab(segments, segment_size)
        self.segment_size = segment_size
        self.total = segments
        self.guaranteed = 0
        self._made = 0
        self._reserved = 0
        self._returned: list[MemorySegment] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._pools: dict[LocalBufferPool, None] = {}
        self._demand = 0  # sum of maxima over resizable pools
        self._minima = 0  # sum of minima over resizable pools
        self._all_at_maximum = True
        self._in_batch = False
        self._resize_after_batch = False

    @property
    def free(self) -> int:
        """Number of free segments; negative while some are `owed`."""
        return self.total - self._made + len(self._returned) - self._reserved

    @property
    def owed(self) -> int:
        """Reserved segments that cannot be taken yet, because their former users have not returned them."""
        return max(0, -self.free)

    @property
    def used(self) -> int:
        """Segments in use or reserved."""
        return self._made - len(self._returned) + self._reserved

    @property
    def peak_used(self) -> int:
        """Maximum number of segments in use at one time, without reserved ones."""
        return self._made

    @property
    def available(self) -> bool:
        """Whether a segment is free."""
        return self.free > 0

    @property
    def pools(self) -> Sequence[LocalBufferPool]:
        """The local pools that have not been destroyed, oldest first."""
        return tuple(self._pools)

    def request_pooled(self) -> MemorySegment | None:
        """Return a segment for a local pool, or None if no segment is free."""
        return self._take() if self.free > 0 else None

    def _take(self) -> MemorySegment:
        if self._returned:
            return self._returned.pop()
        assert self._slab is not None
        self._made += 1
        return self._slab.segment(self._made - 1)

    def recycle_pooled(self, segment: MemorySegment) -> None:
        """Take back a segment of a local pool."""
        if self._slab is None:
            return
        self._returned.append(segment)
        if self._waiting:
            self._wake()

    def call_when_available(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, as soon as a segment is free; callbacks are called in the order of
        registration.
        """
        self._waiting.append(callback)

    def _wake(self) -> None:
        for _ in range(len(self._waiting)):
            if not self.available:
                break
            self._waiting.popleft()()

    def request_unpooled(self, count: int) -> list[MemorySegment]:
        """Take `count` exclusive segments permanently; raises as `reserve_unpooled` does."""
        self.reserve_unpooled(count)
        return [self.take_reserved() for _ in range(count)]

    def reserve_unpooled(self, count: int, *, owed: bool = False) -> None:
        """Reserve `count` exclusive segments, which `take_reserved` takes when they are first needed.

        If other users still hold the memory, Flink waits, but this method raises InsufficientBuffers. With
        `owed=True` it reserves the segments nevertheless. Until the other users have returned them, no pool
        gets a segment, and the caller must not call `take_reserved` (see the property `owed`).

        Raises:
            ValueError: if `count` is negative.
            InsufficientBuffers: if there are too few segments; with `owed`, if there will never be enough. No
                segment was reserved.
        """
        if count < 0:
            raise ValueError(f"the number of segments must not be negative, got {count}")
        if count == 0:
            return
        self._check_guarantee(count)
        self.guaranteed += count
        self._redistribute()
        if self.free < count and not owed:
            free = self.free
            self._release_guarantee(count)
            raise InsufficientBuffers(count, free, self.total, self.segment_size)
        self._reserved += count

    def take_reserved(self) -> MemorySegment:
        """Return a reserved segment."""
        assert self._reserved > 0, "take_reserved needs a reserved segment, but none is reserved"
        self._reserved -= 1
        return self._take()

    def recycle_unpooled(self, segments: Sequence[MemorySegment], reserved: int = 0) -> None:
        """Take back exclusive segments, and release `reserved` segments that were never taken."""
        if self._slab is None:
            return
        for segment in segments:
            self.recycle_pooled(segment)
        for _ in range(reserved):
            self._reserved -= 1
            if self._waiting:
                self._wake()
        self._release_guarantee(len(segments) + reserved)

    def _check_guarantee(self, count: int) -> None:
        if self._slab is None:
            raise PoolDestroyed("the network buffer pool has been destroyed")
        if self.guaranteed + count > self.total:
            raise InsufficientBuffers(count, self.total - self.guaranteed, self.total, self.segment_size)

    def _release_guarantee(self, count: int) -> None:
        self.guaranteed -= count
        self._redistribute()

    def create_pool(
        self,
        expected: int,
        minimum: int,
        maximum: int | None,
        *,
        subpartitions: int = 0,
        max_buffers_per_channel: int | None = None,
        max_overdraft: int = 0,
        on_available: Callable[[], None] | None = None,
    ) -> LocalBufferPool:
        """Create a local pool of `minimum` to `maximum` (None: unlimited) segments, and resize all pools.

        `max_buffers_per_channel`: quota of each of the `subpartitions`, in segments; a subpartition that
        reaches it makes the pool unavailable (None: no quota). `max_overdraft`: segments that the pool may
        take beyond its size when it has no free segment.

        Raises:
            InsufficientBuffers: if the minimum cannot be guaranteed.
            ValueError: if the numbers contradict each other.
            PoolDestroyed: if this network pool was destroyed.
        """
        self._check_guarantee(minimum)
        pool = LocalBufferPool(
            self,
            expected,
            minimum,
            maximum,
            subpartitions=subpartitions,
            max_buffers_per_channel=max_buffers_per_channel,
            max_overdraft=max_overdraft,
            on_available=on_available,
        )
        self.guaranteed += minimum
        self._pools[pool] = None
        self._add_to_sums(pool, 1)
        self._redistribute(pool)
        return pool

    def destroy_pool(self, pool: LocalBufferPool) -> None:
        """Destroy a local pool and divide its share among the other pools; does nothing if it was already
        destroyed.
        """
        if pool not in self._pools:
            return
        del self._pools[pool]
        pool.lazy_destroy()
        self._add_to_sums(pool, -1)
        self._release_guarantee(pool.minimum)

    def _add_to_sums(self, pool: LocalBufferPool, sign: int) -> None:
        if pool.minimum < pool.maximum:
            self._demand += sign * pool.maximum
            self._minima += sign * pool.minimum

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Defer resizing while many pools are created or destroyed.

        All pools are resized once, at the end. This only matters if memory is scarce; otherwise a new pool
        does not change the other pools.
        """
        if self._in_batch:
            yield
            return
        self._in_batch, self._resize_after_batch = True, False
        try:
            yield
        finally:
            self._in_batch = False
            if self._resize_after_batch:
                self._redistribute()

    def redistribute(self) -> None:
        """Resize all pools according to `plan_sizes`."""
        rest = self.total - self.guaranteed
        self._all_at_maximum = rest + self._minima >= self._demand
        for pool, size in plan_sizes(list(self._pools), rest):
            pool.set_size(size)

    def _redistribute(self, created: LocalBufferPool | None = None) -> None:
        """Resize all pools, or only the new pool `created` if no other size would change."""
        if self._in_batch:
            self._resize_after_batch = True
            self._all_at_maximum = False
        elif self._all_at_maximum and self.total - self.guaranteed + self._minima >= self._demand:
            if created is not None and created.minimum < created.maximum:
                created.set_size(created.maximum)
        elif self._slab is not None:
            self.redistribute()

    def destroy(self) -> None:
        """Release the memory: `total`, `free` and `used` become 0, and no more pools can be created."""
        with self.batch():
            for pool in list(self._pools):
                self.destroy_pool(pool)
        self._slab = None
        self.total = self.guaranteed = self._made = self._reserved = 0
        self._returned.clear()
        self._waiting.clear()
