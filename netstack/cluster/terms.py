"""What a scenario means where it runs over several processes: who hosts what, and which costs are real.

Between processes, wires and threads take the time that they take: the costs that stand for them in emulated
time would be counted twice. What is left is the service time of records and the pace of sources, which are
the job's own. The conditions of the link are those of the network at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import inf

from ..checkpoints.recovery import ClaimMode
from ..jobs.failover import failover_regions
from ..scenarios.config import CostModel, LinkConditions
from ..scenarios.config_rules import Problem, option_key
from ..scenarios.fault import AtTime, Fault, KillSubtask, KillTaskManager
from ..scenarios.scenario import FROM_SOURCE, Scenario

TURN_S = 1e-9
"""Cost of a record of a source: it pauses after each batch, so that others in its process have their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What all processes of an attempt are given alike.

    `origin` is when the run began on the wall clock and `restore` the checkpoint to go on from; both None
    for the first attempt, `restore` also where none was complete. `from_initial`: that is the checkpoint of
    an earlier run, in the storage of that. `retained` are the complete ones of this run, oldest first. The
    attempt's first checkpoint has the number `first_checkpoint`.
    `traced`: whether reports tell each step.
    """

    scenario: Scenario
    origin: float | None = None
    restore: int | None = None
    retained: tuple[int, ...] = ()
    from_initial: bool = False
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    in_place: bool = False
    first_checkpoint: int = 1
    traced: bool = False


def task_managers(scenario: Scenario) -> list[str]:
    """Return the task managers of a scenario in the order of their processes."""
    return list(scenario.task_managers)


def with_real_costs(scenario: Scenario) -> Scenario:
    """Return the scenario with no cost but the service time of its records."""
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
    """Yield what of a scenario is not possible over several processes."""
    for vertex in scenario.vertices:
        if len(vertex.managers) > 1:
            text = f"is {', '.join(vertex.managers)}; over TCP, a vertex runs in one task manager"
            yield f"vertices.{vertex.name}.task_manager", f"{text}, so name one, without slots"
    for number, machine in enumerate(scenario.machines):
        if len(machine.task_managers) > 1:
            text = "over TCP, each task manager is a process, so give each a machine of its own"
            yield f"machines.{number}.task_managers", f"is {', '.join(machine.task_managers)}; {text}"
    for number, fault in enumerate(scenario.faults):
        if not _can_happen(fault):
            text = f"{fault.kind} is possible in emulated time only; over TCP, a subtask or a task manager"
            yield f"faults[{number}]", f"{text} can be killed `at` a time"

    if scenario.changes:
        yield "changes", "are made in one process only; over TCP, run a scenario without any"


def distribution_notices(scenario: Scenario) -> Iterator[Problem]:
    """Yield what a user should know of settings that have no effect over several processes."""
    if scenario.costs != CostModel():
        yield "costs", "are not used over TCP, where all but the service time of records is real"
    if scenario.link != LinkConditions():
        yield "link", "is not used over TCP: the network is that between the processes"
    known = all(vertex.parallelism != FROM_SOURCE for vertex in scenario.vertices)
    if known and len(regions := failover_regions(scenario)) > 1:
        text = f"is region, and the job has {len(regions)} regions; over TCP they restart together"
        yield option_key("failover_strategy"), text


def _can_happen(fault: Fault) -> bool:
    return isinstance(fault, KillSubtask | KillTaskManager) and isinstance(fault.when, AtTime)
