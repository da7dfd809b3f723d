"""A Flink job as its cluster describes it.

Flink's paths: ``/jobs/ID/plan``, ``/jobs/ID/checkpoints/config`` and ``/jobmanager/config``; 1.20 and 2.2
answer alike. The rest comes from the state of the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...base.errors import FlinkRestError
from ..http.client import RestClient
from .job_state import JobState

MOST_SUBTASKS = 1 << 15
"""Flink's maximum parallelism (KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM)."""

CHAIN = " -> "
"""Separator of the operators in the name of a vertex."""

LOCAL_PATH = "pekko://flink/user/rpc"
"""Path of a task manager in the job manager's process, as in a MiniCluster. It contains no host."""

_HOST = re.compile(r"@(\[[^\]]+\]|[^@:/]+)")
"""Host within a path such as "pekko.tcp://flink@10.0.0.1:6122/user/rpc/taskmanager_0"."""

_KINDS = ("Source: ", "Sink: ")
_LONGEST_NAME = 24

_Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkVertex:
    """One vertex of a job: a chain of operators, in `parallelism` subtasks."""

    id: str
    name: str
    """Flink's name, such as "Source: source -> Map"."""
    parallelism: int
    managers: tuple[str | None, ...] = ()
    """The task manager of each subtask; empty if not reported."""
    description: str = ""
    """The operators, as the plan describes them."""
    totals: tuple[_Entry, ...] = ()
    """Counters of each subtask since its start, by their names in ``/vertices/V``."""

    @property
    def placed(self) -> str | tuple[str, ...] | None:
        """The task manager of all subtasks, or that of each if they differ; None if one is not reported."""
        if len(self.managers) != self.parallelism or None in self.managers:
            return None
        managers = tuple(map(str, self.managers))
        return managers[0] if len(set(managers)) == 1 else managers


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkEdge:
    """An exchange between two vertices, by their ids."""

    source: str
    target: str
    strategy: str
    """Flink's ship strategy: REBALANCE, HASH, FORWARD and so on."""
    exchange: str = ""
    """The type of the result partition, such as "pipelined_bounded"."""


@dataclass(frozen=True, kw_only=True)
class FlinkJob:
    """A job that is running or has ended."""

    id: str
    name: str
    version: str
    """Flink's version, such as "2.2.1"."""
    batch: bool
    running_since_ms: float
    """Start of the run, in milliseconds of the cluster's clock."""
    age_s: float
    """Duration of the run so far, by the cluster's clock."""
    vertices: tuple[FlinkVertex, ...]
    """Vertices, sources first. Each follows all vertices from which it reads."""
    edges: tuple[FlinkEdge, ...]
    configuration: Mapping[str, str]
    """Options of the cluster."""
    checkpointing: _Entry | None
    """The job's checkpoint settings. None: the job has none, or they are not reported."""

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Short, unique names of the vertices by their ids: the first operator of the chain."""
        names: dict[str, str] = {}
        for vertex in self.vertices:
            first = vertex.name.split(CHAIN, 1)[0]
            for kind in _KINDS:
                first = first.removeprefix(kind)
            name = short = first.strip()[:_LONGEST_NAME].strip() or "vertex"
            count = 1
            while name in names.values():
                count += 1
                name = f"{short} {count}"
            names[vertex.id] = name
        return names

    def inputs(self, vertex: FlinkVertex) -> list[FlinkEdge]:
        """Return the edges into a vertex."""
        return [edge for edge in self.edges if edge.target == vertex.id]

    def outputs(self, vertex: FlinkVertex) -> list[FlinkEdge]:
        """Return the edges out of a vertex."""
        return [edge for edge in self.edges if edge.source == vertex.id]

    def reachable(self, vertex: FlinkVertex, *, upstream: bool = False) -> list[FlinkVertex]:
        """Return the vertices downstream of a vertex, or, with `upstream`, those upstream of it."""
        ends = [(edge.target, edge.source) if upstream else (edge.source, edge.target) for edge in self.edges]
        reached, left = set[str](), [vertex.id]
        while left:
            at = left.pop()
            new = {end for begin, end in ends if begin == at} - reached
            reached |= new
            left += new
        return [each for each in self.vertices if each.id in reached]


def read_job(client: RestClient, state: JobState, *, ended: bool = False) -> FlinkJob:
    """Return the job in that state. `ended`: the job is no longer running.

    Raises:
        FlinkRestError: the cluster cannot be read, or its answers do not come from Flink.
    """
    details = state.details
    plan = (client.find(f"/jobs/{state.id}/plan") or details)["plan"]
    descriptions = {node["id"]: str(node.get("description", "")) for node in plan["nodes"]}
    ids = [entry["id"] for entry in details["vertices"]]
    if twin := next((each for each in ids if ids.count(each) > 1), None):
        raise FlinkRestError(
            f"{client.url}: job {state.id}: has {ids.count(twin)} vertices with the id {twin!r}; "
            "in Flink each has its own."
        )
    vertices = []
    for entry in details["vertices"]:
        if entry["parallelism"] not in range(1, MOST_SUBTASKS + 1):
            raise FlinkRestError(
                f"{client.url}: job {state.id}: {entry['name']!r} has the parallelism "
                f"{entry['parallelism']!r}; Flink's are from 1 to {MOST_SUBTASKS}."
            )
        subtasks = state.subtasks(entry["id"])
        vertices.append(
            FlinkVertex(
                id=entry["id"],
                name=entry["name"],
                parallelism=entry["parallelism"],
                description=descriptions.get(entry["id"], ""),
                managers=tuple(subtask.get("taskmanager-id") for subtask in subtasks),
                totals=tuple(subtask.get("metrics", {}) for subtask in subtasks),
            )
        )
    edges = tuple(
        FlinkEdge(
            source=entry["id"],
            target=node["id"],
            strategy=str(entry.get("ship_strategy", "")).upper(),
            exchange=str(entry.get("exchange", "")),
        )
        for node in plan["nodes"]
        for entry in node.get("inputs", ())
    )
    checkpointing = client.find(f"/jobs/{state.id}/checkpoints/config")
    # A history server has the options of each job, and none of its own.
    options = client.find_list(f"/jobs/{state.id}/jobmanager/config", may_be_gone=True) if ended else None
    if options is None:
        options = client.find_list("/jobmanager/config") or []
    since_ms = state.running_since_ms
    return FlinkJob(
        id=state.id,
        name=details["name"],
        version=state.version,
        batch=details.get("job-type") == "BATCH",
        running_since_ms=since_ms,
        age_s=max(0.0, (details["end-time" if ended else "now"] - since_ms) / 1e3),
        vertices=_in_order(vertices, edges),
        edges=edges,
        configuration={entry["key"]: entry["value"] for entry in options},
        checkpointing=None if checkpointing is None else dict(checkpointing),
    )


def _in_order(vertices: list[FlinkVertex], edges: tuple[FlinkEdge, ...]) -> tuple[FlinkVertex, ...]:
    """Sort vertices so that each follows all its producers, sources first."""
    producers: dict[str, set[str]] = {}
    for edge in edges:
        producers.setdefault(edge.target, set()).add(edge.source)
    placed = [vertex for vertex in vertices if vertex.id not in producers]
    waiting = [vertex for vertex in vertices if vertex.id in producers]
    while waiting:
        there = {vertex.id for vertex in placed}
        ready = [vertex for vertex in waiting if producers[vertex.id] <= there]
        if not ready:  # a circle, which jobs of Flink do not have
            return (*placed, *waiting)
        placed += ready
        waiting = [vertex for vertex in waiting if vertex not in ready]
    return tuple(placed)


def host_of(path: object) -> str | None:
    """Return the host within a task manager's path; None if the path has no host."""
    found = _HOST.search(path) if isinstance(path, str) else None
    return found[1] if found else None


def is_local(path: object) -> bool:
    """Return whether a task manager's path has no host, and so is only valid within one process."""
    return isinstance(path, str) and "://" in path and host_of(path) is None


def runs_other_jobs(manager: _Entry, job: FlinkJob) -> bool:
    """Return whether a task manager also runs tasks of other jobs, by its answer."""
    return any(slot.get("jobId") != job.id for slot in manager.get("allocatedSlots", []))
