"""What the checkpoints of a task need of it; all else of a task is none of their business."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from buffers import Content
from flowcontrol import Event

from ..checkpoints.pending_checkpoint import CheckpointedTask
from ..exchange.channel import InputChannel
from ..state.subtask_state import SubtaskState
from .environment import Environment, Output


class CheckpointingTask(CheckpointedTask, Protocol):
    """A task as its own checkpoints see it."""

    @property
    def environment(self) -> Environment:
        """What it shares with all others."""
        ...

    @property
    def name(self) -> str:
        """The name of its vertex."""
        ...

    @property
    def state(self) -> SubtaskState:
        """What a snapshot is taken of."""
        ...

    @property
    def outputs(self) -> Sequence[Output]:
        """Where barriers are sent on."""
        ...

    @property
    def readers(self) -> Sequence[tuple[str, Sequence[int]]]:
        """For each output, the vertex that reads it and the index of its subtask by subpartition."""
        ...

    @property
    def data_ended(self) -> bool:
        """Whether the last record has been processed."""
        ...

    @property
    def had_ended(self) -> bool:
        """Whether it had processed its last record before the checkpoint that it began from."""
        ...

    @property
    def traced(self) -> bool:
        """Whether somebody wants to know what happens."""
        ...

    def trace(self, text: str, checkpoint_id: int | None = None) -> None:
        """Tell what happens."""
        ...

    def post(self, mail: Callable[[], None]) -> None:
        """Have `mail` handled between two records."""
        ...

    def stall(self, duration: float) -> None:
        """Do nothing for `duration` seconds, once the mail has been handled."""
        ...

    def broadcast(self, event: Event) -> None:
        """Send `event` to all consumers, behind all that has been written."""
        ...

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Complete the state: it is about to be snapshotted."""
        ...

    def unconsumed(self, channel: InputChannel) -> list[Content]:
        """What of `channel` has been read and not been processed."""
        ...
