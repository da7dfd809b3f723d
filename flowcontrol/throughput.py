"""Measures the throughput of one gate, which determines its buffer size (Flink's ThroughputCalculator)."""

from __future__ import annotations

__all__ = ["ThroughputCalculator"]

MILLIS_PER_SECOND = 1000

_CLOCK_GUARD_MS = 1e-6
"""Milliseconds added before rounding down, so that 0.029 s (28.999... in floating point) becomes 29 ms."""


class ThroughputCalculator:
    """Throughput of a gate in bytes per second of time in which there is data to poll.

    The time between `pause` and `resume` does not count. Time in which the task is back-pressured counts,
    because a task that does not poll does not pause the clock. `now` is in seconds, not negative, and rounded
    down to whole milliseconds.
    """

    __slots__ = ("_bytes", "_elapsed_ms", "_running_since_ms", "_throughput")

    def __init__(self) -> None:
        self._bytes = 0
        self._elapsed_ms = 0
        self._running_since_ms: int | None = None
        self._throughput = 0

    def add(self, size: int, now: float) -> None:
        """Count `size` bytes polled from the gate, events included; resumes the clock if it is paused.

        Raises:
            ValueError: if `size` is negative.
        """
        if size < 0:
            raise ValueError(f"size must not be negative, got {size}")
        if self._running_since_ms is None:
            self._running_since_ms = _whole_ms(now)
        self._bytes += size

    def pause(self, now: float) -> None:
        """Stop the clock because no data is left to poll; does nothing if it is stopped."""
        if self._running_since_ms is not None:
            self._elapsed_ms += _whole_ms(now) - self._running_since_ms
            self._running_since_ms = None

    def resume(self, now: float) -> None:
        """Start the clock because there is data to poll; does nothing if it is running."""
        if self._running_since_ms is None:
            self._running_since_ms = _whole_ms(now)

    def calculate(self, now: float) -> int:
        """Return the throughput since the last call, in bytes per second.

        If no counted time has passed, return the last result.

        Raises:
            ValueError: if time has gone backwards.
        """
        if self._running_since_ms is not None:
            now_ms = _whole_ms(now)
            self._elapsed_ms += now_ms - self._running_since_ms
            self._running_since_ms = now_ms
        size, elapsed_ms = self._bytes, self._elapsed_ms
        if elapsed_ms < 0:
            raise ValueError(f"time has gone backwards by {-elapsed_ms} ms")
        self._bytes = self._elapsed_ms = 0
        if elapsed_ms > 0:
            self._throughput = int(size / elapsed_ms * MILLIS_PER_SECOND)
        return self._throughput


def _whole_ms(now: float) -> int:
    return int(now * MILLIS_PER_SECOND + _CLOCK_GUARD_MS)
