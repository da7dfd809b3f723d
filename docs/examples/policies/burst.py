"""A debloating policy for bursts: the count of buffers falls slowly, and a size that is too large at once.

A moving average over 20 periods of 200 ms takes about two seconds to halve a size, while a burst fills all
buffers within milliseconds. Flink also divides by the buffers that are in use *now*. So while queues are
empty, buffers grow to whole segments, and the next burst fills these segments. This policy remembers the peak
of the count, and lowers a size at once if it is much too large. It grows buffers as slowly as Flink, since a
buffer that is too small for a while costs little.

Try it with ``PYTHONPATH=docs/examples netstack run FILE --policy policies.burst:Burst``.
"""

from collections.abc import Iterable, Sequence

from flowcontrol import Announcement, BufferSizeEMA, DebloatedChannel, DebloatSettings

from .frozen_while_blocked import FrozenWhileBlocked

PEAK_HALF_LIFE_S = 30.0
"""Time in seconds in which the remembered peak of the count falls to half."""

JUMP = 0.25
"""A size drops at once if it exceeds the desired size by more than this fraction of itself.

The value is Flink's default threshold for announcements.
"""


class Burst(FrozenWhileBlocked):
    """FLIP-183, but the count falls slowly from its peak, and a size that is much too large drops at once.

    Like `FrozenWhileBlocked`, it does not lower the count while a channel is blocked.
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
        """Take one step; the estimated time uses the current count of buffers in use, not the peak."""
        announced = super().recalculate(throughput, channels, now)
        in_use = max(1, self._in_use)
        milliseconds = self.last_announced * in_use * 1000 // max(1, throughput)
        self.estimated_time_s = milliseconds / 1000
        return announced

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """Return the buffers in use, or their decayed peak if that is higher."""
        self._in_use = super().buffers_in_use(channels)
        self._peak = max(self._in_use, self._peak * self._kept)
        return round(self._peak)


class _JumpingEMA(BufferSizeEMA):
    """Moving average that drops to the desired size at once if the size is too large by more than `JUMP`."""

    __slots__ = ("_average_alpha",)

    def __init__(self, starting_size: int, max_size: int, min_size: int, samples: int) -> None:
        super().__init__(starting_size, max_size, min_size, samples)
        self._average_alpha = self.alpha

    def calculate(self, total_bytes: int, buffers: int) -> int:
        too_large = buffers > 0 and total_bytes / buffers < self._size * (1 - JUMP)
        self.alpha = 1.0 if too_large else self._average_alpha
        return super().calculate(total_bytes, buffers)
