"""The examples of the documentation do what they say."""

from __future__ import annotations

import importlib.util
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from benches.conftest import transport_named
from benches.exchange import Plan, within_process
from benches.transport import Shape
from integration import load_scenario
from integration.advise.size.budget import plan_budget
from integration.base.optional_figures import known
from netstack import emulate

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

TEXT = """the quick brown fox
jumps over the lazy dog

The dog sleeps and the fox does not
"""


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_odd_and_even() -> None:
    assert example("odd_and_even").odd_and_even(1000) == {"odd": 500_000, "even": 501_000}


def test_bench_transport() -> None:
    transport = transport_named("docs.examples.bench_transport:MemoryChannels")
    with within_process(Plan(transport=transport, shape=Shape(), records=1000)) as iterate:
        assert iterate() > 0


def test_clicks_and_orders() -> None:
    scenario = load_scenario(EXAMPLES / "clicks_and_orders.toml")
    assert scenario.task_managers == ("tm-1", "tm-2", "tm-3")
    result = emulate(replace(scenario, duration_s=6.0))
    out = {each.vertex: sum(subtask[-1] for subtask in each.numRecordsOut) for each in result.series}
    assert out["clicks"] == pytest.approx(1000 * 6, rel=0.05)  # a burst has begun that is not over
    assert out["filter"] == pytest.approx(0.6 * out["clicks"], rel=0.03)
    assert out["join"] == pytest.approx((out["filter"] + 0.5 * out["orders"]) * 1.01, rel=0.03)
    assert out["window"] == pytest.approx(0.1 * out["join"] * 4 / 6, rel=0.1)  # two windows of three


POLICIES = (
    "straight_policy:Straight",
    "policies.frozen_while_blocked:FrozenWhileBlocked",
    "policies.longest_channel:LongestChannel",
    "policies.per_channel:PerChannel",
    "policies.burst:Burst",
)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_keeps_the_throughput_and_shortens_checkpoints(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    scenario = load_scenario(EXAMPLES / "slow_consumers.toml", policy=policy)
    off = replace(scenario, config=replace(scenario.config, debloat_enabled=False))
    (with_policy,), (without,) = emulate(scenario).steady, emulate(off).steady
    rates = [sum(known(steady.vertices[-1].records_in_per_s)) for steady in (with_policy, without)]
    assert rates[0] == pytest.approx(rates[1], rel=0.01)
    assert with_policy.end_to_end_ms is not None
    assert without.end_to_end_ms is not None
    assert with_policy.end_to_end_ms < 0.7 * without.end_to_end_ms


def test_every_policy_of_the_folder_is_run() -> None:
    modules = {f"policies.{file.stem}" for file in (EXAMPLES / "policies").glob("*.py")}
    assert modules == {policy.partition(":")[0] for policy in POLICIES[1:]}


@pytest.mark.long
def test_slow_calls_which_no_memory_helps() -> None:
    scenario = load_scenario(EXAMPLES / "memory/slow_calls.toml")
    plan = plan_budget(scenario, 512 << 20)
    planned, now, *_ = (trial.figures for trial in plan.trials)
    assert planned is not None
    assert now is not None
    assert planned.delay_ms == pytest.approx(now.delay_ms, rel=0.01)
    assert now.delay_ms > 500


@pytest.mark.long
def test_far_links_which_the_options_give_too_little_here_and_too_much_there() -> None:
    plan = plan_budget(load_scenario(EXAMPLES / "memory/far_links.toml"), 512 << 20, check=True)
    planned, now, one, *_ = (trial.figures for trial in plan.trials)
    assert planned is not None
    assert one is not None
    assert now is not None
    assert planned.records_per_s == pytest.approx(now.records_per_s, rel=0.01)
    assert planned.delay_ms < 0.95 * one.delay_ms  # two exchanges, which want different numbers of buffers
    assert one.delay_ms < 0.65 * now.delay_ms
    assert planned.checkpoint_ms < 0.6 * now.checkpoint_ms


@pytest.mark.spark
def test_word_count(tmp_path: Path, spark: object) -> None:
    lines = tmp_path / "lines.csv"
    lines.write_text("line\n" + TEXT)
    counted = example("word_count").word_count(str(lines))
    assert counted == Counter(TEXT.lower().split())


@pytest.mark.interpreted
@pytest.mark.long
def test_credit_by_throughput_gives_a_fast_channel_the_floating_buffers() -> None:
    variant = example("credit_by_throughput")
    scenario = variant.scenario_named("hot_source_on200ms")
    scenario = replace(scenario, duration_s=6.0, warmup_s=3.0, phases=(), seed=2)
    usual, ours = variant.both_ways(scenario, seeds=(2,))
    assert ours.records_per_s == pytest.approx(usual.records_per_s, rel=0.02)
    assert ours.end_to_end_ms != usual.end_to_end_ms
    for arrivals in variant.BuffersByThroughput.gates.values():
        *slow, fast = (arrivals.share(channel) for channel in arrivals._counts)
        assert 0.5 < fast < 0.7
        assert all(0.1 < share < 0.17 for share in slow)
    assert len(variant.BuffersByThroughput.gates) == 4
    assert emulate(scenario).steady[0].end_to_end_ms == usual.end_to_end_ms  # it is gone with its block
