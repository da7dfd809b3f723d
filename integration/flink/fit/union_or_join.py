"""Whether a vertex with several exchanges reads them as a union or as the inputs of a join.

In Flink a union is one input: buffers of all its exchanges are processed as they arrive (`UnionInputGate`). A
join has separate inputs, and its task reads these in turns, record by record. Flink's REST API describes both
in the same way. If Flink has given the vertex's first operator its name, the name decides. If the user has,
the job is emulated both ways for a few checkpoints, and the import takes the union if its figures are nearer
to the measured ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from buffers import InsufficientBuffers
from netstack import InputError, JobFailedError, Scenario

from ...base.optional_figures import total
from ...runs.emulating import emulate
from ...runs.reference_comparison import ComparedFigure, compare
from ..read.job import CHAIN, FlinkJob, FlinkVertex
from ..read.measurements import Measured, reference_of
from .noted import Noted, Remark
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

_CHECKPOINTS = 5
"""Number of checkpoints that are emulated after the warm-up."""

_LEAST_S = 10.0
"""Minimum time in seconds of the warm-up, and of the time that is emulated after it."""

_DRAINS = 3
"""Warm-up as a multiple of the longest checkpoint. Queues have filled by then."""

_MOST_RECORDS = 3_000_000
"""Maximum number of records, counted at each vertex, in all emulations together."""

_MOST_OFF = 10.0
"""A figure that is off by more tolerances than this counts as off by this many."""

_NEARER, _NEARER_SHARE = 1.0, 0.15
"""A union is assumed if it is nearer than a join by at least this many tolerances, and by at least this share
of the join's distance: if both are far off, a small difference says nothing.
"""


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


def with_input_kinds(
    scenario: Scenario,
    undecided: Sequence[str],
    shown: Measured,
    emulating: Callable[[float, float], None] = lambda done, total: None,
) -> Noted[Scenario]:
    """Return the scenario with a union for each vertex where it is nearer to the figures that Flink reports.

    The same scenario and figures give the same result.

    Args:
        scenario: Scenario in which the undecided vertices read the inputs of a join.
        undecided: Names of the vertices that may be either.
        shown: Figures of the job.
        emulating: Called with the seconds emulated so far, and all seconds.
    """
    short = _shortened(scenario, shown)
    affordable = int(_MOST_RECORDS / max(1.0, _records(short, shown)))
    compared = undecided[: max(0, affordable - 1)]  # one emulation is with all inputs as those of joins
    done_s, all_s = 0.0, (1 + len(compared)) * short.duration_s

    def rows_of(tried: Scenario) -> Sequence[ComparedFigure] | None:
        nonlocal done_s
        rows = _rows(tried, shown, lambda at_s: emulating(done_s + at_s, all_s))
        done_s += short.duration_s
        return rows

    present = rows_of(short) if compared else None
    remarks: list[Remark] = []
    for name in undecided:
        union, kind = _with_union(short, name), "join"
        known: dict[str, object] = {"exchanges": sum(edge.target == name for edge in scenario.edges)}
        rows = rows_of(union) if present is not None and name in compared else None
        if present is None or rows is None:
            known["why"] = "not_comparable" if name in compared else "too_long"
        else:
            off_join, off_union = sum(map(_off, present)), sum(map(_off, rows))
            nearer, clearly = off_join - off_union, max(_NEARER, _NEARER_SHARE * off_join)
            if nearer >= clearly:
                kind = "union"
            known["why"] = "alike"
            if abs(nearer) >= clearly:
                known |= {"why": "nearer", "rows": _evidence(kind, join=present, union=rows)}
            if kind == "union":
                short, present, scenario = union, rows, _with_union(scenario, name)
        remarks.append(Remark(kind, name, known))
    return Noted(scenario, tuple(remarks))


def _shortened(scenario: Scenario, shown: Measured) -> Scenario:
    """Return the scenario with a shorter warm-up, and only a few checkpoints after it."""
    longest_s = (shown.steady.end_to_end_ms_max or 0.0) / 1e3
    warmup_s = min(scenario.warmup_s, max(_LEAST_S, _DRAINS * longest_s))
    window_s = max(_LEAST_S, _CHECKPOINTS * (scenario.config.checkpoint_interval_s or 0.0))
    end_s = min(scenario.duration_s, warmup_s + window_s)
    return replace(scenario.ending_at(end_s), warmup_s=warmup_s)


def _records(scenario: Scenario, shown: Measured) -> float:
    """Return the number of records of an emulation, counted at each vertex, by the rates of the job."""
    rates = (vertex.records_in_per_s + vertex.records_out_per_s for vertex in shown.steady.vertices)
    return scenario.duration_s * sum(total(of_vertex) or 0.0 for of_vertex in rates)


def _with_union(scenario: Scenario, vertex: str) -> Scenario:
    edges = (replace(edge, input=0) if edge.target == vertex else edge for edge in scenario.edges)
    return replace(scenario, edges=tuple(edges))


def _rows(
    scenario: Scenario, shown: Measured, progress: Callable[[float], None]
) -> Sequence[ComparedFigure] | None:
    """Return the emulated figures beside those of the job; None: there are none to compare."""
    try:
        result = emulate(scenario, progress=progress)
        return compare([result], reference_of(shown, *scenario.windows[0])).rows
    except (InsufficientBuffers, InputError, JobFailedError):
        return None


def _off(row: ComparedFigure) -> float:
    """Return the distance of an emulated figure from the job's, in tolerances."""
    if row.ours is None:
        return _MOST_OFF
    difference = abs(row.ours.median - row.flink.median)
    return min(_MOST_OFF, difference / row.tolerance) if row.tolerance else 0.0


def _evidence(
    kind: str, join: Sequence[ComparedFigure], union: Sequence[ComparedFigure]
) -> tuple[ComparedFigure, ComparedFigure]:
    """Return the figure that speaks most for this kind, emulated as a join and as a union."""
    sign = 1.0 if kind == "union" else -1.0
    return max(zip(join, union, strict=True), key=lambda pair: sign * (_off(pair[0]) - _off(pair[1])))
