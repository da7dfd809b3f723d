"""Restart strategies: the delay after each failure, and when there is none; in both runners."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack import (
    Assignment,
    AtTime,
    CostModel,
    Edge,
    GeneratorSpec,
    JobFailedError,
    KillSubtask,
    LaunchError,
    MemoryStorage,
    NetworkConfig,
    Report,
    RestartStrategy,
    Result,
    Scenario,
    SubtaskName,
    Vertex,
    emulate,
    run_distributed,
)
from netstack.engine.randomness import Randomness
from netstack.jobs.restarts import RestartBackoffStrategy, restart_strategy_of
from netstack.scenarios.config_rules import option_problems
from netstack.scenarios.rules import option_notices

KILLED = "subtask stage[0] is killed"


def job(*kills: float, **options: Any) -> Scenario:
    """A source and a stage that is killed at these times; it takes checkpoints."""
    return Scenario(
        name="killed",
        duration_s=60.0,
        config=NetworkConfig(**{"checkpoint_interval_s": 0.2, **options}),
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=100, rates=(50.0,))),
            Vertex(name="stage"),
        ),
        edges=(Edge(source="source", target="stage"),),
        faults=tuple(KillSubtask(when=AtTime(at), subtask=SubtaskName("stage", 0)) for at in kills),
    )


def strategy(kind: RestartStrategy, seed: int = 1, **options: Any) -> RestartBackoffStrategy:
    return restart_strategy_of(job(restart_strategy=kind, **options), Randomness(seed, 1.0))


def delays(decides: RestartBackoffStrategy, failures: int, ran_s: float = 0.001) -> list[float]:
    """The delays after so many failures, each some time after the restart before."""
    answers, now = list[float](), 0.0
    for _ in range(failures):
        delay = decides.delay_after(now)
        assert delay is not None
        answers.append(delay)
        now += delay + ran_s
    return answers


@pytest.mark.parametrize("kind", RestartStrategy)
def test_each_strategy_that_can_be_named_is_there(kind: RestartStrategy) -> None:
    delay = strategy(kind).delay_after(5.0)
    assert (delay is None) == (kind is RestartStrategy.NONE)


def test_no_restart_says_nothing_but_the_cause() -> None:
    never = strategy(RestartStrategy.NONE)
    assert (never.delay_after(1.0), never.exhausted) == (None, "")


def test_a_fixed_delay_comes_as_often_as_there_are_attempts() -> None:
    thrice = strategy(RestartStrategy.FIXED_DELAY, restart_attempts=3, restart_delay_s=0.5)
    assert [thrice.delay_after(float(at)) for at in range(5)] == [0.5, 0.5, 0.5, None, None]
    assert thrice.exhausted == "restarted 3 times, as often as is allowed"


def backoff(seed: int = 1, **options: Any) -> RestartBackoffStrategy:
    return strategy(RestartStrategy.EXPONENTIAL_DELAY, seed, **options)


def test_the_backoff_grows_from_flinks_defaults_to_a_minute() -> None:
    exact = [min(1.5**number, 60.0) for number in range(12)]
    assert delays(backoff(restart_jitter_factor=0.0), 12) == pytest.approx(exact, abs=0.001)
    for seed in range(20):
        for delay, middle in zip(delays(backoff(seed), 12), exact, strict=True):
            assert 0.9 * middle - 0.002 <= delay <= min(1.1 * middle, 60.0)
            assert delay >= 1.0


def test_a_backoff_is_whole_milliseconds() -> None:
    options = {"restart_initial_backoff_s": 0.004, "restart_backoff_multiplier": 2.3}
    assert delays(backoff(**options, restart_jitter_factor=0.0), 3) == [0.004, 0.009, 0.021]


@pytest.mark.parametrize(
    ("failures", "possible"), [(1, {2}), (2, {3, 4, 5}), (3, {6, 7}), (4, {7})], ids=["1", "2", "3", "4"]
)
def test_jitter_is_a_part_of_the_backoff_to_either_side(failures: int, possible: set[int]) -> None:
    options = {"restart_initial_backoff_s": 0.002, "restart_max_backoff_s": 0.007}
    options |= {"restart_backoff_multiplier": 2.0, "restart_jitter_factor": 0.25}
    last = {round(delays(backoff(seed, **options), failures)[-1] * 1e3) for seed in range(60)}
    assert last == (possible if failures > 1 else {2})


def test_the_backoff_is_the_initial_one_again_after_long_enough_without_failure() -> None:
    options = {"restart_jitter_factor": 0.0, "restart_reset_backoff_threshold_s": 8.0}
    decides = backoff(**options)
    assert decides.delay_after(0.0) == 1.0
    assert decides.delay_after(8.5) == 1.5  # it ran for less than 8 s
    assert decides.delay_after(18.0) == 1.0
    assert decides.delay_after(20.0) == 1.5


def test_attempts_count_anew_when_the_backoff_does() -> None:
    decides = backoff(restart_attempts_before_reset=2, restart_reset_backoff_threshold_s=8.0)
    assert None not in [decides.delay_after(at) for at in (0.0, 3.0, 20.0, 23.0)]
    assert decides.delay_after(26.0) is None
    assert decides.exhausted == "restarted 2 times, as often as is allowed"


@given(st.floats(1.001, 1e6), st.floats(0, 1), st.integers(0, 9))
def test_no_number_of_failures_is_too_many(multiplier: float, jitter: float, seed: int) -> None:
    options = {"restart_backoff_multiplier": multiplier, "restart_jitter_factor": jitter}
    assert all(1.0 <= delay <= 60.0 for delay in delays(backoff(seed, **options), 300))


def test_jitter_follows_from_the_seed() -> None:
    assert delays(backoff(7), 9) == delays(backoff(7), 9) != delays(backoff(8), 9)


def test_failures_that_are_rare_enough_are_followed_by_restarts() -> None:
    options = {"restart_max_failures_per_interval": 2, "restart_failure_rate_interval_s": 10.0}
    decides = strategy(RestartStrategy.FAILURE_RATE, **options, restart_failure_rate_delay_s=0.25)
    assert [decides.delay_after(at) for at in (0.0, 4.0, 10.5, 14.5)] == [0.25] * 4
    assert decides.delay_after(20.5) is None  # the third within 10 s, both ends included
    assert decides.exhausted == ("failed 3 times within 10 s, and the limit for this time is 2")


def test_without_a_strategy_the_delay_grows_where_checkpoints_are_taken() -> None:
    result = emulate(job(0.5, 1.9, 4.2))
    taken = [(restart.restarted_at or 0.0) - restart.failed_at for restart in result.restarts]
    deployed = CostModel().deploy_s + CostModel().deploy_per_task_s
    assert taken == pytest.approx([delay + deployed for delay in delays(backoff(1), 3)], abs=1e-3)
    assert taken[0] < taken[1] < taken[2]
    with pytest.raises(JobFailedError, match=KILLED.replace("[", r"\[") + "$"):
        emulate(job(0.5, checkpoint_interval_s=None))


RATE: dict[str, Any] = {
    "restart_strategy": RestartStrategy.FAILURE_RATE,
    "restart_failure_rate_delay_s": 0.01,
}


def failed_for_good(scenario: Scenario, *, distributed: bool) -> Result:
    def launch(assignment: Assignment) -> list[Report]:
        raise LaunchError(KILLED)

    def run() -> Result:
        return run_distributed(scenario, launch, MemoryStorage()) if distributed else emulate(scenario)

    with pytest.raises(JobFailedError) as failed:
        run()
    return failed.value.result


@pytest.mark.parametrize("distributed", [False, True])
def test_both_runners_give_up_when_the_strategy_does(distributed: bool) -> None:
    kills = () if distributed else (0.5, 0.6, 0.7)
    result = failed_for_good(job(*kills, **RATE), distributed=distributed)
    assert result.failure == f"{KILLED} (failed 2 times within 60 s, and the limit for this time is 1)"
    assert len(result.restarts) == 1
    options = {"restart_strategy": RestartStrategy.EXPONENTIAL_DELAY, "restart_attempts_before_reset": 2}
    options |= {"restart_initial_backoff_s": 0.01, "restart_max_backoff_s": 0.01}
    result = failed_for_good(job(*kills, **options), distributed=distributed)
    assert result.failure == f"{KILLED} (restarted 2 times, as often as is allowed)"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"restart_initial_backoff_s": 0.0}, "initial-backoff: is 0 s; it must be 1 ms or more"),
        (
            {"restart_initial_backoff_s": 2.0, "restart_max_backoff_s": 1.0},
            "max-backoff: is 1 s; it must not be less than the initial backoff, 2 s",
        ),
        ({"restart_backoff_multiplier": 1.0}, "backoff-multiplier: is 1; it must be more than 1"),
        ({"restart_jitter_factor": 1.5}, "jitter-factor: is 1.5; it must be from 0 to 1"),
        (
            {"restart_reset_backoff_threshold_s": 0.0},
            "reset-backoff-threshold: is 0 s; it must be 1 ms or more",
        ),
    ],
)
def test_what_flink_refuses_of_a_backoff_is_a_mistake(options: dict[str, Any], problem: str) -> None:
    prefix = "flink.restart-strategy.exponential-delay."
    assert [f"{key}: {text}" for key, text in option_problems(NetworkConfig(**options))] == [prefix + problem]


def test_options_of_another_strategy_are_noticed() -> None:
    given_options = frozenset({"restart_delay_s", "restart_max_backoff_s", "restart_strategy"})
    (notice,) = option_notices(job(given=given_options))
    fixed = "flink.restart-strategy.fixed-delay.delay"
    assert notice == (fixed, "has no effect unless restart-strategy.type is 'fixed-delay'")
    named = job(given=given_options, restart_strategy=RestartStrategy.FIXED_DELAY)
    assert [key for key, _ in option_notices(named)] == [
        "flink.restart-strategy.exponential-delay.max-backoff"
    ]
