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
    """How long a subtask was idle and back-pressured, in seconds; the rest of its time it was busy.

    Its time is that from `begin` to `end`: a subtask that waits for others to be built is not busy, nor is
    one that has ended while others of the job go on.
    """

    __slots__ = ("_began_at", "_ended_at", "_since", "_state", "backpressured", "idle")

    def __init__(self) -> None:
        self.idle = 0.0
        self.backpressured = 0.0
        self._state = Waiting.NOTHING
        self._since = 0.0
        self._began_at: float | None = None
        self._ended_at: float | None = None

    def begin(self, now: float) -> None:
        """The subtask begins to work."""
        self._since = self._began_at = now

    def end(self, now: float) -> None:
        """The subtask has ended, and does not wait for anything."""
        self._ended_at = now

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
        if self._began_at is None:
            return 0.0, 0.0, 0.0
        elapsed = now - self._since
        idle, backpressured = self.idle, self.backpressured
        if self._state is Waiting.OUTPUT:
            backpressured += elapsed
        elif self._state is not Waiting.NOTHING:
            idle += elapsed
        last = now if self._ended_at is None else self._ended_at
        return last - self._began_at - idle - backpressured, idle, backpressured
