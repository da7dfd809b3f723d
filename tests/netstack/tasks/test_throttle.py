"""The service time of records: debts, sleeps that last too long, steps."""

from __future__ import annotations

from itertools import pairwise, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack.engine.randomness import Draws
from netstack.scenarios.costs import CostModel
from netstack.tasks.service_time import SLEEP_THRESHOLD_S, Pauses, Throttle

OVERSLEEP_S = 70e-6
AFTER_SLEEP_S = 4e-6
COSTS = CostModel(oversleep_s=OVERSLEEP_S, after_sleep_s=AFTER_SLEEP_S)
EXACT_COSTS = CostModel(oversleep_s=0.0, after_sleep_s=0.0)
MS = 1e-3


def throttle(
    *steps: tuple[float, float], costs: CostModel = COSTS, chance: float = 0.5, exact: bool = False
) -> Throttle:
    """With `chance` 0.5 a sleep is too long by just the over-sleep of `costs`."""
    draws = Draws([chance] for _ in repeat(None))
    return Throttle(steps, costs, draws, mode="exact" if exact else "throttle")


def test_a_debt_is_slept_off_when_it_reaches_the_threshold() -> None:
    service = throttle((0.0, 0.4 * MS))
    paid, pause = service.charge(10, 0.0)
    assert paid == 3
    assert pause == pytest.approx(1.2 * MS + OVERSLEEP_S + AFTER_SLEEP_S)


def test_the_oversleep_is_credited_to_the_next_debt() -> None:
    service = throttle((0.0, 0.4 * MS))
    service.charge(3, 0.0)
    paid, pause = service.charge(10, 0.0)
    # 0.4, 0.8 and 1.2 ms less what was slept too long: the sleep itself is again too long.
    assert (paid, pause) == (3, pytest.approx(1.2 * MS + AFTER_SLEEP_S))


def test_a_credit_may_put_the_next_sleep_off() -> None:
    service = throttle((0.0, 0.5 * MS))
    assert service.charge(9, 0.0)[0] == 2
    assert service.charge(9, 0.0)[0] == 3


@pytest.mark.parametrize(("chance", "late"), [(0.0, 0.5 * OVERSLEEP_S), (1.0, 1.5 * OVERSLEEP_S)])
def test_the_oversleep_varies(chance: float, late: float) -> None:
    service = throttle((0.0, 2 * MS), chance=chance)
    assert service.charge(1, 0.0) == (1, pytest.approx(2 * MS + late + AFTER_SLEEP_S))


def test_a_short_debt_is_carried_on() -> None:
    service = throttle((0.0, 0.4 * MS), costs=EXACT_COSTS)
    assert service.charge(2, 0.0) == (2, 0.0)
    assert service.charge(2, 0.0) == (1, pytest.approx(1.2 * MS))


def test_a_debt_of_just_the_threshold_is_slept_off() -> None:
    service = throttle((0.0, SLEEP_THRESHOLD_S / 10), costs=EXACT_COSTS)
    for _ in range(50):  # rounding errors must not add up to one more record
        assert service.charge(20, 0.0) == (10, pytest.approx(SLEEP_THRESHOLD_S))


def test_expensive_records_sleep_each() -> None:
    service = throttle((0.0, 5 * MS), costs=EXACT_COSTS)
    assert [service.charge(4, 0.0) for _ in range(4)] == [(1, pytest.approx(5 * MS))] * 4


def test_records_without_cost_never_sleep() -> None:
    assert throttle((0.0, 0.0)).charge(1000, 0.0) == (1000, 0.0)
    assert throttle((0.0, 0.0), exact=True).charge(1000, 0.0) == (1000, 0.0)


@given(st.floats(1e-6, 0.01), st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_in_the_long_run_records_take_what_they_cost(cost: float, batches: list[int]) -> None:
    service = throttle((0.0, cost))
    slept, sleeps = 0.0, 0
    for batch in batches:
        while batch:
            paid, pause = service.charge(batch, 0.0)
            assert 1 <= paid <= batch
            batch -= paid
            slept += pause
            sleeps += pause > 0
    debt = sum(batches) * cost - (slept - sleeps * AFTER_SLEEP_S)
    assert -OVERSLEEP_S * 1.000001 <= debt < SLEEP_THRESHOLD_S


def test_a_step_changes_the_cost_from_its_time_on() -> None:
    service = throttle((0.0, 2 * MS), (10.0, 5 * MS), (20.0, 1 * MS), costs=EXACT_COSTS)
    pauses = [service.charge(1, now)[1] for now in (0.0, 9.999, 10.0, 19.0, 20.0, 99.0)]
    assert pauses == pytest.approx([2 * MS, 2 * MS, 5 * MS, 5 * MS, 1 * MS, 1 * MS])


def test_the_first_step_holds_from_the_start() -> None:
    assert throttle((3.0, 2 * MS), (5.0, 4 * MS), costs=EXACT_COSTS).charge(1, 0.0) == (1, 2 * MS)


def test_exact_service_charges_each_record_by_itself() -> None:
    service = throttle((0.0, 0.4 * MS), exact=True)
    assert [service.charge(5, 0.0) for _ in range(3)] == [(1, 0.4 * MS)] * 3


STEPS = st.sampled_from(
    [
        ((0.0, 0.4 * MS),),
        ((0.0, 5 * MS),),
        ((0.0, 0.0),),
        ((0.0, 0.03 * MS),),
        ((0.0, 0.4 * MS), (0.002, 3 * MS), (0.011, 0.0)),
    ]
)


@given(STEPS, st.booleans(), st.lists(st.integers(0, 40), max_size=6), st.sampled_from([0.0, 0.8e-6]))
def test_charging_all_is_charging_one_after_the_other(
    steps: tuple[tuple[float, float], ...], exact: bool, batches: list[int], overhead: float
) -> None:
    at_once = throttle(*steps, exact=exact)
    by_steps = throttle(*steps, exact=exact)
    start = 1e-3
    for batch in batches:
        ends, counts, ends_early = at_once.charge_all(batch, start, overhead)
        now, done, pause = start, 0, 0.0
        expected_ends, expected_counts = [], []
        while done < batch:
            paid, pause = by_steps.charge(batch - done, now)
            done += paid
            now += paid * overhead + pause
            expected_ends.append(now)
            expected_counts.append(done)
        assert ends == pytest.approx(expected_ends, abs=1e-12)
        assert counts == expected_counts
        assert done == 0 or ends_early == (pause == 0)
        start = now


def test_charging_all_tells_when_each_sleep_ended() -> None:
    service = throttle((0.0, 0.5 * MS), costs=EXACT_COSTS)
    ends, counts, _ = service.charge_all(5, 10.0, 0.0)
    assert counts == [2, 4, 5]
    assert ends == pytest.approx([10.001, 10.002, 10.002])
    assert all(earlier <= later for earlier, later in pairwise(ends))


def test_mail_waits_for_the_end_of_the_current_sleep_but_not_of_the_last_one() -> None:
    pauses = Pauses([1.0, 2.0, 3.0], [4, 8, 9], True)
    assert [pauses.end_within(now) for now in (0.5, 1.0, 1.5, 2.0)] == [1.0, 1.0, 2.0, 2.0]
    assert [pauses.end_within(now) for now in (2.5, 3.0, 3.5)] == [None, None, None]
    assert [pauses.records_by(now) for now in (0.5, 1.0, 1.5, 2.0, 3.0)] == [0, 4, 4, 8, 9]


def test_what_is_put_off_is_what_has_not_ended() -> None:
    pauses = Pauses([1.0, 2.0, 3.0], [4, 8, 9], True)
    pauses.put_off(1.0, 0.5)
    assert pauses.ends == [1.0, 2.5, 3.5]
