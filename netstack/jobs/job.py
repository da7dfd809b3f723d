"""A job: runs a scenario for its duration, through failures and restarts.

The parts that survive a failure are here: the coordinator, the checkpoints, the faults to come, the
statistics. All other parts are in an `Attempt`. In a job with several pipelined regions, a failed task only
affects its own region, which restarts within the attempt (`failover`). If the whole job fails, all its
scheduled work is dropped. The job then waits for the restart delay and for deployment::

    attempt 1 ----- fails                     attempt 2 (restores checkpoint 7) -------------------- end
                      |-- delay, deployment --|-- reads its state --| running: checkpoints resume

A checkpoint that cannot be restored is a failure too. The next restart uses the next older retained
checkpoint. If none is left, the job fails permanently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypedDict, Unpack

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.coordinator import CheckpointCoordinator
from ..checkpoints.metadata import CheckpointMetadata
from ..checkpoints.pending_checkpoint import record_checkpoint
from ..checkpoints.recovery import UNUSABLE, InitialCheckpoint, RecoverySource, unusable_text
from ..checkpoints.rescaling import Rescaling, carried_over
from ..checkpoints.storage import CheckpointStorage, MemoryStorage
from ..engine import python_gc
from ..engine.agenda import Agenda
from ..engine.agenda_loop import run_agenda
from ..engine.cancellation import Scope
from ..engine.randomness import Randomness
from ..errors import ScenarioError
from ..results.recorder import EndOfRun, Recorder, SubtaskSample
from ..results.result import Steady, Work
from ..results.trace import Trace
from ..scenarios.changes import ScheduledChange, by_time
from ..scenarios.checkpoint_modes import CheckpointMode
from ..scenarios.checkpointed_shape import JobShape, shape_of
from ..scenarios.rules import check_scenario
from ..scenarios.scenario import Scenario, changed
from ..scenarios.value_kinds import Subsystem
from ..state.table_store import TableStores
from ..tasks.source_log import SourceLogs
from ..tasks.subtask import Subtask
from ..tasks.subtask_environment import Environment
from .attempt import Attempt
from .failover import (
    RegionFailover,
    all_tasks,
    deployment_s,
    failover_regions,
    regions_over,
    regions_with_tasks_in,
)
from .fault_injector import FaultInjector
from .restarts import Restart, Start, Totals, failed_for_good, never_restored, restart_strategy_of
from .result_figures import steady_result
from .subtask_maker import key_hashes_of

__all__ = ["Job"]

Progress = Callable[[float], None]
"""Called with the emulated time in seconds, about once per emulated second."""

SAMPLE_INTERVAL_S = 1.0
"""Time between two samples of gauges and counters, in emulated seconds."""


class JobOptions(TypedDict, total=False):
    """Options of a run besides its scenario; all may be absent or None."""

    storage: CheckpointStorage | None
    """Keeps the checkpoints; None: in memory, until the run ends."""
    from_checkpoint: InitialCheckpoint | None
    """A checkpoint of an earlier run of the same job, from which this run starts."""
    progress: Progress | None
    """Called with the emulated time in seconds, about once per emulated second."""
    trace: Trace | None
    """Called for each step of a checkpoint, each failure and each restart."""
    end_of_run: EndOfRun | None
    """Called with the recordings so far, once per emulated second from the end of the warm-up on.

    Returns the time at which the run ends, which may be before or after the end in the scenario. The result
    contains the scenario with this duration.
    """
    tables: TableStores | None
    """Opens the stores in which ``state.backend.type: rocksdb`` keeps keyed state."""


class Job:
    """One run of a scenario, from its beginning or from a checkpoint of an earlier run.

    After `run` all memory has been released; `leaked_segments` counts segments that were not. The tasks of
    each group in `regions` restart together. `failure`: the cause if the job has failed permanently.
    `restarts`: the failures after which the job restarted. `start` describes the start from
    `from_checkpoint`. `ends_at`: the time at which the job ends at the latest, which `end_of_run` may change.
    `latest`: the last samples.

    Raises:
        ScenarioError: if the job cannot start from `from_checkpoint`, or would drop some of the checkpoint's
            state.
        StorageError: if another run has claimed `from_checkpoint`.
    """

    def __init__(self, scenario: Scenario, agenda: Agenda, **options: Unpack[JobOptions]) -> None:
        initial, storage = options.get("from_checkpoint"), options.get("storage")
        if initial is not None:
            if problems := initial.mismatches(shape_of(scenario)):
                raise ScenarioError(problems)
            initial.claim()
            initial = initial.fitted(shape_of(scenario))
        self.scenario = self._in_force = scenario  # everything planned; with the changes made so far
        self.agenda = agenda
        self.failure: str | None = None
        self.restarts: list[Restart] = []
        self.leaked_segments = 0
        self.attempt: Attempt | None = None
        self.start = None if initial is None else Start(initial)
        self._initial = initial
        self._cannot_restart = False  # no checkpoint is left that can be restored
        self._down_until = -math.inf  # end of an outage, before which the job does not restart
        self._whole_restart: Restart | None = None  # the last restart of all tasks together
        self._options = options
        self._trace = options.get("trace")
        self.ends_at = scenario.duration_s
        self._randomness = Randomness(scenario.seed, scenario.costs.jitter_sigma)
        self._restart_strategy = restart_strategy_of(scenario, self._randomness)
        self.faults = FaultInjector(scenario, agenda, self)
        self.storage = self.faults.storage(MemoryStorage() if storage is None else storage)
        self.recorder = Recorder([vertex.parallelism for vertex in scenario.vertices])
        self._totals = Totals(sum(self.recorder.parallelisms))
        self._source_logs = SourceLogs()
        self.regions = failover_regions(scenario)
        self._failover: RegionFailover | None = None
        self.coordinator = self._coordinator()

    def _coordinator(self) -> CheckpointCoordinator:
        scenario, initial = self.scenario, self._initial
        first = 1 if initial is None else initial.next_id
        coordinator = CheckpointCoordinator(
            agenda=self.agenda,
            config=scenario.config,
            costs=scenario.costs,
            randomness=self._randomness,
            job=shape_after(scenario, None if initial is None else initial.metadata),
            storage=self.storage,
            on_end=partial(record_checkpoint, self.recorder),
            fail_job=self.fail,
            fail_task=self._fail_task,
            first_id=max([first, *(number + 1 for number in self.storage.checkpoints())]),
            initial=initial,
            trace=self._trace,
            first_at=scenario.checkpoints_from_s,
        )
        coordinator.control_plane.interference.append(self.faults.interfere)
        return coordinator

    async def run(self) -> None:
        """Run until the duration is over, every subtask has ended, or the job has failed permanently."""
        try:
            self.begin()
            await run_agenda(self.agenda)
            self.conclude()
        finally:
            self.release()

    def begin(self) -> None:
        """Schedule the start of the job on the agenda. The caller runs the agenda, then calls `conclude` and
        `release`.
        """
        self.agenda.keep_foremost(self.ends_at, self._end, self.ends_at)
        self.agenda.keep(0.0, self._sample)
        self.coordinator.schedule(self.scenario)
        for at, changes in by_time(self.scenario.changes):
            self.agenda.keep_foremost(at, self._change, changes)
        self.faults.start()
        self._begin_from(self.coordinator.latest_completed)

    def plan(self, scenario: Scenario) -> None:
        """Continue with a scenario that adds changes, faults or checkpoints in the future.

        The run is then the same as if it had begun with this scenario, unless another entry of the agenda is
        due at the same moment.

        Raises:
            ScenarioError: if an addition is invalid or its time has passed. Nothing was changed.
        """
        check_scenario(scenario)
        before, agenda = self.scenario, self.agenda
        self.faults.add(scenario.faults[len(before.faults) :])
        self.scenario = scenario
        for at in set(scenario.manual_checkpoints_s) - set(before.manual_checkpoints_s):
            agenda.keep_foremost(at, self.coordinator.request_checkpoint)
        for at, changes in by_time(scenario.changes[len(before.changes) :]):
            agenda.keep_foremost(at, self._change, changes)

    def _change(self, changes: Sequence[ScheduledChange]) -> None:
        for change in changes:
            self._in_force = changed(self._in_force, change)
            if change.concerns(Subsystem.CHECKPOINTS):
                self.coordinator.change(self._in_force.config)
            if change.vertex is not None and change.rates:
                vertex = self._in_force.vertex(change.vertex)
                self._source_logs.announce(self.agenda.now, self._in_force.vertices.index(vertex), vertex)
            if self.attempt is not None:
                self.attempt.change(self._in_force, change)
            self.report(f"a user changes the job: {change}")

    def conclude(self) -> None:
        """Record the checkpoints that are pending at the end, and the cause of a failure."""
        self.failure = self.failure or never_restored(self.restarts)
        for checkpoint in self.coordinator.pending:
            record_checkpoint(self.recorder, checkpoint)

    def release(self) -> None:
        """Release all resources, in any state of the job."""
        self.coordinator.release()
        if self.attempt is not None:
            self._end_attempt(self.attempt, final=True)
        python_gc.over()

    def _begin_from(self, metadata: CheckpointMetadata | None) -> bool:
        """Begin an attempt, with the state of a checkpoint if given; returns whether this state could be
        restored.
        """
        try:
            self._begin(None if metadata is None else self.source_of(metadata))
        except UNUSABLE as error:
            if metadata is None:
                raise
            self._fall_back(metadata, error)
            return False
        return True

    def source_of(self, metadata: CheckpointMetadata) -> RecoverySource:
        """Return the recovery source of a checkpoint of this run, or of the initial one.

        Raises:
            ScenarioError: if records are distributed by the keys of a source file that has not been opened.
            StorageError: if the checkpoint cannot be read.
            StateError: if its state cannot be distributed to the subtasks of this job.
        """
        storage, owned, initial = self.storage, True, self._initial
        if initial is not None and metadata is initial.metadata:
            storage, owned = initial.storage, initial.shares_files
        return RecoverySource(metadata, storage, owned=owned, rescaling=rescaling_of(self.scenario, metadata))

    def _fall_back(self, metadata: CheckpointMetadata, error: Exception) -> None:
        """Fail the job because a checkpoint cannot be restored; the next restart uses the next older
        checkpoint, if any.
        """
        self.coordinator.store.forget(metadata)
        self._cannot_restart = self.coordinator.latest_completed is None
        self.fail(unusable_text(metadata.checkpoint_id, error, last=self._cannot_restart))

    def cannot_restore(self, restart: Restart, metadata: CheckpointMetadata, error: Exception) -> None:
        """Fail the whole job because a region cannot restore a checkpoint."""
        restart.unusable_checkpoint_id = metadata.checkpoint_id
        self._fall_back(metadata, error)

    def _begin(self, source: RecoverySource | None) -> None:
        scenario = self._in_force
        environment = Environment(
            agenda=self.agenda,
            scope=Scope(self.agenda),
            costs=scenario.costs,
            config=scenario.config,
            randomness=self._randomness,
            coordinator=self.coordinator,
            storage=self.storage,
            source_logs=self._source_logs,
            trace=self._trace,
            tables=self._options.get("tables"),
            first_checkpoint=self.coordinator.next_id,
        )
        self.attempt = attempt = Attempt(
            scenario,
            environment,
            on_running=self._running,
            on_end=self._subtask_ended,
            regions=self.regions,
        )
        fail = partial(self._fail_region_soon, attempt)
        self._failover = RegionFailover(self, attempt, self.regions, fail)
        with python_gc.building():
            attempt.builder.build({} if source is None else source.max_parallelism)
            self.faults.attempt_started(attempt)
            attempt.begin(source)

    def _running(self, region: int) -> None:
        """Record that all tasks of a region run. When all regions run, checkpoints may be taken."""
        assert self.attempt is not None
        assert self._failover is not None
        if not self._failover.running(region):
            return
        if self._whole_restart is not None:
            if self._whole_restart.running_at is None:
                self._whole_restart.running_at = self.agenda.now
                self.report("all tasks run again")
        elif self.start is not None and self.start.running_at is None:
            self.start.running_at = self.agenda.now
        self.coordinator.start(self.attempt.subtasks)

    def _subtask_ended(self, subtask: Subtask) -> None:
        self.coordinator.finished(subtask)
        waiting = self._failover is not None and self._failover.waiting
        if self.attempt is not None and self.attempt.running == 0 and not waiting:
            # The last subtasks' messages about a checkpoint are still in transit to the coordinator.
            scenario = self._in_force
            costs, unaligned = scenario.costs, scenario.config.takes_unaligned_checkpoints
            longest = (costs.ack_unaligned_s if unaligned else costs.ack_s)[1]
            grace = longest if self.coordinator.pending else 0.0
            self.agenda.after(grace, self._stop)

    def _stop(self) -> None:
        self._sample()
        self.agenda.stop()

    def fail_subtask(self, vertex: int, index: int, cause: str) -> None:
        """Fail one subtask, and with it its region; no effect if the subtask has ended."""
        if self.attempt is not None and not self.attempt.builder.subtasks[vertex][index].ended:
            self._fail_task((vertex, index), cause)

    def _fail_task(self, task: TaskKey, cause: str) -> None:
        if self.attempt is not None:
            self._fail_region_soon(self.attempt, self.attempt.region_of(task), cause)

    def fail_task_manager(self, name: str, cause: str) -> None:
        """Fail the regions that have unfinished tasks in a task manager that was lost."""
        if self.attempt is not None:
            for region in regions_with_tasks_in(self.attempt, name):
                self._fail_region_soon(self.attempt, region, cause)

    def fail_link(self, ends: tuple[str, str], cause: str) -> None:
        """Fail the regions whose tasks read from each other over the link between two task managers."""
        if self.attempt is not None:
            for region in regions_over(self.attempt, ends):
                self._fail_region_soon(self.attempt, region, cause)

    def _fail_region_soon(self, attempt: Attempt, region: int, cause: str) -> None:
        """Fail a region after the current entry of the agenda."""
        self.agenda.keep(self.agenda.now, self._fail_region_now, attempt, region, cause)

    def _fail_region_now(self, attempt: Attempt, region: int, cause: str) -> None:
        if len(self.regions) == 1 or self.coordinator.stopped_with is not None:
            self._fail_now(attempt, cause)
            return
        ended = all(subtask.ended for subtask in attempt.tasks_of(region))
        if attempt is not self.attempt or self._failover is None or ended or attempt.is_down(region):
            return
        delay = self._restart_strategy.delay_after(self.agenda.now)
        if delay is None:
            self._tear_down(attempt, cause)
            self._give_up(cause, self._restart_strategy.exhausted)
        else:
            self._failover.region_failed(region, cause, delay)

    def stop_for(self, seconds: float, cause: str) -> None:
        """Stop the whole job, which restarts after an outage of this length."""
        self._down_until = max(self._down_until, self.agenda.now + seconds)
        if self.attempt is None:
            self.report(f"{cause}; it was down already")
        self.fail(cause)

    def fail(self, cause: str) -> None:
        """Fail the running attempt as a whole, after the current entry of the agenda."""
        if self.attempt is not None:
            self.agenda.keep(self.agenda.now, self._fail_now, self.attempt, cause)

    def _fail_now(self, attempt: Attempt, cause: str) -> None:
        if attempt is not self.attempt or attempt.over:
            return  # it has failed for another cause at the same moment, or has ended
        now = self.agenda.now
        self._tear_down(attempt, cause)
        if (savepoint := self.coordinator.stopped_with) is not None:
            self.failure = f"{cause}; the job was about to stop with {savepoint}, which is complete"
            self._stop()
            return
        delay: float | None = None
        if now < self._down_until and not self._cannot_restart:
            delay = self._down_until - now
        elif not self._cannot_restart:
            delay = self._restart_strategy.delay_after(now)
        if delay is None:
            self._give_up(cause, "" if self._cannot_restart else self._restart_strategy.exhausted)
            return
        self._whole_restart = restart = Restart(now, cause)
        self.restarts.append(restart)
        self.agenda.keep(now + delay + self._deployment_s, self._restart, restart)

    def _tear_down(self, attempt: Attempt, cause: str) -> None:
        """Cancel all tasks, and drop all entries of the agenda."""
        self.report(f"the job fails: {cause}")
        self.coordinator.stop()
        self.agenda.clear()
        self.faults.attempt_ends()
        self._end_attempt(attempt, final=False)
        self.agenda.clear()  # entries that the release has added

    def _give_up(self, cause: str, why: str) -> None:
        """Fail the job permanently."""
        self.failure = failed_for_good(cause, why)
        self._stop()

    @property
    def _deployment_s(self) -> float:
        """Time until all tasks have been deployed, in seconds."""
        return deployment_s(self.scenario, all_tasks(self.scenario))

    def _restart(self, restart: Restart) -> None:
        earliest = self._down_until + self._deployment_s
        if self.agenda.now < earliest:  # an outage began meanwhile
            self.agenda.keep(earliest, self._restart, restart)
            return
        metadata = self.coordinator.latest_completed
        restart.restarted_at = self.agenda.now
        if metadata is None:
            self.report("restarts from the beginning: no checkpoint is complete")
        else:
            self.report(f"restarts from checkpoint {metadata.checkpoint_id}", metadata.checkpoint_id)
        if not self._begin_from(metadata):
            assert metadata is not None
            restart.unusable_checkpoint_id = metadata.checkpoint_id
        elif metadata is not None:
            restart.restored(metadata.checkpoint_id, metadata.subtasks)

    def _end_attempt(self, attempt: Attempt, *, final: bool) -> None:
        """Save the figures of an attempt and release it."""
        self._totals.add(attempt.samples(), attempt.work)
        self.attempt = None
        if self._failover is not None:
            self._failover.over = True
        try:
            attempt.release(final=final)
        finally:
            self.leaked_segments += attempt.leaked_segments

    def count(self, samples: Sequence[SubtaskSample]) -> None:
        """Add the figures of cancelled tasks to the totals."""
        self._totals.add(samples, Work(records=sum(sample.records_in for sample in samples)))

    def _sample(self) -> None:
        self.latest = [] if self.attempt is None else self.attempt.samples()
        self.recorder.sample(self.agenda.now, self._totals.plus(self.latest))
        progress, end_of_run = self._options.get("progress"), self._options.get("end_of_run")
        if progress is not None:
            progress(self.agenda.now)
        if end_of_run is not None and self.scenario.warmup_s <= self.agenda.now < self.ends_at:
            end = end_of_run(self.recorder)
            if self.agenda.now < end != self.ends_at:
                self.ends_at = end
                self.agenda.keep_foremost(end, self._end, end)
        self.agenda.keep(self.agenda.now + SAMPLE_INTERVAL_S, self._sample)

    def _end(self, time: float) -> None:
        if time == self.ends_at:  # else another end was set meanwhile
            self._stop()

    @property
    def down_until(self) -> float | None:
        """Time at which the current outage ends, in seconds of the run; None: there is no outage."""
        return self._down_until if self.attempt is None and self.agenda.now < self._down_until else None

    @property
    def backlogs(self) -> dict[int, int | None]:
        """Records that have arrived and that a source has not read, by the number of its vertex.

        Contains the sources with a rate. None: not all their subtasks run.
        """
        sources = () if self.attempt is None else self.attempt.sources
        pending = {(source.vertex, source.index): source.pending_records for source in sources}
        found: dict[int, int | None] = {}
        for number, vertex in enumerate(self._in_force.vertices):
            rates = [] if vertex.source is None else map(vertex.rate, range(vertex.parallelism))
            waiting = [pending.get((number, index)) for index, rate in enumerate(rates) if rate]
            known = [each for each in waiting if each is not None]
            if waiting:
                found[number] = sum(known) if len(known) == len(waiting) else None
        return found

    @property
    def catches_up(self) -> bool:
        """Whether a source reads records that arrived while it was down."""
        return self.attempt is not None and any(source.catches_up for source in self.attempt.sources)

    @property
    def work(self) -> Work:
        """Totals of all links and all attempts so far."""
        return self._totals.work if self.attempt is None else self._totals.work + self.attempt.work

    def steady(self, start: float, end: float) -> Steady:
        """Return the summary of a time span of the run, in seconds, as in the windows of results."""
        return steady_result(self.scenario, self.recorder, start, end)

    def report(self, text: str, checkpoint_id: int | None = None) -> None:
        """Add a line to the trace, if the job has a trace."""
        if self._trace is not None:
            self._trace(self.agenda.now, "job", text, checkpoint_id)


def rescaling_of(scenario: Scenario, metadata: CheckpointMetadata) -> Rescaling | None:
    """Return how a job redistributes the state of a checkpoint; None if each subtask takes over its own.

    Raises:
        ScenarioError: if records are distributed by the keys of a source file that has not been opened.
    """
    job, config = shape_of(scenario), scenario.config
    is_rescaled = job.parallelism != metadata.parallelism
    if not (is_rescaled or config.recover_output_on_downstream):
        return None
    hashes = key_hashes_of(scenario) if is_rescaled else {}
    at_least_once = config.checkpoint_mode is not CheckpointMode.EXACTLY_ONCE
    return Rescaling(job, hashes, at_least_once, config.recover_output_on_downstream)


def shape_after(scenario: Scenario, metadata: CheckpointMetadata | None) -> JobShape:
    """Return the shape of a job that starts from a checkpoint, or without one."""
    job = shape_of(scenario)
    return job if metadata is None else job._replace(max_parallelism=carried_over(metadata, job))
