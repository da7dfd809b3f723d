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
        own = managers_of(vertex)
        name = next((name for name, other in slots.items() if _agree(own, other)), f"g{len(slots)}")
        slots[name] = max(own, slots.get(name, ()), key=len)
        groups[vertex.name] = name
    rooms: list[dict[str, int]] = [{} for _ in scenario.task_managers]
    for name, managers in slots.items():
        for manager, count in Counter(managers).items():
            rooms[scenario.task_managers.index(manager)][name] = count
    return Placement(groups, rooms)


def managers_of(vertex: Vertex) -> tuple[str, ...]:
    """The task manager of each subtask."""
    return tuple(vertex.manager_of(subtask) for subtask in range(vertex.parallelism))


def _agree(own: Sequence[str], other: Sequence[str]) -> bool:
    return all(one == two for one, two in zip(own, other, strict=False))


def placed(scenario: Scenario, found: Mapping[str, Sequence[str]]) -> Scenario:
    """Return the scenario with the subtasks of each vertex, by its name, in the task managers of `found`.

    Task managers that have only changed their names have not changed: the scenario comes back as it is.
    """
    names: dict[str, str] = {}
    for vertex in scenario.vertices:
        for own, other in zip(managers_of(vertex), found[vertex.name], strict=True):
            names.setdefault(own, other)
    renamed = len(set(names.values())) == len(names) and all(
        [names[own] for own in managers_of(vertex)] == list(found[vertex.name])
        for vertex in scenario.vertices
    )
    if renamed:
        return scenario
    vertices = [replace(vertex, task_manager=tuple(found[vertex.name])) for vertex in scenario.vertices]
    return replace(scenario, vertices=tuple(vertices))
