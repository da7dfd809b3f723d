"""Checkpoints and restarts at moments that random small jobs hardly ever meet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from buffers import RecordBlock
from netstack import (
    Agenda,
    AtTime,
    CheckpointMode,
    CollectionSource,
    CostModel,
    DelayMessages,
    Edge,
    Fault,
    Job,
    KillSubtask,
    KillTaskManager,
    MemoryStorage,
    NetworkConfig,
    Operator,
    OperatorContext,
    RestartStrategy,
    Scenario,
    SourceObject,
    SubtaskName,
    TransactionLog,
    Vertex,
    transactional_sink,
)
from tests.netstack.whole_jobs import run


class Gather(Operator):
    """Keeps all records, in its state, and gives them when the input has ended."""

    def __init__(self, subtask: int) -> None:
        self._records: list[bytes] = []
        self._context: OperatorContext

    def open(self, context: OperatorContext) -> None:
        self._context = context
        self._records = [record for record in context.operator.get("records") if isinstance(record, bytes)]

    def process(self, block: RecordBlock) -> RecordBlock:
        self._records += map(bytes, block.payloads())
        return RecordBlock.from_payloads([])

    def before_snapshot(self, checkpoint_id: int) -> None:
        self._context.operator.put("records", list(self._records))

    def finish(self) -> RecordBlock:
        return RecordBlock.from_payloads(self._records)


def gathering(log: TransactionLog, *faults: Fault, rate: float = 500.0, count: int = 200) -> Scenario:
    """A long source and one of a single record -> 3 that gather, the last one slowly -> 1 that commits."""
    records = [[b"%d:%s" % (number, b"x" * 200) for number in range(count)], [b"end"]]
    return Scenario(
        name="gathering",
        duration_s=30.0,
        config=NetworkConfig(
            checkpoint_interval_s=0.05,
            restart_strategy=RestartStrategy.FIXED_DELAY,
            restart_attempts=10,
            restart_delay_s=0.02,
            segment_bytes=1024,
            state_memory_threshold_bytes=0,
            tolerable_failed_checkpoints=1000,
        ),
        vertices=(
            Vertex(
                name="source",
                parallelism=2,
                source=SourceObject(source=CollectionSource(records), rates=(rate,)),
            ),
            Vertex(
                name="gather",
                parallelism=3,
                service=((0.0, 0.02),),
                service_skew=(0.0, 0.0, 1.0),
                operator=Gather,
            ),
            Vertex(name="out", parallelism=1, operator=transactional_sink(log.commit)),
        ),
        edges=(
            Edge(source="source", target="gather", ship="rebalance"),
            Edge(source="gather", target="out", ship="rebalance"),
        ),
        faults=faults,
    )


def kill(vertex: str, subtask: int, at: float) -> KillSubtask:
    return KillSubtask(when=AtTime(at), subtask=SubtaskName(vertex, subtask))


@pytest.mark.parametrize("seed", range(6))
def test_records_that_come_again_after_the_end_are_put_out_too(seed: int) -> None:
    # Subtask 1 of the source is triggered so late that the fast subtasks have gathered everything before
    # its barrier comes. The slow one has not, and what it lacks is dealt out anew after the restart.
    late = DelayMessages(
        when=AtTime(0.0), messages="trigger", delay_s=0.5, for_s=1.0, vertex="source", subtask=1
    )
    log = TransactionLog()
    scenario = gathering(log, late, kill("gather", 2, 0.77))
    config = replace(
        scenario.config, checkpoint_interval_s=50.0, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE
    )
    run(Job(replace(scenario, seed=seed, config=config, manual_checkpoints_s=(0.2, 5.0)), Agenda()))
    wanted = {b"%d:%s" % (number, b"x" * 200) for number in range(200)} | {b"end"}
    assert set(log.records) == wanted


def ends_of(scenario: Scenario) -> list[tuple[float, str, int]]:
    """When each subtask ends, without faults: time, vertex, subtask; in this order."""
    job = Job(scenario, Agenda())
    found, told = [], job._subtask_ended

    def ended(subtask: object) -> None:
        found.append((job.agenda.now, subtask.name, subtask.index))  # type: ignore[attr-defined]
        told(subtask)  # type: ignore[arg-type]

    job._subtask_ended = ended  # type: ignore[method-assign]
    run(job)
    return found


def test_what_has_ended_cannot_fail() -> None:
    calm = gathering(TransactionLog())
    (first, vertex, subtask), *_, (last, _, _) = ends_of(calm)
    managers = list(calm.task_managers)
    for faults in (
        [kill(vertex, subtask, first + 1e-7)],
        [KillTaskManager(when=AtTime(last + 1e-7), task_manager=manager) for manager in managers],
    ):
        log = TransactionLog()
        job = run(Job(gathering(log, *faults), Agenda()))
        assert len(job.faults.fired) == len(faults)
        assert not job.restarts
        assert len(log.records) == 201


def test_what_still_runs_can_fail_beside_what_has_ended() -> None:
    calm = gathering(TransactionLog())
    (first, _, _), *_, (_, vertex, subtask) = ends_of(calm)
    log = TransactionLog()
    job = run(Job(gathering(log, kill(vertex, subtask, first + 1e-7)), Agenda()))
    assert len(job.restarts) == 1
    assert len(log.records) == 201


@pytest.mark.parametrize("at", [0.2, 0.25, 0.3, 0.35, 0.4])
@pytest.mark.parametrize(("upload_rate", "ack_delay_s"), [(5e4, 0.0), (1e9, 0.05)])
def test_a_failure_leaves_no_files_of_checkpoints_that_had_expired(
    at: float, upload_rate: float, ack_delay_s: float
) -> None:
    # One source is triggered when the checkpoint has expired, and nobody hears of that in time: what is
    # stored for it then is half uploaded, or on its way to the coordinator, when the job fails.
    storage, log = MemoryStorage(), TransactionLog()
    scenario = gathering(
        log,
        DelayMessages(when=AtTime(0.1), messages="aborted", delay_s=9.0, for_s=9.0),
        DelayMessages(
            when=AtTime(0.1), messages="trigger", delay_s=0.1, for_s=9.0, vertex="source", subtask=1
        ),
        DelayMessages(when=AtTime(0.1), messages="acknowledge", delay_s=ack_delay_s, for_s=9.0),
        kill("gather", 0, at),
    )
    scenario = replace(
        scenario,
        config=replace(scenario.config, checkpoint_timeout_s=0.03, restart_attempts=0),
        costs=CostModel(upload_rate_bytes_per_s=upload_rate),
    )
    job = run(Job(scenario, Agenda(), storage=storage))
    assert any(head.failure == "CHECKPOINT_EXPIRED" for head in job.recorder.checkpoints)
    left = {int(path.split("/")[0].removeprefix("chk-")) for path in storage.files}
    assert left == set(storage.checkpoints())
