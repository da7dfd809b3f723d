"""An input gate: all channels of one exchange into one subtask, read in turns.

Channels with data stand in one line, each at most once; a polled channel with more data goes to the
tail. So the choice is fair by buffers, whatever their size. The rules are those of Flink's
SingleInputGate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from buffers import BufferSlice, EventBuffer, LocalBufferPool, ReceivedBuffer
from flowcontrol import BufferDebloater, ThroughputCalculator

from .input_channel import InputChannel, RemoteInputChannel

Item = ReceivedBuffer | BufferSlice | EventBuffer


class InputGate:
    """The channels of one exchange, their floating buffers and their debloater.

    `on_data` is called when the gate becomes readable. `debloater` is None where debloating is off.
    """

    def __init__(
        self,
        name: str,
        floating: LocalBufferPool,
        debloater: BufferDebloater | None,
        on_data: Callable[[], None],
    ) -> None:
        self.name = name
        self.floating = floating
        self.debloater = debloater
        self.channels: list[InputChannel] = []
        self.throughput = ThroughputCalculator()
        self._ready: deque[InputChannel] = deque()
        self._on_data = on_data
        self._paused = True

    def data_arrived(self, channel: InputChannel) -> None:
        """Put `channel` into the line if it is not there."""
        if not channel.queued:
            channel.queued = True
            self._ready.append(channel)
            if len(self._ready) == 1:
                self._on_data()

    def poll(self, now: float) -> tuple[InputChannel, Item] | None:
        """Take the next buffer or event of the channel whose turn it is; None if there is none."""
        ready = self._ready
        while ready:
            channel = ready.popleft()
            item, more = channel.poll()
            if more:
                ready.append(channel)
            else:
                channel.queued = False
            if item is not None:
                if self._paused:
                    self._paused = False
                    self.throughput.resume(now)
                self.throughput.add(item.size, now)
                return channel, item
        if not self._paused:
            self._paused = True
            self.throughput.pause(now)
        return None

    @property
    def readable(self) -> bool:
        """Whether a poll may yield something."""
        return bool(self._ready)

    def debloat(self, now: float) -> None:
        """Recalculate the buffer size and announce it to all channels if it has changed enough."""
        debloater = self.debloater
        if debloater is None:
            return
        in_use = 0
        for channel in self.channels:
            in_use += channel.buffers_in_use
        size = debloater.recalculate(self.throughput.calculate(now), in_use)
        if size is not None:
            for channel in self.channels:
                channel.announce_buffer_size(size)

    @property
    def remote_channels(self) -> Iterator[RemoteInputChannel]:
        """The channels that have buffers of their own."""
        return (channel for channel in self.channels if isinstance(channel, RemoteInputChannel))

    @property
    def queue_length(self) -> int:
        """Buffers and events queued over all channels."""
        return sum(channel.queue_length for channel in self.channels)

    @property
    def queued_bytes(self) -> int:
        """Bytes queued over all channels."""
        return sum(channel.queued_bytes for channel in self.channels)

    @property
    def pool_usage(self) -> tuple[int, int]:
        """Used and total buffers, exclusive and floating, of remote channels (Flink's inPoolUsage)."""
        used = total = free_floating = 0
        for channel in self.remote_channels:
            total += channel.buffers.exclusive_total
            used += channel.buffers.exclusive_total - channel.buffers.exclusive_available
            free_floating += channel.buffers.floating_available
        floating_used = max(0, self.floating.used - free_floating)
        return used + floating_used, total + self.floating.size

    def release(self) -> None:
        """Drop what is queued and give all buffers back."""
        self._ready.clear()
        for channel in self.channels:
            channel.release()
        self.floating.lazy_destroy()
