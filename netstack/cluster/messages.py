"""What the processes of a job tell each other beside its records: the control plane, as bytes.

::

    every process   Ready ------> leader         its subtasks are built
    leader          Start ------> every process  when t = 0 was or will be, and when the tasks open
    every process   Running ----> leader         its subtasks have their state again
    leader          Trigger, Completed, Aborted -> a subtask
    a subtask       Acknowledge, Decline, Ended -> leader
    leader          Stop -------> every process  all subtasks have ended

They are MessagePack with a tag, and travel in order on the connections that carry the records. What Flink
has for this are RPCs between its job manager and its task managers.
"""

from __future__ import annotations

import msgspec

from flowcontrol import CheckpointBarrier, RemoteProtocolError, readable

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.pending_checkpoint import Acknowledgement


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
"""What the leader tells a subtask."""

ToLeader = Ready | Running | Acknowledge | Decline | Ended
"""What the leader is told."""

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
