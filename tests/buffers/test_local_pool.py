from collections.abc import Callable
from typing import Any

import pytest

from buffers import (
    BufferBuilder,
    BufferSlice,
    LocalBufferPool,
    MemorySegment,
    NetworkBufferPool,
    PoolDestroyed,
)
from tests.vectors import flink_vectors

VECTORS = flink_vectors("pool_local_buffer_pool")

Step = dict[str, Any]
Seen = dict[str, Any]

# The counts that the vectors give as formulas of the step number.
FORMULAS = {"min(i+1,1024)": lambda i: min(i + 1, 1024), "1024-i": lambda i: 1024 - i}


class Taker:
    """A listener that keeps, hands back or refuses what it is offered."""

    def __init__(self, pool: LocalBufferPool, *, refuse: bool = False, hand_back: bool = False) -> None:
        self.pool = pool
        self.refuse = refuse
        self.hand_back = hand_back
        self.offered: list[MemorySegment] = []

    def buffer_available(self, segment: MemorySegment) -> bool:
        self.offered.append(segment)
        if self.hand_back:
            self.pool.recycle(segment)
        return not self.refuse


class VectorPool:
    """A pool under test, driven by the steps of a scenario."""

    def __init__(self, given: dict[str, Any]) -> None:
        maximum = None if given["pool_max"] == "unbounded" else given["pool_max"]
        self.pool = LocalBufferPool(
            NetworkBufferPool(given["global_segments"], 64),
            given["pool_min"],
            given["pool_min"],
            maximum,
            subpartitions=given.get("subpartitions", 0),
            max_buffers_per_channel=given.get("max_buffers_per_channel"),
            max_overdraft=given.get("overdraft", 0),
        )
        if "size" in given:
            self.pool.set_size(given["size"])
        self.held: dict[str | None, tuple[MemorySegment, int]] = {}
        self.unnamed: list[MemorySegment | None] = []
        self.listeners: dict[str, Taker] = {}

    def run(self, step: Step) -> None:
        expect = step.get("expect", {})
        if expect.get("error") == "illegal_argument":
            with pytest.raises(ValueError, match="cannot be set to"):
                getattr(self, step["op"])(step)
            return
        seen = getattr(self, step["op"])(step)
        pool = self.pool
        seen |= {
            "size": pool.size,
            "max": pool.maximum,
            "available": pool.free,
            "available_at_end": pool.free,
            "global_taken": pool.requested,
            "global_taken_at_end": pool.requested,
            "is_available": pool.available,
            "l1_notified": len(self.listeners["l1"].offered) if "l1" in self.listeners else 0,
        }
        assert {key: seen[key] for key in expect} == expect

    def create(self, step: Step) -> Seen:
        return {}

    check = create

    def set_num_buffers(self, step: Step) -> Seen:
        self.pool.set_size(step["n"])
        return {}

    def destroy(self, step: Step) -> Seen:
        self.pool.lazy_destroy()
        return {}

    def _request(self, name: str | None, channel: int) -> Seen:
        segment = self.pool.request(channel)
        if segment is not None:
            self.held[name] = segment, channel
        return {"result": None if segment is None else "buffer"}

    def request(self, step: Step) -> Seen:
        return self._request(step.get("name"), -1)

    def request_for(self, step: Step) -> Seen:
        return self._request(step["name"], step["ch"])

    def recycle(self, step: Step) -> Seen:
        self.pool.recycle(*self.held.pop(step["name"]))
        return {}

    def _each(self, step: Step, act: Callable[[], None]) -> Seen:
        expect = step.get("expect", {})
        for i in range(1, step["count"] + 1):
            act()
            if "global_taken_after_i" in expect:
                assert self.pool.requested == FORMULAS[expect["global_taken_after_i"]](i)
        return {
            "global_taken_after_i": expect.get("global_taken_after_i"),
            "all_non_null": None not in self.unnamed,
        }

    def request_each(self, step: Step) -> Seen:
        return self._each(step, lambda: self.unnamed.append(self.pool.request()))

    def recycle_each(self, step: Step) -> Seen:
        def recycle() -> None:
            segment = self.unnamed.pop()
            assert segment is not None
            self.pool.recycle(segment)

        return self._each(step, recycle)

    def add_listener(self, step: Step) -> Seen:
        listener = self.listeners.setdefault(step["name"], Taker(self.pool, hand_back=True))
        return {"accepted": self.pool.add_listener(listener)}


@pytest.mark.parametrize("scenario", VECTORS.values(), ids=VECTORS)
def test_flinks_local_pools(scenario: dict[str, Any]) -> None:
    driver = VectorPool(scenario["given"])
    for step in scenario["steps"]:
        driver.run(step)


def make_pool(size: int, *, segments: int = 20, **options: Any) -> LocalBufferPool:
    pool = LocalBufferPool(NetworkBufferPool(segments, 64), 1, 1, None, **options)
    pool.set_size(size)
    return pool


def take(pool: LocalBufferPool, subpartition: int = -1) -> MemorySegment:
    segment = pool.request(subpartition)
    assert segment is not None
    return segment


def take_all(pool: LocalBufferPool) -> list[MemorySegment]:
    taken = []
    while pool.available:
        taken.append(take(pool))
    return taken


def test_a_pool_holds_one_segment_ahead() -> None:
    pool = make_pool(3)
    assert (pool.requested, pool.free, pool.used) == (1, 1, 0)
    pool.request()
    assert (pool.requested, pool.free, pool.used) == (2, 1, 1)


def test_the_pool_turns_unavailable_when_its_last_segment_is_taken() -> None:
    pool = make_pool(2)
    pool.request()
    assert pool.available
    pool.request()
    assert not pool.available
    assert pool.request() is None


def test_overdraft_serves_requests_but_not_availability() -> None:
    pool = make_pool(2, max_overdraft=2)
    first, _ = take_all(pool)
    extra = [take(pool), take(pool)]
    assert pool.request() is None
    assert (pool.used, pool.size, pool.available) == (4, 2, False)
    assert pool.statistics().overdraft == 2
    pool.recycle(extra[0])
    pool.recycle(extra[1])
    assert (pool.used, pool.requested, pool.available) == (2, 2, False)
    pool.recycle(first)
    assert pool.available


def test_no_overdraft_while_the_pool_is_below_its_size() -> None:
    network = NetworkBufferPool(3, 64)
    pool = LocalBufferPool(network, 1, 1, None, max_overdraft=5)
    pool.set_size(5)
    taken = take_all(pool)
    assert len(taken) == 3
    assert pool.request() is None
    assert pool.requested < pool.size


def test_overdraft_stops_where_the_network_pool_is_empty() -> None:
    pool = make_pool(2, segments=3, max_overdraft=5)
    take_all(pool)
    assert pool.request() is not None
    assert pool.request() is None


def test_a_waiting_pool_gets_the_next_segment_of_the_network_pool() -> None:
    network = NetworkBufferPool(2, 64)
    other = network.request_unpooled(2)
    calls: list[bool] = []
    pool = LocalBufferPool(network, 1, 1, 2, on_available=lambda: calls.append(True))
    assert not pool.available
    network.recycle_pooled(other[0])
    assert (pool.available, calls) == (True, [True])
    assert network.free == 0


def test_waiting_pools_are_served_in_the_order_of_asking() -> None:
    network = NetworkBufferPool(1, 64)
    (segment,) = network.request_unpooled(1)
    first = LocalBufferPool(network, 1, 1, 1)
    second = LocalBufferPool(network, 1, 1, 1)
    network.recycle_pooled(segment)
    assert (first.available, second.available) == (True, False)
    first.lazy_destroy()
    assert second.available


def test_a_destroyed_pool_leaves_the_turn_to_the_next() -> None:
    network = NetworkBufferPool(1, 64)
    (segment,) = network.request_unpooled(1)
    first = LocalBufferPool(network, 1, 1, 1)
    second = LocalBufferPool(network, 1, 1, 1)
    first.lazy_destroy()
    network.recycle_pooled(segment)
    assert second.available


def test_on_available_is_called_at_each_turn_to_available_only() -> None:
    calls: list[bool] = []
    pool = make_pool(2, on_available=lambda: calls.append(True))
    assert calls == []
    first, second = take_all(pool)
    pool.recycle(first)
    pool.recycle(second)
    assert calls == [True]
    take_all(pool)
    pool.set_size(3)
    assert calls == [True, True]


def test_a_full_subpartition_makes_the_pool_unavailable_but_refuses_nothing() -> None:
    calls: list[bool] = []
    pool = make_pool(10, subpartitions=2, max_buffers_per_channel=2, on_available=lambda: calls.append(True))
    held = [take(pool, 1), take(pool, 1)]
    assert not pool.available
    held.append(take(pool, 1))
    pool.recycle(held.pop(), 1)
    assert (pool.available, calls) == (False, [])
    pool.recycle(held.pop(), 1)
    assert (pool.available, calls) == (True, [True])


def test_two_full_subpartitions_have_to_drain_both() -> None:
    pool = make_pool(10, subpartitions=2, max_buffers_per_channel=1)
    first, second = take(pool, 0), take(pool, 1)
    pool.recycle(first, 0)
    assert not pool.available
    pool.recycle(second, 1)
    assert pool.available


def test_segments_for_no_subpartition_do_not_count() -> None:
    pool = make_pool(10, subpartitions=1, max_buffers_per_channel=1)
    pool.recycle(take(pool))
    take(pool)
    assert pool.available


def test_listeners_are_served_in_turn_and_may_refuse() -> None:
    pool = make_pool(3)
    taken = take_all(pool)
    refusing, first, second = Taker(pool, refuse=True), Taker(pool), Taker(pool)
    assert all(pool.add_listener(listener) for listener in (refusing, first, second))
    pool.recycle(taken[0])
    pool.recycle(taken[1])
    assert [refusing.offered, first.offered, second.offered] == [[taken[0]], [taken[0]], [taken[1]]]
    assert not pool.available
    pool.recycle(taken[2])
    assert pool.available


def test_a_segment_that_all_listeners_refuse_becomes_available() -> None:
    pool = make_pool(1)
    (taken,) = take_all(pool)
    pool.add_listener(Taker(pool, refuse=True))
    pool.recycle(taken)
    assert pool.available
    assert pool.statistics().listeners == 0


def test_a_growing_pool_serves_its_line() -> None:
    pool = make_pool(1)
    take_all(pool)
    listener = Taker(pool)
    pool.add_listener(listener)
    pool.set_size(3)
    assert len(listener.offered) == 1
    assert (pool.used, pool.free, pool.available) == (2, 1, True)


def test_a_shrunken_pool_returns_recycled_segments_before_it_serves_its_line() -> None:
    pool = make_pool(2)
    taken = take_all(pool)
    listener = Taker(pool)
    pool.add_listener(listener)
    pool.set_size(1)
    pool.recycle(taken[0])
    assert listener.offered == []
    pool.recycle(taken[1])
    assert listener.offered == [taken[1]]


def test_a_destroyed_pool_serves_nobody_and_returns_everything() -> None:
    pool = make_pool(3)
    network = pool.network_pool
    taken = take_all(pool)
    listener = Taker(pool)
    pool.add_listener(listener)
    pool.lazy_destroy()
    pool.lazy_destroy()
    assert (network.free, pool.statistics().listeners) == (17, 0)
    with pytest.raises(PoolDestroyed):
        pool.request()
    assert not pool.add_listener(listener)
    for segment in taken:
        pool.recycle(segment)
    assert network.free == 20
    assert (pool.requested, pool.available, listener.offered) == (0, False, [])


def leaving(pool: LocalBufferPool) -> BufferSlice:
    """Take a segment and return the only buffer that refers to it."""
    builder = BufferBuilder(take(pool), pool)
    buffer = builder.slice(0)
    builder.finish()
    return buffer


def test_returned_buffers_are_released_in_the_order_of_their_times() -> None:
    pool = make_pool(4)
    buffers = [leaving(pool) for _ in range(4)]
    segments = [buffer._builder.segment for buffer in buffers]
    listeners = [Taker(pool) for _ in range(4)]
    for listener in listeners:
        assert pool.add_listener(listener)
    for buffer, time in zip(buffers, [3.0, 2.0, 1.0, 2.0], strict=True):
        assert buffer.release_at(time)

    def offered(now: float) -> list[MemorySegment]:
        pool.collect(now)
        return [segment for listener in listeners for segment in listener.offered]

    assert offered(0.5) == []
    assert offered(2.0) == [segments[2], segments[1], segments[3]]
    assert offered(2.5) == [segments[2], segments[1], segments[3]]
    assert offered(3.0) == [segments[2], segments[1], segments[3], segments[0]]


@pytest.mark.parametrize("asks_first", [False, True])
def test_an_exhausted_pool_is_available_at_once_with_the_next_buffer_that_returns(asks_first: bool) -> None:
    calls: list[float] = []
    pool = make_pool(2, on_available=lambda: calls.append(pool.freed_at))
    calls.clear()
    first, second = leaving(pool), leaving(pool)
    assert not pool.available
    if asks_first:
        pool.await_return()
        assert calls == []
        assert first.release_at(4.0)
        assert second.release_at(5.0)
    else:
        assert second.release_at(5.0)
        assert first.release_at(4.0)
        assert calls == []
        pool.await_return()
    assert (calls, pool.available, pool.freed_at, pool.used) == ([4.0], True, 4.0, 1)
    pool.collect(4.5)
    assert pool.used == 1
    pool.collect(5.0)
    assert (calls, pool.used) == ([4.0], 0)


def test_a_buffer_that_leaves_its_segment_in_use_does_not_end_the_wait() -> None:
    pool = make_pool(2)
    builder = BufferBuilder(take(pool), pool)
    other = leaving(pool)
    assert builder.slice(0).release_at(1.0)
    assert other.release_at(2.0)
    pool.await_return()
    assert (pool.available, pool.freed_at, pool.used) == (True, 2.0, 1)


def test_a_segment_that_is_recycled_ends_the_wait() -> None:
    pool = make_pool(2)
    first, second = leaving(pool), leaving(pool)
    pool.await_return()
    first.release()
    assert (pool.available, pool.freed_at) == (True, 0.0)
    take(pool)
    assert second.release_at(3.0)
    assert (pool.available, pool.freed_at, pool.used) == (False, 0.0, 2)


def test_a_pool_that_holds_more_than_its_size_takes_no_buffer_over() -> None:
    pool = make_pool(3)
    buffers = [leaving(pool) for _ in range(3)]
    pool.set_size(2)
    assert not buffers[0].release_at(1.0)
    pool.collect(1.0)
    assert pool.requested == 3
    buffers[0].release()
    assert pool.requested == 2
    assert buffers[1].release_at(1.0)
    pool.lazy_destroy()
    assert not buffers[2].release_at(1.0)


@pytest.mark.parametrize("end", [LocalBufferPool.lazy_destroy, lambda pool: pool.set_size(1)])
def test_a_pool_that_is_destroyed_or_shrinks_releases_its_returning_buffers(
    end: Callable[[LocalBufferPool], None],
) -> None:
    pool = make_pool(3)
    for time in (2.0, 1.0, 3.0):
        assert leaving(pool).release_at(time)
    end(pool)
    assert (pool.used, pool.requested) == (0, 0 if pool.destroyed else 1)
    assert pool.network_pool.free == 20 - pool.requested


def test_statistics_are_a_snapshot() -> None:
    pool = make_pool(2, max_overdraft=1)
    before = pool.statistics()
    take_all(pool)
    after = pool.statistics()
    assert (before.used, before.free, before.available) == (0, 1, True)
    assert (after.used, after.free, after.available, after.requested) == (2, 0, False, 2)
    assert "size=2" in repr(pool)


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        ((1, 0, 1), {}),
        ((1, 2, 1), {}),
        ((0, 1, 1), {}),
        ((1, 1, 1), {"max_overdraft": -1}),
        ((1, 1, 1), {"max_buffers_per_channel": 0}),
    ],
)
def test_impossible_limits(limits: tuple[int, int, int], options: dict[str, Any]) -> None:
    network = NetworkBufferPool(5, 64)
    with pytest.raises(ValueError, match=r"must be at least|a pool needs"):
        network.create_pool(*limits, **options)
    assert (network.free, network.guaranteed, network.pools) == (5, 0, ())
