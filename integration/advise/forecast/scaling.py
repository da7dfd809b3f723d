"""One more subtask of the vertex that limits a job: what it brings, and what it needs.

The keys of a hash exchange are spread anew. Flink gives each subtask a range of key groups. How records are
spread inside the range of a subtask is unknown, so it counts as even. A single hot key thus counts as if it
could be divided, which it cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import ceil

import msgspec
import numpy as np

from netstack import FROM_SOURCE, Edge, Scenario, ShipStrategy, Vertex, required_segments

from .load_figures import Curve, LoadFigures

TARGET_UTILISATION = 0.7
"""Share of the time for which Flink's autoscaler wants a vertex to be busy.

The option is job.autoscaler.target.utilization.
"""


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """Effect and needs of one more subtask of a vertex, with the recommended setting."""

    vertex: str
    parallelism: int
    """The present number of subtasks."""
    limit: float
    """Highest load that the job can take with one subtask more, as a multiple of today's."""
    before: float
    """The same without it."""
    limiting: str
    """The vertex that then reaches its limit first."""
    checkpoint_ms: float | None
    """Mean duration of checkpoints at today's load, with one subtask more."""
    slots: int
    """Slots that the job needs now, with all vertices in one slot sharing group."""
    slots_after: int
    memory_bytes: int | None
    """Network memory that all task managers together need to start now; None: it depends on a file."""
    memory_bytes_after: int | None
    autoscaler: int | None
    """Number of subtasks that Flink's autoscaler would choose, with its target utilisation of 0.7; None: it
    is unknown for which share of the time the vertex is busy.
    """
    has_shares: bool
    """Whether records are distributed by keys, whose spread inside a subtask's range is unknown."""


def scaled(scenario: Scenario, vertex: str, more: int = 1) -> Scenario:
    """Return a job with `more` subtasks of a vertex.

    A forward exchange to or from it becomes rebalance, as in Flink, and keys are spread anew.
    """
    grown = scenario.vertex(vertex)
    count = grown.parallelism + more
    vertices = tuple(_with_parallelism(each, count) if each is grown else each for each in scenario.vertices)
    edges = tuple(
        _with_ends(edge, grown, count) if vertex in (edge.source, edge.target) else edge
        for edge in scenario.edges
    )
    return replace(scenario, vertices=vertices, edges=edges)


def _with_parallelism(vertex: Vertex, count: int) -> Vertex:
    skew, placed = vertex.service_skew, vertex.task_manager
    if len(skew) == vertex.parallelism > 1:
        skew = (*skew, *[sum(skew) / len(skew)] * (count - len(skew)))[:count]
    if isinstance(placed, tuple) and len(placed) == vertex.parallelism:
        placed = tuple(placed[number % len(placed)] for number in range(count))
    source = vertex.source
    if source is not None:
        total = sum(vertex.rate(subtask) for subtask in range(vertex.parallelism))
        source = replace(source, rates=(total / count,))
    return replace(vertex, parallelism=count, service_skew=skew, task_manager=placed, source=source)


def _with_ends(edge: Edge, vertex: Vertex, count: int) -> Edge:
    if edge.strategy is ShipStrategy.FORWARD:
        edge = replace(edge, ship=ShipStrategy.REBALANCE.value)
    if edge.target == vertex.name and edge.shares:
        edge = replace(edge, shares=tuple(spread_anew(edge.shares, count)))
    return edge


def spread_anew(shares: Sequence[float], count: int) -> list[float]:
    """Return the shares of `count` subtasks, given those of the present ones, in any unit.

    Keys count as evenly spread inside the range of each present subtask.
    """
    ends = [number / len(shares) for number in range(len(shares) + 1)]
    sums = [0.0, *accumulate(shares)]
    return [
        round(float(np.interp((new + 1) / count, ends, sums) - np.interp(new / count, ends, sums)), 6)
        for new in range(count)
    ]


def scaling_of(name: str, scenario: Scenario, grown: Scenario, before: Curve, after: Curve) -> Scaling:
    """Return the effect of one more subtask of a vertex, given the curves of the job without and with it."""
    vertex = scenario.vertex(name)
    today, then = (_at_todays_load(curve) for curve in (before, after))
    busy = (today or before.points[-1]).busy.get(name)  # without a rate, today's load is the limit
    return Scaling(
        vertex=name,
        parallelism=vertex.parallelism,
        limit=after.headroom.limit,
        before=before.headroom.limit,
        limiting=after.headroom.bottleneck.vertex,
        checkpoint_ms=None if then is None else then.checkpoint_ms,
        slots=_slots(scenario),
        slots_after=_slots(grown),
        memory_bytes=_memory_bytes(scenario),
        memory_bytes_after=_memory_bytes(grown),
        autoscaler=None
        if busy is None
        else max(1, ceil(vertex.parallelism * busy / TARGET_UTILISATION - 1e-9)),
        has_shares=any(edge.shares for edge in scenario.inputs(vertex)),
    )


def _at_todays_load(curve: Curve) -> LoadFigures | None:
    return next((each for each in curve.points if each.load == 1.0), None)


def _slots(scenario: Scenario) -> int:
    return max(vertex.parallelism for vertex in scenario.vertices)


def _memory_bytes(scenario: Scenario) -> int | None:
    """Return the network memory that a job needs to start; None: the parallelism of a source is unknown."""
    if any(vertex.parallelism == FROM_SOURCE for vertex in scenario.vertices):
        return None
    return sum(required_segments(scenario).values()) * scenario.config.segment_bytes
