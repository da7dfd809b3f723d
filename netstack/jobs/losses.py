"""Which regions of an attempt a loss hits: of a task manager, or of the connection between two."""

from __future__ import annotations

from collections.abc import Callable

from ..scenarios.scenario import Scenario
from ..tasks.subtask import Subtask
from .attempt import Attempt


def regions_with_tasks_in(attempt: Attempt, task_manager: str) -> list[int]:
    """Return the regions of which a task that has not ended is in a task manager, each once."""
    scenario = attempt.scenario
    return _regions(attempt, lambda task: not task.ended and _manager_of(scenario, task) == task_manager)


def regions_over(attempt: Attempt, ends: tuple[str, str]) -> list[int]:
    """Return the regions with a task in one of two task managers that reads from the other, each once."""
    scenario = attempt.scenario

    def reads_over_it(task: Subtask) -> bool:
        own = _manager_of(scenario, task)
        others = {_manager_of(scenario, other) for other in task.upstream if isinstance(other, Subtask)}
        return any((other, own) in (ends, ends[::-1]) for other in others)

    return _regions(attempt, reads_over_it)


def _regions(attempt: Attempt, hit: Callable[[Subtask], bool]) -> list[int]:
    tasks = [(subtask.vertex, subtask.index) for subtask in attempt.subtasks if hit(subtask)]
    return list(dict.fromkeys(map(attempt.region_of, tasks)))


def _manager_of(scenario: Scenario, task: Subtask) -> str:
    return scenario.vertices[task.vertex].manager_of(task.index)
