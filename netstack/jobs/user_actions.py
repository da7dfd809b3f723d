"""What users do to a job while it runs: changes, and requests for checkpoints and savepoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..checkpoints.coordinator import CheckpointCoordinator
from ..checkpoints.savepoint_request import SavepointRequests, request_of, take_requests
from ..engine.agenda import Agenda
from ..scenarios.changes import ScheduledChange, by_time
from ..scenarios.scenario import Scenario, changed
from .attempt import Attempt


class UsedJob(Protocol):
    """The job as its users see it."""

    agenda: Agenda
    attempt: Attempt | None
    coordinator: CheckpointCoordinator

    def tell(self, text: str, checkpoint_id: int | None = None) -> None:
        """Tell the trace what happens."""
        ...


class UserActions:
    """What users do to `job` at the times of its scenario, and, of savepoints, whenever `requests` has some.

    `scenario` is what the job is by now, behind all changes so far. An attempt begins with that.
    """

    def __init__(self, job: UsedJob, scenario: Scenario, requests: SavepointRequests | None) -> None:
        self.scenario = scenario
        self._job, self._requests = job, requests

    def start(self) -> None:
        """Put what is planned on the agenda."""
        agenda, coordinator = self._job.agenda, self._job.coordinator
        for at in self.scenario.manual_checkpoints_s:
            agenda.keep(at, coordinator.request_checkpoint)
        for savepoint in self.scenario.savepoints:
            agenda.keep(savepoint.at_s, coordinator.request_savepoint, request_of(savepoint))
        if self._requests is not None:
            take_requests(agenda, coordinator, self._requests)
        for at, changes in by_time(self.scenario.changes):
            agenda.keep_foremost(at, self._change, changes)

    def plan(self, scenario: Scenario, before: Scenario) -> None:
        """Do what `scenario` says, besides all that `before` says, once its time has come."""
        agenda, coordinator = self._job.agenda, self._job.coordinator
        for at in set(scenario.manual_checkpoints_s) - set(before.manual_checkpoints_s):
            agenda.keep_foremost(at, coordinator.request_checkpoint)
        for at, changes in by_time(scenario.changes[len(before.changes) :]):
            agenda.keep_foremost(at, self._change, changes)

    def _change(self, changes: Sequence[ScheduledChange]) -> None:
        job = self._job
        for change in changes:
            self.scenario = changed(self.scenario, change)
            if change.of_checkpoints:
                job.coordinator.change(self.scenario.config)
            if job.attempt is not None:
                job.attempt.change(self.scenario, change)
            job.tell(f"a user changes the job: {change}")
