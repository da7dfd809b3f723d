"""The shape of a job as a scenario has it: names, exchanges, and which vertices share a task manager.

In a scenario all subtasks of a vertex run in one task manager; in a cluster they are spread over many. What
counts for the network layer is which channels are local, so vertices are put together where most of the
channels between them are, and apart where most are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netstack import Edge

from .cluster_job import FlinkJob, FlinkVertex

_CHAIN = " -> "
_KINDS = ("Source: ", "Sink: ")
_LONGEST = 24

_SHIPS = {
    "REBALANCE": "rebalance",
    "HASH": "hash",
    "FORWARD": "forward",
    "RESCALE": "rescale",
    "BROADCAST": "broadcast",
    "SHUFFLE": "rebalance",
}
_ALIKE = ("REBALANCE", "HASH", "FORWARD", "RESCALE", "BROADCAST")

_MOSTLY = 0.5


def vertex_names(vertices: Sequence[FlinkVertex]) -> dict[str, str]:
    """Return short names, all different, by the ids of vertices: of a chain its first operator."""
    names: dict[str, str] = {}
    for vertex in vertices:
        first = vertex.name.split(_CHAIN, 1)[0]
        for kind in _KINDS:
            first = first.removeprefix(kind)
        short = plain = first.strip()[:_LONGEST].strip() or "vertex"
        number = 1
        while short in names.values():
            number += 1
            short = f"{plain} {number}"
        names[vertex.id] = short
    return names


def job_name(job: FlinkJob) -> str:
    """Return a name for the scenario, and its file, from the job's."""
    words = "".join(letter if letter.isalnum() or letter in "._-" else " " for letter in job.name).split()
    return "-".join(words)[:60].strip("-.") or "flink-job"


def edges_of(job: FlinkJob, names: dict[str, str], notes: list[str]) -> tuple[Edge, ...]:
    """Return the edges; `notes` gets a line for each whose strategy has no equal here."""
    edges = []
    parallelism = {vertex.id: vertex.parallelism for vertex in job.vertices}
    places = {vertex.id: place for place, vertex in enumerate(job.vertices)}
    for edge in sorted(job.edges, key=lambda edge: (places[edge.source], places[edge.target])):
        source, target = names[edge.source], names[edge.target]
        ship = _SHIPS.get(edge.strategy, "rebalance")
        if edge.strategy not in _ALIKE:
            notes.append(
                f"{source} -> {target} ships by {edge.strategy or 'nothing known'}; here it is {ship}"
            )
        elif ship == "forward" and parallelism[edge.source] != parallelism[edge.target]:
            ship = "rescale"
        if edge.exchange and not edge.exchange.startswith("pipelined"):
            notes.append(f"{source} -> {target} is {edge.exchange}; here every exchange is pipelined")
        edges.append(Edge(source=source, target=target, ship=ship))
    return tuple(edges)


def managers(
    job: FlinkJob, edges: Sequence[Edge], names: Mapping[str, str], notes: list[str]
) -> dict[str, str]:
    """Return the task manager of those vertices that share one, by the names of vertices.

    `notes` gets a line where some channels are local in the job and remote here, or the other way round.
    """
    by_name = {names[vertex.id]: vertex for vertex in job.vertices}
    local = {edge: _local_share(by_name[edge.source], by_name[edge.target], edge.ship) for edge in edges}
    group = {name: name for name in by_name}
    for edge, share in local.items():
        if share is not None and share > _MOSTLY:
            _join(group, edge, local)
    for edge, share in local.items():
        here = group[edge.source] == group[edge.target]
        if share is not None and share != here:
            kind = "local" if here else "remote"
            notes.append(
                f"{edge.source} -> {edge.target}: {share:.0%} of the channels are within a task manager; "
                f"here all are {kind}"
            )
    shared = [name for name in group if list(group.values()).count(group[name]) > 1]
    return {name: group[name] for name in shared}


def _join(group: dict[str, str], edge: Edge, local: Mapping[Edge, float | None]) -> None:
    """Put the ends of an edge together, unless that makes channels local that mostly are not."""
    kept, gone = group[edge.source], group[edge.target]
    together = {name for name, of in group.items() if of in (kept, gone)}
    inside = [share for other, share in local.items() if {other.source, other.target} <= together]
    if all(share is None or share > _MOSTLY for share in inside):
        group.update(dict.fromkeys([name for name, of in group.items() if of == gone], kept))


def _local_share(source: FlinkVertex, target: FlinkVertex, ship: str) -> float | None:
    """Share of the channels whose ends are in one task manager; None where that is not told."""
    if None in (*source.managers, *target.managers) or not source.managers or not target.managers:
        return None
    if ship == "forward":
        pairs = list(zip(source.managers, target.managers, strict=False))
    else:
        pairs = [(producer, consumer) for producer in source.managers for consumer in target.managers]
    return sum(producer == consumer for producer, consumer in pairs) / len(pairs)
