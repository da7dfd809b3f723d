"""What the cluster says of a job: its vertices and edges, where they run, its options.

Flink's paths: ``/config``, ``/jobs/overview``, ``/jobs/ID``, ``/jobs/ID/plan``, ``/jobs/ID/vertices/V``,
``/jobs/ID/checkpoints/config`` and ``/jobmanager/config``; 1.20 and 2.2 answer them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import FlinkRestError
from .client import RestClient
from .job_state import JobState

MOST_SUBTASKS = 1 << 15
"""Flink's greatest parallelism (KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkVertex:
    """One vertex of a job: a chain of operators, in `parallelism` subtasks."""

    id: str
    name: str
    """As Flink writes it, such as "Source: source -> Map"."""
    parallelism: int
    managers: tuple[str | None, ...] = ()
    """The task manager of each subtask; empty where that was not told."""
    description: str = ""
    """What its operators do, in the words of the plan."""
    totals: tuple[Mapping[str, Any], ...] = ()
    """Of each subtask what it has counted since it started, by the names of ``/vertices/V``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkEdge:
    """An exchange between two vertices, by their ids."""

    source: str
    target: str
    strategy: str
    """Flink's ship strategy: REBALANCE, HASH, FORWARD and so on."""
    exchange: str = ""
    """The type of the result partition, such as "pipelined_bounded"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkJob:
    """A job that runs, or ran."""

    id: str
    name: str
    version: str
    """Of Flink, such as "2.2.1"."""
    batch: bool
    running_since_ms: float
    """When it began to run, in milliseconds of the cluster's clock."""
    age_s: float
    """How long it has run, or did, by the cluster's clock."""
    vertices: tuple[FlinkVertex, ...]
    """Each after all it reads from, sources first."""
    edges: tuple[FlinkEdge, ...]
    configuration: Mapping[str, str]
    """The options that the cluster was given."""
    checkpointing: Mapping[str, Any] | None
    """What the job says of its checkpoints; None where it has none or does not tell."""

    def inputs(self, vertex: FlinkVertex) -> list[FlinkEdge]:
        """The edges into a vertex."""
        return [edge for edge in self.edges if edge.target == vertex.id]

    def outputs(self, vertex: FlinkVertex) -> list[FlinkEdge]:
        """The edges out of a vertex."""
        return [edge for edge in self.edges if edge.source == vertex.id]


def read_job(client: RestClient, state: JobState, *, ended: bool = False) -> FlinkJob:
    """Return the job that is in that state; with `ended`, one that runs no more.

    Raises:
        FlinkRestError: the cluster cannot be read, or what it says of the job is none of Flink's.
    """
    details = state.details
    plan = (client.find(f"/jobs/{state.id}/plan") or details)["plan"]
    descriptions = {node["id"]: str(node.get("description", "")) for node in plan["nodes"]}
    _refuse_twins(client, state)
    vertices = [_vertex(client, state, entry, descriptions) for entry in details["vertices"]]
    edges = _edges(plan)
    checkpointing = client.find(f"/jobs/{state.id}/checkpoints/config")
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
        configuration=_configuration(client, state.id, ended),
        checkpointing=None if checkpointing is None else dict(checkpointing),
    )


def _refuse_twins(client: RestClient, state: JobState) -> None:
    ids = [entry["id"] for entry in state.details["vertices"]]
    if len(set(ids)) < len(ids):
        twin = next(each for each in ids if ids.count(each) > 1)
        raise FlinkRestError(
            f"{client.url}: job {state.id}: has {ids.count(twin)} vertices with the id {twin!r}; "
            "in Flink each has its own"
        )


def _vertex(
    client: RestClient, state: JobState, entry: Mapping[str, Any], descriptions: Mapping[str, str]
) -> FlinkVertex:
    if entry["parallelism"] not in range(1, MOST_SUBTASKS + 1):
        raise FlinkRestError(
            f"{client.url}: job {state.id}: {entry['name']!r} has the parallelism {entry['parallelism']!r}; "
            f"Flink's are from 1 to {MOST_SUBTASKS}"
        )
    subtasks = state.subtasks(entry["id"])
    return FlinkVertex(
        id=entry["id"],
        name=entry["name"],
        parallelism=entry["parallelism"],
        description=descriptions.get(entry["id"], ""),
        managers=tuple(subtask.get("taskmanager-id") for subtask in subtasks),
        totals=tuple(subtask.get("metrics", {}) for subtask in subtasks),
    )


def _edges(plan: Mapping[str, Any]) -> tuple[FlinkEdge, ...]:
    return tuple(
        FlinkEdge(
            source=entry["id"],
            target=node["id"],
            strategy=str(entry.get("ship_strategy", "")).upper(),
            exchange=str(entry.get("exchange", "")),
        )
        for node in plan["nodes"]
        for entry in node.get("inputs", ())
    )


def _in_order(vertices: list[FlinkVertex], edges: tuple[FlinkEdge, ...]) -> tuple[FlinkVertex, ...]:
    """Each vertex after all it reads from; sources first."""
    producers: dict[str, set[str]] = {}
    for edge in edges:
        producers.setdefault(edge.target, set()).add(edge.source)
    placed = [vertex for vertex in vertices if vertex.id not in producers]
    waiting = [vertex for vertex in vertices if vertex.id in producers]
    while waiting:
        there = {vertex.id for vertex in placed}
        ready = [vertex for vertex in waiting if producers[vertex.id] <= there]
        placed += ready or waiting
        waiting = [vertex for vertex in waiting if ready and vertex not in ready]
    return tuple(placed)


def _configuration(client: RestClient, job: str, ended: bool) -> dict[str, str]:
    """The options; a history server has them beside the job, and none of its own."""
    entries = client.find_list(f"/jobs/{job}/jobmanager/config", may_be_gone=True) if ended else None
    if entries is None:
        entries = client.find_list("/jobmanager/config") or []
    return {entry["key"]: entry["value"] for entry in entries}
