"""A job: runs a scenario for its duration, through failures and restarts.

What outlives a failure is here: the coordinator, the checkpoints, the faults to come, the statistics. What
does not is an `Attempt`. A failure forgets all that was due in it and waits for the restart delay::

    attempt 1 ----- fails          attempt 2 (restores checkpoint 7) -------------------- end
                      |-- delay ---|-- reads its state --| running: checkpoints go on

A checkpoint that cannot be restored is a failure too, and the next restart takes the retained one before it;
where none is left, the job has failed for good.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..checkpoints.control_plane import ControlPlane
from ..checkpoints.coordinator import CheckpointCoordinator
from ..checkpoints.file_layout import MemoryStorage
from ..checkpoints.initial import InitialCheckpoint
from ..checkpoints.pending_checkpoint import record_checkpoint
from ..checkpoints.recovery import UNUSABLE, RecoverySource, unusable_text
from ..checkpoints.savepoint_request import SavepointRequests, request_of, take_requests
from ..checkpoints.storage import CheckpointStorage
from ..engine import garbage
from ..engine.agenda import Agenda
from ..engine.agenda_loop import run_agenda
from ..engine.randomness import Randomness
from ..faults.injection import FaultInjector
from ..results.result import Work
from ..results.statistics import Recorder
from ..results.trace import Trace
from ..scenarios.contents import shape_of
from ..scenarios.scenario import Scenario, ScenarioError
from ..state.snapshots import CheckpointMetadata
from ..state.table_store import TableStores
from ..tasks.environment import Environment
from ..tasks.subtask import Subtask
from .attempt import Attempt
from .rescaling import rescaling_of, shape_after
from .restart_strategies import restart_strategy_of
from .restarts import Restart, Start, Totals, failed_for_good, never_restored

Progress = Callable[[float], None]
"""Called with the emulated time in seconds, about once an emulated second."""

EndOfRun = Callable[[Recorder], float]
"""Asked at each sample from the end of the warm-up on, with what was recorded so far, when the run is to end,
in emulated seconds."""

SAMPLE_INTERVAL_S = 1.0
"""How often gauges and counters are sampled, in emulated seconds."""


class Job:
    """One run of a scenario, from its beginning or from the checkpoint `initial`.

    After `run` all memory has been given back; `leaked_segments` says how many segments were not.
    `failure` is the cause for which the job has failed for good, `restarts` its failures before. `start` is
    what became of `initial`. `ends_at` is when it ends at the latest: when `end_of_run` says, in no
    other way than if the scenario's duration were that. `tables` opens stores for keyed state.
    `savepoint_requests` is asked now and then what users want.

    Raises:
        ScenarioError: `initial` is no checkpoint of this job.
        StorageError: another run has claimed `initial`.
    """

    def __init__(
        self,
        scenario: Scenario,
        agenda: Agenda,
        *,
        storage: CheckpointStorage | None = None,
        initial: InitialCheckpoint | None = None,
        progress: Progress | None = None,
        trace: Trace | None = None,
        end_of_run: EndOfRun | None = None,
        tables: TableStores | None = None,
        savepoint_requests: SavepointRequests | None = None,
    ) -> None:
        if initial is not None:
            if problems := initial.misfits(shape_of(scenario)):
                raise ScenarioError(problems)
            initial.claim()
            initial = initial.fitted(shape_of(scenario))
        self.scenario = scenario
        self.agenda = agenda
        self.failure: str | None = None
        self.restarts: list[Restart] = []
        self.leaked_segments = 0
        self.attempt: Attempt | None = None
        self.start = None if initial is None else Start(initial)
        self._initial = initial
        self._hopeless = False  # no checkpoint is left that can be restored
        self._progress = progress
        self._trace = trace
        self._end_of_run = end_of_run
        self._tables = tables
        self._savepoint_requests = savepoint_requests
        self.ends_at = scenario.duration_s
        self._randomness = Randomness(scenario.seed, scenario.costs.jitter_sigma)
        self._restart_strategy = restart_strategy_of(scenario, self._randomness)
        self.faults = FaultInjector(scenario, agenda, self)
        self.storage = self.faults.storage(MemoryStorage() if storage is None else storage)
        self.recorder = Recorder([vertex.parallelism for vertex in scenario.vertices])
        self._totals = Totals(sum(self.recorder.parallelisms))
        self.coordinator = self._coordinator()

    def _coordinator(self) -> CheckpointCoordinator:
        scenario, initial = self.scenario, self._initial
        first = 1 if initial is None else initial.next_id
        control_plane = ControlPlane(self.agenda)
        if self.faults.interferes:
            control_plane.interference.append(self.faults.interfere)
        return CheckpointCoordinator(
            agenda=self.agenda,
            config=scenario.config,
            costs=scenario.costs,
            randomness=self._randomness,
            job=shape_after(scenario, None if initial is None else initial.metadata),
            storage=self.storage,
            control_plane=control_plane,
            on_end=partial(record_checkpoint, self.recorder),
            fail_job=self.fail,
            first_id=max([first, *(number + 1 for number in self.storage.checkpoints())]),
            initial=initial,
            trace=self._trace,
        )

    async def run(self) -> None:
        """Run until the duration is over, every subtask has ended, or the job has failed for good."""
        agenda = self.agenda
        try:
            agenda.keep_foremost(self.ends_at, self._end, self.ends_at)
            agenda.keep(0.0, self._sample)
            for at in self.scenario.manual_checkpoints_s:
                agenda.keep(at, self.coordinator.request_checkpoint)
            for savepoint in self.scenario.savepoints:
                agenda.keep(savepoint.at_s, self.coordinator.request_savepoint, request_of(savepoint))
            if self._savepoint_requests is not None:
                take_requests(agenda, self.coordinator, self._savepoint_requests)
            self.faults.start()
            self._begin_from(self.coordinator.latest_completed)
            await run_agenda(agenda)
            self.failure = self.failure or never_restored(self.restarts)
            for checkpoint in self.coordinator.pending:
                record_checkpoint(self.recorder, checkpoint)
        finally:
            self.coordinator.release()
            if self.attempt is not None:
                self._end_attempt(self.attempt, final=True)
            garbage.over()

    def _begin_from(self, metadata: CheckpointMetadata | None) -> bool:
        """Begin an attempt, with the state of a checkpoint if there is one; whether it could be restored."""
        initial, storage = self._initial, self.storage
        owned = True
        if initial is not None and metadata is initial.metadata:
            storage, owned = initial.storage, initial.shares_files
        try:
            source = None
            if metadata is not None:
                rescaling = rescaling_of(self.scenario, metadata)
                source = RecoverySource(metadata, storage, owned=owned, rescaling=rescaling)
            self._begin(source)
        except UNUSABLE as error:
            if metadata is None:
                raise
            self.coordinator.store.forget(metadata)
            self._hopeless = self.coordinator.latest_completed is None
            self.fail(unusable_text(metadata.checkpoint_id, error, last=self._hopeless))
            return False
        return True

    def _begin(self, source: RecoverySource | None) -> None:
        environment = Environment(
            self.agenda,
            self.scenario.costs,
            self.scenario.config,
            self._randomness,
            self.coordinator,
            self.storage,
            self._trace,
            self._tables,
            self.coordinator.next_id,
        )
        self.attempt = attempt = Attempt(
            self.scenario, environment, self.faults.watched, self._running, self._subtask_ended
        )
        with garbage.building():
            attempt.builder.build({} if source is None else source.max_parallelism)
            self.faults.attempt_started(attempt.links)
            if source is None:
                attempt.open()
            else:
                attempt.recover(source)

    def _running(self) -> None:
        """All tasks run: checkpoints may be taken."""
        assert self.attempt is not None
        if self.restarts:
            self.restarts[-1].running_at = self.agenda.now
            self._tell("all tasks run again")
        elif self.start is not None:
            self.start.running_at = self.agenda.now
        self.coordinator.start(self.attempt.subtasks)

    def _subtask_ended(self, subtask: Subtask) -> None:
        self.coordinator.finished(subtask)
        if self.attempt is not None and self.attempt.running == 0:
            # What the last subtasks have to say of a checkpoint is still on its way to the coordinator.
            costs, unaligned = self.scenario.costs, self.scenario.config.takes_unaligned_checkpoints
            longest = (costs.ack_unaligned_s if unaligned else costs.ack_s)[1]
            grace = longest if self.coordinator.pending else 0.0
            self.agenda.after(grace, self._stop)

    def _stop(self) -> None:
        self._sample()
        self.agenda.stop()

    def fail_subtask(self, vertex: int, index: int, cause: str) -> None:
        """Let one subtask fail, unless it has ended, and the job with it: all its tasks are connected."""
        if self.attempt is not None and not self.attempt.builder.subtasks[vertex][index].ended:
            self.fail(cause)

    def fail_task_manager(self, name: str, cause: str) -> None:
        """Lose a task manager; its subtasks fail, and the job with them, unless all of them have ended."""
        if self.attempt is not None:
            vertices = self.scenario.vertices
            hit = (
                each for each in self.attempt.subtasks if vertices[each.vertex].manager_of(each.index) == name
            )
            if not all(subtask.ended for subtask in hit):
                self.fail(cause)

    def fail(self, cause: str) -> None:
        """Let the running attempt fail, as soon as nobody is in the middle of something."""
        if self.attempt is not None:
            self.agenda.keep(self.agenda.now, self._fail, self.attempt, cause)

    def _fail(self, attempt: Attempt, cause: str) -> None:
        if attempt is not self.attempt or attempt.over:
            return  # it has failed of something else at the same moment, or is over
        now = self.agenda.now
        self._tell(f"the job fails: {cause}")
        self.coordinator.stop()
        self.agenda.clear()
        self._end_attempt(attempt, final=False)
        self.agenda.clear()  # of what the release has set off
        if (savepoint := self.coordinator.stopped_with) is not None:
            self.failure = f"{cause}; the job was about to stop, with {savepoint}, which is complete"
            self._stop()
            return
        delay = None if self._hopeless else self._restart_strategy.delay_after(now)
        if delay is None:
            why = "" if self._hopeless else self._restart_strategy.exhausted
            self.failure = failed_for_good(cause, why)
            self._stop()
            return
        self.restarts.append(Restart(now, cause))
        self.agenda.keep(now + delay, self._restart)

    def _restart(self) -> None:
        restart, metadata = self.restarts[-1], self.coordinator.latest_completed
        restart.restarted_at = self.agenda.now
        if metadata is None:
            self._tell("restarts from the beginning: no checkpoint is complete")
        else:
            self._tell(f"restarts from checkpoint {metadata.checkpoint_id}", metadata.checkpoint_id)
        if not self._begin_from(metadata):
            assert metadata is not None
            restart.unusable_checkpoint_id = metadata.checkpoint_id
        elif metadata is not None:
            restart.restored(metadata)

    def _end_attempt(self, attempt: Attempt, *, final: bool) -> None:
        """Keep the figures of an attempt and take everything back from it."""
        self._totals.add([subtask.sample() for subtask in attempt.subtasks], attempt.work)
        self.attempt = None
        try:
            attempt.release(final=final)
        finally:
            self.leaked_segments += attempt.leaked_segments

    def _sample(self) -> None:
        current = [] if self.attempt is None else [task.sample() for task in self.attempt.subtasks]
        self.recorder.sample(self.agenda.now, self._totals.plus(current))
        if self._progress is not None:
            self._progress(self.agenda.now)
        if self._end_of_run is not None and self.scenario.warmup_s <= self.agenda.now < self.ends_at:
            self._end_at(self._end_of_run(self.recorder))
        self.agenda.keep(self.agenda.now + SAMPLE_INTERVAL_S, self._sample)

    def _end_at(self, time: float) -> None:
        """End the run at a time that is still to come, sooner or later than it would."""
        if self.agenda.now < time != self.ends_at:
            self.ends_at = time
            self.agenda.keep_foremost(time, self._end, time)

    def _end(self, time: float) -> None:
        if time == self.ends_at:  # else another one was set meanwhile
            self._stop()

    @property
    def work(self) -> Work:
        """What has moved over all links so far, in all attempts."""
        return self._totals.work if self.attempt is None else self._totals.work_plus(self.attempt.work)

    def _tell(self, text: str, checkpoint_id: int | None = None) -> None:
        if self._trace is not None:
            self._trace(self.agenda.now, "job", text, checkpoint_id)
