"""Slots: where the subtasks of a job run when nobody names their task managers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .scenario import MAX_PARALLELISM, Vertex

DEFAULT_GROUP = "default"
"""The slot sharing group of a vertex that names none."""


def in_slots(
    vertices: Sequence[Vertex], slots: int | None, groups: Sequence[str] | None = None
) -> tuple[Vertex, ...]:
    """Return vertices whose subtasks run in the slots of task managers, `slots` each, by slot sharing.

    Subtask i of every vertex of a slot sharing group shares slot i of the group; slots of the groups follow
    each other, and fill one task manager after the other: "tm-1", "tm-2" and so on. `groups` are those of the
    vertices, by default one for all. A vertex that names its task manager stays there. Without `slots`, or
    fewer than one, the vertices are returned as they are; so they are when one has more subtasks than a job
    may have, whose names of task managers would fill the memory before that is refused.

    Source: Flink's LocalInputPreferredSlotSharingStrategy, where all vertices have inputs of one kind.
    """
    huge = any(vertex.parallelism > MAX_PARALLELISM for vertex in vertices)
    if slots is None or slots < 1 or huge:
        return tuple(vertices)
    groups = [DEFAULT_GROUP] * len(vertices) if groups is None else groups
    first, taken = dict[str, int](), 0
    for group in dict.fromkeys(groups):
        first[group] = taken
        taken += max(
            max(1, vertex.parallelism) for vertex, of in zip(vertices, groups, strict=True) if of == group
        )
    return tuple(
        vertex
        if vertex.task_manager is not None
        else replace(vertex, task_manager=_managers(first[group], max(1, vertex.parallelism), slots))
        for vertex, group in zip(vertices, groups, strict=True)
    )


def _managers(first: int, count: int, slots: int) -> tuple[str, ...]:
    return tuple(f"tm-{slot // slots + 1}" for slot in range(first, first + count))
