"""Whether a vertex with several exchanges reads them as a union or as the inputs of a join.

In Flink a union is one input: buffers of all its exchanges are processed as they arrive (`UnionInputGate`). A
join has separate inputs, and its task reads these in turns, record by record. Flink's REST API describes both
in the same way. If Flink has given the vertex's first operator its name, the name decides. If the user has,
the job is emulated both ways for a few checkpoints, and the import takes the union if its figures are nearer
to the measured ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from netstack import Scenario

from ..read.job import CHAIN, FlinkJob, FlinkVertex
from .alternatives import Alternative
from .overrides import InputKind, Overrides, of_vertex

_OF_ONE_INPUT = frozenset(
    {
        "Filter",
        "Flat Map",
        "Keyed Aggregation",
        "Keyed Reduce",
        "KeyedProcess",
        "Map",
        "Process",
        "Timestamps/Watermarks",
        "async wait operator",
    }
)
"""Names of DataStream operators with one input."""

_WINDOWS = re.compile(
    r"Window\(.*|(Tumbling|Sliding)(Event|Processing)TimeWindows|"
    r"(Dynamic)?(Event|Processing)TimeSessionWindows|GlobalWindows"
)
"""Names of window operators, which are those of their assigners. `join` and `coGroup` of DataStreams are
windows over a union.
"""

_OF_TWO_INPUTS = ("Co-", "Interval Join")
"""Beginnings of names of DataStream operators with two inputs, such as "Co-Process-Broadcast"."""

_SQL_OPERATOR = re.compile(r"(\w+)(?:\[\d+\]|\(\w+=\[)")
"""Beginning of the name of an SQL operator: "GroupAggregate[4]" or "GroupAggregate(groupBy=[id], ...)"."""

_SQL_OF_SEVERAL_INPUTS = re.compile(r"\w*(?<!Lookup)Join|MultipleInput|RuntimeFilter")
_SQL_OF_SOME_INPUTS = "ProcessTableFunction"
"""An SQL operator that has an input for each of its tables."""


def kind_by_name(vertex: FlinkVertex) -> InputKind | None:
    """Return how a vertex with several exchanges reads them, by the name of its first operator."""
    first = vertex.name.split(CHAIN, 1)[0].strip()
    if first in _OF_ONE_INPUT or _WINDOWS.fullmatch(first):
        return "union"
    if first.startswith("Sink: ") or first.endswith(": Writer"):
        return "union"
    if first.startswith(_OF_TWO_INPUTS):
        return "join"
    of_sql = _SQL_OPERATOR.match(first)
    if of_sql is None or of_sql[1] == _SQL_OF_SOME_INPUTS:
        return None
    return "join" if _SQL_OF_SEVERAL_INPUTS.fullmatch(of_sql[1]) else "union"


def input_kinds(job: FlinkJob, given: Overrides) -> dict[str, InputKind | None]:
    """Return the kind of the inputs of each vertex that reads several exchanges, by its name.

    The override decides, then the name of the vertex's first operator. None: neither does.
    """
    kinds: dict[str, InputKind | None] = {}
    for vertex in job.vertices:
        if len(job.inputs(vertex)) > 1:
            name = job.names[vertex.id]
            kinds[name] = of_vertex(given.inputs, name) or kind_by_name(vertex)
    return kinds


def unions(scenario: Scenario, undecided: Sequence[str]) -> list[Alternative]:
    """Return a union as the alternative to a join, for each undecided vertex."""
    return [
        Alternative(
            name,
            ("join", "union"),
            [partial(_with_union, vertex=name)],
            {"exchanges": sum(edge.target == name for edge in scenario.edges)},
        )
        for name in undecided
    ]


def _with_union(scenario: Scenario, vertex: str) -> Scenario:
    edges = (replace(edge, input=0) if edge.target == vertex else edge for edge in scenario.edges)
    return replace(scenario, edges=tuple(edges))
