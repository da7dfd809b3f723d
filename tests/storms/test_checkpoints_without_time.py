"""Storms whose checkpoints cannot complete in time, which is no defect: three that were drawn and shrunk."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from netstack import ChangelogStorage, CostModel, NetworkConfig, RestartStrategy
from tests.storms.case import Continuation, StormCase, Work
from tests.storms.one_storm import run_case
from tests.storms.small_cases import vertex

pytestmark = pytest.mark.long


CHECKPOINTS_IN_EACH_OTHERS_WAY = StormCase(
    seed=375575,
    vertices=(
        vertex("source0", Work.SOURCE, 4, "tm2", records=(178, 178, 178), record_bytes=(8, 9000)),
        vertex("step0", Work.REMEMBER, 1, "tm2", ttl_s=0.042),
        vertex("sink", Work.SINK, 1, "tm2"),
    ),
    edges=(("source0", "step0", "hash"), ("step0", "sink", "broadcast")),
    config=NetworkConfig(
        debloat_enabled=True,
        checkpoint_interval_s=0.0165,
        checkpoint_timeout_s=0.245,
        max_concurrent_checkpoints=5,
        tolerable_failed_checkpoints=1000000,
        changelog_enabled=True,
    ),
    duration_s=30.0,
    patient=False,
)

GOES_ON_WITH_FEWER = StormCase(
    seed=948719,
    vertices=(
        vertex("source0", Work.SOURCE, 4, "tm3", records=(78, 78), record_bytes=(8, 24)),
        vertex("step0", Work.EMIT, 4, "tm3", selectivity=Fraction(7, 3)),
        vertex("step1", Work.EMIT, 4, "tm2", selectivity=Fraction(7, 3), service_s=0.0203),
        vertex("sink", Work.SINK, 2, "tm2"),
    ),
    edges=(("source0", "step0", "rescale"), ("step0", "step1", "rescale"), ("step1", "sink", "rescale")),
    config=NetworkConfig(
        checkpoint_interval_s=0.028,
        checkpoint_timeout_s=12.0,
        restart_strategy=RestartStrategy.FIXED_DELAY,
    ),
    duration_s=125.0,
    continuation=Continuation(stopped_at_s=0.685, parallelism=(4, 4, 1, 2), killed=True),
)

CHANGES_SLOWLY_STORED = StormCase(
    seed=988838,
    vertices=(
        vertex("source0", Work.SOURCE, 1, "tm3", records=(90,), rates=(179.1, 90.7), record_bytes=(8, 2)),
        vertex("branch0", Work.GATHER, 2, "tm2", service_s=0.0088),
        vertex("branch1", Work.REMEMBER, 1, "tm1", ttl_s=0.0139),
        vertex("sink", Work.SINK, 2, "tm1"),
    ),
    edges=(
        ("source0", "branch0", "hash"),
        ("source0", "branch1", "broadcast"),
        ("branch0", "sink", "forward"),
        ("branch1", "sink", "rebalance"),
    ),
    config=NetworkConfig(
        buffer_timeout_interval_s=0.0,
        checkpoint_interval_s=0.0262,
        checkpoint_timeout_s=12.0,
        changelog_enabled=True,
        changelog_storage=ChangelogStorage.FILESYSTEM,
        restart_strategy=RestartStrategy.NONE,
    ),
    duration_s=125.0,
    costs=CostModel(upload_rate_bytes_per_s=634.0, download_rate_bytes_per_s=634.0),
)


def test_checkpoints_that_stand_in_each_others_way_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 55 ms in one task; five at once have 245 ms. One at a time, the job ends."""
    case = CHECKPOINTS_IN_EACH_OTHERS_WAY
    one_by_one = replace(case, config=replace(case.config, max_concurrent_checkpoints=1))
    outcome = run_case(one_by_one)
    assert (outcome.end, outcome.problems) == ("ended", ())
    assert run_case(case).problems == ()
    monkeypatch.setattr("tests.storms.output_rules.expire_for_good", lambda *args: False)
    assert run_case(case).problems == ("did not end within 30 s, and nothing keeps it from that",)


GIVEN_TIME = replace(GOES_ON_WITH_FEWER, config=replace(GOES_ON_WITH_FEWER.config, checkpoint_timeout_s=30.0))
GIVEN_SPEED = replace(CHANGES_SLOWLY_STORED, costs=CostModel())


@pytest.mark.parametrize(
    ("case", "in_time"),
    [(GOES_ON_WITH_FEWER, GIVEN_TIME), (CHANGES_SLOWLY_STORED, GIVEN_SPEED)],
    ids=["one subtask has the records of four", "changes go at 0.6 kB/s"],
)
def test_what_takes_longer_than_the_12_s_allowed_is_a_reason_to_expire(
    case: StormCase, in_time: StormCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_case(case).problems == ()
    outcome = run_case(in_time)
    assert (outcome.end, outcome.problems) == ("ended", ())
    monkeypatch.setattr("tests.storms.output_rules.has_time_for_checkpoints", lambda *args: True)
    problems = run_case(case).problems
    assert problems
    assert all(problem.startswith("failed for no good reason: checkpoint ") for problem in problems)
