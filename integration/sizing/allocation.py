"""Split a budget of buffers over places with convex costs, by linear programming.

With sizes ``x``, costs ``f`` and, for each task manager, a number of pools of each place::

    minimise    sum over places  f(x)
    subject to  sum over places  pools * x  <=  budget     for each task manager
                least <= x <= enough,  x whole

A cost is straight between its corners, so a size is its least plus what is taken of each of these pieces,
and the problem is linear. HiGHS, the solver behind ``scipy.optimize.linprog``, solves it exactly: with whole
sizes for the plan, and without for the multipliers. The multiplier of a task manager is what one more buffer
in it saves. By the conditions of Karush, Kuhn and Tucker it is 0 where the budget is not used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

Pools = Sequence[Mapping[str, int]]
"""Numbers of pools in each task manager, one mapping for each place."""

_TINY = 1e-6
"""Relative difference below which numbers of the solver are equal."""


class Curve(NamedTuple):
    """Cost as a function of size: convex, falling, and straight between its corners."""

    corners: tuple[tuple[int, float], ...]
    """Sizes and their costs."""

    @classmethod
    def below(cls, points: Mapping[int, float]) -> Curve:
        """Return the lower convex hull of costs by size, up to the least cost; there is at least one."""
        corners: list[tuple[int, float]] = []
        for point in sorted(points.items()):
            if not corners or point[1] < corners[-1][1]:
                while len(corners) > 1 and _slope(*corners[-2:]) >= _slope(corners[-1], point):
                    corners.pop()
                corners.append(point)
        return cls(tuple(corners))

    @property
    def least(self) -> int:
        """The smallest size."""
        return self.corners[0][0]

    @property
    def enough(self) -> int:
        """The size beyond which the cost does not fall."""
        return self.corners[-1][0]

    def at(self, size: float) -> float:
        """Return the cost of a size; beyond an end that of the end."""
        for left, right in pairwise(self.corners):
            if size < right[0]:
                return left[1] + max(0.0, size - left[0]) * _slope(left, right)
        return self.corners[-1][1]


class Worth(NamedTuple):
    """Effect of one more buffer in each of the task managers that have the same pools."""

    task_managers: tuple[str, ...]
    saved: float
    """Reduction of the cost: the multiplier."""
    places: tuple[int, ...]
    """The places that would get it."""


def split(curves: Sequence[Curve], pools: Pools, budget: int) -> tuple[list[int], list[Worth]]:
    """Return the sizes of least cost with which no task manager needs more than the budget, in buffers.

    The smallest sizes must fit.
    """
    from scipy.optimize import linprog

    sizes = [curve.least for curve in curves]
    alike: dict[tuple[int, ...], list[str]] = {}
    for name in buffers_of(sizes, pools):
        alike.setdefault(tuple(each.get(name, 0) for each in pools), []).append(name)
    pieces = [(place, *each) for place, curve in enumerate(curves) for each in pairwise(curve.corners)]
    if not pieces:
        return sizes, [Worth(tuple(names), 0.0, ()) for names in alike.values()]
    costs = [_slope(left, right) for _, left, right in pieces]
    bounds = [(0, right[0] - left[0]) for _, left, right in pieces]
    needs = [[counts[place] for place, *_ in pieces] for counts in alike]
    used = buffers_of(sizes, pools)
    room = [budget - used[names[0]] for names in alike.values()]
    whole = linprog(costs, needs, room, bounds=bounds, integrality=1, options={"mip_rel_gap": 0.0})
    for (place, *_), taken in zip(pieces, whole.x, strict=True):
        sizes[place] += round(taken)
    # The multiplier jumps at a corner of a curve. Half a buffer more gives its value for more memory.
    relaxed = linprog(costs, needs, [each + 0.5 for each in room], bounds=bounds)
    least = _TINY * -min(costs)
    reduced_costs = relaxed.lower.marginals
    gaining = {
        place
        for (place, *_), taken, (_, most), cost in zip(pieces, relaxed.x, bounds, reduced_costs, strict=True)
        if taken < most - _TINY and cost <= least
    }
    worth = []
    for (counts, names), saved in zip(alike.items(), -relaxed.ineqlin.marginals, strict=True):
        places = tuple(place for place in sorted(gaining) if counts[place]) if saved > least else ()
        worth.append(Worth(tuple(names), float(saved) if places else 0.0, places))
    return sizes, worth


def buffers_of(sizes: Sequence[int], pools: Pools) -> dict[str, int]:
    """Return the buffers that each task manager needs for pools of these sizes."""
    used = dict.fromkeys((name for each in pools for name in each), 0)
    for size, each in zip(sizes, pools, strict=True):
        for name, count in each.items():
            used[name] += size * count
    return used


def _slope(left: tuple[int, float], right: tuple[int, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])
