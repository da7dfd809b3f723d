"""The arrival queue of a receiving channel: what came over the wire, with a priority part in front.

::

    poll <- [announcement, unaligned barrier] [data, data, event, data] <- add
                                                         ^ the place of the latest barrier

A barrier that overtook on its way goes to the front. One that may time out keeps its place and an
announcement of it goes to the front; `prioritize` then moves the barrier itself there. In both cases the
queue remembers which item came last before the barrier: data up to that one is *in flight*, part of the
checkpoint. So data needs no sequence numbers here, and their overflow cannot matter. The rules are those
of Flink's RemoteInputChannel.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from flowcontrol import DataType

from .buffer import EventBuffer, ReceivedBuffer

_DATA: Final = DataType.DATA_BUFFER


class RecoveredBuffer:
    """A piece of the data that was in flight when a checkpoint was taken; in heap memory."""

    __slots__ = ("payload", "size")

    data_type = _DATA
    is_event = False

    def __init__(self, payload: memoryview) -> None:
        self.payload = payload
        self.size = len(payload)

    def release(self) -> None:
        """Nothing to give back."""


def recovered_buffers(data: bytes, segment_bytes: int) -> Iterator[RecoveredBuffer]:
    """Cut recovered data into buffers of at most `segment_bytes` bytes; no data, no buffer."""
    view = memoryview(data)
    for start in range(0, len(view), segment_bytes):
        yield RecoveredBuffer(view[start : start + segment_bytes])


Queued = ReceivedBuffer | RecoveredBuffer | EventBuffer


class ChannelQueue:
    """Items of one channel in the order in which they are to be polled.

    Invariant: the priority part holds events only.
    """

    __slots__ = ("_announced", "_barrier_known", "_items", "_last_before_barrier", "_priority")

    def __init__(self) -> None:
        self._items: list[Queued] = []  # a deque takes 760 bytes, empty or not
        self._priority: tuple[EventBuffer, ...] = ()  # hardly ever more than one
        self._barrier_known = False
        self._last_before_barrier: Queued | None = None
        self._announced: tuple[int, EventBuffer, EventBuffer] | None = None

    def __len__(self) -> int:
        """Buffers and events that are queued."""
        return len(self._items) + len(self._priority)

    def add(self, item: Queued) -> None:
        """Append data, or an event that is no barrier."""
        self._items.append(item)

    @property
    def queued_bytes(self) -> int:
        """Bytes of all that is queued."""
        if not self._items and not self._priority:
            return 0  # most are empty, and many are asked
        return sum([item.size for item in chain(self._priority, self._items)])

    @property
    def queued_events(self) -> list[EventBuffer]:
        """The events that are queued, in the order in which they are to be polled."""
        return [item for item in chain(self._priority, self._items) if isinstance(item, EventBuffer)]

    @property
    def has_priority(self) -> bool:
        """Whether the next item is one of the priority part."""
        return bool(self._priority)

    def add_priority(self, event: EventBuffer) -> bool:
        """Put `event` behind earlier priority events; returns whether it is the only one."""
        self._priority = (*self._priority, event)
        return len(self._priority) == 1

    def announce(self, barrier: EventBuffer, sequence_number: int, announcement: EventBuffer) -> bool:
        """Append `barrier`, and tell of it in front; returns as `add_priority` does."""
        self._items.append(barrier)
        self._announced = sequence_number, barrier, announcement
        return self.add_priority(announcement)

    def note_barrier(self) -> None:
        """A checkpoint's barrier has just been added: what is queued now came before it."""
        self._barrier_known = True
        self._last_before_barrier = self._items[-1] if self._items else None

    def forget_barrier(self) -> None:
        """The checkpoint of the barrier that was noted is over."""
        self._barrier_known = False
        self._last_before_barrier = None

    def in_flight(self) -> list[ReceivedBuffer | RecoveredBuffer]:
        """Queued data in front of the noted barrier, whether that was polled or not; all data if none is."""
        data: list[ReceivedBuffer | RecoveredBuffer] = []
        for item in self._items:
            if not isinstance(item, EventBuffer):
                data.append(item)
            if item is self._last_before_barrier:
                return data
        return [] if self._barrier_known else data

    def prioritize(self, sequence_number: int) -> bool:
        """Move an announced barrier to the priority part, and drop its announcement if it is still there.

        The barrier stays what it is, only its type says that it has priority. Returns whether it was still
        queued behind data.
        """
        if self._announced is None or self._announced[0] != sequence_number:
            return False
        _, barrier, announcement = self._announced
        self._announced = None
        if barrier not in self._items:
            return False
        place = self._items.index(barrier)
        del self._items[place]
        if self._last_before_barrier is barrier:
            self._last_before_barrier = self._items[place - 1] if place else None
        others = [event for event in self._priority if event is not announcement]
        payload = bytes(barrier.payload)
        self._priority = (*others, EventBuffer(payload, DataType.PRIORITIZED_EVENT_BUFFER))
        return True

    def poll(self) -> tuple[Queued, bool]:
        """Take the next item; also tells whether more is queued.

        Raises:
            IndexError: if nothing is.
        """
        items = self._items
        if self._priority:
            event, *later = self._priority
            self._priority = tuple(later)
            return event, bool(later or items)
        return items.pop(0), bool(items)

    def clear(self) -> None:
        """Release all that is queued."""
        self.forget_barrier()
        self._announced = None
        self._priority = ()  # events hold no memory
        while self._items:
            self._items.pop(0).release()
