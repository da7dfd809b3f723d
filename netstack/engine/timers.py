"""Entries of the agenda that one owner may drop together, while all else goes on.

`Timers` are cancelled together, as messages under way. A `Scope` has all that the tasks of a region put on
the agenda. Its callbacks are on the agenda as any other, in the same order; the scope is called for them and
calls them, unless it is closed. Nothing else changes, so the tasks of a job with one region cost what they
always did: an action that runs once a buffer waits as a routine, or in the line of a wire, without a scope.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from .agenda import Agenda, Routine, Timer


class Timers:
    """Callbacks on `agenda` that are cancelled together."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._timers: deque[Timer] = deque()

    def after(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` in `delay` seconds, unless all are cancelled before."""
        timers = self._timers
        while timers and not timers[0].pending:  # those of about equal delays end in about their order
            timers.popleft()
        timers.append(self._agenda.cancellable_after(delay, callback, *args))

    def cancel(self) -> None:
        """Call none of those that are still to come."""
        while self._timers:
            self._timers.popleft().cancel()


class Scope:
    """Callbacks and routines on `agenda` that end together, with `close`."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._routines: set[Routine] = set()
        self._open = True

    def at(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` at `time`, unless it is closed before."""
        if self._open:
            self._agenda.at(time, self, callback, args)

    def after(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` in `delay` seconds, unless it is closed before."""
        self.at(self._agenda.now + delay, callback, *args)

    def start(
        self, routine: Routine, name: str = "routine", on_end: Callable[[], None] | None = None
    ) -> None:
        """Step `routine` as `Agenda.start` does, until it is closed."""
        self._routines.add(routine)
        self._agenda.start(routine, name, on_end)

    def close(self) -> None:
        """Close all routines and call nothing any more; not to be called by one of them.

        Whatever else holds one of the routines has to let go of it: it must not be resumed.
        """
        self._open = False
        self._agenda.forget(self, self._routines)
        self._routines = set()

    def __call__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """A callback is due."""
        callback(*args)
