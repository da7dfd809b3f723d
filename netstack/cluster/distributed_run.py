"""A run over several processes, attempt by attempt: what whoever starts the processes does.

::

    launch -> reports -> failed? -- no --> result
      ^                     |
      \\-- restart delay <-- yes, and restarts are left: from the latest complete checkpoint
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, sleep, time

from ..checkpoints.recovery import ClaimMode, InitialCheckpoint
from ..checkpoints.storage import FileLayout, exclusively
from ..engine.randomness import Randomness
from ..errors import JobFailedError, LaunchError, ScenarioError
from ..jobs.restarts import Start, failed_for_good, never_restored, restart_strategy_of
from ..results.result import Result
from ..results.trace import Trace
from ..scenarios.rules import check_scenario
from ..scenarios.scenario import Scenario
from ..scenarios.topology import shape_of
from ..state.snapshots import CheckpointMetadata
from .attempt_report import Failure, Report
from .history import RunHistory
from .terms import Assignment, distribution_problems

Launch = Callable[[Assignment], Sequence[Report]]
"""Runs one attempt in all its processes and returns what they report; LaunchError if they do not."""


def run_distributed(
    scenario: Scenario,
    launch: Launch,
    storage: FileLayout,
    *,
    from_checkpoint: InitialCheckpoint | None = None,
    trace: Trace | None = None,
) -> Result:
    """Run `scenario` over several processes in real time, and return what was measured.

    `storage` is one that all of them reach. After a failure the job is launched again, as its restart
    strategy says, from the latest checkpoint in `storage`; figures of an attempt that `launch` could not
    report are lost. The first attempt begins with `from_checkpoint`, one of an earlier run of the same job,
    whose storage all processes reach too. `trace` is told the steps of an attempt when that is over.

    Raises:
        ScenarioError: if the scenario makes no sense, or is not possible over several processes.
        StorageError: if another run has the directory of `storage`, or has claimed `from_checkpoint`.
        JobFailedError: if the job failed and its restart strategy allows no further restart, or no checkpoint
            could be restored.
    """
    check_scenario(scenario)
    problems = [f"{key}: {message}" for key, message in distribution_problems(scenario)]
    if from_checkpoint is not None:
        problems += from_checkpoint.misfits(shape_of(scenario))
    if problems:
        raise ScenarioError(problems)
    started = perf_counter()
    with exclusively(storage):
        if from_checkpoint is not None:
            from_checkpoint.claim()
            from_checkpoint = from_checkpoint.fitted(shape_of(scenario))
        failure, history = _Run(scenario, launch, storage, from_checkpoint, trace).run()
    result = history.result(wall_seconds=perf_counter() - started, failure=failure)
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
        self._history = RunHistory(scenario, None if initial is None else Start(initial))
        randomness = Randomness(scenario.seed, scenario.costs.jitter_sigma)
        self._restart_strategy = restart_strategy_of(scenario, randomness)
        self._hopeless = False
        self._unrestorable: set[int] = set()
        first = 1 if initial is None else initial.next_id
        self._first = self._next_checkpoint = max([first, *(number + 1 for number in storage.present())])

    def run(self) -> tuple[str | None, RunHistory]:
        """Launch attempts until one does not fail or none is left; why the job failed for good, if so."""
        history, strategy = self._history, self._restart_strategy
        restore = None if self._initial is None else self._initial.metadata
        while True:
            failed = self._attempt(restore)
            if failed is None:
                return None, history
            if history.origin is None or self._hopeless:  # it did not come as far as to open its tasks
                return failed.cause, history
            if failed.unrestorable and self._latest_checkpoint() is None:
                return f"{failed.cause}; no other checkpoint is left", history
            delay = strategy.delay_after(failed.at)
            if delay is None:
                return failed_for_good(failed.cause, strategy.exhausted), history
            history.failed(failed.at, failed.cause)
            if failed.at + delay >= self._scenario.duration_s:
                history.nothing_ran_until(self._scenario.duration_s)
                return never_restored(history.restarts), history
            sleep(delay)
            self._clear_away()
            restore = self._latest_checkpoint()

    def _attempt(self, restore: CheckpointMetadata | None) -> Failure | None:
        """Run one attempt; why it failed, and when, in seconds of the run, or None."""
        history = self._history
        launched = time()
        initial = self._initial if self._initial is not None and restore is self._initial.metadata else None
        assignment = Assignment(
            scenario=self._scenario,
            origin=history.origin,
            restore=None if restore is None else restore.checkpoint_id,
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
            self._hopeless = not error.again
            if history.origin is None:
                history.origin = launched
            history.lost()
            failure: Failure | None = Failure(str(error), time() - history.origin)
        else:
            self._tell(reports)
            failure = history.add(reports)
        if restore is not None:
            unrestorable = failure is not None and failure.unrestorable
            if unrestorable:
                self._unrestorable.add(restore.checkpoint_id)
            history.began_with(restore, restored=not unrestorable)
        return failure

    def _tell(self, reports: Sequence[Report]) -> None:
        if self._trace is not None:
            events = [event for report in reports for event in report.trace]
            for event in sorted(events, key=lambda event: event.at):
                self._trace(*event)

    def _clear_away(self) -> None:
        """Delete what is left of checkpoints of this run that were not complete; their ids are used up."""
        complete, present = self._storage.checkpoints(), self._storage.present()
        for number in set(present) - set(complete):
            if number >= self._first:
                self._storage.discard(number)
        self._next_checkpoint = max([self._next_checkpoint - 1, *present, *self._history.checkpoint_ids]) + 1

    def _latest_checkpoint(self) -> CheckpointMetadata | None:
        """The newest checkpoint to restore: of this run, or the initial one while that is retained."""
        complete, usable = self._complete, self._usable
        if usable:
            return self._storage.load(usable[-1])
        if self._initial is None or len(complete) >= self._scenario.config.retained_checkpoints:
            return None
        metadata = self._initial.metadata
        return None if metadata.checkpoint_id in self._unrestorable else metadata

    @property
    def _complete(self) -> list[int]:
        """The complete checkpoints of this run, oldest first."""
        return [number for number in self._storage.checkpoints() if number >= self._first]

    @property
    def _usable(self) -> list[int]:
        """Those of them that no attempt has failed to restore."""
        return [number for number in self._complete if number not in self._unrestorable]
