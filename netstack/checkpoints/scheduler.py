"""Schedule of checkpoints: a timer, requests of users, the pause after each.

::

    start --- random part of the interval --- tick --- interval --- tick --- interval --- tick ..
                                                |                     | one is pending: the request waits
    end of a checkpoint --- 2 ms --- trigger, if a request waits <----/
                        --- pause --- tick, if the pause is not over; the timer goes on from there

    timer ----- periodic --\\                                      too many pending: wait
                            >--> queue: by kind, then by time ----> pause not over: put off (periodic only)
    person ---- by hand ---/     periodic: one at most               else: trigger

A savepoint comes first, and where no barrier overtakes data it does not wait for pending checkpoints.

The rules are those of Flink's CheckpointCoordinator and CheckpointRequestDecider, but for one: further
periodic requests are dropped while one waits, where Flink would keep a thousand of them and, once checkpoints
are fast again, trigger one after the other.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from ..engine.agenda import Agenda, Timer
from ..engine.randomness import Randomness
from ..engine.timers import Timers
from ..scenarios.config import NetworkConfig
from .pending_checkpoint import FailureReason
from .savepoints import SavepointRequest

MAX_QUEUED_REQUESTS = 1000
"""More than these are refused."""


class RequestKind(IntEnum):
    """Origin of a request, the most urgent first."""

    SAVEPOINT = 0
    USER = 1
    PERIODIC = 2


class CheckpointRequest(NamedTuple):
    """A wish for a checkpoint; the time is in seconds. A savepoint has a `savepoint`."""

    kind: RequestKind
    requested_at: float
    savepoint: SavepointRequest | None = None

    @property
    def urgency(self) -> tuple[RequestKind, float]:
        """The least is granted first."""
        return self.kind, self.requested_at

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
    of the last one at the earliest; one that a user asks for need not wait. With `forces_savepoints` those
    begin however many are pending.
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
        self._forces_savepoints = forces_savepoints
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
        insort(self._queue, request, key=lambda each: each.urgency)
        if len(self._queue) <= self._max_queued:
            return None
        self._queue.pop()  # the periodic one
        return FailureReason.TOO_MANY_CHECKPOINT_REQUESTS

    def choose(self, now: float, pending: int, last_end: float) -> CheckpointRequest | PutOff | None:
        """Take the request that may be granted now; None if there is none.

        `pending` checkpoints go on; the last one to end did so at `last_end`.
        """
        if not self._queue:
            return None
        forced = self._forces_savepoints and self._queue[0].savepoint is not None
        if pending >= self._max_concurrent and not forced:
            return None
        request = self._queue.pop(0)
        # A sum of the same two numbers each time, so that who comes back at `until` is not too early.
        until = last_end + self._min_pause
        return PutOff(until) if request.periodic and now < until else request

    def change(self, *, min_pause_s: float, forces_savepoints: bool) -> None:
        """Grant requests by another pause from now on, and savepoints with or without regard to others."""
        self._min_pause, self._forces_savepoints = min_pause_s, forces_savepoints

    def clear(self) -> list[CheckpointRequest]:
        """Refuse all requests that wait; returns them."""
        refused, self._queue = self._queue, []
        return refused


QUEUED_REQUEST_DELAY_S = 0.002
"""Delay between the end of a checkpoint and the trigger of a queued request."""


class CheckpointScheduler:
    """Calls `trigger` with a request whenever it is time for one; `pending` tells how many go on."""

    def __init__(
        self,
        agenda: Agenda,
        config: NetworkConfig,
        randomness: Randomness,
        *,
        pending: Callable[[], int],
        trigger: Callable[[CheckpointRequest], None],
    ) -> None:
        self._agenda = agenda
        self._randomness = randomness
        self._pending = pending
        self._trigger = trigger
        self._min_pause = config.checkpoint_min_pause_s
        self._interval = _interval_s(config)
        self._decider = CheckpointRequestDecider(
            max_concurrent=config.max_concurrent_checkpoints,
            min_pause_s=self._min_pause,
            forces_savepoints=not config.takes_unaligned_checkpoints,
        )
        self._last_end = -math.inf
        self._running = False
        self._timer: Timer | None = None
        self._grants = Timers(agenda)

    def start(self) -> None:
        """Begin, with a first periodic request after a random part of the interval."""
        self._running = True
        self.go_on()

    def go_on(self) -> None:
        """Request periodic checkpoints, if it runs; the first one after a random part of the interval."""
        if self._running and self._interval is not None:
            first = self._randomness.between((self._min_pause, self._interval))
            self._start_timer(self._agenda.now + first)

    def change(self, config: NetworkConfig) -> None:
        """Go by other settings from now on: with another interval, the next tick comes when that is over."""
        before, self._interval = self._interval, _interval_s(config)
        self._min_pause = config.checkpoint_min_pause_s
        self._decider.change(
            min_pause_s=self._min_pause, forces_savepoints=not config.takes_unaligned_checkpoints
        )
        ticks = self._timer is not None and self._timer.pending
        if ticks and self._interval is not None and self._interval != before:
            self._start_timer(self._agenda.now + self._interval)

    def stop(self) -> list[CheckpointRequest]:
        """Request nothing any more; what waits is refused, and returned."""
        self._running = False
        self._grants.cancel()
        return self.hold()

    def hold(self) -> list[CheckpointRequest]:
        """Request no periodic checkpoints until told to go on; what waits is refused, and returned."""
        self._cancel_timer()
        return self._decider.clear()

    def request(self, kind: RequestKind, savepoint: SavepointRequest | None = None) -> FailureReason | None:
        """Trigger a checkpoint, or do so as soon as possible; why one is refused, or None."""
        if not self._running:
            return FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        refused = self._decider.add(CheckpointRequest(kind, self._agenda.now, savepoint))
        self._grant()
        return refused

    def ended(self) -> None:
        """A checkpoint has been completed or has failed: the pause begins, and one that waits may follow."""
        self._last_end = self._agenda.now
        if len(self._decider):
            self._grants.after(QUEUED_REQUEST_DELAY_S, self._grant)

    def _start_timer(self, at: float) -> None:
        """Tick at a time and from then on periodically, and not as before."""
        self._cancel_timer()
        self._timer = self._agenda.cancellable_at(at, self._tick, at)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self, due: float) -> None:
        assert self._interval is not None
        self._start_timer(due + self._interval)  # at a fixed rate, however late a real clock makes this
        self.request(RequestKind.PERIODIC)

    def _grant(self) -> None:
        while choice := self._decider.choose(self._agenda.now, self._pending(), self._last_end):
            if isinstance(choice, PutOff):
                self._start_timer(choice.until)
            else:
                self._trigger(choice)


def _interval_s(config: NetworkConfig) -> float | None:
    """Return the time between two periodic requests; None: there are none."""
    if config.checkpoint_interval_s is None:
        return None
    return max(config.checkpoint_interval_s, config.checkpoint_min_pause_s)
