"""Pipelined regions: the parts of a job that fail and restart by themselves.

A region is a connected component of the execution graph, subtask by subtask: whoever a subtask sends to, or
reads from, is in its region::

    source -- forward --> map        0 -> 0   1 -> 1   2 -> 2       three regions
    source -- hash -----> map        each -> each                   one
    clicks -> sink   orders -> sink  two pipelines that share nothing: at least two

No data passes from one region to another, so each can be put back to the latest checkpoint while the others
go on. The rule is that of Flink's SchedulingPipelinedRegionComputeUtil, where all edges are pipelined.
"""

from __future__ import annotations

from ..checkpoints.control_plane import TaskKey
from ..scenarios.config import FailoverStrategy
from ..scenarios.scenario import Scenario
from ..scenarios.topology import consumers_of_producers

Region = tuple[TaskKey, ...]
"""The subtasks of a region, in the order of their vertices, then by index."""


def regions_of(scenario: Scenario) -> list[Region]:
    """Return the pipelined regions of a job, in the order of their first subtasks."""
    numbers = {vertex.name: number for number, vertex in enumerate(scenario.vertices)}
    leaders = {task: task for task in all_tasks(scenario)}
    for edge in scenario.edges:
        source, target = numbers[edge.source], numbers[edge.target]
        producers = scenario.vertices[source].parallelism
        consumers = scenario.vertices[target].parallelism
        if edge.strategy.pointwise:
            for producer, reached in enumerate(consumers_of_producers(edge.ship, producers, consumers)):
                for consumer in reached:
                    _join(leaders, (source, producer), (target, consumer))
        else:
            for producer in range(producers):
                _join(leaders, (source, producer), (target, 0))
            for consumer in range(1, consumers):
                _join(leaders, (source, 0), (target, consumer))
    regions: dict[TaskKey, list[TaskKey]] = {}
    for task in leaders:
        regions.setdefault(_leader(leaders, task), []).append(task)
    return [tuple(tasks) for tasks in regions.values()]


def all_tasks(scenario: Scenario) -> Region:
    """Return all subtasks of a job, vertex by vertex."""
    vertices = enumerate(scenario.vertices)
    return tuple((number, index) for number, vertex in vertices for index in range(vertex.parallelism))


def _leader(leaders: dict[TaskKey, TaskKey], task: TaskKey) -> TaskKey:
    """Who stands for the set that a task is in; on the way there paths are made shorter."""
    while leaders[task] != task:
        leaders[task] = task = leaders[leaders[task]]
    return task


def _join(leaders: dict[TaskKey, TaskKey], one: TaskKey, other: TaskKey) -> None:
    leaders[_leader(leaders, other)] = _leader(leaders, one)


def failover_regions(scenario: Scenario) -> list[Region]:
    """Return what restarts together: the regions of a job, or with the strategy `full` all of it."""
    full = scenario.config.failover_strategy is FailoverStrategy.FULL
    return [all_tasks(scenario)] if full else regions_of(scenario)


def task_names(scenario: Scenario, region: Region) -> list[str]:
    """Return the tasks of a region for people to read: whole vertices by name, others with their subtasks."""
    indices: dict[int, list[int]] = {}
    for number, index in region:
        indices.setdefault(number, []).append(index)
    return [
        scenario.vertices[number].name
        if len(own) == scenario.vertices[number].parallelism
        else f"{scenario.vertices[number].name}[{', '.join(map(str, own))}]"
        for number, own in indices.items()
    ]
