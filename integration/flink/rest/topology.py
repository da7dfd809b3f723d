"""The shape of a job as a scenario has it: names, exchanges, where the subtasks run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from netstack import Edge, ShipStrategy

from .cluster_job import FlinkEdge, FlinkJob, FlinkVertex
from .flows import JobFlows, are_even, shares_of

_CHAIN = " -> "
_KINDS = ("Source: ", "Sink: ")
_LONGEST = 24

_STRATEGIES = {strategy.name: strategy for strategy in ShipStrategy}
"""By the names that Flink reports; any other is shown as rebalance, with a note."""


_OF_ONE_INPUT = frozenset(
    {"Filter", "Flat Map", "Keyed Aggregation", "Keyed Reduce", "KeyedProcess", "Map", "Process"}
)
"""Names that the DataStream API gives to operators of one input; those of two are "Co-Map" and the like."""

_SQL_OPERATOR = re.compile(r"(\w+)\[\d+\]")
"""Such as "GroupAggregate[4]"."""

_SQL_OF_SEVERAL_INPUTS = ("Join", "MultipleInput", "ProcessTableFunction")
"""What the names of SQL's operators have in them if they may read several inputs."""


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


def edges_of(job: FlinkJob, names: dict[str, str], flows: JobFlows, notes: list[str]) -> tuple[Edge, ...]:
    """Return the edges with what flows over them; `notes` gets a line for what is taken for another thing."""
    places = {vertex.id: place for place, vertex in enumerate(job.vertices)}
    in_order = sorted(job.edges, key=lambda edge: (places[edge.source], places[edge.target]))
    edges = []
    for edge in in_order:
        ship = _ship(job, edge, names, notes)
        plain = Edge(source=names[edge.source], target=names[edge.target], ship=ship)
        edges.append(_with_flow(job, edge, plain, flows))
    for vertex in job.vertices:
        if len(job.inputs(vertex)) > 1:
            notes.append(_about_inputs(vertex, names[vertex.id], len(job.inputs(vertex))))
    return tuple(edges)


def reads_a_union(vertex: FlinkVertex) -> bool:
    """Whether the name of a vertex of several exchanges says that its first operator has but one input."""
    first = vertex.name.split(_CHAIN, 1)[0].strip()
    of_sql = _SQL_OPERATOR.match(first)
    if of_sql is not None:
        return not any(kind in of_sql[1] for kind in _SQL_OF_SEVERAL_INPUTS)
    return first in _OF_ONE_INPUT or first.startswith(("Sink: ", "Window("))


def _about_inputs(vertex: FlinkVertex, name: str, exchanges: int) -> str:
    if reads_a_union(vertex):
        return (
            f"{name} reads {exchanges} exchanges, a union by its name; they are taken to have keys spread "
            "alike, since Flink does not tell what a subtask reads of each"
        )
    return (
        f"{name} reads {exchanges} exchanges; they are taken for inputs of their own, as of a join, with "
        "keys spread alike, since Flink tells neither them from a union (give both edges the same input "
        "then) nor what a subtask reads of each"
    )


def _ship(job: FlinkJob, edge: FlinkEdge, names: dict[str, str], notes: list[str]) -> str:
    parallelism = {vertex.id: vertex.parallelism for vertex in job.vertices}
    ends = f"{names[edge.source]} -> {names[edge.target]}"
    ship = _STRATEGIES.get(edge.strategy, ShipStrategy.REBALANCE)
    if edge.strategy not in _STRATEGIES:
        notes.append(f"{ends} ships by {edge.strategy or 'nothing known'}; here it is {ship}")
    elif ship is ShipStrategy.FORWARD and parallelism[edge.source] != parallelism[edge.target]:
        ship = ShipStrategy.RESCALE
    if edge.exchange and not edge.exchange.startswith("pipelined"):
        notes.append(f"{ends} is {edge.exchange}; here every exchange is pipelined")
    return ship.value


def _with_flow(job: FlinkJob, edge: FlinkEdge, plain: Edge, flows: JobFlows) -> Edge:
    """The edge with its input of the consumer, the shares of its subtasks, and what it carries."""
    consumer = next(vertex for vertex in job.vertices if vertex.id == edge.target)
    inputs = job.inputs(consumer)
    number = inputs.index(edge)
    selectivities = flows.selectivities(consumer) if job.outputs(consumer) else None
    if selectivities is not None and len(set(selectivities)) > 1:
        plain = replace(plain, selectivity=selectivities[number])
    shares = flows.shares(consumer) if plain.strategy.by_key else None
    if shares is not None and not are_even(shares):
        plain = replace(plain, shares=shares_of(shares))
    fraction = 1.0 if plain.strategy.copies else round(flows.fraction(edge), 4)
    return replace(plain, input=0 if reads_a_union(consumer) else number, fraction=fraction)


def placed(vertex: FlinkVertex) -> str | tuple[str, ...] | None:
    """Return the task manager of a vertex, or those of its subtasks; None where it is not told."""
    told = vertex.managers
    if len(told) != vertex.parallelism or None in told:
        return None
    managers = tuple(str(manager) for manager in told)
    return managers[0] if len(set(managers)) == 1 else managers
