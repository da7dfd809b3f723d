"""Pools: what a buffer costs before a byte is written.

Expected on one core: request and recycle together below 1 microsecond, the 512 pools of a 256x256 job within
a second even if memory is scarce, and 100,000 handles of segments in a tenth of one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from buffers import LocalBufferPool, MemorySlab, NetworkBufferPool

from .micro import Work, micro_case

CHANNELS = 256
PER_CHANNEL = 2
FLOATING = 8
PAIRS = 1000
HANDLES = 100_000


def _pool(**options: Any) -> LocalBufferPool:
    return NetworkBufferPool(1024).create_pool(100, 10, 100, **options)


def request_and_recycle(in_use: int) -> Work:
    """Pairs of calls, on a pool of which so many segments are in use."""
    pool = _pool(subpartitions=4, max_buffers_per_channel=10, max_overdraft=5)
    for number in range(in_use):
        pool.request(number % 4)

    def step() -> None:
        request, recycle = pool.request, pool.recycle
        for _ in range(PAIRS):
            segment = request(1)
            assert segment is not None
            recycle(segment, 1)

    return Work(step, PAIRS)


def all_segments() -> Work:
    """All segments of a pool, its overdraft included, and all of them back; a step returns how many."""
    pool = _pool(max_overdraft=5)

    def step() -> int:
        taken = []
        while (segment := pool.request()) is not None:
            taken.append(segment)
        for segment in taken:
            pool.recycle(segment)
        return len(taken)

    return Work(step, step())


class _Keeper:
    """Keeps what it is offered."""

    def __init__(self) -> None:
        self.segment: Any = None

    def buffer_available(self, segment: Any) -> bool:
        self.segment = segment
        return True


def handing_over() -> Work:
    """A segment that is recycled while a channel waits for one."""
    pool = NetworkBufferPool(1).create_pool(1, 1, 1)
    keeper = _Keeper()
    keeper.segment = pool.request()

    def step() -> None:
        for _ in range(PAIRS):
            pool.add_listener(keeper)
            pool.recycle(keeper.segment)

    return Work(step, PAIRS)


def pools_of_a_job(scarce: bool) -> Work:
    """The pools of a job of 256 by 256; a step returns them."""
    partition = CHANNELS * PER_CHANNEL + FLOATING
    gate = CHANNELS * PER_CHANNEL + FLOATING
    # Scarce: little more than what is guaranteed, so that each new pool takes from all others.
    spared = CHANNELS * (partition - CHANNELS - 1) if scarce else 0

    def step() -> NetworkBufferPool:
        network = NetworkBufferPool(CHANNELS * (partition + gate) - spared)
        for _ in range(CHANNELS):
            network.create_pool(
                CHANNELS + 1, CHANNELS + 1, partition, subpartitions=CHANNELS, max_buffers_per_channel=10
            )
            network.create_pool(1, 1, FLOATING)
            network.request_unpooled(CHANNELS * PER_CHANNEL)
        return network

    return Work(step, 2 * CHANNELS)


def handles() -> Work:
    """The handles of 100,000 segments; a step returns them."""
    slab = MemorySlab(HANDLES, 32768)
    return Work(lambda: [slab.segment(index) for index in range(slab.segments)], HANDLES)


CASES = (
    micro_case(
        "poolRequest",
        "a segment taken and given back",
        {
            "idle": partial(request_and_recycle, 0),
            "20 in use": partial(request_and_recycle, 20),
            "all": all_segments,
            "listener": handing_over,
        },
        copies=False,
    ),
    micro_case(
        "poolCreate",
        "a pool of a job of 256 by 256",
        {"plenty": partial(pools_of_a_job, False), "scarce": partial(pools_of_a_job, True)},
        copies=False,
    ),
    micro_case("poolHandles", "the handle of a segment", {"": handles}, copies=False),
)
