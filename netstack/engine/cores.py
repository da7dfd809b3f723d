"""The cores of a machine, shared by routines.

Work proceeds at full speed while each working routine has a core. Otherwise all routines get an equal share,
as under an operating system with short time slices::

    2 cores, work of 1 s each   A alone: done after 1 s    A, B, C: each at 2/3 of its speed, done after 1.5 s
"""

from __future__ import annotations

import heapq

from .agenda import Agenda, Timer, Waiter

_ROUNDING = 1e-12


class Cores:
    """A number of cores, possibly fractional, that tasks share."""

    def __init__(self, agenda: Agenda, cores: float) -> None:
        self._agenda = agenda
        self._cores = cores
        self._working: list[tuple[float, int, Waiter]] = []
        """Heap of (virtual finish time, serial, waiter) of the routines that are working."""
        self._serial = 0
        self._got_s = 0.0
        """Virtual time: the work done by a routine that has been working since the start."""
        self._updated_at = 0.0
        self._timer: Timer | None = None
        self._owed_s = 0.0

    def owe(self, seconds: float) -> None:
        """Let other threads, such as those of the network, take `seconds` of processor time.

        They take it from idle cores. If routines use all cores, they take it from the next routine.
        """
        self._advance()
        self._owed_s += seconds

    async def work(self, seconds: float) -> None:
        """Suspend the calling routine until it has received `seconds` of processor time."""
        self._advance()
        if len(self._working) + 1 >= self._cores:
            seconds += self._owed_s
            self._owed_s = 0.0
        self._serial += 1
        entry = (self._got_s + seconds, self._serial, Waiter(self._agenda))
        heapq.heappush(self._working, entry)
        self._set_timer()
        try:
            await entry[2].wait()
        except GeneratorExit:
            # The other routines get the share of a routine that is closed while working.
            if entry in self._working:
                self._advance()
                self._working.remove(entry)
                heapq.heapify(self._working)
                self._set_timer()
            raise

    @property
    def _speed(self) -> float:
        """The share of a core that each working routine gets."""
        return min(1.0, self._cores / len(self._working)) if self._working else 1.0

    def _advance(self) -> None:
        """Credit each working routine with its share of the time since the last call."""
        now = self._agenda.now
        passed_s = now - self._updated_at
        self._got_s += passed_s * self._speed
        if passed_s and self._owed_s:
            idle = max(0.0, self._cores - len(self._working))
            self._owed_s = max(0.0, self._owed_s - passed_s * idle)
        self._updated_at = now

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._working:
            left_s = max(0.0, self._working[0][0] - self._got_s)
            self._timer = self._agenda.cancellable_after(left_s / self._speed, self._done)

    def _done(self) -> None:
        """Wake the routines whose work is finished."""
        self._advance()
        self._got_s = max(self._got_s, self._working[0][0])
        while self._working and self._working[0][0] <= self._got_s + _ROUNDING:
            heapq.heappop(self._working)[2].wake()
        self._set_timer()
