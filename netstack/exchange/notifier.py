"""How task threads reach the thread that does the network.

In emulated time that takes the time `notify` and keeps its order, in a thread that runs tasks and network it
is a plain call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Protocol

from ..engine.agenda import Agenda, Line
from ..engine.randomness import Randomness
from ..scenarios.config import CostModel


class Notify(Protocol):
    """Hands work from task threads to a network thread, in order."""

    def __call__(self, work: Callable[..., None], *args: object) -> None:
        """Let the network thread do ``work(*args)``."""
        ...


class Notifier:
    """Notifies a network thread in emulated time, which takes a small random time.

    With `blocked_until`, which tells when something can be written again, what a task asks for waits until
    then, in order. So the credit that a channel gains meanwhile is announced in one message, as by Flink's
    CreditBasedPartitionRequestClientHandler.
    """

    __slots__ = ("_agenda", "_blocked_until", "_held", "_jitter", "_last", "_line", "_median")

    def __init__(
        self,
        agenda: Agenda,
        costs: CostModel,
        randomness: Randomness,
        blocked_until: Callable[[], float] | None = None,
    ) -> None:
        self._agenda = agenda
        self._line = Line(agenda)
        self._blocked_until = blocked_until
        self._held: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._median = costs.notify_s
        self._jitter = randomness.jitter
        self._last = 0.0

    def __call__(self, work: Callable[..., None], *args: object) -> None:
        """Let the network thread do ``work(*args)``."""
        agenda = self._agenda
        time = agenda.now + self._median * self._jitter()
        if time < self._last:
            time = self._last
        self._last = time
        if self._blocked_until is None:
            self._line.at(time, work, *args)
        else:
            self._line.at(time, self._do_or_hold, work, args)

    def _do_or_hold(self, work: Callable[..., None], args: tuple[object, ...]) -> None:
        if self._blocked:
            self._held.append((work, args))
            if len(self._held) == 1:
                self._do_later()
        else:
            work(*args)

    @property
    def _blocked(self) -> bool:
        """Whether nothing can be written now, or something waits that comes first."""
        assert self._blocked_until is not None
        return bool(self._held) or self._blocked_until() > self._agenda.now

    def _do_later(self) -> None:
        """Do what is held when the link is free; it may have been blocked for longer meanwhile."""
        assert self._blocked_until is not None
        until = self._blocked_until()
        if until <= self._agenda.now:
            while self._held:
                work, args = self._held.popleft()
                work(*args)
        elif until < inf:
            self._agenda.at(until, self._do_later)
