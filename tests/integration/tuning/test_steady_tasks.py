"""Whether the tasks of a job all go on while they are watched, by what they account for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from integration.errors import FlinkRestError
from integration.flink.client import RestClient
from integration.flink.job import FlinkJob
from integration.flink.sampling import Round, check_all_go_on

VERTEX = SimpleNamespace(id="v", name="work", parallelism=2, managers=("tm0", "tm1"))
JOB = cast(FlinkJob, SimpleNamespace(id="j", vertices=[VERTEX]))
CLIENT = cast(RestClient, SimpleNamespace(url="http://cluster"))


def look(at: int, *samples: dict[str, float] | float | None) -> Round:
    """What both subtasks answered: all values, the time that they account for, or nothing."""
    answers: dict[tuple[str, int], Any] = {}
    for subtask, sample in enumerate(samples):
        if isinstance(sample, float | int):
            sample = {"busy_ms": sample, "idle_ms": 0.0, "backpressured_ms": 0.0}
        if sample is not None:
            answers["v", subtask] = (float(at), sample)
    return answers


def check(looks: list[Round], more: list[Round]) -> None:
    further = iter(more)
    check_all_go_on(CLIENT, JOB, looks, lambda: next(further), at_each_poll=True)


def test_a_task_whose_account_stands_still_while_another_goes_on_has_fallen_silent() -> None:
    looks = [look(at, 10 * at, 10 * min(at, 3)) for at in range(6)]
    with pytest.raises(FlinkRestError, match=r"subtask 1 of 'work' stopped reporting .* task manager tm1"):
        check(looks, [look(at, 10 * at, 30) for at in range(6, 9)])


def test_one_that_does_not_answer_has_fallen_silent_too() -> None:
    looks = [look(at, 10 * at, 10 * at if at < 3 else None) for at in range(6)]
    with pytest.raises(FlinkRestError, match="stopped reporting"):
        check(looks, [look(at, 10 * at, None) for at in range(6, 9)])


def test_where_all_stand_still_as_behind_the_end_of_a_recording_nobody_has_fallen_silent() -> None:
    looks = [look(at, 10 * at, 10 * min(at, 4)) for at in range(6)]
    check(looks, [look(at, 50, 40) for at in range(6, 9)])


def test_one_that_goes_on_at_a_look_more_was_only_late() -> None:
    looks = [look(at, 10 * at, 10 * min(at, 3)) for at in range(6)]
    check(looks, [look(at, 10 * at, 10 * at) for at in range(6, 9)])


def test_an_account_that_stands_still_while_records_go_on_is_none() -> None:
    kept = {"busy_ms": 0.0, "idle_ms": 5.0, "backpressured_ms": 0.0}
    looks = [look(at, 10 * at, kept | {"records_out": 7.0 * at}) for at in range(6)]
    check(looks, [look(at, 10 * at, kept | {"records_out": 7.0 * at}) for at in range(6, 9)])


def test_who_tells_only_part_of_an_account_from_some_look_on_has_not_fallen_silent() -> None:
    looks = [look(at, 10 * at, 10 * at if at < 3 else {"busy_ms": 20.0}) for at in range(6)]
    check(looks, [look(at, 10 * at, {"busy_ms": 20.0}) for at in range(6, 9)])
