"""The event time of a task: the least of the watermarks of its channels.

A watermark says that no record of an earlier event time follows in its channel. A task that reads several
may count on the least of them only::

    channel 0   ... 4 s ... 9 s           least 2 s -> 4 s    when channel 1 brings 6 s
    channel 1   ... 2 s ...      6 s

The rules are those of Flink's StatusWatermarkValve, for channels none of which is idle. The minimum over
several inputs of a task is the minimum over all their channels, so one valve serves them all.
"""

from __future__ import annotations

NO_WATERMARK = -(1 << 63)
"""Before the first watermark: event times may be as early as they like (Java's least long)."""

MAX_WATERMARK = (1 << 63) - 1
"""The last watermark of a channel: no record follows (Flink's Watermark.MAX_WATERMARK)."""


class WatermarkValve:
    """Keeps the watermark of each of `channels` channels, in milliseconds of event time.

    Invariant: `lowest` is the least of them; it never falls, and neither does that of a channel.
    """

    __slots__ = ("_at_lowest", "_of_channels", "lowest")

    def __init__(self, channels: int) -> None:
        self.lowest = NO_WATERMARK
        self._of_channels = [NO_WATERMARK] * channels
        self._at_lowest = channels

    def of_channel(self, channel: int) -> int:
        """The latest watermark of a channel, `NO_WATERMARK` before the first one."""
        return self._of_channels[channel]

    def advance(self, channel: int, watermark: int) -> int | None:
        """Take a watermark that a channel brings; returns the new `lowest` if that has risen.

        One that is not later than the channel's own changes nothing.
        """
        before = self._of_channels[channel]
        if watermark <= before:
            return None
        self._of_channels[channel] = watermark
        if before > self.lowest:
            return None
        self._at_lowest -= 1
        if self._at_lowest:
            return None
        self.lowest = min(self._of_channels)
        self._at_lowest = self._of_channels.count(self.lowest)
        return self.lowest
