"""The faults that can happen in a process of a job: a subtask, or all of a task manager, is killed at a time.

The process survives and tells what has happened, as one that fails of anything else does.
"""

from __future__ import annotations

from collections.abc import Callable

from ..engine.agenda import Agenda
from ..jobs.attempt import Attempt
from ..results.statistics import FiredFault
from ..scenarios.fault import AtTime, Fault, KillSubtask, KillTaskManager


class Killings:
    """The faults of task manager `name`; `fired` are those that have happened. `fail` is told what."""

    def __init__(self, agenda: Agenda, attempt: Attempt, name: str, fail: Callable[[str], None]) -> None:
        self.fired: list[FiredFault] = []
        self._agenda = agenda
        self._attempt = attempt
        self._name = name
        self._fail = fail

    def start(self, begins_at: float) -> None:
        """Wait for those that are to happen from now on; what was due before `begins_at` has happened."""
        for fault in self._attempt.scenario.faults:
            if self._is_here(fault) and isinstance(fault.when, AtTime) and fault.when.time_s >= begins_at:
                self._agenda.at(fault.when.time_s, self._fire, fault)

    def _is_here(self, fault: Fault) -> bool:
        if isinstance(fault, KillSubtask):
            return self._attempt.scenario.vertex(fault.subtask.vertex).manager_of(0) == self._name
        return isinstance(fault, KillTaskManager) and fault.task_manager == self._name

    def _fire(self, fault: Fault) -> None:
        self.fired.append(FiredFault(self._agenda.now, fault.kind, str(fault)))
        hit = [
            subtask
            for subtask in self._attempt.subtasks
            if not isinstance(fault, KillSubtask)
            or (subtask.name, subtask.index) == (fault.subtask.vertex, fault.subtask.subtask)
        ]
        if not all(subtask.ended for subtask in hit):
            self._fail(str(fault))
