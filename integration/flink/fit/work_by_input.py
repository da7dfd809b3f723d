"""Costs of the records of both inputs of a join.

Flink reports the busy time of a task, not that of the records of each input. In an interval join, a record
costs as much as the records of the other input that it matches, so records of the input that comes late cost
most. If the emulation with one cost for all records is off, others are tried, in which the records of the
first input together take a given share of the time. The output of a join is divided likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from netstack import Edge, Scenario, ShipStrategy

from ...base.optional_figures import total
from ..read.job import FlinkJob
from ..read.measurements import Measured
from .alternatives import Alternative
from .overrides import Overrides, of_vertex

_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)

_LEAST_BUSY = 0.2
"""The work of a join matters if its busiest subtask is busy for at least this share of the time."""


def unequal_inputs(job: FlinkJob, scenario: Scenario, shown: Measured, given: Overrides) -> list[Alternative]:
    """Return an alternative with unequal costs for each join of two exchanges whose work matters.

    Joins with a broadcast input, with an overridden cost, or with an unknown rate are left out.
    """
    emitted = {vertex.name: total(vertex.records_out_per_s) for vertex in shown.steady.vertices}
    found: list[Alternative] = []
    for vertex, figures in zip(job.vertices, shown.steady.vertices, strict=True):
        name = job.names[vertex.id]
        edges = scenario.inputs(scenario.vertex(name))
        busy = max((share or 0.0 for share in figures.busy_ms_per_s), default=0.0) / 1e3
        is_given = of_vertex(given.service_s, name) is not None
        if is_given or busy < _LEAST_BUSY or len({edge.input for edge in edges}) != 2 or len(edges) != 2:
            continue
        per_s = {edge.source: (emitted[edge.source] or 0.0) * edge.fraction for edge in edges}
        copies = any(ShipStrategy(edge.ship).copies or edge.service is not None for edge in edges)
        if copies or not all(per_s.values()):
            continue
        forms = [partial(_with_share, name=name, per_s=per_s, share=share) for share in _SHARES]
        found.append(Alternative(name, (None, "input_works"), forms))
    return found


def _with_share(scenario: Scenario, name: str, per_s: Mapping[str, float], share: float) -> Scenario:
    """Return the scenario in which the records of the first input take this share of a join's time."""
    vertex = scenario.vertex(name)
    inputs: Sequence[Edge] = scenario.inputs(vertex)
    if inputs[0].input == inputs[1].input or len(vertex.service) != 1:
        return scenario
    ((_, cost),) = vertex.service
    changed: dict[tuple[str, str], Edge] = {}
    for edge, of_time in zip(inputs, (share, 1 - share), strict=True):
        factor = of_time * sum(per_s.values()) / per_s[edge.source]
        emitted = vertex.selectivity * factor if edge.selectivity is None else edge.selectivity
        service = ((0.0, float(f"{cost * factor:.4g}")),)
        changed[edge.source, name] = replace(edge, service=service, selectivity=float(f"{emitted:.4g}"))
    edges = tuple(changed.get((edge.source, edge.target), edge) for edge in scenario.edges)
    vertices = tuple(replace(each, selectivity=1.0) if each is vertex else each for each in scenario.vertices)
    return replace(scenario, vertices=vertices, edges=edges)
