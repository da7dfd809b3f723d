"""A run over several processes, attempt by attempt: the part in the process that starts the others.

::

    launch -> reports -> failed? -- no --> result
      ^                     |
      \\-- restart delay <-- yes, and restarts are left: from the latest complete checkpoint
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from time import perf_counter, sleep, time

import numpy as np

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.metadata import CheckpointMetadata
from ..checkpoints.recovery import ClaimMode, InitialCheckpoint
from ..checkpoints.storage import FileLayout, exclusively
from ..engine.randomness import Randomness
from ..errors import JobFailedError, LaunchError, ScenarioError
from ..jobs.emulation import result_of
from ..jobs.failover import all_tasks
from ..jobs.job import SAMPLE_INTERVAL_S
from ..jobs.restarts import Restart, Start, Totals, failed_for_good, never_restored, restart_strategy_of
from ..results.recorder import FiredFault, FloatArray, Recorder, SubtaskSample
from ..results.result import Result, Work
from ..results.trace import Trace
from ..scenarios.checkpointed_shape import shape_of
from ..scenarios.rules import check_scenario
from ..scenarios.scenario import Scenario
from .distributed_scenario import distribution_problems, task_managers
from .orders_and_reports import Assignment, Failure, FilledLog, Report

__all__ = ["run_distributed"]

Launch = Callable[[Assignment], Sequence[Report]]
"""Runs one attempt in all its processes and returns their reports; raises LaunchError if they end without a
report.
"""


def run_distributed(
    scenario: Scenario,
    launch: Launch,
    storage: FileLayout,
    *,
    from_checkpoint: InitialCheckpoint | None = None,
    trace: Trace | None = None,
) -> Result:
    """Run `scenario` over several processes in real time, and return the measured result.

    All processes must be able to access `storage`. After a failure, the job is launched again from the latest
    checkpoint in `storage`, as its restart strategy allows. The figures of an attempt are lost if `launch`
    returned no reports for it. The first attempt begins with `from_checkpoint`, a checkpoint of an earlier
    run of the same job; all processes must be able to access its storage too. `trace` is called with the
    events of an attempt after the attempt ends.

    Raises:
        ScenarioError: if the scenario is invalid, or is not supported over several processes.
        StorageError: if another run uses `storage`, or has claimed `from_checkpoint`.
        JobFailedError: if the job failed and its restart strategy allows no further restart, or no checkpoint
            could be restored.
    """
    check_scenario(scenario)
    problems = [f"{key}: {message}" for key, message in distribution_problems(scenario)]
    if from_checkpoint is not None:
        problems += from_checkpoint.mismatches(shape_of(scenario))
    if problems:
        raise ScenarioError(problems)
    started = perf_counter()
    with exclusively(storage):
        if from_checkpoint is not None:
            from_checkpoint.claim()
            from_checkpoint = from_checkpoint.fitted(shape_of(scenario))
        run = _Run(scenario, launch, storage, from_checkpoint, trace)
        failure = run.run()
    result = run.history.result(wall_seconds=perf_counter() - started, failure=failure)
    if failure is not None:
        raise JobFailedError(result)
    return result


class _Run:
    def __init__(
        self,
        scenario: Scenario,
        launch: Launch,
        storage: FileLayout,
        initial: InitialCheckpoint | None,
        trace: Trace | None,
    ) -> None:
        self._scenario = scenario
        self._launch = launch
        self._storage = storage
        self._trace = trace
        self._initial = initial
        self.history = RunHistory(scenario, None if initial is None else Start(initial))
        randomness = Randomness(scenario.seed, scenario.costs.jitter_sigma)
        self._restart_strategy = restart_strategy_of(scenario, randomness)
        self._cannot_restart = False
        self._unrestorable: set[int] = set()
        first = 1 if initial is None else initial.next_id
        self._first = self._next_checkpoint = max([first, *(number + 1 for number in storage.present())])

    def run(self) -> str | None:
        """Launch attempts until one succeeds or no restart is left; returns the cause of a final failure."""
        history, strategy = self.history, self._restart_strategy
        restore = None if self._initial is None else self._initial.metadata
        while True:
            failed = self._attempt(restore)
            if failed is None:
                return None
            if history.origin is None or self._cannot_restart:  # it failed before it opened its tasks
                return failed.cause
            if failed.unrestorable and self._latest_checkpoint() is None:
                return f"{failed.cause}; there is no other checkpoint to restore"
            delay = strategy.delay_after(failed.at)
            if delay is None:
                return failed_for_good(failed.cause, strategy.exhausted)
            history.failed(failed.at, failed.cause)
            if failed.at + delay >= self._scenario.duration_s:
                history.nothing_ran_until(self._scenario.duration_s)
                return never_restored(history.restarts)
            sleep(delay)
            self._delete_incomplete()
            restore = self._latest_checkpoint()

    def _attempt(self, restore: CheckpointMetadata | None) -> Failure | None:
        """Run one attempt; returns its failure, or None."""
        history = self.history
        launched = time()
        initial = self._initial if self._initial is not None and restore is self._initial.metadata else None
        assignment = Assignment(
            scenario=self._scenario,
            origin=history.origin,
            restore=None if restore is None else restore.checkpoint_id,
            logs=tuple(history.logs.values()),
            retained=tuple(self._usable),
            from_initial=initial is not None,
            claim_mode=ClaimMode.NO_CLAIM if initial is None else initial.claim_mode,
            in_place=initial is not None and initial.in_place,
            first_checkpoint=self._next_checkpoint,
            traced=self._trace is not None,
        )
        try:
            reports = self._launch(assignment)
        except LaunchError as error:
            self._cannot_restart = not error.again
            if history.origin is None:
                history.origin = launched
            history.lost()
            if self._initial is None:
                history.logs = {log.task: log for log in _filled_from_start(self._scenario)} | history.logs
            failure: Failure | None = Failure(str(error), time() - history.origin)
        else:
            if self._trace is not None:
                events = [event for report in reports for event in report.trace]
                for event in sorted(events, key=lambda event: event.at):
                    self._trace(*event)
            failure = history.add(reports)
        if restore is not None:
            unrestorable = failure is not None and failure.unrestorable
            if unrestorable:
                self._unrestorable.add(restore.checkpoint_id)
            history.began_with(restore, restored=not unrestorable)
        return failure

    def _delete_incomplete(self) -> None:
        """Delete the files of this run's incomplete checkpoints, whose ids are not used again."""
        complete, present = self._storage.checkpoints(), self._storage.present()
        for number in set(present) - set(complete):
            if number >= self._first:
                self._storage.discard(number)
        self._next_checkpoint = max([self._next_checkpoint - 1, *present, *self.history.checkpoint_ids]) + 1

    def _latest_checkpoint(self) -> CheckpointMetadata | None:
        """Return the newest checkpoint to restore: one of this run, or the initial checkpoint while it is
        retained.
        """
        complete, usable = self._complete, self._usable
        if usable:
            return self._storage.load(usable[-1])
        if self._initial is None or len(complete) >= self._scenario.config.retained_checkpoints:
            return None
        metadata = self._initial.metadata
        return None if metadata.checkpoint_id in self._unrestorable else metadata

    @property
    def _complete(self) -> list[int]:
        """Ids of the complete checkpoints of this run, oldest first."""
        return [number for number in self._storage.checkpoints() if number >= self._first]

    @property
    def _usable(self) -> list[int]:
        """Complete checkpoints of this run, except those that an attempt failed to restore."""
        return [number for number in self._complete if number not in self._unrestorable]


class RunHistory:
    """All attempts of a run, in order.

    `origin`: start of the run on the wall clock; None until an attempt has begun. `ended_at`: end of the last
    attempt, in seconds of the run. `start`: the checkpoint of an earlier run from which this run starts, if
    any. `logs`: the logs of the source subtasks, as last reported.
    """

    def __init__(self, scenario: Scenario, start: Start | None = None) -> None:
        self.origin: float | None = None
        self.ended_at = 0.0
        self.restarts: list[Restart] = []
        self.logs: dict[TaskKey, FilledLog] = {}
        self._scenario = scenario
        self._start = start
        self._fired: list[FiredFault] = []
        self._behind: dict[str, float | None] = dict.fromkeys(task_managers(scenario))
        self._recorder = Recorder([vertex.parallelism for vertex in scenario.vertices])
        self._totals = Totals(sum(self._recorder.parallelisms))

    def add(self, reports: Sequence[Report]) -> Failure | None:
        """Add an attempt that has ended, from the reports of its processes; returns its failure, or None."""
        reports = sorted(reports, key=lambda report: report.index)
        leader = reports[0]
        failures = [report.failure for report in reports if report.failure is not None]
        if leader.begins_at is not None:
            self.origin = leader.origin
            if self.restarts:
                self.restarts[-1].restarted_at = leader.begins_at
                self.restarts[-1].running_at = leader.running_at
                self.nothing_ran_until(leader.begins_at)
            elif self._start is not None:
                self._start.running_at = leader.running_at
            self._add_samples(reports)
            self.lost()
            names = list(self._behind)
            self._behind.update((names[report.index], report.behind_s) for report in reports)
            self.ended_at = max(report.ended_at for report in reports)
        elif not failures:  # its time had ended before
            self.nothing_ran_until(self._scenario.duration_s)
        for record in leader.checkpoints:
            parts = {(vertex, index): part for vertex, index, part in record.parts}
            self._recorder.checkpoint(record.head, parts)
        self.logs |= {log.task: log for report in reports for log in report.logs}
        fired = [fault for report in reports for fault in report.faults]
        self._fired += sorted(fired, key=lambda fault: fault.time)
        return min(failures, key=lambda failure: (failure.blame, failure.at), default=None)

    def lost(self) -> None:
        """Forget each process's lag behind the clock in the last attempt."""
        self._behind = dict.fromkeys(self._behind)

    def _add_samples(self, reports: Sequence[Report]) -> None:
        samples: list[SubtaskSample] = []
        for row in _together(self._scenario, reports):
            samples = [SubtaskSample._make(column) for column in row[1:].T.tolist()]
            self._recorder.sample(float(row[0, 0]), self._totals.plus(samples))
        self._totals.add(samples, sum((report.work for report in reports), Work()))

    def failed(self, at: float, cause: str) -> None:
        """Record that the last attempt failed at time `at` and that another attempt follows."""
        self.ended_at = max(self.ended_at, at)
        self.restarts.append(Restart(at, cause))

    @property
    def checkpoint_ids(self) -> list[int]:
        """Ids of the checkpoints that are known to have begun."""
        return [head.checkpoint_id for head in self._recorder.checkpoints]

    def began_with(self, metadata: CheckpointMetadata, *, restored: bool) -> None:
        """Record the checkpoint that the last attempt restored, or failed to restore; not called for the
        first attempt.
        """
        if self.restarts and restored:
            self.restarts[-1].restored(metadata.checkpoint_id, metadata.subtasks)
        elif self.restarts:
            self.restarts[-1].unusable_checkpoint_id = metadata.checkpoint_id

    def nothing_ran_until(self, at: float) -> None:
        """Record that no attempt ran from the end of the last one until the time `at`."""
        for second in range(ceil(self.ended_at / SAMPLE_INTERVAL_S), ceil(at / SAMPLE_INTERVAL_S)):
            self._recorder.sample(second * SAMPLE_INTERVAL_S, self._totals.plus([]))
        self.ended_at = max(self.ended_at, at)

    def result(self, *, wall_seconds: float, failure: str | None) -> Result:
        """Return the result of the whole run; `failure` is the cause if the job failed permanently.

        It contains each process's lag behind the clock in the last attempt.
        """
        known = [behind for behind in self._behind.values() if behind is not None]
        return result_of(
            self._scenario,
            self._recorder,
            clock="real",
            link="tcp",
            emulated_seconds=self.ended_at,
            wall_seconds=wall_seconds,
            work=self._totals.work,
            start=self._start,
            restarts=self.restarts,
            fired=self._fired,
            failure=failure,
            behind_s=None if None in self._behind.values() else max(known),
            task_managers_behind_s=self._behind,
        )


def _filled_from_start(scenario: Scenario) -> Iterator[FilledLog]:
    """Yield the log of each source subtask, if the log has been filled at its rate since the run began."""
    for number, index in all_tasks(scenario):
        if scenario.vertices[number].source is not None:
            yield FilledLog((number, index), since_s=0.0, first=0)


def _together(scenario: Scenario, reports: Sequence[Report]) -> FloatArray:
    """Return the samples of all processes in one table, with the subtasks in the order of the scenario.

    Every process takes one last sample when it stops. Before it, one process may have taken more samples than
    another; these are dropped.
    """
    tables = [report.rows for report in reports]
    rows = min(len(table) for table in tables)
    if not rows or len(tables) < len(task_managers(scenario)):
        return np.empty((0, 0, 0))
    same = [np.concatenate((table[: rows - 1], table[-1:])) for table in tables]
    order = np.argsort(list(_flat_places(scenario)), kind="stable")
    joined: FloatArray = np.concatenate(same, axis=2)[:, :, order]
    return joined


def _flat_places(scenario: Scenario) -> Iterator[int]:
    """Yield the position of each subtask in the scenario's order, process by process."""
    first = 0
    places: dict[str, list[int]] = {name: [] for name in task_managers(scenario)}
    for vertex in scenario.vertices:
        places[vertex.manager_of(0)] += range(first, first + vertex.parallelism)
        first += vertex.parallelism
    for of_manager in places.values():
        yield from of_manager
