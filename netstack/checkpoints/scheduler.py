"""Schedule of checkpoints: periodic timer, requests of users, minimum pause.

::

    start --- random part of the interval --- tick --- interval --- tick --- interval --- tick ..

    tick: requests a checkpoint; the request waits while too many checkpoints are pending
    end of a checkpoint --- 2 ms --- trigger, if a request waits
                        --- pause --- tick, if the pause has delayed one; the next tick is an interval later

    timer -- periodic ----\\                                        too many pending: wait
                           >--> queue: by kind, then by time ----> pause not over: put off (periodic only)
    user --- on demand ---/     periodic: one at most              else: trigger

A savepoint has priority. Unless checkpoints are unaligned, it does not wait for pending checkpoints. The
rules are those of Flink's CheckpointCoordinator and CheckpointRequestDecider, with one exception. While a
periodic request waits, further periodic requests are dropped. Flink would queue up to a thousand of them, and
trigger them one after the other as soon as checkpoints are fast again.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from flowcontrol import FailureReason

from ..engine.agenda import Agenda, Timer
from ..engine.cancellation import Timers
from ..engine.randomness import Randomness
from ..scenarios.changes import ScheduledSavepoint
from ..scenarios.options import NetworkConfig

MAX_QUEUED_REQUESTS = 1000
"""Maximum number of queued requests; further requests are refused."""


class RequestKind(IntEnum):
    """Origin of a request, most urgent first."""

    SAVEPOINT = 0
    USER = 1
    PERIODIC = 2


class CheckpointRequest(NamedTuple):
    """A request for a checkpoint; the time is in seconds. For a savepoint, `savepoint` is set."""

    kind: RequestKind
    requested_at: float
    savepoint: ScheduledSavepoint | None = None

    @property
    def periodic(self) -> bool:
        """Whether the timer made the request.

        A periodic request observes the minimum pause and is queued only once.
        """
        return self.kind is RequestKind.PERIODIC


class PutOff(NamedTuple):
    """Notice that a periodic request was dropped; the next one is due at `until`, in seconds of the run."""

    until: float


class CheckpointRequestDecider:
    """Queues requests until they may be granted.

    At most `max_concurrent` checkpoints may be pending. A periodic checkpoint begins at least `min_pause_s`
    after the end of the last checkpoint. A checkpoint requested by a user does not observe this pause. With
    `forces_savepoints`, savepoints begin regardless of the number of pending checkpoints.
    """

    def __init__(
        self,
        *,
        max_concurrent: int,
        min_pause_s: float,
        forces_savepoints: bool = False,
        max_queued: int = MAX_QUEUED_REQUESTS,
    ) -> None:
        self._max_concurrent = max_concurrent
        self.forces_savepoints = forces_savepoints
        self.min_pause_s = min_pause_s
        self._max_queued = max_queued
        self._queue: list[CheckpointRequest] = []

    def __len__(self) -> int:
        """Number of queued requests."""
        return len(self._queue)

    def add(self, request: CheckpointRequest) -> FailureReason | None:
        """Queue a request.

        If the queue is full, returns the reason why this request, or a less urgent one, was refused.
        """
        periodic_waits = bool(self._queue) and self._queue[-1].periodic
        if request.periodic and periodic_waits:
            return None  # the queued one serves for both
        if len(self._queue) >= self._max_queued and not periodic_waits:
            return FailureReason.TOO_MANY_REQUESTS
        insort(self._queue, request, key=lambda each: (each.kind, each.requested_at))
        if len(self._queue) <= self._max_queued:
            return None
        self._queue.pop()  # the periodic one
        return FailureReason.TOO_MANY_REQUESTS

    def choose(self, now: float, pending: int, last_end: float) -> CheckpointRequest | PutOff | None:
        """Remove and return the request that may be granted now; None if there is none.

        `pending`: number of pending checkpoints; `last_end`: time at which the last checkpoint ended.
        """
        if not self._queue:
            return None
        forced = self.forces_savepoints and self._queue[0].savepoint is not None
        if pending >= self._max_concurrent and not forced:
            return None
        request = self._queue.pop(0)
        # Computed in the same way each time, so that no rounding error makes a tick at `until` too early.
        until = last_end + self.min_pause_s
        return PutOff(until) if request.periodic and now < until else request

    def clear(self) -> list[CheckpointRequest]:
        """Refuse all queued requests and return them."""
        refused, self._queue = self._queue, []
        return refused


QUEUED_REQUEST_DELAY_S = 0.002
"""Delay between the end of a checkpoint and the trigger of a queued request."""


class CheckpointScheduler:
    """Calls `trigger` with each request that is due; `pending` returns the number of pending checkpoints.

    `first_at`: time of the first periodic request of the run; None: after a random part of the interval.
    """

    def __init__(
        self,
        agenda: Agenda,
        config: NetworkConfig,
        randomness: Randomness,
        *,
        pending: Callable[[], int],
        trigger: Callable[[CheckpointRequest], None],
        first_at: float | None = None,
    ) -> None:
        self._first_at = first_at
        self._agenda = agenda
        self._randomness = randomness
        self._pending = pending
        self._trigger = trigger
        self._interval = _interval_s(config)
        self._decider = CheckpointRequestDecider(
            max_concurrent=config.max_concurrent_checkpoints,
            min_pause_s=config.checkpoint_min_pause_s,
            forces_savepoints=not config.takes_unaligned_checkpoints,
        )
        self._last_end = -math.inf
        self._running = False
        self._timer: Timer | None = None
        self._grants = Timers(agenda)

    def start(self) -> None:
        """Start periodic requests, if there is an interval, and permit others."""
        self._running = True
        self.resume()

    def resume(self) -> None:
        """Resume periodic requests, if the scheduler runs.

        Unless the first one of the run has its own time, it follows after a random part of the interval.
        """
        if not self._running or self._interval is None:
            return
        first_at, self._first_at = self._first_at, None
        if first_at is None or first_at < self._agenda.now:
            delay = (self._decider.min_pause_s, self._interval)
            first_at = self._agenda.now + self._randomness.between(delay, "scheduler")
        self._start_timer(first_at)

    def change(self, config: NetworkConfig) -> None:
        """Apply new settings. If the interval has changed, the next tick follows after the new interval."""
        before, self._interval = self._interval, _interval_s(config)
        self._decider.min_pause_s = config.checkpoint_min_pause_s
        self._decider.forces_savepoints = not config.takes_unaligned_checkpoints
        ticks = self._timer is not None and self._timer.pending
        if ticks and self._interval is not None and self._interval != before:
            self._start_timer(self._agenda.now + self._interval)

    def stop(self) -> list[CheckpointRequest]:
        """Stop; refuse all queued requests and return them."""
        self._running = False
        self._grants.cancel()
        return self.suspend()

    def suspend(self) -> list[CheckpointRequest]:
        """Suspend periodic requests until `resume`; refuse all queued requests and return them."""
        self._cancel_timer()
        return self._decider.clear()

    def request(self, kind: RequestKind, savepoint: ScheduledSavepoint | None = None) -> FailureReason | None:
        """Trigger a checkpoint as soon as possible; returns the reason if a request is refused, else None."""
        if not self._running:
            return FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        refused = self._decider.add(CheckpointRequest(kind, self._agenda.now, savepoint))
        self._grant()
        return refused

    def ended(self) -> None:
        """Record that a checkpoint was completed or has failed.

        The pause begins, and a queued request may be granted.
        """
        self._last_end = self._agenda.now
        if len(self._decider):
            self._grants.after(QUEUED_REQUEST_DELAY_S, self._grant)

    def _start_timer(self, at: float) -> None:
        """Restart the timer: tick at the given time and periodically from then on."""
        self._cancel_timer()
        self._timer = self._agenda.cancellable_at(at, self._tick, at)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self, due: float) -> None:
        assert self._interval is not None
        self._start_timer(due + self._interval)  # at a fixed rate, even if a real clock delays the tick
        self.request(RequestKind.PERIODIC)

    def _grant(self) -> None:
        while choice := self._decider.choose(self._agenda.now, self._pending(), self._last_end):
            if isinstance(choice, PutOff):
                self._start_timer(choice.until)
            else:
                self._trigger(choice)


def _interval_s(config: NetworkConfig) -> float | None:
    """Return the time between two periodic requests, or None if there are none."""
    if config.checkpoint_interval_s is None:
        return None
    return max(config.checkpoint_interval_s, config.checkpoint_min_pause_s)
