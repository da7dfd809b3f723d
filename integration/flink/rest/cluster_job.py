"""What the cluster says of a job: its vertices and edges, where they run, its options.

Flink's paths: ``/config``, ``/jobs/overview``, ``/jobs/ID``, ``/jobs/ID/plan``, ``/jobs/ID/vertices/V``,
``/jobs/ID/checkpoints/config`` and ``/jobmanager/config``; 1.20 and 2.2 answer them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .client import FlinkRestError, RestClient

RUNNING = "RUNNING"

ENDED = frozenset({"CANCELED", "FAILED", "FINISHED"})
"""States that a job does not leave (JobStatus.isGloballyTerminalState)."""

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


def ended_job(client: RestClient, job: str | None) -> str | None:
    """Return the id of the job that is meant if it has ended; None: it has not, or is not there.

    Raises:
        FlinkRestError: no job runs, several have ended, and none was named.
    """
    jobs = client.get("/jobs/overview")["jobs"]
    ended = [entry for entry in jobs if entry["state"] in ENDED]
    if job is not None:
        return job if any(entry["jid"] == job for entry in ended) else None
    if len(ended) < len(jobs) or not ended:
        return None
    if len(ended) > 1:
        raise FlinkRestError(f"{client.url}: no job is running; name one by --job: {_ids(ended)}")
    return str(ended[0]["jid"])


def read_job(client: RestClient, job: str | None, *, ended: bool = False) -> FlinkJob:
    """Return the job of that id, or the only one that runs; with `ended`, one that runs no more.

    Raises:
        FlinkRestError: the cluster cannot be read, or the job does not run or has nothing to tell.
    """
    version = client.get("/config").get("flink-version")
    if not version or not isinstance(version, str):
        raise FlinkRestError(f"{client.url}: does not say which Flink it is; is this its REST API?")
    number = job if ended and job is not None else _choose(client, job)
    details = client.get(f"/jobs/{number}")
    began_ms = since(details)
    if not ended:
        _check_all_run(client, number, details["vertices"])
    plan = (client.find(f"/jobs/{number}/plan") or details)["plan"]
    descriptions = {node["id"]: str(node.get("description", "")) for node in plan["nodes"]}
    vertices = [_vertex(client, number, entry, descriptions) for entry in details["vertices"]]
    edges = _edges(plan)
    checkpointing = client.find(f"/jobs/{number}/checkpoints/config")
    return FlinkJob(
        id=number,
        name=details["name"],
        version=version,
        batch=details.get("job-type") == "BATCH",
        running_since_ms=began_ms,
        age_s=max(0.0, (details["end-time" if ended else "now"] - began_ms) / 1e3),
        vertices=_in_order(vertices, edges),
        edges=edges,
        configuration=_configuration(client, number, ended),
        checkpointing=None if checkpointing is None else dict(checkpointing),
    )


def read_task_managers(client: RestClient, job: FlinkJob) -> dict[str, dict[str, Any]]:
    """Return what each task manager that a job runs in says of itself, by its id.

    Nothing where it is not told in which each subtask runs, and of one that does not answer.
    """
    named = dict.fromkeys(manager for vertex in job.vertices for manager in vertex.managers)
    if not named or None in named:
        return {}
    return {str(name): client.find(f"/taskmanagers/{name}") or {} for name in named}


def check_still_runs(client: RestClient, job: FlinkJob) -> None:
    """Make sure that a job has been running since it was read.

    Raises:
        FlinkRestError: it has ended, or it has started again.
    """
    details = client.find(f"/jobs/{job.id}", may_be_gone=True) or {"state": "unknown to the cluster"}
    state = details.get("state", RUNNING)
    if state != RUNNING:
        raise FlinkRestError(
            f"{client.url}: job {job.id} has become {state} while it was watched; "
            "only a job that keeps running shows its load"
        )
    if since(details) != job.running_since_ms:
        raise restarted(client, job)


def restarted(client: RestClient, job: FlinkJob) -> FlinkRestError:
    """Return the error for a job whose counts begin anew in between."""
    return FlinkRestError(
        f"{client.url}: job {job.id} has restarted while it was watched; try again once it runs steadily"
    )


def since(details: Mapping[str, Any]) -> float:
    """Return when the job of an answer to ``/jobs/ID`` began to run, in ms of the cluster's clock."""
    began_ms: float = details.get("timestamps", {}).get(RUNNING) or details["start-time"]
    return began_ms


def _choose(client: RestClient, job: str | None) -> str:
    """The id of the job to read: one of the running ones."""
    jobs = client.get("/jobs/overview")["jobs"]
    if job is not None:
        state = next((entry["state"] for entry in jobs if entry["jid"] == job), None)
        if state is None:
            raise FlinkRestError(f"{client.url}: has no job {job}; {_known(jobs)}")
        if state != RUNNING:
            raise FlinkRestError(
                f"{client.url}: job {job} is {state}; only a running job shows its load, "
                "what is left of one that ended is for netstack diagnose --from-flink"
            )
        return job
    running = [entry for entry in jobs if entry["state"] == RUNNING]
    if not running:
        raise FlinkRestError(f"{client.url}: no job is running; {_known(jobs)}{_of_ended(jobs)}")
    if len(running) > 1:
        raise FlinkRestError(
            f"{client.url}: {len(running)} jobs are running; name one by --job: {_ids(running)}"
        )
    return str(running[0]["jid"])


def _of_ended(jobs: list[dict[str, Any]]) -> str:
    if not any(entry["state"] in ENDED for entry in jobs):
        return ""
    return "; what is left of one that ended is for netstack diagnose --from-flink"


def _known(jobs: list[dict[str, Any]]) -> str:
    return f"there are {_ids(jobs)}" if jobs else "there is none at all"


def _ids(jobs: list[dict[str, Any]]) -> str:
    return ", ".join(f"{entry['jid']} ({entry['name']}, {entry['state']})" for entry in jobs)


def _check_all_run(client: RestClient, job: str, vertices: list[dict[str, Any]]) -> None:
    for entry in vertices:
        if entry["status"] != RUNNING:
            raise FlinkRestError(
                f"{client.url}: job {job}: {entry['name']!r} is {entry['status']}; "
                "wait until all vertices run"
            )


def _vertex(
    client: RestClient, job: str, entry: Mapping[str, Any], descriptions: Mapping[str, str]
) -> FlinkVertex:
    if entry["parallelism"] not in range(1, MOST_SUBTASKS + 1):
        raise FlinkRestError(
            f"{client.url}: job {job}: {entry['name']!r} has the parallelism {entry['parallelism']!r}; "
            f"Flink's are from 1 to {MOST_SUBTASKS}"
        )
    details = client.find(f"/jobs/{job}/vertices/{entry['id']}") or {"subtasks": []}
    subtasks = sorted(details["subtasks"], key=lambda subtask: subtask["subtask"])
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
    read = {edge.target for edge in edges}
    placed = [vertex for vertex in vertices if vertex.id not in read]
    waiting = [vertex for vertex in vertices if vertex.id in read]
    while waiting:
        there = {vertex.id for vertex in placed}
        ready = [
            vertex
            for vertex in waiting
            if all(edge.source in there for edge in edges if edge.target == vertex.id)
        ]
        placed += ready or waiting
        waiting = [vertex for vertex in waiting if ready and vertex not in ready]
    return tuple(placed)


def _configuration(client: RestClient, job: str, ended: bool) -> dict[str, str]:
    """The options; a history server has them beside the job, and none of its own."""
    entries = client.find_list(f"/jobs/{job}/jobmanager/config", may_be_gone=True) if ended else None
    if entries is None:
        entries = client.find_list("/jobmanager/config") or []
    return {entry["key"]: entry["value"] for entry in entries}
