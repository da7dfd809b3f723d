"""Waiting time for a missing partition, as Flink's own tests assert it."""

from __future__ import annotations

import pytest

from flowcontrol import (
    PARTITION_NOT_FOUND,
    ErrorResponse,
    PartitionRequest,
    RemoteProtocolError,
    RequestBackoff,
    RequestListeners,
)
from tests.vectors import flink_vectors

VECTORS = flink_vectors("credit_receiver_remote_input_channel", "credit_sender_request_queue")
BACKOFFS = [name for name in VECTORS if name.startswith("rx-backoff-")]


@pytest.mark.parametrize("name", BACKOFFS)
def test_flinks_backoff(name: str) -> None:
    given, steps = VECTORS[name]["given"], VECTORS[name]["steps"]
    backoff = RequestBackoff(given["max_backoff_param"] / 1000, given["listener_timeout"] / 1000)
    assert steps[0] == {"op": "request", "expect": {"delay": 0}}
    assert backoff.waited_s == 0
    for step in steps[1:]:
        again = [backoff.increase()]
        waited = [1000 * backoff.waited_s]
        for _ in range(1, step.get("count", 1)):
            again.append(backoff.increase())
            waited.append(1000 * backoff.waited_s)
        match step["expect"]:
            case {"backoff": list(expected)}:
                assert waited == expected
                assert again == [True] * (len(expected) - 1) + [expected[-1] < 2 * given["max_backoff_param"]]
            case {"backoff": expected}:
                assert (waited, again) == ([expected], [True])
            case {"error_on_poll": "io"}:
                assert again == [False]
            case other:
                raise AssertionError(f"unknown {other}")


def test_all_vectors_of_the_backoff_are_played() -> None:
    assert BACKOFFS == ["rx-backoff-growth", "rx-backoff-single", "rx-backoff-none"]


def test_with_flinks_defaults_a_partition_is_asked_for_twice_and_waited_for_20_s() -> None:
    backoff = RequestBackoff()
    assert [backoff.increase(), backoff.increase()] == [True, False]
    assert backoff.waited_s == 20


def test_flinks_listener_that_times_out() -> None:
    vector = VECTORS["tx-partition-timeout"]
    request, timeout = vector["steps"]
    listeners = RequestListeners(2.0)
    listeners.wait(PartitionRequest(7, vector["given"]["initial_credit"]), 1.0)
    assert request["expect"] == {"listeners": len(listeners)}
    assert (listeners.deadline, listeners.expire(2.9)) == (3.0, [])
    assert timeout["expect"] == {"sent": [["error_response", "partition_not_found"]]}
    assert listeners.expire(3.0) == [ErrorResponse(PARTITION_NOT_FOUND, 7)]
    assert (len(listeners), listeners.deadline, listeners.expire(9.0)) == (0, None, [])


def test_each_request_waits_its_own_time_unless_it_is_taken() -> None:
    listeners = RequestListeners(2.0)
    requests = [PartitionRequest(channel, 2) for channel in range(4)]
    for request in requests:
        listeners.wait(request, request.channel / 2)
    assert (listeners.take(0), listeners.take(0), listeners.take(9)) == (requests[0], None, None)
    assert listeners.deadline == 2.5
    assert [error.channel for error in listeners.expire(3.0)] == [1, 2]
    assert listeners.deadline == 3.5
    listeners.clear()
    assert (listeners.deadline, listeners.expire(4.0)) == (None, [])


def test_a_channel_waits_once() -> None:
    listeners = RequestListeners()
    listeners.wait(PartitionRequest(7, 2), 0.0)
    with pytest.raises(RemoteProtocolError, match="channel 7 was requested twice"):
        listeners.wait(PartitionRequest(7, 2), 1.0)
    assert listeners.deadline == 10.0
