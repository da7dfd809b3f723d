"""The front of a subpartition's queue: what overtakes data, and what may still do so.

An unaligned barrier goes into a *priority part* in front of all data, and whoever adds it gets copies of
the data behind it, which become part of the checkpoint::

    [priority events] [data, events, ...] <- ordinary additions
                     ^ overtake             copies of the data from here on

A barrier with a timeout waits in its turn. If it is still queued when the timeout comes, it leaves its
place for the priority part, and the data that stood before it is what was overtaken. The rules are those
of Flink's PipelinedSubpartition.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from flowcontrol import PRIORITY_TYPES

from .blank_bytes import Content
from .buffer import BufferConsumer, BufferSlice, EventBuffer, EventConsumer

Settled = Callable[[list[Content] | None], None]
"""Is told the data that a barrier with a timeout has overtaken, if any; None: that will never be known."""


class _Timeoutable(NamedTuple):
    checkpoint_id: int
    consumer: EventConsumer
    settled: Settled


class PriorityPart:
    """The first `count` items of `queue`, all of them events, and the barrier that may still join them.

    There is at most one such barrier: unaligned checkpoints do not overlap.
    """

    __slots__ = ("_queue", "_timeoutable", "count")

    def __init__(self, queue: list[BufferConsumer | EventConsumer]) -> None:
        self.count = 0
        self._queue = queue
        self._timeoutable: _Timeoutable | None = None

    def add(self, event: EventConsumer) -> None:
        """Put `event` before all data, behind earlier priority events.

        Raises:
            ValueError: if its type has no priority.
        """
        if event.data_type not in PRIORITY_TYPES:
            raise ValueError(f"{event.data_type.name} may not overtake data")
        self._queue.insert(self.count, event)
        self.count += 1

    def data_behind(self, stop: int | None = None) -> list[Content]:
        """Unread bytes of each data buffer behind the priority part, up to item `stop`; no empty ones."""
        items = islice(self._queue, self.count, stop)
        return [item.copy_unread() for item in items if isinstance(item, BufferConsumer) and item.unread]

    def expect(self, checkpoint_id: int, consumer: EventConsumer, settled: Settled) -> None:
        """Remember a barrier that may time out; `settled` is called once.

        One that is still expected fails: concurrent unaligned checkpoints are not possible.
        """
        self.settle(None)
        self._timeoutable = _Timeoutable(checkpoint_id, consumer, settled)

    def time_out(self, checkpoint_id: int, unaligned: EventConsumer) -> bool:
        """Let the barrier of a checkpoint overtake, as `unaligned`; False if it is not expected any more.

        Raises:
            ValueError: if the type of `unaligned` has no priority.
        """
        waiting = self._timeoutable
        if waiting is None or waiting.checkpoint_id != checkpoint_id:
            return False
        place = self._queue.index(waiting.consumer)
        overtaken = self.data_behind(place)
        self.add(unaligned)
        del self._queue[place + 1]
        waiting.consumer.close()
        self._timeoutable = None
        waiting.settled(overtaken)
        return True

    def polled(self, event: BufferSlice | EventBuffer) -> None:
        """A blocking event was handed out: if it is the barrier that could time out, it cannot any more."""
        if self._timeoutable is not None and self._timeoutable.consumer.build() is event:
            self.settle([])

    def settle(self, overtaken: list[Content] | None) -> None:
        """The barrier that could time out, if there is one, cannot any more."""
        waiting = self._timeoutable
        if waiting is not None:
            self._timeoutable = None
            waiting.settled(overtaken)


NOTHING_IN_FRONT = PriorityPart([])
"""Stands for the priority part of every queue that has had none so far; nothing may be added to it."""
