"""What one owner has put on the agenda and may want back all at once, as messages under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from .agenda import Agenda
from .callbacks import Timer


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
