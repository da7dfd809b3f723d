"""Storms whose checkpoints cannot complete in time, which is no defect: three that were drawn."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from netstack import (
    AtTime,
    ChangelogStorage,
    CheckpointMode,
    CostModel,
    FailoverStrategy,
    FillStorage,
    KillSubtask,
    KillTaskManager,
    LinkConditions,
    NetworkConfig,
    OnAcknowledgement,
    RestartStrategy,
    SubtaskName,
)
from tests.storms.case import Continuation, StormCase, StormVertex, Work
from tests.storms.one_storm import run_case

pytestmark = pytest.mark.long

CHECKPOINTS_IN_EACH_OTHERS_WAY = StormCase(
    seed=375575,
    vertices=(
        StormVertex(
            name="source0",
            work=Work.SOURCE,
            parallelism=4,
            task_manager="tm2",
            records=(178, 178, 178),
            rates=(0.0, 0.0),
            record_bytes=(8, 9000),
        ),
        StormVertex(
            name="step0",
            work=Work.REMEMBER,
            parallelism=2,
            task_manager="tm2",
            service_s=1.192011409265509e-05,
            service_skew=(1.0, 0.2),
            ttl_s=0.04238239959740102,
        ),
        StormVertex(name="sink", work=Work.SINK, parallelism=1, task_manager="tm2", service_skew=(1.0, 0.2)),
    ),
    edges=(("source0", "step0", "hash"), ("step0", "sink", "broadcast")),
    config=NetworkConfig(
        segment_bytes=4096,
        min_segment_bytes=64,
        starting_segment_bytes=4096,
        network_memory_max_bytes=184320,
        floating_buffers_per_gate=4,
        max_buffers_per_channel=2,
        max_overdraft_buffers_per_gate=0,
        debloat_enabled=True,
        debloat_period_s=0.02,
        debloat_target_s=0.3,
        debloat_samples=1,
        debloat_threshold_percent=0,
        checkpoint_interval_s=0.0164515389900572,
        checkpoint_timeout_s=0.24469898272009102,
        checkpoint_min_pause_s=0.005,
        max_concurrent_checkpoints=5,
        tolerable_failed_checkpoints=1000000,
        changelog_enabled=True,
        materialize_enabled=False,
        materialize_interval_s=0.29875445353752517,
        materialize_max_failures=1000000,
        state_memory_threshold_bytes=100,
        incremental_checkpoints=True,
        rocksdb_write_buffer_bytes=16384,
        rocksdb_target_file_bytes=2048,
        rocksdb_level_base_bytes=4096,
        restart_attempts=3,
        restart_delay_s=0.01,
        restart_initial_backoff_s=0.01,
        restart_max_backoff_s=0.5,
        restart_reset_backoff_threshold_s=1.0,
        restart_max_failures_per_interval=3,
        restart_failure_rate_interval_s=1.0,
        restart_failure_rate_delay_s=0.01,
        failover_strategy=FailoverStrategy.FULL,
        heartbeat_timeout_s=0.1,
        debloat_policy="longest-channel",
    ),
    duration_s=125.0,
    faults=(
        KillTaskManager(when=AtTime(time_s=0.120305732491297), task_manager="tm2"),
        FillStorage(
            when=OnAcknowledgement(number=3, subtask=SubtaskName(vertex="source0", subtask=3)),
            for_s=0.4836495429119388,
        ),
    ),
    patient=False,
    preset="flink-1.20",
)

GOES_ON_WITH_FEWER = StormCase(
    seed=948719,
    vertices=(
        StormVertex(
            name="source0",
            work=Work.SOURCE,
            parallelism=4,
            task_manager="tm3",
            records=(78, 78),
            record_bytes=(8, 60),
            keys=3,
            hot_share=0.3,
            out_of_orderness_s=0.01,
        ),
        StormVertex(
            name="step0",
            work=Work.EMIT,
            parallelism=4,
            task_manager="tm3",
            selectivity=Fraction(7, 3),
            emit_every_s=0.19185793596514114,
            by_event_time=True,
            service_mode="exact",
        ),
        StormVertex(
            name="step1",
            work=Work.EMIT,
            parallelism=4,
            task_manager="tm2",
            selectivity=Fraction(7, 3),
            service_s=0.020326002456522312,
        ),
        StormVertex(
            name="sink",
            work=Work.SINK,
            parallelism=4,
            task_manager="tm2",
            service_s=0.0001466346259018311,
            service_skew=(1.0, 3.0),
        ),
    ),
    edges=(
        ("source0", "step0", "rescale"),
        ("step0", "step1", "rescale"),
        ("step1", "sink", "rescale"),
        ("source0", "sink", "rescale"),
    ),
    config=NetworkConfig(
        segment_bytes=1024,
        starting_segment_bytes=256,
        exclusive_buffers_per_channel=0,
        floating_buffers_per_gate=3,
        max_buffers_per_channel=2,
        max_overdraft_buffers_per_gate=5,
        debloat_enabled=True,
        debloat_target_s=0.005,
        debloat_threshold_percent=0,
        buffer_timeout_interval_s=0.01,
        checkpoint_interval_s=0.028120781802043388,
        checkpoint_mode=CheckpointMode.AT_LEAST_ONCE,
        checkpoint_timeout_s=12.0,
        max_concurrent_checkpoints=5,
        tolerable_failed_checkpoints=1,
        materialize_interval_s=0.03928628472387853,
        materialize_max_failures=1000000,
        state_memory_threshold_bytes=0,
        rocksdb_level_base_bytes=4096,
        restart_strategy=RestartStrategy.FIXED_DELAY,
        restart_delay_s=0.01,
        restart_initial_backoff_s=0.01,
        restart_max_backoff_s=0.5,
        restart_reset_backoff_threshold_s=1.0,
        restart_failure_rate_interval_s=1.0,
        restart_failure_rate_delay_s=0.01,
        heartbeat_timeout_s=2.0,
    ),
    duration_s=125.0,
    fractions=(("source0", "sink", Fraction(1, 3)),),
    link=LinkConditions(latency_s=0.005),
    faults=(
        FillStorage(
            when=OnAcknowledgement(number=1, subtask=SubtaskName(vertex="step1", subtask=1)),
            for_s=0.12982936327128355,
        ),
        KillSubtask(
            when=OnAcknowledgement(number=6, subtask=SubtaskName(vertex="source0", subtask=1)),
            subtask=SubtaskName(vertex="sink", subtask=0),
        ),
    ),
    continuation=Continuation(stopped_at_s=0.6854293208776754, parallelism=(6, 3, 1, 2), killed=True),
)

CHANGES_SLOWLY_STORED = StormCase(
    seed=988838,
    vertices=(
        StormVertex(
            name="source0",
            work=Work.SOURCE,
            parallelism=1,
            task_manager="tm3",
            records=(90,),
            rates=(179.0967215979616, 90.72848118317515),
            record_bytes=(8, 2),
            keys=3,
        ),
        StormVertex(
            name="branch0",
            work=Work.GATHER,
            parallelism=2,
            task_manager="tm2",
            service_s=0.008776800743794614,
            service_skew=(1.0, 3.0),
        ),
        StormVertex(
            name="branch1",
            work=Work.REMEMBER,
            parallelism=1,
            task_manager="tm1",
            service_mode="exact",
            service_steps=((0.08950340072380626, 10.0), (0.5621174018442742, 0.2)),
            ttl_s=0.013921199559381838,
        ),
        StormVertex(
            name="sink",
            work=Work.SINK,
            parallelism=2,
            task_manager="tm1",
            service_s=0.001582207509873622,
            service_skew=(1.0, 0.2),
            service_mode="exact",
        ),
    ),
    edges=(
        ("source0", "branch0", "hash"),
        ("source0", "branch1", "broadcast"),
        ("branch0", "sink", "forward"),
        ("branch1", "sink", "rebalance"),
    ),
    config=NetworkConfig(
        segment_bytes=1024,
        min_segment_bytes=1024,
        max_buffers_per_channel=2,
        max_overdraft_buffers_per_gate=0,
        debloat_period_s=0.02,
        debloat_target_s=0.05,
        buffer_timeout_interval_s=0.0,
        checkpoint_interval_s=0.02617173593980601,
        checkpoint_timeout_s=12.0,
        unaligned_enabled=True,
        aligned_checkpoint_timeout_s=0.001,
        changelog_enabled=True,
        changelog_storage=ChangelogStorage.FILESYSTEM,
        materialize_interval_s=0.16625015346683583,
        materialize_max_failures=1000000,
        retained_checkpoints=3,
        state_memory_threshold_bytes=100,
        incremental_checkpoints=True,
        rocksdb_write_buffer_bytes=16384,
        restart_strategy=RestartStrategy.NONE,
        restart_attempts=2,
        restart_delay_s=0.01,
        restart_initial_backoff_s=0.01,
        restart_max_backoff_s=0.5,
        restart_reset_backoff_threshold_s=1.0,
        restart_max_failures_per_interval=2,
        restart_failure_rate_interval_s=1.0,
        restart_failure_rate_delay_s=0.01,
        heartbeat_timeout_s=2.0,
        debloat_policy="burst",
    ),
    duration_s=125.0,
    costs=CostModel(upload_rate_bytes_per_s=633.95414328238, download_rate_bytes_per_s=633.95414328238),
    manual_checkpoints_s=(0.054466169420710746, 0.410848873191625, 0.438568924029919),
)


def test_checkpoints_that_stand_in_each_others_way_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 51 ms in one task; five at once have 245 ms. One at a time, the job ends."""
    case = replace(CHECKPOINTS_IN_EACH_OTHERS_WAY, duration_s=30.0)
    one_by_one = replace(case, config=replace(case.config, max_concurrent_checkpoints=1))
    outcome = run_case(one_by_one)
    assert (outcome.end, outcome.problems) == ("ended", ())
    assert run_case(case).problems == ()
    monkeypatch.setattr("tests.storms.output_rules.expire_for_good", lambda *args: False)
    assert run_case(case).problems == ("did not end within 30 s, and nothing keeps it from that",)


def test_fewer_subtasks_and_a_slow_storage_are_a_reason_to_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """One subtask has the records of four: 15 s; 9.5 kB of changes go at 0.6 kB/s. 12 s is allowed."""
    goes_on_with_fewer, changes_slowly_stored = GOES_ON_WITH_FEWER, CHANGES_SLOWLY_STORED
    longer = replace(goes_on_with_fewer.config, checkpoint_timeout_s=30.0)
    given_time = replace(goes_on_with_fewer, config=longer)
    given_speed = replace(changes_slowly_stored, costs=CostModel())
    assert run_case(goes_on_with_fewer).problems == run_case(changes_slowly_stored).problems == ()
    for case in (given_time, given_speed):
        outcome = run_case(case)
        assert (outcome.end, outcome.problems) == ("ended", ())
    monkeypatch.setattr("tests.storms.output_rules.has_time_for_checkpoints", lambda *args: True)
    for case in (goes_on_with_fewer, changes_slowly_stored):
        (problem,) = run_case(case).problems
        assert problem.startswith("failed for no good reason: checkpoint ")
