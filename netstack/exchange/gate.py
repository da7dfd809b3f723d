"""An input gate: all channels of one exchange into one subtask, read round robin.

Channels with data are in one queue, each at most once; a polled channel with more data goes to the tail. So
each channel gets the same number of buffers, whatever their size. Channels with a priority event are in a
queue of their own, which is served first::

    urgent [ch2]   ready [ch0, ch3, ch1]   <- a channel that is polled and has more

The rules are those of Flink's SingleInputGate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from buffers import EventBuffer, LocalBufferPool
from flowcontrol import CheckpointBarrier, DebloatPolicy, ThroughputCalculator, announcements

from ..scenarios.faults import ChannelItem
from .channel import InputChannel, Item
from .remote_channel import RemoteInputChannel

__all__ = ["InputGate"]


class GateFigures(NamedTuple):
    """Totals over all channels of a gate. `queue_length` counts buffers and events. `exclusive` and
    `floating` are the used and the total buffers of remote channels. They correspond to Flink's
    ExclusiveBuffersUsageGauge and FloatingBuffersUsageGauge. Free floating buffers that channels hold do not
    count as used.
    """

    queue_length: int
    queued_bytes: int
    exclusive: tuple[int, int]
    floating: tuple[int, int]


class InputGate:
    """The channels of one exchange, their floating buffers and their debloater.

    `on_data` is called when the gate becomes readable, `on_priority` when a priority event arrives and no
    other is waiting. `debloater` is None if debloating is off. `watermarks`: whether the data contains
    watermarks. Invariant: a channel is `queued` while it is in one of the queues, and `urgent` while it is in
    the priority queue.
    """

    def __init__(
        self,
        name: str,
        floating: LocalBufferPool,
        debloater: DebloatPolicy | None,
        on_data: Callable[[], None],
    ) -> None:
        self.name = name
        self.floating = floating
        self.debloater = debloater
        self.channels: list[InputChannel] = []
        self.throughput = ThroughputCalculator()
        self.on_priority: Callable[[], None] | None = None
        self.watermarks = False
        self._requests: list[tuple[InputChannel, int]] = []
        self._recovering: set[int] = set()
        self._urgent: deque[InputChannel] = deque()
        self._ready: deque[InputChannel] = deque()
        self._on_data = on_data
        self._paused = True
        self._watcher = debloater if debloater is not None and debloater.watches_polls else None

    def add_channel(self, channel: InputChannel, subpartition: int) -> None:
        """Add `channel`, which will request `subpartition` from its producer."""
        self.channels.append(channel)
        self._requests.append((channel, subpartition))

    def request_partitions(self) -> None:
        """Send the partition requests of all channels added since the last call."""
        requests, self._requests = self._requests, []
        for channel, subpartition in requests:
            channel.request(subpartition)

    def restoring(self, channel: InputChannel) -> None:
        """Record that `channel` has queued its recovered data and the end marker behind it.

        Raises:
            RuntimeError: if this was already recorded for the channel.
        """
        if channel.index in self._recovering:
            raise RuntimeError(f"the state of channel {channel.index} of {self.name} was restored twice")
        self._recovering.add(channel.index)
        self.data_arrived(channel)

    def recovered(self, channel: InputChannel) -> bool:
        """Record that the end of `channel`'s recovered data was polled; returns whether all channels have
        recovered.

        Raises:
            KeyError: if the channel has no recovered data.
        """
        self._recovering.remove(channel.index)
        return not self._recovering

    def data_arrived(self, channel: InputChannel) -> None:
        """Add `channel` to the queue, unless it is already in one of the queues."""
        if not channel.queued:
            channel.queued = True
            self._ready.append(channel)
            if len(self._ready) == 1:
                self._on_data()

    def priority_arrived(self, channel: InputChannel) -> None:
        """Move `channel` to the priority queue, unless it is in it already."""
        if channel.urgent:
            return
        readable = self.readable
        if channel.queued:
            self._ready.remove(channel)
        channel.queued = channel.urgent = True
        self._urgent.append(channel)
        if len(self._urgent) == 1 and self.on_priority is not None:
            self.on_priority()
        if not readable:
            self._on_data()

    def poll(self, now: float) -> tuple[InputChannel, Item] | None:
        """Return the next buffer or event, from the channel that is next in turn; None if no channel has
        data.
        """
        watcher = self._watcher
        if self._urgent and (polled := self.poll_priority(now)) is not None:
            if watcher is not None:
                watcher.polled(polled[0].index, polled[1].size)
            return polled
        ready = self._ready
        while ready:
            channel = ready.popleft()
            item, more = channel.poll()
            if more:
                ready.append(channel)
            else:
                channel.queued = False
            if item is not None:
                self._count(channel, item, now)
                if watcher is not None:
                    watcher.polled(channel.index, item.size)
                return channel, item
        if not self._paused:
            self._paused = True
            self.throughput.pause(now)
        return None

    def poll_priority(self, now: float) -> tuple[InputChannel, Item] | None:
        """Return the next priority event, or None."""
        urgent = self._urgent
        while urgent:
            channel = urgent.popleft()
            if not channel.has_priority:
                channel.urgent = False
                self._ready.append(channel)
                continue
            item, more = channel.poll()
            channel.urgent = more and channel.has_priority
            channel.queued = more
            if more:
                (urgent if channel.urgent else self._ready).append(channel)
            if item is not None:
                self._count(channel, item, now)
                return channel, item
        return None

    def _count(self, channel: InputChannel, item: Item, now: float) -> None:
        if self._paused:
            self._paused = False
            self.throughput.resume(now)
        self.throughput.add(item.size, now)
        if not isinstance(item, EventBuffer):
            channel.polled_buffers += 1
            if channel.tap is not None:
                channel.tap(ChannelItem.BUFFER)
        elif isinstance(item.event, CheckpointBarrier):
            channel.polled_barriers += 1
            if channel.tap is not None:
                channel.tap(ChannelItem.BARRIER)

    @property
    def readable(self) -> bool:
        """Whether a poll may return an item."""
        return bool(self._ready or self._urgent)

    @property
    def segment_bytes(self) -> int:
        """Maximum size of a buffer of the gate."""
        return self.floating.network_pool.segment_size

    def debloat(self, now: float) -> None:
        """Let the debloater recalculate the buffer sizes, and announce them to the producers.

        Raises the errors of the debloater, and those of `announcements`.
        """
        debloater = self.debloater
        if debloater is None:
            return
        channels = self.channels
        for place, size in announcements(debloater, self.throughput.calculate(now), channels, now):
            if not channels[place].released:
                channels[place].announce_buffer_size(size)

    @property
    def size_in_force(self) -> int:
        """The smallest buffer size announced to producers, in bytes."""
        return self.segment_bytes if self.debloater is None else self.debloater.last_announced

    def change_debloater(self, debloater: DebloatPolicy | None) -> None:
        """Use another debloating policy from now on; None: producers fill whole segments again."""
        self.debloater = debloater
        self._watcher = debloater if debloater is not None and debloater.watches_polls else None
        if debloater is None:
            for channel in self.channels:
                if not channel.released:
                    channel.announce_buffer_size(self.segment_bytes)

    @property
    def remote_channels(self) -> Iterator[RemoteInputChannel]:
        """The channels that have their own buffers."""
        return (channel for channel in self.channels if isinstance(channel, RemoteInputChannel))

    @property
    def figures(self) -> GateFigures:
        """Totals over all channels, in one pass."""
        length = size = exclusive_total = exclusive_free = floating_free = 0
        for channel in self.channels:
            length += channel.queue_length
            size += channel.queued_bytes
            if isinstance(channel, RemoteInputChannel):
                buffers = channel.buffers
                exclusive_total += buffers.exclusive_total
                exclusive_free += buffers.exclusive_available
                floating_free += buffers.floating_available
        exclusive = exclusive_total - exclusive_free, exclusive_total
        floating = max(0, self.floating.used - floating_free), self.floating.size
        return GateFigures(length, size, exclusive, floating)

    def abandon(self) -> None:
        """Stop offering recycled segments to the channels."""
        for channel in self.remote_channels:
            channel.buffers.released = True

    def cancel(self) -> None:
        """Cancel all partition requests; call `release` afterwards."""
        for channel in self.remote_channels:
            channel.cancel()

    def release(self) -> None:
        """Drop all queued items and return all buffers."""
        self._ready.clear()
        self._urgent.clear()
        for channel in self.channels:
            channel.queued = channel.urgent = False
            channel.release()
        self.floating.lazy_destroy()


class UnionGate:
    """Several gates that are polled round robin (Flink's UnionInputGate)."""

    def __init__(self, gates: list[InputGate]) -> None:
        self.gates = gates
        self._turn = 0

    def poll(self, now: float) -> tuple[InputChannel, Item] | None:
        """Return the next item, from the gate that is next in turn; None if no gate has one."""
        gates = self.gates
        for _ in gates:
            gate = gates[self._turn]
            self._turn = (self._turn + 1) % len(gates)
            polled = gate.poll(now)
            if polled is not None:
                return polled
        return None
