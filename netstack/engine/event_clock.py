"""Event time: what the records say that are emitted now."""

from __future__ import annotations

from math import floor

from .agenda import Agenda

_ROUNDING = 1e-6


class EventClock:
    """Tells the event time of now, in whole milliseconds: that of the agenda, which begins with the run.

    A run that goes on from the checkpoint of an earlier one begins behind what that had reached, so that
    event time does not go back.
    """

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._ahead_ms = 0

    @property
    def now_ms(self) -> int:
        """The event time of what is emitted now."""
        return self._passed_ms + self._ahead_ms

    def go_on_from(self, reached_ms: int) -> None:
        """An earlier run had come so far; if this one has not, its event time goes on from there."""
        self._ahead_ms = max(self._ahead_ms, reached_ms - self._passed_ms)

    @property
    def _passed_ms(self) -> int:
        return floor(self._agenda.now * 1e3 + _ROUNDING)
