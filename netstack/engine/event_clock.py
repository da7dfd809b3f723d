"""The clock of event time, and of the ages of values with a time-to-live."""

from __future__ import annotations

from collections.abc import Callable
from math import floor

_ROUNDING = 1e-6


class EventClock:
    """The current event time in whole milliseconds; `now` returns the time of the run in seconds.

    Event time is the time of the run. A run that continues from an earlier run's checkpoint begins at the
    event time that the earlier run had reached, so event time never goes back.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ahead_ms = 0

    @property
    def now_ms(self) -> int:
        """Event time of records emitted now."""
        return self.at_ms(self._now())

    def at_ms(self, time: float) -> int:
        """Return the event time at a time of the run, in seconds."""
        return floor(time * 1e3 + _ROUNDING) + self._ahead_ms

    def go_on_from(self, reached_ms: int) -> None:
        """Continue from the event time of an earlier run if it is ahead of the current event time."""
        self._ahead_ms += max(0, reached_ms - self.now_ms)
