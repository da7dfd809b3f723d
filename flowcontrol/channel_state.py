"""Which data that arrives on a channel belongs to an unaligned checkpoint.

Once the task has triggered the checkpoint, everything in front of its barrier in this channel was sent
before the barrier but will be processed after the snapshot, so it is part of the checkpoint::

    processed | queued at start(7)  |  arrives later  | barrier 7 | ...
              |<-- persist at once->|<-- as it comes->|   done

| | start(id) | barrier(id) | stop(id) |
|---|---|---|---|
| id older than the newest seen | | | |
| the newest one, pending | stays pending | done | done |
| the newest one, not pending | | | |
| a newer one | pending | done: a later start has nothing to wait for | done |
"""

from __future__ import annotations

from .barrier_handler import NO_CHECKPOINT


class ChannelStatePersister:
    """Tells of one input channel whether arriving data is to be persisted (Flink's class of this name).

    One checkpoint at a time. In Flink, the barrier of a checkpoint that was given up before this task began
    it keeps later ones from persisting until they are stopped; here it does not.
    """

    __slots__ = ("_newest", "_pending")

    def __init__(self) -> None:
        self._newest = NO_CHECKPOINT
        self._pending = False

    @property
    def pending(self) -> int | None:
        """The checkpoint that arriving data buffers are persisted for; None: for no one."""
        return self._newest if self._pending else None

    def start(self, checkpoint_id: int) -> bool:
        """The task triggers the checkpoint; returns whether its barrier has yet to arrive here.

        True: what is queued belongs to it, and everything that arrives while it is `pending`. False: the
        barrier of this checkpoint was here already, so only what is queued before it belongs to it; or a
        newer checkpoint came in between, or this one is over.
        """
        if checkpoint_id > self._newest:
            self._newest = checkpoint_id
            self._pending = True
        return self.pending == checkpoint_id

    def barrier(self, checkpoint_id: int) -> None:
        """The barrier of a checkpoint has arrived; an older one than the newest seen is ignored."""
        self._end(checkpoint_id)

    def stop(self, checkpoint_id: int) -> None:
        """The checkpoint is complete or given up; an older one than the newest seen is ignored."""
        self._end(checkpoint_id)

    def _end(self, checkpoint_id: int) -> None:
        if checkpoint_id >= self._newest:
            self._newest = checkpoint_id
            self._pending = False
