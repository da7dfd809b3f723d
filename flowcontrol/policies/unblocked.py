"""FLIP-183 by the longest channel, in steps that wait while a channel is blocked.

While a channel is blocked for alignment its producer is silent, and what the gate sees says little about
what waits: counts fall towards 0, and throughput is that of the channels that have not had their barrier yet.
FLIP-183 takes its steps all the same, and sizes grow in every alignment. Here there is no step until all
channels have been resumed, so nothing has to be remembered of the time before::

    in use   21 21 21 | 15 9 4 1 | 21 21      blocked between the bars
    frozen   21 21 21 | 21 .. 21 | 21 21
    here     21 21 21 |          | 21 21

In between the count is that of `longest`: channels with data times the longest one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..debloat_policy import Announcement, DebloatedChannel
from .flink import FlinkPolicy


class LongestWhenUnblockedPolicy(FlinkPolicy):
    """FLIP-183 that takes no step while a channel is blocked, and counts all channels as the longest one.

    A step that is not taken announces nothing, and leaves the average and the gauges as they are.
    """

    __slots__ = ()

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """One step of the moving average, if no channel is blocked."""
        if any(channel.blocked for channel in channels):
            return ()
        return super().recalculate(throughput, channels, now)

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """Channels with data times the longest one."""
        counts = [channel.buffers_in_use for channel in channels]
        return sum(count > 0 for count in counts) * max(counts, default=0)
