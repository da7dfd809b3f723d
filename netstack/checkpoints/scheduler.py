"""When checkpoints are triggered: a periodic timer, requests of users, and the pause after each one.

::

    start --- random part of the interval --- tick --- interval --- tick --- interval --- tick ..
                                                |                     | one is pending: the request waits
    end of a checkpoint --- 2 ms --- trigger, if a request waits <----/
                        --- pause --- tick, if the pause is not over; the timer goes on from there

The rules are those of Flink's CheckpointCoordinator, which asks its CheckpointRequestDecider.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..engine.agenda import Agenda, Timer
from ..engine.randomness import Randomness
from ..engine.timers import Timers
from ..scenarios.config import NetworkConfig
from .failures import FailureReason
from .request_decider import CheckpointRequest, CheckpointRequestDecider, PutOff, RequestKind

QUEUED_REQUEST_DELAY_S = 0.002
"""From the end of a checkpoint to the trigger of the one that was asked for meanwhile."""


class CheckpointScheduler:
    """Calls `trigger` whenever it is time for a checkpoint; `pending` tells how many go on."""

    def __init__(
        self,
        agenda: Agenda,
        config: NetworkConfig,
        randomness: Randomness,
        *,
        pending: Callable[[], int],
        trigger: Callable[[], None],
    ) -> None:
        self._agenda = agenda
        self._randomness = randomness
        self._pending = pending
        self._trigger = trigger
        self._min_pause = config.checkpoint_min_pause_s
        self._interval = config.checkpoint_interval_s
        if self._interval is not None:
            self._interval = max(self._interval, self._min_pause)
        self._decider = CheckpointRequestDecider(
            max_concurrent=config.max_concurrent_checkpoints, min_pause_s=self._min_pause
        )
        self._last_end = -math.inf
        self._running = False
        self._timer: Timer | None = None
        self._grants = Timers(agenda)

    def start(self) -> None:
        """Begin, with a first periodic request after a random part of the interval."""
        self._running = True
        if self._interval is not None:
            first = self._randomness.between((self._min_pause, self._interval))
            self._start_timer(self._agenda.now + first)

    def stop(self) -> None:
        """Request nothing any more; what waits is refused."""
        self._running = False
        self._cancel_timer()
        self._grants.cancel()
        self._decider.clear()

    def request(self, kind: RequestKind) -> FailureReason | None:
        """Trigger a checkpoint, or do so as soon as possible; why one is refused, or None."""
        if not self._running:
            return FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        refused = self._decider.add(CheckpointRequest(kind, self._agenda.now))
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
                self._trigger()
