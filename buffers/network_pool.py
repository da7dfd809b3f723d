"""The network memory of one task manager, and how its local pools share it.

Each local pool is guaranteed its minimum. What is left beyond all guarantees is distributed over the
pools that may grow, in proportion to what they expect to need::

    total = guaranteed (minima of the pools, exclusive segments) + rest
    resizable pool:  minimum <= size <= maximum,  sum of sizes = rest + their minima, if maxima allow

The rules are those of Flink's NetworkBufferPool (2.x).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .errors import InsufficientBuffers, PoolDestroyed
from .local_pool import UNBOUNDED, LocalBufferPool
from .pool_statistics import NetworkPoolStatistics, UsageNotice
from .redistribution import plan_sizes
from .segment import MemorySegment, MemorySlab

DEFAULT_SEGMENT_SIZE = 32768
"""taskmanager.memory.segment-size in bytes."""


class NetworkBufferPool:
    """All segments of a task manager: `segments` of `segment_size` bytes each.

    `available` tells whether a segment is free. Invariants: a segment is free, reserved, or out as pooled or
    unpooled; ``guaranteed <= total``; the sizes of the local pools, the unpooled and the reserved segments
    together do not exceed `total`.
    """

    def __init__(self, segments: int, segment_size: int = DEFAULT_SEGMENT_SIZE) -> None:
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
        self._deferred: bool | None = None
        self._last_usage = 0

    @property
    def free(self) -> int:
        """Segments that are not in use; less than 0 while some are `owed`."""
        return self.total - self._made + len(self._returned) - self._reserved

    @property
    def owed(self) -> int:
        """Reserved segments that cannot be taken yet, as their former users have not returned them."""
        return max(0, -self.free)

    @property
    def used(self) -> int:
        """Segments in use or reserved."""
        return self._made - len(self._returned) + self._reserved

    @property
    def peak_used(self) -> int:
        """The most segments that were out at one time; reserved ones are not yet."""
        return self._made

    @property
    def available(self) -> bool:
        """Whether a segment is free."""
        return self.free > 0

    @property
    def pools(self) -> Sequence[LocalBufferPool]:
        """The local pools that were not destroyed, oldest first."""
        return tuple(self._pools)

    def request_pooled(self) -> MemorySegment | None:
        """Take a segment for a local pool; None if there is none."""
        return self._take() if self.free > 0 else None

    def _take(self) -> MemorySegment:
        if self._returned:
            return self._returned.pop()
        assert self._slab is not None
        self._made += 1
        return self._slab.segment(self._made - 1)

    def recycle_pooled(self, segment: MemorySegment) -> None:
        """Take a segment of a local pool back."""
        if self._slab is None:
            return
        self._returned.append(segment)
        if self._waiting:
            self._wake()

    def call_when_available(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, as soon as a segment is free; in the order of asking."""
        self._waiting.append(callback)

    def _wake(self) -> None:
        for _ in range(len(self._waiting)):
            if not self.available:
                break
            self._waiting.popleft()()

    def request_unpooled(self, count: int) -> list[MemorySegment]:
        """Take `count` segments for good, as exclusive ones; raises as `reserve_unpooled` does."""
        self.reserve_unpooled(count)
        return [self.take_reserved() for _ in range(count)]

    def reserve_unpooled(self, count: int, *, owed: bool = False) -> None:
        """Reserve `count` exclusive segments, each to be taken when it is first needed.

        Flink waits for local pools to give back what they hold too much; here this fails at once. With `owed`
        it does not: no other pool gets a segment before those are back, and none may be taken while `owed`.

        Raises:
            ValueError: if `count` is negative.
            InsufficientBuffers: if there are not as many, or with `owed` never can be; nothing was reserved.
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
        """Take a segment that was reserved."""
        assert self._reserved > 0, "nothing is reserved"
        self._reserved -= 1
        return self._take()

    def recycle_unpooled(self, segments: Sequence[MemorySegment], reserved: int = 0) -> None:
        """Take exclusive segments back, and as many that were `reserved` and never taken."""
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
        """Make a local pool of `minimum` to `maximum` (None: unbounded) segments, and size all pools anew.

        `max_buffers_per_channel`: how many segments one of the `subpartitions` may hold before the pool
        counts as unavailable (None: any number). `max_overdraft`: segments beyond its size that the
        pool may take when it has none left.

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
        """Destroy a local pool (again without effect); its share goes to the others."""
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
        """Create or destroy many pools inside; they are sized once, at the end.

        Only needed where memory is scarce: with plenty of it, a new pool changes no other.
        """
        if self._deferred is not None:
            yield
            return
        self._deferred = False
        try:
            yield
        finally:
            changed, self._deferred = self._deferred, None
            if changed:
                self._redistribute()

    def redistribute(self) -> None:
        """Size all pools by `plan_sizes`."""
        rest = self.total - self.guaranteed
        self._all_at_maximum = rest + self._minima >= self._demand
        for pool, size in plan_sizes(list(self._pools), rest):
            pool.set_size(size)

    def _redistribute(self, created: LocalBufferPool | None = None) -> None:
        """Redistribute; or know that it would change nothing but the pool `created`."""
        if self._deferred is not None:
            self._deferred = True
            self._all_at_maximum = False
        elif self._all_at_maximum and self.total - self.guaranteed + self._minima >= self._demand:
            if created is not None and created.minimum < created.maximum:
                created.set_size(created.maximum)
        elif self._slab is not None:
            self.redistribute()

    def destroy(self) -> None:
        """Release the memory: `total`, `free` and `used` are 0 from now on, and no pool can be made."""
        with self.batch():
            for pool in list(self._pools):
                self.destroy_pool(pool)
        self._slab = None
        self.total = self.guaranteed = self._made = self._reserved = 0
        self._returned.clear()
        self._waiting.clear()

    @property
    def requested(self) -> int:
        """Segments that the pools would take if they could."""
        return sum([pool.expected if pool.maximum == UNBOUNDED else pool.maximum for pool in self._pools])

    def check_usage(self) -> UsageNotice | None:
        """Return a message for the user: a warning at 100 % or more, or its end; None if nothing is new."""
        usage = self.statistics().usage_percent
        before, self._last_usage = self._last_usage, usage
        if usage == before or (usage < 100 and before < 100):
            return None
        missing = max(0, self.requested - self.total)
        return UsageNotice(
            warning=usage >= 100,
            requested=self.requested,
            total=self.total,
            usage_percent=usage,
            missing_bytes=missing * self.segment_size,
        )

    def statistics(self) -> NetworkPoolStatistics:
        """The state at this moment."""
        requested = self.requested
        return NetworkPoolStatistics(
            total=self.total,
            free=max(0, self.free),
            used=self.used,
            guaranteed=self.guaranteed,
            requested=requested,
            usage_percent=100 * requested // self.total if self.total else 0,
            pools=len(self._pools),
            segment_size=self.segment_size,
        )
