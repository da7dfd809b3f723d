"""How many records reach each subtask here, beside how many reach it in the job.

In a scenario every vertex hands on what it reads, and keys are spread evenly. A vertex of a real job may emit
one record for ten, and one key may be had by half the records. The share says how many records of the job one
record here stands for; service times are multiplied by it, so that each subtask is as busy as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netstack import Edge

from .cluster_job import FlinkJob, FlinkVertex

ALIKE = 0.2
"""A share this close to 1 is taken for 1: counts of a few seconds are not more exact."""

Rates = Mapping[str, Sequence[float | None]]
"""Records per second by the vertex's id, of each subtask; None: it is not told."""


def shares(job: FlinkJob, edges: Sequence[Edge], names: Mapping[str, str], rates: Rates) -> Rates:
    """Return for each vertex with input, by its id, the records of the job for each record here, by subtask.

    `rates` are what the job's sources emit and its other vertices read. None where that is not known.
    """
    by_ends = {(edge.source, edge.target): edge.ship for edge in edges}
    emitted: dict[str, list[float] | None] = {}
    found: dict[str, list[float | None]] = {}
    for vertex in job.vertices:
        inputs = job.inputs(vertex)
        if not inputs:
            emitted[vertex.id] = _emitted(job, vertex, rates)
            continue
        arriving: list[float] | None = [0.0] * vertex.parallelism
        for edge in inputs:
            ship = by_ends[names[edge.source], names[edge.target]]
            arriving = _add(arriving, emitted[edge.source], ship)
        emitted[vertex.id] = arriving
        found[vertex.id] = _shares(rates[vertex.id], arriving)
    return found


def _emitted(job: FlinkJob, source: FlinkVertex, rates: Rates) -> list[float] | None:
    """What the subtasks of a source emit into each edge.

    One that several vertices read may count a record for each of them, so one of these tells how many.
    """
    known = [rate for rate in rates[source.id] if rate is not None]
    total = sum(known)
    if len(known) < source.parallelism or not total:
        return None
    outputs = job.outputs(source)
    for edge in outputs if len(outputs) > 1 else ():
        reader = next(vertex for vertex in job.vertices if vertex.id == edge.target)
        read = [rate for rate in rates[reader.id] if rate is not None]
        if len(job.inputs(reader)) == 1 and edge.strategy != "BROADCAST" and len(read) == reader.parallelism:
            return [rate * sum(read) / total for rate in known]
    return known


def _add(arriving: list[float] | None, emitted: list[float] | None, ship: str) -> list[float] | None:
    if arriving is None or emitted is None:
        return None
    consumers = len(arriving)
    if ship == "forward":
        return [mine + theirs for mine, theirs in zip(arriving, emitted, strict=True)]
    each = sum(emitted) if ship == "broadcast" else sum(emitted) / consumers
    return [mine + each for mine in arriving]


def _shares(read: Sequence[float | None], arriving: list[float] | None) -> list[float | None]:
    if arriving is None:
        return [None] * len(read)
    return [
        None if rate is None or not here else _rounded(rate / here)
        for rate, here in zip(read, arriving, strict=True)
    ]


def _rounded(share: float) -> float:
    return 1.0 if abs(share - 1) <= ALIKE else share
