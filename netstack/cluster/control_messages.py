"""The control plane between the processes of a job: its messages, their encoding, and both ends.

::

    every process   Ready ------> leader         its subtasks are built
    leader          Start ------> every process  when t = 0 was or will be, and when the tasks open
    every process   Running ----> leader         its subtasks have their state again
    leader          Trigger, Completed, Aborted -> a subtask
    a subtask       Acknowledge, Decline, Ended -> leader
    leader          Stop -------> every process  all subtasks have ended

Messages are encoded as MessagePack with a tag. They keep their order and use the connections that carry the
records. In Flink they are RPCs between the job manager and the task managers. For the coordinator, a
`DistantTask` represents each subtask. For a subtask, a `DistantCoordinator` represents the coordinator. Both
turn calls into messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from flowcontrol import (
    CheckpointBarrier,
    FailureReason,
    RemoteProtocolError,
    readable,
)

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.pending_checkpoint import Acknowledgement, CheckpointedTask, key_of
from ..scenarios.scenario import Scenario
from ..state.handles import StoredFile
from ..tasks.subtask import Subtask


class Ready(msgspec.Struct, frozen=True, tag=True):
    """All subtasks of the sender are built."""


class Start(msgspec.Struct, frozen=True, tag=True):
    """Open the tasks `begins_at` seconds after `origin`, a time of the wall clock."""

    origin: float
    begins_at: float


class Running(msgspec.Struct, frozen=True, tag=True):
    """All subtasks of the sender are running, with their restored state."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """All subtasks of the job have ended."""


class TriggerCheckpoint(msgspec.Struct, frozen=True, tag=True):
    """Subtask `task` has to begin a checkpoint."""

    task: TaskKey
    barrier: CheckpointBarrier


class Completed(msgspec.Struct, frozen=True, tag=True):
    """A checkpoint has been completed by all subtasks."""

    task: TaskKey
    checkpoint_id: int


class Aborted(msgspec.Struct, frozen=True, tag=True):
    """A checkpoint has failed."""

    task: TaskKey
    checkpoint_id: int


class Acknowledge(msgspec.Struct, frozen=True, tag=True):
    """Subtask `task` has taken its part of a checkpoint."""

    task: TaskKey
    report: Acknowledgement


class Decline(msgspec.Struct, frozen=True, tag=True):
    """Subtask `task` has declined a checkpoint."""

    task: TaskKey
    checkpoint_id: int
    reason: FailureReason
    detail: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """Subtask `task` has ended; `last_checkpoint` is the last checkpoint that it has begun."""

    task: TaskKey
    last_checkpoint: int


ToTask = TriggerCheckpoint | Completed | Aborted
"""Messages of the leader to a subtask."""

ToLeader = Ready | Running | Acknowledge | Decline | Ended
"""Messages to the leader."""

Control = Start | Stop | ToTask | ToLeader
"""Every message between the leader and the other processes."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)


def encode_control(message: Control) -> bytes:
    """Encode a message."""
    return _encoder.encode(message)


def decode_control(payload: bytes) -> Control:
    """Decode a message; unprintable characters in its text are escaped.

    Raises:
        RemoteProtocolError: if the bytes are not a message.
    """
    try:
        message = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = readable(str(error))  # the error may quote the message
        raise RemoteProtocolError(
            f"a control message of {len(payload)} bytes is invalid: {problem}"
        ) from None
    if isinstance(message, Decline):
        return Decline(message.task, message.checkpoint_id, message.reason, readable(message.detail))
    return message


def deliver(message: ToTask, subtask: Subtask) -> None:
    """Pass a message of the coordinator to a subtask of this process."""
    match message:
        case TriggerCheckpoint(_, barrier):
            subtask.trigger_checkpoint(barrier)
        case Completed(_, checkpoint_id):
            subtask.checkpoint_completed(checkpoint_id)
        case Aborted(_, checkpoint_id):
            subtask.checkpoint_aborted(checkpoint_id)


class DistantTask:
    """The coordinator's proxy for a subtask in another process; `send` sends a message to that process."""

    def __init__(self, key: TaskKey, send: Callable[[ToTask], None]) -> None:
        self.vertex, self.index = key
        self.upstream: list[DistantTask] = []
        self.ended = False
        self.last_checkpoint = 0
        self._key = key
        self._send = send

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Send a trigger for a checkpoint."""
        self._send(TriggerCheckpoint(self._key, barrier))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Report that a checkpoint is complete."""
        self._send(Completed(self._key, checkpoint_id))

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Report that a checkpoint has failed."""
        self._send(Aborted(self._key, checkpoint_id))


class DistantCoordinator:
    """Represents the leader's coordinator for the subtasks; `send` sends messages to the leader."""

    def __init__(self, send: Callable[[ToLeader], None]) -> None:
        self._send = send

    def acknowledge(self, subtask: CheckpointedTask, report: Acknowledgement) -> None:
        """Report that a subtask has taken its snapshot."""
        self._send(Acknowledge(key_of(subtask), report))

    def decline(
        self, subtask: CheckpointedTask, checkpoint_id: int, reason: FailureReason, detail: str = ""
    ) -> None:
        """Report that a subtask has declined a checkpoint."""
        self._send(Decline(key_of(subtask), checkpoint_id, reason, detail))

    def discard_unused(self, files: Iterable[StoredFile]) -> None:
        """Do nothing: this process does not know which files a checkpoint still needs."""

    def fail_task(self, subtask: CheckpointedTask, cause: str) -> None:
        """Fail a subtask that cannot continue.

        Raises:
            RuntimeError: always. The error fails this process, and with it the job.
        """
        raise RuntimeError(cause)

    def finished(self, subtask: CheckpointedTask) -> None:
        """Report that a subtask has ended."""
        self._send(Ended(key_of(subtask), subtask.last_checkpoint))


def distant_tasks(scenario: Scenario, send: Callable[[str, ToTask], None]) -> dict[TaskKey, DistantTask]:
    """Return a proxy for each subtask, in the order of the scenario; `send` sends a message to a task
    manager.
    """
    tasks = {
        (number, index): DistantTask((number, index), partial(send, vertex.manager_of(0)))
        for number, vertex in enumerate(scenario.vertices)
        for index in range(vertex.parallelism)
    }
    numbers = {vertex.name: number for number, vertex in enumerate(scenario.vertices)}
    for edge in scenario.edges:
        for source, targets in enumerate(scenario.consumers_reached(edge)):
            for target in targets:
                upstream = tasks[numbers[edge.source], source]
                tasks[numbers[edge.target], target].upstream.append(upstream)
    return tasks
