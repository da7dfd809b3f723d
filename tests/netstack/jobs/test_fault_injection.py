"""Faults happen once, when they should, and what they change outlives a restart."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
import trio

from buffers import BlankBytes, Pieces
from netstack import (
    AtTime,
    ChannelItem,
    CutLink,
    DelayMessages,
    DropMessages,
    Edge,
    FailUpload,
    Fault,
    FillStorage,
    GeneratorSpec,
    KillSubtask,
    KillTaskManager,
    Moment,
    NetworkConfig,
    OnAcknowledgement,
    OnChannel,
    Outage,
    Scenario,
    ScenarioError,
    SubtaskName,
    Vertex,
    check_scenario,
)
from netstack.checkpoints.control_plane import TaskKey
from netstack.checkpoints.metadata import CheckpointMetadata
from netstack.checkpoints.storage import MemoryStorage, write_pieces
from netstack.engine.agenda import Agenda
from netstack.engine.agenda_loop import run_agenda
from netstack.errors import StorageError
from netstack.jobs.fault_injector import FaultInjector, FaultyStorage, StorageCondition
from netstack.scenarios.faults import ControlMessage

STAGE = SubtaskName("stage1", 1)


class FakeLink:
    """Notes when it was cut, and until when."""

    def __init__(self, agenda: Agenda) -> None:
        self.agenda = agenda
        self.cuts: list[tuple[float, float | None]] = []

    def cut(self, until: float | None) -> None:
        self.cuts.append((self.agenda.now, until))


class FakeChannel:
    """Counts what it hands over, and reports it if a tap is set."""

    def __init__(self) -> None:
        self.polled_buffers = self.polled_barriers = 0
        self.tap: Callable[[ChannelItem], None] | None = None

    def hand_over(self, item: str) -> None:
        if item == "buffer":
            self.polled_buffers += 1
        else:
            self.polled_barriers += 1
        if self.tap is not None:
            self.tap(ChannelItem(item))


class FakeAttempt:
    """Links, and the channels from both subtasks of the source into each of stage1."""

    def __init__(self, links: dict[tuple[str, str], FakeLink]) -> None:
        self.links = links
        self.channels = [[FakeChannel(), FakeChannel()] for _ in range(2)]

    def channels_into(self, task: TaskKey) -> list[FakeChannel]:
        return self.channels[task[1]] if task[0] == 1 else []


class FakeJob:
    """Notes what fails; `restart` begins the next attempt after each failure."""

    def __init__(self, *faults: Fault, heartbeat_s: float = 50.0) -> None:
        scenario = Scenario(
            name="job",
            duration_s=100.0,
            vertices=(
                Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=100)),
                Vertex(name="stage1", parallelism=2),
            ),
            edges=(Edge(source="source", target="stage1"),),
            config=NetworkConfig(checkpoint_interval_s=1.0, heartbeat_timeout_s=heartbeat_s),
            faults=faults,
        )
        check_scenario(scenario)
        self.agenda = Agenda()
        self.failures: list[tuple[float, str, object]] = []
        self.links: list[FakeLink] = []
        self.restart = False
        self.injector = FaultInjector(scenario, self.agenda, self)
        self.injector.start()
        self.begin()

    def begin(self) -> None:
        self.links.append(FakeLink(self.agenda))
        self.attempt = FakeAttempt({("source", "stage1"): self.links[-1]})
        self.injector.attempt_started(self.attempt)

    @property
    def channel(self) -> FakeChannel:
        """The channel that `on` counts."""
        return self.attempt.channels[1][0]

    def fail_subtask(self, vertex: int, index: int, cause: str) -> None:
        self._failed((vertex, index), cause)

    def fail_task_manager(self, name: str, cause: str) -> None:
        self._failed(name, cause)

    def stop_for(self, seconds: float, cause: str) -> None:
        self._failed(seconds, cause)

    def fail_link(self, ends: tuple[str, str], cause: str) -> None:
        self._failed(ends, cause)

    def _failed(self, what: object, cause: str) -> None:
        self.failures.append((self.agenda.now, cause, what))
        if self.restart:
            self.agenda.clear()
            self.agenda.keep(self.agenda.now + 1.0, self.begin)

    def at(self, time: float, do: Callable[..., object], *args: object) -> None:
        self.agenda.keep(time, do, *args)

    def run(self, until: float = 100.0) -> None:
        self.agenda.keep(until, self.agenda.stop)
        trio.run(run_agenda, self.agenda)

    @property
    def fired(self) -> list[tuple[float, str]]:
        return [(fault.time, fault.kind) for fault in self.injector.fired]


def kill(when: Moment) -> Fault:
    return KillSubtask(when=when, subtask=STAGE)


def on(item: str, number: int) -> Moment:
    return OnChannel(item=ChannelItem(item), number=number, source=SubtaskName("source", 0), target=STAGE)


def acknowledgement(number: int) -> Moment:
    return OnAcknowledgement(number=number, subtask=STAGE)


def test_a_fault_at_a_time_fires_then() -> None:
    job = FakeJob(kill(AtTime(12.0)), KillTaskManager(when=AtTime(3.0), task_manager="source"))
    job.run()
    assert job.failures == [
        (3.0, "task manager source is killed", "source"),
        (12.0, "subtask stage1[1] is killed", (1, 1)),
    ]
    assert job.fired == [(3.0, "kill_task_manager"), (12.0, "kill_subtask")]
    assert job.injector.fired[1].what == "subtask stage1[1] is killed"


def test_an_outage_stops_the_job_for_its_time() -> None:
    job = FakeJob(Outage(when=AtTime(3.0), for_s=600.0))
    job.run()
    assert job.failures == [(3.0, "the job is down for 600 s", 600.0)]
    assert job.fired == [(3.0, "outage")]


def test_an_outage_on_an_acknowledgement_waits_until_the_subtask_waits() -> None:
    job = FakeJob(Outage(when=acknowledgement(1), for_s=2.0))

    def acknowledge() -> None:
        job.injector.interfere(ControlMessage.ACKNOWLEDGE, (1, 1))
        assert job.failures == []

    job.at(4.0, acknowledge)
    job.run()
    assert job.failures == [(4.0, "the job is down for 2 s", 2.0)]


def test_a_fault_at_a_time_outlives_a_restart() -> None:
    job = FakeJob(kill(AtTime(12.0)))
    job.at(5.0, job.agenda.clear)
    job.run()
    assert job.fired == [(12.0, "kill_subtask")]


def test_only_the_channels_that_a_fault_names_are_watched() -> None:
    job = FakeJob(kill(on("buffer", 2)), kill(on("barrier", 1)))
    taps = [[channel.tap is not None for channel in channels] for channels in job.attempt.channels]
    assert taps == [[False, False], [True, False]]


def test_the_nth_item_of_a_channel_fires_a_fault_and_buffers_are_no_barriers() -> None:
    job = FakeJob(kill(on("buffer", 3)), KillTaskManager(when=on("barrier", 1), task_manager="stage1"))
    for time, item in enumerate(["buffer", "buffer", "barrier", "buffer", "buffer", "barrier"]):
        job.at(float(time), job.channel.hand_over, item)
    job.run()
    assert job.fired == [(2.0, "kill_task_manager"), (3.0, "kill_subtask")]


def test_items_are_counted_over_restarts() -> None:
    job = FakeJob(kill(on("buffer", 3)))
    job.channel.hand_over("buffer")
    job.channel.hand_over("buffer")
    job.injector.attempt_ends()
    job.begin()
    job.at(7.0, job.channel.hand_over, "buffer")
    job.at(8.0, job.channel.hand_over, "buffer")
    job.run()
    assert job.fired == [(7.0, "kill_subtask")]


def test_a_subtask_is_not_killed_while_it_polls() -> None:
    job = FakeJob(kill(on("buffer", 1)))

    def poll() -> None:
        job.channel.hand_over("buffer")
        assert job.failures == []

    job.at(2.0, poll)
    job.run()
    assert [time for time, _, _ in job.failures] == [2.0]


def test_the_nth_acknowledgement_of_a_subtask_fires_a_fault() -> None:
    job = FakeJob(kill(acknowledgement(2)))
    sent = [(1, 1), (1, 0), (0, 1), (1, 1), (1, 1)]
    for time, subtask in enumerate(sent):
        job.at(float(time), job.injector.interfere, ControlMessage.ACKNOWLEDGE, subtask)
        job.at(float(time), job.injector.interfere, ControlMessage.DECLINE, subtask)
    job.run()
    assert job.fired == [(3.0, "kill_subtask")]


def test_an_acknowledgement_may_fire_the_fault_that_drops_it() -> None:
    job = FakeJob(DropMessages(when=acknowledgement(2), messages="acknowledge", for_s=0.001))
    answers = [job.injector.interfere(ControlMessage.ACKNOWLEDGE, (1, 1)) for _ in range(2)]
    job.agenda.now = 1.0
    answers.append(job.injector.interfere(ControlMessage.ACKNOWLEDGE, (1, 1)))
    assert answers == [0.0, None, 0.0]


@pytest.mark.parametrize(
    ("vertex", "subtask", "concerned"),
    [
        (None, None, [True, True, True]),
        ("stage1", None, [False, True, True]),
        ("stage1", 1, [False, False, True]),
    ],
)
def test_messages_are_dropped_for_a_while(
    vertex: str | None, subtask: int | None, concerned: list[bool]
) -> None:
    fault = DropMessages(when=AtTime(2.0), messages="trigger", for_s=3.0, vertex=vertex, subtask=subtask)
    job = FakeJob(fault)
    dropped: list[list[bool]] = []

    def send(kind: ControlMessage) -> None:
        subtasks = [(0, 1), (1, 0), (1, 1)]
        dropped.append([job.injector.interfere(kind, subtask) is None for subtask in subtasks])

    for time in (1.0, 2.5, 4.9, 5.0):
        job.at(time, send, ControlMessage.TRIGGER)
    job.at(2.5, send, ControlMessage.COMPLETED)
    job.run()
    nothing = [False, False, False]
    assert dropped == [nothing, concerned, nothing, concerned, nothing]


def test_delays_add_up() -> None:
    def delay(at: float, by: float) -> Fault:
        return DelayMessages(when=AtTime(at), messages="completed", delay_s=by, for_s=2.0)

    job = FakeJob(delay(1.0, 0.5), delay(2.0, 0.25))
    delays: list[float | None] = []
    for time in (0.5, 1.5, 2.5, 3.5, 4.5):
        job.at(time, lambda: delays.append(job.injector.interfere(ControlMessage.COMPLETED, (0, 0))))
    job.run()
    assert delays == [0.0, 0.5, 0.75, 0.25, 0.0]


def test_a_short_cut_ends_and_nothing_fails() -> None:
    job = FakeJob(CutLink(when=AtTime(3.0), from_task_manager="source", to_task_manager="stage1", for_s=50.0))
    job.run()
    assert job.links[0].cuts == [(3.0, 53.0)]
    assert job.failures == []


def test_a_cut_for_longer_than_the_heartbeat_fails_the_job_and_names_the_link() -> None:
    cut = CutLink(when=AtTime(3.0), from_task_manager="source", to_task_manager="stage1", for_s=25.0)
    job = FakeJob(cut, heartbeat_s=10.0)
    job.restart = True
    job.run()
    cause = "the link from source to stage1 is cut, and no heartbeat came for 10 s"
    assert job.failures == [(13.0, cause, ("source", "stage1")), (24.0, cause, ("source", "stage1"))]
    assert [link.cuts for link in job.links] == [[(3.0, 28.0)], [(14.0, 28.0)], [(25.0, 28.0)]]
    assert job.fired == [(3.0, "cut_link")]


def test_a_link_cut_for_good_stays_cut_in_each_attempt() -> None:
    cut = CutLink(when=AtTime(3.0), from_task_manager="source", to_task_manager="stage1")
    job = FakeJob(cut, heartbeat_s=30.0)
    job.restart = True
    job.run()
    assert [time for time, _, _ in job.failures] == [33.0, 64.0, 95.0]
    assert [link.cuts for link in job.links] == [
        [(3.0, None)],
        [(34.0, None)],
        [(65.0, None)],
        [(96.0, None)],
    ]


def test_a_heartbeat_of_an_attempt_that_is_over_is_not_missed() -> None:
    cut = CutLink(when=AtTime(3.0), from_task_manager="source", to_task_manager="stage1")
    job = FakeJob(cut, heartbeat_s=10.0)
    job.at(8.0, job.begin)  # restarted for another reason
    job.run(until=20.0)
    assert [time for time, _, _ in job.failures] == [18.0]


def test_both_directions_between_two_task_managers_are_cut() -> None:
    job = FakeJob(CutLink(when=AtTime(3.0), from_task_manager="source", to_task_manager="stage1"))
    there, back, other = (FakeLink(job.agenda) for _ in range(3))
    links = {("source", "stage1"): there, ("stage1", "source"): back, ("stage1", "stage2"): other}
    job.injector.attempt_started(FakeAttempt(links))
    job.run(until=4.0)
    assert (there.cuts, back.cuts, other.cuts) == ([(3.0, None)], [(3.0, None)], [])


def test_faults_that_are_added_count_what_has_happened_before_over_all_attempts() -> None:
    job = FakeJob()
    for item in ("buffer", "buffer", "barrier"):
        job.channel.hand_over(item)
    job.injector.tasks_end([(1, 1)])
    job.channel.hand_over("buffer")  # of the task that was made anew in the same attempt
    job.injector.attempt_ends()
    job.begin()
    job.channel.hand_over("buffer")
    job.injector.interfere(ControlMessage.ACKNOWLEDGE, (1, 1))
    job.injector.add([kill(on("buffer", 6)), kill(on("barrier", 2)), kill(acknowledgement(2))])
    job.at(1.0, job.channel.hand_over, "buffer")
    job.at(2.0, job.channel.hand_over, "buffer")
    job.at(3.0, job.channel.hand_over, "barrier")
    job.at(4.0, job.injector.interfere, ControlMessage.ACKNOWLEDGE, (1, 1))
    job.run()
    assert [time for time, _ in job.fired] == [2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (AtTime(4.0), "faults.2.at: is 4 s, but the run has already reached 5 s; give a later time"),
        (on("buffer", 2), "faults.2.number: is 2, but the run has already counted 2; give a higher number"),
        (on("barrier", 1), "faults.2.number: is 1, but the run has already counted 3; give a higher number"),
        (
            acknowledgement(1),
            "faults.2.number: is 1, but the run has already counted 1; give a higher number",
        ),
    ],
)
def test_a_fault_that_is_added_too_late_is_refused_and_none_is_added(when: Moment, message: str) -> None:
    job = FakeJob(kill(on("barrier", 9)))
    for item in ("buffer", "buffer", "barrier", "barrier", "barrier"):
        job.channel.hand_over(item)
    job.injector.interfere(ControlMessage.ACKNOWLEDGE, (1, 1))
    refused: list[tuple[str, ...]] = []

    def add() -> None:
        try:
            job.injector.add([kill(AtTime(6.0)), kill(when)])
        except ScenarioError as error:
            refused.append(error.problems)

    job.at(5.0, add)
    job.run()
    assert refused == [(message,)]
    assert job.fired == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (FailUpload(when=AtTime(3.0), for_s=2.0), "the upload failed"),
        (FillStorage(when=AtTime(3.0), for_s=2.0), "no space is left"),
    ],
)
def test_the_storage_refuses_files_for_a_while(fault: Fault, message: str) -> None:
    job = FakeJob(fault)
    storage = job.injector.storage(MemoryStorage())
    refused: list[str] = []

    def write(name: str) -> None:
        try:
            storage.write(1, name, b"abc")
        except StorageError as error:
            refused.append(str(error))

    for time in (2, 4, 6):
        job.at(float(time), write, str(time))
    job.run()
    assert refused == [f"chk-1/4 cannot be written: {message}"]


def test_a_storage_stays_full_where_no_end_is_given() -> None:
    job = FakeJob(FillStorage(when=AtTime(3.0)))
    storage = job.injector.storage(MemoryStorage())
    job.run()
    with pytest.raises(StorageError, match="no space is left"):
        storage.write(1, "state", b"abc")


def metadata(checkpoint_id: int) -> CheckpointMetadata:
    return CheckpointMetadata(
        checkpoint_id=checkpoint_id,
        job="job",
        checkpoint_type="CHECKPOINT",
        triggered_at=1.0,
        completed_at=2.0,
        parallelism={},
        subtasks=(),
    )


class Faulty:
    """A storage in memory, its condition, and the clock that both go by."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.memory = MemoryStorage()
        self.condition = StorageCondition(self.agenda)
        self.storage = FaultyStorage(self.memory, self.condition)

    def writes(self, now: float) -> tuple[bool, bool]:
        """Whether a file and whether metadata can be written at a time."""
        self.agenda.now = now
        checkpoint_id = int(now * 10)
        return (
            self._works(lambda: self._write_both(checkpoint_id)),
            self._works(lambda: self.storage.complete(metadata(checkpoint_id))),
        )

    def _write_both(self, checkpoint_id: int) -> None:
        """Write a file, and one of blank data: both or none of them."""
        try:
            write_pieces(self.storage, checkpoint_id, "channels", Pieces([BlankBytes(0, 90, 9)]))
        finally:
            self.storage.write(checkpoint_id, "state", b"abc")

    def _works(self, write: Callable[[], object]) -> bool:
        before = len(self.memory.files)
        try:
            write()
        except StorageError:
            assert len(self.memory.files) == before
            return False
        return True


def test_it_writes_reads_and_deletes_what_the_storage_inside_does() -> None:
    faulty = Faulty()
    file = faulty.storage.write(1, "state", b"abc")
    blank = Pieces([BlankBytes(0, 90, 9)])
    in_flight = write_pieces(faulty.storage, 1, "channels", blank)
    assert (faulty.memory.files[in_flight.path], faulty.storage.read(in_flight)) == (blank, bytes(blank))
    shared = faulty.storage.write(1, "common", b"abc", shared=True)
    assert shared.shared
    assert faulty.storage.read(file) == b"abc"
    assert faulty.storage.checkpoints() == []
    faulty.storage.complete(metadata(1))
    assert faulty.storage.checkpoints() == [1]
    assert faulty.storage.load(1) == metadata(1)
    faulty.storage.delete([shared])
    faulty.storage.discard(1)
    assert faulty.memory.files == {}


def test_uploads_fail_until_a_time_and_metadata_does_not() -> None:
    faulty = Faulty()
    faulty.condition.fail_uploads(2.0)
    assert [faulty.writes(now) for now in (1.0, 1.9, 2.0)] == [(False, True), (False, True), (True, True)]


def test_nothing_fits_into_a_full_storage() -> None:
    faulty = Faulty()
    faulty.condition.fill(2.0)
    assert [faulty.writes(now) for now in (1.0, 2.0)] == [(False, False), (True, True)]


def test_the_longer_of_two_faults_counts() -> None:
    faulty = Faulty()
    faulty.condition.fill(inf)
    faulty.condition.fill(1.0)
    faulty.condition.fail_uploads(inf)
    assert faulty.writes(1e9) == (False, False)


def test_a_full_storage_can_be_read_and_cleaned_up() -> None:
    faulty = Faulty()
    file = faulty.storage.write(1, "state", b"abc")
    faulty.storage.complete(metadata(1))
    faulty.condition.fill(inf)
    assert faulty.storage.read(file) == b"abc"
    assert faulty.storage.load(1).checkpoint_id == 1
    faulty.storage.discard(1)
    assert faulty.memory.files == {}


def test_the_message_names_the_file_and_the_reason() -> None:
    faulty = Faulty()
    faulty.condition.fail_uploads(1.0)
    with pytest.raises(StorageError, match=r"^chk-7/state cannot be written: the upload failed$"):
        faulty.storage.write(7, "state", b"")
    faulty.condition.fill(inf)
    with pytest.raises(StorageError, match=r"^chk-7/_metadata cannot be written: no space is left$"):
        faulty.storage.complete(metadata(7))
