import pickle
from typing import Any

import pytest

from buffers import (
    CorruptRecord,
    InsufficientBuffers,
    LocalBufferPool,
    MemorySegment,
    NetworkBufferPool,
    PoolDestroyed,
)
from tests.vectors import flink_vectors

VECTORS = flink_vectors("pool_network_buffer_pool")

Step = dict[str, Any]
Seen = dict[str, Any]

ERRORS = {"io": InsufficientBuffers, "illegal_argument": ValueError, "cancelled": PoolDestroyed}


class VectorPool:
    """A network pool under test, driven by the steps of a scenario."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.segment_size = given.get("segment_size", 64)
        self.network = NetworkBufferPool(given["segments"], self.segment_size)
        self.pools: dict[str, LocalBufferPool] = {}
        self.taken: list[tuple[LocalBufferPool, MemorySegment]] = []
        self.pooled: list[MemorySegment] = []
        self.unpooled: list[MemorySegment] = []

    def run(self, step: Step) -> None:
        expect = step.get("expect", {})
        if "error" in expect:
            with pytest.raises(ERRORS[expect["error"]]):
                getattr(self, step["op"])(step)
            seen = {"error": expect["error"]}
        else:
            seen = getattr(self, step["op"])(step)
        seen |= self.observe()
        assert {key: seen[key] for key in expect} == expect

    def observe(self) -> Seen:
        network = self.network
        return {
            "ok": True,
            "total": network.total,
            "available": network.free,
            "used": network.used,
            "total_memory": network.total * network.segment_size,
            "available_memory": network.free * network.segment_size,
            "used_memory": network.used * network.segment_size,
            "registered_pools": len(network.pools),
            "is_available": network.available,
        }

    def create(self, step: Step) -> Seen:
        return {}

    check = create

    def create_pool(self, step: Step) -> Seen:
        maximum = None if step["max"] == "unbounded" else step["max"]
        # The figure for an unbounded pool in this version; it is what is expected in the newest one.
        self.pools[step["name"]] = self.network.create_pool(2 * step["min"], step["min"], maximum)
        return {}

    def request(self, step: Step) -> Seen:
        self.pools[step["pool"]].request()
        return {}

    def request_from_pools_until_empty(self, step: Step) -> Seen:
        for pool in self.pools.values():
            while (segment := pool.request()) is not None:
                self.taken.append((pool, segment))
        return {"total_taken": len(self.taken)}

    def destroy_all_pools(self, step: Step) -> Seen:
        for pool in self.network.pools:
            self.network.destroy_pool(pool)
        return {}

    def destroy_pools(self, step: Step) -> Seen:
        for name in step["names"]:
            self.pools[name].lazy_destroy()
        return {}

    def recycle_all(self, step: Step) -> Seen:
        for pool, segment in self.taken:
            pool.recycle(segment)
        return {}

    def request_pooled(self, step: Step) -> Seen:
        segment = self.network.request_pooled()
        assert segment is not None
        self.pooled.append(segment)
        return {}

    def recycle_pooled(self, step: Step) -> Seen:
        self.network.recycle_pooled(self.pooled.pop())
        return {}

    def request_unpooled(self, step: Step) -> Seen:
        taken = self.network.request_unpooled(step["n"])
        self.unpooled += taken
        return {"got": len(taken)}

    def recycle_unpooled(self, step: Step) -> Seen:
        segments = [self.unpooled.pop() for _ in range(step["n"])]
        self.network.recycle_unpooled(segments)
        return {}

    def destroy_new_pool_without_requests(self, step: Step) -> Seen:
        self.network = NetworkBufferPool(10, self.segment_size)
        self.network.destroy()
        return {}


@pytest.mark.parametrize("scenario", VECTORS.values(), ids=VECTORS)
def test_flinks_network_pools(scenario: dict[str, Any]) -> None:
    driver = VectorPool(scenario["given"])
    for step in scenario["steps"]:
        driver.run(step)


def test_the_error_says_how_many_are_needed_and_which_option_gives_more() -> None:
    pool = NetworkBufferPool(10, 32768)
    pool.create_pool(4, 4, None)
    with pytest.raises(InsufficientBuffers) as caught:
        pool.create_pool(8, 7, None)
    message = str(caught.value)
    assert message.startswith(
        "Insufficient number of network buffers: required 7, but only 6 available. "
        "The total number of network buffers is currently set to 10 of 32768 bytes each."
    )
    for option in ("min", "max", "fraction"):
        assert f"taskmanager.memory.network.{option}" in message
    error = caught.value
    assert (error.required, error.available, error.total, error.segment_size) == (7, 6, 10, 32768)
    assert isinstance(error, OSError)
    assert len(pool.pools) == 1


def test_exclusive_segments_that_pools_hold_too_much_of_are_refused_without_a_trace() -> None:
    network = NetworkBufferPool(10, 64)
    pool = network.create_pool(1, 1, None)
    taken = [pool.request() for _ in range(10)]
    with pytest.raises(InsufficientBuffers, match="required 9, but only 0 available"):
        network.request_unpooled(9)
    assert (pool.size, network.guaranteed, network.free) == (10, 1, 0)
    for segment in taken[:9]:
        assert segment is not None
        pool.recycle(segment)
    assert len(network.request_unpooled(8)) == 8
    assert pool.size == 2


def test_the_rest_is_shared_out_anew_with_each_change() -> None:
    network = NetworkBufferPool(20, 64)
    first = network.create_pool(5, 1, None)
    assert first.size == 20
    second = network.create_pool(5, 2, 4)
    assert (first.size, second.size) == (16, 4)
    exclusive = network.request_unpooled(10)
    assert (first.size, second.size) == (6, 4)
    network.recycle_unpooled(exclusive)
    network.destroy_pool(second)
    assert first.size == 20


def test_a_batch_shares_out_once_at_its_end() -> None:
    network = NetworkBufferPool(20, 64)
    with network.batch():
        first = network.create_pool(1, 1, None)
        with network.batch():
            second = network.create_pool(1, 1, 30)
        exclusive = network.request_unpooled(4)
        assert (first.size, second.size) == (1, 1)
    assert (first.size, second.size) == (8, 8)
    with network.batch():
        network.recycle_unpooled(exclusive)
        first.lazy_destroy()
    assert second.size == 20


def test_a_batch_of_bounded_pools_ends_with_all_at_their_maximum() -> None:
    network = NetworkBufferPool(20, 64)
    with network.batch():
        pools = [network.create_pool(1, 1, 4) for _ in range(3)]
    assert [pool.size for pool in pools] == [4, 4, 4]
    assert network.create_pool(1, 2, 6).size == 6


def test_a_batch_that_fails_still_shares_out() -> None:
    network = NetworkBufferPool(20, 64)

    def fail() -> None:
        with network.batch():
            network.create_pool(1, 1, 4)
            network.create_pool(1, 20, 20)

    with pytest.raises(InsufficientBuffers):
        fail()
    assert [pool.size for pool in network.pools] == [4]


def test_destroying_gives_everything_up() -> None:
    network = NetworkBufferPool(10, 64)
    pool = network.create_pool(1, 1, None)
    exclusive = network.request_unpooled(2)
    held = pool.request()
    assert held is not None
    network.destroy()
    assert (network.total, network.free, network.used) == (0, 0, 0)
    pool.recycle(held)
    network.recycle_unpooled(exclusive)
    assert (network.total, network.free, network.used, network.guaranteed) == (0, 0, 0, 0)
    assert network.request_pooled() is None
    assert pool.destroyed
    with pytest.raises(PoolDestroyed):
        network.create_pool(1, 1, None)
    with pytest.raises(PoolDestroyed):
        network.request_unpooled(1)


def test_a_request_for_no_exclusive_segment_is_served_even_when_nothing_is_free() -> None:
    network = NetworkBufferPool(0, 64)
    assert network.request_unpooled(0) == []


def test_a_returned_segment_is_used_again_before_fresh_memory() -> None:
    network = NetworkBufferPool(10, 64)
    segment = network.request_pooled()
    assert segment is not None
    network.recycle_pooled(segment)
    assert network.request_pooled() is segment


def test_what_is_owed_comes_back_before_anybody_else_gets_a_segment() -> None:
    network = NetworkBufferPool(6, 32)
    pool = network.create_pool(6, 1, 6)
    taken = [pool.request() for _ in range(5)]
    assert (pool.request() is not None, network.free) == (True, 0)
    with pytest.raises(InsufficientBuffers):
        network.reserve_unpooled(3)
    assert (network.owed, network.guaranteed, pool.size) == (0, 1, 6)
    network.reserve_unpooled(3, owed=True)
    assert (network.owed, network.free, network.guaranteed, pool.size) == (3, -3, 4, 3)
    for left in (2, 1, 0):
        segment = taken.pop()
        assert segment is not None
        pool.recycle(segment)
        assert (network.owed, network.request_pooled()) == (left, None)
    assert [network.take_reserved() is None for _ in range(3)] == [False] * 3
    assert network.free == network.owed == 0


def test_more_than_can_ever_be_there_is_not_owed_to_anybody() -> None:
    network = NetworkBufferPool(6, 32)
    network.create_pool(6, 4, 6)
    with pytest.raises(InsufficientBuffers):
        network.reserve_unpooled(3, owed=True)
    assert (network.owed, network.guaranteed) == (0, 4)


@pytest.mark.parametrize("error", [InsufficientBuffers(5, 2, 10, 32768), CorruptRecord(-1, 100, 1000)])
def test_an_error_can_be_pickled(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
