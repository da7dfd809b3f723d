"""The checkpoints of one task whose outputs no other task reads."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from buffers import PipelinedSubpartition, RecordBlock
from flowcontrol import (
    Alignment,
    AlignmentMetrics,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointOptions,
    FailureReason,
    Trigger,
    decode_event,
)
from netstack import (
    Agenda,
    CheckpointMetadata,
    CollectionSource,
    CostModel,
    Edge,
    MemoryStorage,
    NetworkConfig,
    OperatorContext,
    Scenario,
    SourceObject,
    StateFormat,
    SubtaskSnapshot,
    SubtaskState,
    Transaction,
    Vertex,
    transactional_sink,
)
from netstack.checkpoints.pending_checkpoint import Acknowledgement, CheckpointedTask
from netstack.checkpoints.recovery import RecoverySource, SubtaskRecovery
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.cancellation import Scope
from netstack.engine.randomness import Randomness
from netstack.jobs.build import JobBuilder
from netstack.state.table_backend import TableSettings
from netstack.tasks.operator_subtask import OperatorSubtask
from netstack.tasks.source_log import SourceLogs
from netstack.tasks.subtask import Mail
from netstack.tasks.subtask_environment import Environment
from netstack.tasks.task_checkpoints import TaskCheckpoints
from tests.netstack.table_model import ModelStores

RATE = 1000.0
"""Speed of storing state, in bytes per second."""

SCENARIO = Scenario(
    name="two task managers",
    duration_s=1.0,
    vertices=(
        Vertex(name="source", source=SourceObject(source=CollectionSource([[b"record"]]))),
        Vertex(name="sink", parallelism=2, task_manager="other"),
    ),
    edges=(Edge(source="source", target="sink"),),
)


class Told:
    """A coordinator that only listens."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.uploads_s: list[float] = []
        self.own_bytes: list[int] = []
        self.data_ended: list[bool] = []
        self.declined: list[tuple[int, FailureReason, str]] = []

    def acknowledge(self, subtask: CheckpointedTask, report: Acknowledgement) -> None:
        self.acknowledged.append(report.checkpoint_id)
        self.uploads_s.append(report.part.async_s)
        own = [each for each in report.snapshot.handles if each.format is not StateFormat.TABLE_FILE]
        self.own_bytes.append(sum(handle.size for handle in own))
        self.data_ended.append(report.snapshot.data_ended)

    def decline(
        self, subtask: CheckpointedTask, checkpoint_id: int, reason: FailureReason, detail: str = ""
    ) -> None:
        self.declined.append((checkpoint_id, reason, detail))

    def finished(self, subtask: CheckpointedTask) -> None: ...


class Source:
    """The source of that job, which does nothing but checkpoints."""

    def __init__(self, in_metadata_up_to: int = 20 << 10) -> None:
        self.told = Told()
        self.agenda = Agenda()
        self.storage = MemoryStorage()
        config = NetworkConfig(state_memory_threshold_bytes=in_metadata_up_to)
        costs = CostModel(upload_rate_bytes_per_s=RATE)
        environment = Environment(
            self.agenda,
            Scope(self.agenda),
            costs,
            config,
            Randomness(1, 0.0),
            self.told,
            self.storage,
            SourceLogs(),
        )
        builder = JobBuilder(SCENARIO, environment)
        builder.build()
        self._subtask = builder.subtasks[0][0]
        tables = TableSettings(ModelStores(), incremental=True)
        self.state = self._subtask.state = SubtaskState("source", 0, 1, 8, tables=tables)
        self.checkpoints = TaskCheckpoints(self._subtask)

    @property
    def subpartitions(self) -> list[PipelinedSubpartition]:
        return self._subtask.outputs[0].partition.subpartitions

    def restore(self, snapshot: SubtaskSnapshot) -> None:
        """Begin with what the subtask had in a checkpoint."""
        metadata = CheckpointMetadata(
            checkpoint_id=1,
            job="job",
            checkpoint_type="CHECKPOINT",
            triggered_at=0.0,
            completed_at=0.0,
            parallelism={"source": 1, "sink": 2},
            subtasks=(snapshot,),
        )
        self._subtask.recover(SubtaskRecovery(RecoverySource(metadata, self.storage), snapshot))

    def take_mail(self) -> list[Mail]:
        """Return what the subtask would have to handle by now."""
        mail = list(self._subtask.mail)
        self._subtask.mail.clear()
        return mail

    def begin(self, number: int) -> None:
        """Begin a checkpoint that is aligned until a timeout."""
        self.begin_at(CheckpointBarrier(number, 0.0, CheckpointOptions(timeout_s=60.0)))

    def change_and_begin(self, number: int) -> None:
        """Give a key a value, and begin a checkpoint of it that is aligned."""
        self.state.keyed.set_current_key(number, 1)
        self.state.keyed.value("v").update("x" * 100)
        self.begin_at(CheckpointBarrier(number, 0.0))

    def begin_at(self, barrier: CheckpointBarrier) -> None:
        """Begin the checkpoint of a barrier; its synchronous part takes no time."""
        upload = self.checkpoints.begin(barrier, AlignmentMetrics(0.0, 0.0, 0))
        if upload is not None:
            upload.start()


def test_only_what_is_stored_for_a_checkpoint_takes_time_and_goes_if_it_is_aborted() -> None:
    source = Source(in_metadata_up_to=0)
    for number in (1, 2, 3):
        source.agenda.at(100.0 * number, source.change_and_begin, number)
        source.agenda.at(100.0 * number + 50, source.state.checkpoint_completed, number)
    source.agenda.at(300.0, source.agenda.stop)
    trio.run(run_agenda, source.agenda)
    files = source.storage.files
    tables = [len(data) for path, data in files.items() if path.startswith("shared/")]
    assert len(tables) == 3
    own = source.told.own_bytes
    assert min(own) > 0
    uploads_s = [(tables[n] + own[n]) / RATE + CostModel().state_file_s for n in (0, 1)]
    assert source.told.uploads_s == pytest.approx(uploads_s)
    before = {path for path in files if path.startswith("chk-3/") or path.endswith("-3")}
    assert len(before) == 3
    kept = files.keys() - before
    source.checkpoints.abort(3)
    assert files.keys() == kept


def test_a_newer_barrier_beside_one_that_can_time_out_fails_the_older_checkpoint_once() -> None:
    source = Source()
    source.begin(1)
    source.begin(2)
    ((number, reason, detail),) = source.told.declined
    assert (number, reason) == (1, FailureReason.ASYNC_EXCEPTION)
    assert detail == "a newer checkpoint began while the alignment of this one could still time out"
    for subpartition in source.subpartitions:
        for _ in range(2):
            assert subpartition.poll() is not None
            subpartition.resume()
    assert source.told.acknowledged == [2]


@pytest.mark.parametrize("ended", [False, True])
def test_who_had_ended_says_so_before_hearing_it_again(ended: bool) -> None:
    source = Source()
    snapshot = SubtaskSnapshot(vertex="source", subtask=0, data_ended=ended)
    source.restore(snapshot)
    source.begin(2)
    for subpartition in source.subpartitions:
        for _ in range(2):  # behind the end of what was restored
            assert subpartition.poll() is not None
            subpartition.resume()
    assert source.told.data_ended == [ended]


def test_a_trigger_that_comes_after_that_of_a_newer_checkpoint_changes_nothing() -> None:
    source = Source()
    source.begin(2)
    queued = [len(subpartition) for subpartition in source.subpartitions]
    source.checkpoints.trigger(CheckpointBarrier(1, 0.0, CheckpointOptions(timeout_s=60.0)))
    assert [len(subpartition) for subpartition in source.subpartitions] == queued
    assert source.told.declined == []


def test_a_newer_barrier_behind_one_that_has_left_fails_nothing() -> None:
    source = Source()
    for number in (1, 2):
        source.begin(number)
        for subpartition in source.subpartitions:
            assert subpartition.poll() is not None
            subpartition.resume()
    assert (source.told.declined, source.told.acknowledged) == ([], [1, 2])


def test_those_downstream_are_told_of_a_checkpoint_that_was_given_up_before_it_began() -> None:
    source = Source()
    source.checkpoints.abort(2)
    source.checkpoints.begin(CheckpointBarrier(2, 0.0), AlignmentMetrics(0.0, 0.0, 0))
    for subpartition in source.subpartitions:
        polled = subpartition.poll()
        assert polled is not None
        assert decode_event(bytes(polled.buffer.payload)) == CancelCheckpointMarker(2)
    assert source.told.acknowledged == []


@pytest.mark.parametrize("aborted", [(2, 3), (3, 2), (2, 4), (1, 2, 3, 4)])
def test_each_checkpoint_that_was_aborted_before_its_barrier_came_is_taken_by_nobody(
    aborted: tuple[int, ...],
) -> None:
    """Although the barriers of several come later, one by one."""
    source = Source()
    for number in aborted:
        source.checkpoints.abort(number)
    for number in (1, 2, 3, 4):
        source.change_and_begin(number)
    source.agenda.at(60.0, source.agenda.stop)
    trio.run(run_agenda, source.agenda)
    taken = [number for number in (1, 2, 3, 4) if number not in aborted]
    assert source.told.acknowledged == taken
    events = []
    for _ in (1, 2, 3, 4):
        polled = source.subpartitions[0].poll()
        assert polled is not None
        events.append(decode_event(bytes(polled.buffer.payload)))
        if isinstance(events[-1], CheckpointBarrier):
            source.subpartitions[0].resume()
    assert [isinstance(event, CancelCheckpointMarker) for event in events] == [
        number in aborted for number in (1, 2, 3, 4)
    ]


def test_an_aligned_barrier_overtakes_once_its_checkpoint_is_as_old_as_the_timeout() -> None:
    """The barrier has come late: what counts is when the checkpoint began."""
    source = Source()
    overtakes: list[tuple[float, list[bool]]] = []

    def look() -> None:
        for mail in source.take_mail():
            mail()
        priority = [subpartition.has_priority for subpartition in source.subpartitions]
        overtakes.append((source.agenda.now, priority))

    source.agenda.at(40.0, source.begin, 1)  # triggered at 0 s, with a timeout of 60 s
    for time in (59.9, 60.1):
        source.agenda.at(time, look)
    source.agenda.at(61.0, source.agenda.stop)
    trio.run(run_agenda, source.agenda)
    assert overtakes == [(59.9, [False, False]), (60.1, [True, True])]


def test_what_arrives_after_an_unaligned_checkpoint_was_aborted_is_kept_for_none() -> None:
    agenda = Agenda()
    config = NetworkConfig(unaligned_enabled=True)
    environment = Environment(
        agenda, Scope(agenda), CostModel(), config, Randomness(1, 0.0), Told(), MemoryStorage(), SourceLogs()
    )
    local = tuple(replace(vertex, task_manager="one") for vertex in SCENARIO.vertices)
    builder = JobBuilder(replace(SCENARIO, vertices=local, config=config), environment)
    builder.build()
    (source,), (sink, _) = builder.subtasks
    assert isinstance(sink, OperatorSubtask)
    (gate,), partition = sink.gates, source.outputs[0].partition
    (channel,) = gate.channels
    kept: list[bytes] = []
    channel.persist = lambda checkpoint_id, of, data: kept.append(bytes(data))
    gate.request_partitions()

    def write_and_read(record: bytes) -> None:
        partition.write_record(0, memoryview(record))
        partition.flush()
        while (polled := gate.poll(0.0)) is not None:
            polled[1].release()

    write_and_read(b"before")
    options = CheckpointOptions(Alignment.UNALIGNED)
    sink.barriers.begin(Trigger(CheckpointBarrier(1, 0.0, options), None))
    write_and_read(b"meanwhile")
    sink.checkpoints.abort(1)
    write_and_read(b"afterwards")
    assert kept == [b"meanwhile"]


def test_a_transaction_has_its_records_in_the_order_of_their_coming() -> None:
    committed: list[Transaction] = []
    sink = transactional_sink(committed.append)(0)
    state = SubtaskState("sink", 0, 1, 128)
    sink.open(OperatorContext("sink", 0, state.keyed, state.operator, checkpointing=True))
    for records in ([b"a", b"b", b"c"], [b"d", b"e"]):
        sink.process(RecordBlock.from_payloads(records))
    sink.before_snapshot(1)
    sink.checkpoint_completed(1)
    assert committed == [Transaction("sink", 0, 1, (b"a", b"b", b"c", b"d", b"e"))]
