"""The queue of one subpartition: buffers and events between writer and reader.

Only the last buffer may still be open. The reader gets it when it is finished, followed by another item, or
flushed::

    add ->  [open] [finished] [finished] -> poll      backlog 2: the open buffer counts only after `flush` or
                                                      `finish`, or if an event follows it

A blocking barrier stops the queue when the reader takes it. Until the reader resumes, `poll` returns no item
and the backlog is 0. Priority events are an exception if `passes_priority` is set.

An unaligned barrier goes into a *priority part* in front of all data. The writer of the barrier gets copies
of the overtaken data, which become part of the checkpoint::

    [priority events] [data, events, ...] <- ordinary additions
                     ^ overtake             copies of the data from here on

A barrier with a timeout keeps its place in the queue. If it is still queued when the timeout expires, it
moves to the priority part. The data that was queued before it then counts as overtaken. The rules are those
of Flink's PipelinedSubpartition.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from flowcontrol import BLOCKING_TYPES, PRIORITY_TYPES, Polled, SubpartitionView

from .buffer import BufferConsumer, BufferSlice, EventBuffer, EventConsumer
from .payload import Content

__all__ = ["ADD_REFUSED", "UNLIMITED_SIZE", "PipelinedSubpartition"]

UNLIMITED_SIZE: Final = 2**31 - 1
"""The requested buffer size before the first announcement, in bytes."""

ADD_REFUSED: Final = -1
"""The result of `add` when the subpartition is finished or released."""


OnResolved = Callable[[list[Content] | None], None]
"""Callback for the data that a barrier with a timeout has overtaken; see `add_timeoutable`."""


class _Timeoutable(NamedTuple):
    """A barrier that is queued behind data and may still time out."""

    checkpoint_id: int
    consumer: EventConsumer
    on_resolved: OnResolved


class PipelinedSubpartition(SubpartitionView):
    """A queue of buffers and events between one writer and one reader.

    `on_data` notifies the reader that it can poll again; None while there is no reader. `on_priority` is
    called instead for a priority event, if set. `on_acknowledged` is called when the reader's task has
    processed all records; `acknowledged` is then True. `passes_priority`: whether `poll` returns priority
    events while the queue is blocked, as in Flink from 2.3 on. Checkpoints during recovery need this.
    Invariants: all queued buffers except the last are finished. `data_buffers` is the number of queued
    buffers that hold data. The first `in_front` items are the priority part, all of them events. At most one
    queued barrier may still time out, since unaligned checkpoints do not overlap.
    """

    __slots__ = (
        "_flush_requested",
        "_queue",
        "_sequence",
        "_timeoutable",
        "acknowledged",
        "blocked",
        "buffer_size",
        "data_buffers",
        "finished",
        "in_front",
        "index",
        "on_acknowledged",
        "on_data",
        "on_priority",
        "passes_priority",
        "receiver_exclusive",
        "released",
        "total_buffers",
        "total_bytes",
    )

    def __init__(
        self,
        index: int,
        *,
        starting_size: int = UNLIMITED_SIZE,
        receiver_exclusive: int = 2,
        passes_priority: bool = False,
    ) -> None:
        self.index = index
        self.passes_priority = passes_priority
        self.buffer_size = starting_size
        self.receiver_exclusive = receiver_exclusive
        self.on_data: Callable[[], None] | None = None
        self.on_priority: Callable[[], None] | None = None
        self.on_acknowledged: Callable[[], None] | None = None
        self.acknowledged = False
        self.blocked = False
        self.finished = False
        self.released = False
        self.data_buffers = 0
        self.total_buffers = 0
        self.total_bytes = 0
        self.in_front = 0
        self._timeoutable: _Timeoutable | None = None
        # Created when the first item is queued. Not a deque, which takes 760 bytes even if empty.
        self._queue: list[BufferConsumer | EventConsumer] | tuple[()] = ()
        self._flush_requested = False
        self._sequence = 0

    def __len__(self) -> int:
        """Number of queued buffers and events."""
        return len(self._queue)

    def add(self, consumer: BufferConsumer | EventConsumer) -> int:
        """Append a buffer or an event; returns the requested buffer size in bytes, or -1 if refused."""
        if self.finished or self.released:
            consumer.close()
            return ADD_REFUSED
        queue = self._queue
        if isinstance(queue, tuple):
            self._queue = queue = []
        queue.append(consumer)
        self.total_buffers += 1
        if not consumer.is_event:
            self.data_buffers += 1
        if not self._flush_requested and not self.blocked and self._finished_buffers() == 1:
            self._notify()
        return self.buffer_size

    def overtake(self, barrier: EventConsumer) -> list[Content]:
        """Put an unaligned barrier in front of all data; returns the unread bytes of each data buffer behind
        it.

        Returns an empty list if the subpartition is finished or released; the barrier is then dropped.

        Raises:
            ValueError: if the barrier's type has no priority.
        """
        if self.finished or self.released:
            barrier.close()
            return []
        self._put_in_front(barrier)
        self.total_buffers += 1
        overtaken = self._data_behind(len(self._queue))
        data_due = not self._flush_requested and not self.blocked and self._finished_buffers() == 1
        self._notify_priority()
        if data_due:
            self._notify()
        return overtaken

    def add_timeoutable(self, consumer: EventConsumer, checkpoint_id: int, on_resolved: OnResolved) -> int:
        """Append an aligned barrier that `alignment_timeout` can turn unaligned; returns the result of `add`.

        `on_resolved` is called once. It gets the overtaken data, as `overtake` returns it, if the barrier
        times out. It gets an empty list when the barrier has been polled, refused or dropped. It gets None if
        another barrier is added, which fails the channel state of the earlier checkpoint.
        """
        self._resolve(None)
        self._timeoutable = _Timeoutable(checkpoint_id, consumer, on_resolved)
        wanted = self.add(consumer)
        if wanted == ADD_REFUSED:
            self._resolve([])
        return wanted

    def alignment_timeout(self, checkpoint_id: int, unaligned: EventConsumer) -> bool:
        """Replace the queued barrier of a checkpoint by `unaligned`, in front of all data; returns whether
        the barrier was still queued.

        Raises:
            ValueError: if the type of `unaligned` has no priority.
        """
        waiting, queue = self._timeoutable, self._queue
        if waiting is None or waiting.checkpoint_id != checkpoint_id or isinstance(queue, tuple):
            return False
        place = queue.index(waiting.consumer)
        overtaken = self._data_behind(place)
        self._put_in_front(unaligned)
        del queue[place + 1]
        waiting.consumer.close()
        self._resolve(overtaken)
        self._notify_priority()
        return True

    def _put_in_front(self, event: EventConsumer) -> None:
        """Put an event in front of all data, after earlier priority events."""
        if event.data_type not in PRIORITY_TYPES:
            raise ValueError(f"an event of type {event.data_type.name} must not overtake data")
        queue = self._queue
        if isinstance(queue, tuple):
            self._queue = queue = []
        queue.insert(self.in_front, event)
        self.in_front += 1

    def _data_behind(self, stop: int) -> list[Content]:
        """Return the unread bytes of each data buffer after the priority part and before item `stop`.

        Buffers without unread bytes are left out.
        """
        items = islice(self._queue, self.in_front, stop)
        return [item.copy_unread() for item in items if isinstance(item, BufferConsumer) and item.unread]

    def _resolve(self, overtaken: list[Content] | None) -> None:
        """Report `overtaken` for the queued barrier with a timeout, if any; it can no longer time out."""
        waiting = self._timeoutable
        if waiting is not None:
            self._timeoutable = None
            waiting.on_resolved(overtaken)

    def finish(self) -> None:
        """Close the queue for writing. All queued buffers then count as finished."""
        self.finished = True
        self._notify()

    def flush(self) -> None:
        """Make all queued items available to the reader, including the open buffer."""
        queue = self._queue
        if not queue or self._flush_requested:
            return
        lone_unread = len(queue) == 1 and queue[0].unread > 0
        self._flush_requested = lone_unread or len(queue) > 1
        if lone_unread and not self.blocked:
            self._notify()

    def poll(self) -> Polled | None:
        """Remove and return the next item; None if there is none or the queue is blocked.

        Raises:
            RuntimeError: if an open buffer is followed by another item, which is a bug of the writer.
        """
        if self.blocked and not self.has_priority:
            return None
        buffer = self._take()
        if buffer is None:
            return None
        if buffer.data_type in BLOCKING_TYPES:
            self.blocked = True
            waiting = self._timeoutable
            if waiting is not None and waiting.consumer.build() is buffer:
                self._resolve([])
        self.total_bytes += buffer.size
        sequence = self._sequence
        self._sequence = sequence + 1 if sequence < UNLIMITED_SIZE else -UNLIMITED_SIZE - 1
        more = self.has_priority if self.blocked else self._flush_requested or self._finished_buffers() > 0
        next_is_event = more and self._event_is_next
        return Polled(buffer, self.backlog, more, next_is_event, sequence)

    def _take(self) -> BufferSlice | EventBuffer | None:
        queue = self._queue
        while queue:
            head = queue[0]
            piece = head.build()
            if len(queue) == 1:
                self._flush_requested = False
            elif not head.finished:
                raise RuntimeError("an unfinished buffer is followed by another item of its subpartition")
            if head.finished:
                queue.pop(0)
                if not head.is_event:
                    self.data_buffers -= 1
                elif self.in_front:
                    self.in_front -= 1
                head.close()
            # Without exclusive buffers the receiver needs even an empty buffer, to get its credit back.
            if piece.size or (self.receiver_exclusive == 0 and head.finished):
                return piece
            piece.release()
            if not head.finished:
                break
        return None

    def can_send(self, credit: int) -> bool:
        """Whether a reader with `credit` can take the next item; an event needs no credit."""
        if self.blocked:
            return self.has_priority
        if credit > 0:
            return self._flush_requested or self._finished_buffers() > 0
        return self._event_is_next

    @property
    def _event_is_next(self) -> bool:
        queue = self._queue
        return queue[0].is_event if queue else False

    @property
    def has_priority(self) -> bool:
        """Whether the next item that the reader can take is a priority event."""
        return self.in_front > 0 and (self.passes_priority or not self.blocked)

    @property
    def backlog(self) -> int:
        """Number of queued data buffers as reported to the reader."""
        queue = self._queue
        if self.blocked or not queue:
            return 0
        if self._flush_requested or self.finished or queue[-1].is_event:
            return self.data_buffers
        return max(self.data_buffers - 1, 0)

    @property
    def queued_bytes(self) -> int:
        """Queued bytes that the reader has not taken, including the open buffer."""
        size = 0
        for item in self._queue:
            size += item.unread
        return size

    @property
    def queued_events(self) -> list[EventBuffer]:
        """Queued events, in order."""
        if len(self._queue) == self.data_buffers:
            return []
        return [item.build() for item in self._queue if isinstance(item, EventConsumer)]

    def resume(self) -> None:
        """Unblock the queue after a barrier.

        Raises:
            RuntimeError: if the queue is not blocked.
        """
        if not self.blocked:
            raise RuntimeError(f"subpartition {self.index} is not blocked")
        self.blocked = False

    def acknowledge_all_records(self) -> None:
        """Record that the reader's task has processed all records before the end of data."""
        self.acknowledged = True
        if self.on_acknowledged is not None:
            self.on_acknowledged()

    def set_buffer_size(self, size: int) -> None:
        """Limit the size in bytes of buffers that are added from now on.

        Raises:
            ValueError: if `size` is negative.
        """
        if size < 0:
            raise ValueError(f"a buffer size must not be negative, got {size}")
        self.buffer_size = size

    def release(self) -> None:
        """Drop all queued items and refuse later ones."""
        if self.released:
            return
        self.released = True
        while self._queue:
            self._queue.pop(0).close()
        self.data_buffers = 0
        self.in_front = 0
        self._resolve([])

    def _finished_buffers(self) -> int:
        queue = self._queue
        if not queue:
            return 0
        count = len(queue)
        return count - 1 if count > 1 or not queue[0].finished else 1

    def _notify(self) -> None:
        if self.on_data is not None:
            self.on_data()

    def _notify_priority(self) -> None:
        """Notify the reader of the first priority event. The reader finds later ones when it polls."""
        if self.in_front == 1 and self.has_priority:
            notify = self._notify if self.on_priority is None else self.on_priority
            notify()
