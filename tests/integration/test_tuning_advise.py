"""The way from a scenario to advice, by runs whose figures are made up: windows, growth, comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import pytest

from integration.tuning.advise import MOST_GROWTH, PROBE_SEEDS, SEEDS, Advice, advise
from integration.tuning.axes import read_axes
from integration.tuning.constraints import Constraints
from integration.tuning.durations import LEAST_CHECKPOINTS, MOST_WINDOW_S, lengthened, seconds_for
from integration.tuning.measures import Measures
from integration.tuning.point_rows import PointRow
from integration.tuning.points import Grid, Point, probes_of
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
        interval_s = scenario.config.checkpoint_interval_s or 1e9
        return PointRow(
            key=point.key,
            name=point.name,
            labels=point.labels,
            seed=point.seed,
            probe=point.probe,
            status="finished",
            wall_seconds=1.0,
            versions={},
            measures=Measures(
                end_to_end_ms=time_ms,
                end_to_end_p95_ms=time_ms,
                throughput_per_s=rate,
                checkpoints_completed=int((end - begin) / max(interval_s, time_ms / 1e3)),
            ),
        )


def usual(name: str, seed: int) -> tuple[float, float]:
    return {"off": 6000.0, "0.1 s": 200.0, "0.3 s": 400.0, "1 s": 2000.0}[name] + seed, 400.0


def advised(cluster: Cluster, scenario: Scenario = SCENARIO, **limits: float) -> Advice:
    return advise(scenario, AXES, Constraints(**limits), cluster)


def test_windows_grow_until_the_slowest_setting_has_enough_checkpoints() -> None:
    cluster = Cluster(usual)
    found = advised(cluster)
    begin, end = found.scenario.windows[-1]
    assert (begin, end) == (20.0, found.scenario.duration_s)
    assert end - begin >= 6.0 * LEAST_CHECKPOINTS
    (one,) = found.recommendations
    assert one.verdict == "set"
    assert all(summary.fewest_checkpoints >= LEAST_CHECKPOINTS for summary in one.settings if summary.seeds)  # type: ignore[operator]
    assert [why for why, _ in cluster.calls] == ["trying", "trying", "tuning", "seeds 6 on, to decide"]
    lengths = {point.document["duration"] for point in cluster.calls[2][1] if point.probe == "main"}
    assert len(lengths) == 1


def test_what_was_tried_is_not_run_again() -> None:
    cluster = Cluster(usual)
    advised(cluster)
    tried = {point.key for why, points in cluster.calls if why == "trying" for point in points}
    assert not tried & {point.key for _, points in cluster.calls[2:] for point in points}


def test_what_is_chosen_is_confirmed_by_as_many_seeds_again() -> None:
    def lucky(name: str, seed: int) -> tuple[float, float]:
        time_ms, rate = usual(name, seed)
        return time_ms, rate * (0.97 if name == "0.1 s" and seed > SEEDS else 1.0)

    cluster = Cluster(lucky)
    (found,) = advised(cluster).recommendations
    assert found.chosen == "1 s"
    assert {(setting_of(point), point.seed) for point in cluster.calls[3][1]} == {
        (setting, seed) for setting in ("off", "100 ms") for seed in range(6, 11)
    }


def test_the_time_is_reckoned_by_what_was_tried() -> None:
    """A shorter target has more buffers: about a + b / target; what was tried is not counted again."""

    def row(point: Point) -> PointRow:
        target = point.labels.get("target")
        seconds = 2.0 + (0.0 if target is None else 0.1 / parse_flink_duration(target))
        return msgspec.structs.replace(Cluster(usual)._row(point), wall_seconds=seconds)

    points = Grid(AXES, 2).points(SCENARIO, lambda scenario: probes_of(scenario, ("main", "baseline")))
    tried = [row(point) for point in points if point.seed == 1 and point.labels.get("target") != "1 s"]
    assert seconds_for(points, tried) == pytest.approx(2.1 * 2 + 3.0 + 2.0)
    assert seconds_for(points, []) is None


def test_windows_of_fast_checkpoints_stay_as_they_are() -> None:
    found = advised(Cluster(lambda name, seed: (100.0, 400.0)))
    assert found.scenario == SCENARIO


def test_windows_do_not_grow_where_that_brings_no_more_checkpoints() -> None:
    class Stuck(Cluster):
        def _row(self, point: Point) -> PointRow:
            row = super()._row(point)
            return replace_measures(row, checkpoints_completed=3)

    cluster = Stuck(usual)
    assert advised(cluster).scenario == SCENARIO
    assert [why for why, _ in cluster.calls].count("trying") == 2


def test_windows_have_an_end() -> None:
    endless = Cluster(lambda name, seed: (500_000.0, 400.0))
    begin, end = advised(endless).scenario.windows[-1]
    assert end - begin <= MOST_WINDOW_S


def replace_measures(row: PointRow, **values: int) -> PointRow:
    assert row.measures is not None
    return msgspec.structs.replace(row, measures=msgspec.structs.replace(row.measures, **values))


def test_a_window_that_is_a_phase_grows_with_the_run() -> None:
    phased = replace(SCENARIO, phases=((20.0, 30.0), (30.0, 60.0)))
    assert lengthened(phased, 15.0).phases == ((20.0, 30.0), (30.0, 75.0))
    assert lengthened(phased, 15.0).duration_s == 75.0


def test_what_is_set_now_is_among_the_points_and_is_compared_with() -> None:
    config = with_options(SCENARIO.config, {"debloat_enabled": True, "debloat_target_s": 0.3})
    (found,) = advised(Cluster(usual), replace(SCENARIO, config=config)).recommendations
    assert [one.target for one in found.settings] == ["off", "100 ms", "300 ms", "1 s"]
    assert found.current == "300 ms"
    assert (found.verdict, found.chosen) == ("set", "100 ms")
    assert "instead of 406 ms" in found.words[0]


def doubtful(name: str, seed: int) -> tuple[float, float]:
    """A target of 100 ms is at the limit with the first seeds, and keeps to it with the later ones."""
    time_ms, rate = usual(name, seed)
    return time_ms, rate * (0.98 if name == "0.1 s" and seed in (2, 4) else 1.0)


def test_more_seeds_are_run_of_what_is_open_and_of_what_it_is_compared_with() -> None:
    cluster = Cluster(doubtful)
    (found,) = advised(cluster).recommendations
    more = cluster.calls[3][1]
    assert {point.seed for point in more} == {6, 7, 8, 9, 10}
    assert {(point.probe, point.labels.get("target")) for point in more} == {
        ("baseline", None),
        ("main", "100 ms"),
        ("main", "1 s"),
    }
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


def test_probes_have_few_seeds_and_the_windows_they_had() -> None:
    cluster = Cluster(usual)
    advised(cluster)
    probes = [point for point in cluster.calls[2][1] if point.probe in ("unaligned", "step")]
    assert {point.seed for point in probes} == set(range(1, PROBE_SEEDS + 1))
    assert {point.document["duration"] for point in probes} == {"60 s"}
