"""The family of rules that is searched: the known policies are in it, and comparisons mean what they say."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benches.policy_search import rule_policy
from benches.policy_search.comparing import Summary, against, front
from benches.policy_search.rules import FLINK, KNOWN, Rule, all_rules, named
from benches.policy_search.trials import Figures, Trial, run, scenario_of
from flowcontrol import POLICIES, DebloatSettings
from netstack import emulate
from netstack.scenarios.debloat_policies import policy_class


@dataclass
class Channel:
    """A channel as a policy sees it."""

    buffers_in_use: int
    blocked: bool = False
    queued_bytes: int = 0
    released: bool = False


steps = st.lists(
    st.tuples(
        st.integers(0, 5_000_000),
        st.lists(st.builds(Channel, st.integers(0, 30), st.booleans()), min_size=3, max_size=3),
    ),
    max_size=60,
)


@pytest.mark.parametrize("name", KNOWN)
@given(steps=steps)
def test_a_known_policy_is_one_of_the_family(name: str, steps: list[tuple[int, list[Channel]]]) -> None:
    settings = DebloatSettings(target_s=0.3)
    known = POLICIES[name](settings)
    searched = policy_class(f"benches.policy_search.rule_policy:{KNOWN[name].name}")(settings)
    for place, (throughput, channels) in enumerate(steps):
        now = place * settings.period_s
        assert list(searched.recalculate(throughput, channels, now)) == list(
            known.recalculate(throughput, channels, now)
        )
        assert searched.last_announced == known.last_announced


def test_each_rule_has_a_name_of_its_own_that_leads_back_to_it() -> None:
    rules = list(all_rules())
    assert len({rule.name for rule in rules}) == len(rules) == 2 * 3 * 3 * 4 * 2 * 2
    assert [named(rule.name) for rule in rules] == rules
    assert set(KNOWN.values()) <= set(rules)
    with pytest.raises(AttributeError, match="names no rule"):
        importlib.import_module(rule_policy.__name__).sum_frozen  # noqa: B018


def test_a_held_rule_announces_nothing_while_a_channel_is_blocked() -> None:
    held = policy_class(f"{rule_policy.__name__}:{Rule(blocked='held').name}")(DebloatSettings())
    assert not list(held.recalculate(10, [Channel(20, blocked=True), Channel(20)], 0.0))
    for step in range(20):
        announced = list(held.recalculate(10, [Channel(20), Channel(20)], step * 0.2))
    assert held.last_announced == 256
    assert not announced


def test_what_is_worse_by_more_than_the_tolerance_is_named() -> None:
    flink = Figures(100.0, 200.0, 50.0, 1000.0, 1.0)
    assert against([Figures(104.0, 206.0, 53.0, 996.0, 1.1)], [flink]).worse_on == ()
    worse = against([Figures(106.0, 190.0, 60.0, 994.0, 1.2)], [flink])
    assert worse.worse_on == ("end_to_end_ms", "delay_ms", "records_per_s", "announcements_per_s")
    assert worse.worst == pytest.approx(191 / 201)


def test_the_front_has_what_nothing_beats() -> None:
    best = Summary(FLINK, 0.9, 0.9, 0.9, 1.0, 1.0, 16)
    quiet = best._replace(end_to_end=1.0, announcements=0.5)
    beaten = best._replace(delay=1.1)
    assert front([quiet, beaten, best]) == [best, quiet]


def test_a_trial_is_a_run_under_that_rule() -> None:
    trial = Trial("steady-1s-rare", KNOWN["frozen-while-blocked"], 1)
    scenario = scenario_of(trial.scenario)
    config = replace(scenario.config, debloat_policy="frozen-while-blocked")
    checkpoints = emulate(replace(scenario, config=config), seed=trial.seed).checkpoints
    times = [one.duration_ms for one in checkpoints if one.t >= scenario.warmup_s and one.duration_ms]
    figures = run(trial)
    assert (figures.end_to_end_ms, figures.worst_ms) == (median(times), max(times))
    assert figures.announcements_per_s > 0
    assert figures != run(trial._replace(rule=FLINK))
