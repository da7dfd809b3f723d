"""Debloating policies: Flink's literal one, what the others do otherwise, and what holds for all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    POLICIES,
    AnnouncementError,
    BufferDebloater,
    DebloatPolicy,
    DebloatSettings,
    FlinkPolicy,
    LongestWhenUnblockedPolicy,
    announcements,
    register_policy,
    to_all,
)

SETTINGS = DebloatSettings()

BUILT_IN = sorted(name for name, policy in POLICIES.items() if policy.__module__.startswith("flowcontrol."))
"""Those that are there without a plug-in or another test."""
PERIOD_S = 0.2


@dataclass
class Channel:
    buffers_in_use: int = 0
    blocked: bool = False
    queued_bytes: int = 0
    released: bool = False


def channels(*counts: int, blocked: bool = False) -> list[Channel]:
    return [Channel(count, blocked) for count in counts]


def settle(policy: DebloatPolicy, throughput: int, gate: Sequence[Channel], periods: int = 200) -> None:
    for period in range(periods):
        for place in range(len(gate)):
            policy.polled(place, 1000)
        list(policy.recalculate(throughput, gate, period * PERIOD_S))


COUNTS = st.lists(st.integers(0, 40), min_size=1, max_size=4)
STEPS = st.lists(
    st.tuples(st.integers(0, 20_000_000), st.lists(st.integers(0, 40), min_size=3, max_size=3)), max_size=60
)


@given(STEPS)
def test_flinks_policy_is_flinks_debloater_of_the_sum(steps: list[tuple[int, list[int]]]) -> None:
    policy = FlinkPolicy(SETTINGS)
    literal = BufferDebloater(1.0, 32768, 256, 1024, 25, 20)
    for throughput, counts in steps:
        size = literal.recalculate(throughput, sum(counts))
        announced = list(policy.recalculate(throughput, channels(*counts), 0.0))
        assert announced == ([] if size is None else [(0, size), (1, size), (2, size)])
        assert policy.last_announced == literal.last_announced
        assert policy.estimated_time_s == literal.estimated_time_s


def test_the_longest_channel_counts_for_each_that_has_data() -> None:
    policy = LongestWhenUnblockedPolicy(SETTINGS)
    assert policy.buffers_in_use(channels(8, 2, 2, 0)) == 24
    assert policy.buffers_in_use(channels(4, 4)) == 8
    assert policy.buffers_in_use(channels(0, 0)) == 0
    assert policy.buffers_in_use(channels(6, 2)) == 12


def test_blocked_channels_let_flinks_buffers_grow() -> None:
    policy = FlinkPolicy(SETTINGS)
    settle(policy, 200_000, channels(10, 11))
    settled = policy.last_announced
    settle(policy, 200_000, channels(1, 0, blocked=True), periods=5)
    assert policy.last_announced > 1.25 * settled


def test_no_step_is_taken_while_a_channel_is_blocked() -> None:
    policy = LongestWhenUnblockedPolicy(SETTINGS)
    settle(policy, 400_000, channels(20, 5), periods=400)
    size, time_s = policy.last_announced, policy.estimated_time_s
    assert size == pytest.approx(10_000, rel=0.25)
    for _ in range(50):
        assert not list(policy.recalculate(400_000, [Channel(0, blocked=True), Channel(1)], 0.0))
    assert (policy.last_announced, policy.estimated_time_s) == (size, time_s)
    assert policy.buffers_in_use(channels(20, 5, 0)) == 40
    settle(policy, 400_000, channels(40, 40), periods=400)
    assert policy.last_announced < 0.75 * size


@pytest.mark.parametrize("name", BUILT_IN)
@given(steps=STEPS, blocked=st.lists(st.booleans(), min_size=3, max_size=3), target=st.floats(0.01, 5))
def test_sizes_lie_between_the_bounds_and_the_gauges_with_them(
    name: str, steps: list[tuple[int, list[int]]], blocked: list[bool], target: float
) -> None:
    settings = DebloatSettings(target_s=target, max_size=8192, min_size=300, starting_size=1000)
    policies = [POLICIES[name](settings) for _ in range(2)]
    for throughput, counts in steps:
        gate = [Channel(count, stop) for count, stop in zip(counts, blocked, strict=True)]
        for policy in policies:
            for place in range(len(gate)):
                policy.polled(place, 100)
        announced, again = (list(policy.recalculate(throughput, gate, 0.0)) for policy in policies)
        assert announced == again
        assert all(place in range(3) and 300 <= size <= 8192 for place, size in announced)
        assert 300 <= policies[0].last_announced <= 8192
        assert policies[0].estimated_time_s >= 0


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize(
    "settings",
    [
        DebloatSettings(target_s=0.0),
        DebloatSettings(min_size=0),
        DebloatSettings(min_size=9, max_size=8),
        DebloatSettings(samples=0),
        DebloatSettings(threshold_percent=-1),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other_are_refused(name: str, settings: DebloatSettings) -> None:
    with pytest.raises(ValueError, match="must"):
        POLICIES[name](settings)


class Constant(DebloatPolicy):
    def recalculate(self, throughput, channels, now):  # type: ignore[no-untyped-def]
        return to_all(512, channels)


def test_a_policy_can_be_registered_once_more_but_not_another_under_its_name() -> None:
    register_policy("constant-of-a-test", Constant)
    register_policy("constant-of-a-test", Constant)
    assert POLICIES["constant-of-a-test"] is Constant
    assert list(POLICIES["constant-of-a-test"](SETTINGS).recalculate(1, channels(1, 1), 0.0)) == [
        (0, 512),
        (1, 512),
    ]
    with pytest.raises(
        ValueError, match="the name 'flink' is taken by another policy, FlinkPolicy; choose another name"
    ):
        register_policy("flink", Constant)


def test_names_and_classes_that_will_not_do_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be the name of a policy"):
        register_policy("a:b", Constant)
    with pytest.raises(ValueError, match="cannot be the name of a policy"):
        register_policy("", Constant)
    with pytest.raises(TypeError, match=" is not a class derived from DebloatPolicy"):
        register_policy("dictionary", dict)  # type: ignore[arg-type]


def test_the_default_comes_first_and_the_list_cannot_be_changed() -> None:
    assert next(iter(POLICIES)) == "flink"
    with pytest.raises(TypeError):
        POLICIES["flink"] = Constant  # type: ignore[index]


class Says(DebloatPolicy):
    """Announces what it is given."""

    def __init__(self, answer: object) -> None:
        super().__init__(SETTINGS)
        self.answer = answer

    def recalculate(self, throughput, channels, now):  # type: ignore[no-untyped-def]
        return self.answer


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, r"Says.recalculate has returned None; it has to return \(channel index, size\) pairs"),
        ([(0, 1000.5)], "announces 1000.5 bytes to channel 0; both have to be whole numbers"),
        ([(0.0, 1000)], "both have to be whole numbers"),
        ([(0, 255)], "announces 255 bytes; the settings allow 256 to 32768"),
        ([(0, -5)], "announces -5 bytes"),
        ([(0, 32769)], "announces 32769 bytes"),
        ([(0, float("nan"))], "announces nan bytes"),
        (
            [(0, 1000), (2, 1000)],
            " announces a size to channel 2, but the gate has only 2 channels, counted from 0",
        ),
        ([(-1, 1000)], " announces a size to channel -1, but the gate has only 2 channels, counted from 0"),
    ],
    ids=str,
)
def test_what_cannot_be_announced_is_an_error_that_names_the_policy(answer: object, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        announcements(Says(answer), 1, channels(1, 1), 0.0)


class Shows(Says):
    """Announces what it is given, and shows gauges that are no numbers of their kind."""

    def __init__(self, answer: object, size: object, time_s: object = 0.0) -> None:
        super().__init__(answer)
        self.shown = size, time_s

    def recalculate(self, throughput, channels, now):  # type: ignore[no-untyped-def]
        self.last_announced, self.estimated_time_s = self.shown
        return self.answer


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (Shows((), 1000.5), "Shows.last_announced is 1000.5; it has to be a whole number of bytes"),
        (Shows((), None), "Shows.last_announced is None; it has to be a whole number of bytes"),
        (Shows((), 1000, None), "Shows.estimated_time_s is None; it has to be a number of seconds"),
        (Shows([(0, 1000.5)], 1000.5), "Shows announces 1000.5 bytes to channel 0"),
    ],
    ids=["float", "none", "time", "both"],
)
def test_gauges_that_are_no_numbers_are_an_error_and_stay_as_they_were(policy: Shows, problem: str) -> None:
    with pytest.raises(AnnouncementError, match=problem):
        announcements(policy, 1, channels(1, 1), 0.0)
    assert (policy.last_announced, policy.estimated_time_s) == (SETTINGS.starting_size, 0.0)


def test_gauges_become_plain_numbers() -> None:
    policy = Shows((), np.int64(1000), np.float64(0.5))
    assert announcements(policy, 1, channels(1, 1), 0.0) == []
    assert (type(policy.last_announced), type(policy.estimated_time_s)) == (int, float)


def test_what_can_be_announced_comes_as_plain_numbers() -> None:
    said = announcements(Says(iter([(np.int64(1), np.int64(256)), (0, 32768)])), 1, channels(1, 1), 0.0)
    assert said == [(1, 256), (0, 32768)]
    assert {type(number) for pair in said for number in pair} == {int}
    assert announcements(Says(()), 1, channels(), 0.0) == []


@pytest.mark.parametrize(
    ("samples", "threshold", "steps"), [(20, 25, 3), (20, 0, 1), (100, 25, 12), (3, 25, 1)]
)
def test_a_growing_size_is_announced_at_least_every_so_many_steps(
    samples: int, threshold: int, steps: int
) -> None:
    settings = DebloatSettings(samples=samples, threshold_percent=threshold, max_size=1 << 30)
    assert settings.steps_to_grow == steps
    policy = FlinkPolicy(settings)
    told = [
        bool(list(policy.recalculate(1 << 30, channels(1), step * PERIOD_S))) for step in range(4 * steps)
    ]
    announced = [step for step, is_new in enumerate(told) if is_new]
    assert announced[0] < steps
    assert max(np.diff(announced), default=steps) <= steps
