"""The choice of a setting: limits, gains, the knee, ties and alternatives."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.advise.tune.choice import (
    Constraints,
    Outcome,
    broken_limits,
    choose,
    is_fast_enough,
    is_same,
    is_worth,
)
from integration.advise.tune.words import broken_text


def outcome(name: str, time: float | None, throughput: float | None = 1.0, **others: Any) -> Outcome:
    figures = {
        "mechanisms": 1,
        "target_s": inf,
        "checkpoint_p95_ms": time,
        "delay_ms": time,
        "delay_p95_ms": time,
        "stored_bytes": 0.0,
    }
    return Outcome(name=name, checkpoint_ms=time, throughput=throughput, **{**figures, **others})


def chosen(*outcomes: Outcome, **limits: float) -> str | None:
    return choose(outcomes, "now", Constraints(**limits), takes_checkpoints=True).chosen


NOW = outcome("now", 6000.0, mechanisms=0)

times = st.one_of(st.none(), st.floats(1.0, 1e5))
outcomes_of_settings = st.lists(
    st.builds(
        Outcome,
        name=st.just("?"),
        mechanisms=st.integers(1, 2),
        target_s=st.sampled_from([0.1, 0.3, 1.0, inf]),
        checkpoint_ms=times,
        checkpoint_p95_ms=times,
        throughput=st.one_of(st.none(), st.floats(0.1, 3.0)),
        delay_ms=times,
        delay_p95_ms=times,
        stored_bytes=st.one_of(st.none(), st.just(0.0), st.floats(1.0, 1e9)),
        expired=st.sampled_from([None, 0.0, 0.5]),
        failed=st.sampled_from([0, 0, 0, 1]),
    ),
    max_size=8,
).map(lambda found: [each._replace(name=str(number)) for number, each in enumerate(found)])
present = st.builds(
    outcome,
    st.just("now"),
    times,
    st.just(1.0),
    mechanisms=st.just(0),
    delay_ms=times,
    stored_bytes=st.just(0.0),
)
limits = st.builds(
    Constraints,
    min_throughput=st.floats(0.0, 1.0),
    max_checkpoint_ms=times,
    max_delay_ms=times,
    max_stored_bytes=st.one_of(st.none(), st.floats(0.0, 1e9)),
)


@given(present, outcomes_of_settings, limits, st.booleans())
def test_what_is_chosen_keeps_to_the_limits_and_gains_something(
    now: Outcome, others: list[Outcome], asked: Constraints, takes_checkpoints: bool
) -> None:
    found = choose([now, *others], "now", asked, takes_checkpoints=takes_checkpoints)
    by_name = {each.name: each for each in [now, *others]}

    def fits(each: Outcome) -> bool:
        return not broken_limits(each, asked, takes_checkpoints=takes_checkpoints)

    if found.chosen is None:
        assert not any(map(fits, by_name.values()))
        return
    best = by_name[found.chosen]
    assert fits(best)
    assert best is now or not fits(now) or is_worth(best, now)
    for _, name in found.alternatives:
        assert fits(by_name[name])
        assert name not in ("now", found.chosen)
    assert len(found.alternatives) <= 2


@given(present, outcomes_of_settings, st.randoms())
def test_the_order_of_settings_does_not_matter(now: Outcome, others: list[Outcome], random: Any) -> None:
    first = choose([now, *others], "now", Constraints(), takes_checkpoints=True)
    shuffled = [now, *others]
    random.shuffle(shuffled)
    second = choose(shuffled, "now", Constraints(), takes_checkpoints=True)
    assert first.chosen == second.chosen


def test_the_present_setting_stays_only_where_nothing_is_a_fifth_or_50_ms_better() -> None:
    assert chosen(NOW, outcome("a", 5800.0)) == "now", "less than 5 %"
    assert chosen(NOW, outcome("a", 5600.0)) == "a", "400 ms"
    small = outcome("now", 60.0, mechanisms=0)
    assert chosen(small, outcome("a", 48.0)) == "now", "12 ms are within the noise"
    assert chosen(small, outcome("a", 40.0)) == "a", "a third"


def test_nine_tenths_of_the_gain_are_all_of_it_and_cost_no_throughput() -> None:
    settings = [outcome("100 ms", 120.0, 0.97, target_s=0.1), outcome("500 ms", 590.0, 1.0, target_s=0.5)]
    assert chosen(NOW, *settings) == "500 ms"


def test_of_equal_settings_the_one_that_changes_least_is_chosen() -> None:
    targets = [outcome("short", 400.0, target_s=0.1), outcome("long", 400.0, target_s=0.3)]
    assert chosen(NOW, *targets) == "long"
    assert chosen(NOW, outcome("both", 400.0, mechanisms=2), targets[0]) == "short"
    assert (
        chosen(NOW, outcome("stores", 400.0, stored_bytes=1.0), outcome("none", 400.0), targets[0]) == "none"
    )


@pytest.mark.parametrize(
    ("setting", "limits", "broken"),
    [
        (outcome("a", 100.0, 0.94), {}, "throughput falls to 94.0 %"),
        (outcome("a", 100.0, None), {"min_throughput": 0.0}, "its throughput was not measured"),
        (outcome("a", None), {}, "no checkpoint completes"),
        (outcome("a", 100.0, expired=0.2), {}, "20 % of the checkpoints expire"),
        (outcome("a", 100.0, failed=2), {}, "2 of its runs failed"),
        (
            outcome("a", 100.0),
            {"max_checkpoint_ms": 99.0},
            "95 % of checkpoints take up to 100 ms, not 99 ms",
        ),
        (
            outcome("a", 100.0, delay_p95_ms=None),
            {"max_delay_ms": 1e9},
            "95 % of records take an unknown amount",
        ),
        (
            outcome("a", 100.0, stored_bytes=2048.0),
            {"max_stored_bytes": 1024.0},
            "each checkpoint stores up to 2.00 KiB, not 1.00 KiB",
        ),
    ],
)
def test_a_broken_limit_is_said_and_rules_a_setting_out(
    setting: Outcome, limits: dict[str, float], broken: str
) -> None:
    (found,) = broken_limits(setting, Constraints(**limits), takes_checkpoints=True)
    assert broken_text(found) == broken
    assert chosen(NOW, setting, **limits) != "a"


def test_without_checkpoints_their_time_plays_no_part() -> None:
    now = outcome("now", None, mechanisms=0, delay_ms=900.0)
    other = outcome("a", None, delay_ms=100.0)
    assert choose([now, other], "now", Constraints(), takes_checkpoints=False).chosen == "a"
    assert choose([now, other], "now", Constraints(), takes_checkpoints=True).chosen is None


def test_alternatives_say_what_they_have_that_the_chosen_setting_lacks() -> None:
    settings = [
        outcome("target", 500.0, 0.97),
        outcome("slower target", 2000.0, 1.0),
        outcome("unaligned", 30.0, 1.0, delay_ms=6000.0, stored_bytes=1e6),
    ]
    found = choose([NOW, *settings], "now", Constraints(), takes_checkpoints=True)
    assert found.chosen == "target"
    assert found.alternatives == (("no loss of throughput", "slower target"), ("fastest", "unaligned"))
    slow = settings[1]._replace(checkpoint_ms=4000.0, delay_ms=5000.0, throughput=0.951)
    found = choose([NOW, settings[2], slow], "now", Constraints(), takes_checkpoints=True)
    assert (found.chosen, found.alternatives) == ("unaligned", (("nothing more to store", "slower target"),))


def test_few_stored_bytes_count_little_even_if_no_setting_stores_more() -> None:
    target = outcome("target", 190.0, 0.97, target_s=0.05)
    assert chosen(NOW, target, outcome("unaligned", 180.0, stored_bytes=4e4)) == "unaligned"
    assert chosen(NOW, target, outcome("unaligned", 180.0, stored_bytes=4e7)) == "target"


def test_stored_bytes_that_no_run_reports_count_nothing() -> None:
    now = NOW._replace(stored_bytes=None)
    assert chosen(now, outcome("target", 190.0, stored_bytes=None)) == "target"


def test_settings_are_the_same_within_what_a_user_notices() -> None:
    assert is_same(outcome("a", 100.0), outcome("b", 114.0))
    assert not is_same(outcome("a", 100.0), outcome("b", 116.0))
    assert not is_same(outcome("a", 100.0, 0.99), outcome("b", 100.0, 0.98))
    assert not is_same(outcome("a", 100.0), outcome("b", None))


@pytest.mark.parametrize(
    ("p95_ms", "peak_ms", "interval_s", "expected"),
    [
        (900.0, None, 10.0, True),
        (1000.0, None, 10.0, False),
        (900.0, None, 1.5, False),  # more than half of the interval
        (900.0, 1500.0, 10.0, False),  # the peak is short, and so misses the percentile
        (None, None, 10.0, False),  # unknown is not fast
        (900.0, None, None, False),
    ],
)
def test_checkpoints_are_fast_enough_in_time_and_beside_the_interval(
    p95_ms: float | None, peak_ms: float | None, interval_s: float | None, expected: bool
) -> None:
    now = outcome("now", p95_ms, worst_phase_ms=peak_ms)
    assert is_fast_enough(now, Constraints(), interval_s) is expected
    assert not is_fast_enough(now, Constraints(fast_enough_ms=0.0), interval_s)
