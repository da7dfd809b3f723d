"""Which checkpoint is triggered next, and when: requests wait in a queue.

::

    timer ----- periodic --\\                                      too many pending: wait
                            >--> queue: by kind, then by time ----> pause not over: put off (periodic only)
    person ---- by hand ---/     periodic: one at most               else: trigger

The rules are those of Flink's CheckpointRequestDecider, but for one: further periodic requests are dropped
while one waits, where Flink would keep a thousand of them and, once checkpoints are fast again, trigger
one after the other.
"""

from __future__ import annotations

from bisect import insort
from enum import IntEnum
from typing import NamedTuple

from .failures import FailureReason

MAX_QUEUED_REQUESTS = 1000
"""More than these are refused."""


class RequestKind(IntEnum):
    """Who asks for a checkpoint, the most urgent first."""

    USER = 1
    PERIODIC = 2


class CheckpointRequest(NamedTuple):
    """A wish for a checkpoint, in the order in which they are granted; the time is in seconds."""

    kind: RequestKind
    requested_at: float

    @property
    def periodic(self) -> bool:
        """Whether the timer asks, which has to leave the pause and need not ask twice."""
        return self.kind is RequestKind.PERIODIC


class PutOff(NamedTuple):
    """The periodic request is dropped; the next one is due at `until`, in seconds."""

    until: float


class CheckpointRequestDecider:
    """Keeps requests until they may be granted.

    `max_concurrent` checkpoints may be pending at once. A periodic one begins `min_pause_s` after the end
    of the last one at the earliest; one that a user asks for need not wait.
    """

    def __init__(
        self, *, max_concurrent: int, min_pause_s: float, max_queued: int = MAX_QUEUED_REQUESTS
    ) -> None:
        self._max_concurrent = max_concurrent
        self._min_pause = min_pause_s
        self._max_queued = max_queued
        self._queue: list[CheckpointRequest] = []

    def __len__(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    def add(self, request: CheckpointRequest) -> FailureReason | None:
        """Queue a request; why one, this or a less urgent one, was refused instead, or None."""
        waiting = bool(self._queue) and self._queue[-1].periodic
        if request.periodic and waiting:
            return None  # the one that waits stands for both
        if len(self._queue) >= self._max_queued and not waiting:
            return FailureReason.TOO_MANY_CHECKPOINT_REQUESTS
        insort(self._queue, request)
        if len(self._queue) <= self._max_queued:
            return None
        self._queue.pop()
        return FailureReason.TOO_MANY_CHECKPOINT_REQUESTS

    def choose(self, now: float, pending: int, last_end: float) -> CheckpointRequest | PutOff | None:
        """Take the request that may be granted now; None if there is none.

        `pending` checkpoints go on; the last one to end did so at `last_end`.
        """
        if not self._queue or pending >= self._max_concurrent:
            return None
        request = self._queue.pop(0)
        # A sum of the same two numbers each time, so that who comes back at `until` is not too early.
        until = last_end + self._min_pause
        return PutOff(until) if request.periodic and now < until else request

    def clear(self) -> None:
        """Refuse all requests that wait."""
        self._queue.clear()
