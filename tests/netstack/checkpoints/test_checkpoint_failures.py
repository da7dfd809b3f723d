"""How many failures in a row a job puts up with, and which ones count."""

from __future__ import annotations

import pytest

from flowcontrol import AbortReason
from netstack.checkpoints.pending_checkpoint import COUNTED, FailureCounter, FailureReason

EXPIRED, SUBSUMED = FailureReason.CHECKPOINT_EXPIRED, FailureReason.CHECKPOINT_SUBSUMED


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
    assert {reason.name for reason in COUNTED} == {
        "IO_EXCEPTION",
        "CHECKPOINT_ASYNC_EXCEPTION",
        "CHECKPOINT_EXPIRED",
        "CHECKPOINT_DECLINED",
        "FINALIZE_CHECKPOINT_FAILURE",
    }


@pytest.mark.parametrize("reason", AbortReason)
def test_what_barriers_give_up_never_fails_a_job(reason: AbortReason) -> None:
    assert FailureReason(reason.value) not in COUNTED
