"""The way from a scenario to advice, by runs whose figures are made up: seeds, probes, comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import pytest

from integration.tuning.advise import (
    FEWEST_SEEDS,
    FIRST_SEEDS,
    MOST_GROWTH,
    PROBE_SEEDS,
    SEEDS,
    Advice,
    advise,
)
from integration.tuning.axes import read_axes
from integration.tuning.constraints import Constraints
from integration.tuning.durations import EXPENSIVE_BUFFERS, is_expensive, longest_first, seconds_for
from integration.tuning.measures import Measures
from integration.tuning.point_rows import PointRow
from integration.tuning.points import Grid, Point, Probe, probes_of
from integration.tuning.settling import LEAST_CHECKPOINTS
from integration.tuning.summaries import setting_of
from netstack import (
    Edge,
    GeneratorSpec,
    NetworkConfig,
    Scenario,
    Vertex,
    emulate,
    read_scenario,
    to_json,
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
        "unaligned checkpoints and a step of the load, for the advice",
    ]
    main = [point for _, points in cluster.calls for point in points if point.probe in ("main", "baseline")]
    assert Counter(map(setting_of, main)) == {"off": SEEDS, "100 ms": SEEDS, "1 s": FIRST_SEEDS}


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
    """A run takes as long as another of its setting; a step's lasts as long as its scenario says."""

    def row(point: Point) -> PointRow:
        wall_s = 7.0 if setting_of(point) == "off" else 10.0
        return msgspec.structs.replace(Cluster(usual)._row(point), wall_seconds=wall_s, emulated_seconds=30.0)

    def probes(scenario: Scenario) -> list[tuple[Probe, Scenario]]:
        return probes_of(scenario, ("main", "baseline", "step"))

    points = Grid(AXES, 2).points(SCENARIO, probes)
    tried = [row(point) for point in points if point.seed == 1 and point.probe != "step"]
    left = [point for point in points if point.seed == 2]
    assert Counter(point.probe for point in left) == {"main": 2, "baseline": 1, "step": 2}
    assert seconds_for(left, tried) == pytest.approx(2 * 10.0 + 7.0 + 2 * 10.0 * 60.0 / 30.0)
    assert seconds_for(left, [row for row in tried if setting_of(row) == "off"]) is None


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
    assert any(
        "With a target of 100 ms, 10 seeds do not decide whether min-throughput" in word
        for word in found.words
    )
    # what is on the limit is not run for long; what is chosen is confirmed all the same
    seeds = Counter(
        setting_of(point) for _, points in cluster.calls for point in points if point.probe == "main"
    )
    assert seeds["100 ms"] == 2 * SEEDS
    assert seeds["1 s"] >= SEEDS


def test_what_more_seeds_may_decide_gets_all_there_are() -> None:
    def near_the_limit(name: str, seed: int) -> tuple[float, float]:
        time_ms, rate = usual(name, seed)
        return time_ms, rate * ((1.0, 0.987)[seed % 2] if name == "0.1 s" else 1.0)

    cluster = Cluster(near_the_limit)
    (found,) = advised(cluster).recommendations
    assert (found.chosen, found.undecided) == ("100 ms", [])
    assert max(point.seed for _, points in cluster.calls for point in points) == SEEDS * MOST_GROWTH


def test_what_may_follow_is_told_with_all_rounds() -> None:
    told: list[tuple[Sequence[Point], Sequence[Point]]] = []
    cluster = Cluster(doubtful)
    advise(
        SCENARIO,
        AXES,
        Constraints(),
        cluster,
        planned=lambda _, least, most, rows: told.append((least, most)),
    )
    ((least, most),) = told
    ran = [point for why, points in cluster.calls if why != "trying" for point in points]
    assert {point.key for point in least} <= {point.key for point in ran} <= {point.key for point in most}
    assert len(least) < len(ran) < len(most)


def test_probes_have_one_seed_and_those_of_the_advice_more() -> None:
    cluster = Cluster(usual)
    advised(cluster)
    others = ("unaligned", "step")
    first = [point for point in points_of(cluster, "tuning") if point.probe in others]
    assert places(first) == {(target, probe, 1) for target in ("100 ms", "1 s") for probe in others}
    last = points_of(cluster, "unaligned checkpoints and a step of the load, for the advice")
    assert places(last) == {("100 ms", probe, seed) for probe in others for seed in range(2, PROBE_SEEDS + 1)}


LADDER = read_axes(target="100ms,200ms,300ms,500ms,1s,2s")


def ladder(shares: dict[str, float], **limits: float) -> tuple[Cluster, Advice]:
    """Advice where targets leave these shares of the throughput, and all of it where none is named."""

    def figures(name: str, seed: int) -> tuple[float, float]:
        time_ms = 6000.0 if name == "off" else 1000 * float(name.split()[0])
        return time_ms, 400.0 * shares.get(name, 1.0)

    cluster = Cluster(figures)
    return cluster, advise(SCENARIO, LADDER, Constraints(**limits), cluster)


def test_the_longest_targets_are_tried_first_two_at_a_time() -> None:
    cluster, _ = ladder({})
    tried = [[setting_of(point) for point in points] for why, points in cluster.calls if why == "trying"]
    assert list(map(set, tried)) == [{"off", "2 s", "1 s"}, {"500 ms", "300 ms"}, {"200 ms", "100 ms"}]


def test_a_target_that_clearly_costs_too_much_is_the_last() -> None:
    cluster, (_, _, (found,)) = ladder({"0.5 s": 0.9, "0.3 s": 0.8})
    settings = Counter(setting_of(point) for _, points in cluster.calls for point in points)
    assert settings.keys() == {"off", "2 s", "1 s", "500 ms", "300 ms"}
    assert settings["500 ms"] == settings["300 ms"] == 1, "nothing else is asked of it"
    assert found.chosen == "1 s"
    assert found.left_out == ["100 ms", "200 ms"]
    assert found.words[-1].startswith("Not run: 100 ms, 200 ms, since 300 ms leaves only 0.800 of the")


def test_what_costs_a_little_too_much_by_one_run_is_looked_at_more_closely() -> None:
    cluster, (_, _, (found,)) = ladder({"0.5 s": 0.96, "0.3 s": 0.95})
    settings = Counter(setting_of(point) for _, points in cluster.calls for point in points)
    assert len(settings) == 7
    assert settings["500 ms"] >= FIRST_SEEDS
    assert found.left_out == []


def test_where_throughput_is_no_matter_all_targets_run() -> None:
    cluster, (_, _, (found,)) = ladder({"0.5 s": 0.5}, min_throughput=0.0)
    assert {setting_of(point) for _, points in cluster.calls for point in points} >= {"100 ms", "200 ms"}
    assert found.left_out == []


def test_each_combination_of_other_axes_has_its_last_target() -> None:
    def figures(name: str, seed: int) -> tuple[float, float]:
        return 1000.0, 100.0

    class Slowed(Cluster):
        def _row(self, point: Point) -> PointRow:
            row = super()._row(point)
            dear = point.labels["service"] == "9 ms" and setting_of(point) == "1 s"
            assert row.measures is not None
            measures = msgspec.structs.replace(row.measures, throughput_per_s=50.0 if dear else 100.0)
            return msgspec.structs.replace(row, measures=measures)

    cluster = Slowed(figures)
    advice = advise(SCENARIO, read_axes(target="100ms,1s,2s", service="1ms,9ms"), Constraints(), cluster)
    left_out = {each.conditions["service"]: each.left_out for each in advice.recommendations}
    assert left_out == {"1 ms": [], "9 ms": ["100 ms"]}


SHORT = emulate(replace(SCENARIO, duration_s=3.0, warmup_s=1.0))


class LargeCluster(Cluster):
    """Its runs are those of a job that moves many buffers."""

    def _row(self, point: Point) -> PointRow:
        row = super()._row(point)
        assert row.emulated_seconds is not None
        window = SHORT.steady[-1]
        source, sink = window.vertices
        sink = msgspec.structs.replace(sink, buffers_in_per_s=[EXPENSIVE_BUFFERS / row.emulated_seconds])
        result = msgspec.structs.replace(
            SHORT,
            scenario=read_scenario(point.document),
            steady=[msgspec.structs.replace(window, vertices=[source, sink])],
        )
        return msgspec.structs.replace(row, result=to_json(result).decode())


def seeds_of(cluster: Cluster, probes: Sequence[Probe]) -> Counter[str]:
    points = [point for _, points in cluster.calls for point in points if point.probe in probes]
    return Counter(map(setting_of, points))


def test_expensive_settings_have_few_runs_and_one_of_each_probe_of_the_advice() -> None:
    cluster = LargeCluster(usual)
    (found,) = advised(cluster).recommendations
    assert (found.verdict, found.chosen, found.undecided) == ("set", "100 ms", [])
    assert seeds_of(cluster, ("main", "baseline")) == {
        "off": FIRST_SEEDS,
        "100 ms": FIRST_SEEDS,
        "1 s": FEWEST_SEEDS,
    }
    assert seeds_of(cluster, ("unaligned",)) == seeds_of(cluster, ("step",)) == {"100 ms": 1}


def test_expensive_settings_have_more_seeds_where_these_do_not_decide() -> None:
    cluster = LargeCluster(doubtful)
    (found,) = advised(cluster).recommendations
    assert (found.chosen, found.undecided) == ("100 ms", [])
    assert seeds_of(cluster, ("main",))["100 ms"] > SEEDS


def test_expensive_targets_are_tried_one_at_a_time_beside_second_seeds() -> None:
    def figures(name: str, seed: int) -> tuple[float, float]:
        time_ms = 6000.0 if name == "off" else 1000 * float(name.split()[0])
        return time_ms, 400.0 * {"0.5 s": 0.9}.get(name, 1.0)

    cluster = LargeCluster(figures)
    ((*_, found),) = (advise(SCENARIO, LADDER, Constraints(), cluster).recommendations,)
    tried = [places(points) for why, points in cluster.calls if why == "trying"]
    assert tried == [
        {("off", "baseline", 1), ("2 s", "main", 1), ("1 s", "main", 1)},
        {("500 ms", "main", 1), ("off", "baseline", 2), ("2 s", "main", 2), ("1 s", "main", 2)},
    ]
    assert (found.chosen, found.left_out) == ("1 s", ["100 ms", "200 ms", "300 ms"])


def test_what_makes_a_run_expensive_is_what_it_moves() -> None:
    (point, *_) = Grid(AXES, 1).points(SCENARIO)
    assert is_expensive(LargeCluster(usual)(points=[point], known=(), why="")[0])
    small = msgspec.structs.replace(
        LargeCluster(usual)([point], (), "")[0], emulated_seconds=1.0, wall_seconds=1e3
    )
    assert not is_expensive(small)
    assert not is_expensive(Cluster(usual)([point], (), "")[0]), "nothing is known of it"
    early = to_json(msgspec.structs.replace(SHORT, steady=[])).decode()
    assert not is_expensive(msgspec.structs.replace(small, result=early)), "it has come to no window"


def test_the_longest_runs_are_begun_first() -> None:
    points = Grid(read_axes(target="100ms,1s,2s"), 1).points(
        SCENARIO, lambda varied: probes_of(varied, ("main", "baseline"))
    )
    untried = longest_first(points, ())
    assert [setting_of(point) for point in untried] == ["100 ms", "1 s", "2 s", "off"]
    took = {"off": 2.0, "100 ms": 3.0, "1 s": 1.0}
    rows = [
        msgspec.structs.replace(row, wall_seconds=took[setting_of(row)])
        for row in Cluster(usual)([point for point in points if setting_of(point) in took], (), "")
    ]
    assert [setting_of(point) for point in longest_first(points, rows)] == ["2 s", "100 ms", "off", "1 s"]
