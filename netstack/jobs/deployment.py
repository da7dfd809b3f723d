"""What lies between the end of a restart delay and tasks that read their state: scheduling and deployment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..checkpoints.control_plane import TaskKey
from ..scenarios.scenario import Scenario


def deployment_s(scenario: Scenario, tasks: Iterable[TaskKey]) -> float:
    """Return how long it takes until tasks have been deployed that restart together, in seconds.

    A task manager takes one task after the other, and the last one counts: all begin with it.
    """
    managers = Counter(scenario.vertices[number].manager_of(index) for number, index in tasks)
    costs = scenario.costs
    return costs.deploy_s + costs.deploy_per_task_s * max(managers.values(), default=0)
