"""The event time of a task: the minimum of the watermarks of its channels.

A watermark states that no record with an earlier event time follows in its channel. A task with several
channels can rely only on the minimum over all its channels::

    channel 0   ... 4 s ...           minimum 2 s -> 4 s when 6 s arrives in channel 1
    channel 1   ... 2 s ...  6 s

The rules are those of Flink's StatusWatermarkValve, without idle channels. The minimum over several inputs of
a task is the minimum over all their channels, so one valve serves all inputs.
"""

from __future__ import annotations

__all__ = ["MAX_WATERMARK", "NO_WATERMARK", "WatermarkValve"]

NO_WATERMARK = -(1 << 63)
"""The event time before the first watermark (Java's smallest long)."""

MAX_WATERMARK = (1 << 63) - 1
"""The last watermark of a channel: no record follows (Flink's Watermark.MAX_WATERMARK)."""


class WatermarkValve:
    """The watermarks of `channels` channels, in milliseconds of event time, and their minimum.

    Invariant: `lowest` is the minimum of all channels' watermarks. These numbers never decrease.
    """

    __slots__ = ("_at_lowest", "_of_channels", "lowest")

    def __init__(self, channels: int) -> None:
        self.lowest = NO_WATERMARK
        self._of_channels = [NO_WATERMARK] * channels
        self._at_lowest = channels

    def of_channel(self, channel: int) -> int:
        """Return the last watermark of a channel, or `NO_WATERMARK`."""
        return self._of_channels[channel]

    def advance(self, channel: int, watermark: int) -> int | None:
        """Process a watermark of a channel; returns the new `lowest` if it has risen, else None.

        A watermark that is not later than its channel's last watermark is ignored.
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
