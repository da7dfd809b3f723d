"""FLIP-183 that is ready for a burst, and that shrinks at once when one comes.

A moving average over 20 periods of 200 ms takes some two seconds to halve a size, while a burst fills all
buffers within milliseconds. Two changes answer that:

- **Peak**: Flink divides by the buffers in use *now*, so while queues are empty buffers grow to whole
  segments, and the next burst fills those. Here the count falls slowly from its peak.
- **Jump**: a size that is too large by more than a quarter becomes right at once. Growing is as slow as
  in Flink: a buffer that is too small for a while costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..debloat import BufferSizeEMA
from ..debloat_policy import Announcement, DebloatedChannel, DebloatSettings
from ..throughput import MILLIS_PER_SECOND
from .frozen import FrozenWhileBlockedPolicy

PEAK_HALF_LIFE_S = 30.0
"""How long it takes a count that is not reached again to halve."""

JUMP = 0.25
"""By what part of itself a size must be too large to jump: Flink's default threshold for announcements."""


class BurstPolicy(FrozenWhileBlockedPolicy):
    """FLIP-183 with a count that remembers its peak, and with sizes that fall at once.

    Like `FrozenWhileBlockedPolicy` it does not lower the count while a channel is blocked.
    """

    __slots__ = ("_in_use", "_kept", "_peak")

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._debloater = settings.debloater(_JumpingEMA)
        self._kept = 0.5 ** (settings.period_s / PEAK_HALF_LIFE_S)
        self._in_use = 0
        self._peak = 0.0

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """One step; the estimated time is that of the buffers which are really in use."""
        announced = super().recalculate(throughput, channels, now)
        in_use = max(1, self._in_use)
        milliseconds = self.last_announced * in_use * MILLIS_PER_SECOND // max(1, throughput)
        self.estimated_time_s = milliseconds / MILLIS_PER_SECOND
        return announced

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """The buffers in use, or what is left of their peak."""
        self._in_use = super().buffers_in_use(channels)
        self._peak = max(self._in_use, self._peak * self._kept)
        return round(self._peak)


class _JumpingEMA(BufferSizeEMA):
    """An average that a size which is much too large does not wait for."""

    __slots__ = ("_average_alpha",)

    def __init__(self, starting_size: int, max_size: int, min_size: int, samples: int) -> None:
        super().__init__(starting_size, max_size, min_size, samples)
        self._average_alpha = self.alpha

    def calculate(self, total_bytes: int, buffers: int) -> int:
        too_large = buffers > 0 and total_bytes / buffers < self._size * (1 - JUMP)
        self.alpha = 1.0 if too_large else self._average_alpha
        return super().calculate(total_bytes, buffers)
