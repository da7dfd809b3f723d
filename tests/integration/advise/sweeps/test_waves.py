"""Several series of waves run side by side."""

from __future__ import annotations

from collections.abc import Sequence

from integration.advise.sweeps.point_rows import PointRow, failed_row
from integration.advise.sweeps.points import Point, point_of
from integration.advise.sweeps.waves import Wave, Waves, run_side_by_side
from tests.integration.advise.tune.paced_job import JOB

calls: list[tuple[str, list[int]]] = []


def rows_of(points: Sequence[Point], why: str) -> list[PointRow]:
    """Rows of the points, which are told apart by their seeds."""
    calls.append((why, [point.seed for point in points]))
    return [failed_row(point, "not run") for point in points]


def counting(name: str, *sizes: int) -> Waves[list[int]]:
    """Waves of some sizes; returns the seeds of all rows."""
    seeds: list[int] = []
    for size in sizes:
        rows = yield Wave(name, [point_of(JOB, seed=10 * size + number) for number in range(size)])
        seeds += [row.seed for row in rows]
    return seeds


def test_each_gets_its_own_rows_and_their_waves_run_together() -> None:
    calls.clear()
    assert run_side_by_side([counting("a", 2, 1), counting("b", 3)], rows_of) == [[20, 21, 10], [30, 31, 32]]
    assert calls == [("a", [20, 21, 30, 31, 32]), ("a", [10])]


def test_one_that_needs_no_run_ends_at_once() -> None:
    calls.clear()
    assert run_side_by_side([counting("a"), counting("b", 1)], rows_of) == [[], [10]]
    assert run_side_by_side([counting("a")], rows_of) == [[]]
    assert calls == [("b", [10])]
