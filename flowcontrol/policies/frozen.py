"""FLIP-183 that does not take the silence of a blocked channel for emptiness.

A subpartition that is blocked for alignment reports a backlog of 0 and sends nothing, so the buffers in use
fall towards 0 while as many as before wait behind the barrier. Flink divides by that count and lets
buffers grow during every aligned checkpoint::

    in use   21 21 21 | 15 9 4 1 | 21 21      blocked between the bars
    Flink    21 21 21 | 15 9 4 1 | 21 21
    frozen   21 21 21 | 21 .. 21 | 21 21
"""

from __future__ import annotations

from collections.abc import Sequence

from ..debloat_policy import DebloatedChannel, DebloatSettings
from .flink import FlinkPolicy


class FrozenWhileBlockedPolicy(FlinkPolicy):
    """FLIP-183, but the count of buffers in use is not lowered while a channel is blocked for alignment."""

    __slots__ = ("_before",)

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._before = 0

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """As Flink counts; while a channel is blocked at least as many as before."""
        in_use = super().buffers_in_use(channels)
        if any(channel.blocked for channel in channels):
            return max(in_use, self._before)
        self._before = in_use
        return in_use


def frozen_counts(channels: Sequence[DebloatedChannel], before: dict[int, int]) -> list[int]:
    """The buffers in use of each channel; of a blocked one at least as many as it had `before`.

    `before` has the latest count of each channel, by its place, from when it was not blocked; it is updated.
    """
    counts = []
    for place, channel in enumerate(channels):
        count = channel.buffers_in_use
        if channel.blocked:
            count = max(count, before.get(place, 0))
        else:
            before[place] = count
        counts.append(count)
    return counts
