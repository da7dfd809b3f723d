"""Traces: the steps of checkpoints, as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from flowcontrol import (
    Action,
    AlignmentEnd,
    AlignmentMetrics,
    CheckpointBarrier,
    CheckpointOptions,
    Resume,
    Trigger,
)

__all__ = ["Trace", "TraceEvent", "TraceLog"]


class Trace(Protocol):
    """A listener for trace events; called with the emulated time in seconds, the place, and the event.

    `checkpoint_id`: the checkpoint to which the event belongs, if any.
    """

    def __call__(self, at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        """Process one event."""


class TraceEvent(NamedTuple):
    """One step: the time in seconds, the subtask (or the coordinator, or the job), and the event."""

    at: float
    place: str
    text: str
    checkpoint_id: int | None = None

    def __str__(self) -> str:
        return f"{self.at * 1000:10.1f} ms  {self.place:<14} {self.text}"


class TraceLog(list[TraceEvent]):
    """Keeps all trace events, in order."""

    def __call__(self, at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        """Append one event."""
        self.append(TraceEvent(at, place, text, checkpoint_id))


def how(options: CheckpointOptions) -> str:
    """Return a short text for how a checkpoint is aligned."""
    words = options.alignment.name.lower().replace("_", " ")
    if options.timeoutable and options.timeout_s is not None:
        return f"{words}, but for at most {milliseconds(options.timeout_s)}"
    return words


def snapshot_text(barrier: CheckpointBarrier, metrics: AlignmentMetrics | None, sends: bool) -> str:
    """Return the text for a subtask that begins a checkpoint; `sends`: whether it sends the barrier
    downstream.
    """
    missing = ", before its last barrier has arrived" if metrics is None else ""
    sent = "; barrier sent downstream" if sends else ""
    return f"snapshot for checkpoint {barrier.checkpoint_id}{missing}{sent}"


def barrier_text(barrier: CheckpointBarrier, sender: str, channel: int, actions: Sequence[Action]) -> str:
    """Return the text for a barrier that has arrived on a channel, and its effect on that channel."""
    text = f"barrier {barrier.checkpoint_id} from {sender}"
    triggers = [action for action in actions if isinstance(action, Trigger)]
    is_aligned = any(trigger.metrics is not None for trigger in triggers)
    if is_aligned or any(isinstance(action, AlignmentEnd) for action in actions):
        return f"{text}: the last one"
    if barrier.options.is_unaligned:
        return f"{text}, which has overtaken its data"
    if not barrier.options.needs_alignment:
        return f"{text}: its channel is not blocked"
    if Resume(channel) in actions:
        return f"{text}: too late for this checkpoint"
    turns = ", and the checkpoint continues unaligned" if triggers else ""
    return f"{text}: its channel is blocked{turns}"


def acknowledgement_text(checkpoint_id: int, total: int, in_flight: int) -> str:
    """Return the text for a subtask that has stored `total` bytes, `in_flight` of them channel state."""
    return f"acknowledges checkpoint {checkpoint_id}: {_sizes(total, in_flight)}"


def restored_text(total: int, in_flight: int) -> str:
    """Return the text for a subtask that restores `total` bytes, `in_flight` of them channel state."""
    return f"restores {_sizes(total, in_flight)}"


def _sizes(total: int, in_flight: int) -> str:
    state = f"{in_bytes(total - in_flight)} of state"
    return f"{state}, {in_bytes(in_flight)} in flight" if in_flight else state


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds, with one decimal."""
    return f"{seconds * 1000:.1f} ms"


def in_bytes(count: int) -> str:
    """Return a number of bytes as text."""
    return "1 byte" if count == 1 else f"{count:,} bytes"
