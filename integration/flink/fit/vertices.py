"""The vertices of a scenario, fitted to the measurements of a job.

A function for each value of a vertex derives it from the `Evidence`, and returns it with its remarks. Sources
come first, since the backlog of a vertex depends on the bursts of its sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from statistics import fmean

from buffers import HEADER_BYTES
from netstack import CheckpointResult, CostModel, GeneratorSpec, NetworkConfig, Vertex

from ...base.errors import FlinkRestError
from ...base.optional_figures import highest, known, mean_of_known, middle
from ...runs.job_load import SATURATED
from ..read.job import FlinkJob, FlinkVertex
from ..read.samples import Samples, passed_s
from .exchange_flows import ALIKE, Firings, JobFlows
from .noted import Noted, Remark, Remarks
from .overrides import Overrides, of_vertex
from .processor_time import NOTHING_BURNS, Burning
from .subtask_loads import (
    ENOUGH_RECORDS,
    HARDLY_PER_S,
    IDLE,
    LEAST_RECORDS,
    Load,
    aligned_start_delays,
    evened,
    lags_s,
    load_of,
    queue_growth,
    record_bytes,
    record_spread,
    service_s,
    source_rate,
)
from .words import MISSING, note_of

KEY_BYTES = 8
"""Minimum size of a generated record."""

_SAME = 0.05
"""Service times of subtasks count as equal if they differ at most by this share."""

_LEAST_SPREAD = 0.005
"""Costs with a relative error below this count as exact."""

_ALIKE_RATES = 0.02
"""Rates of subtasks count as equal if they differ at most by this share."""

_HARDLY_BUSY = 0.2
"""A vertex with a busy share below this delays nothing, and its costs are inexact."""

_HARDLY_HELD = 0.05
"""A producer with a back-pressured share below this always finds room for its output."""

COSTS = CostModel(consumer_buffer_s=65e-6, subtask_factor=(0.85, 1.15))
"""Costs of a machine that runs an imported job. They differ from the defaults in the time to read a buffer,
and in its range over subtasks.

With debloating, more buffers carry the same records, so the busy time of a record rises. In jobs of Flink's
own operators, on two machines, it rose by 45 to 85 us for each buffer; in the jobs that gave the defaults, by
25 us.
"""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known of the vertices of a job."""

    job: FlinkJob
    config: NetworkConfig
    samples: Samples
    """The answers of the subtasks, without repetitions."""
    flows: JobFlows
    given: Overrides
    checkpoints: Sequence[CheckpointResult] = ()
    burning: Burning = NOTHING_BURNS

    @cached_property
    def loads(self) -> Mapping[str, list[Load | None]]:
        """The load of each subtask, by vertex id."""
        passed, age_s = passed_s(self.samples), self.job.age_s
        return {
            vertex.id: [
                load_of(each, "records_in" if self.job.inputs(vertex) else "records_out", passed, age_s)
                for each in self.samples[vertex.id]
            ]
            for vertex in self.job.vertices
        }

    def busiest(self, vertex: FlinkVertex) -> float:
        """Return the maximum busy share of a vertex's subtasks; 0: not reported."""
        return highest(load.busy_share for load in known(self.loads[vertex.id])) or 0.0

    def held(self, vertex_id: str) -> float:
        """Return the maximum back-pressured share of a vertex's subtasks; 0: not reported."""
        return highest(load.held_share for load in known(self.loads[vertex_id])) or 0.0

    def is_limited(self, source: FlinkVertex) -> bool:
        """Return whether any subtask downstream of a source is always busy."""
        return any(self.busiest(vertex) >= SATURATED for vertex in self.job.reachable(source))

    def reads_in_turns(self, vertex: FlinkVertex) -> bool:
        """Return whether producers send records to a vertex's subtasks in turns, so all get equally many."""
        in_turns = all(edge.strategy == "REBALANCE" for edge in self.job.inputs(vertex))
        return in_turns and not self.config.adaptive_partitioner_enabled


def fit_vertices(evidence: Evidence) -> Noted[list[Vertex]]:
    """Return the vertices, in the job's order.

    Raises:
        FlinkRestError: the metrics are insufficient. The message has a line for each necessary override.
    """
    vertices: list[Vertex] = []
    remarks: Remarks = ()
    bursts_s: dict[str, float] = {}
    for vertex in evidence.job.vertices:
        if evidence.job.inputs(vertex):
            fitted, about = _reader(evidence, vertex, bursts_s)
        else:
            generator, about = _generator(evidence, vertex)
            fitted = replace(_bare(evidence, vertex), source=generator)
            bursts_s[vertex.id] = generator.burst_s or 0.0
        vertices.append(fitted)
        remarks += _few_records(evidence, vertex) + about
    if missing := [note_of(remark) for remark in remarks if remark.kind in MISSING]:
        raise FlinkRestError(*missing)
    return Noted(vertices, remarks)


def _bare(evidence: Evidence, vertex: FlinkVertex) -> Vertex:
    """Return a vertex with what its job says of it, before any measurement."""
    name = evidence.job.names[vertex.id]
    return Vertex(name=name, parallelism=vertex.parallelism, task_manager=vertex.placed)


def _few_records(evidence: Evidence, vertex: FlinkVertex) -> Remarks:
    """Return remarks on the subtasks that saw few or no records while watched."""
    name, loads = evidence.job.names[vertex.id], evidence.loads[vertex.id]
    watched = [
        (number, load)
        for number, load in enumerate(loads)
        if load is not None and len(evidence.samples[vertex.id][number].samples) > 1
    ]
    few = [number for number, load in watched if 0 < load.records < ENOUGH_RECORDS]
    none = [number for number, load in watched if not load.records]
    remarks: Remarks = ()
    if few:
        remarks += (Remark("few_records", name, {"subtasks": few, "least": ENOUGH_RECORDS}),)
    if evidence.flows.fires_unseen(vertex):
        remarks += (Remark("firings_unseen", name),)
    elif none and evidence.job.inputs(vertex):
        remarks += (Remark("none_read", name, {"subtasks": none}),)
    elif none and evidence.held(vertex.id) < SATURATED:
        remarks += (Remark("none_emitted", name, {"subtasks": none, "per_s": HARDLY_PER_S}),)
    return remarks


# Sources


def _generator(evidence: Evidence, vertex: FlinkVertex) -> Noted[GeneratorSpec]:
    (size, about_size), (rates, about_rates) = _source_bytes(evidence, vertex), _rates(evidence, vertex)
    spread = _record_spread(evidence, vertex)
    spec = GeneratorSpec(
        record_bytes=size, record_spread=spread, rates=rates, legacy=_is_legacy(evidence, vertex)
    )
    flows, given = evidence.flows, of_vertex(evidence.given.rate, evidence.job.names[vertex.id])
    firings = flows.firings(vertex)
    if firings is not None and given is None:
        at_once = _fired_at_once(flows, vertex, firings, fmean(rates))
        per_s = float(f"{at_once / firings.period_s:.6g}")
        spec = replace(spec, rates=(per_s,), burst_s=firings.period_s, batch=at_once)
    elif not all(rates):  # as fast as possible
        spec = replace(spec, batch=flows.batch(vertex), cost_s=_source_cost(evidence, vertex))
    elif (burst_s := flows.burst_s(vertex, fmean(rates))) is not None:
        if len(rates) == 1:
            rates = (flows.emitted_at_once(vertex) / burst_s,)
        spec = replace(spec, rates=rates, burst_s=burst_s)
    elif _loses_pace(evidence, vertex):
        spec = replace(spec, catch_up_s=0.0)
    return Noted(spec, about_size + about_rates)


def _source_bytes(evidence: Evidence, vertex: FlinkVertex) -> Noted[int]:
    """Return the bytes of a source's records."""
    name = evidence.job.names[vertex.id]
    if (given := of_vertex(evidence.given.record_bytes, name)) is not None:
        return Noted(given)
    size = _emitted_bytes(evidence, vertex)
    if size is None:
        return Noted(KEY_BYTES, (Remark("size_unknown", name, {"least": LEAST_RECORDS}),))
    if size < KEY_BYTES:
        return Noted(KEY_BYTES, (Remark("record_too_short", name, {"bytes": size, "least": KEY_BYTES}),))
    return Noted(size)


def _emitted_bytes(evidence: Evidence, vertex: FlinkVertex) -> int | None:
    """Return the bytes of the records that a vertex emits, without their header; None: unknown."""
    size = record_bytes(evidence.job, vertex, evidence.samples, evidence.config.segment_bytes)
    return None if size is None else round(size) - HEADER_BYTES


def _record_spread(evidence: Evidence, vertex: FlinkVertex) -> float:
    if of_vertex(evidence.given.record_bytes, evidence.job.names[vertex.id]) is not None:
        return 0.0
    return record_spread(evidence.job, vertex, evidence.samples, evidence.config.segment_bytes)


def _rates(evidence: Evidence, vertex: FlinkVertex) -> Noted[tuple[float, ...]]:
    """Return the records per second of a source's subtasks: one rate for all, or one for each."""
    name, loads = evidence.job.names[vertex.id], evidence.loads[vertex.id]
    if (given := of_vertex(evidence.given.rate, name)) is not None:
        return Noted((given,))
    remarks: Remarks = ()
    if not any(loads):
        remarks += (Remark("rate_unknown", name, {"least": LEAST_RECORDS}),)
    if silent := _silent(loads):
        remarks += (Remark("hardly_emits", name, {"subtasks": silent, "per_s": HARDLY_PER_S}),)
    limited = evidence.is_limited(vertex)
    rates = [
        HARDLY_PER_S if load is None else float(f"{source_rate(subtask, load, limited=limited):.4g}")
        for subtask, load in zip(evidence.samples[vertex.id], loads, strict=True)
    ]
    if min(rates) and max(rates) / min(rates) - 1 <= _ALIKE_RATES:
        return Noted((float(f"{fmean(rates):.4g}"),), remarks)
    return Noted((rates[0],) if len(set(rates)) == 1 else tuple(rates), remarks)


def _silent(loads: Iterable[Load | None]) -> list[int]:
    return [number for number, load in enumerate(loads) if load is None]


def _is_legacy(evidence: Evidence, source: FlinkVertex) -> bool:
    """Return whether a source reports no busy time, as only legacy ones do, although other tasks do."""
    reports_busy = {
        vertex_id: load.busy_s is not None
        for vertex_id, loads in evidence.loads.items()
        for load in known(loads)
    }
    return reports_busy.get(source.id) is False and any(reports_busy.values())


def _fired_at_once(flows: JobFlows, source: FlinkVertex, firings: Firings, rate: float) -> int:
    """Return the records that a window in a source's chain emits in one call: all records of a period."""
    per_s = flows.since_per_s(source) if flows.fires_unseen(source) else rate * source.parallelism
    records = firings.records or per_s * firings.period_s
    return max(1, round(records / source.parallelism))


def _source_cost(evidence: Evidence, vertex: FlinkVertex) -> float | None:
    """Return the cost of emitting a record, for a source that emits as fast as possible; None: unknown.

    The default cost is an upper bound, because a source with few records is busy with other work.
    """
    loads = [load for load in known(evidence.loads[vertex.id]) if load.busy_s is not None]
    busy, records = sum(load.busy_s or 0.0 for load in loads), sum(load.records for load in loads)
    cost = busy / records if busy > 0 and records >= ENOUGH_RECORDS else COSTS.source_record_s
    return _rounded(cost) if cost < COSTS.source_record_s else None


def _loses_pace(evidence: Evidence, source: FlinkVertex) -> bool:
    """Return whether a paced source does not catch up: it is sometimes back-pressured, sometimes idle."""
    loads = known(evidence.loads[source.id])
    held = mean_of_known(load.held_share for load in loads) or 0.0
    idle = mean_of_known(load.idle_share for load in loads) or 0.0
    return evidence.is_limited(source) and held >= _HARDLY_HELD and idle >= IDLE


# Vertices with input


def _reader(evidence: Evidence, vertex: FlinkVertex, bursts_s: Mapping[str, float]) -> Noted[Vertex]:
    """Return a vertex with input. `bursts_s` has the seconds between the bursts of each source."""
    (cost, skew), about_cost = _service(evidence, vertex)
    (selectivity, emitted_bytes), about_output = _output(evidence, vertex)
    spread, about_spread = _spread(evidence, vertex) if cost else Noted(0.0)
    firings = evidence.flows.firings(vertex)
    window_s = of_vertex(evidence.given.window_s, evidence.job.names[vertex.id])
    fitted = replace(
        _bare(evidence, vertex),
        service=((0.0, cost),) if cost else (),
        service_skew=skew,
        service_spread=spread,
        service_mode=evidence.burning.modes.get(vertex.id, "throttle"),
        selectivity=selectivity,
        record_bytes=emitted_bytes,
        emit_every_s=None if firings is None else firings.period_s,
        behind_s=_behind(evidence, vertex, bursts_s),
    )
    if window_s is not None and selectivity:
        fired_s = _rounded(cost / selectivity)
        fitted = replace(fitted, service=(), emit_every_s=window_s, emit_cost_s=fired_s)
    return Noted(fitted, about_cost + about_output + about_spread)


def _service(evidence: Evidence, vertex: FlinkVertex) -> Noted[tuple[float, tuple[float, ...]]]:
    """Return the service time of a record in seconds, and the factor of each subtask."""
    name, samples = evidence.job.names[vertex.id], evidence.samples[vertex.id]
    if (given := of_vertex(evidence.given.service_s, name)) is not None:
        return Noted((given, (1.0,)))
    loads = evidence.loads[vertex.id]
    if evidence.reads_in_turns(vertex):
        loads = evened(loads, queue_growth(evidence.checkpoints, name, vertex.parallelism))
    if any(edge.strategy != "BROADCAST" for edge in evidence.job.inputs(vertex)):
        per_s = evidence.flows.copies(vertex).now_per_s
        loads = [None if load is None else load.without(per_s) for load in loads]
    costs = [
        None if load is None else service_s(subtask, load, COSTS, evidence.config, core_share)
        for subtask, load, core_share in zip(
            samples, loads, evidence.burning.core_shares(vertex), strict=True
        )
    ]
    remarks: Remarks = ()
    silent = _silent(loads)
    if not any(loads):
        remarks += (Remark("cost_unknown", name, {"least": LEAST_RECORDS}),)
    elif not known(costs):
        remarks += (Remark("busy_time_unreported", name),)
    if silent and any(loads):
        remarks += (Remark("hardly_reads", name, {"subtasks": silent}),)
    busiest = evidence.busiest(vertex)
    if busiest < _HARDLY_BUSY:
        return Noted((_rounded(mean_of_known(costs) or 0.0), (1.0,)), remarks)
    return Noted(base_and_skew(costs, exact=busiest >= SATURATED), remarks)


def base_and_skew(costs: Iterable[float | None], *, exact: bool = False) -> tuple[float, tuple[float, ...]]:
    """Return the median cost as service time, to four digits, and the factor of each subtask relative to it.

    Subtasks of unknown cost have the factor 1. If no subtask differs from the median by 5 %, all factors are
    1, unless the costs are known to be `exact`.
    """
    listed = list(costs)
    values = known(listed)
    base = middle(values) or max(values, default=0.0)
    if not base:
        return 0.0, (1.0,)
    factors = [1.0 if cost is None else cost / base for cost in listed]
    if not exact and all(abs(factor - 1) < _SAME for factor in factors):
        return _rounded(fmean(values)), (1.0,)
    return _rounded(base), tuple(round(factor, 4 if exact else 2) for factor in factors)


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def _output(evidence: Evidence, vertex: FlinkVertex) -> Noted[tuple[float, int | None]]:
    """Return the selectivity of all inputs together, 1 if they differ, and the bytes of an emitted record."""
    if not evidence.job.outputs(vertex):
        return Noted((1.0, None))
    name, size = evidence.job.names[vertex.id], _emitted_bytes(evidence, vertex)
    emitted_bytes = None if size is None else max(KEY_BYTES, size)
    selectivities = evidence.flows.selectivities(vertex)
    if selectivities is None:
        return Noted((1.0, emitted_bytes), (Remark("output_unreported", name),))
    remarks = () if any(selectivities) else (Remark("no_output", name),)
    # If they differ, those of the edges apply.
    selectivity = float(f"{selectivities[0]:.4g}") if len(set(selectivities)) == 1 else 1.0
    if selectivity == 1 and _record_spread(evidence, vertex) and _forwards(evidence, vertex, size):
        emitted_bytes = None
    return Noted((selectivity, emitted_bytes), remarks)


def _forwards(evidence: Evidence, vertex: FlinkVertex, size: int | None) -> bool:
    """Return whether the records that a vertex emits are about as long as those of all its producers."""
    producers = {edge.source for edge in evidence.job.inputs(vertex)}
    read = [_emitted_bytes(evidence, each) for each in evidence.job.vertices if each.id in producers]
    return size is not None and all(one and abs(size / one - 1) <= ALIKE for one in read)


def _spread(evidence: Evidence, vertex: FlinkVertex) -> Noted[float]:
    """Return the relative uncertainty of the costs of subtasks that never idle; 0: unknown."""
    name = evidence.job.names[vertex.id]
    if of_vertex(evidence.given.service_s, name) is not None:
        return Noted(0.0)
    errors = [load.error for load in known(evidence.loads[vertex.id]) if load.never_idles]
    spread = round(sqrt(fmean(error**2 for error in errors)), 3) if errors else 0.0
    if spread < _LEAST_SPREAD:
        return Noted(0.0)
    return Noted(spread, (Remark("cost_varies", name, {"percent": 100 * spread}),))


def _behind(evidence: Evidence, vertex: FlinkVertex, bursts_s: Mapping[str, float]) -> tuple[float, ...]:
    """Return the backlog in seconds of each subtask of a vertex that is always busy.

    A vertex that is busy without causing back-pressure just keeps up. Its queue length depends on its
    past. Barriers wait for this backlog and for half of a source's burst.
    """
    name, checkpoints = evidence.job.names[vertex.id], evidence.checkpoints
    producers = [edge.source for edge in evidence.job.inputs(vertex)]
    if evidence.busiest(vertex) < SATURATED:
        return (0.0,)
    if max(map(evidence.held, producers)) >= _HARDLY_HELD:
        # Subtasks that get records in turns and are all always busy keep their lags.
        loads = evidence.loads[vertex.id]
        all_busy = all(load and (load.busy_share or 0.0) >= SATURATED for load in loads)
        if not evidence.reads_in_turns(vertex) or not all_busy:
            return (0.0,)
        lags = lags_s(checkpoints, name, vertex.parallelism)
        return tuple(round(seconds, 3) for seconds in lags) if any(lags) else (0.0,)
    burst_s = max(bursts_s.get(producer, 0.0) for producer in producers)
    delays = [waits for _, waits in aligned_start_delays(checkpoints, name, vertex.parallelism)]
    waits = [(middle(of_subtask) or 0.0) / 1e3 for of_subtask in zip(*delays, strict=True)]
    return tuple(round(max(0.0, wait_s - burst_s / 2), 3) for wait_s in waits) or (0.0,)
