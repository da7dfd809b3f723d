"""What work with keyed state takes besides the service time of records, where it is in tables or logged.

State in memory is part of the service time. Tables count what is read from them and written to them, and a
changelog what is added to it; a task spends the time for that with its next buffer.
"""

from __future__ import annotations

from ..scenarios.config import CostModel
from ..state.changelog import Changelog
from ..state.subtask_state import SubtaskState
from ..state.table_backend import Accesses, TableStateBackend


class StateTimes:
    """The time that one subtask owes for its work with keyed state."""

    __slots__ = ("_accesses", "_costs", "_log", "_logged", "_paid")

    def __init__(self, state: SubtaskState, costs: CostModel) -> None:
        self._costs = costs
        self._accesses = state.keyed.accesses if isinstance(state.keyed, TableStateBackend) else Accesses()
        self._log: Changelog | None = None if state.changelog is None else state.changelog.log
        self._paid = (0, 0)
        self._logged = 0

    def owed_s(self) -> float:
        """Return how many seconds are owed for what was done since the last call."""
        accesses, costs = self._accesses, self._costs
        reads, writes = accesses.reads - self._paid[0], accesses.writes - self._paid[1]
        self._paid = accesses.reads, accesses.writes
        owed = reads * costs.table_read_s + writes * costs.table_write_s
        if self._log is not None:
            changes, self._logged = self._log.end - self._logged, self._log.end
            owed += changes * costs.log_write_s
        return owed


def state_times(state: SubtaskState, costs: CostModel) -> StateTimes | None:
    """Return what tells the time that a subtask owes for its state; None if it owes none."""
    if state.changelog is None and not isinstance(state.keyed, TableStateBackend):
        return None
    return StateTimes(state, costs)
