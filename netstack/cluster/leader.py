"""The leader: the part of process 0 that coordinates the whole job.

It starts all processes together, owns the checkpoint coordinator, and ends the job when all subtasks have
ended. It communicates only by messages, also with the subtasks of its own process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from flowcontrol import RemoteProtocolError

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.coordinator import CheckpointCoordinator
from ..checkpoints.metadata import CheckpointMetadata
from ..checkpoints.pending_checkpoint import record_checkpoint
from ..checkpoints.recovery import InitialCheckpoint
from ..checkpoints.storage import CheckpointStorage
from ..errors import StorageError
from ..jobs.job import shape_after
from ..results.recorder import Recorder
from ..tasks.subtask_environment import Environment
from .control_messages import (
    Acknowledge,
    Control,
    Decline,
    DistantTask,
    Ended,
    Ready,
    Running,
    Start,
    Stop,
    ToLeader,
    distant_tasks,
)
from .distributed_scenario import task_managers
from .orders_and_reports import Assignment, CheckpointRecord, checkpoint_records

if TYPE_CHECKING:
    from .task_manager import RunClock

LEADER = 0
"""Index of the leader's process."""

NOTICE_S = 0.2
"""Time from the start message until the tasks open, in seconds."""


class Leader:
    """Coordinates all processes during one attempt.

    `send` sends a message to the process with the given index; `fail` is called with the cause if the job
    cannot continue. If `restored` is given, the job continues from this checkpoint, which may be the
    `initial` checkpoint of another run, and `clock` is already running.
    """

    def __init__(
        self,
        assignment: Assignment,
        environment: Environment,
        clock: RunClock,
        restored: CheckpointMetadata | None,
        initial: InitialCheckpoint | None,
        send: Callable[[int, Control], None],
        fail: Callable[[str], None],
    ) -> None:
        self.running_at: float | None = None
        self._scenario = scenario = assignment.scenario
        self._agenda = environment.agenda
        self._clock = clock
        self._send = send
        self._numbers = {name: number for number, name in enumerate(task_managers(scenario))}
        self._ready: set[int] = set()
        self._running: set[int] = set()
        self._recorder = Recorder([vertex.parallelism for vertex in scenario.vertices])
        self._tasks: dict[TaskKey, DistantTask] = distant_tasks(
            scenario, lambda manager, message: send(self._numbers[manager], message)
        )
        self._coordinator = CheckpointCoordinator(
            agenda=environment.agenda,
            config=scenario.config,
            costs=environment.costs,
            randomness=environment.randomness,
            job=shape_after(scenario, restored)._replace(unread=()),
            storage=environment.storage,
            on_end=partial(record_checkpoint, self._recorder),
            fail_job=fail,
            first_id=assignment.first_checkpoint,
            stored=_stored(assignment, restored, environment.storage),
            initial=initial,
            trace=environment.trace,
            first_at=scenario.checkpoints_from_s,
        )

    def receive(self, sender: int, message: ToLeader) -> None:
        """Process a message from a process.

        Raises:
            RemoteProtocolError: if the message names a subtask that does not exist.
        """
        match message:
            case Ready():
                self._ready.add(sender)
                if len(self._ready) == len(self._numbers):
                    self._start()
            case Running():
                self._running.add(sender)
                if len(self._running) == len(self._numbers):
                    self.running_at = self._agenda.now
                    self._coordinator.start(list(self._tasks.values()))
            case Acknowledge(task, report):
                self._coordinator.acknowledge(self._task(task), report)
            case Decline(task, checkpoint_id, reason, detail):
                self._coordinator.decline(self._task(task), checkpoint_id, reason, detail)
            case Ended(task, last_checkpoint):
                self._ended(self._task(task), last_checkpoint)

    def _start(self) -> None:
        """Start all processes at the same moment, after a short delay; called when all of them are ready."""
        origin, begins_at = self._clock.origin, self._clock() + NOTICE_S
        if origin is None:
            origin, begins_at = self._clock.wall_time + NOTICE_S, 0.0
        if begins_at >= self._scenario.duration_s:  # the restart took too long
            self._send_all(Stop())
            return
        self._coordinator.schedule(self._scenario, begins_at)
        self._send_all(Start(origin, begins_at))

    def _ended(self, task: DistantTask, last_checkpoint: int) -> None:
        task.ended, task.last_checkpoint = True, last_checkpoint
        self._coordinator.finished(task)
        if all(other.ended for other in self._tasks.values()):
            # After their last messages about checkpoints, which the coordinator is about to receive.
            self._agenda.after(0.0, self._send_all, Stop())

    def _send_all(self, message: Start | Stop) -> None:
        for number in reversed(range(len(self._numbers))):  # its own process last, since it may stop
            self._send(number, message)

    def _task(self, key: TaskKey) -> DistantTask:
        task = self._tasks.get(key)
        if task is None:
            raise RemoteProtocolError(f"a message came from subtask {key}, which does not exist")
        return task

    def end(self, *, failed: bool) -> list[CheckpointRecord]:
        """End the attempt: drop pending checkpoints, and return all checkpoints of the attempt."""
        if failed:
            self._coordinator.stop()
        for checkpoint in self._coordinator.pending:
            record_checkpoint(self._recorder, checkpoint)
        self._coordinator.release()
        return checkpoint_records(self._recorder)


def _stored(
    assignment: Assignment, restored: CheckpointMetadata | None, storage: CheckpointStorage
) -> list[CheckpointMetadata]:
    """Return the retained checkpoints of this run up to the restored one, oldest first.

    A checkpoint whose metadata cannot be read is omitted and stays in the storage.
    """
    if restored is None or assignment.from_initial:
        return []
    earlier = []
    for number in assignment.retained:
        with suppress(StorageError):
            if number < restored.checkpoint_id:
                earlier.append(storage.load(number))
    return [*earlier, restored]
