"""FLIP-183 by the longest channel instead of the sum of all.

A gate polls its channels in turns, one buffer each. So a barrier behind n buffers of its channel comes
after n rounds, and a round takes as many buffers as there are channels with data, k. It is the longest
channel that a checkpoint waits for, and before its barrier k * max(n) buffers are polled if the others are
refilled meanwhile, which is more than the sum where the channels' queues differ::

    ch0 [########]     8 rounds of 3 buffers = 24, where the sum is 8 + 2 + 2 = 12
    ch1 [##]
    ch2 [##]
"""

from __future__ import annotations

from collections.abc import Sequence

from ..debloat_policy import DebloatedChannel, DebloatSettings
from .flink import FlinkPolicy
from .frozen import frozen_counts


class LongestChannelPolicy(FlinkPolicy):
    """FLIP-183, but all channels with data count as if they were as long as the longest.

    The count of a channel is not lowered while it is blocked for alignment.
    """

    __slots__ = ("_before",)

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._before: dict[int, int] = {}

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """Channels with data times the longest one."""
        counts = frozen_counts(channels, self._before)
        return sum(count > 0 for count in counts) * max(counts, default=0)
