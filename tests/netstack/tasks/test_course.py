"""The course of a cost or of a rate: factors over time that repeat."""

from __future__ import annotations

from itertools import pairwise, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack.engine.randomness import Draws
from netstack.scenarios.costs import CostModel
from netstack.tasks.course import Course
from netstack.tasks.service_time import Throttle
from netstack.tasks.source_log import Uneven

MS = 1e-3
HIGH_AND_LOW = ((10.0, 1.6), (8.0, 0.25))

parts = st.lists(
    st.tuples(st.integers(1, 50).map(lambda tenths: tenths / 10), st.sampled_from([0.0, 0.25, 1.0, 3.0])),
    min_size=1,
    max_size=6,
).filter(lambda drawn: any(factor for _, factor in drawn))
times = st.floats(0.0, 500.0)


@pytest.mark.parametrize(
    ("at", "factor"), [(0.0, 1.6), (9.99, 1.6), (10.0, 0.25), (17.9, 0.25), (18.0, 1.6), (190.0, 0.25)]
)
def test_factors_follow_one_another_and_repeat(at: float, factor: float) -> None:
    assert Course(HIGH_AND_LOW).factor_at(at) == factor


@given(parts, times, times)
def test_the_integral_grows_by_at_most_the_largest_factor(
    drawn: list[tuple[float, float]], one: float, other: float
) -> None:
    course = Course(drawn)
    begin, end = sorted((one, other))
    grown = course.sum_until(end) - course.sum_until(begin)
    assert -1e-6 <= grown <= max(factor for _, factor in drawn) * (end - begin) + 1e-6


@given(parts, st.integers(1, 20))
def test_the_integral_of_whole_periods_is_that_of_the_parts(
    drawn: list[tuple[float, float]], periods: int
) -> None:
    seconds = sum(each for each, _ in drawn)
    amount = sum(each * factor for each, factor in drawn)
    assert Course(drawn).sum_until(periods * seconds) == pytest.approx(periods * amount)


@given(parts, times)
def test_the_integral_first_reaches_an_amount_at_its_time(
    drawn: list[tuple[float, float]], amount: float
) -> None:
    course = Course(drawn)
    at = course.time_of(amount)
    assert course.sum_until(at) == pytest.approx(amount, abs=1e-6)
    assert at < 1e-3 or course.sum_until(at - 1e-3) < amount


@given(parts, st.floats(0.5, 2000.0), st.integers(0, 300))
def test_a_record_is_due_when_it_arrives(drawn: list[tuple[float, float]], rate: float, number: int) -> None:
    pace = Uneven(rate, Course(drawn))
    at = pace.arrival_s(number)
    assert pace.due_by(at + 1e-9) > number
    assert pace.next_due(at) > at


def test_no_record_is_due_while_the_factor_is_0() -> None:
    pace = Uneven(10.0, Course(((1.0, 1.0), (5.0, 0.0))))
    assert [pace.due_by(at) for at in (0.99, 1.5, 5.99, 6.15)] == [10, 11, 11, 12]
    assert pace.next_due(1.05) == pytest.approx(6.1)


def throttle(course: Course | None, mode: str = "throttle") -> Throttle:
    costs = CostModel(oversleep_s=0.0, after_sleep_s=0.0)
    return Throttle(((0.0, 2 * MS),), costs, Draws([0.5] for _ in repeat(None)), course=course, mode=mode)


@pytest.mark.parametrize("mode", ["throttle", "exact"])
def test_a_record_costs_what_the_course_says_at_its_time(mode: str) -> None:
    service = throttle(Course(HIGH_AND_LOW), mode)
    pauses = [service.charge(1, at)[1] for at in (0.0, 20.0, 10.0)]
    assert pauses[:2] == pytest.approx([3.2 * MS, 3.2 * MS])
    assert pauses[2] == pytest.approx(0.0 if mode == "throttle" else 0.5 * MS)
    assert service.charged_s == pytest.approx(6.9 * MS)


def test_records_that_are_charged_together_follow_the_course() -> None:
    service = throttle(Course(((0.01, 1.0), (0.01, 2.5))))
    ends = service.charge_all(13, 0.0, 0.0).ends
    pauses = [later - earlier for earlier, later in pairwise([0.0, *ends])]
    assert pauses == pytest.approx([2 * MS] * 5 + [5 * MS] * 2 + [2 * MS] * 5 + [5 * MS])
