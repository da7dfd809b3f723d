"""Rules over the subtasks of one vertex: whether they are unequal, and in what."""

from __future__ import annotations

from collections.abc import Iterator

from netstack import VertexSteady

from ..known_values import Values, complete, highest, known, mean
from .finding import SKEW, Finding, costs_ms, is_busy, is_full, span
from .observation import Observation
from .pool_rules import out_pools_upstream


def skewed_records(view: Observation) -> Iterator[Finding]:
    """Subtasks that get more records than others."""
    for vertex in view.vertices:
        uneven = _unevenness(vertex.records_in_per_s)
        if not view.inputs(vertex) or uneven is None or uneven < SKEW:
            continue
        most = _greatest(vertex.records_in_per_s)
        yield Finding(
            rule="skewed-records",
            severity="notice",
            where=vertex.name,
            says=f"{vertex.name}[{most}] gets {uneven:.1f} times as many records as the mean.",
            evidence=[f"records/s by subtask: {span(vertex.records_in_per_s, ',.0f')}"],
            next=["look at the keys: a salt, or a local aggregation before the exchange, spreads them"],
        )


def skewed_cost(view: Observation) -> Iterator[Finding]:
    """Subtasks for which a record costs more than for others, and that have no time left for it."""
    for vertex in view.vertices:
        costs = costs_ms(vertex)
        dearer = _unevenness(costs or ())
        if not view.inputs(vertex) or costs is None or dearer is None or dearer < SKEW or not is_busy(vertex):
            continue
        dearest = _dearest(vertex)
        yield Finding(
            rule="skewed-cost",
            severity="notice",
            where=vertex.name,
            says=f"A record costs {vertex.name}[{dearest}] {dearer:.1f} times as much as the mean.",
            evidence=[f"ms busy for a record, by subtask: {span(costs)}"],
            next=["compare the machines, the state and the keys of the subtasks"],
        )


def unequal_writers(view: Observation) -> Iterator[Finding]:
    """A reader whose writers are unequal: some fill their channels, others hardly use them."""
    for vertex in view.vertices:
        usage = complete(used for _, writer in view.inputs(vertex) for used in writer.outPoolUsage) or []
        full = [used for used in usage if is_full([used])]
        if not full or min(usage) >= max(full) / 2:
            continue
        yield Finding(
            rule="unequal-writers",
            severity="notice",
            where=vertex.name,
            says=f"{len(full)} of the {len(usage)} subtasks that write to it are full, the others are not: "
            "barriers come early on some channels and late on others.",
            evidence=[out_pools_upstream(view, vertex)],
            next=[
                "expect long alignments; unaligned checkpoints or an aligned timeout avoid them",
                "debloating gives all channels of a gate buffers of one size, whatever waits on each",
            ],
        )


def _unevenness(values: Values) -> float | None:
    """The greatest over the mean; None if there is nothing to compare, or not all is known."""
    all_values = complete(values) or []
    average = mean(all_values)
    return max(all_values) / average if average and len(all_values) > 1 else None


def _dearest(vertex: VertexSteady) -> int:
    """The subtask that is busy longest with a record; all figures are known."""
    pairs = zip(known(vertex.busy_ms_per_s), known(vertex.records_in_per_s), strict=True)
    costs = [busy / rate if rate else 0.0 for busy, rate in pairs]
    return costs.index(max(costs))


def _greatest(values: list[float | None]) -> int:
    """The subtask with the greatest value."""
    return values.index(highest(values))


SKEW_RULES = (skewed_records, skewed_cost, unequal_writers)
