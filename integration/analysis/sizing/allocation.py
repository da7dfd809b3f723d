"""Shares a sum among convex costs so that they come to the least: water-filling.

To minimise ``sum cost_i(x_i)`` under ``sum x_i <= budget`` and ``floor_i <= x_i <= ceiling_i``, memory gets a
price (the multiplier of Lagrange). At a price each curve takes so much that a further unit would save less
than it costs, whatever the others do::

    slope_i(x_i) = -price     or x_i is at its floor, where it would save less, or at its ceiling

The higher the price, the less is taken; what all take together fits the budget at one price, which bisection
finds. At price 0 each is where its cost is least: if that fits, more memory brings nothing. Where a cost is
straight, several shares have one price, and the rest of the budget is split among them in one proportion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

Point = tuple[float, float]
"""An amount, and its cost."""

_HALVINGS = 200
_ALIKE = 1e-6
"""By which part two slopes may differ and count as one."""


class Curve(Protocol):
    """A convex cost of an amount between a floor and a ceiling."""

    @property
    def floor(self) -> float:
        """The least amount."""
        ...

    @property
    def ceiling(self) -> float:
        """The greatest amount."""
        ...

    def at(self, amount: float) -> float:
        """Return the cost of an amount."""
        ...

    def slope(self, amount: float) -> float:
        """Return what a little more would add to the cost; at the ceiling infinity."""
        ...

    def where(self, slope: float) -> float:
        """Return the least amount from which more adds at least `slope` to the cost."""
        ...


class Shares(NamedTuple):
    """How a budget is split: amounts in the order of the curves, and what they come to."""

    amounts: tuple[float, ...]
    cost: float
    price: float
    """What a further unit would save; 0: nothing."""
    gaining: tuple[int, ...]
    """The curves that would get a further unit."""

    @property
    def total(self) -> float:
        """The sum of all amounts."""
        return math.fsum(self.amounts)


class BudgetTooSmall(ValueError):  # noqa: N818 - it names what is wrong
    """The floors alone come to more than the budget; `least` is their sum."""

    def __init__(self, budget: float, least: float) -> None:
        super().__init__(f"the floors come to {least:g}, more than the budget of {budget:g}")
        self.least = least


def allocate(curves: Sequence[Curve], budget: float) -> Shares:
    """Return the amounts of least cost that together do not exceed a budget.

    Raises:
        BudgetTooSmall: the floors alone exceed it.
    """
    least = math.fsum(curve.floor for curve in curves)
    if least > budget:
        raise BudgetTooSmall(budget, least)
    low = 0.0
    taken = _taken(curves, low)
    if math.fsum(taken) <= budget:
        return _shares(curves, taken, 0.0)
    # From above the steepest slope at a floor on, all stay at their floors.
    high = max(0.0, *(-curve.slope(curve.floor) for curve in curves)) * 2 + 1
    fewer = [curve.floor for curve in curves]
    for _ in range(_HALVINGS):
        price = (low + high) / 2
        if not low < price < high:
            break
        now = _taken(curves, price)
        if math.fsum(now) > budget:
            low, taken = price, now
        else:
            high, fewer = price, now
    return _shares(curves, _between(fewer, taken, budget), high)


def _taken(curves: Sequence[Curve], price: float) -> list[float]:
    """What each takes at a price."""
    return [min(curve.ceiling, max(curve.floor, curve.where(-price))) for curve in curves]


def _between(fewer: Sequence[float], more: Sequence[float], budget: float) -> list[float]:
    """Amounts on the way from `fewer`, which fit a budget, to `more`, which do not, that just fit."""
    gap, room = math.fsum(more) - math.fsum(fewer), budget - math.fsum(fewer)
    part = room / gap if gap > 0 else 0.0
    return [few + part * (many - few) for few, many in zip(fewer, more, strict=True)]


def _shares(curves: Sequence[Curve], amounts: Sequence[float], price: float) -> Shares:
    slopes = [curve.slope(amount) for curve, amount in zip(curves, amounts, strict=True)]
    steepest = min(slopes, default=0.0)
    gaining = [number for number, slope in enumerate(slopes) if price and slope <= steepest * (1 - _ALIKE)]
    cost = math.fsum(curve.at(amount) for curve, amount in zip(curves, amounts, strict=True))
    return Shares(tuple(amounts), cost, price, tuple(gaining))


@dataclass(frozen=True, slots=True)
class ConvexHull:
    """The greatest convex cost nowhere above some points: straight between those that it touches."""

    corners: tuple[Point, ...]
    """From left to right; one of them where the amount is fixed."""
    lift: float
    """By how much a point lies above it at most; 0: the points themselves are convex."""

    @classmethod
    def of(cls, points: Sequence[Point]) -> ConvexHull:
        """Return that of points with different amounts.

        Raises:
            ValueError: there is no point.
        """
        if not points:
            raise ValueError("a hull needs at least one point")
        corners: list[Point] = []
        for point in sorted(points):
            while len(corners) > 1 and not _turns_left(corners[-2], corners[-1], point):
                corners.pop()
            corners.append(point)
        hull = cls(tuple(corners), 0.0)
        return cls(hull.corners, max(cost - hull.at(amount) for amount, cost in points))

    @property
    def floor(self) -> float:
        """The least amount."""
        return self.corners[0][0]

    @property
    def ceiling(self) -> float:
        """The greatest amount."""
        return self.corners[-1][0]

    def at(self, amount: float) -> float:
        """Return the cost of an amount; beyond an end, the cost there."""
        for (left, cost), (right, next_cost) in pairwise(self.corners):
            if amount < right:
                return cost + max(0.0, amount - left) / (right - left) * (next_cost - cost)
        return self.corners[-1][1]

    def slope(self, amount: float) -> float:
        """Return what a little more would add to the cost; at the ceiling infinity."""
        for corner, following in pairwise(self.corners):
            if amount < following[0]:
                return _steepness(corner, following)
        return math.inf

    def where(self, slope: float) -> float:
        """Return the least amount from which more adds at least `slope` to the cost."""
        for corner, following in pairwise(self.corners):
            if _steepness(corner, following) >= slope:
                return corner[0]
        return self.ceiling


@dataclass(frozen=True, slots=True)
class Many:
    """The cost of so many amounts that are all the same: each has its part of the sum."""

    curve: Curve
    count: int

    @property
    def floor(self) -> float:
        """The least sum."""
        return self.curve.floor * self.count

    @property
    def ceiling(self) -> float:
        """The greatest sum."""
        return self.curve.ceiling * self.count

    def at(self, amount: float) -> float:
        """Return the cost of a sum."""
        return self.curve.at(amount / self.count)

    def slope(self, amount: float) -> float:
        """Return what a little more of the sum would add to the cost; at the ceiling infinity."""
        return self.curve.slope(amount / self.count) / self.count

    def where(self, slope: float) -> float:
        """Return the least sum from which more adds at least `slope` to the cost."""
        return self.curve.where(slope * self.count) * self.count


def _turns_left(first: Point, second: Point, third: Point) -> bool:
    """Whether the way over three points gets steeper at the second."""
    return _steepness(first, second) < _steepness(second, third)


def _steepness(left: Point, right: Point) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])
