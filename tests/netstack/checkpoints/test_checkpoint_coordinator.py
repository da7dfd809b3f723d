"""The checkpoint coordinator: what becomes of checkpoints when all goes well, and when something does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from flowcontrol import (
    Alignment,
    CheckpointBarrier,
    CheckpointOptions,
    FailureReason,
)
from netstack.checkpoints.coordinator import CheckpointCoordinator, options_of_barriers
from netstack.checkpoints.metadata import CheckpointMetadata, SubtaskSnapshot
from netstack.checkpoints.pending_checkpoint import Acknowledgement, Checkpoint
from netstack.checkpoints.storage import MemoryStorage
from netstack.engine.agenda import Agenda
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.randomness import Randomness
from netstack.errors import StorageError
from netstack.results.result import SubtaskCheckpoint
from netstack.results.trace import TraceLog
from netstack.scenarios.changes import ScheduledSavepoint
from netstack.scenarios.checkpoint_modes import CheckpointMode
from netstack.scenarios.checkpointed_shape import JobShape
from netstack.scenarios.costs import CostModel
from netstack.scenarios.faults import ControlMessage
from netstack.scenarios.options import NetworkConfig
from netstack.state.handles import StateHandle, StoredFile
from netstack.state.state_kinds import StateKind

COSTS = CostModel(
    trigger_s=(0.010, 0.010), trigger_per_source_s=0.003, ack_s=(0.005, 0.005), ack_unaligned_s=(0.02, 0.02)
)
WORK_S = 0.1
"""From the trigger of a task to its acknowledgement."""

END_TO_END_S = 0.010 + WORK_S + 0.005
"""Of a checkpoint of one source when nothing is in its way."""


PART = SubtaskCheckpoint(
    start_delay_s=0.25,
    alignment_s=0.5,
    sync_s=0.001,
    async_s=0.002,
    alignment_processed_bytes=42,
    alignment_persisted_bytes=5,
)


class FullStorage(MemoryStorage):
    """A storage that takes metadata only while there is `room`."""

    room = True

    def complete(self, metadata: CheckpointMetadata) -> None:
        if not self.room:
            raise StorageError(f"no room for checkpoint {metadata.checkpoint_id}")
        super().complete(metadata)


@dataclass
class Task:
    """Answers each trigger with a file of state; a source has no `upstream`.

    `silent` checkpoints are not acknowledged, `declined` ones are given up. One that `shares` names its first
    file again each time.
    """

    job: Job
    vertex: int
    index: int
    upstream: list[Task] = field(default_factory=list)
    last_checkpoint: int = 0
    ended: bool = False
    unaligned: bool = False
    shares: bool = False
    first_file: StoredFile | None = None
    kind: StateKind = StateKind.KEYED
    work_s: float = WORK_S
    silent: set[int] = field(default_factory=set)
    declined: dict[int, FailureReason] = field(default_factory=dict)
    told: list[tuple[float, str, int]] = field(default_factory=list)
    barriers: list[CheckpointBarrier] = field(default_factory=list)

    def _told(self, what: str, checkpoint_id: int) -> None:
        self.told.append((round(self.job.agenda.now, 6), what, checkpoint_id))

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        number = self.last_checkpoint = barrier.checkpoint_id
        self.barriers.append(barrier)
        self._told("trigger", number)
        if number in self.declined:
            self.job.coordinator.decline(self, number, self.declined[number])
        elif number not in self.silent:
            self.job.agenda.after(self.work_s, self.acknowledge, number)

    def acknowledge(self, number: int) -> None:
        name = f"{self.vertex}-{self.index}" + (f"-{number}" if self.shares else "")
        savepoint = next(each for each in self.barriers if each.checkpoint_id == number).options.savepoint
        storage = self.job.storage if savepoint is None else self.job.storage.savepoint(savepoint.location)
        file = storage.write(number, name, b"state", shared=self.shares)
        self.first_file = self.first_file or file
        files = [self.first_file, file] if self.shares else [file]
        handles = tuple(StateHandle(kind=self.kind, size=each.size, file=each) for each in files)
        name = list(self.job.parallelism)[self.vertex]
        snapshot = SubtaskSnapshot(vertex=name, subtask=self.index, handles=handles)
        part = PART._replace(unaligned=self.unaligned)
        self.job.coordinator.acknowledge(self, Acknowledgement(number, part, snapshot))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._told("completed", checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._told("aborted", checkpoint_id)

    def end(self) -> None:
        self.ended = True
        self.job.coordinator.finished(self)


class Job:
    """Tasks under a coordinator, for as many seconds as `run` says; requests are made at given times."""

    def __init__(self, *, sources: int = 1, first_id: int = 1, **options: Any) -> None:
        self.agenda = Agenda()
        self.storage = FullStorage()
        self.ended: list[Checkpoint] = []
        self.causes: list[str] = []
        self.trace = TraceLog()
        self.parallelism = {"source": sources}
        self.tasks = [Task(self, 0, index) for index in range(sources)]
        self.coordinator = CheckpointCoordinator(
            agenda=self.agenda,
            config=NetworkConfig(**options),
            costs=COSTS,
            randomness=Randomness(1, 1.0),
            job=JobShape("job", self.parallelism),
            storage=self.storage,
            on_end=self.ended.append,
            fail_job=self.fail,
            first_id=first_id,
            trace=self.trace,
        )

    def fail(self, cause: str) -> None:
        self.causes.append(cause)

    def run(self, seconds: float, requests: Sequence[float] = ()) -> None:
        self.agenda.at(0.0, self.coordinator.start, self.tasks)
        for at in requests:
            self.agenda.at(at, self.coordinator.request_checkpoint)
        self.agenda.at(seconds, self.agenda.stop)
        trio.run(run_agenda, self.agenda)

    @property
    def outcomes(self) -> list[tuple[int, str, str | None]]:
        return [
            (checkpoint.checkpoint_id, checkpoint.status, checkpoint.failure) for checkpoint in self.ended
        ]

    def lose(self, kind: ControlMessage, index: int = 0) -> None:
        """From now on messages of a kind from or for a source are lost."""
        self.delay(kind, None, index)

    def delay(self, kind: ControlMessage, seconds: float | None, index: int = 0) -> None:
        self.coordinator.control_plane.interference.append(
            lambda sent, task: seconds if (sent, task) == (kind, (0, index)) else 0.0
        )


def test_all_acknowledge_and_the_checkpoint_is_stored_and_all_are_told() -> None:
    job = Job(sources=2)
    job.run(2.0, [1.0])
    (checkpoint,) = job.ended
    assert (checkpoint.status, checkpoint.checkpoint_type, checkpoint.size) == ("COMPLETED", "CHECKPOINT", 10)
    assert checkpoint.duration_s == pytest.approx(END_TO_END_S + 0.003)
    assert [task.told for task in job.tasks] == [
        [(1.01, "trigger", 1), (1.128, "completed", 1)],
        [(1.013, "trigger", 1), (1.128, "completed", 1)],
    ]
    assert job.storage.checkpoints() == [1]
    assert job.storage.load(1) == job.coordinator.latest_completed
    assert sorted(job.storage.contents(1)) == ["chk-1/0-0", "chk-1/0-1", "chk-1/_metadata"]


def test_what_a_subtask_reports_is_kept() -> None:
    job = Job()
    job.tasks[0].unaligned, job.tasks[0].kind = True, StateKind.INPUT_CHANNEL
    job.run(2.0, [1.0])
    (checkpoint,) = job.ended
    part = checkpoint.parts[0, 0]
    assert round(part.end_to_end_s, 6) == 0.13
    assert part == PART._replace(end_to_end_s=part.end_to_end_s, unaligned=True)


@pytest.mark.parametrize(
    ("unaligned", "kind", "way"),
    [
        (False, StateKind.KEYED, 0.005),
        (False, StateKind.OUTPUT_CHANNEL, 0.02),
        (True, StateKind.KEYED, 0.02),
    ],
)
def test_an_acknowledgement_with_data_in_flight_takes_longer(
    unaligned: bool, kind: StateKind, way: float
) -> None:
    job = Job()
    job.tasks[0].unaligned, job.tasks[0].kind = unaligned, kind
    job.run(2.0, [1.0])
    assert job.ended[0].duration_s == pytest.approx(0.010 + WORK_S + way)


@pytest.mark.parametrize(
    ("options", "expected", "kind"),
    [
        ({}, CheckpointOptions(), "CHECKPOINT"),
        ({"unaligned_enabled": True}, CheckpointOptions(Alignment.UNALIGNED), "UNALIGNED_CHECKPOINT"),
        (
            {"unaligned_enabled": True, "aligned_checkpoint_timeout_s": 0.5},
            CheckpointOptions(Alignment.ALIGNED, 0.5),
            "CHECKPOINT",
        ),
        ({"aligned_checkpoint_timeout_s": 0.5}, CheckpointOptions(), "CHECKPOINT"),
        (
            {"checkpoint_mode": CheckpointMode.AT_LEAST_ONCE, "unaligned_enabled": True},
            CheckpointOptions(Alignment.AT_LEAST_ONCE),
            "AT_LEAST_ONCE_CHECKPOINT",
        ),
    ],
)
def test_barriers_have_the_options_of_the_job(
    options: dict[str, Any], expected: CheckpointOptions, kind: str
) -> None:
    assert options_of_barriers(NetworkConfig(**options)) == expected
    job = Job(**options)
    job.run(2.0, [1.0])
    assert job.tasks[0].barriers == [CheckpointBarrier(1, 1.0, expected)]
    metadata = job.coordinator.latest_completed
    assert metadata is not None
    assert metadata.checkpoint_type == job.ended[0].checkpoint_type == kind


def test_one_subtask_that_turned_unaligned_makes_an_unaligned_checkpoint() -> None:
    job = Job(sources=2, unaligned_enabled=True, aligned_checkpoint_timeout_s=1.0)
    job.tasks[1].unaligned = True
    job.run(2.0, [1.0])
    assert job.ended[0].checkpoint_type == "UNALIGNED_CHECKPOINT"


def test_the_newest_checkpoints_are_retained() -> None:
    job = Job(retained_checkpoints=2, first_id=7)
    job.run(4.0, [1.0, 2.0, 3.0])
    assert [checkpoint.checkpoint_id for checkpoint in job.ended] == [7, 8, 9]
    assert job.storage.checkpoints() == [8, 9]


def test_a_checkpoint_expires_and_what_comes_later_is_deleted() -> None:
    job = Job(sources=2, checkpoint_timeout_s=0.5, tolerable_failed_checkpoints=1)
    job.tasks[1].work_s = 0.9
    job.run(3.0, [1.0])
    assert job.outcomes == [(1, "FAILED", "CHECKPOINT_EXPIRED")]
    assert sorted(job.ended[0].parts) == [(0, 0)]
    assert [task.told[-1] for task in job.tasks] == [(1.51, "aborted", 1)] * 2
    assert (job.storage.files, job.causes) == ({}, [])
    assert [event.text for event in job.trace] == [
        "triggers checkpoint 1: aligned",
        "checkpoint 1 failed: CHECKPOINT_EXPIRED, acknowledgements missing: 1",
        "checkpoint 1: the acknowledgement of source[1] comes too late, so its files are deleted",
    ]


def test_each_checkpoint_has_its_own_deadline() -> None:
    job = Job(checkpoint_timeout_s=0.5, max_concurrent_checkpoints=3, tolerable_failed_checkpoints=9)
    job.tasks[0].silent = {2, 3}
    job.run(3.0, [1.0, 1.2, 1.3])
    assert job.outcomes == [(1, "COMPLETED", None), *((n, "FAILED", "CHECKPOINT_EXPIRED") for n in (2, 3))]
    assert [time for time, what, _ in job.tasks[0].told if what == "aborted"] == [1.71, 1.81]


def test_more_failures_in_a_row_than_tolerable_fail_the_job() -> None:
    job = Job(checkpoint_timeout_s=0.2, tolerable_failed_checkpoints=1)
    job.tasks[0].silent = {1, 3, 4, 5}
    job.run(9.0, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert job.causes == [
        "checkpoint 4 failed: CHECKPOINT_EXPIRED, acknowledgements missing: 1; the job tolerates only 1 "
        "failures in a row"
    ]


@pytest.mark.parametrize("kind", [ControlMessage.TRIGGER, ControlMessage.ACKNOWLEDGE])
def test_a_lost_message_lets_the_checkpoint_expire(kind: ControlMessage) -> None:
    job = Job(sources=2, checkpoint_timeout_s=0.5)
    job.lose(kind)
    job.run(2.0, [1.0])
    assert job.outcomes == [(1, "FAILED", "CHECKPOINT_EXPIRED")]
    assert len(job.causes) == 1
    assert job.storage.files == {}


def sharing(**settings: Any) -> Job:
    """Two sources; the checkpoints that are requested at 0, 1 and 2 s share the first one's files."""
    job = Job(sources=2, checkpoint_timeout_s=0.5, tolerable_failed_checkpoints=9, **settings)
    for task in job.tasks:
        task.shares = True
    return job


def test_shared_files_of_a_failed_checkpoint_go_with_it_but_for_those_used_before() -> None:
    job = sharing()
    job.agenda.at(0.9, job.lose, ControlMessage.ACKNOWLEDGE, 1)
    job.run(1.4, [0.0, 1.0])
    assert sorted(job.storage.shared_files()) == [
        *("shared/0-0-1", "shared/0-0-2", "shared/0-1-1", "shared/0-1-2"),
    ]
    again = sharing()
    again.agenda.at(0.9, again.lose, ControlMessage.ACKNOWLEDGE, 1)
    again.run(1.7, [0.0, 1.0])
    assert again.outcomes[-1] == (2, "FAILED", FailureReason.EXPIRED)
    assert sorted(again.storage.shared_files()) == ["shared/0-0-1", "shared/0-1-1"]


@pytest.mark.parametrize("work_s", [0.1, 0.7], ids=["in time", "too late"])
def test_shared_files_of_reports_under_way_go_when_an_attempt_ends(work_s: float) -> None:
    job = sharing()
    job.agenda.at(0.9, job.delay, ControlMessage.ACKNOWLEDGE, 10.0, 1)
    job.agenda.at(0.9, setattr, job.tasks[1], "work_s", work_s)
    stops_at = 1.3 if work_s < 0.5 else 1.9
    job.run(stops_at, [0.0, 1.0])
    assert "shared/0-1-2" in job.storage.shared_files()
    job.coordinator.stop()
    assert sorted(job.storage.shared_files()) == ["shared/0-0-1", "shared/0-1-1"]


def test_shared_files_of_a_report_that_comes_too_late_are_deleted() -> None:
    job = sharing()
    job.agenda.at(0.9, setattr, job.tasks[1], "work_s", 0.7)
    job.run(2.0, [0.0, 1.0])
    assert sorted(job.storage.shared_files()) == ["shared/0-0-1", "shared/0-1-1"]


def test_a_declined_checkpoint_fails_and_the_job_goes_on() -> None:
    job = Job(sources=2)
    job.tasks[1].declined[1] = FailureReason.DECLINED_SUBSUMED
    job.run(2.0, [1.0])
    assert job.outcomes == [(1, "FAILED", "CHECKPOINT_DECLINED_SUBSUMED")]
    assert job.tasks[0].told == [(1.01, "trigger", 1), (1.028, "aborted", 1)]
    assert job.trace[1].text.endswith("declined by source[1]")
    assert (job.causes, job.storage.files) == ([], {})


def test_a_failed_upload_counts_as_a_failure() -> None:
    job = Job()
    job.tasks[0].declined[1] = FailureReason.ASYNC_EXCEPTION
    job.run(2.0, [1.0])
    assert len(job.causes) == 1


def test_a_checkpoint_whose_metadata_cannot_be_stored_fails() -> None:
    job = Job()
    job.agenda.at(1.5, setattr, job.storage, "room", False)
    job.run(3.0, [1.0, 2.0])
    assert job.outcomes == [(1, "COMPLETED", None), (2, "FAILED", "FINALIZE_CHECKPOINT_FAILURE")]
    assert job.ended[1].duration_s is None
    assert job.storage.checkpoints() == job.storage.present() == [1]
    assert "no room for checkpoint 2" in job.causes[0]


def test_a_completed_checkpoint_subsumes_the_older_ones() -> None:
    job = Job(max_concurrent_checkpoints=2)
    job.tasks[0].silent = {1}
    job.run(2.0, [1.0, 1.05, 1.06])
    assert job.outcomes == [
        (2, "COMPLETED", None),
        (1, "FAILED", "CHECKPOINT_SUBSUMED"),
        (3, "COMPLETED", None),
    ]
    assert job.causes == []
    assert job.storage.checkpoints() == [3]


def test_a_request_waits_for_the_checkpoint_that_goes_on() -> None:
    job = Job()
    job.run(3.0, [1.0, 1.01, 1.02])
    _, second, third = job.ended
    assert second.triggered_at == pytest.approx(1.0 + END_TO_END_S + 0.002)
    assert third.triggered_at == pytest.approx(1.0 + 2 * (END_TO_END_S + 0.002))


def test_the_timer_leaves_the_pause() -> None:
    paused = Job(checkpoint_interval_s=0.15, checkpoint_min_pause_s=0.1)
    paused.run(5.0)
    times = [checkpoint.triggered_at for checkpoint in paused.ended]
    assert 0.1 <= times[0] <= 0.15
    step = END_TO_END_S + 0.1
    assert times == pytest.approx([times[0] + step * number for number in range(len(times))])
    assert len(times) > 20


def test_a_pause_longer_than_the_interval_becomes_the_interval() -> None:
    job = Job(checkpoint_interval_s=0.1, checkpoint_min_pause_s=1.0)
    job.run(9.0)
    gaps = [
        later.triggered_at - one.triggered_at for one, later in zip(job.ended, job.ended[1:], strict=False)
    ]
    assert gaps == pytest.approx([1.0 + END_TO_END_S] * 7)


def test_a_user_need_not_wait_for_the_pause() -> None:
    job = Job(checkpoint_min_pause_s=5.0)
    job.run(3.0, [1.0, 1.5])
    assert [checkpoint.triggered_at for checkpoint in job.ended] == [1.0, 1.5]


def test_a_stop_fails_what_is_pending_without_a_word_and_ids_go_on() -> None:
    job = Job(sources=2)
    job.tasks[1].work_s = 0.3
    job.agenda.at(2.2, job.coordinator.stop)
    job.agenda.at(2.5, job.coordinator.request_checkpoint)
    job.agenda.at(3.0, job.coordinator.start, job.tasks)
    job.run(5.0, [1.0, 2.0, 2.1, 4.0])
    assert job.outcomes == [
        (1, "COMPLETED", None),
        (2, "FAILED", "CHECKPOINT_COORDINATOR_SUSPEND"),
        (3, "COMPLETED", None),
    ]
    heard = [what for _, what, _ in job.tasks[0].told]
    assert heard == ["trigger", "completed", "trigger", "trigger", "completed"]
    refused = "a user's request for a checkpoint is rejected: NOT_ALL_REQUIRED_TASKS_RUNNING"
    assert refused in [event.text for event in job.trace]
    assert job.storage.present() == [3]


def test_messages_and_timers_of_an_attempt_end_with_it() -> None:
    job = Job(sources=2, checkpoint_interval_s=1.0, checkpoint_timeout_s=3.0)
    job.tasks[0].silent = {1}
    job.agenda.at(1.2, job.coordinator.stop)
    job.run(9.0)
    assert job.outcomes == [(1, "FAILED", "CHECKPOINT_COORDINATOR_SUSPEND")]
    assert [what for _, what, _ in job.tasks[0].told] == ["trigger"]
    assert job.causes == []


def test_the_timer_of_an_attempt_does_not_tick_in_the_next_one() -> None:
    job = Job(checkpoint_interval_s=1.0)
    job.agenda.at(1.2, job.coordinator.stop)
    job.agenda.at(1.3, job.coordinator.start, job.tasks)
    job.run(9.0)
    times = [checkpoint.triggered_at for checkpoint in job.ended if checkpoint.triggered_at > 1.3]
    assert times == pytest.approx([times[0] + number for number in range(len(times))])
    assert len(times) >= 6


def test_a_tick_that_is_put_off_moves_those_behind_it() -> None:
    first = Job(checkpoint_interval_s=1.0, checkpoint_min_pause_s=0.3)
    first.run(2.0)
    phase = first.ended[0].triggered_at
    job = Job(checkpoint_interval_s=1.0, checkpoint_min_pause_s=0.3)
    job.run(5.0, [phase + 0.8])
    put_off = phase + 0.8 + END_TO_END_S + 0.3
    assert [checkpoint.triggered_at for checkpoint in job.ended][:4] == pytest.approx(
        [phase, phase + 0.8, put_off, put_off + 1.0]
    )


def test_the_latest_completed_checkpoint_outlives_a_stop() -> None:
    job = Job()
    job.agenda.at(1.5, job.coordinator.stop)
    job.run(2.0, [1.0])
    metadata = job.coordinator.latest_completed
    assert metadata is not None
    assert metadata == job.storage.load(1)


def test_the_job_may_stop_the_coordinator_when_it_is_failed() -> None:
    job = Job(checkpoint_timeout_s=0.5, max_concurrent_checkpoints=2)
    job.tasks[0].silent = {1, 2}
    job.coordinator._fail_job = lambda cause: job.coordinator.stop(FailureReason.TASK_FAILURE)
    job.run(3.0, [1.0, 1.0])
    assert job.outcomes == [(1, "FAILED", "CHECKPOINT_EXPIRED"), (2, "FAILED", "TASK_FAILURE")]


def test_at_the_end_nothing_is_left_of_what_is_pending() -> None:
    job = Job(sources=2)
    job.tasks[1].silent = {1}
    job.run(1.5, [1.0])
    (checkpoint,) = job.coordinator.pending
    assert job.storage.present() == [1]
    job.coordinator.release()
    assert (checkpoint.status, job.ended, job.storage.present()) == ("IN_PROGRESS", [], [])


def test_subtasks_that_have_ended_are_part_of_the_checkpoint_as_finished() -> None:
    job = Job(sources=2)
    job.agenda.at(0.5, job.tasks[0].end)
    job.run(2.0, [1.0])
    metadata = job.coordinator.latest_completed
    assert metadata is not None
    assert metadata.of("source", 0) == SubtaskSnapshot(
        vertex="source", subtask=0, data_ended=True, finished=True
    )
    assert job.tasks[0].told == []


def test_without_checkpoints_after_tasks_finish_the_first_end_is_the_last_checkpoint() -> None:
    job = Job(sources=2, checkpoints_after_tasks_finish=False)
    job.agenda.at(1.5, job.tasks[0].end)
    job.run(3.0, [1.0, 2.0])
    assert job.outcomes == [(1, "COMPLETED", None)]
    assert job.trace[-1].text == "no checkpoint: NOT_ALL_REQUIRED_TASKS_RUNNING"


def test_a_source_that_ends_before_its_trigger_fails_the_checkpoint() -> None:
    job = Job(sources=2)
    job.agenda.at(1.005, job.tasks[1].end)
    job.run(2.0, [1.0])
    assert job.outcomes == [(1, "FAILED", "CHECKPOINT_DECLINED_TASK_CLOSING")]
    assert job.causes == []


@pytest.mark.parametrize(("delay", "outcome"), [(0.3, "COMPLETED"), (None, "FAILED")])
def test_the_acknowledgement_of_a_subtask_that_has_ended_is_waited_for(
    delay: float | None, outcome: str
) -> None:
    job = Job(sources=2, checkpoint_timeout_s=0.6)
    job.delay(ControlMessage.ACKNOWLEDGE, delay)
    job.agenda.at(1.15, job.tasks[0].end)
    job.run(2.0, [1.0])
    assert [checkpoint.status for checkpoint in job.ended] == [outcome]


def test_tasks_hear_of_no_savepoint_and_it_subsumes_nothing_and_is_not_subsumed() -> None:
    job = Job(max_concurrent_checkpoints=4)
    job.tasks[0].silent = {1, 3}
    for at in (1.2, 1.6):
        job.agenda.at(at, job.coordinator.request_savepoint, ScheduledSavepoint(at_s=at))
    job.run(2.5, [1.0, 1.8])
    assert job.outcomes == [
        (2, "COMPLETED", None),
        (4, "COMPLETED", None),
        (1, "FAILED", FailureReason.SUBSUMED),
    ]
    assert [checkpoint.checkpoint_id for checkpoint in job.coordinator.pending] == [3]
    assert [(what, number) for _, what, number in job.tasks[0].told if what != "trigger"] == [
        ("aborted", 1),
        ("completed", 4),
    ]
    assert job.storage.checkpoints() == [4]
    assert job.storage.savepoint("savepoint-2").metadata.checkpoint_type == "SAVEPOINT"


def test_tasks_that_are_gone_fail_what_is_pending_and_those_that_go_on_are_told() -> None:
    job = Job(sources=2)
    job.agenda.at(1.06, job.coordinator.suspend, {(0, 1)})
    job.agenda.at(1.5, job.coordinator.request_checkpoint)
    job.agenda.at(2.0, job.coordinator.start, job.tasks)
    job.run(4.0, [1.0, 3.0])
    assert job.outcomes == [(1, "FAILED", "CHECKPOINT_COORDINATOR_SUSPEND"), (2, "COMPLETED", None)]
    stays, gone = ([(what, number) for _, what, number in task.told] for task in job.tasks)
    assert stays == [("trigger", 1), ("aborted", 1), ("trigger", 2), ("completed", 2)]
    assert gone == [("trigger", 1), ("trigger", 2), ("completed", 2)]
    assert job.causes == []


def test_what_those_that_go_on_report_too_late_is_deleted_and_those_that_are_gone_report_nothing() -> None:
    job = Job(sources=2)
    job.delay(ControlMessage.ACKNOWLEDGE, 1.0, 0)
    job.delay(ControlMessage.ACKNOWLEDGE, 1.0, 1)
    job.agenda.at(1.5, job.coordinator.suspend, {(0, 1)})
    job.run(4.0, [1.0])
    late = [event.text for event in job.trace if "too late" in event.text]
    assert late == ["checkpoint 1: the acknowledgement of source[0] comes too late, so its files are deleted"]
    assert dict(job.storage.files) == {}


def test_a_task_that_cannot_go_on_fails_what_is_connected_with_it_if_somebody_knows_what_that_is() -> None:
    job, tasks = Job(sources=2), list[object]()
    job.coordinator.fail_task(job.tasks[1], "no more")
    assert job.causes == ["source[1]: no more"]
    coordinator = CheckpointCoordinator(
        agenda=job.agenda,
        config=NetworkConfig(),
        costs=COSTS,
        randomness=Randomness(1, 1.0),
        job=JobShape("job", job.parallelism),
        storage=job.storage,
        on_end=job.ended.append,
        fail_job=job.fail,
        fail_task=lambda task, cause: tasks.append((task, cause)),
    )
    coordinator.fail_task(job.tasks[1], "no more")
    assert (tasks, len(job.causes)) == ([((0, 1), "source[1]: no more")], 1)


@pytest.mark.parametrize("ending", ["release", "suspend"])
def test_what_was_stored_for_a_savepoint_since_it_was_given_up_goes_with_the_attempt(ending: str) -> None:
    job = Job(sources=2)
    job.tasks[0].declined = {1: FailureReason.DECLINED}
    job.tasks[1].work_s = 1.0
    job.delay(ControlMessage.ACKNOWLEDGE, 5.0, 1)
    job.agenda.at(1.0, job.coordinator.request_savepoint, ScheduledSavepoint(at_s=1.0))
    job.run(3.0)
    assert list(job.storage.files) == ["savepoint-1/0-1"]
    if ending == "release":
        job.coordinator.release()
    else:
        job.coordinator.suspend({(0, 1)})
    assert job.storage.files == {}


def test_what_tasks_that_are_gone_have_reported_on_failed_checkpoints_is_deleted() -> None:
    """A report that is under way will not be heard, so nobody else would know of its files."""
    job = Job(sources=2)
    late, other = job.tasks[1], job.tasks[0]
    late.shares, late.work_s = True, 1.0
    other.declined = {1: FailureReason.DECLINED}
    job.delay(ControlMessage.ACKNOWLEDGE, 5.0, 1)
    seen: list[int] = []
    job.agenda.at(2.5, lambda: seen.append(len(job.storage.shared_files())))
    job.agenda.at(3.0, job.coordinator.suspend, {(0, 1)})
    job.run(4.0, [1.0])
    assert job.outcomes == [(1, "FAILED", "CHECKPOINT_DECLINED")]
    assert (seen, job.storage.shared_files()) == ([1], {})
