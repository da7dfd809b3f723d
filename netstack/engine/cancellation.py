"""Groups of entries on the agenda that can be cancelled together.

`Timers` is a small group of callbacks, for example the arrivals of the messages that are in transit. A
`Scope` holds all entries of the tasks of one region. Its callbacks are on the agenda like all others, in the
same order. The agenda calls the scope, which calls the callback unless the scope is closed. Work that is done
once per buffer is not scheduled through a scope: it waits as a routine, or in the queue of a wire. So scopes
add no cost per buffer.
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
        """Call ``callback(*args)`` in `delay` seconds, unless `cancel` is called before."""
        timers = self._timers
        while timers and not timers[0].pending:  # with similar delays they are due in about this order
            timers.popleft()
        timers.append(self._agenda.cancellable_after(delay, callback, *args))

    def cancel(self) -> None:
        """Cancel all callbacks that have not been called."""
        while self._timers:
            self._timers.popleft().cancel()


class Scope:
    """Callbacks and routines on `agenda` that end together, with `close`."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._routines: set[Routine] = set()
        self._open = True

    def at(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` at `time`, unless the scope is closed before."""
        if self._open:
            self._agenda.at(time, self, callback, args)

    def after(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` in `delay` seconds, unless the scope is closed before."""
        self.at(self._agenda.now + delay, callback, *args)

    def start(
        self, routine: Routine, name: str = "routine", on_end: Callable[[], None] | None = None
    ) -> None:
        """Run `routine` as `Agenda.start` does, until the scope is closed."""
        self._routines.add(routine)
        self._agenda.start(routine, name, on_end)

    def close(self) -> None:
        """Close all routines and cancel all callbacks. The scope's own routines must not call this method.
        Other objects that refer to one of the routines must drop the reference, since the routine must not be
        resumed.
        """
        self._open = False
        self._agenda.forget(self, self._routines)
        self._routines = set()

    def __call__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Call a callback that is due."""
        callback(*args)
