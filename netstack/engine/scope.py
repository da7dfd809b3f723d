"""What the tasks of a region put on the agenda, so that it can be forgotten while all else goes on.

Callbacks of a scope stand on the agenda as any other, in the same order; the scope is called for them and
calls them, unless it is closed. Nothing else changes, so the tasks of a job with one region cost what they
always did: what runs once a buffer waits as a routine, or in the line of a wire, and is not called for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .agenda import Agenda, Routine


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
