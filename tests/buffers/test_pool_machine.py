"""Random use of a network pool and its local pools: nothing is lost, doubled or miscounted."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from buffers import (
    InsufficientBuffers,
    LocalBufferPool,
    MemorySegment,
    NetworkBufferPool,
    PoolDestroyed,
    plan_sizes,
)

QUOTA = 2
SUBPARTITIONS = 3


class Listener:
    """Stands in a pool's line; refuses, or keeps what it is offered, or hands it back at once."""

    def __init__(self, user: "PoolUser", behaviour: str) -> None:
        self.user = user
        self.behaviour = behaviour

    def buffer_available(self, segment: MemorySegment) -> bool:
        if self.behaviour == "hand back":
            self.user.pool.recycle(segment)
        elif self.behaviour == "keep":
            self.user.held.append((segment, -1))
        return self.behaviour != "refuse"


class PoolUser:
    """A local pool with what it has handed out, and what is known of it from outside."""

    def __init__(self) -> None:
        self.held: list[tuple[MemorySegment, int]] = []
        self.turns = 0
        self.was_available = True
        self.pool: LocalBufferPool

    def available(self) -> None:
        assert self.pool.available
        self.turns += 1

    def count(self, subpartition: int) -> int:
        return sum(number == subpartition for _, number in self.held)


class Pools(RuleBasedStateMachine):
    @initialize(segments=st.integers(0, 24))
    def start(self, segments: int) -> None:
        self.network = NetworkBufferPool(segments, 16)
        self.users: list[PoolUser] = []
        self.exclusive: list[MemorySegment] = []
        self.reserved = 0

    def figures(self) -> tuple[int, int, int, int]:
        network = self.network
        return network.free, network.used, network.guaranteed, len(network.pools)

    @rule(
        minimum=st.integers(1, 4),
        extra=st.none() | st.integers(0, 10),
        expected=st.integers(1, 12),
        overdraft=st.integers(0, 3),
    )
    def create(self, minimum: int, extra: int | None, expected: int, overdraft: int) -> None:
        user = PoolUser()
        before = self.figures()
        free = self.network.total - self.network.guaranteed
        try:
            user.pool = self.network.create_pool(
                expected,
                minimum,
                None if extra is None else minimum + extra,
                subpartitions=SUBPARTITIONS,
                max_buffers_per_channel=QUOTA,
                max_overdraft=overdraft,
            )
        except InsufficientBuffers:
            assert minimum > free
            assert self.figures() == before
        else:
            user.pool.on_available = user.available
            user.was_available = user.pool.available
            self.users.append(user)

    @precondition(lambda self: self.users)
    @rule(data=st.data(), subpartition=st.integers(-1, SUBPARTITIONS - 1))
    def request(self, data: st.DataObject, subpartition: int) -> None:
        user = data.draw(st.sampled_from(self.users))
        pool = user.pool
        free, overdraft, spare = pool.free, pool.requested - pool.size, self.network.free
        try:
            segment = pool.request(subpartition)
        except PoolDestroyed:
            assert pool.destroyed
            return
        assert (segment is not None) == (free > 0 or (0 <= overdraft < pool.max_overdraft and spare > 0))
        if segment is not None:
            user.held.append((segment, subpartition))

    @precondition(lambda self: any(user.held for user in self.users))
    @rule(data=st.data())
    def recycle(self, data: st.DataObject) -> None:
        user = data.draw(st.sampled_from([user for user in self.users if user.held]))
        segment, subpartition = user.held.pop(data.draw(st.integers(0, len(user.held) - 1)))
        user.pool.recycle(segment, subpartition)

    @precondition(lambda self: self.users)
    @rule(data=st.data(), behaviour=st.sampled_from(["keep", "refuse", "hand back"]))
    def wait_in_line(self, data: st.DataObject, behaviour: str) -> None:
        user = data.draw(st.sampled_from(self.users))
        accepted = user.pool.add_listener(Listener(user, behaviour))
        assert accepted == (user.pool.free == 0 and not user.pool.destroyed)

    @rule(count=st.integers(0, 6))
    def request_exclusive(self, count: int) -> None:
        guaranteed = self.network.guaranteed
        sizes = [user.pool.size for user in self.users]
        try:
            taken = self.network.request_unpooled(count)
        except InsufficientBuffers:
            assert self.network.guaranteed == guaranteed
            assert [user.pool.size for user in self.users] == sizes
        else:
            assert len(taken) == count
            self.exclusive += taken

    @rule(count=st.integers(0, 6))
    def reserve(self, count: int) -> None:
        guaranteed = self.network.guaranteed
        try:
            self.network.reserve_unpooled(count)
        except InsufficientBuffers:
            assert self.network.guaranteed == guaranteed
        else:
            self.reserved += count

    @precondition(lambda self: self.reserved)
    @rule()
    def take_reserved(self) -> None:
        self.exclusive.append(self.network.take_reserved())
        self.reserved -= 1

    @precondition(lambda self: self.exclusive or self.reserved)
    @rule(data=st.data())
    def recycle_exclusive(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, len(self.exclusive)))
        reserved = data.draw(st.integers(0, self.reserved))
        self.network.recycle_unpooled(self.exclusive[:count], reserved)
        del self.exclusive[:count]
        self.reserved -= reserved

    @precondition(lambda self: self.users)
    @rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.users)).pool.lazy_destroy()

    @invariant()
    def every_segment_is_in_one_place(self) -> None:
        held = [segment for user in self.users for segment, _ in user.held] + self.exclusive
        assert len({segment.index for segment in held}) == len(held)
        waiting = sum(user.pool.free for user in self.users)
        assert len(held) + waiting + self.reserved + self.network.free == self.network.total
        kept = len(self.exclusive) + self.reserved
        assert self.network.used == sum(user.pool.requested for user in self.users) + kept

    @invariant()
    def counters_agree(self) -> None:
        for user in self.users:
            statistics = user.pool.statistics()
            assert statistics.used == user.pool.used == len(user.held)
            assert statistics.requested == statistics.used + statistics.free
            full = sum(user.count(number) >= QUOTA for number in range(SUBPARTITIONS))
            assert statistics.available == (statistics.free > 0 and full == 0)

    @invariant()
    def a_turn_to_available_is_told(self) -> None:
        for user in self.users:
            turned = user.pool.available and not user.was_available
            assert user.turns >= turned
            user.turns = 0
            user.was_available = user.pool.available

    @invariant()
    def pools_hold_one_ahead_within_their_size(self) -> None:
        for user in self.users:
            statistics = user.pool.statistics()
            if statistics.destroyed:
                assert (statistics.free, statistics.listeners) == (0, 0)
                continue
            assert statistics.free == 0 or statistics.requested <= statistics.size
            assert statistics.free == 0 or statistics.listeners == 0
            if statistics.free == 0 and statistics.requested < statistics.size:
                assert not self.network.available

    @invariant()
    def sizes_follow_the_plan(self) -> None:
        pools = self.network.pools
        kept = len(self.exclusive) + self.reserved
        guaranteed = sum(pool.minimum for pool in pools) + kept
        assert self.network.guaranteed == guaranteed <= self.network.total
        assert sum(pool.size for pool in pools) + kept <= self.network.total
        planned = dict(plan_sizes(pools, self.network.total - guaranteed))
        assert {pool: pool.size for pool in pools} == {
            pool: planned.get(pool, pool.minimum) for pool in pools
        }

    def teardown(self) -> None:
        if not hasattr(self, "network"):
            return
        for user in self.users:
            user.pool.lazy_destroy()
            for segment, subpartition in user.held:
                user.pool.recycle(segment, subpartition)
        self.network.recycle_unpooled(self.exclusive, self.reserved)
        assert self.figures() == (self.network.total, 0, 0, 0)


Pools.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestPools = Pools.TestCase
