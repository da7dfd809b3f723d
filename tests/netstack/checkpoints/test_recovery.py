"""Whole jobs that fail and come back: nothing lost, and in the exactly-once modes nothing counted twice."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import trio

from netstack import (
    Agenda,
    AtTime,
    CostModel,
    CutLink,
    FailUpload,
    FillStorage,
    HandleReader,
    Job,
    JobFailedError,
    MemoryStorage,
    RestartStrategy,
    StateKind,
    TransactionLog,
    emulate,
)
from netstack.exchange.gate import InputGate
from tests.crossing import crossed
from tests.netstack.whole_jobs import (
    EXACTLY_ONCE,
    MODES,
    RECOVERIES,
    SCHEDULES,
    expected,
    kill,
    run,
    sums_job,
)


@crossed(schedule=list(SCHEDULES), mode=EXACTLY_ONCE, recovery=RECOVERIES)
def test_exactly_once_whatever_fails(mode: str, schedule: str, recovery: dict[str, bool]) -> None:
    log = TransactionLog()
    job = run(sums_job(log, SCHEDULES[schedule], **MODES[mode], **recovery))
    assert sorted(log.records) == expected()
    if schedule not in ("none", "a cut that is survived", "sink, while the sums are out"):
        assert any(restart.checkpoint_id is not None for restart in job.restarts)


def final_state(storage: MemoryStorage) -> dict[tuple[str, int, str], bytes]:
    """The bytes of all state that the sources and the sums had after their last record."""
    read = HandleReader(storage)
    return {
        (snapshot.vertex, snapshot.subtask, handle.name): read(handle)
        for number in storage.checkpoints()
        for snapshot in storage.load(number).subtasks
        if snapshot.vertex in ("numbers", "sums") and snapshot.data_ended
        for handle in snapshot.handles
        if handle.kind in (StateKind.KEYED, StateKind.OPERATOR)
    }


@crossed(mode=EXACTLY_ONCE, recovery=RECOVERIES)
def test_output_and_state_are_those_of_a_run_without_faults_byte_for_byte(
    mode: str, recovery: dict[str, bool]
) -> None:
    logs, storages = [TransactionLog(), TransactionLog()], [MemoryStorage(), MemoryStorage()]
    settings = MODES[mode] | recovery | {"retained_checkpoints": 1000}
    run(sums_job(logs[0], **settings), storages[0])
    job = run(sums_job(logs[1], SCHEDULES["task managers"], **settings), storages[1])
    assert len(job.restarts) == 2
    calm, stormy = (b"\n".join(sorted(log.records)) for log in logs)
    assert stormy == calm
    assert final_state(storages[1]) == final_state(storages[0])
    assert len(final_state(storages[0])) == 4


def test_at_least_once_counts_nothing_too_little_and_something_twice() -> None:
    log, faults = TransactionLog(), [kill("sums", 1, at) for at in (1.4, 2.4)]
    job = run(sums_job(log, faults, **MODES["at least once"]))
    assert all(restart.checkpoint_id is not None for restart in job.restarts)
    sums = dict(record.split() for record in log.records)
    exact = dict(record.split() for record in expected())
    assert sums.keys() == exact.keys()
    assert all(int(sums[key]) >= int(exact[key]) for key in exact)
    assert sums != exact


def test_without_a_checkpoint_the_job_begins_anew() -> None:
    log = TransactionLog()
    settings: dict[str, Any] = {
        "checkpoint_interval_s": 50.0,
        "restart_strategy": RestartStrategy.FIXED_DELAY,
    }
    job = run(sums_job(log, [kill("middle", 0, 0.5)], **settings))
    assert [restart.checkpoint_id for restart in job.restarts] == [None]
    assert sorted(log.records) == expected()


@pytest.mark.parametrize("mode", ["unaligned", "aligned with timeout"])
def test_what_was_in_flight_comes_back(mode: str) -> None:
    log = TransactionLog()
    job = run(sums_job(log, [kill("sums", 0, 0.6)], rate=0.0, **MODES[mode]))
    (restart,) = job.restarts
    assert restart.persisted_bytes > 1000
    assert restart.restored_bytes > restart.persisted_bytes
    assert restart.running_at is not None
    assert restart.restarted_at is not None
    # The recovered data has to be worked through before checkpoints go on.
    assert restart.running_at > restart.restarted_at
    assert sorted(log.records) == expected()


def first_checkpoint_after(job: Job) -> tuple[float, float]:
    """Seconds from the first restart until all tasks ran, and until a checkpoint was complete."""
    restart = job.restarts[0]
    assert restart.restarted_at is not None
    assert restart.running_at is not None
    began = restart.restarted_at
    ends = [head.ended_at for head in job.recorder.checkpoints if head.status == "COMPLETED"]
    return restart.running_at - began, min(end for end in ends if end is not None and end > began) - began


def test_the_next_checkpoint_does_not_wait_for_recovered_data_and_a_second_failure_loses_none() -> None:
    """In each of the ways to recover, the second failure comes while recovered data is being read."""
    running, completed = {}, {}
    for name, recovery in RECOVERIES.items():
        log, settings = TransactionLog(), MODES["unaligned"] | {"checkpoint_interval_s": 0.02} | recovery
        job = run(sums_job(log, [kill("sums", 0, 0.6)], rate=0.0, **settings))
        running[name], completed[name] = first_checkpoint_after(job)
        assert sorted(log.records) == expected()
        again = TransactionLog()
        kills = [kill("sums", 0, 0.6), kill("middle", 2, 0.8)]
        job = run(sums_job(again, kills, rate=0.0, **settings))
        first, second = (restart.checkpoint_id for restart in job.restarts)
        assert (first == second) == (name != "with checkpoints")
        assert job.restarts[1].persisted_bytes > 0
        assert sorted(again.records) == expected()
    before, at_consumers, during = running.values()
    assert before < at_consumers
    assert during < 0.01
    assert completed["with checkpoints"] < 0.05 < running["as before 2.3"] < completed["as before 2.3"]


@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_checkpoints_during_recovery_without_exclusive_buffers(mode: str) -> None:
    log = TransactionLog()
    settings = MODES[mode] | RECOVERIES["with checkpoints"] | {"exclusive_buffers_per_channel": 0}
    job = run(sums_job(log, [kill("sums", 0, at) for at in (0.5, 0.7, 0.9)], rate=0.0, **settings))
    assert len(job.restarts) == 3
    assert sorted(log.records) == expected()


@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_counters_and_samples_go_on_over_a_restart(mode: str) -> None:
    result = emulate(sums_job(TransactionLog(), SCHEDULES["sums, twice"], restart_delay_s=1.2, **MODES[mode]))
    for series in result.series:
        assert series.inputQueueSize or series.vertex == "numbers"
        assert series.outputQueueSize
        for counter in (*series.numRecordsIn, *series.numRecordsOut, *series.busy_ms, *series.idle_ms):
            assert all(earlier <= later for earlier, later in pairwise(counter))
    down = [restart.failed_at + 1.1 for restart in result.restarts]
    assert all(restart.restarted_at is not None for restart in result.restarts)
    sums = result.series[2]
    assert any(
        sums.inputQueueLength[0][place] == 0
        for place, at in enumerate(sums.t)
        if any(moment - 1.1 < at <= moment for moment in down)
    )


@crossed(mode=EXACTLY_ONCE, recovery=RECOVERIES)
def test_local_channels_and_all_ships(mode: str, recovery: dict[str, bool]) -> None:
    log = TransactionLog()
    scenario = sums_job(log, SCHEDULES["sums, twice"], **MODES[mode], **recovery)
    vertices = list(scenario.vertices)
    vertices[1] = replace(vertices[1], parallelism=2, task_manager="both")
    vertices[2] = replace(vertices[2], task_manager="both")
    vertices[3] = replace(vertices[3], task_manager="sums")
    edges = (
        replace(scenario.edges[0], ship="forward"),
        scenario.edges[1],
        replace(scenario.edges[2], ship="rescale"),
    )
    job = run(replace(scenario, vertices=tuple(vertices), edges=edges))
    assert sorted(log.records) == expected()
    assert len(job.restarts) == 2


@crossed(mode=EXACTLY_ONCE, recovery=RECOVERIES)
def test_a_failure_after_the_sources_have_ended(mode: str, recovery: dict[str, bool]) -> None:
    log, kills = TransactionLog(), [kill("sums", 1, 1.4), kill("out", 1, 1.75)]
    # The slow sums work on for long after the sources have read everything.
    job = run(sums_job(log, kills, rate=0.0, **MODES[mode], **recovery))
    assert len(job.restarts) == 2
    assert sorted(log.records) == expected()


def test_a_job_that_may_not_restart_fails_with_the_cause() -> None:
    log = TransactionLog()
    settings: dict[str, Any] = {"restart_strategy": RestartStrategy.FIXED_DELAY, "restart_attempts": 2}
    faults = [kill("sums", 0, at) for at in (0.3, 0.6, 0.9)]
    with pytest.raises(JobFailedError, match=r"subtask sums\[0\] is killed \(restarted 2 times") as caught:
        emulate(sums_job(log, faults, **settings))
    result = caught.value.result
    assert len(result.restarts) == 2
    assert result.failure == str(caught.value)
    assert len(result.faults) == 3
    assert pickle.loads(pickle.dumps(caught.value)).result == result
    assert 0.9 <= result.emulated_seconds < 1.0


def test_a_link_that_is_cut_for_good_fails_the_job_again_and_again() -> None:
    cut = CutLink(when=AtTime(0.4), from_task_manager="middle", to_task_manager="sums")
    settings: dict[str, Any] = {"restart_strategy": RestartStrategy.FIXED_DELAY, "restart_attempts": 3}
    with pytest.raises(JobFailedError, match="the link from middle to sums is cut") as caught:
        emulate(sums_job(TransactionLog(), [cut], **settings))
    failed = [restart.failed_at for restart in caught.value.result.restarts]
    # Heartbeat timeout 0.3 s, restart delay 0.05 s, and deployment, of 3 tasks where it takes longest.
    again = 0.05 + CostModel().deploy_s + 3 * CostModel().deploy_per_task_s + 0.3
    assert failed == pytest.approx([0.7, 0.7 + again, 0.7 + 2 * again], abs=1e-3)


def test_checkpoints_whose_upload_fails_are_declined_and_leave_nothing() -> None:
    log, storage = TransactionLog(), MemoryStorage()
    fault = FailUpload(when=AtTime(0.2), for_s=0.4)
    job = run(sums_job(log, [fault]), storage)
    failures = {head.failure for head in job.recorder.checkpoints if head.status == "FAILED"}
    assert "CHECKPOINT_ASYNC_EXCEPTION" in {str(failure) for failure in failures}
    assert sorted(log.records) == expected()
    (retained,) = storage.checkpoints()
    assert {path.split("/")[0] for path in storage.files} == {f"chk-{retained}"}


def test_it_is_recorded_when_each_checkpoint_ended() -> None:
    job = run(sums_job(TransactionLog(), [kill("middle", 1, 0.41), FailUpload(when=AtTime(0.8), for_s=0.5)]))
    (restart,) = job.restarts
    ends = {head.status: set[float]() for head in job.recorder.checkpoints}
    for head in job.recorder.checkpoints:
        assert head.ended_at is not None
        if head.duration_s is not None:
            assert head.ended_at == pytest.approx(head.triggered_at + head.duration_s)
        ends[head.status].add(head.ended_at)
    assert len(ends["FAILED"]) > 2
    assert restart.failed_at in ends["FAILED"]


def test_a_full_storage_completes_nothing_until_there_is_room() -> None:
    log, storage = TransactionLog(), MemoryStorage()
    fault = FillStorage(when=AtTime(0.3), for_s=0.5)
    job = run(sums_job(log, [fault, kill("sums", 0, 0.75)], **MODES["unaligned"]), storage)
    (restart,) = job.restarts
    before = [head for head in job.recorder.checkpoints if head.triggered_at < 0.3]
    assert restart.checkpoint_id in {head.checkpoint_id for head in before if head.status == "COMPLETED"}
    assert sorted(log.records) == expected()


@pytest.mark.interpreted
def test_only_at_its_end_does_a_job_offer_nobody_what_its_channels_give_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At a restart that draws random numbers, so the results of the next attempt hang on it."""
    abandoned: list[float] = []
    job = Job(sums_job(TransactionLog(), [kill("sums", 0, 0.2)]), Agenda())
    monkeypatch.setattr(InputGate, "abandon", lambda gate: abandoned.append(job.agenda.now))
    trio.run(job.run)
    assert len(job.restarts) == 1
    assert len(abandoned) == 3 + 2 + 2
    assert set(abandoned) == {job.agenda.now}


def test_no_buffer_size_is_announced_before_partitions_are_requested() -> None:
    scenario = sums_job(
        TransactionLog(),
        [kill("middle", 1, 0.5)],
        rate=0.0,
        unaligned_enabled=True,
        floating_buffers_per_gate=8,
        debloat_enabled=True,
        debloat_period_s=0.02,
        debloat_target_s=0.02,
        debloat_samples=1,
        debloat_threshold_percent=0,
    )
    job = Job(scenario, Agenda())
    recovering, later = set[int](), set[int]()

    def look() -> None:
        if job.attempt is None or not job.restarts:
            return
        producers = job.attempt.builder.connections.producers
        for gate in job.attempt.builder.gates:
            numbers = [channel.channel_id for channel in gate.channels]
            open_ = any(end.queue.sender(number) is not None for number in numbers for end in producers)
            assert gate.debloater is not None
            (later if open_ else recovering).add(gate.debloater.last_announced)

    job.agenda.between = look
    trio.run(job.run)
    assert job.restarts[0].persisted_bytes > 0
    assert recovering == {scenario.config.starting_segment_bytes}
    assert len(later) > 1
