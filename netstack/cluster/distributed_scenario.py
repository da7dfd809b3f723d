"""Adapts a scenario to real processes: finds unsupported settings, and removes costs that are now real.

Between real processes, transfers and threads take real time. Emulated costs for these would count twice, so
they are set to zero. The service time of records and the rate of sources belong to the job and are kept. The
link conditions are those of the actual network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from math import inf

from ..jobs.failover import failover_regions
from ..scenarios.config_rules import Problem, option_key
from ..scenarios.costs import CostModel, LinkConditions
from ..scenarios.faults import AtTime, KillSubtask, KillTaskManager
from ..scenarios.rules import fault_key, vertex_key
from ..scenarios.scenario import FROM_SOURCE, Scenario

__all__ = ["distribution_notices", "distribution_problems", "task_managers"]

TURN_S = 1e-9
"""Cost of a source record in seconds.

It makes a source pause after each batch, so that other tasks in its process can run.
"""


def task_managers(scenario: Scenario) -> list[str]:
    """Return the task managers of a scenario in the order of their processes."""
    return list(scenario.task_managers)


def with_real_costs(scenario: Scenario) -> Scenario:
    """Return the scenario without costs except the service time of its records."""
    nothing: dict[str, object] = {}
    for field in fields(CostModel):
        value = getattr(scenario.costs, field.name)
        if field.name.endswith("_bytes_per_s"):
            nothing[field.name] = inf
        elif field.name.endswith("_s"):
            nothing[field.name] = (0.0, 0.0) if isinstance(value, tuple) else 0.0
    nothing["source_record_s"] = TURN_S
    return replace(scenario, costs=replace(scenario.costs, **nothing))  # type: ignore[arg-type]


def distribution_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield the settings of a scenario that are not supported over several processes."""
    for vertex in scenario.vertices:
        if len(vertex.managers) > 1:
            text = f"is {', '.join(vertex.managers)}, but over TCP all subtasks of a vertex run in one"
            hint = "name one task manager here, and give no slots"
            yield vertex_key(vertex.name, "task_manager"), f"{text} task manager; {hint}"
    for number, machine in enumerate(scenario.machines):
        if len(machine.task_managers) > 1:
            text = "over TCP, each task manager is a process of its own, so a machine can have only one"
            yield f"machines.{number}.task_managers", f"is {', '.join(machine.task_managers)}; {text}"
    for number, fault in enumerate(scenario.faults):
        if not isinstance(fault, KillSubtask | KillTaskManager):
            only = "Only kill_subtask and kill_task_manager with a time (`at`) do"
            text = f"{fault.kind} does not work over TCP. {only}"
            yield fault_key(number), f"{text}; remove this fault, or run in emulated time."
        elif not isinstance(fault.when, AtTime):
            yield fault_key(number), f"{fault.kind} over TCP needs a time (`at`), not an event (`on`)."
    if scenario.changes:
        yield "changes", "are possible in emulated time only; to run over TCP, remove the changes"


def distribution_notices(scenario: Scenario) -> Iterator[Problem]:
    """Yield a notice for each setting that has no effect over several processes."""
    if scenario.costs != CostModel():
        text = "have no effect over TCP, where everything but the service time of records takes real time"
        yield "costs", text
    if scenario.link != LinkConditions():
        yield "link", "has no effect over TCP, where the real network between the processes is used"
    known = all(vertex.parallelism != FROM_SOURCE for vertex in scenario.vertices)
    if known and len(regions := failover_regions(scenario)) > 1:
        text = f"is region, and the job has {len(regions)} regions, but over TCP all regions restart together"
        yield option_key("failover_strategy"), text
