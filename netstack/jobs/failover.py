"""Regions: the parts of a job that fail and restart independently, and their restarts within an attempt.

A pipelined region is a connected component of the execution graph: subtasks that exchange data are in the
same region::

    source -- forward --> map        0 -> 0   1 -> 1   2 -> 2       three regions
    source -- hash -----> map        each -> each                   one region
    clicks -> sink   orders -> sink  two pipelines that share nothing: at least two regions

No data passes between regions, so each can be reset to the latest checkpoint while the others keep running
(Flink's SchedulingPipelinedRegionComputeUtil, where all edges are pipelined). When a task fails, pending
checkpoints fail, and all tasks of its region are cancelled::

    a task fails               tasks are rebuilt      exclusive buffers are free   all tasks run
    |--- delay, deployment ----|-- wait for memory ---|------ read the state ------|

No checkpoint is taken until all regions run. Several regions may be down at a time, each with its own delay.
If a region's checkpoint cannot be restored, or the region waits too long for memory, it fails again. The
rules are those of Flink's DefaultScheduler and RestartPipelinedRegionFailoverStrategy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.metadata import CheckpointMetadata
from ..checkpoints.recovery import UNUSABLE
from ..engine.cancellation import Scope
from ..scenarios.options import FailoverStrategy
from ..scenarios.scenario import Scenario
from ..tasks.subtask import Subtask
from .restarts import Restart

if TYPE_CHECKING:
    from .attempt import Attempt
    from .job import Job

Region = tuple[TaskKey, ...]
"""The subtasks of a region, in the order of their vertices, then by index."""

BUFFERS_TIMEOUT_S = 30.0
"""Maximum time for which rebuilt tasks wait for exclusive buffers (Flink's
exclusive-buffers-request-timeout).
"""

_MEMORY_CHECK_S = 0.01
"""Time between two checks whether the memory is available."""


def all_tasks(scenario: Scenario) -> Region:
    """Return all subtasks of a job, vertex by vertex."""
    vertices = enumerate(scenario.vertices)
    return tuple((number, index) for number, vertex in vertices for index in range(vertex.parallelism))


def regions_of(scenario: Scenario) -> list[Region]:
    """Return the pipelined regions of a job, ordered by their first subtasks."""
    numbers = {vertex.name: number for number, vertex in enumerate(scenario.vertices)}
    leaders = {task: task for task in all_tasks(scenario)}

    def leader_of(task: TaskKey) -> TaskKey:
        while leaders[task] != task:
            leaders[task] = task = leaders[leaders[task]]
        return task

    for edge in scenario.edges:
        source, target = numbers[edge.source], numbers[edge.target]
        producers = scenario.vertices[source].parallelism
        consumers = scenario.vertices[target].parallelism
        if edge.strategy.pointwise:
            reached = enumerate(scenario.consumers_reached(edge))
            pairs = [(producer, consumer) for producer, targets in reached for consumer in targets]
        else:  # all are connected through the first subtask of each
            pairs = [(producer, 0) for producer in range(producers)]
            pairs += [(0, consumer) for consumer in range(1, consumers)]
        for producer, consumer in pairs:
            leaders[leader_of((target, consumer))] = leader_of((source, producer))
    regions: dict[TaskKey, list[TaskKey]] = {}
    for task in leaders:
        regions.setdefault(leader_of(task), []).append(task)
    return [tuple(tasks) for tasks in regions.values()]


def failover_regions(scenario: Scenario) -> list[Region]:
    """Return the groups of tasks that restart together: the failover regions, or the whole job."""
    full = scenario.config.failover_strategy is FailoverStrategy.FULL
    return [all_tasks(scenario)] if full else regions_of(scenario)


def task_names(scenario: Scenario, region: Region) -> list[str]:
    """Return the tasks of a region as text: vertices by name, with subtask numbers unless all their subtasks
    are included.
    """
    indices: dict[int, list[int]] = {}
    for number, index in region:
        indices.setdefault(number, []).append(index)
    return [
        scenario.vertices[number].name
        if len(own) == scenario.vertices[number].parallelism
        else f"{scenario.vertices[number].name}[{', '.join(map(str, own))}]"
        for number, own in indices.items()
    ]


def regions_with_tasks_in(attempt: Attempt, task_manager: str) -> list[int]:
    """Return the regions that have an unfinished task in a task manager, without duplicates."""
    scenario = attempt.scenario
    return _regions(attempt, lambda task: not task.ended and _manager_of(scenario, task) == task_manager)


def regions_over(attempt: Attempt, ends: tuple[str, str]) -> list[int]:
    """Return the regions with a task that reads over the link between two task managers, each once."""
    scenario = attempt.scenario

    def reads_over_it(task: Subtask) -> bool:
        own = _manager_of(scenario, task)
        others = {_manager_of(scenario, other) for other in task.upstream if isinstance(other, Subtask)}
        return any((other, own) in (ends, ends[::-1]) for other in others)

    return _regions(attempt, reads_over_it)


def _regions(attempt: Attempt, hit: Callable[[Subtask], bool]) -> list[int]:
    tasks = [(subtask.vertex, subtask.index) for subtask in attempt.subtasks if hit(subtask)]
    return list(dict.fromkeys(map(attempt.region_of, tasks)))


def _manager_of(scenario: Scenario, task: Subtask) -> str:
    return scenario.vertices[task.vertex].manager_of(task.index)


def deployment_s(scenario: Scenario, tasks: Iterable[TaskKey]) -> float:
    """Return the time until tasks that restart together have been deployed, in seconds.

    A task manager deploys one task after the other; all tasks start after the last deployment.
    """
    managers = Counter(scenario.vertices[number].manager_of(index) for number, index in tasks)
    costs = scenario.costs
    return costs.deploy_s + costs.deploy_per_task_s * max(managers.values(), default=0)


class RegionFailover:
    """Restarts regions within one attempt of `job`.

    `fail` is called with the number of a region that fails again, and the cause. After `over` is set, at the
    end of the attempt, no region restarts.
    """

    def __init__(
        self, job: Job, attempt: Attempt, regions: Sequence[Region], fail: Callable[[int, str], None]
    ) -> None:
        self.over = False
        self._job = job
        self._attempt = attempt
        self._regions = regions
        self._fail = fail
        self._restarting: dict[int, Restart] = {}
        self._not_running = set(range(len(regions)))

    @property
    def waiting(self) -> int:
        """Number of regions that do not run, because tasks are missing or still read their state."""
        return len(self._not_running)

    def running(self, number: int) -> bool:
        """Record that all tasks of a region run; returns whether all regions run."""
        self._not_running.discard(number)
        restart = self._restarting.pop(number, None)
        if restart is not None:
            restart.running_at = self._job.agenda.now
            self._job.report(f"{', '.join(restart.tasks)}: all restarted tasks run again")
        return not self._not_running

    def region_failed(self, number: int, cause: str, delay_s: float) -> None:
        """Cancel the tasks of a region, and restart them after a delay."""
        job, region = self._job, self._regions[number]
        restart = Restart(job.agenda.now, cause, task_names(job.scenario, region))
        job.restarts.append(restart)
        job.report(f"{', '.join(restart.tasks)} fail: {cause}; the tasks of other regions continue")
        self._restarting[number] = restart
        self._not_running.add(number)
        job.coordinator.suspend(set(region))
        job.faults.tasks_end(region)
        job.count(self._attempt.cancel_region(number))
        at = job.agenda.now + delay_s + deployment_s(job.scenario, region)
        job.agenda.keep(at, self._restart, number)

    def _restart(self, number: int) -> None:
        if self.over:
            return
        job, metadata = self._job, self._job.coordinator.latest_completed
        restart = self._restarting[number]
        restart.restarted_at = now = job.agenda.now
        names = ", ".join(restart.tasks)
        if metadata is None:
            job.report(f"{names} restart from the beginning: no checkpoint is complete")
        else:
            job.report(f"{names} restart from checkpoint {metadata.checkpoint_id}", metadata.checkpoint_id)
        scope = self._attempt.rebuild_region(number, job.coordinator.next_id)
        self._begin(number, metadata, scope, now + BUFFERS_TIMEOUT_S)

    def _begin(self, number: int, metadata: CheckpointMetadata | None, scope: Scope, deadline: float) -> None:
        """Start rebuilt tasks as soon as the memory that they need has been released."""
        job, attempt, short = self._job, self._attempt, self._attempt.short_of_memory()
        if short and job.agenda.now < deadline:
            scope.after(_MEMORY_CHECK_S, self._begin, number, metadata, scope, deadline)
            return
        if short:
            waited = f"within {BUFFERS_TIMEOUT_S:g} s"
            self._fail(number, f"insufficient number of network buffers in {', '.join(short)} {waited}")
            return
        job.faults.region_started()
        if metadata is None:
            attempt.begin_region(number, None)
            return
        restart = self._restarting[number]
        try:
            recoveries = attempt.begin_region(number, job.source_of(metadata))
        except UNUSABLE as error:
            job.cannot_restore(restart, metadata, error)
        else:
            restart.restored(metadata.checkpoint_id, [recovery.snapshot for recovery in recoveries])
