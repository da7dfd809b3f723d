"""The way from a scenario to advice, by runs whose figures are made up: seeds, probes, comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import pytest

from integration.tuning.advise import FIRST_SEEDS, MOST_GROWTH, PROBE_SEEDS, SEEDS, Advice, advise
from integration.tuning.axes import read_axes
from integration.tuning.constraints import Constraints
from integration.tuning.durations import seconds_for
from integration.tuning.measures import Measures
from integration.tuning.point_rows import PointRow
from integration.tuning.points import Grid, Point, probes_of
from integration.tuning.settling import LEAST_CHECKPOINTS
from integration.tuning.summaries import setting_of
from netstack import (
    Edge,
    GeneratorSpec,
    NetworkConfig,
    Scenario,
    Vertex,
    parse_flink_duration,
    read_scenario,
    with_options,
)

SCENARIO = Scenario(
    name="made-up",
    duration_s=60.0,
    warmup_s=20.0,
    vertices=(
        Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
        Vertex(name="sink", service=((0.0, 0.001),)),
    ),
    edges=(Edge(source="source", target="sink"),),
    config=NetworkConfig(checkpoint_interval_s=2.0),
)
AXES = read_axes(target="100ms,1s")

Figures = Callable[[str, int], tuple[float, float]]
"""Checkpoint time in ms and throughput of a setting, with a seed."""


def setting(scenario: Scenario) -> str:
    config = scenario.config
    return f"{config.debloat_target_s:g} s" if config.debloat_enabled else "off"


class Cluster:
    """Runs points: takes note of them, and gives each the figures that it is told to."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self.calls: list[tuple[str, list[Point]]] = []

    def __call__(self, points: Sequence[Point], known: Sequence[PointRow], why: str) -> list[PointRow]:
        there = {row.key: row for row in known}
        self.calls.append((why, [point for point in points if point.key not in there]))
        return [there.get(point.key) or self._row(point) for point in points]

    def _row(self, point: Point) -> PointRow:
        scenario = read_scenario(point.document)
        time_ms, rate = self.figures(setting(scenario), point.seed)
        begin, end = scenario.windows[-1]
        every_s = max(scenario.config.checkpoint_interval_s or 1e9, time_ms / 1e3)
        window_s = max(end - begin, LEAST_CHECKPOINTS * every_s)
        return PointRow(
            key=point.key,
            name=point.name,
            labels=point.labels,
            seed=point.seed,
            probe=point.probe,
            status="finished",
            wall_seconds=1.0,
            emulated_seconds=begin + window_s,
            versions={},
            measures=Measures(
                end_to_end_ms=time_ms,
                end_to_end_p95_ms=time_ms,
                throughput_per_s=rate,
                checkpoints_completed=int(window_s / every_s),
            ),
        )


def usual(name: str, seed: int) -> tuple[float, float]:
    return {"off": 6000.0, "0.1 s": 200.0, "0.3 s": 400.0, "1 s": 2000.0}[name] + seed, 400.0


def advised(cluster: Cluster, scenario: Scenario = SCENARIO, **limits: float) -> Advice:
    return advise(scenario, AXES, Constraints(**limits), cluster)


def points_of(cluster: Cluster, why: str) -> list[Point]:
    (points,) = (points for each, points in cluster.calls if each == why)
    return points


def places(points: Sequence[Point]) -> set[tuple[str, str, int]]:
    return {(setting_of(point), point.probe, point.seed) for point in points}


def test_where_the_first_seeds_agree_there_are_few_runs() -> None:
    cluster = Cluster(usual)
    (found,) = advised(cluster).recommendations
    assert (found.verdict, found.chosen) == ("set", "100 ms")
    assert [why for why, _ in cluster.calls] == [
        "trying",
        "tuning",
        "up to 5 seeds, to decide",
        "what else there is to say of the advice",
    ]
    main = [point for _, points in cluster.calls for point in points if point.probe in ("main", "baseline")]
    assert {
        setting: sum(setting_of(point) == setting for point in main) for setting in ("off", "100 ms", "1 s")
    } == {
        "off": SEEDS,
        "100 ms": SEEDS,
        "1 s": FIRST_SEEDS,
    }


def test_where_the_first_seeds_differ_there_are_more() -> None:
    def differing(name: str, seed: int) -> tuple[float, float]:
        time_ms, rate = usual(name, seed)
        return time_ms * (1.03 if name == "1 s" and seed == 2 else 1.0), rate

    cluster = Cluster(differing)
    advised(cluster)
    more = points_of(cluster, "seeds 4 on, where the first differ")
    assert places(more) == {("1 s", "main", 4), ("1 s", "main", 5)}


def test_the_advice_names_the_longest_run_that_was_needed() -> None:
    found = advised(Cluster(usual))
    begin, end = found.scenario.windows[-1]
    assert (begin, end) == (20.0, found.scenario.duration_s)
    assert end - begin >= 6.0 * LEAST_CHECKPOINTS
    assert advised(Cluster(lambda name, seed: (100.0, 400.0))).scenario == SCENARIO


def test_what_was_tried_is_not_run_again() -> None:
    cluster = Cluster(usual)
    advised(cluster)
    tried = {point.key for point in points_of(cluster, "trying")}
    assert tried
    assert not tried & {point.key for _, points in cluster.calls[1:] for point in points}


def test_what_is_chosen_is_confirmed_by_more_seeds() -> None:
    def lucky(name: str, seed: int) -> tuple[float, float]:
        time_ms, rate = usual(name, seed)
        return time_ms, rate * (0.97 if name == "0.1 s" and seed > FIRST_SEEDS else 1.0)

    cluster = Cluster(lucky)
    (found,) = advised(cluster).recommendations
    assert found.chosen == "1 s"
    assert places(points_of(cluster, "up to 5 seeds, to decide")) == {
        (setting, probe, seed)
        for setting, probe in (("off", "baseline"), ("100 ms", "main"))
        for seed in (4, 5)
    }


def test_what_is_chosen_by_runs_that_differ_is_confirmed_by_as_many_again() -> None:
    def differing(name: str, seed: int) -> tuple[float, float]:
        time_ms, rate = usual(name, seed)
        return time_ms * (1.0 + 0.02 * (seed % 3)), rate

    cluster = Cluster(differing)
    (found,) = advised(cluster).recommendations
    assert (found.chosen, len(found.advised.seeds)) == ("100 ms", 2 * SEEDS)


def test_the_time_is_reckoned_by_what_was_tried() -> None:
    """A shorter target has more buffers: an emulated second takes about a + b / target.

    A run is as long as that of the nearest target that was tried, and what was tried is not counted again.
    """

    def row(point: Point) -> PointRow:
        target = point.labels.get("target")
        seconds = 2.0 + (0.0 if target is None else 0.1 / parse_flink_duration(target))
        ran_s = 200.0 if target is None else 100.0
        made_up = Cluster(usual)._row(point)
        return msgspec.structs.replace(made_up, wall_seconds=seconds * ran_s, emulated_seconds=ran_s)

    points = Grid(AXES, 2).points(SCENARIO, lambda scenario: probes_of(scenario, ("main", "baseline")))
    tried = [row(point) for point in points if point.seed == 1 and point.labels.get("target") != "1 s"]
    assert seconds_for(points, tried) == pytest.approx((2.1 + 2.1 + 3.0) * 100 + 2.0 * 200)
    assert seconds_for(points, []) is None


def test_what_is_set_now_is_among_the_points_and_is_compared_with() -> None:
    config = with_options(SCENARIO.config, {"debloat_enabled": True, "debloat_target_s": 0.3})
    (found,) = advised(Cluster(usual), replace(SCENARIO, config=config)).recommendations
    assert [one.target for one in found.settings] == ["off", "100 ms", "300 ms", "1 s"]
    assert found.current == "300 ms"
    assert (found.verdict, found.chosen) == ("set", "100 ms")
    assert "instead of 403 ms" in found.words[0]


def doubtful(name: str, seed: int) -> tuple[float, float]:
    """A target of 100 ms is at the limit with the first seeds, and keeps to it with the later ones."""
    time_ms, rate = usual(name, seed)
    return time_ms, rate * (0.98 if name == "0.1 s" and seed in (2, 4) else 1.0)


def test_more_seeds_are_run_of_what_is_open_and_of_what_it_is_compared_with() -> None:
    cluster = Cluster(doubtful)
    (found,) = advised(cluster).recommendations
    more = points_of(cluster, "up to 10 seeds, to decide")
    assert {point.seed for point in more} >= {6, 7, 8, 9, 10}
    assert {setting_of(point) for point in more} == {"off", "100 ms", "1 s"}
    assert (found.chosen, found.undecided) == ("100 ms", [])


def test_what_stays_open_is_said_with_what_would_decide_it() -> None:
    def on_the_limit(name: str, seed: int) -> tuple[float, float]:
        time_ms, rate = usual(name, seed)
        return time_ms, rate * ((1.0, 0.979)[seed % 2] if name == "0.1 s" else 1.0)

    cluster = Cluster(on_the_limit)
    (found,) = advised(cluster).recommendations
    assert (found.chosen, found.undecided) == ("1 s", ["100 ms"])
    assert max(point.seed for _, points in cluster.calls for point in points) == SEEDS * MOST_GROWTH
    assert any(
        "With a target of 100 ms, 20 seeds do not decide whether min-throughput" in word
        for word in found.words
    )


def test_probes_have_one_seed_and_those_of_the_advice_more() -> None:
    cluster = Cluster(usual)
    advised(cluster)
    others = ("unaligned", "step")
    first = [point for point in points_of(cluster, "tuning") if point.probe in others]
    assert places(first) == {(target, probe, 1) for target in ("100 ms", "1 s") for probe in others}
    last = points_of(cluster, "what else there is to say of the advice")
    assert places(last) == {("100 ms", probe, seed) for probe in others for seed in range(2, PROBE_SEEDS + 1)}
