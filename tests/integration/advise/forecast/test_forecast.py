"""The forecast of a small job, from its scenario to its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from integration.advise.forecast.forecast import Forecast, forecast
from integration.advise.sweeps.point_rows import PointRow
from integration.advise.sweeps.point_runs import run_point
from integration.advise.sweeps.points import Point
from integration.advise.tune.settings import NOW
from integration.base.errors import UsageError
from netstack import Edge, Machine, Vertex
from tests.integration.advise.tune.paced_job import JOB, LIMIT, UNLIMITED

LOADS = (0.5, 1.0, 3.0)

BURNING = replace(
    JOB,
    vertices=(JOB.vertices[0], replace(JOB.vertices[1], service_mode="burn")),
    machines=(Machine(cores=1, task_managers=("orders", "work")),),
)
"""The job, if its work takes a core, which the source uses as well."""

seen: list[str] = []


def here(points: Sequence[Point], why: str) -> list[PointRow]:
    """Run points in this process."""
    seen.extend(point.key for point in points)
    return [run_point(point) for point in points]


@pytest.fixture(scope="module")
def made() -> Forecast:
    seen.clear()
    return forecast(JOB, here, loads=LOADS, down_s=20.0, if_cpu_bound=BURNING).forecast


def test_it_names_the_limit_and_the_recommended_setting(made: Forecast) -> None:
    assert made.now.headroom.limit == pytest.approx(LIMIT, rel=0.03)
    assert made.recommendation.verdict == "set"
    assert made.recommendation.headroom == made.now.headroom
    assert [curve.setting for curve in made.curves] == [NOW, made.recommendation.chosen]


def test_checkpoints_are_short_below_the_limit_and_long_there(made: Forecast) -> None:
    half, today, *_, limit, beyond = made.now.points
    assert (half.load, today.load, beyond.load) == (0.5, 1.0, 3.0)
    assert limit.load == pytest.approx(LIMIT, rel=0.03)
    assert half.keeps_up
    assert today.keeps_up
    assert not limit.keeps_up
    assert today.checkpoint_ms is not None
    assert limit.checkpoint_ms is not None
    assert limit.checkpoint_ms > 10 * today.checkpoint_ms
    assert beyond == msgspec.structs.replace(limit, load=3.0), "it takes no more"


def test_the_recommended_setting_shortens_them_at_the_limit_and_costs_nothing_today(made: Forecast) -> None:
    now, advised = made.now.points[-1], made.advised.points[-1]
    assert now.checkpoint_ms is not None
    assert advised.checkpoint_ms is not None
    assert advised.checkpoint_ms < now.checkpoint_ms / 2
    today = {curve.setting: next(each for each in curve.points if each.load == 1.0) for curve in made.curves}
    rates = [each.throughput_per_s for each in today.values()]
    assert rates[0] == pytest.approx(rates[1], rel=0.02)


def test_both_settings_catch_up(made: Forecast) -> None:
    assert [drill.setting for drill in made.restarts] == [NOW, made.recommendation.chosen]
    slow, fast = made.restarts
    assert slow.caught_up_s == pytest.approx(20.0 / (LIMIT - 1), rel=0.1)
    assert slow.checkpoint_ms is not None
    assert fast.checkpoint_ms is not None
    assert fast.checkpoint_ms < slow.checkpoint_ms / 2


def test_one_more_subtask_doubles_the_limit_of_one(made: Forecast) -> None:
    scaling = made.scaling
    assert scaling is not None
    assert (scaling.vertex, scaling.parallelism, scaling.autoscaler) == ("work", 1, 1)
    assert scaling.limit == pytest.approx(2 * LIMIT, rel=0.05)
    assert (scaling.slots, scaling.slots_after) == (1, 2)
    assert scaling.memory_bytes_after > scaling.memory_bytes


def test_no_point_runs_twice(made: Forecast) -> None:
    assert len(seen) == len({*seen})


def test_a_load_that_changes_has_no_single_headroom() -> None:
    stepping = replace(JOB.vertices[1], service=((0.0, 0.001), (10.0, 0.002)))
    with pytest.raises(UsageError, match="its load changes with time"):
        forecast(replace(JOB, vertices=(JOB.vertices[0], stepping)), here)


def test_it_has_the_limit_of_cpu_bound_work(made: Forecast) -> None:
    assert made.if_cpu_bound is not None
    assert made.if_cpu_bound.limit == pytest.approx(LIMIT, rel=0.1)


def test_a_job_without_a_rate_is_measured_by_what_it_emits_today() -> None:
    """The work of the second vertex takes almost as long, so one more subtask of the first gains little."""
    next_best = Vertex(name="after", service=((0.0, 0.0024),))
    edges = (*UNLIMITED.edges, Edge(source="work", target="after"))
    made = forecast(replace(UNLIMITED, vertices=(*UNLIMITED.vertices, next_best), edges=edges), here).forecast
    assert made.now.headroom.limit == 1.0
    assert made.scaling is not None
    assert (made.scaling.vertex, made.scaling.limiting) == ("work", "after")
    assert made.scaling.limit == pytest.approx(0.0025 / 0.0024, rel=0.03)
    assert made.scaling.autoscaler == 2, "it is always busy"
    assert [point.load for point in made.now.points if point.keeps_up] == [0.5]
