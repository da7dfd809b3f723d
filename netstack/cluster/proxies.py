"""Stand-ins between the coordinator of checkpoints and the subtasks that run in other processes.

The coordinator sees every subtask as a `DistantTask`, a subtask sees the coordinator as a
`DistantCoordinator`. Both turn calls into messages, and know nothing of connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flowcontrol import CheckpointBarrier

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.pending_checkpoint import Acknowledgement, CheckpointedTask, key_of
from ..scenarios.scenario import Scenario
from ..scenarios.topology import consumers_of_producers
from ..state.snapshots import StoredFile
from ..tasks.subtask import Subtask
from .messages import (
    Aborted,
    Acknowledge,
    Completed,
    Decline,
    Ended,
    ToLeader,
    ToTask,
    TriggerCheckpoint,
)


def deliver(message: ToTask, subtask: Subtask) -> None:
    """Tell a subtask of this process what the coordinator has for it."""
    match message:
        case TriggerCheckpoint(_, barrier):
            subtask.trigger_checkpoint(barrier)
        case Completed(_, checkpoint_id):
            subtask.checkpoint_completed(checkpoint_id)
        case Aborted(_, checkpoint_id):
            subtask.checkpoint_aborted(checkpoint_id)


class DistantTask:
    """A subtask as the coordinator sees it, a `CheckpointedTask`; `tell` takes messages for it."""

    def __init__(self, key: TaskKey, tell: Callable[[ToTask], None]) -> None:
        self.vertex, self.index = key
        self.upstream: list[DistantTask] = []
        self.ended = False
        self.last_checkpoint = 0
        self._key = key
        self._tell = tell

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Begin a checkpoint."""
        self._tell(TriggerCheckpoint(self._key, barrier))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """A checkpoint is complete everywhere."""
        self._tell(Completed(self._key, checkpoint_id))

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint has failed."""
        self._tell(Aborted(self._key, checkpoint_id))


class DistantCoordinator:
    """The coordinator as subtasks see it; `tell` takes messages for it."""

    def __init__(self, tell: Callable[[ToLeader], None]) -> None:
        self._tell = tell

    def acknowledge(self, subtask: CheckpointedTask, report: Acknowledgement) -> None:
        """A subtask has taken its snapshot."""
        self._tell(Acknowledge(key_of(subtask), report))

    def decline(self, subtask: CheckpointedTask, checkpoint_id: int, reason: str, detail: str = "") -> None:
        """A subtask has given a checkpoint up."""
        self._tell(Decline(key_of(subtask), checkpoint_id, reason, detail))

    def discard_unused(self, files: Iterable[StoredFile]) -> None:
        """Leave them: from here it is not known which of them a checkpoint needs."""

    def fail_task(self, subtask: CheckpointedTask, cause: str) -> None:
        """A subtask cannot go on.

        Raises:
            RuntimeError: always, which fails the process that it runs in, and with it the job.
        """
        raise RuntimeError(cause)

    def finished(self, subtask: CheckpointedTask) -> None:
        """A subtask has ended."""
        self._tell(Ended(key_of(subtask), subtask.last_checkpoint))


def distant_tasks(scenario: Scenario, tell: Callable[[str, ToTask], None]) -> dict[TaskKey, DistantTask]:
    """Return all subtasks of a scenario, in its order; `tell` takes a task manager and a message for it."""
    tasks = {
        (number, index): DistantTask((number, index), _bound(tell, vertex.manager_of(0)))
        for number, vertex in enumerate(scenario.vertices)
        for index in range(vertex.parallelism)
    }
    numbers = {vertex.name: number for number, vertex in enumerate(scenario.vertices)}
    for edge in scenario.edges:
        producer, consumer = scenario.vertex(edge.source), scenario.vertex(edge.target)
        reached = consumers_of_producers(edge.ship, producer.parallelism, consumer.parallelism)
        for source, targets in enumerate(reached):
            for target in targets:
                upstream = tasks[numbers[edge.source], source]
                tasks[numbers[edge.target], target].upstream.append(upstream)
    return tasks


def _bound(tell: Callable[[str, ToTask], None], manager: str) -> Callable[[ToTask], None]:
    return lambda message: tell(manager, message)
