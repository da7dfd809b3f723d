"""The arrival queue of a receiving channel: items from the wire, with a priority part in front.

::

    poll <- [announcement, unaligned barrier] [data, data, event, data] <- add
                                                         ^ the place of the latest barrier

A barrier that has overtaken data upstream goes to the front. A barrier with a timeout keeps its place, and
its announcement goes to the front. After the timeout, `prioritize` moves the barrier itself to the front. In
both cases the channel's `ChannelBarrier` stores the last item before the barrier: data up to this item is *in
flight* and part of the checkpoint. No sequence numbers of data are compared, so their overflow does no harm.
The rules are those of Flink's RemoteInputChannel.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from flowcontrol import ChannelBarrier, DataType

from .buffer import EventBuffer, ReceivedBuffer

__all__ = ["ChannelQueue", "Queued", "RecoveredBuffer", "recovered_buffers"]

_DATA: Final = DataType.DATA_BUFFER


class RecoveredBuffer:
    """A piece of the in-flight data of a checkpoint, restored to heap memory."""

    __slots__ = ("payload", "size")

    data_type = _DATA
    is_event = False

    def __init__(self, payload: memoryview) -> None:
        self.payload = payload
        self.size = len(payload)

    def release(self) -> None:
        """Do nothing: there is no segment to return."""


def recovered_buffers(data: bytes, segment_bytes: int) -> Iterator[RecoveredBuffer]:
    """Split recovered data into buffers of at most `segment_bytes` bytes. Empty data yields no buffer."""
    view = memoryview(data)
    for start in range(0, len(view), segment_bytes):
        yield RecoveredBuffer(view[start : start + segment_bytes])


Queued = ReceivedBuffer | RecoveredBuffer | EventBuffer
"""An item of the arrival queue of a channel."""


class ChannelQueue:
    """Items of one channel in the order in which they are polled.

    Invariant: the first `_in_front` items are the priority part, all of them events.
    """

    __slots__ = ("_in_front", "_items")

    def __init__(self) -> None:
        self._items: list[Queued] = []  # a deque takes 760 bytes even if empty
        self._in_front = 0

    def __len__(self) -> int:
        """Number of queued buffers and events."""
        return len(self._items)

    def add(self, item: Queued) -> None:
        """Append data, or an event that is not a barrier."""
        self._items.append(item)

    @property
    def queued_bytes(self) -> int:
        """Bytes of all queued items."""
        if not self._items:
            return 0  # fast path: most queues are empty
        return sum([item.size for item in self._items])

    @property
    def queued_events(self) -> list[EventBuffer]:
        """Queued events, in the order in which they are polled."""
        return [item for item in self._items if isinstance(item, EventBuffer)]

    @property
    def has_priority(self) -> bool:
        """Whether the next item belongs to the priority part."""
        return self._in_front > 0

    def add_priority(self, event: EventBuffer) -> bool:
        """Append `event` to the priority part; returns whether it is the only event there."""
        self._items.insert(self._in_front, event)
        self._in_front += 1
        return self._in_front == 1

    @property
    def last(self) -> Queued | None:
        """The last item after the priority part, or None."""
        return self._items[-1] if len(self._items) > self._in_front else None

    def in_flight(self, barrier: ChannelBarrier[Queued]) -> list[ReceivedBuffer | RecoveredBuffer]:
        """Return the queued data in front of the barrier; all queued data if the barrier has not arrived."""
        data: list[ReceivedBuffer | RecoveredBuffer] = []
        for item in islice(self._items, self._in_front, None):
            if not isinstance(item, EventBuffer):
                data.append(item)
            if item is barrier.last_before:
                return data
        return [] if barrier.arrived else data

    def prioritize(self, barrier: ChannelBarrier[Queued], sequence_number: int) -> bool:
        """Move an announced barrier to the priority part, and drop its announcement if it is still queued.

        The barrier's buffer gets the type of a priority event. Returns whether the barrier was still queued
        behind data.
        """
        announced = barrier.take_announced(sequence_number)
        if announced is None or announced[0] not in self._items:
            return False
        event, announcement = announced
        assert isinstance(event, EventBuffer)
        place = self._items.index(event)
        del self._items[place]
        if barrier.last_before is event:
            barrier.last_before = self._items[place - 1] if place > self._in_front else None
        if announcement in self._items:
            self._items.remove(announcement)
            self._in_front -= 1
        self.add_priority(event.with_priority())
        return True

    def poll(self) -> tuple[Queued, bool]:
        """Remove and return the next item, and whether more items are queued.

        Raises:
            IndexError: if the queue is empty.
        """
        item = self._items.pop(0)
        if self._in_front:
            self._in_front -= 1
        return item, bool(self._items)

    def clear(self) -> None:
        """Release all queued items."""
        self._in_front = 0
        while self._items:
            self._items.pop(0).release()
