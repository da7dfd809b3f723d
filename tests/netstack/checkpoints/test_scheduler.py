"""Requests for checkpoints that are granted or refused, and the number of failures that a job tolerates."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import FailureReason
from netstack.checkpoints.pending_checkpoint import COUNTED, FailureCounter
from netstack.checkpoints.scheduler import (
    CheckpointRequest,
    CheckpointRequestDecider,
    PutOff,
    RequestKind,
)

NEVER = -math.inf


def decider(
    *, max_concurrent: int = 1, min_pause_s: float = 0.0, max_queued: int = 3
) -> CheckpointRequestDecider:
    return CheckpointRequestDecider(
        max_concurrent=max_concurrent, min_pause_s=min_pause_s, max_queued=max_queued
    )


def periodic(at: float) -> CheckpointRequest:
    return CheckpointRequest(RequestKind.PERIODIC, at)


def manual(at: float) -> CheckpointRequest:
    return CheckpointRequest(RequestKind.USER, at)


def test_a_request_waits_while_as_many_are_pending_as_may_be() -> None:
    requests = decider(max_concurrent=2)
    requests.add(manual(1.0))
    assert requests.choose(1.0, 2, NEVER) is None
    assert requests.choose(5.0, 1, 4.0) == manual(1.0)
    assert requests.choose(5.0, 0, 4.0) is None


def test_users_come_before_the_timer_and_otherwise_first_come_first_served() -> None:
    requests = decider()
    for request in (periodic(1.0), manual(3.0), manual(2.0)):
        assert requests.add(request) is None
    granted = [requests.choose(4.0, 0, NEVER) for _ in range(3)]
    assert granted == [manual(2.0), manual(3.0), periodic(1.0)]


def test_a_periodic_request_within_the_pause_is_put_off_and_a_users_is_not() -> None:
    requests = decider(min_pause_s=2.0)
    requests.add(periodic(10.5))
    assert requests.choose(10.5, 0, 10.0) == PutOff(12.0)
    assert len(requests) == 0
    requests.add(manual(10.5))
    assert requests.choose(10.5, 0, 10.0) == manual(10.5)


@given(st.floats(0, 1e6), st.floats(0, 1e4))
def test_who_comes_back_when_the_pause_is_over_is_not_put_off_again(last_end: float, pause: float) -> None:
    requests = decider(min_pause_s=pause)
    requests.add(periodic(last_end))
    choice = requests.choose(last_end, 0, last_end)
    at = choice.until if isinstance(choice, PutOff) else last_end
    requests.add(periodic(at))
    assert requests.choose(at, 0, last_end) == periodic(at)


def test_one_periodic_request_waits_for_all() -> None:
    requests = decider()
    assert [requests.add(periodic(at)) for at in (1.0, 2.0)] == [None, None]
    assert requests.choose(3.0, 0, NEVER) == periodic(1.0)
    assert requests.choose(3.0, 0, NEVER) is None


def test_a_full_queue_refuses_the_periodic_request_first() -> None:
    requests = decider(max_queued=2)
    requests.add(manual(1.0))
    requests.add(periodic(2.0))
    too_many = FailureReason.TOO_MANY_REQUESTS
    assert requests.add(manual(3.0)) is too_many
    assert [requests.add(manual(4.0)), requests.add(periodic(5.0))] == [too_many, too_many]
    assert [requests.choose(9.0, 0, NEVER) for _ in range(3)] == [manual(1.0), manual(3.0), None]


def test_nothing_is_left_after_clearing() -> None:
    requests = decider()
    requests.add(manual(1.0))
    requests.clear()
    assert requests.choose(2.0, 0, NEVER) is None


EXPIRED, SUBSUMED = FailureReason.EXPIRED, FailureReason.SUBSUMED


def test_one_more_than_tolerable_is_too_many_and_the_count_begins_anew() -> None:
    counter = FailureCounter(1)
    assert [counter.failed(number, EXPIRED) for number in range(1, 6)] == [False, True, False, True, False]


def test_a_success_resets_the_count_and_outdates_older_failures() -> None:
    counter = FailureCounter(1)
    counter.failed(1, EXPIRED)
    counter.succeeded(3)
    assert [counter.failed(number, EXPIRED) for number in (2, 4, 5)] == [False, False, True]


@pytest.mark.parametrize("reason", FailureReason)
def test_only_failures_of_state_storage_and_time_count(reason: FailureReason) -> None:
    assert FailureCounter(0).failed(1, reason) is (reason in COUNTED)
    assert {str(reason) for reason in COUNTED} == {
        "IO_EXCEPTION",
        "CHECKPOINT_ASYNC_EXCEPTION",
        "CHECKPOINT_EXPIRED",
        "CHECKPOINT_DECLINED",
        "FINALIZE_CHECKPOINT_FAILURE",
    }


def test_what_barriers_abort_never_fails_a_job() -> None:
    declined = {reason for reason in FailureReason if reason.startswith("CHECKPOINT_DECLINED_")}
    assert not declined & COUNTED
