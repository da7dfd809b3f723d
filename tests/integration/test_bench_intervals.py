"""What scores come to, and the rule for a regression."""

import math

import pytest

from integration.benchmarks.intervals import Interval, Verdict, change_percent, interval_of, verdict_of


def test_the_error_is_students_at_99_9_percent() -> None:
    """Against a table of Student's t: 8.610 for four degrees of freedom."""
    interval = interval_of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval.mean == 3.0
    assert interval.error == pytest.approx(8.610 * math.sqrt(2.5 / 5), rel=1e-4)


def test_equal_scores_have_no_error() -> None:
    assert interval_of([4.0, 4.0, 4.0]) == Interval(4.0, 0.0)


def test_one_score_has_no_interval_and_none_no_mean() -> None:
    interval = interval_of([4.0])
    assert (interval.mean, interval.known) == (4.0, False)
    with pytest.raises(ValueError, match="no scores"):
        interval_of([])


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ((100, 1), (90, 1), Verdict.WORSE),
        ((100, 1), (110, 1), Verdict.BETTER),
        ((100, 1), (96, 1), Verdict.SAME),  # apart, but by less than the threshold
        ((100, 1), (95, 1), Verdict.SAME),  # by the threshold, and not by more
        ((100, 6), (90, 5), Verdict.SAME),  # far enough, but they overlap
        ((100, 5), (90, 5), Verdict.SAME),  # they touch
        ((90, 5), (100, 5), Verdict.SAME),
        ((100, math.nan), (50, 1), Verdict.UNKNOWN),
        ((100, 1), (50, math.nan), Verdict.UNKNOWN),
    ],
)
def test_worse_is_apart_and_by_more_than_the_threshold(
    before: tuple[float, float], now: tuple[float, float], verdict: Verdict
) -> None:
    assert verdict_of(Interval(*before), Interval(*now), True, 5.0) is verdict


def test_of_a_time_less_is_better() -> None:
    before, now = Interval(100, 1), Interval(90, 1)
    assert verdict_of(before, now, False, 5.0) is Verdict.BETTER
    assert verdict_of(now, before, False, 5.0) is Verdict.WORSE


def test_a_change_is_in_percent_of_what_was() -> None:
    assert change_percent(Interval(50, 1), Interval(60, 1)) == pytest.approx(20)
    assert change_percent(Interval(0, 0), Interval(1, 1)) == math.inf


def test_scores_of_any_size_have_an_interval():
    small, large = interval_of([1.0, 2.0, 4.0]), interval_of([1e300, 2e300, 4e300])
    assert large.error / 1e300 == pytest.approx(small.error)
