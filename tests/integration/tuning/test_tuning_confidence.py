"""Means over runs, and how wide their intervals are."""

from __future__ import annotations

import numpy as np
import pytest

from integration.tuning.confidence import Estimate, estimate


@pytest.mark.parametrize("runs", [2, 3, 5, 8])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(runs: int) -> None:
    held = 0
    for repetition in range(300):
        values = np.random.default_rng([repetition, runs]).normal(100.0, 5.0, runs)
        found = estimate(values, 6)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 100.0 <= found.high
    assert 0.91 <= held / 300 <= 0.99


def test_a_single_run_has_no_interval() -> None:
    assert estimate([3.0]) == Estimate(3.0, None, None, 1, 1)


def test_runs_without_the_figure_are_counted_and_do_not_lower_the_mean() -> None:
    assert estimate([None, 3.0, None]) == Estimate(3.0, None, None, 1, 3)
    assert estimate([None, None]) is None
    assert estimate([]) is None


def test_an_amount_is_not_less_than_none() -> None:
    found = estimate([0.0, 10.0])
    assert found is not None
    assert found.low == 0.0
