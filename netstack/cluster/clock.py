"""The clock of a run over several processes: seconds since its tasks opened, the same in each of them.

All agree on one moment of the wall clock, and from then on each follows its own monotonic one, which no
correction of the wall clock touches. On one machine their times agree to microseconds, on several as well as
the wall clocks of these do; a start delay, measured between two of them, is as good as that.
"""

from __future__ import annotations

from time import monotonic, time


class RunClock:
    """Called, it says how many seconds the run has lasted; 0 before its start is known.

    `origin` is the moment on the wall clock, in seconds, at which the run began, None if that is to be
    agreed on yet.
    """

    def __init__(self, origin: float | None = None) -> None:
        self._wall_at_zero = time() - monotonic()
        self._began: float | None = None
        if origin is not None:
            self.start(origin)

    def __call__(self) -> float:
        """Seconds since the start of the run."""
        return 0.0 if self._began is None else monotonic() - self._began

    def start(self, origin: float) -> None:
        """Let the run begin at this moment of the wall clock, which may be one to come."""
        self._began = origin - self._wall_at_zero

    @property
    def origin(self) -> float | None:
        """When the run began, on the wall clock."""
        return None if self._began is None else self._began + self._wall_at_zero

    @property
    def wall_time(self) -> float:
        """What the wall clock said at the start, and the time since then."""
        return self._wall_at_zero + monotonic()
