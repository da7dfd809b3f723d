"""A run over several processes, attempt by attempt: what whoever starts the processes does.

::

    launch -> reports -> failed? -- no --> result
      ^                     |
      \\-- restart delay <-- yes, and restarts are left: from the latest complete checkpoint
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, sleep, time

from ..checkpoints.storage import FileLayout
from ..emulation import JobFailedError
from ..result import Result
from ..settings.scenario import Scenario, ScenarioError
from ..settings.scenario_rules import check_scenario
from ..trace import Trace
from .history import RunHistory
from .report import Report
from .terms import Assignment, distribution_problems


class LaunchError(Exception):
    """The processes of an attempt have ended without a report; the message is the cause, on one line.

    `again` is whether another attempt may do better, as after the loss of a process.
    """

    def __init__(self, cause: str, *, again: bool = True) -> None:
        super().__init__(cause)
        self.again = again


Launch = Callable[[Assignment], Sequence[Report]]
"""Runs one attempt in all its processes and returns what they report; LaunchError if they do not."""


def run_distributed(
    scenario: Scenario, launch: Launch, storage: FileLayout, *, trace: Trace | None = None
) -> Result:
    """Run `scenario` over several processes in real time, and return what was measured.

    `storage` is one that all of them reach. After a failure the job is launched again, as its restart
    strategy says, from the latest checkpoint in `storage`; figures of an attempt that `launch` could not
    report are lost. `trace` is told the steps of an attempt when that is over.

    Raises:
        ScenarioError: if the scenario makes no sense, or is not possible over several processes.
        JobFailedError: if the job failed and its restart strategy allows no further restart.
    """
    check_scenario(scenario)
    problems = [f"{key}: {message}" for key, message in distribution_problems(scenario)]
    if problems:
        raise ScenarioError(problems)
    started = perf_counter()
    failure, history = _Run(scenario, launch, storage, trace).run()
    result = history.result(wall_seconds=perf_counter() - started, failure=failure)
    if failure is not None:
        raise JobFailedError(result)
    return result


class _Run:
    def __init__(self, scenario: Scenario, launch: Launch, storage: FileLayout, trace: Trace | None) -> None:
        self._scenario = scenario
        self._launch = launch
        self._storage = storage
        self._trace = trace
        self._history = RunHistory(scenario)
        self._hopeless = False
        self._next_checkpoint = max(storage.present(), default=0) + 1

    def run(self) -> tuple[str | None, RunHistory]:
        """Launch attempts until one does not fail or none is left; why the job failed for good, if so."""
        history, limit = self._history, self._scenario.restart_limit
        restore: int | None = None
        while True:
            failed = self._attempt(restore)
            if failed is None:
                return None, history
            at, cause = failed
            if history.origin is None or self._hopeless:  # it did not come as far as to open its tasks
                return cause, history
            if limit is not None and len(history.restarts) >= limit:
                more = f" (restarted {limit} times, which is the limit)" if limit else ""
                return cause + more, history
            history.failed(at, cause)
            delay = self._scenario.config.restart_delay_s
            if at + delay >= self._scenario.duration_s:
                history.nothing_ran_until(self._scenario.duration_s)
                return None, history
            sleep(delay)
            restore = self._latest_checkpoint()

    def _attempt(self, restore: int | None) -> tuple[float, str] | None:
        """Run one attempt; when, in seconds of the run, and why it failed, or None."""
        history = self._history
        launched = time()
        assignment = Assignment(
            scenario=self._scenario,
            origin=history.origin,
            restore=restore,
            first_checkpoint=self._next_checkpoint,
            traced=self._trace is not None,
        )
        try:
            reports = self._launch(assignment)
        except LaunchError as error:
            self._hopeless = not error.again
            if history.origin is None:
                history.origin = launched
            return time() - history.origin, str(error)
        self._tell(reports)
        failure = history.add(reports)
        return None if failure is None else (failure.at, failure.cause)

    def _tell(self, reports: Sequence[Report]) -> None:
        if self._trace is not None:
            events = [event for report in reports for event in report.trace]
            for event in sorted(events, key=lambda event: event.at):
                self._trace(*event)

    def _latest_checkpoint(self) -> int | None:
        """The checkpoint to go on from; what is left of others that were not complete is deleted."""
        complete, present = self._storage.checkpoints(), self._storage.present()
        for number in set(present) - set(complete):
            self._storage.discard(number)
        self._next_checkpoint = max([self._next_checkpoint - 1, *present, *self._history.checkpoint_ids]) + 1
        if not complete:
            return None
        self._history.restores(self._storage.load(complete[-1]))
        return complete[-1]
