"""The leader: what process 0 does for the whole job, beside its own part of it.

It lets all begin together, owns the coordinator of checkpoints, and ends the job when all subtasks have
ended. It works on messages alone, and treats its own process like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from flowcontrol import RemoteProtocolError

from ..checkpoints.control_plane import ControlPlane, TaskKey
from ..checkpoints.coordinator import CheckpointCoordinator
from ..checkpoints.pending_checkpoint import record_checkpoint
from ..checkpoints.recovery import InitialCheckpoint
from ..checkpoints.savepoints import SavepointRequest, SavepointRequests
from ..checkpoints.storage import CheckpointStorage
from ..errors import StorageError
from ..jobs.job import shape_after
from ..results.recorder import Recorder
from ..state.snapshots import CheckpointMetadata
from ..tasks.environment import Environment
from .assignments import Assignment, CheckpointRecord, checkpoint_records, task_managers
from .messages import (
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

if TYPE_CHECKING:
    from .task_manager import RunClock

LEADER = 0
"""The number of its process."""

NOTICE_S = 0.2
"""Time between the start message and the start."""


class Leader:
    """Leads all processes through one attempt.

    `send` takes the number of a process and a message for it, `fail` why the job cannot go on. The job goes
    on from the checkpoint `restored`, if there is one, which may be the `initial` one of another run, and
    `clock` has been running then.
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
        savepoint_requests: SavepointRequests | None = None,
    ) -> None:
        self.running_at: float | None = None
        self._scenario = scenario = assignment.scenario
        self._agenda = environment.agenda
        self._clock = clock
        self._send = send
        self._savepoint_requests = savepoint_requests
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
            control_plane=ControlPlane(environment.agenda),
            on_end=partial(record_checkpoint, self._recorder),
            fail_job=fail,
            first_id=assignment.first_checkpoint,
            stored=_stored(assignment, restored, environment.storage),
            initial=initial,
            trace=environment.trace,
        )

    def receive(self, sender: int, message: ToLeader) -> None:
        """Take a message from a process.

        Raises:
            RemoteProtocolError: if it is about a subtask that does not exist.
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
        """All are ready: let them begin at the same moment, which is a little later."""
        origin, begins_at = self._clock.origin, self._clock() + NOTICE_S
        if origin is None:
            origin, begins_at = self._clock.wall_time + NOTICE_S, 0.0
        if begins_at >= self._scenario.duration_s:  # it took too long to come back
            self._send_all(Stop())
            return
        for at in self._scenario.manual_checkpoints_s:
            if at >= begins_at:
                self._agenda.at(at, self._coordinator.request_checkpoint)
        for savepoint in self._scenario.savepoints:
            if savepoint.at_s >= begins_at:
                self._agenda.at(
                    savepoint.at_s, self._coordinator.request_savepoint, SavepointRequest.of(savepoint)
                )
        if self._savepoint_requests is not None:
            self._coordinator.take_requests(self._savepoint_requests)
        self._send_all(Start(origin, begins_at))

    def _ended(self, task: DistantTask, last_checkpoint: int) -> None:
        task.ended, task.last_checkpoint = True, last_checkpoint
        self._coordinator.finished(task)
        if all(other.ended for other in self._tasks.values()):
            # Behind what they have said of checkpoints, which the coordinator is about to hear.
            self._agenda.after(0.0, self._send_all, Stop())

    def _send_all(self, message: Start | Stop) -> None:
        for number in reversed(range(len(self._numbers))):  # its own process last: it may stop
            self._send(number, message)

    def _task(self, key: TaskKey) -> DistantTask:
        task = self._tasks.get(key)
        if task is None:
            raise RemoteProtocolError(f"a message came from subtask {key}, which does not exist")
        return task

    def end(self, *, failed: bool) -> list[CheckpointRecord]:
        """The attempt is over: give up what is pending, and return all its checkpoints."""
        if failed:
            self._coordinator.stop()
        for checkpoint in self._coordinator.pending:
            record_checkpoint(self._recorder, checkpoint)
        self._coordinator.release()
        return checkpoint_records(self._recorder)


def _stored(
    assignment: Assignment, restored: CheckpointMetadata | None, storage: CheckpointStorage
) -> list[CheckpointMetadata]:
    """Return the checkpoints of this run that are kept, up to the restored one, oldest first.

    One whose metadata cannot be read is left out and stays where it is.
    """
    if restored is None or assignment.from_initial:
        return []
    earlier = []
    for number in assignment.retained:
        with suppress(StorageError):
            if number < restored.checkpoint_id:
                earlier.append(storage.load(number))
    return [*earlier, restored]
