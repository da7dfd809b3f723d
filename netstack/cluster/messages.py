"""The control plane between the processes of a job: its messages as bytes, and both ends.

::

    every process   Ready ------> leader         its subtasks are built
    leader          Start ------> every process  when t = 0 was or will be, and when the tasks open
    every process   Running ----> leader         its subtasks have their state again
    leader          Trigger, Completed, Aborted -> a subtask
    a subtask       Acknowledge, Decline, Ended -> leader
    leader          Stop -------> every process  all subtasks have ended

They are MessagePack with a tag, and travel in order on the connections that carry the records. Flink has RPCs
between its job manager and its task managers. The coordinator sees every subtask as a `DistantTask`, a
subtask sees the coordinator as a `DistantCoordinator`; both turn calls into messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from flowcontrol import CheckpointBarrier, RemoteProtocolError, readable

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.pending_checkpoint import Acknowledgement, CheckpointedTask, key_of
from ..scenarios.scenario import Scenario
from ..scenarios.topology import consumers_of_producers
from ..state.snapshots import StoredFile
from ..tasks.subtask import Subtask


class Ready(msgspec.Struct, frozen=True, tag=True):
    """All subtasks of the sender are built."""


class Start(msgspec.Struct, frozen=True, tag=True):
    """Open the tasks `begins_at` seconds after `origin`, which is a moment of the wall clock."""

    origin: float
    begins_at: float


class Running(msgspec.Struct, frozen=True, tag=True):
    """All subtasks of the sender run, with the state that they had to read."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """The job is over: all its subtasks have ended."""


class TriggerCheckpoint(msgspec.Struct, frozen=True, tag=True):
    """Subtask `task` is to begin a checkpoint."""

    task: TaskKey
    barrier: CheckpointBarrier


class Completed(msgspec.Struct, frozen=True, tag=True):
    """A checkpoint is complete everywhere."""

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
    """Subtask `task` has given a checkpoint up."""

    task: TaskKey
    checkpoint_id: int
    reason: str
    detail: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """Subtask `task` has nothing to do any more; `last_checkpoint` is the last one that it began."""

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
    """Return the bytes of a message."""
    return _encoder.encode(message)


def decode_control(payload: bytes) -> Control:
    """Return the message in these bytes; what it has of text is readable.

    Raises:
        RemoteProtocolError: if they are none.
    """
    try:
        message = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = readable(str(error))  # it may quote the message
        raise RemoteProtocolError(f"a control message of {len(payload)} bytes: {problem}") from None
    if isinstance(message, Decline):
        return Decline(
            message.task, message.checkpoint_id, readable(message.reason), readable(message.detail)
        )
    return message


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
        (number, index): DistantTask((number, index), partial(tell, vertex.manager_of(0)))
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
