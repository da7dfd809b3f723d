"""State of one input channel in its newest checkpoint: arrival of the barrier, and data to persist.

When the task begins an unaligned checkpoint, data that was sent before the barrier may still be queued or on
the way. The task processes this data after the snapshot, so the data is part of the checkpoint::

    processed | queued at start(7)  |  arrives later  | barrier 7 | ...
              |<-- persist at once->|<- on arrival -->|   done

A channel is in one of three states in its newest checkpoint: OVER, PERSISTING (begun, barrier not arrived),
ARRIVED (barrier arrived). A cell of the table is the new state; an empty cell means no change. Older
checkpoints are ignored:

| checkpoint `id` | start(id) | arrive(id) | stop(id) |
|---|---|---|---|
| newer than the newest so far | PERSISTING | ARRIVED | OVER |
| the newest, in state PERSISTING | | ARRIVED | OVER |
| the newest, in state ARRIVED | | | OVER |
| the newest, in state OVER | | | |
"""

from __future__ import annotations

from typing import Generic, TypeVar

from .barrier_handler import NO_CHECKPOINT

__all__ = ["ChannelBarrier"]

ItemT = TypeVar("ItemT")
"""An item of the channel's queue."""


class ChannelBarrier(Generic[ItemT]):
    """State of one input channel in its newest checkpoint (extends Flink's ChannelStatePersister).

    `persisting`: the checkpoint that arriving data belongs to, or None. `arrived`: whether the barrier of the
    newest checkpoint has arrived. `last_before`: the item that was queued directly in front of this barrier,
    or None if the queue was empty. A checkpoint may be aborted before this task begins it. Its barrier then
    does not prevent later checkpoints from persisting data, as it does in Flink.
    """

    __slots__ = ("_announced", "_newest", "arrived", "last_before", "persisting")

    def __init__(self) -> None:
        self._newest = NO_CHECKPOINT
        self.persisting: int | None = None
        self.arrived = False
        self.last_before: ItemT | None = None
        self._announced: tuple[int, ItemT, ItemT] | None = None

    def start(self, checkpoint_id: int) -> bool:
        """Begin a checkpoint; returns whether queued data in front of its barrier is part of it.

        If the barrier has not arrived, all queued data is in front of it. Returns False if the checkpoint is
        over, or if a newer checkpoint has begun.
        """
        if checkpoint_id > self._newest:
            self._newest, self.persisting = checkpoint_id, checkpoint_id
            self.arrived, self.last_before = False, None
        return checkpoint_id == self._newest and (self.arrived or self.persisting is not None)

    def arrive(self, checkpoint_id: int, last_before: ItemT | None) -> None:
        """Record the arrival of the barrier of a checkpoint, and the item queued directly in front of it."""
        if checkpoint_id > self._newest or checkpoint_id == self.persisting:
            self._newest, self.persisting = checkpoint_id, None
            self.arrived, self.last_before = True, last_before

    def stop(self, checkpoint_id: int) -> None:
        """End a checkpoint, completed or aborted, and all older ones."""
        if checkpoint_id >= self._newest:
            self._newest, self.persisting = checkpoint_id, None
            self.arrived, self.last_before = False, None

    def announce(self, sequence_number: int, barrier: ItemT, announcement: ItemT) -> None:
        """Record the `announcement` of the barrier with this sequence number."""
        self._announced = sequence_number, barrier, announcement

    def take_announced(self, sequence_number: int) -> tuple[ItemT, ItemT] | None:
        """Return the announced barrier with this sequence number and its announcement, and forget both."""
        if self._announced is None or self._announced[0] != sequence_number:
            return None
        _, barrier, announcement = self._announced
        self._announced = None
        return barrier, announcement
