"""Whole jobs of several regions: one fails and restarts while the others go on, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import UNSET

from flowcontrol import PostCheckpointAction
from netstack import (
    AtTime,
    CollectionSource,
    CutLink,
    DamagedFileError,
    Edge,
    FailoverStrategy,
    Fault,
    GeneratorSpec,
    Job,
    JobFailedError,
    KillTaskManager,
    MemoryStorage,
    RestartStrategy,
    Scenario,
    ScheduledSavepoint,
    SourceObject,
    StateBackendType,
    StoredFile,
    TransactionLog,
    Vertex,
    emulate,
    key_sum,
    to_json,
    transactional_sink,
)
from netstack.jobs.failover import regions_over, task_names
from tests.crossing import crossed
from tests.netstack.table_model import ModelStores
from tests.netstack.whole_jobs import EXACTLY_ONCE, KEYS, MODES, key_hash, kill, parse, recovering, run

COUNT = 200

A, B, C = ([f"{name}_in", f"{name}_sums", f"{name}_out"] for name in "abc")
"""The tasks of each pipeline."""


def sums() -> list[bytes]:
    """What a pipeline has to put out: each number comes from both subtasks of its source."""
    totals: Counter[int] = Counter()
    for number in range(COUNT):
        totals[number % KEYS] += 2 * number
    return sorted(b"k%d %d" % item for item in totals.items())


class Pipelines:
    """Pipelines in one job that share nothing but task managers: source -> sums by key -> committed.

    `managers` has the task manager of the sources, and of all else, for each.
    """

    def __init__(self, *managers: tuple[str, str]) -> None:
        self.managers = managers or (("tm1", "tm2"),) * 2
        self.logs = [TransactionLog() for _ in self.managers]

    def scenario(self, *faults: Fault, rate: float = 125.0, **settings: Any) -> Scenario:
        vertices, edges = list[Vertex](), list[Edge]()
        numbers = [b"%d:%s" % (number, b"x" * (number % 300)) for number in range(COUNT)]
        source = SourceObject(source=CollectionSource([numbers, numbers], key_hash=key_hash), rates=(rate,))
        for name, log, (reads, works) in zip("abc", self.logs, self.managers, strict=False):
            adds, commits = key_sum(parse), transactional_sink(log.commit)
            service = ((0.0, 0.002),)
            vertices += [
                Vertex(name=f"{name}_in", parallelism=2, source=source, task_manager=reads),
                Vertex(
                    name=f"{name}_sums", parallelism=2, service=service, operator=adds, task_manager=works
                ),
                Vertex(name=f"{name}_out", parallelism=1, operator=commits, task_manager=works),
            ]
            edges += [
                Edge(source=f"{name}_in", target=f"{name}_sums", ship="hash", key_hash=key_hash),
                Edge(source=f"{name}_sums", target=f"{name}_out", ship="rebalance"),
            ]
        return Scenario(
            name="pipelines",
            duration_s=60.0,
            config=recovering(**settings),
            vertices=tuple(vertices),
            edges=tuple(edges),
            faults=faults,
        )

    def check(self) -> None:
        """Each has put out what it had to, and once."""
        assert [sorted(log.records) for log in self.logs] == [sums()] * len(self.logs)


class Numbers:
    """A source and a sink that are connected by `ship`, at parallelism 4: the sink commits the numbers."""

    def __init__(self, ship: str = "forward") -> None:
        self.log = TransactionLog()
        self.ship = ship

    def scenario(self, *faults: Fault, rate: float = 125.0, **settings: Any) -> Scenario:
        parts = [[b"%d:%d" % (number, part) for number in range(COUNT)] for part in range(4)]
        source = SourceObject(source=CollectionSource(parts), rates=(rate,))
        sink = transactional_sink(self.log.commit)
        return Scenario(
            name="numbers",
            duration_s=60.0,
            config=recovering(**settings),
            vertices=(
                Vertex(name="numbers", parallelism=4, source=source, task_manager="tm1"),
                Vertex(name="out", parallelism=4, operator=sink, service=((0.0, 0.004),), task_manager="tm2"),
            ),
            edges=(Edge(source="numbers", target="out", ship=self.ship),),
            faults=faults,
        )

    def check(self) -> None:
        assert sorted(self.log.records) == sorted(
            b"%d:%d" % (number, part) for number in range(COUNT) for part in range(4)
        )


def failures(job: Job) -> list[tuple[float, list[str]]]:
    """Return the times of the failures, and the tasks of each. All of them run again."""
    assert all(restart.running_at is not None for restart in job.restarts)
    return [(round(restart.failed_at, 6), restart.tasks) for restart in job.restarts]


@crossed(mode=EXACTLY_ONCE, killed=["a_in", "a_sums", "a_out"], rate=[125.0, 0.0])
def test_a_region_goes_back_alone_and_the_output_of_all_is_exact(mode: str, killed: str, rate: float) -> None:
    pipelines = Pipelines()
    job = run(pipelines.scenario(kill(killed, 0, 0.31), rate=rate, **MODES[mode]))
    assert failures(job) == [(0.31, A)]
    assert job.restarts[0].checkpoint_id is not None
    pipelines.check()


def test_at_least_once_a_region_repeats_records_and_the_other_does_not() -> None:
    pipelines = Pipelines()
    run(pipelines.scenario(kill("a_sums", 0, 0.71), **MODES["at least once"]))
    at_least, exactly = pipelines.logs
    assert sorted(exactly.records) == sums()
    told = dict(record.split() for record in at_least.records)
    wanted = dict(record.split() for record in sums())
    assert told.keys() == wanted.keys()
    assert all(int(told[key]) >= int(total) for key, total in wanted.items())


@pytest.mark.parametrize(
    "settings",
    [
        {"changelog_enabled": True, "materialize_interval_s": 0.07},
        {"state_backend": StateBackendType.ROCKSDB, "incremental_checkpoints": True},
    ],
    ids=["changelog", "tables"],
)
def test_state_that_checkpoints_share_files_of_is_put_back_and_goes_on(settings: dict[str, Any]) -> None:
    """Tasks that continue are checked, too: they store only what no complete checkpoint has."""
    pipelines, storage = Pipelines(), MemoryStorage()
    kills = kill("a_sums", 0, 0.31), kill("b_sums", 1, 0.52), kill("a_sums", 1, 0.83)
    job = run(pipelines.scenario(*kills, **settings), storage, tables=ModelStores())
    assert failures(job) == [(0.31, A), (0.52, B), (0.83, A)]
    pipelines.check()
    complete = storage.checkpoints()
    needed = {path for number in complete for path in storage.load(number).files}
    assert set(storage.shared_files()) <= needed


def test_table_files_of_a_region_that_came_back_have_names_that_none_had_before() -> None:
    """A file of the same name, of a checkpoint that failed with the region, may be deleted late."""
    storage, names, next_ids = MemoryStorage(), list[set[str]](), list[int]()

    def note(job: Job) -> None:
        names.append({path.rsplit("-", 1)[0] for path in storage.shared_files() if "a_sums-0" in path})
        next_ids.append(job.coordinator.next_id)

    tables = {"state_backend": StateBackendType.ROCKSDB, "incremental_checkpoints": True}
    scenario = Pipelines().scenario(kill("a_sums", 0, 0.31), **tables)
    run(scenario, storage, [(0.3, note), (0.33, note), (1.5, note)], ModelStores())
    before, _, after = names
    assert {name.split("-")[2] for name in before} == {"1"}
    assert {name.split("-")[2] for name in after} == {str(next_ids[1])}


@crossed(ship=["forward", "rescale"], mode=EXACTLY_ONCE)
def test_of_a_job_of_pointwise_edges_only_the_row_of_a_killed_subtask_fails(mode: str, ship: str) -> None:
    numbers = Numbers(ship)
    job = run(numbers.scenario(kill("out", 2, 0.41), **MODES[mode]))
    assert failures(job) == [(0.41, ["numbers[2]", "out[2]"])]
    numbers.check()


def records_per_second(*faults: Fault, **settings: Any) -> tuple[dict[str, list[int]], Any]:
    """Return the records that the sinks of two pipelines read in each second of a run, and the result."""
    vertices = [
        vertex
        for name in "ab"
        for vertex in (
            Vertex(name=f"{name}_in", parallelism=2, source=GeneratorSpec(record_bytes=100, rates=(1000.0,))),
            Vertex(name=f"{name}_out", parallelism=2, service=((0.0, 0.0005),)),
        )
    ]
    edges = tuple(Edge(source=f"{name}_in", target=f"{name}_out", ship="rebalance") for name in "ab")
    settings = {"checkpoint_interval_s": 0.5, "restart_delay_s": 4.0} | settings
    scenario = Scenario(
        name="apart",
        duration_s=12.0,
        config=recovering(**settings),
        vertices=tuple(vertices),
        edges=edges,
        faults=faults,
    )
    result = emulate(scenario)
    totals = {
        each.vertex: [sum(sample) for sample in zip(*each.numRecordsIn, strict=True)]
        for each in result.series
    }
    return {vertex: list(np.diff(total)) for vertex, total in totals.items()}, result


def test_the_other_region_never_stops() -> None:
    """It does in each second what it does in a run without the failure."""
    quiet, _ = records_per_second()
    rates, result = records_per_second(kill("a_out", 1, 3.2))
    assert min(quiet["b_out"][1:]) > 1900
    assert min(rates["b_out"][1:]) > 1900
    assert rates["a_out"][4:6] == [0, 0]
    (restart,) = result.restarts
    assert restart.tasks == ["a_in", "a_out"]


def test_there_are_no_checkpoints_while_a_region_is_down_and_they_go_on_after_it() -> None:
    _, result = records_per_second(kill("a_out", 1, 3.2))
    (restart,) = result.restarts
    assert restart.running_at is not None
    times = [checkpoint.t for checkpoint in result.checkpoints]
    assert not [at for at in times if restart.failed_at < at < restart.running_at]
    assert min(at for at in times if at > restart.running_at) < restart.running_at + 0.5
    assert len([at for at in times if at > restart.running_at]) >= 6


def test_there_are_no_checkpoints_until_the_last_of_several_regions_runs() -> None:
    _, result = records_per_second(kill("a_out", 1, 3.2), kill("b_out", 1, 5.2))
    first, last = result.restarts
    assert last.running_at > first.running_at > last.failed_at
    times = [checkpoint.t for checkpoint in result.checkpoints]
    assert not [at for at in times if first.failed_at < at < last.running_at]
    assert [at for at in times if at > last.running_at]


def test_checkpoints_that_are_pending_fail_with_the_task_and_the_next_ones_pass() -> None:
    pipelines = Pipelines()
    job = run(pipelines.scenario(*(kill("a_sums", 0, 0.2 + 0.3013 * n) for n in range(4)), rate=0.0))
    failed = [head.failure for head in job.recorder.checkpoints if head.status == "FAILED"]
    assert "CHECKPOINT_COORDINATOR_SUSPEND" in failed
    assert len(job.restarts) == 4
    pipelines.check()


@crossed(mode=EXACTLY_ONCE, second=[0.31, 0.33, 0.36, 0.3999, 0.45, 0.8])
def test_two_regions_are_down_at_once_or_one_after_the_other(mode: str, second: float) -> None:
    pipelines = Pipelines()
    scenario = pipelines.scenario(kill("a_sums", 0, 0.31), kill("b_out", 0, second), **MODES[mode])
    job = run(replace(scenario, costs=replace(scenario.costs, download_rate_bytes_per_s=1e5)))
    assert failures(job) == [(0.31, A), (second, B)]
    pipelines.check()


def test_a_kill_meets_nobody_where_its_region_waits_for_its_restart() -> None:
    pipelines = Pipelines()
    job = run(pipelines.scenario(kill("a_sums", 0, 0.31), kill("a_in", 1, 0.35)))
    assert failures(job) == [(0.31, A)]
    pipelines.check()


def test_a_region_that_reads_its_state_may_fail_again() -> None:
    pipelines = Pipelines()
    scenario = pipelines.scenario(kill("a_sums", 0, 0.61), kill("a_in", 1, 0.9))
    slow = replace(scenario.costs, download_rate_bytes_per_s=2e2)
    job = run(replace(scenario, costs=slow))
    first, second = job.restarts
    assert first.restarted_at is not None
    assert first.restarted_at < 0.9
    assert (first.running_at, second.failed_at) == (None, 0.9)
    pipelines.check()


def test_a_lost_task_manager_takes_the_regions_that_have_a_task_there() -> None:
    pipelines = Pipelines(("tm1", "tm2"), ("tm3", "tm2"), ("tm1", "tm3"))
    job = run(pipelines.scenario(KillTaskManager(when=AtTime(0.4), task_manager="tm2")))
    assert failures(job) == [(0.4, A), (0.4, B)]
    pipelines.check()


def test_a_link_that_is_cut_for_too_long_takes_the_regions_that_need_it() -> None:
    pipelines = Pipelines(("tm1", "tm2"), ("tm3", "tm2"))
    cut = CutLink(when=AtTime(0.4), from_task_manager="tm1", to_task_manager="tm2", for_s=0.8)
    job = run(pipelines.scenario(cut))
    assert [restart.tasks for restart in job.restarts] == [A, A]
    assert job.restarts[0].failed_at == pytest.approx(0.7)
    pipelines.check()


@pytest.mark.parametrize("ends", [("tm1", "tm2"), ("tm2", "tm1")])
def test_a_link_has_the_same_readers_whichever_end_is_named_first(ends: tuple[str, str]) -> None:
    pipelines = Pipelines(("tm1", "tm2"), ("tm3", "tm2"), ("tm2", "tm1"))

    def look(job: Job) -> None:
        assert job.attempt is not None
        found.append(regions_over(job.attempt, ends))

    found: list[list[int]] = []
    job = run(pipelines.scenario(), looks=[(0.1, look)])
    regions = [task_names(job.scenario, region) for region in job.regions]
    assert found == [[regions.index(A), regions.index(C)]]
    cut = CutLink(when=AtTime(0.4), from_task_manager=ends[0], to_task_manager=ends[1], for_s=0.4)
    assert failures(run(pipelines.scenario(cut))) == [(0.7, A), (0.7, C)]


def test_a_link_that_is_cut_takes_no_region_that_has_ended() -> None:
    pipelines = Pipelines(("tm1", "tm2"), ("tm3", "tm4"))
    cut = CutLink(when=AtTime(2.3), from_task_manager="tm1", to_task_manager="tm2")
    scenario = pipelines.scenario(cut, checkpoints_after_tasks_finish=False)
    slow = replace(scenario.vertex("b_out"), service=((0.0, 0.3),))
    vertices = tuple(slow if vertex.name == "b_out" else vertex for vertex in scenario.vertices)
    job = run(replace(scenario, vertices=vertices))
    assert job.agenda.now > 2.3 + 0.3
    assert job.restarts == []


@pytest.mark.parametrize("mode", ["unaligned", "aligned with timeout"])
def test_data_in_flight_of_a_region_is_put_back(mode: str) -> None:
    pipelines = Pipelines()
    job = run(pipelines.scenario(kill("a_out", 0, 0.5), rate=0.0, **MODES[mode]))
    (restart,) = job.restarts
    whole = job.coordinator.latest_completed
    assert whole is not None
    assert restart.persisted_bytes > 2000
    assert restart.restored_bytes > restart.persisted_bytes
    pipelines.check()


def test_only_the_state_of_the_region_is_read() -> None:
    storage = MemoryStorage()
    read: list[str] = []

    def restored(job: Job) -> None:
        assert job.attempt is not None
        read.extend(str(task) for task in job.attempt.subtasks if task.recovered_from)

    pipelines = Pipelines()
    job = run(pipelines.scenario(kill("a_out", 0, 0.5)), storage, [(0.9, restored)])
    assert read == ["a_in[0]", "a_in[1]", "a_sums[0]", "a_sums[1]", "a_out[0]"]
    assert job.restarts[0].restored_bytes > 0


def test_without_a_complete_checkpoint_a_region_begins_anew_while_the_other_goes_on() -> None:
    pipelines = Pipelines()
    seen: list[tuple[int, int]] = []

    def note(job: Job) -> None:
        assert job.attempt is not None
        positions = [
            sum(task.position for task in job.attempt.subtasks if task.name == name)  # type: ignore[attr-defined]
            for name in ("a_in", "b_in")
        ]
        seen.append((positions[0], positions[1]))

    looks = [(at / 1000, note) for at in range(390, 900)]
    scenario = pipelines.scenario(kill("a_sums", 1, 0.4), rate=250.0, checkpoint_interval_s=60.0)
    job = run(scenario, looks=looks)
    assert failures(job) == [(0.4, A)]
    assert job.restarts[0].checkpoint_id is None
    assert min(of_a for of_a, _ in seen) < seen[0][0] - 5  # within a millisecond it has read much again
    assert [of_b for _, of_b in seen] == sorted(of_b for _, of_b in seen)
    assert seen[-1][0] > seen[0][0] + 100  # it has read what came meanwhile
    pipelines.check()


def test_failures_of_all_regions_count_for_the_restart_strategy() -> None:
    pipelines = Pipelines()
    kills = kill("a_sums", 0, 0.3), kill("b_sums", 0, 0.5), kill("a_out", 0, 0.7)
    with pytest.raises(JobFailedError) as caught:
        emulate(pipelines.scenario(*kills, restart_attempts=2))
    result = caught.value.result
    assert result.failure == "subtask a_out[0] is killed (restarted 2 times, as often as is allowed)"
    assert [restart.tasks for restart in result.restarts] == [A, B]
    assert result.emulated_seconds == 0.7


def test_with_growing_delays_a_failure_before_the_restart_of_another_region_waits_for_that() -> None:
    pipelines = Pipelines()
    kills = kill("a_sums", 0, 0.3), kill("b_sums", 0, 0.5)
    growing = {"restart_strategy": RestartStrategy.EXPONENTIAL_DELAY, "restart_jitter_factor": 0.0}
    job = run(pipelines.scenario(*kills, **growing, restart_attempts_before_reset=1))
    assert failures(job) == [(0.3, A), (0.5, B)]
    first, second = job.restarts
    assert second.restarted_at == first.restarted_at
    pipelines.check()


def test_with_the_strategy_full_all_tasks_restart() -> None:
    pipelines = Pipelines()
    job = run(pipelines.scenario(kill("a_sums", 0, 0.31), failover_strategy=FailoverStrategy.FULL))
    assert failures(job) == [(0.31, [])]
    pipelines.check()


def test_a_failure_of_all_of_the_job_takes_a_region_along_that_waits() -> None:
    pipelines = Pipelines()
    job = run(
        pipelines.scenario(kill("a_sums", 0, 0.31), restart_delay_s=0.3),
        looks=[(0.4, lambda job: job.fail("all of it"))],
    )
    first, second = job.restarts
    assert (first.tasks, first.restarted_at) == (A, None)
    assert (second.tasks, second.cause) == ([], "all of it")
    assert second.running_at is not None
    pipelines.check()


def test_a_region_that_has_ended_does_not_begin_again() -> None:
    pipelines = Pipelines()
    scenario = pipelines.scenario(kill("b_sums", 0, 1.2), kill("a_sums", 0, 2.5), checkpoint_interval_s=0.2)
    slow = replace(scenario.vertex("a_sums"), service=((0.0, 0.016),))
    vertices = tuple(slow if vertex.name == "a_sums" else vertex for vertex in scenario.vertices)
    job = run(replace(scenario, vertices=vertices))
    assert failures(job) == [(1.2, B), (2.5, A)]
    pipelines.check()


def test_a_job_does_not_end_while_a_region_waits_though_all_others_have() -> None:
    pipelines = Pipelines()
    scenario = pipelines.scenario(kill("a_sums", 0, 1.0), checkpoint_interval_s=None, restart_delay_s=3.0)
    job = run(scenario)
    assert failures(job) == [(1.0, A)]
    pipelines.check()


def test_a_lost_task_manager_takes_no_region_that_has_only_ended_tasks_there() -> None:
    """The sinks of a pipeline end last, when all that was sent to them has been worked off."""
    pipelines = Pipelines(("tm1", "tm2"), ("tm3", "tm4"))
    lost = KillTaskManager(when=AtTime(1.75), task_manager="tm1")
    scenario = pipelines.scenario(lost, checkpoints_after_tasks_finish=False)
    slow = replace(scenario.vertex("a_out"), service=((0.0, 0.2),))
    vertices = tuple(slow if vertex.name == "a_out" else vertex for vertex in scenario.vertices)
    ended: dict[str, bool] = {}

    def note(job: Job) -> None:
        assert job.attempt is not None
        ended.update((str(task), task.ended) for task in job.attempt.subtasks)

    job = run(replace(scenario, vertices=vertices), looks=[(1.75, note)])
    assert (ended["a_in[0]"], ended["a_in[1]"], ended["a_out[0]"]) == (True, True, False)
    assert job.restarts == []


def test_a_stop_with_a_drained_savepoint_fails_with_all_of_the_job() -> None:
    """Sources of regions that go on have ended their data for it."""
    pipelines = Pipelines()
    scenario = pipelines.scenario(kill("a_sums", 0, 0.3101), rate=0.0, checkpoint_interval_s=10.0)
    drain = ScheduledSavepoint(at_s=0.3, action=PostCheckpointAction.TERMINATE)
    job = run(replace(scenario, savepoints=(drain,)))
    first, second = job.restarts
    assert (first.tasks, first.cause) == (A, "subtask a_sums[0] is killed")
    assert second.tasks == []
    assert second.cause.endswith("; its sources had already ended for this savepoint, so the job fails")


class SpoiltStorage(MemoryStorage):
    """Cannot read the newest complete checkpoint of the moment at which anything is first read."""

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: int | None = None

    def read(self, file: StoredFile) -> bytes:
        if self.unreadable is None:
            self.unreadable = self.checkpoints()[-1]
        if file.path.startswith(f"chk-{self.unreadable}/"):
            raise DamagedFileError(f"{file.path} does not have the checksum of the bytes that were written")
        return super().read(file)


def test_a_checkpoint_that_a_region_cannot_restore_takes_all_of_the_job_further_back() -> None:
    pipelines, storage = Pipelines(), SpoiltStorage()
    job = run(pipelines.scenario(kill("a_sums", 0, 0.6), retained_checkpoints=3), storage)
    first, second = job.restarts
    assert (first.tasks, first.unusable_checkpoint_id) == (A, storage.unreadable)
    assert second.tasks == []
    assert second.cause.startswith(f"checkpoint {storage.unreadable} cannot be restored")
    assert storage.unreadable is not None
    assert (second.checkpoint_id or 0) < storage.unreadable


def in_scarce_memory(logs: Sequence[TransactionLog], *faults: Fault, shared: str = "out") -> Scenario:
    """Two pipelines of a source, `in`, and a slow sink, `out`.

    Those of both that are `shared` are in a task manager that has hardly more memory than they need.
    """
    numbers = [b"%d:%s" % (number, b"x" * 300) for number in range(150)]
    source = SourceObject(source=CollectionSource([numbers, numbers]))
    vertices = list[Vertex]()
    for name, log in zip("ab", logs, strict=True):
        sink = transactional_sink(log.commit)
        places = {each: "shared" if each == shared else f"{name} {each}" for each in ("in", "out")}
        vertices.append(Vertex(name=f"{name}_in", parallelism=2, source=source, task_manager=places["in"]))
        vertices.append(
            Vertex(
                name=f"{name}_out",
                parallelism=2,
                operator=sink,
                service=((0.0, 0.01),),
                task_manager=places["out"],
            )
        )
    return Scenario(
        name="scarce",
        duration_s=60.0,
        config=recovering(
            unaligned_enabled=True,
            exclusive_buffers_per_channel=2,
            floating_buffers_per_gate=8,
            network_memory_max_bytes=22 * 1024,
            max_overdraft_buffers_per_gate=0,
            restart_delay_s=0.2,
        ),
        vertices=tuple(vertices),
        edges=tuple(Edge(source=f"{name}_in", target=f"{name}_out", ship="rebalance") for name in "ab"),
        faults=faults,
    )


def test_a_region_waits_for_memory_that_others_have_taken_meanwhile() -> None:
    """What its pools could use goes to those of others while it is down, and those hold data in it."""
    owed: list[int] = []
    at_work_s: list[float] = []  # the subtask that failed, as far as it has begun anew

    def look(job: Job) -> None:
        if job.attempt is not None:
            owed.append(job.attempt.builder.pools["shared"].owed)
            at_work_s.append(sum(job.attempt.times()[2]))

    logs = TransactionLog(), TransactionLog()
    scenario = in_scarce_memory(logs, kill("a_out", 0, 0.4))
    job = run(scenario, looks=[(0.5 + 0.001 * n, look) for n in range(500)])
    assert [restart.tasks for restart in job.restarts] == [["a_in", "a_out"]]
    assert max(owed) > 2
    assert owed[0] == owed[-1] == 0
    assert not any(seconds for seconds, memory in zip(at_work_s, owed, strict=True) if memory)
    assert at_work_s[-1] > 0
    for log in logs:
        assert sorted(int(record.split(b":")[0]) for record in log.records) == sorted([*range(150)] * 2)


def test_data_in_flight_waits_for_memory_that_others_have_taken_meanwhile() -> None:
    logs = TransactionLog(), TransactionLog()
    job = run(in_scarce_memory(logs, kill("a_out", 0, 0.4), shared="in"))
    (restart,) = job.restarts
    assert restart.persisted_bytes > 8 * 1024
    assert restart.restarted_at is not None
    assert restart.running_at is not None
    assert restart.running_at - restart.restarted_at > 0.1  # to read it takes microseconds
    for log in logs:
        assert sorted(int(record.split(b":")[0]) for record in log.records) == sorted([*range(150)] * 2)


def test_a_region_that_finds_no_memory_for_long_fails_again() -> None:
    """Here the sinks of the other one stand still, and so keep their buffers for as long as they do."""
    logs = TransactionLog(), TransactionLog()
    scenario = in_scarce_memory(logs, kill("a_out", 0, 0.4))
    standing = replace(scenario.vertex("b_out"), service=((0.0, 100.0),))
    vertices = tuple(standing if vertex.name == "b_out" else vertex for vertex in scenario.vertices)
    job = run(replace(scenario, vertices=vertices))
    first, second, *_ = job.restarts
    assert (first.tasks, second.tasks) == (["a_in", "a_out"],) * 2
    assert second.cause == "insufficient number of network buffers in shared within 30 s"
    assert first.restarted_at is not None
    assert second.failed_at == pytest.approx(first.restarted_at + 30.0, abs=0.011)


def test_the_same_seed_gives_the_same_document() -> None:
    def document() -> bytes:
        kills = kill("a_sums", 0, 0.31), kill("b_out", 0, 0.36)
        result = emulate(Pipelines().scenario(*kills, **MODES["unaligned"]))
        return to_json(msgspec.structs.replace(result, wall_seconds=0.0))

    assert document() == document()


def test_results_name_the_tasks_of_a_region_and_none_where_all_restart() -> None:
    kills = [kill("a_sums", 0, 0.31)]
    (region,) = emulate(Pipelines().scenario(*kills)).restarts
    (whole,) = emulate(Pipelines().scenario(*kills, failover_strategy=FailoverStrategy.FULL)).restarts
    assert (region.tasks, whole.tasks) == (A, UNSET)


def test_counters_go_on_over_the_restart_of_a_region() -> None:
    """No sample has less than the one before, while tasks are there or not."""
    rates, result = records_per_second(kill("a_out", 1, 3.2), kill("b_in", 0, 5.0), restart_delay_s=1.5)
    assert len(result.restarts) == 2
    assert min(min(each) for each in rates.values()) >= 0
    assert result.work.records == sum(
        sum(subtask[-1] for subtask in each.numRecordsIn) for each in result.series
    )
