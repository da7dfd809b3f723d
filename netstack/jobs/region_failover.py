"""Restarts regions of an attempt while its other regions go on.

::

    a task of region 1 fails          end of the delay      exclusive buffers are there     all its tasks
    |  pending checkpoints fail       and of deployment     |  state is read                have read it
    |  its tasks are cancelled        |  tasks are rebuilt  |                               |
    |------- delay, deployment -------|-- waits for memory -|-------------------------------|

No checkpoint is taken until all regions run. Several may be down at a time; each waits for its own delay.
What cannot be restored, or finds no memory for too long, is a failure again. The rules are those of Flink's
DefaultScheduler and RestartPipelinedRegionFailoverStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..checkpoints.coordinator import CheckpointCoordinator
from ..checkpoints.recovery import UNUSABLE, RecoverySource
from ..engine.agenda import Agenda
from ..engine.scope import Scope
from ..faults.injection import FaultInjector
from ..results.statistics import SubtaskSample
from ..scenarios.scenario import Scenario
from ..state.snapshots import CheckpointMetadata
from .attempt import Attempt
from .deployment import deployment_s
from .regions import Region, task_names
from .restarts import Restart

BUFFERS_TIMEOUT_S = 30.0
"""How long rebuilt tasks wait for exclusive buffers: Flink's exclusive-buffers-request-timeout."""

_LOOKS_S = 0.01
"""From one look whether the memory is there to the next."""


class RestartingJob(Protocol):
    """The job as its regions see it."""

    agenda: Agenda
    coordinator: CheckpointCoordinator
    faults: FaultInjector
    restarts: list[Restart]
    scenario: Scenario

    def source_of(self, metadata: CheckpointMetadata) -> RecoverySource:
        """Return where the state of a checkpoint is read."""
        ...

    def count(self, samples: Sequence[SubtaskSample]) -> None:
        """Keep what tasks have done that are gone."""
        ...

    def cannot_restore(self, restart: Restart, metadata: CheckpointMetadata, error: Exception) -> None:
        """All of the job fails, as a checkpoint cannot be restored."""
        ...

    def tell(self, text: str, checkpoint_id: int | None = None) -> None:
        """Tell the trace what happens."""
        ...


class RegionFailover:
    """The restarts of regions in one attempt of `job`; over with the attempt, which it asks for that.

    `fail` is called when a region has failed again, with its number and the cause. `waiting`: how many
    regions do not run, of those that were there from the beginning too.
    """

    def __init__(
        self,
        job: RestartingJob,
        attempt: Attempt,
        regions: Sequence[Region],
        fail: Callable[[int, str], None],
    ) -> None:
        self._job = job
        self._attempt = attempt
        self._regions = regions
        self._fail = fail
        self._over = False
        self._restarting: dict[int, Restart] = {}
        self._not_running = set(range(len(regions)))

    @property
    def waiting(self) -> int:
        """How many regions do not run: tasks are missing, or read their state."""
        return len(self._not_running)

    def end(self) -> None:
        """The attempt is over: nothing of it restarts any more."""
        self._over = True

    def running(self, number: int) -> bool:
        """All tasks of a region run; returns whether those of all regions do."""
        self._not_running.discard(number)
        restart = self._restarting.pop(number, None)
        if restart is not None:
            restart.running_at = self._job.agenda.now
            self._job.tell(f"{', '.join(restart.tasks)}: all tasks run again")
        return not self._not_running

    def region_failed(self, number: int, cause: str, delay_s: float) -> None:
        """Cancel the tasks of a region, and begin them again after a delay."""
        job, region = self._job, self._regions[number]
        restart = Restart(job.agenda.now, cause, task_names(job.scenario, region))
        job.restarts.append(restart)
        job.tell(f"{', '.join(restart.tasks)} fail: {cause}; the others go on")
        self._restarting[number] = restart
        self._not_running.add(number)
        job.coordinator.suspend(set(region))
        job.faults.tasks_end(region)
        job.count(self._attempt.cancel_region(number))
        at = job.agenda.now + delay_s + deployment_s(job.scenario, region)
        job.agenda.keep(at, self._restart, number, restart)

    def _restart(self, number: int, restart: Restart) -> None:
        if self._over:
            return
        job, metadata = self._job, self._job.coordinator.latest_completed
        restart.restarted_at = now = job.agenda.now
        names = ", ".join(restart.tasks)
        if metadata is None:
            job.tell(f"{names} restart from the beginning: no checkpoint is complete")
        else:
            job.tell(f"{names} restart from checkpoint {metadata.checkpoint_id}", metadata.checkpoint_id)
        scope = self._attempt.rebuild_region(number, job.coordinator.next_id)
        self._begin(number, restart, metadata, scope, now + BUFFERS_TIMEOUT_S)

    def _begin(
        self,
        number: int,
        restart: Restart,
        metadata: CheckpointMetadata | None,
        scope: Scope,
        deadline: float,
    ) -> None:
        """Let rebuilt tasks begin, when what they need of memory has been given back."""
        job, short = self._job, self._attempt.short_of_memory()
        if short and job.agenda.now < deadline:
            scope.after(_LOOKS_S, self._begin, number, restart, metadata, scope, deadline)
        elif short:
            waited = f"within {BUFFERS_TIMEOUT_S:g} s"
            self._fail(number, f"insufficient number of network buffers in {', '.join(short)} {waited}")
        else:
            self._open_or_recover(number, restart, metadata)

    def _open_or_recover(self, number: int, restart: Restart, metadata: CheckpointMetadata | None) -> None:
        job = self._job
        job.faults.region_started()
        if metadata is None:
            self._attempt.open_region(number)
            return
        try:
            recoveries = self._attempt.recover_region(number, job.source_of(metadata))
        except UNUSABLE as error:
            job.cannot_restore(restart, metadata, error)
        else:
            restart.restored_part(metadata.checkpoint_id, recoveries)
