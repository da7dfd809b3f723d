"""What a subtask spends its time on: work, waiting for input, waiting for output."""

from __future__ import annotations

from enum import Enum


class Waiting(Enum):
    """What a subtask waits for."""

    NOTHING = "nothing"
    INPUT = "input"
    OUTPUT = "output"
    CONSUMERS = "consumers"
    TIME = "time"


class TimeAccount:
    """How long a subtask was idle and back-pressured, in seconds; the rest of the time it was busy.

    `opened_at`: when it began.
    """

    __slots__ = ("_since", "_state", "backpressured", "idle", "opened_at")

    def __init__(self, now: float = 0.0) -> None:
        self.idle = 0.0
        self.backpressured = 0.0
        self._state = Waiting.NOTHING
        self._since = self.opened_at = now

    def enter(self, state: Waiting, now: float) -> None:
        """The subtask begins to wait for `state`, or to work again."""
        self.settle(now)
        self._state = state

    def settle(self, now: float) -> None:
        """Book the time until `now`."""
        elapsed = now - self._since
        self._since = now
        if self._state is Waiting.OUTPUT:
            self.backpressured += elapsed
        elif self._state is not Waiting.NOTHING:
            self.idle += elapsed

    def until(self, now: float) -> tuple[float, float, float]:
        """Return how long it was busy, idle and back-pressured until `now`, in seconds; books nothing."""
        elapsed = now - self._since
        idle, backpressured = self.idle, self.backpressured
        if self._state is Waiting.OUTPUT:
            backpressured += elapsed
        elif self._state is not Waiting.NOTHING:
            idle += elapsed
        return now - self.opened_at - idle - backpressured, idle, backpressured
