"""For how long a process could not do what was due in it.

Something else had the processor, or one callback took all of the time; meanwhile other processes may have had
to wait for this one. A small entry is put on the agenda every few milliseconds, to see how late it runs.
"""

from __future__ import annotations

from ..engine.agenda import Agenda

EVERY_S = 0.005
"""From one entry to the next: shorter hold-ups may be missed."""

GRAIN_S = 0.002
"""No hold-up is shorter: a sleeping process is woken a millisecond late, and others may be due first."""


class HoldUps:
    """The hold-ups of the process that `agenda` runs in; `total_s` is how long all have been together."""

    def __init__(self, agenda: Agenda) -> None:
        self.total_s = 0.0
        self._agenda = agenda

    def start(self, at: float) -> None:
        """Look for them from that time of the run on."""
        self._agenda.at(at, self._look, at)

    def _look(self, due: float) -> None:
        now = self._agenda.now
        if now - due > GRAIN_S:
            self.total_s += now - due
        self.start(now + EVERY_S)
