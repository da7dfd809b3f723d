"""Where the subtasks of a job run: slots that share, and which task manager has room for how many of them.

Subtask i of every vertex of a group runs in slot i of the group. Flink chooses the task manager of each slot,
among those with room for one of the group. So which subtask goes where is certain where a group lies in one
task manager; elsewhere it has to be looked up when the job runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from netstack import Scenario, Vertex


@dataclass(frozen=True)
class Placement:
    """The groups of a job and the room for them."""

    groups: Mapping[str, str]
    """The group of each vertex, by their names."""
    rooms: Sequence[Mapping[str, int]]
    """For each task manager of the scenario, in its order, the slots of each group."""


def placement_of(scenario: Scenario) -> Placement:
    """Return the fewest groups whose vertices agree on where subtask i runs."""
    slots: dict[str, tuple[str, ...]] = {}
    groups = {}
    for vertex in scenario.vertices:
        managers = managers_of(vertex)
        name = next((name for name, known in slots.items() if _agree(managers, known)), f"g{len(slots)}")
        slots[name] = max(managers, slots.get(name, ()), key=len)
        groups[vertex.name] = name
    rooms: list[dict[str, int]] = [{} for _ in scenario.task_managers]
    for name, of_slots in slots.items():
        for manager, count in Counter(of_slots).items():
            rooms[scenario.task_managers.index(manager)][name] = count
    return Placement(groups, rooms)


def managers_of(vertex: Vertex) -> tuple[str, ...]:
    """The task manager of each subtask."""
    return tuple(vertex.manager_of(subtask) for subtask in range(vertex.parallelism))


def _agree(managers: Sequence[str], others: Sequence[str]) -> bool:
    """Whether subtasks run in the same places, as far as both vertices have them."""
    return all(manager == other for manager, other in zip(managers, others, strict=False))


def placed(scenario: Scenario, occupied: Mapping[str, Sequence[str]]) -> Scenario:
    """Return the scenario with the subtasks of each vertex, by its name, in the task managers of `occupied`.

    Task managers that have only changed their names have not changed: the scenario comes back as it is.
    """
    names: dict[str, str] = {}
    for vertex in scenario.vertices:
        for manager, name in zip(managers_of(vertex), occupied[vertex.name], strict=True):
            names.setdefault(manager, name)
    renamed = len(set(names.values())) == len(names) and all(
        [names[manager] for manager in managers_of(vertex)] == list(occupied[vertex.name])
        for vertex in scenario.vertices
    )
    if renamed:
        return scenario
    vertices = [replace(vertex, task_manager=tuple(occupied[vertex.name])) for vertex in scenario.vertices]
    return replace(scenario, vertices=tuple(vertices))
