"""Pools: what a buffer costs before a byte is written.

Expected on one core: request and recycle together below 1 microsecond, the 512 pools of a 256x256 job
within a second even if memory is scarce, and 100,000 handles of segments in a tenth of one.
"""

from __future__ import annotations

from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from buffers import LocalBufferPool, MemorySlab, NetworkBufferPool

CHANNELS = 256
PER_CHANNEL = 2
FLOATING = 8
ROUNDS = 1000


def _pool(**options: Any) -> LocalBufferPool:
    return NetworkBufferPool(1024).create_pool(100, 10, 100, **options)


@pytest.mark.parametrize("in_use", [0, 20], ids=["idle", "20_in_use"])
def test_request_and_recycle(benchmark: BenchmarkFixture, in_use: int) -> None:
    pool = _pool(subpartitions=4, max_buffers_per_channel=10, max_overdraft=5)
    for number in range(in_use):
        pool.request(number % 4)

    def use() -> None:
        request, recycle = pool.request, pool.recycle
        for _ in range(ROUNDS):
            segment = request(1)
            assert segment is not None
            recycle(segment, 1)

    benchmark(use)
    benchmark.extra_info["pairs"] = ROUNDS


def test_all_segments_and_back(benchmark: BenchmarkFixture) -> None:
    pool = _pool(max_overdraft=5)

    def use() -> None:
        taken = []
        while (segment := pool.request()) is not None:
            taken.append(segment)
        for segment in taken:
            pool.recycle(segment)

    benchmark(use)
    benchmark.extra_info["pairs"] = 105


class _Keeper:
    """Keeps what it is offered."""

    def __init__(self) -> None:
        self.segment: Any = None

    def buffer_available(self, segment: Any) -> bool:
        self.segment = segment
        return True


def test_handing_over_to_a_listener(benchmark: BenchmarkFixture) -> None:
    pool = NetworkBufferPool(1).create_pool(1, 1, 1)
    keeper = _Keeper()
    keeper.segment = pool.request()

    def use() -> None:
        for _ in range(ROUNDS):
            pool.add_listener(keeper)
            pool.recycle(keeper.segment)

    benchmark(use)
    benchmark.extra_info["pairs"] = ROUNDS


@pytest.mark.parametrize("scarce", [False, True], ids=["plenty", "scarce"])
def test_pools_of_a_256x256_job(benchmark: BenchmarkFixture, scarce: bool) -> None:
    partition = CHANNELS * PER_CHANNEL + FLOATING
    gate = CHANNELS * PER_CHANNEL + FLOATING
    # Scarce: little more than what is guaranteed, so that each new pool takes from all others.
    spared = CHANNELS * (partition - CHANNELS - 1) if scarce else 0

    def build() -> NetworkBufferPool:
        network = NetworkBufferPool(CHANNELS * (partition + gate) - spared)
        for _ in range(CHANNELS):
            network.create_pool(
                CHANNELS + 1, CHANNELS + 1, partition, subpartitions=CHANNELS, max_buffers_per_channel=10
            )
            network.create_pool(1, 1, FLOATING)
            network.request_unpooled(CHANNELS * PER_CHANNEL)
        return network

    assert benchmark(build).statistics().pools == 2 * CHANNELS


def test_handles_of_100_000_segments(benchmark: BenchmarkFixture) -> None:
    slab = MemorySlab(100_000, 32768)
    assert len(benchmark(lambda: [slab.segment(index) for index in range(slab.segments)])) == slab.segments
