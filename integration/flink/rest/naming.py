"""Names and ship strategies of Flink, as a scenario has them."""

from __future__ import annotations

from collections.abc import Sequence

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
