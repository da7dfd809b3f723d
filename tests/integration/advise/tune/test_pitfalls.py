"""Each scenario of ``docs/examples/pitfalls`` fails in its way, and is recognised; others are not."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from integration import load_scenario
from integration.advise.diagnose.debloating_rules import IDLE, PITFALLS
from integration.advise.diagnose.observation import observation_of
from integration.advise.sweeps.point_rows import failed_row
from integration.advise.sweeps.points import point_of
from integration.advise.tune.pitfalls import (
    ObservedPoint,
    Pitfall,
    find_pitfalls,
    observed_point,
    pitfalls_of,
)
from netstack import Result, Scenario, Vertex, emulate, to_json, with_options

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "docs" / "examples" / "pitfalls"
REFERENCE = ROOT / "tests" / "data" / "flink-reference"

MISSED = {
    "slow_input": ("union", 2.5),
    "large_records": ("stage1", 5.0),
    "minimum_size": ("stage1", 10.0),
    "high_parallelism": ("stage1", 10.0),
    "window_bursts": ("window", 4.0),
    "moving_load": ("stage1", 3.5),
    "skewed_consumers": ("stage1", 1.2),
    "back_to_back": ("checkpoints", 0.9),
}
"""Where each scenario fails, and by what factor its longest checkpoint exceeds the target at least."""


@cache
def shown(name: str) -> Result:
    return emulate(load_scenario(EXAMPLES / f"{name}.toml"))


def found_in(result: Result) -> dict[str, Pitfall]:
    return {pitfall.name: pitfall for pitfall in pitfalls_of([observed_point(result, "target 500 ms")])}


def test_each_pitfall_has_its_scenario() -> None:
    files = {path.stem for path in (EXAMPLES).glob("*.toml")}
    assert {words.rule.replace("-", "_") for rule in PITFALLS for words in rule.words} == files == set(MISSED)


@pytest.mark.parametrize("name", MISSED)
def test_the_scenario_of_a_pitfall_misses_its_target_and_is_recognised(name: str) -> None:
    result, (vertex, factor) = shown(name), MISSED[name]
    pitfall = found_in(result)[name.replace("_", "-")]
    assert pitfall.vertex == vertex
    assert Path(pitfall.shown_by).resolve() == EXAMPLES / f"{name}.toml"
    assert pitfall.settings == ["target 500 ms"]
    target_ms = 1e3 * load_scenario(ROOT / pitfall.shown_by).config.debloat_target_s
    assert (result.steady[-1].end_to_end_ms_max or 0) > factor * target_ms


@pytest.mark.parametrize("name", ["2x2_200KBs_on1s", "2x2_1MBs_100B_on100ms", "4x4_1MBs_hash_on100ms"])
def test_a_job_that_debloating_suits_has_no_pitfall(name: str) -> None:
    scenario = load_scenario(REFERENCE / f"{name}.toml")
    shorter = dataclasses.replace(scenario, duration_s=28.0, warmup_s=12.0, phases=())
    assert found_in(emulate(shorter)) == {}


def test_one_step_of_the_load_is_no_load_that_moves() -> None:
    assert found_in(emulate(load_scenario(REFERENCE / "2x2_step_on200ms.toml"))) == {}


def test_two_inputs_of_one_rate_are_no_pitfall() -> None:
    scenario = load_scenario(EXAMPLES / "slow_input.toml")
    even = changed(changed(scenario, "prepare", service=()), "union", service=((0.0, 0.004),))
    assert "slow-input" not in found_in(emulate(even))


def test_the_evidence_is_of_the_worst_point_and_names_all() -> None:
    scenario = load_scenario(EXAMPLES / "large_records.toml")
    points = [at_target(scenario, target) for target in (0.4, 0.05, 0.2)]
    (pitfall,) = pitfalls_of(points)
    assert pitfall.settings == ["target 0.4", "target 0.05", "target 0.2"]
    assert pitfall.point == "target 0.05"
    assert " against a target of 50 ms" in pitfall.evidence


def test_a_full_consumer_that_holds_up_the_others_is_skew_though_these_are_busy_too() -> None:
    scenario = load_scenario(EXAMPLES / "skewed_consumers.toml")
    little = emulate(changed(scenario, "stage1", service_skew=(2.0, 2.0, 2.0, 2.7)))
    busy = little.steady[-1].vertices[1].busy_ms_per_s
    assert min(share or 0.0 for share in busy) > 1000 * IDLE
    assert "skewed-consumers" in found_in(little)


def test_checkpoints_that_leave_hardly_a_pause_are_told_by_the_mean_of_the_window() -> None:
    evidence = found_in(shown("back_to_back"))["back-to-back"].evidence
    assert re.match(r"a checkpoint takes (9\d\d ms|1\.\d\d s), and the interval is 1\.00 s; ", evidence)
    scenario = load_scenario(EXAMPLES / "back_to_back.toml")
    rare = dataclasses.replace(scenario, config=with_options(scenario.config, {"checkpoint_interval_s": 4.0}))
    assert "back-to-back" not in found_in(emulate(rare))


def test_skew_shows_by_what_subtasks_do_not_by_how_it_was_made() -> None:
    result = shown("skewed_consumers")
    evidence = found_in(result)["skewed-consumers"].evidence
    assert "busy for 25 to 100 % of their time, with buffers of 2." in evidence
    even = changed(load_scenario(EXAMPLES / "skewed_consumers.toml"), "stage1", service_skew=(4.0,))
    assert "skewed-consumers" not in found_in(emulate(even))


def changed(scenario: Scenario, name: str, **fields: object) -> Scenario:
    vertices: list[Vertex] = [
        dataclasses.replace(vertex, **fields) if vertex.name == name else vertex  # type: ignore[arg-type]
        for vertex in scenario.vertices
    ]
    return dataclasses.replace(scenario, vertices=tuple(vertices))


def at_target(scenario: Scenario, target_s: float) -> ObservedPoint:
    config = dataclasses.replace(scenario.config, debloat_target_s=target_s)
    run = dataclasses.replace(scenario, config=config)
    view = observation_of(run, emulate(run).steady[-1])
    return ObservedPoint(f"target {target_s:g}", run.seed, view)


def test_a_job_without_checkpoints_is_not_said_to_complete_none() -> None:
    taking = load_scenario(EXAMPLES / "large_records.toml")
    config = dataclasses.replace(taking.config, checkpoint_interval_s=None)
    result = emulate(dataclasses.replace(taking, config=config))
    assert found_in(result)["large-records"].evidence.endswith("the target is 100 ms")


def test_points_that_failed_are_not_looked_at() -> None:
    scenario = load_scenario(EXAMPLES / "large_records.toml")
    without = failed_row(point_of(scenario), "the job failed for good")
    failed = msgspec.structs.replace(without, result=to_json(shown("large_records")).decode())
    ended = msgspec.structs.replace(failed, status="finished", error=None)
    assert find_pitfalls([failed]) == []
    assert [one.name for one in find_pitfalls([ended])][:1] == ["large-records"]
