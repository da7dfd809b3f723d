"""Buffer debloating (FLIP-183): shrink buffers until all queued data can be consumed in a target time.

Every period, for each gate::

    throughput [B/s] = bytes polled / ms with data to poll * 1000              ThroughputCalculator
    desired    [B]   = min(throughput * target [ms] / 1000 / n, 2 * size)      n = buffers in use
    size       [B]   = size + alpha * (desired - size), alpha = 2 / (samples + 1), within [min, max]
    estimated  [ms]  = size * n * 1000 / throughput                            time to consume them

The new size is announced upstream if it differs from the announced size by the threshold, or equals the
minimum or maximum. Only buffers requested later use the new size. The limit of 2 * size makes growing as slow
as shrinking. Rounding follows Flink's ThroughputCalculator, BufferSizeEMA and BufferDebloater step by step:
times in whole milliseconds, throughput in whole bytes per second; the average size keeps its fraction.
"""

from __future__ import annotations

import math

from .throughput import MILLIS_PER_SECOND

__all__ = ["BufferDebloater", "BufferSizeEMA"]


class BufferSizeEMA:
    """Exponential moving average of the buffer size, in bytes.

    Invariant: after a calculation ``min_size <= size <= max_size``; one step grows the size by at most the
    factor 1 + alpha. The caller checks that the bounds do not contradict each other, as in Flink.
    """

    __slots__ = ("_size", "alpha", "max_size", "min_size")

    def __init__(self, starting_size: int, max_size: int, min_size: int, samples: int) -> None:
        if samples <= 0:
            raise ValueError(f"samples must be positive, got {samples}")
        self.alpha = 2.0 / (samples + 1)
        self.max_size = max_size
        self.min_size = min_size
        self._size = float(starting_size)

    def calculate(self, total_bytes: int, buffers: int) -> int:
        """Move the size one step towards ``total_bytes / buffers``; returns the new size, rounded half up.

        Raises:
            ValueError: if `total_bytes` is negative or `buffers` is not positive.
        """
        if total_bytes < 0:
            raise ValueError(f"total_bytes must not be negative, got {total_bytes}")
        if buffers <= 0:
            raise ValueError(f"buffers must be positive, got {buffers}")
        size = self._size
        desired = min(total_bytes / buffers, 2 * size)
        size += self.alpha * (desired - size)
        self._size = size = max(self.min_size, min(size, self.max_size))
        return math.floor(size + 0.5)


class BufferDebloater:
    """Flink's calculation of the buffer size of one gate.

    `last_announced`: the last announced size in bytes, or the starting size before the first announcement.
    `estimated_time_s`: the time to consume the buffers in use, as of the last calculation, in whole
    milliseconds. `average`: the class of the moving average; Flink's policy uses the default.
    """

    __slots__ = ("_ema", "_target_ms", "_threshold", "estimated_time_s", "last_announced")

    def __init__(
        self,
        target_s: float,
        max_size: int,
        min_size: int,
        starting_size: int,
        threshold_percent: int,
        samples: int,
        average: type[BufferSizeEMA] = BufferSizeEMA,
    ) -> None:
        self._target_ms = round(target_s * MILLIS_PER_SECOND)
        if self._target_ms <= 0:
            raise ValueError(f"target must be at least 1 ms, got {target_s} s")
        if not 0 < min_size <= max_size:
            raise ValueError(f"sizes must fulfil 0 < min <= max, got {min_size} and {max_size}")
        if starting_size <= 0:
            raise ValueError(f"starting_size must be positive, got {starting_size}")
        if threshold_percent < 0:
            raise ValueError(f"threshold_percent must not be negative, got {threshold_percent}")
        self._ema = average(starting_size, max_size, min_size, samples)
        self._threshold = threshold_percent / 100.0
        self.last_announced = starting_size
        self.estimated_time_s = 0.0

    def recalculate(self, throughput: int, buffers_in_use: int) -> int | None:
        """Take one step; returns the size to announce upstream, or None if the change is below the threshold.

        `throughput`: bytes per second. `buffers_in_use`: buffers queued here or announced as backlog, over
        all channels.

        Raises:
            ValueError: if `throughput` is negative.
        """
        if throughput < 0:
            raise ValueError(f"throughput must not be negative, got {throughput}")
        buffers = max(1, buffers_in_use)
        size = self._ema.calculate(throughput * self._target_ms // MILLIS_PER_SECOND, buffers)
        estimated_ms = size * buffers * MILLIS_PER_SECOND // max(1, throughput)
        self.estimated_time_s = estimated_ms / MILLIS_PER_SECOND
        if not self._worth_announcing(size):
            return None
        self.last_announced = size
        return size

    def _worth_announcing(self, size: int) -> bool:
        if size == self.last_announced:
            return False
        if size <= self._ema.min_size or size >= self._ema.max_size:
            return True
        return abs(size - self.last_announced) >= int(self.last_announced * self._threshold)
