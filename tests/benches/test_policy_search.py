"""The family of rules that is searched: the known policies are in it, and comparisons mean what they say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benches.studies import policy_search
from benches.studies.policy_search import (
    FLINK,
    KNOWN,
    RULES,
    Rule,
    SearchFigures,
    Summary,
    Trial,
    choose,
    ratios,
    run,
    scenario_of,
)
from flowcontrol import POLICIES, DebloatSettings
from netstack import emulate
from netstack.scenarios.config_rules import policy_class


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
    searched = policy_class(f"{policy_search.__name__}:{KNOWN[name].name}")(settings)
    for place, (throughput, channels) in enumerate(steps):
        now = place * settings.period_s
        assert list(searched.recalculate(throughput, channels, now)) == list(
            known.recalculate(throughput, channels, now)
        )
        assert searched.last_announced == known.last_announced


def test_each_rule_has_a_policy_of_its_own() -> None:
    assert len(RULES) == 2 * 3 * 3 * 4 * 2 * 2
    assert set(KNOWN.values()) <= set(RULES.values())
    with pytest.raises(AttributeError, match="no rule has the name"):
        policy_search.sum_frozen  # noqa: B018


def test_a_held_rule_announces_nothing_while_a_channel_is_blocked() -> None:
    held = policy_class(f"{policy_search.__name__}:{Rule(blocked='held').name}")(DebloatSettings())
    assert not list(held.recalculate(10, [Channel(20, blocked=True), Channel(20)], 0.0))
    for step in range(20):
        announced = list(held.recalculate(10, [Channel(20), Channel(20)], step * 0.2))
    assert held.last_announced == 256
    assert not announced


def test_what_is_longer_by_more_than_the_tolerance_is_worse() -> None:
    flink = SearchFigures(100.0, 200.0, 50.0, 1000.0, 1.0)
    within = SearchFigures(104.0, 206.0, 53.0, 996.0, 1.1)
    assert not ratios(within, flink)[1]
    for worse in ({"end_to_end_ms": 106.0}, {"delay_ms": 60.0}, {"records_per_s": 994.0}):
        assert ratios(within._replace(**worse), flink)[1]
    assert ratios(within._replace(announcements_per_s=1.2), flink)[1]
    assert ratios(within._replace(worst_ms=190.0), flink)[0][1] == pytest.approx(191 / 201)


def test_half_of_the_chosen_are_the_shortest_and_half_the_safest() -> None:
    slow, short, safe, beaten, lossy = (Rule(mean=10, tell=10, jump=jump) for jump in (0, 10, 25, 50, 1))
    found = {
        short: Summary(0.8, 0.8, 0.8, 1.2, 1.0, 10),
        safe: Summary(0.9, 0.9, 0.9, 0.9, 1.0, 16),
        slow: Summary(1.0, 1.0, 1.0, 0.8, 1.0, 9),
        beaten: Summary(0.85, 0.85, 0.85, 1.3, 1.0, 12),
        lossy: Summary(0.1, 0.1, 0.1, 0.1, 0.9, 16),
    }
    assert choose(found, 2)[len(KNOWN) :] == [short, safe]
    assert choose(found, 4)[len(KNOWN) :] == [short, safe, beaten]


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
