"""How a budget is shared among convex costs: against scipy's optima, and by the rules of Kuhn and Tucker."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from integration.analysis.sizing.allocation import (
    BudgetTooSmall,
    ConvexHull,
    Curve,
    Many,
    Shares,
    allocate,
)

NEAR = 1e-3


@dataclass(frozen=True)
class Hyperbola:
    """``a / x + b * x``: what too few buffers cost, and what waits in many."""

    a: float
    b: float
    floor: float
    ceiling: float

    def at(self, amount: float) -> float:
        return self.a / amount + self.b * amount

    def slope(self, amount: float) -> float:
        return self.b - self.a / amount**2 if amount < self.ceiling else math.inf

    def where(self, slope: float) -> float:
        return math.sqrt(self.a / (self.b - slope)) if self.b > slope else self.ceiling


def some_hyperbolas(chance: Random) -> list[Curve]:
    curves: list[Curve] = []
    for _ in range(chance.randint(2, 6)):
        floor = chance.uniform(0.5, 5)
        ceiling = floor * chance.uniform(1, 20)
        curves.append(Hyperbola(chance.uniform(1, 100), chance.uniform(0, 2), floor, ceiling))
    return curves


def some_hulls(chance: Random) -> list[ConvexHull]:
    hulls = []
    for _ in range(chance.randint(1, 8)):
        amounts = sorted(chance.sample(range(1, 200), chance.randint(1, 6)))
        hulls.append(ConvexHull.of([(amount, chance.uniform(1, 100)) for amount in amounts]))
    return hulls


def some_budget(curves: Sequence[Curve], chance: Random) -> float:
    least, most = sum(curve.floor for curve in curves), sum(curve.ceiling for curve in curves)
    return least + chance.uniform(0, 1.1) * (most - least) + 1e-9 * least


def smooth_optimum(curves: Sequence[Curve], budget: float) -> float:
    """What SLSQP finds."""
    low = np.array([curve.floor for curve in curves])
    high = np.array([curve.ceiling for curve in curves])
    spare = budget - low.sum()
    start = low + (high - low) * min(1.0, spare / max(1e-9, (high - low).sum()))
    a, b = (np.array([getattr(curve, name) for curve in curves]) for name in "ab")
    found = minimize(
        lambda x: float((a / x + b * x).sum()),
        start,
        jac=lambda x: b - a / x**2,
        method="SLSQP",
        bounds=list(zip(low, high, strict=True)),
        constraints=[{"type": "ineq", "fun": lambda x: budget - x.sum(), "jac": lambda x: -np.ones(len(x))}],
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    return float(found.fun)


def straight_optimum(hulls: Sequence[ConvexHull], budget: float) -> float:
    """What linear programming finds: each amount is a mixture of the corners of its hull."""
    costs = [cost for hull in hulls for _, cost in hull.corners]
    sizes = [amount for hull in hulls for amount, _ in hull.corners]
    mixtures = np.zeros((len(hulls), len(costs)))
    first = 0
    for row, hull in enumerate(hulls):
        mixtures[row, first : first + len(hull.corners)] = 1
        first += len(hull.corners)
    found = linprog(costs, A_ub=[sizes], b_ub=[budget], A_eq=mixtures, b_eq=np.ones(len(hulls)))
    assert found.success, found.message
    return float(found.fun)


def holds(curves: Sequence[Curve], budget: float, shares: Shares) -> bool:
    """Whether no constraint is violated, by more than the last bits of a sum."""
    inside = all(
        curve.floor <= amount <= curve.ceiling for curve, amount in zip(curves, shares.amounts, strict=True)
    )
    return inside and shares.total <= budget * (1 + 1e-12)


def test_smooth_costs_come_to_what_scipy_finds() -> None:
    chance = Random(1)
    for _ in range(500):
        curves = some_hyperbolas(chance)
        budget = some_budget(curves, chance)
        shares = allocate(curves, budget)
        assert holds(curves, budget, shares)
        assert shares.cost == pytest.approx(smooth_optimum(curves, budget), rel=NEAR)


def test_straight_costs_come_to_what_linear_programming_finds() -> None:
    chance = Random(2)
    for _ in range(500):
        hulls = some_hulls(chance)
        budget = some_budget(hulls, chance)
        shares = allocate(hulls, budget)
        assert holds(hulls, budget, shares)
        assert shares.cost == pytest.approx(straight_optimum(hulls, budget), rel=NEAR)


@given(st.integers(0, 10**6))
def test_the_price_is_what_a_further_unit_saves_and_those_named_would_get_it(seed: int) -> None:
    chance = Random(seed)
    curves = some_hulls(chance)
    budget, little = some_budget(curves, chance), 1e-4
    shares = allocate(curves, budget)
    more = allocate(curves, budget + little)
    assert (shares.cost - more.cost) / little == pytest.approx(shares.price, rel=1e-3, abs=1e-6)
    assert bool(shares.gaining) == (shares.price > 0)
    for number in shares.gaining:
        assert -curves[number].slope(shares.amounts[number]) == pytest.approx(shares.price, rel=1e-5)


@given(st.integers(0, 10**6))
def test_nobody_could_give_to_another_and_both_be_better_off(seed: int) -> None:
    chance = Random(seed)
    curves = some_hyperbolas(chance)
    budget = some_budget(curves, chance)
    shares = allocate(curves, budget)
    for curve, amount in zip(curves, shares.amounts, strict=True):
        saved = -curve.slope(amount)
        if amount > curve.floor * (1 + 1e-6):
            assert saved >= shares.price - 1e-6 * (1 + shares.price) or amount == curve.ceiling
        if amount < curve.ceiling:
            assert saved <= shares.price + 1e-6 * (1 + shares.price)


def test_more_than_is_of_use_is_left() -> None:
    hulls = [ConvexHull.of([(1, 9), (3, 1), (5, 1), (9, 4)]), ConvexHull.of([(2, 2), (4, 3)])]
    assert allocate(hulls, 100) == Shares((3, 2), 3, 0, ())


def test_a_budget_below_the_floors_is_refused_with_what_they_come_to() -> None:
    with pytest.raises(BudgetTooSmall) as refused:
        allocate([ConvexHull.of([(3, 1), (5, 0)]), ConvexHull.of([(4, 1)])], 6.5)
    assert refused.value.least == 7


def test_straight_pieces_of_one_slope_share_what_is_left_and_all_are_named() -> None:
    hulls = [ConvexHull.of([(0, 8), (4, 0)]), ConvexHull.of([(0, 4), (2, 0)])]
    shares = allocate(hulls, 3)
    assert shares.amounts == pytest.approx((2, 1))
    assert shares.price == pytest.approx(2)
    assert shares.gaining == (0, 1)


@given(st.dictionaries(st.integers(0, 50), st.integers(0, 50), min_size=1))
def test_a_hull_is_convex_lies_under_its_points_and_says_how_far_one_is_above(
    costs: dict[int, int],
) -> None:
    points = list(costs.items())
    hull = ConvexHull.of(points)
    slopes = [hull.slope(amount) for amount, _ in hull.corners[:-1]]
    assert all(slope < following for slope, following in pairwise(slopes))
    above = [cost - hull.at(amount) for amount, cost in points]
    assert min(above) >= -1e-9
    assert max(above) == pytest.approx(hull.lift)
    assert set(hull.corners) <= set(points)
    assert (hull.floor, hull.ceiling) == (min(points)[0], max(points)[0])


def test_a_cost_of_several_alike_is_counted_once_and_their_memory_as_often_as_they_are() -> None:
    one = ConvexHull.of([(1, 9), (3, 1)])
    four = Many(one, 4)
    assert (four.floor, four.ceiling, four.at(8), four.slope(8), four.where(-1.0)) == (4, 12, 5, -1, 4)
    assert allocate([four], 8).amounts == (8,)
