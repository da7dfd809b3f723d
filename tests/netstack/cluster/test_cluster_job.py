"""Jobs over several processes, which here are several agendas in one trio program, over real sockets."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import trio
from msgspec import UNSET

from netstack import (
    Assignment,
    AtTime,
    CollectionSource,
    CutLink,
    Edge,
    GeneratorSpec,
    JobFailedError,
    KillSubtask,
    KillTaskManager,
    LaunchError,
    MemoryStorage,
    Mesh,
    NetworkConfig,
    OnAcknowledgement,
    Operator,
    OperatorContext,
    Outage,
    Report,
    RestartStrategy,
    Result,
    Scenario,
    ScenarioError,
    SourceObject,
    StorageError,
    SubtaskName,
    TraceLog,
    TransactionLog,
    Vertex,
    flat_map,
    fresh_secret,
    run_distributed,
    run_task_manager,
    sink,
    transactional_sink,
)
from netstack.cluster.orders_and_reports import Blame, FilledLog
from tests.netstack.local_cluster import launch_locally, run_processes
from tests.netstack.whole_jobs import RECOVERIES

SMALL = NetworkConfig(segment_bytes=1024, buffer_timeout_interval_s=0.01)
"""Small buffers, so that a job of a second moves many of them."""


def numbers(count: int, partitions: int = 2) -> SourceObject:
    """The numbers below `count`, dealt out over partitions."""
    return SourceObject(
        source=CollectionSource([[b"%d" % n for n in range(p, count, partitions)] for p in range(partitions)])
    )


def paced(source: SourceObject, rate: float) -> SourceObject:
    return SourceObject(source=source.source, rates=(rate,))


def run(scenario: Scenario, storage: MemoryStorage | None = None) -> tuple[Result, list[list[Report]]]:
    """Run a scenario; nothing may be left of its memory in any process, failed or not."""
    storage, seen = storage or MemoryStorage(), list[list[Report]]()
    try:
        result = run_distributed(scenario, launch_locally(storage, seen), storage)
    except JobFailedError as error:
        result = error.result
    assert [report.leaked_segments for reports in seen for report in reports] == [
        0 for reports in seen for _ in reports
    ]
    return result, seen


@pytest.mark.parametrize("ship", ["rebalance", "rescale", "hash", "forward"])
def test_every_record_arrives_once(ship: str) -> None:
    arrived: list[bytes] = []
    scenario = Scenario(
        name=ship,
        duration_s=60.0,
        config=SMALL,
        vertices=(
            Vertex(name="numbers", source=numbers(3000), parallelism=2),
            Vertex(name="sink", parallelism=2, operator=sink(arrived.append)),
        ),
        edges=(Edge(source="numbers", target="sink", ship=ship),),
    )
    result, _ = run(scenario)
    assert Counter(arrived) == Counter(b"%d" % number for number in range(3000))
    assert (result.clock, result.link, result.failure) == ("real", "tcp", None)
    assert result.work.records == 3000
    assert result.emulated_seconds < 60.0
    assert [sum(row[-1] for row in series.numRecordsIn) for series in result.series] == [0, 3000]
    assert [sum(row[-1] for row in series.numRecordsOut) for series in result.series] == [3000, 0]


def test_a_job_may_pass_through_a_task_manager_twice() -> None:
    """There are channels in both directions of a connection, and some within a process."""
    arrived: list[bytes] = []
    scenario = Scenario(
        name="there and back",
        duration_s=60.0,
        config=SMALL,
        vertices=(
            Vertex(name="numbers", source=numbers(1000), parallelism=2, task_manager="left"),
            Vertex(name="there", parallelism=3, task_manager="right", operator=flat_map(lambda r: [r, r])),
            Vertex(name="near", parallelism=2, task_manager="right"),
            Vertex(name="back", parallelism=2, task_manager="left", operator=sink(arrived.append)),
        ),
        edges=(
            Edge(source="numbers", target="there", ship="hash"),
            Edge(source="there", target="near", ship="rebalance"),
            Edge(source="near", target="back", ship="broadcast"),
        ),
    )
    result, seen = run(scenario)
    assert Counter(arrived) == Counter({b"%d" % number: 4 for number in range(1000)})
    assert len(seen[0]) == 2
    assert result.failure is None


def test_windows_that_fire_by_event_time_lose_nothing_over_tcp() -> None:
    arrived: list[bytes] = []
    rated = replace(paced(numbers(600), 2000.0), out_of_orderness_s=0.0)
    scenario = Scenario(
        name="windows",
        duration_s=60.0,
        config=replace(SMALL, auto_watermark_interval_s=0.02),
        vertices=(
            Vertex(name="numbers", source=rated, parallelism=2),
            Vertex(name="window", parallelism=2, emit_every_s=0.05, emit_by="event_time"),
            Vertex(name="sink", operator=sink(arrived.append)),
        ),
        edges=(
            Edge(source="numbers", target="window", ship="hash"),
            Edge(source="window", target="sink"),
        ),
    )
    result, _ = run(scenario)
    assert Counter(arrived) == Counter(b"%d" % number for number in range(600))
    assert [sum(row[-1] for row in series.numRecordsIn) for series in result.series] == [0, 600, 600]


def test_one_task_manager_needs_no_network() -> None:
    arrived: list[bytes] = []
    scenario = Scenario(
        name="alone",
        duration_s=60.0,
        vertices=(
            Vertex(name="numbers", source=numbers(100), parallelism=2, task_manager="one"),
            Vertex(name="sink", task_manager="one", operator=sink(arrived.append)),
        ),
        edges=(Edge(source="numbers", target="sink"),),
    )
    result, seen = run(scenario)
    assert len(arrived) == 100
    assert (len(seen[0]), result.work.messages) == (1, 0)


def test_checkpoints_go_on_until_a_last_one_when_the_input_has_ended() -> None:
    log = TransactionLog()
    scenario = Scenario(
        name="finite",
        duration_s=60.0,
        config=NetworkConfig(segment_bytes=1024, buffer_timeout_interval_s=0.01, checkpoint_interval_s=0.1),
        vertices=(
            Vertex(name="numbers", source=paced(numbers(300), 500.0), parallelism=2),
            Vertex(name="sink", parallelism=2, operator=transactional_sink(log.commit)),
        ),
        edges=(Edge(source="numbers", target="sink", ship="hash"),),
    )
    result, _ = run(scenario)
    assert Counter(log.records) == Counter(b"%d" % number for number in range(300))
    assert result.failure is None
    assert result.checkpoints[-1].status == "COMPLETED"
    assert result.emulated_seconds < 60.0


def test_the_time_is_up_in_all_processes_and_pending_checkpoints_are_told() -> None:
    scenario = Scenario(
        name="endless",
        duration_s=1.2,
        config=SMALL,
        manual_checkpoints_s=(0.2,),
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
            Vertex(name="sink", parallelism=2, service=((0.0, 0.5),)),
        ),
        edges=(Edge(source="source", target="sink"),),
    )
    result, _ = run(scenario)
    assert [checkpoint.status for checkpoint in result.checkpoints] == ["IN_PROGRESS"]
    assert result.emulated_seconds >= 1.2
    assert [len(series.t) for series in result.series] == [3, 3]  # at 0 s, at 1 s and at the end


def kills(at: float) -> list[KillSubtask | KillTaskManager]:
    return [
        KillSubtask(when=AtTime(at), subtask=SubtaskName("sink", 1)),
        KillTaskManager(when=AtTime(at), task_manager="numbers"),
    ]


def test_samples_over_tcp_have_the_records_that_wait_to_be_read() -> None:
    burst = GeneratorSpec(record_bytes=50, rates=(2000.0,), burst_s=60.0)  # all at the beginning
    scenario = Scenario(
        name="burst",
        duration_s=2.5,
        vertices=(Vertex(name="source", source=burst), Vertex(name="sink", service=((0.0, 0.0003),))),
        edges=(Edge(source="source", target="sink"),),
    )
    source, sink = run(scenario)[0].series
    assert isinstance(source.pendingRecords, list)
    ((*_, before, after),) = source.pendingRecords
    assert before is not None
    assert after is not None
    assert 0 < after < before < 120_000
    assert sink.pendingRecords is UNSET


def test_retention_goes_on_after_a_restart() -> None:
    scenario = Scenario(
        name="retained",
        duration_s=60.0,
        config=NetworkConfig(
            segment_bytes=1024,
            buffer_timeout_interval_s=0.01,
            checkpoint_interval_s=0.05,
            retained_checkpoints=3,
            restart_initial_backoff_s=0.05,
        ),
        vertices=(
            Vertex(name="numbers", source=paced(numbers(1200), 400.0), parallelism=2),
            Vertex(name="sink", parallelism=2, operator=transactional_sink(TransactionLog().commit)),
        ),
        edges=(Edge(source="numbers", target="sink", ship="hash"),),
        faults=tuple(kills(0.6)[:1]),
    )
    storage = MemoryStorage()
    result, _ = run(scenario, storage)
    (restart,) = result.restarts
    complete = [each.id for each in result.checkpoints if each.status == "COMPLETED"]
    assert restart.checkpoint_id is not None
    assert complete[-1] > restart.checkpoint_id
    assert storage.checkpoints() == complete[-3:]
    folders = {path.partition("/")[0] for path in storage.files}
    assert folders == {f"chk-{number}" for number in complete[-3:]}


@pytest.mark.parametrize("fault", kills(1.2), ids=["subtask", "task manager"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"unaligned_enabled": True}, {"unaligned_enabled": True} | RECOVERIES["with checkpoints"]],
    ids=["aligned", "unaligned", "checkpoints during recovery"],
)
def test_after_a_failure_the_job_goes_on_from_its_latest_checkpoint(
    fault: KillSubtask | KillTaskManager, settings: dict[str, bool]
) -> None:
    log = TransactionLog()
    scenario = Scenario(
        name="killed",
        duration_s=60.0,
        config=NetworkConfig(
            segment_bytes=1024,
            buffer_timeout_interval_s=0.01,
            checkpoint_interval_s=0.2,
            restart_initial_backoff_s=0.05,
            **settings,  # type: ignore[arg-type]
        ),
        vertices=(
            Vertex(name="numbers", source=paced(numbers(1200), 400.0), parallelism=2),
            Vertex(
                name="sink",
                parallelism=2,
                service=((0.0, 0.0005),),
                operator=transactional_sink(log.commit),
            ),
        ),
        edges=(Edge(source="numbers", target="sink", ship="hash"),),
        faults=(fault,),
    )
    result, seen = run(scenario)
    assert Counter(log.records) == Counter(b"%d" % number for number in range(1200))
    assert result.failure is None
    (restart,) = result.restarts
    assert restart.cause == str(fault)
    assert restart.checkpoint_id is not None
    assert restart.failed_at < (restart.restarted_at or 0.0) <= (restart.running_at or 0.0)
    assert [what.what for what in result.faults] == [str(fault)]
    assert [len(reports) for reports in seen] == [2, 2]
    logs = [[log for report in reports for log in report.logs] for reports in seen]
    assert [(log.task, log.first) for of_attempt in logs for log in of_attempt] == [
        ((0, 0), 0),
        ((0, 1), 0),
    ] * 2
    for before, after in zip(*logs, strict=True):
        assert (
            before.since_s <= after.since_s + 1e-6 < restart.restarted_at
        )  # the restart did not begin a new log
    identities = [checkpoint.id for checkpoint in result.checkpoints]
    assert identities == sorted(set(identities))


class Failing(Operator):
    """Fails with the first record."""

    def open(self, context: OperatorContext) -> None:
        self._name = f"{context.vertex}[{context.subtask}]"

    def process(self, block: object) -> object:  # type: ignore[override]
        raise ValueError(f"{self._name} does not like this")


def failing_job(config: NetworkConfig = SMALL) -> Scenario:
    return Scenario(
        name="failing",
        duration_s=60.0,
        config=config,
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
            Vertex(name="between"),
            Vertex(name="sink", operator=lambda subtask: Failing()),
        ),
        edges=(Edge(source="source", target="between"), Edge(source="between", target="sink")),
    )


def test_the_first_cause_of_a_failure_is_told_everywhere(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "netstack.cluster"):
        result, seen = run(failing_job())
    cause = "ValueError: sink[0] does not like this (in subtask sink[0])"
    assert result.failure == cause
    (reports,) = seen
    assert [(report.failure.cause, report.failure.blame) for report in reports if report.failure] == [
        (cause, Blame.PEER_REPORTED),
        (cause, Blame.PEER_REPORTED),
        (cause, Blame.OWN),
    ]
    assert [record.message for record in caplog.records] == ["task manager sink failed"]


def test_restarts_end_at_their_limit(caplog: pytest.LogCaptureFixture) -> None:
    config = NetworkConfig(
        segment_bytes=1024,
        restart_strategy=RestartStrategy.FIXED_DELAY,
        restart_attempts=2,
        restart_delay_s=0.0,
    )
    with caplog.at_level(logging.CRITICAL, "netstack.cluster"):
        result, seen = run(failing_job(config))
    assert str(result.failure).endswith("(in subtask sink[0]) (restarted 2 times, as often as is allowed)")
    assert (len(result.restarts), len(seen)) == (2, 3)


def test_a_job_that_cannot_be_built_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    config = NetworkConfig(
        segment_bytes=1024, network_memory_max_bytes=2048, restart_strategy=RestartStrategy.FIXED_DELAY
    )
    storage, seen = MemoryStorage(), list[list[Report]]()
    with (
        caplog.at_level(logging.CRITICAL, "netstack.cluster"),
        pytest.raises(JobFailedError, match=r"^InsufficientBuffers: ") as failed,
    ):
        run_distributed(failing_job(config), launch_locally(storage, seen), storage)
    result = failed.value.result
    assert (result.restarts, len(seen), result.emulated_seconds) == ([], 1, 0.0)


class FullStorage(MemoryStorage):
    """Completes no checkpoint."""

    def _publish(self, path: str, data: bytes) -> None:
        raise StorageError(f"{path}: no space left")


def test_too_many_failed_checkpoints_fail_the_job() -> None:
    scenario = Scenario(
        name="full",
        duration_s=60.0,
        config=NetworkConfig(
            segment_bytes=1024, checkpoint_interval_s=0.1, restart_strategy=RestartStrategy.NONE
        ),
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=100, rates=(100.0,))),
            Vertex(name="sink"),
        ),
        edges=(Edge(source="source", target="sink"),),
    )
    result, _ = run(scenario, FullStorage())
    assert "FINALIZE_CHECKPOINT_FAILURE, chk-1/_metadata: no space left" in str(result.failure)
    assert [checkpoint.status for checkpoint in result.checkpoints] == ["FAILED"]


class Vanishing:
    """Runs the processes of an attempt, and ends one without a word when it has got a record."""

    def __init__(self) -> None:
        self.gone: Callable[[], None] = lambda: None

    async def run(self, scenario: Scenario, storage: MemoryStorage) -> list[Report]:
        secret, assignment = fresh_secret(), Assignment(scenario=scenario)
        meshes = [Mesh(index, 3) for index in range(3)]
        addresses = [await mesh.listen() for mesh in meshes]
        reports: list[Report] = []

        async def run(index: int) -> None:
            streams = await meshes[index].connect(addresses, secret)
            with trio.CancelScope() as scope:
                if index == 2:
                    self.gone = scope.cancel
                reports.append(await run_task_manager(assignment, index, streams, storage))

        async with trio.open_nursery() as nursery:
            for index in range(3):
                nursery.start_soon(run, index)
        return reports


def test_a_process_that_vanishes_fails_all_others() -> None:
    vanishing = Vanishing()
    scenario = Scenario(
        name="vanishing",
        duration_s=60.0,
        config=SMALL,
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
            Vertex(name="between"),
            Vertex(name="sink", operator=sink(lambda record: vanishing.gone())),
        ),
        edges=(Edge(source="source", target="between"), Edge(source="between", target="sink")),
    )
    reports = trio.run(vanishing.run, scenario, MemoryStorage())
    assert sorted(report.index for report in reports) == [0, 1]
    for report in reports:
        assert report.failure is not None
        assert report.failure.blame is not Blame.OWN
        assert "task manager sink (task 2)" in report.failure.cause
        assert report.leaked_segments == 0


def test_an_attempt_without_reports_is_followed_by_another() -> None:
    log, attempts = TransactionLog(), list[Assignment]()
    storage = MemoryStorage()

    def launch(assignment: Assignment) -> list[Report]:
        attempts.append(assignment)
        if len(attempts) == 1:
            raise LaunchError("a worker has died")
        return trio.run(run_processes, assignment, storage)

    scenario = Scenario(
        name="lost",
        duration_s=60.0,
        config=NetworkConfig(segment_bytes=1024, checkpoint_interval_s=0.1, restart_initial_backoff_s=0.001),
        vertices=(
            Vertex(name="numbers", source=numbers(100), parallelism=2),
            Vertex(name="sink", operator=transactional_sink(log.commit)),
        ),
        edges=(Edge(source="numbers", target="sink"),),
    )
    result = run_distributed(scenario, launch, storage)
    assert Counter(log.records) == Counter(b"%d" % number for number in range(100))
    assert [restart.cause for restart in result.restarts] == ["a worker has died"]
    assert [assignment.restore for assignment in attempts] == [None, None]
    assert attempts[1].origin is not None
    assert attempts[1].logs == (FilledLog((0, 0), 0.0, 0), FilledLog((0, 1), 0.0, 0))


def test_a_launch_that_can_never_work_is_not_tried_again() -> None:
    launches = 0

    def launch(assignment: Assignment) -> list[Report]:
        nonlocal launches
        launches += 1
        raise LaunchError("the Python of this worker has no netstack", again=False)

    config = NetworkConfig(restart_strategy=RestartStrategy.FIXED_DELAY, restart_delay_s=0.0)
    with pytest.raises(JobFailedError, match=r"^the Python of this worker has no netstack$"):
        run_distributed(failing_job(config), launch, MemoryStorage())
    assert launches == 1


def test_what_is_left_of_incomplete_checkpoints_is_deleted_before_a_restart() -> None:
    storage, present, numbers_given = MemoryStorage(), list[list[int]](), list[int]()

    def launch(assignment: Assignment) -> list[Report]:
        present.append(storage.present())
        numbers_given.append(assignment.first_checkpoint)
        storage.write(7, "half", b"x")
        raise LaunchError("a worker has died")

    config = NetworkConfig(
        restart_strategy=RestartStrategy.FIXED_DELAY, restart_attempts=1, restart_delay_s=0.0
    )
    with pytest.raises(JobFailedError, match=r"a worker has died \(restarted 1 times"):
        run_distributed(failing_job(config), launch, storage)
    assert present == [[], []]
    assert numbers_given == [1, 8]  # no number is given twice


def test_a_trace_is_told_in_the_order_of_time() -> None:
    trace, storage = TraceLog(), MemoryStorage()
    scenario = Scenario(
        name="traced",
        duration_s=0.8,
        config=SMALL,
        manual_checkpoints_s=(0.2,),
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=100, rates=(500.0,))),
            Vertex(name="sink"),
        ),
        edges=(Edge(source="source", target="sink"),),
    )
    run_distributed(scenario, launch_locally(storage), storage, trace=trace)
    assert [event.at for event in trace] == sorted(event.at for event in trace)
    assert [(event.place, event.text.split(" after")[0]) for event in trace] == [
        ("coordinator", "triggers checkpoint 1: aligned"),
        ("source[0]", "snapshot for checkpoint 1; barrier sent downstream"),
        *trace_of_source(trace),
        ("sink[0]", "barrier 1 from source[0]: the last one"),
        ("sink[0]", "snapshot for checkpoint 1"),
        ("sink[0]", "unblocks the channel from source[0]"),
        ("sink[0]", "acknowledges checkpoint 1: 0 bytes of state"),
        ("coordinator", "checkpoint 1 is complete"),
    ]


def trace_of_source(trace: TraceLog) -> list[tuple[str, str]]:
    """Its position depends on the time."""
    return [(event.place, event.text) for event in trace if event.place == "source[0]"][1:]


def test_faults_of_emulated_time_are_refused() -> None:
    scenario = Scenario(
        name="cut",
        duration_s=1.0,
        vertices=(Vertex(name="source", source=GeneratorSpec(record_bytes=8)), Vertex(name="sink")),
        edges=(Edge(source="source", target="sink"),),
        faults=(CutLink(when=AtTime(0.5), from_task_manager="source", to_task_manager="sink"),),
    )
    with pytest.raises(ScenarioError, match=r"faults\.0: cut_link does not work over TCP"):
        run(scenario)
    outage = Outage(when=AtTime(0.5), for_s=0.1)
    refused = (
        r"faults\.0: outage does not work over TCP\. Only kill_subtask .*; remove this fault, or run in emul"
    )
    with pytest.raises(ScenarioError, match=refused):
        run(replace(scenario, faults=(outage,)))
    first = SubtaskName("sink", 0)
    kill = KillSubtask(when=OnAcknowledgement(subtask=first, number=1), subtask=first)
    with pytest.raises(ScenarioError, match=r"faults\.0: kill_subtask over TCP needs a time \(`at`\)"):
        run(replace(scenario, config=NetworkConfig(checkpoint_interval_s=0.1), faults=(kill,)))
