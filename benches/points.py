"""The points of a case as pytest-benchmark runs them: the work of ``netstack bench``, in this process."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from integration import Point, chosen_points


def points_of(case: str) -> pytest.MarkDecorator:
    """Parametrize a function `point` by all points of a case; their names are those of the command line."""
    points = chosen_points([case])
    return pytest.mark.parametrize("point", points, ids=[point.name for point in points])


def measure(benchmark: BenchmarkFixture, point: Point) -> None:
    """Time the iterations of one fork.

    What pytest-benchmark shows is the time of this machine for a whole iteration. The score in the unit of
    the case, which for the emulated way goes by another clock, is in ``extra_info``.
    """
    effort = point.course.effort
    unit = point.case.unit
    scores, compared = list[float](), list[float]()
    with point.open(effort) as trial:

        def iterate() -> None:
            scores.append(unit.score(trial.operations, trial.iterate()))

        rounds, warmups = effort.repetitions, effort.warmups
        benchmark.pedantic(iterate, rounds=rounds, warmup_rounds=warmups)  # type: ignore[no-untyped-call]
        if trial.yardstick is not None:
            compared.append(unit.score(trial.operations, trial.yardstick()))
    kept = scores[-effort.repetitions :]
    benchmark.extra_info["unit"] = unit.name
    benchmark.extra_info["score"] = sum(kept) / len(kept)
    if compared:
        benchmark.extra_info[point.course.yardstick] = compared[0]
