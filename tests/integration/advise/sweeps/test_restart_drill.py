"""A job that was down reads what arrived meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integration.advise.sweeps.restart_drill import EndOnceCaughtUp, RestartDrill, drill_of, drill_scenario
from integration.base.errors import UsageError
from integration.runs.emulating import emulate
from netstack import GeneratorSpec, NetworkConfig, Result, Scenario, Vertex, with_options
from tests.integration.advise.tune.paced_job import JOB, LIMIT, UNLIMITED

DOWN_S = 30.0


def run_drill(job: Scenario, limit: float = LIMIT) -> Result:
    """A run of the drill."""
    drill = drill_scenario(job, DOWN_S, limit)
    return emulate(drill, end_of_run=EndOnceCaughtUp(drill))


@pytest.fixture(scope="module")
def drill() -> RestartDrill:
    return drill_of("now", run_drill(JOB))


def test_catching_up_takes_the_backlog_over_the_free_capacity(drill: RestartDrill) -> None:
    expected_s = (DOWN_S + 1.0) / (LIMIT - 1)  # the records since the last checkpoint are read again
    assert drill.caught_up_s == pytest.approx(expected_s, rel=0.1)
    assert drill.emulated_s == drill.caught_up_s
    assert drill.most_pending == pytest.approx(250 * DOWN_S, rel=0.1)


def test_checkpoints_take_as_long_as_at_the_limit_meanwhile(drill: RestartDrill) -> None:
    assert drill.before_ms is not None
    assert drill.checkpoint_ms is not None
    assert drill.checkpoint_ms > 10 * drill.before_ms
    assert (drill.checkpoints_expired, drill.restarts) == (0, 0)


def test_checkpoints_expire_and_restart_the_job() -> None:
    short = with_options(JOB.config, {"checkpoint_timeout_s": 1.0})
    found = drill_of("now", run_drill(replace(JOB, config=short)))
    assert found.checkpoints_expired > 0
    assert found.restarts > 0, "none is tolerated by default"


def test_without_headroom_it_does_not_catch_up() -> None:
    slow = replace(JOB, vertices=(JOB.vertices[0], replace(JOB.vertices[1], service=((0.0, 0.0041),))))
    planned = drill_scenario(slow, DOWN_S, 1.0)
    assert planned.duration_s == 20.0 + DOWN_S + 1800.0 + 20.0
    cut = planned.ending_at(100.0)
    assert drill_of("now", emulate(cut)).caught_up_s is None


def test_what_was_not_emulated_is_calculated(drill: RestartDrill) -> None:
    planned = drill_scenario(JOB, DOWN_S, LIMIT).ending_at(20.0 + DOWN_S + 20.0)
    found = drill_of("now", emulate(planned))
    assert found.emulated_s == pytest.approx(20.0, abs=1.0)
    assert found.caught_up_s == pytest.approx(drill.caught_up_s, rel=0.15)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (replace(JOB, config=NetworkConfig()), "takes no checkpoints"),
        (UNLIMITED, "emits as fast as possible, so nothing arrives"),
    ],
)
def test_a_job_that_cannot_have_a_drill(job: Scenario, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        drill_scenario(job, DOWN_S, LIMIT)


def test_an_outage_has_a_length() -> None:
    with pytest.raises(UsageError, match="must be more than 0"):
        drill_scenario(JOB, 0.0, LIMIT)


def test_a_burst_that_has_just_come_is_no_backlog() -> None:
    bursts = GeneratorSpec(record_bytes=1000, rates=(250.0,), burst_s=8.0)
    found = drill_of(
        "now", run_drill(replace(JOB, vertices=(Vertex(name="orders", source=bursts), JOB.vertices[1])))
    )
    assert found.caught_up_s == pytest.approx(DOWN_S / (LIMIT - 1), rel=0.35), "to a burst"
    assert found.emulated_s == found.caught_up_s
