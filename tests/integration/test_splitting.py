"""How the memory of task managers is split over places that they share."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from integration.analysis.sizing.allocation import ConvexHull
from integration.analysis.sizing.splitting import (
    Counts,
    TaskManagerTooSmall,
    Worth,
    buffers_of,
    least_buffers,
    split,
)

FALLING = ConvexHull.of([(2, 100), (4, 50), (8, 10)])
GENTLE = ConvexHull.of([(1, 30), (5, 10), (9, 12)])


def some_places(chance: Random, *, slots_in_turn: bool) -> tuple[list[ConvexHull], Counts, int]:
    curves, counts = [], []
    for _ in range(chance.randint(1, 6)):
        amounts = sorted(chance.sample(range(1, 60), chance.randint(1, 5)))
        curves.append(ConvexHull.of([(amount, chance.uniform(1, 100)) for amount in amounts]))
        first = chance.randint(1, 4)
        second = chance.randint(0, first) if slots_in_turn else chance.randint(0, 4)
        counts.append({"tm-1": first} | ({"tm-2": second} if second else {}))
    least = max(least_buffers(curves, counts).values())
    return curves, counts, least + chance.randint(0, 200)


@given(st.integers(0, 10**6), st.booleans())
def test_every_task_manager_has_room_for_the_split_and_no_place_is_below_its_least(
    seed: int, slots_in_turn: bool
) -> None:
    curves, counts, budget = some_places(Random(seed), slots_in_turn=slots_in_turn)
    sizes = split(curves, counts, budget).sizes
    assert max(buffers_of(sizes, counts).values()) <= budget
    assert all(curve.floor <= size <= curve.ceiling for curve, size in zip(curves, sizes, strict=True))


def test_slots_that_are_filled_in_turn_are_split_as_linear_programming_does() -> None:
    """But for whole buffers: the optimum is that of a budget one buffer of every place smaller, or better."""
    chance = Random(3)
    for _ in range(200):
        curves, counts, budget = some_places(chance, slots_in_turn=True)
        sizes = split(curves, counts, budget).sizes
        cost = sum(curve.at(size) for curve, size in zip(curves, sizes, strict=True))
        rounding = sum(each["tm-1"] for each in counts)
        assert cost >= optimum(curves, counts, budget) * (1 - 1e-6)
        if budget - rounding >= max(least_buffers(curves, counts).values()):
            assert cost <= optimum(curves, counts, budget - rounding) * (1 + 1e-6)


def optimum(curves: list[ConvexHull], counts: Counts, budget: int) -> float:
    """What linear programming finds under the budgets of both task managers."""
    corners = [(place, *corner) for place, curve in enumerate(curves) for corner in curve.corners]
    one = np.array([[place == corner[0] for corner in corners] for place in range(len(curves))], dtype=float)
    used = [
        [counts[place].get(name, 0) * amount for place, amount, _ in corners] for name in ("tm-1", "tm-2")
    ]
    costs = [cost for *_, cost in corners]
    found = linprog(costs, A_ub=used, b_ub=[budget, budget], A_eq=one, b_eq=np.ones(len(curves)))
    assert found.success, found.message
    return float(found.fun)


def test_it_is_told_what_a_further_buffer_saves_and_where() -> None:
    apart = split([FALLING, GENTLE], [{"tm-1": 2}, {"tm-2": 3}], 10)
    assert apart.sizes == (5, 3)
    assert apart.worth == (
        Worth(("tm-1",), pytest.approx(10 / 2), (0,)),
        Worth(("tm-2",), pytest.approx(5 / 3), (1,)),
    )
    together = split([FALLING, GENTLE], [{"tm-1": 1, "tm-2": 1}] * 2, 7)
    assert together.sizes == (6, 1)
    assert together.worth == (Worth(("tm-1", "tm-2"), pytest.approx(10), (0,)),)


def test_where_another_task_manager_holds_a_place_back_more_brings_nothing() -> None:
    crowded = split([FALLING], [{"tm-1": 3, "tm-2": 2}], 12)
    assert crowded.sizes == (4,)
    assert crowded.worth == (Worth(("tm-1",), pytest.approx(10 / 3), (0,)), Worth(("tm-2",), 0.0, ()))


def test_enough_is_enough() -> None:
    assert split([FALLING, GENTLE], [{"a": 1}, {"a": 1}], 1000) == ((8, 5), (Worth(("a",), 0.0, ()),))


def test_the_task_manager_that_needs_most_is_named() -> None:
    with pytest.raises(TaskManagerTooSmall) as refused:
        split([FALLING, GENTLE], [{"a": 2, "b": 4}, {"b": 1}], 3)
    assert (refused.value.task_manager, refused.value.least) == ("b", 9)


def test_the_greatest_remainder_is_rounded_up() -> None:
    """A quarter of the way both cost as much: at 3.25 and 1.75."""
    long, short = ConvexHull.of([(1, 10), (10, 1)]), ConvexHull.of([(1, 5), (4, 2)])
    assert split([long, short], [{"a": 1}] * 2, 5).sizes == (3, 2)
