"""Savepoints: what one consists of, what it leaves alone, and jobs that stop with one or begin with one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import trio

from flowcontrol import PostCheckpointAction
from netstack import (
    Agenda,
    AtTime,
    ClaimMode,
    CollectionSource,
    DelayMessages,
    Edge,
    Fault,
    FillStorage,
    HandleReader,
    InitialCheckpoint,
    Job,
    MemoryStorage,
    NetworkConfig,
    SavepointFolder,
    Scenario,
    ScenarioError,
    ScheduledSavepoint,
    SourceObject,
    StorageError,
    TransactionLog,
    Vertex,
    emulate,
    run_distributed,
    sink,
)
from netstack.checkpoints.pending_checkpoint import Checkpoint
from netstack.results.trace import TraceLog
from netstack.scenarios.checkpointed_shape import shape_of
from netstack.state.value_encoding import decode_value
from tests.crossing import crossed
from tests.netstack.local_cluster import launch_locally
from tests.netstack.whole_jobs import EXACTLY_ONCE, MODES, expected, kill, run, sums_job

SUSPEND, DRAIN = PostCheckpointAction.SUSPEND, PostCheckpointAction.TERMINATE


def with_savepoint(scenario: Scenario, at_s: float = 0.7, **how: Any) -> Scenario:
    return replace(scenario, savepoints=(ScheduledSavepoint(at_s=at_s, **how),))


def savepoint_in(storage: MemoryStorage) -> SavepointFolder:
    (folder,) = {path.split("/")[0] for path in storage.files if path.startswith("savepoint-")}
    return storage.savepoint(folder)


def initial(folder: SavepointFolder, **how: Any) -> InitialCheckpoint:
    metadata = folder.metadata
    return InitialCheckpoint(metadata, folder, folder.folder, metadata.checkpoint_id + 1, **how)


def types(job: Job) -> Counter[tuple[str, str]]:
    return Counter((head.checkpoint_type, head.status) for head in job.recorder.checkpoints)


def positions(folder: SavepointFolder) -> list[int]:
    """Return the number of records that each source had sent."""
    read = HandleReader(folder)
    return [
        decode_value(read(handle))[0]
        for snapshot in folder.metadata.subtasks
        for handle in snapshot.handles
        if handle.name == "source position"
    ]


def sums(records: list[bytes]) -> dict[bytes, int]:
    return {key: int(number) for key, number in map(bytes.split, records)}


@pytest.mark.parametrize("mode", MODES)
def test_a_savepoint_is_aligned_and_has_all_that_a_job_needs_to_go_on(mode: str) -> None:
    log, storage = TransactionLog(), MemoryStorage()
    job = run(with_savepoint(sums_job(log, rate=0, **MODES[mode]), 0.3), storage)
    assert types(job)["SAVEPOINT", "COMPLETED"] == 1
    assert job.coordinator.stopped_with is None
    folder = savepoint_in(storage)
    metadata, names = folder.metadata, folder.contents(0).keys()
    assert metadata.persisted_bytes == 0
    assert names == {*metadata.files, "_metadata"}
    assert not any(file.shared for file in metadata.files.values())
    assert metadata.checkpoint_id not in storage.checkpoints()

    moved, again = MemoryStorage(), TransactionLog()
    for name in names:
        moved.files[f"elsewhere/{name}"] = storage.files[f"{folder.folder}/{name}"]
    begun = initial(moved.savepoint("elsewhere"))
    result = emulate(sums_job(again, **MODES[mode]), storage=moved, from_checkpoint=begun)
    assert result.started_from.checkpoint_id == metadata.checkpoint_id  # type: ignore[union-attr]
    if mode in EXACTLY_ONCE:
        assert sorted(log.records) == sorted(again.records) == expected()
    assert moved.savepoint("elsewhere").metadata == metadata, "what was begun with is left there"


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_stops_with_a_savepoint_sends_nothing_behind_it(mode: str) -> None:
    log, storage = TransactionLog(), MemoryStorage()
    job = run(with_savepoint(sums_job(log, **MODES[mode]), action=SUSPEND), storage)
    assert job.failure is None
    assert job.coordinator.stopped_with == savepoint_in(storage).folder
    assert job.agenda.now < 1.5
    assert types(job)["SYNC_SAVEPOINT", "COMPLETED"] == 1
    assert log.records == [], "sums come at the end, which has not come"

    emitted = int(job.recorder.samples_of(0)["records_out"][:, -1].sum())
    assert emitted == sum(positions(savepoint_in(storage)))
    emulate(sums_job(log, **MODES[mode]), from_checkpoint=initial(savepoint_in(storage)))
    if mode in EXACTLY_ONCE:
        assert sorted(log.records) == expected()


@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_a_job_that_is_drained_gives_all_that_its_operators_hold(mode: str) -> None:
    log, storage = TransactionLog(), MemoryStorage()
    job = run(with_savepoint(sums_job(log, **MODES[mode]), action=DRAIN), storage)
    assert job.failure is None
    assert types(job)["SYNC_SAVEPOINT", "COMPLETED"] == 1
    reached = positions(savepoint_in(storage))
    assert all(50 < position < 250 for position in reached)
    so_far: Counter[bytes] = Counter()
    for position in reached:
        for number in range(position):
            so_far[b"k%d" % (number % 7)] += number
    assert sums(log.records) == so_far
    first = list(log.records)
    emulate(sums_job(log, **MODES[mode]), from_checkpoint=initial(savepoint_in(storage)))
    assert sorted(log.records) == sorted(first + expected()), "the sources go on where they were stopped"


def full(at_s: float) -> Fault:
    return FillStorage(when=AtTime(at_s), for_s=0.3)


@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_a_job_whose_last_savepoint_fails_goes_on(mode: str) -> None:
    log, storage = TransactionLog(), MemoryStorage()
    job = run(with_savepoint(sums_job(log, [full(0.69)], **MODES[mode]), action=SUSPEND), storage)
    assert types(job)["SYNC_SAVEPOINT", "FAILED"] == 1
    assert not any(path.startswith("savepoint-") for path in storage.files)
    assert job.coordinator.stopped_with is None
    later = [head for head in job.recorder.checkpoints if head.triggered_at > 1.1]
    assert len(later) > 3, "checkpoints go on"
    assert sorted(log.records) == expected()
    assert job.restarts == []


@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_a_source_continues_if_the_last_savepoint_was_aborted_before_its_trigger_arrived(mode: str) -> None:
    log = TransactionLog()
    scenario = sums_job(log, **MODES[mode])
    late = DelayMessages(when=AtTime(0.69), messages="trigger", delay_s=0.4, for_s=0.3, vertex="numbers")
    scenario = replace(
        with_savepoint(scenario, action=SUSPEND),
        config=replace(scenario.config, checkpoint_timeout_s=0.2, tolerable_failed_checkpoints=100),
        faults=(late,),
    )
    job = run(scenario)
    assert types(job)["SYNC_SAVEPOINT", "FAILED"] == 1
    assert job.restarts == []
    assert job.agenda.now < scenario.duration_s
    assert sorted(log.records) == expected()


@pytest.mark.parametrize("ship", ["rebalance", "forward"])
def test_a_vertex_that_holds_records_back_emits_nothing_after_the_savepoint_that_stops_the_job(
    ship: str,
) -> None:
    numbers, read, storage = [b"%03d" % number for number in range(200)], list[bytes](), MemoryStorage()
    scenario = Scenario(
        name="held back",
        duration_s=20.0,
        config=NetworkConfig(checkpoint_interval_s=0.1),
        vertices=(
            Vertex(name="numbers", source=SourceObject(source=CollectionSource([numbers]), rates=(100.0,))),
            Vertex(name="hold back", emit_every_s=0.2),
            Vertex(name="out", operator=sink(read.append)),
        ),
        edges=(
            Edge(source="numbers", target="hold back", ship=ship),
            Edge(source="hold back", target="out", ship=ship),
        ),
        faults=(
            DelayMessages(when=AtTime(0.69), messages="acknowledge", delay_s=0.7, for_s=0.5, vertex="out"),
        ),
    )
    job = run(with_savepoint(scenario, action=SUSPEND), storage)
    assert job.coordinator.stopped_with is not None
    assert job.agenda.now > 1.3
    emulate(replace(scenario, faults=()), from_checkpoint=initial(savepoint_in(storage)))
    assert sorted(read) == numbers


def test_a_job_whose_sources_have_ended_for_a_savepoint_that_fails_fails_itself() -> None:
    log = TransactionLog()
    job = run(with_savepoint(sums_job(log, [full(0.69)]), action=DRAIN))
    (restart,) = job.restarts
    assert restart.cause.endswith("; its sources had already ended for this savepoint, so the job fails")
    assert sorted(log.records) == expected()


@crossed(delay_s=[0.01, 0.015, 0.02, 0.025], action=list(PostCheckpointAction))
def test_a_failure_in_the_middle_takes_the_savepoint_with_it(
    action: PostCheckpointAction, delay_s: float
) -> None:
    """Some subtasks have stored their part by then, and some have not."""
    log, storage = TransactionLog(), MemoryStorage()
    job = run(with_savepoint(sums_job(log, [kill("sums", 0, 0.7 + delay_s)]), action=action), storage)
    (head,) = [each for each in job.recorder.checkpoints if each.savepoint is not None]
    assert head.status == "FAILED"
    assert not any(path.startswith("savepoint-") for path in storage.files)
    assert len(job.restarts) == 1
    assert sorted(log.records) == expected()


def test_what_is_refused_is_said_and_changes_nothing() -> None:
    scenario = sums_job(TransactionLog(), [kill("sums", 0, 0.5)], checkpoints_after_tasks_finish=False)
    savepoints = (
        ScheduledSavepoint(at_s=0.3, action=DRAIN),
        ScheduledSavepoint(at_s=0.52),  # between two attempts
        ScheduledSavepoint(at_s=1.0, action=SUSPEND),
        ScheduledSavepoint(at_s=1.001, action=SUSPEND),
    )
    trace = TraceLog()
    job = Job(replace(scenario, savepoints=savepoints), Agenda(), trace=trace)
    trio.run(job.run)
    refused = "the requested savepoint failed: "
    assert [event.text.removeprefix(refused) for event in trace if event.text.startswith(refused)] == [
        "draining requires execution.checkpointing.checkpoints-after-tasks-finish.enabled",
        "NOT_ALL_REQUIRED_TASKS_RUNNING",
        "the job already stops with another savepoint",
    ]
    (head,) = [each for each in job.recorder.checkpoints if each.savepoint is not None]
    assert (head.status, head.savepoint) == ("COMPLETED", job.coordinator.stopped_with)


@pytest.mark.parametrize("mode", [ClaimMode.NO_CLAIM, ClaimMode.CLAIM, ClaimMode.LEGACY])
def test_only_a_claimed_savepoint_is_deleted_once_a_newer_checkpoint_is_complete(mode: ClaimMode) -> None:
    log, storage = TransactionLog(), MemoryStorage()
    run(with_savepoint(sums_job(log), action=SUSPEND), storage)
    folder = savepoint_in(storage)
    job = Job(
        sums_job(log, retained_checkpoints=2), Agenda(), from_checkpoint=initial(folder, claim_mode=mode)
    )
    seen: list[bool] = []
    job.coordinator._on_end = lambda checkpoint: seen.append(folder.is_taken)
    trio.run(job.run)
    assert folder.is_taken is (mode is not ClaimMode.CLAIM)
    assert seen[0], "as long as it is one of the two that are retained"
    assert sorted(log.records) == expected()


def test_a_run_goes_back_to_the_savepoint_that_it_began_with_until_it_has_a_checkpoint() -> None:
    log, storage = TransactionLog(), MemoryStorage()
    run(with_savepoint(sums_job(log), action=SUSPEND), storage)
    scenario = sums_job(log, [kill("middle", 0, 0.01)], checkpoint_interval_s=0.5)
    begun = initial(savepoint_in(storage), claim_mode=ClaimMode.CLAIM)
    job = Job(scenario, Agenda(), from_checkpoint=begun)
    trio.run(job.run)
    assert [restart.checkpoint_id for restart in job.restarts] == [begun.metadata.checkpoint_id]
    assert sorted(log.records) == expected()


def test_after_the_savepoint_that_it_stops_with_a_job_does_not_restart() -> None:
    def lose(checkpoint: Checkpoint) -> None:
        if checkpoint.options.savepoint is not None:
            agenda.keep(agenda.now, job.fail, "lost")

    job = Job(with_savepoint(sums_job(TransactionLog()), action=SUSPEND), agenda := Agenda())
    job.coordinator._on_end = lose
    trio.run(job.run)
    assert job.restarts == []
    location = job.coordinator.stopped_with
    assert job.failure == f"lost; the job was about to stop with {location}, which is complete"


def test_a_savepoint_waits_for_nobody_where_no_barrier_overtakes_and_subsumes_nobody() -> None:
    log, storage = TransactionLog(), MemoryStorage()
    scenario = sums_job(log, rate=0, checkpoint_interval_s=0.2)
    job = run(with_savepoint(scenario, 0.25), storage)
    heads = {head.checkpoint_type: head for head in job.recorder.checkpoints if head.triggered_at < 0.26}
    assert heads["SAVEPOINT"].triggered_at == pytest.approx(0.25)
    assert heads["CHECKPOINT"].duration_s is not None
    assert heads["CHECKPOINT"].triggered_at + heads["CHECKPOINT"].duration_s > 0.25, "it was pending"
    failures = {head.failure for head in job.recorder.checkpoints}
    assert "CHECKPOINT_SUBSUMED" not in failures
    waited = run(
        with_savepoint(
            sums_job(
                log,
                rate=0,
                checkpoint_interval_s=0.2,
                unaligned_enabled=True,
                aligned_checkpoint_timeout_s=5.0,
            ),
            0.25,
        )
    )
    (savepoint,) = [head for head in waited.recorder.checkpoints if head.savepoint is not None]
    assert savepoint.triggered_at > 0.26


def test_names_of_savepoints_that_are_taken() -> None:
    storage = MemoryStorage()
    storage.files["savepoint-7/_metadata"] = storage.files["there/savepoint-7-2/x"] = b""
    assert storage.free_location(None, "savepoint-7") == "savepoint-7-2"
    assert storage.free_location("there", "savepoint-7") == "there/savepoint-7"
    storage.files["there/savepoint-7/x"] = b""
    assert storage.free_location("there", "savepoint-7") == "there/savepoint-7-3"


@pytest.mark.parametrize("action", [SUSPEND, DRAIN])
def test_a_job_over_tcp_stops_with_a_savepoint_and_goes_on_from_it(action: PostCheckpointAction) -> None:
    log, storage, later = TransactionLog(), MemoryStorage(), MemoryStorage()
    scenario = replace(sums_job(log), duration_s=20.0)
    stopping = with_savepoint(scenario, 0.7, action=action)
    result = run_distributed(stopping, launch_locally(storage), storage)
    assert result.failure is None
    assert result.emulated_seconds < 10
    (head,) = [each for each in result.checkpoints if each.checkpoint_type == "SYNC_SAVEPOINT"]
    folder = savepoint_in(storage)
    assert (head.status, head.savepoint) == ("COMPLETED", folder.folder)
    first = list(log.records)
    assert bool(first) is (action is DRAIN)
    begun = initial(folder, claim_mode=ClaimMode.CLAIM)
    run_distributed(scenario, launch_locally(later, initial=folder), later, from_checkpoint=begun)
    assert sorted(log.records) == sorted(first + expected())
    assert not folder.is_taken, "it was claimed, and newer checkpoints are complete"


def test_nobody_else_may_claim_what_is_claimed() -> None:
    log, storage = TransactionLog(), MemoryStorage()
    run(with_savepoint(sums_job(log), action=SUSPEND), storage)
    begun = initial(savepoint_in(storage), claim_mode=ClaimMode.CLAIM)
    Job(sums_job(log), Agenda(), from_checkpoint=begun)
    files = dict(storage.files)
    with pytest.raises(
        StorageError,
        match=r"^savepoint-\d+: the checkpoint has already been claimed by a run of sums; restore it "
        "without claiming it, or delete ",
    ):
        Job(sums_job(log), Agenda(), from_checkpoint=begun)
    with pytest.raises(StorageError, match="already been claimed by a run of sums"):
        emulate(sums_job(log), from_checkpoint=begun)
    assert storage.files == files
    Job(sums_job(log), Agenda(), from_checkpoint=begun._replace(claim_mode=ClaimMode.NO_CLAIM))


def test_a_checkpoint_of_another_job_is_not_claimed() -> None:
    log, storage = TransactionLog(), MemoryStorage()
    run(with_savepoint(sums_job(log), action=SUSPEND), storage)
    begun, files = initial(savepoint_in(storage), claim_mode=ClaimMode.CLAIM), dict(storage.files)
    with pytest.raises(ScenarioError, match="this job is 'other'"):
        Job(replace(sums_job(log), name="other"), Agenda(), from_checkpoint=begun)
    assert storage.files == files


def test_where_records_are_in_flight_edges_stay_and_otherwise_they_may_change() -> None:
    def other_edges(scenario: Scenario) -> Scenario:
        first, *rest = scenario.edges
        return replace(scenario, edges=(replace(first, ship="broadcast"), *rest))

    log, storage = TransactionLog(), MemoryStorage()
    settings = MODES["unaligned"] | {"retained_checkpoints": 1000}
    run(with_savepoint(sums_job(log, rate=0, **settings), 0.3), storage)
    in_flight = next(each for each in map(storage.load, storage.checkpoints()) if each.persisted_bytes)
    shape = shape_of(other_edges(sums_job(log)))
    (problem,) = InitialCheckpoint(in_flight, storage, "chk", 1000).mismatches(shape)
    assert problem.startswith(
        "chk: the checkpoint has in-flight records for the edges numbers -> middle (rebalance), "
    )
    assert problem.endswith(
        "; restore a savepoint or an aligned checkpoint instead, which has no in-flight records"
    )
    begun = initial(savepoint_in(storage))
    assert begun.mismatches(shape) == []
    job = Job(other_edges(sums_job(TransactionLog())), Agenda(), from_checkpoint=begun)
    trio.run(job.run)
    assert job.failure is None
    assert job.restarts == []
