from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from buffers import plan_sizes

UNBOUNDED = 2**31 - 1


@dataclass(frozen=True)
class Share:
    minimum: int
    maximum: int
    expected: int


@st.composite
def shares(draw: st.DrawFn) -> Share:
    minimum = draw(st.integers(1, 50))
    maximum = draw(st.integers(minimum, minimum + 100) | st.just(UNBOUNDED))
    return Share(minimum, maximum, draw(st.integers(1, 200)))


@given(pools=st.lists(shares(), max_size=12), available=st.integers(0, 2000))
@example(pools=[Share(1, 3, 1), Share(1, UNBOUNDED, 200)], available=1)
@example(pools=[Share(40, 50, 1), Share(1, 60, 100)], available=20)
def test_everything_is_handed_out_within_the_limits(pools: list[Share], available: int) -> None:
    plan = plan_sizes(pools, available)
    growing = [pool for pool in pools if pool.minimum < pool.maximum]
    assert [pool for pool, _ in plan] == growing
    assert all(pool.minimum <= size <= pool.maximum for pool, size in plan)
    wanted = sum(pool.maximum for pool in growing)
    assert sum(size for _, size in plan) == min(wanted, available + sum(pool.minimum for pool in growing))


@given(pools=st.lists(shares(), max_size=12), data=st.data())
def test_a_sum_of_maxima_that_fits_gives_everybody_the_maximum(
    pools: list[Share], data: st.DataObject
) -> None:
    bounded = [pool for pool in pools if pool.minimum < pool.maximum < UNBOUNDED]
    missing = sum(pool.maximum - pool.minimum for pool in bounded)
    available = missing + data.draw(st.integers(0, 100))
    assert plan_sizes(bounded, available) == [(pool, pool.maximum) for pool in bounded]


def test_shares_are_in_proportion_to_what_is_expected() -> None:
    small, large = Share(1, UNBOUNDED, 10), Share(1, UNBOUNDED, 30)
    assert plan_sizes([small, large], 38) == [(small, 10), (large, 30)]


def test_what_one_pool_cannot_take_goes_to_the_others() -> None:
    capped, free = Share(1, 5, 50), Share(1, UNBOUNDED, 50)
    assert plan_sizes([capped, free], 18) == [(capped, 5), (free, 15)]


def test_the_last_in_turn_gets_what_is_left() -> None:
    capped, first, last = Share(1, 4, 50), Share(1, UNBOUNDED, 50), Share(1, UNBOUNDED, 50)
    assert [size for _, size in plan_sizes([capped, first, last], 18)] == [4, 9, 8]


def test_what_a_minimum_takes_too_much_is_taken_from_the_others() -> None:
    entitled, other = Share(12, UNBOUNDED, 1), Share(2, UNBOUNDED, 9)
    assert plan_sizes([entitled, other], 6) == [(entitled, 12), (other, 8)]


def test_nothing_left_means_the_minimum() -> None:
    pools = [Share(2, 9, 100), Share(3, UNBOUNDED, 1)]
    assert plan_sizes(pools, 0) == [(pools[0], 2), (pools[1], 3)]


def test_fixed_pools_are_not_in_the_plan() -> None:
    fixed, growing = Share(4, 4, 4), Share(1, 2, 1)
    assert plan_sizes([fixed], 10) == []
    assert plan_sizes([fixed, growing], 10) == [(growing, 2)]
