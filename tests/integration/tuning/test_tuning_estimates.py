"""Means over runs: how wide their intervals are, and what they decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.tuning.estimates import LEAST_RUNS, Estimate, estimate

VALUES = st.lists(st.floats(0.1, 1e6), min_size=5, max_size=25)


@given(VALUES)
def test_the_interval_holds_the_mean_and_lies_within_the_range(values: list[float]) -> None:
    found = estimate(values, 6)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert min(values) - 1e-5 <= found.low <= found.mean + 1e-5
    assert found.mean - 1e-5 <= found.high <= max(values) + 1e-5
    assert found == estimate(values, 6)


@pytest.mark.parametrize("runs", [3, 5, 8, 20])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(runs: int) -> None:
    """A percentile interval that is not expanded would hold it in 83 % of the cases, of five runs."""
    held = 0
    for repetition in range(300):
        chance = np.random.default_rng(repetition)
        found = estimate(chance.normal(100.0, 5.0, runs))
        assert found is not None
        held += found.at_least(100.0) == found.at_most(100.0) == "undecided"
    assert held >= 0.90 * 300


def test_few_runs_decide_nothing() -> None:
    found = estimate([1.0] * (LEAST_RUNS - 1))
    assert found == Estimate(1.0, None, None, LEAST_RUNS - 1, LEAST_RUNS - 1)
    assert (found.at_least(0.5), found.at_most(2.0)) == ("undecided", "undecided")
    assert (found.least, found.greatest) == (1.0, 1.0)
    assert found.runs_to_decide(0.5) is None


def test_runs_without_the_figure_are_counted() -> None:
    found = estimate([2.0, None, 4.0])
    assert found is not None
    assert (found.mean, found.runs, found.of) == (3.0, 2, 3)
    assert estimate([None, None]) is None
    assert estimate([]) is None


def test_a_limit_is_kept_broken_or_within_the_interval() -> None:
    found = Estimate(1.0, 0.9, 1.1, 5, 5)
    assert [found.at_least(limit) for limit in (0.9, 1.0, 1.2)] == ["yes", "undecided", "no"]
    assert [found.at_most(limit) for limit in (0.8, 1.0, 1.1)] == ["no", "undecided", "yes"]


def test_the_nearer_the_limit_the_more_runs_decide() -> None:
    found = Estimate(1.0, 0.9, 1.1, 5, 5)
    assert found.runs_to_decide(0.95) == 20
    assert found.runs_to_decide(0.99) == 500
    assert found.runs_to_decide(1.0) is None


def test_what_is_given_up_would_hardly_have_been_decided() -> None:
    chance, limit = np.random.default_rng(1), 0.0
    given_up = [0, 0]
    for _ in range(1500):
        values = chance.normal(chance.uniform(0.0, 0.6), 1.0, 20)
        first = estimate(values[:10], 6)
        if first is not None and first.at_least(limit) == "undecided" and not first.may_decide(limit, 20):
            whole = estimate(values, 6)
            assert whole is not None
            given_up[whole.at_least(limit) != "undecided"] += 1
    undecided, decided = given_up
    assert undecided > 50
    assert decided < undecided / 4


def test_few_runs_and_those_far_from_the_limit_leave_all_open() -> None:
    for values, open_ in (([0.0], True), ([-1.0, 1.0], True), ([-1.0, 1.0] * 10, False)):
        found = estimate(values)
        assert found is not None
        assert found.may_decide(0.0, 20) is open_, values
    ten = estimate([-1.0, 1.0] * 5)
    assert ten is not None
    assert [ten.may_decide(limit, 20) for limit in (0.0, 0.2, 0.3, 0.6)] == [False, False, True, True]
