"""The split of a budget: within it, as good as an independent linear program, with multipliers that hold."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from integration.sizing.allocation import Curve, Pools, Worth, buffers_of, split

FALLING = Curve.below({2: 100, 4: 50, 8: 10})
GENTLE = Curve.below({1: 30, 5: 10, 9: 12})
NAMES = ("tm-1", "tm-2")


def some_places(chance: Random) -> tuple[list[Curve], Pools, int]:
    curves, pools = [], []
    for _ in range(chance.randint(1, 6)):
        sizes = sorted(chance.sample(range(1, 60), chance.randint(1, 5)))
        curves.append(Curve.below({size: chance.uniform(1, 100) for size in sizes}))
        numbers = chance.randint(1, 4), chance.randint(0, 4)
        pools.append({name: number for name, number in zip(NAMES, numbers, strict=True) if number})
    least = max(buffers_of([curve.least for curve in curves], pools).values())
    return curves, pools, least + chance.randint(0, 200)


def near(*worth: Worth) -> list[object]:
    return [(names, pytest.approx(saved), places) for names, saved, places in worth]


def cost_of(curves: list[Curve], sizes: list[int]) -> float:
    return sum(curve.at(size) for curve, size in zip(curves, sizes, strict=True))


def optimum(curves: list[Curve], pools: Pools, *budgets: float) -> float:
    """The least cost without whole numbers, if each size is a mixture of the corners of its curve."""
    corners = [(place, *corner) for place, curve in enumerate(curves) for corner in curve.corners]
    one = np.array([[place == corner[0] for corner in corners] for place in range(len(curves))], dtype=float)
    used = [[pools[place].get(name, 0) * size for place, size, _ in corners] for name in NAMES]
    costs = [cost for *_, cost in corners]
    found = linprog(costs, A_ub=used, b_ub=budgets, A_eq=one, b_eq=np.ones(len(curves)))
    assert found.success, found.message
    return float(found.fun)


@given(st.integers(0, 10**6))
def test_the_budget_is_never_exceeded_and_no_place_is_outside_its_curve(seed: int) -> None:
    curves, pools, budget = some_places(Random(seed))
    sizes, _ = split(curves, pools, budget)
    assert max(buffers_of(sizes, pools).values()) <= budget
    assert all(curve.least <= size <= curve.enough for curve, size in zip(curves, sizes, strict=True))


@given(st.integers(0, 10**6))
def test_a_split_is_never_worse_than_equal_sizes(seed: int) -> None:
    curves, pools, budget = some_places(Random(seed))
    sizes, _ = split(curves, pools, budget)
    for size in range(60):
        equal = [max(curve.least, size) for curve in curves]
        if max(buffers_of(equal, pools).values()) <= budget:
            assert cost_of(curves, sizes) <= cost_of(curves, equal) + 1e-6


@given(st.integers(0, 10**6))
def test_a_split_is_the_optimum_except_for_whole_numbers(seed: int) -> None:
    """One buffer of every place less is at least what rounding down costs."""
    curves, pools, budget = some_places(Random(seed))
    cost = cost_of(curves, split(curves, pools, budget)[0])
    assert cost >= optimum(curves, pools, budget, budget) - 1e-6
    rounded = budget - max(sum(each.get(name, 0) for each in pools) for name in NAMES)
    if rounded >= max(buffers_of([curve.least for curve in curves], pools).values()):
        assert cost <= optimum(curves, pools, rounded, rounded) + 1e-6


@given(st.integers(0, 10**6))
def test_no_single_buffer_more_would_fit_and_save(seed: int) -> None:
    curves, pools, budget = some_places(Random(seed))
    sizes, _ = split(curves, pools, budget)
    for place, (curve, size) in enumerate(zip(curves, sizes, strict=True)):
        more = [*sizes[:place], size + 1, *sizes[place + 1 :]]
        if size < curve.enough:
            assert max(buffers_of(more, pools).values()) > budget


@given(st.integers(0, 10**6))
def test_the_conditions_of_karush_kuhn_and_tucker_hold_except_for_whole_numbers(seed: int) -> None:
    """The multipliers bound the cost of all splits from below, and are 0 where the budget is not used up."""
    curves, pools, budget = some_places(Random(seed))
    _, worth = split(curves, pools, budget)
    assert min(each.saved for each in worth) >= 0
    prices = [sum(pool.get(each.task_managers[0], 0) * each.saved for each in worth) for pool in pools]
    bound = sum(
        min(cost + price * size for size, cost in curve.corners)
        for curve, price in zip(curves, prices, strict=True)
    )
    bound -= sum(each.saved * (budget + 0.5) for each in worth)
    assert bound == pytest.approx(optimum(curves, pools, budget + 0.5, budget + 0.5), rel=1e-6, abs=1e-5)
    enough = buffers_of([curve.enough for curve in curves], pools)
    for each in worth:
        assert bool(each.places) == (each.saved > 0)
        if enough[each.task_managers[0]] <= budget:
            assert each.saved == pytest.approx(0, abs=1e-6)
        for place in each.places:
            assert each.task_managers[0] in pools[place]


def test_the_effect_of_one_more_buffer_is_reported_with_its_place() -> None:
    sizes, worth = split([FALLING, GENTLE], [{"tm-1": 2}, {"tm-2": 3}], 10)
    assert sizes == [5, 3]
    assert worth == near(Worth(("tm-1",), 10 / 2, (0,)), Worth(("tm-2",), 5 / 3, (1,)))
    sizes, worth = split([FALLING, GENTLE], [{"tm-1": 1, "tm-2": 1}] * 2, 7)
    assert sizes == [6, 1]
    assert worth == near(Worth(("tm-1", "tm-2"), 10, (0,)))


def test_at_a_corner_the_multiplier_is_that_of_more_memory() -> None:
    assert split([FALLING], [{"tm": 1}], 4)[1] == near(Worth(("tm",), 10, (0,)))


def test_where_another_task_manager_holds_a_place_back_more_brings_nothing() -> None:
    sizes, worth = split([FALLING], [{"tm-1": 3, "tm-2": 2}], 12)
    assert sizes == [4]
    assert worth == near(Worth(("tm-1",), 10 / 3, (0,)), Worth(("tm-2",), 0.0, ()))


def test_more_than_is_of_use_is_left() -> None:
    assert split([FALLING, GENTLE], [{"a": 1}, {"a": 1}], 1000) == ([8, 5], [Worth(("a",), 0.0, ())])
    assert split([Curve.below({3: 7.0})], [{"a": 1}], 9) == ([3], [Worth(("a",), 0.0, ())])


def test_straight_pieces_of_one_slope_share_what_is_left_and_all_are_named() -> None:
    curves = [Curve.below({0: 8, 4: 0}), Curve.below({0: 4, 2: 0})]
    sizes, (worth,) = split(curves, [{"a": 1}, {"a": 1}], 3)
    assert sum(sizes) == 3
    assert cost_of(curves, sizes) == pytest.approx(6)
    assert [worth] == near(Worth(("a",), 2, (0, 1)))


@given(st.dictionaries(st.integers(0, 50), st.integers(0, 50), min_size=1))
def test_a_curve_is_convex_and_lies_under_its_points(costs: dict[int, int]) -> None:
    curve = Curve.below(costs)
    slopes = [(right[1] - left[1]) / (right[0] - left[0]) for left, right in pairwise(curve.corners)]
    assert all(slope < following for slope, following in pairwise([*slopes, 0.0]))
    assert all(cost - curve.at(size) >= -1e-9 for size, cost in costs.items())
    assert set(curve.corners) <= set(costs.items())
    assert curve.least == min(costs)
    assert curve.at(curve.enough) == min(costs.values())
