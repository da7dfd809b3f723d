"""The exchanges of a scenario, fitted to the flows of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from netstack import Edge, ShipStrategy

from ..read.job import FlinkEdge, FlinkJob, FlinkVertex
from .exchange_flows import ALIKE, JobFlows
from .noted import Noted, Remark, Remarks
from .overrides import InputKind, Overrides
from .union_or_join import input_kinds, kind_by_name

_STRATEGIES = {strategy.name: strategy for strategy in ShipStrategy}
"""Ship strategies, by Flink's names."""


def edges_of(job: FlinkJob, flows: JobFlows, given: Overrides | None = None) -> Noted[tuple[Edge, ...]]:
    """Return the edges with their flows.

    Exchanges of one vertex are inputs of a join, unless the name of the vertex or `given` says that they are
    a union.
    """
    places = {vertex.id: place for place, vertex in enumerate(job.vertices)}
    in_order = sorted(job.edges, key=lambda edge: (places[edge.source], places[edge.target]))
    kinds = input_kinds(job, given or Overrides())
    edges = [_edge(job, edge, flows, kinds) for edge in in_order]
    remarks = tuple(remark for _, about in edges for remark in about)
    return Noted(tuple(edge for edge, _ in edges), remarks + _about_inputs(job, kinds))


def _about_inputs(job: FlinkJob, kinds: Mapping[str, InputKind | None]) -> Remarks:
    """Return remarks on the vertices that read several exchanges."""
    remarks: Remarks = ()
    for vertex in job.vertices:
        name, inputs = job.names[vertex.id], job.inputs(vertex)
        if len(inputs) < 2:
            continue
        kind = kind_by_name(vertex)
        if kind is not None and kinds[name] == kind:
            remarks += (Remark(kind, name, {"exchanges": len(inputs), "why": "named"}),)
        if any(_ship(edge).by_key for edge in inputs):
            remarks += (Remark("keys_by_input_unreported", name),)
    return remarks


def _ship(edge: FlinkEdge) -> ShipStrategy:
    return _STRATEGIES.get(edge.strategy, ShipStrategy.REBALANCE)


def _edge(
    job: FlinkJob, edge: FlinkEdge, flows: JobFlows, kinds: Mapping[str, InputKind | None]
) -> Noted[Edge]:
    """Return an edge: the input of the consumer that it feeds, the fraction of its records that each subtask
    reads, and the fraction of the producer's records that it carries.
    """
    by_id = {vertex.id: vertex for vertex in job.vertices}
    producer, consumer = by_id[edge.source], by_id[edge.target]
    source, target = job.names[edge.source], job.names[edge.target]
    where, remarks = f"{source} -> {target}", list[Remark]()
    ship = _ship(edge)
    if edge.strategy not in _STRATEGIES:
        kind = "ship_unknown" if edge.strategy else "ship_unreported"
        remarks.append(Remark(kind, where, {"strategy": edge.strategy, "ship": ship}))
    elif ship is ShipStrategy.FORWARD and producer.parallelism != consumer.parallelism:
        ship = ShipStrategy.RESCALE
    if edge.exchange and not edge.exchange.startswith("pipelined"):
        remarks.append(Remark("not_pipelined", where, {"exchange": edge.exchange}))
    number = job.inputs(consumer).index(edge)
    fitted = Edge(
        source=source,
        target=target,
        ship=ship.value,
        input=0 if kinds.get(target) == "union" else number,
        fraction=1.0 if ship.copies else round(flows.fraction(edge), 4),
    )
    if ship.copies and any(edge.strategy != "BROADCAST" for edge in job.inputs(consumer)):
        remarks.append(Remark("broadcast_cost_unreported", target, {"source": source}))
        fitted = replace(fitted, service=((0.0, 0.0),))
    selectivities = flows.selectivities(consumer) if job.outputs(consumer) else None
    if selectivities is not None and len(set(selectivities)) > 1:
        fitted = replace(fitted, selectivity=selectivities[number])
    if ship.by_key:
        fitted = replace(fitted, shares=_shares(job, flows, producer, consumer))
    return Noted(fitted, tuple(remarks))


def _shares(
    job: FlinkJob, flows: JobFlows, producer: FlinkVertex, consumer: FlinkVertex
) -> tuple[float, ...]:
    """Return the share of each subtask of a consumer that reads by key; empty: each record has a random key.

    Records that a vertex makes of one record are copies in the emulation, with one key. A real job that reads
    them by key gives them keys of their own, so each goes to a subtask at random.
    """
    shares = flows.shares(consumer)
    if shares is not None and max(shares) - min(shares) > ALIKE / len(shares):  # counts are not more exact
        return tuple(round(share, 4) for share in shares)
    before = [producer, *job.reachable(producer, upstream=True)]
    several = (flows.selectivities(vertex) for vertex in before if job.inputs(vertex))
    if any(max(each) > 1 + ALIKE for each in several if each is not None):
        return (1.0,) * consumer.parallelism
    return ()
