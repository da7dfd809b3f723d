"""A scenario fitted to the measurements of a job: its vertices, exchanges, options and memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean
from typing import Any

from buffers import HEADER_BYTES
from netstack import (
    CheckpointResult,
    CostModel,
    Edge,
    GeneratorSpec,
    LinkConditions,
    NetworkConfig,
    Scenario,
    ShipStrategy,
    Vertex,
    check_scenario,
    preset_for,
    with_options,
)

from ...base.errors import FlinkRestError, Note, Parameter
from ...base.optional_figures import highest, known, mean_of_known, middle
from ..read.job import FlinkEdge, FlinkJob, FlinkVertex, runs_other_jobs
from ..read.sampling import Samples, SubtaskSamples, passed_s, without_repeats
from .exchange_flows import ALIKE, Firings, JobFlows
from .job_options import Overrides, input_kinds, of_vertex, read_config
from .processor_time import NOTHING_BURNS, Burning
from .subtask_loads import (
    ENOUGH_RECORDS,
    HARDLY_PER_S,
    IDLE,
    LEAST_RECORDS,
    SATURATED,
    aligned_start_delays,
    evened,
    lags_s,
    load_of,
    queue_growth,
    record_bytes,
    service_s,
    source_rate,
)
from .union_or_join import InputKind, kind_by_name, kind_note

WARMUP_S = 20.0
"""Minimum warm-up in seconds. By then an emulated job has filled its queues and sized its buffers."""

_DRAINS = 5
"""Warm-up as a multiple of the longest wait of a record. By then the queues show the bottleneck."""

_LEAST_WINDOW_S = 40.0
_LONGEST_WINDOW_S = 600.0
_CHECKPOINTS = 8
_LEAST_CHECKPOINTS = 3

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

_LIMITING = 0.7
"""A consumer can limit a producer that is always back-pressured if its busiest subtask is busy for at least
this share of the time.
"""

_HARDLY_HELD = 0.05
"""A producer with a back-pressured share below this always finds room for its output."""

_SEGMENTS = "nettyShuffleMemorySegmentsTotal"

_STRATEGIES = {strategy.name: strategy for strategy in ShipStrategy}
"""Ship strategies, by Flink's names."""

_FIRST_WATERMARK_MS, _LAST_WATERMARK_MS = 1.0, 1e15
"""Bounds of real watermarks. Long.MIN_VALUE means no watermark yet, and Long.MAX_VALUE the end of time."""

_PACES = (0.5, 2.0)
"""If event time advances at a pace in this range, relative to the clock, records arrive in real time."""

COSTS = CostModel(consumer_buffer_s=65e-6, subtask_factor=(0.85, 1.15))
"""Costs of a machine that runs an imported job. They differ from the defaults in the time to read a buffer,
and in its range over subtasks.

With debloating, more buffers carry the same records, so the busy time of a record rises. In jobs of Flink's
own operators, on two machines, it rose by 45 to 85 us for each buffer; in the jobs that gave the defaults, by
25 us.
"""


def fit_scenario(
    job: FlinkJob,
    samples: Samples,
    given: Overrides,
    notes: list[str],
    checkpoints: Sequence[CheckpointResult] = (),
    burning: Burning = NOTHING_BURNS,
    managers: Mapping[str, Mapping[str, Any]] | None = None,
) -> Scenario:
    """Return the scenario of a job; `notes` gets a line for each assumption.

    `checkpoints` are the last checkpoints, `burning` is the CPU-bound work, and `managers` are the
    answers of ``/taskmanagers/ID``. Each of them may be unknown.

    Raises:
        FlinkRestError: the job shows too little.
        ScenarioError: an override is wrong, or the answers make no valid scenario.
    """
    config = read_config(job, given.options, notes)
    warmup_s, window_s = _times_of_run(config, checkpoints)
    growth = {
        vertex.id: queue_growth(checkpoints, job.names[vertex.id], vertex.parallelism)
        for vertex in job.vertices
    }
    flows = JobFlows(job, samples, growth)
    vertices = VertexReader(job, config, samples, flows, given, notes, checkpoints, burning).vertices()
    if config.auto_watermark_interval_s > 0:
        vertices = by_event_time(job, samples, vertices, notes)
    words = "".join(letter if letter.isalnum() or letter in "._-" else " " for letter in job.name).split()
    scenario = Scenario(
        name="-".join(words)[:60].strip("-.") or "flink-job",
        duration_s=warmup_s + window_s,
        warmup_s=warmup_s,
        preset=preset_for(job.version),
        config=config,
        costs=COSTS,
        link=LinkConditions(latency_s=given.latency_s),
        vertices=tuple(vertices),
        edges=edges_of(job, flows, notes, given),
        machines=burning.machines,
    )
    check_scenario(scenario)
    if managers and config.network_memory_max_bytes is None:
        size = _network_memory(job, managers, config.segment_bytes, notes)
        if size is not None:
            return replace(scenario, config=with_options(config, {"network_memory_max_bytes": size}))
    return scenario


def _times_of_run(config: NetworkConfig, checkpoints: Sequence[CheckpointResult]) -> tuple[float, float]:
    """Return the warm-up and the measured window of the scenario, in seconds."""
    # The duration of the slowest checkpoint is the maximum wait of a record.
    longest_s = max([each.duration_ms or 0.0 for each in checkpoints], default=0.0) / 1e3
    warmup_s = max(WARMUP_S, math.ceil(_DRAINS * longest_s))
    interval_s = max(config.checkpoint_interval_s or 0.0, math.ceil(longest_s))
    longest_window_s = max(_LONGEST_WINDOW_S, _LEAST_CHECKPOINTS * interval_s)
    return warmup_s, max(_LEAST_WINDOW_S, min(_CHECKPOINTS * interval_s, longest_window_s))


def _network_memory(
    job: FlinkJob, managers: Mapping[str, Mapping[str, Any]], segment_bytes: int, notes: list[str]
) -> int | None:
    """Return the network memory of each task manager in bytes. A scenario has one size for all."""
    sizes = {}
    for name, answer in managers.items():
        segments = answer.get("metrics", {}).get(_SEGMENTS)
        sizes[name] = segments * segment_bytes if isinstance(segments, int) and segments > 0 else 0
    if not all(sizes.values()):
        notes.append(
            Note(
                "The network memory of the task managers is not reported; assuming unlimited.",
                Parameter("options", "128 mb", of="taskmanager.memory.network.max"),
                advice="Use {} to override.",
            )
        )
        return None
    least = min(sizes, key=lambda name: sizes[name])
    if len(set(sizes.values())) > 1:
        notes.append(f"Task managers differ in network memory; assuming that all have as little as {least}.")
    if shared := [name for name, answer in managers.items() if runs_other_jobs(answer, job)]:
        notes.append(
            f"Other jobs share the network memory of {', '.join(shared)}; assuming that this job has "
            "all of it."
        )
    return sizes[least]


# Vertices


class VertexReader:
    """Fits the vertices of one job; `notes` gets a line for each assumption."""

    def __init__(
        self,
        job: FlinkJob,
        config: NetworkConfig,
        samples: Samples,
        flows: JobFlows,
        given: Overrides,
        notes: list[str],
        checkpoints: Sequence[CheckpointResult] = (),
        burning: Burning = NOTHING_BURNS,
    ) -> None:
        self._job = job
        self._config = config
        self._samples = samples = without_repeats(samples)
        self._flows = flows
        self._given = given
        self._notes = notes
        self._checkpoints = checkpoints
        self._burning = burning
        self._problems: list[Note] = []
        self._bursts_s: dict[str, float] = {}  # vertices come after the sources from which they read
        passed, age_s = passed_s(samples), job.age_s
        self._loads = {
            vertex.id: [
                load_of(each, "records_in" if job.inputs(vertex) else "records_out", passed, age_s)
                for each in samples[vertex.id]
            ]
            for vertex in job.vertices
        }

    def vertices(self) -> list[Vertex]:
        """Return all vertices, in the job's order.

        Raises:
            FlinkRestError: the metrics are insufficient. The message has a line for each necessary override.
        """
        vertices = [self._vertex(vertex) for vertex in self._job.vertices]
        if self._problems:
            raise FlinkRestError(*self._problems)
        return vertices

    def _vertex(self, vertex: FlinkVertex) -> Vertex:
        name = self._job.names[vertex.id]
        self._note_few(vertex, name)
        if not self._job.inputs(vertex):
            return Vertex(
                name=name,
                parallelism=vertex.parallelism,
                task_manager=vertex.placed,
                source=self._source(vertex, name),
            )
        cost, skew = self._service(vertex, name)
        firings = self._flows.firings(vertex)
        emitted_bytes, selectivity = None, 1.0
        if self._job.outputs(vertex):
            size = record_bytes(self._job, vertex, self._samples, self._config.segment_bytes)
            emitted_bytes = None if size is None else max(KEY_BYTES, round(size) - HEADER_BYTES)
            selectivities = self._flows.selectivities(vertex)
            if selectivities is None:
                self._notes.append(
                    f"{name}: its output is not reported; assuming one record for each record that it reads."
                )
            elif not any(selectivities):
                self._note_watch_longer(
                    f"{name}: no records were seen leaving it; assuming that it emits none."
                )
            if selectivities is not None and len(set(selectivities)) == 1:
                selectivity = float(f"{selectivities[0]:.4g}")  # the other fields are set on the edges
        return Vertex(
            name=name,
            parallelism=vertex.parallelism,
            task_manager=vertex.placed,
            service=((0.0, cost),) if cost else (),
            service_skew=skew,
            service_spread=self._spread(vertex, name) if cost else 0.0,
            service_mode=self._burning.modes.get(vertex.id, "throttle"),
            selectivity=selectivity,
            record_bytes=emitted_bytes,
            emit_every_s=None if firings is None else firings.period_s,
            behind_s=self._behind(vertex, name),
        )

    # Sources

    def _source(self, vertex: FlinkVertex, name: str) -> GeneratorSpec:
        size, rates, legacy = self._size(vertex, name), self._rates(vertex, name), self._is_legacy(vertex)
        firings = self._flows.firings(vertex)
        if firings is not None and of_vertex(self._given.rate, name) is None:
            at_once = self._fired_at_once(vertex, firings, fmean(rates))
            self._bursts_s[vertex.id] = firings.period_s
            return GeneratorSpec(
                record_bytes=size,
                rates=(float(f"{at_once / firings.period_s:.6g}"),),
                burst_s=firings.period_s,
                batch=at_once,
                legacy=legacy,
            )
        as_fast_as_possible = not all(rates)
        if as_fast_as_possible:
            batch = self._flows.batch(vertex)
            cost = self._source_cost(vertex)
            return GeneratorSpec(record_bytes=size, rates=rates, batch=batch, cost_s=cost, legacy=legacy)
        burst_s = self._flows.burst_s(vertex, fmean(rates))
        self._bursts_s[vertex.id] = burst_s or 0.0
        if burst_s is not None and len(rates) == 1:
            rates = (self._flows.emitted_at_once(vertex) / burst_s,)
        source = GeneratorSpec(record_bytes=size, rates=rates, burst_s=burst_s, legacy=legacy)
        if burst_s is None and self._loses_pace(vertex):
            return replace(source, catch_up_s=0.0)
        return source

    def _is_legacy(self, source: FlinkVertex) -> bool:
        """Return whether a source reports no busy time, as only legacy ones do, although other tasks do."""
        reports_busy = {
            other.id: load.busy_s is not None
            for other in self._job.vertices
            for load in self._loads[other.id]
            if load is not None
        }
        return reports_busy.get(source.id) is False and any(reports_busy.values())

    def _fired_at_once(self, source: FlinkVertex, firings: Firings, rate: float) -> int:
        """Return the records that a window in a source's chain emits in one call: all records of a period."""
        unseen = self._flows.fires_unseen(source)
        per_s = self._flows.since_per_s(source) if unseen else rate * source.parallelism
        records = firings.records or per_s * firings.period_s
        return max(1, round(records / source.parallelism))

    def _loses_pace(self, source: FlinkVertex) -> bool:
        """Return whether a paced source does not catch up: it is sometimes back-pressured, sometimes idle."""
        if not self._is_limited(source):
            return False
        loads = known(self._loads[source.id])
        held = mean_of_known(load.held_share for load in loads) or 0.0
        idle = mean_of_known(load.idle_share for load in loads) or 0.0
        return held >= _HARDLY_HELD and idle >= IDLE

    def _source_cost(self, vertex: FlinkVertex) -> float | None:
        """Return the cost of emitting a record, for a source that emits as fast as possible; None: unknown.

        The default cost is an upper bound, because a source with few records is busy with other work.
        """
        loads = [load for load in self._loads[vertex.id] if load is not None and load.busy_s is not None]
        busy, records = sum(load.busy_s or 0.0 for load in loads), sum(load.records for load in loads)
        cost = busy / records if busy > 0 and records >= ENOUGH_RECORDS else COSTS.source_record_s
        return _rounded(cost) if cost < COSTS.source_record_s else None

    def _size(self, vertex: FlinkVertex, name: str) -> int:
        given = of_vertex(self._given.record_bytes, name)
        if given is not None:
            return given
        size = record_bytes(self._job, vertex, self._samples, self._config.segment_bytes)
        if size is None:
            self._too_little(name, "emitted", "size", Parameter("record_bytes", 1000, of=name))
            return KEY_BYTES
        whole = round(size) - HEADER_BYTES
        if whole < KEY_BYTES:
            self._notes.append(
                f"{name}: a record has only {whole} bytes; assuming {KEY_BYTES}, the least that is possible."
            )
        return max(KEY_BYTES, whole)

    def _rates(self, vertex: FlinkVertex, name: str) -> tuple[float, ...]:
        given = of_vertex(self._given.rate, name)
        if given is not None:
            return (given,)
        loads = self._loads[vertex.id]
        if not any(loads):
            self._too_little(name, "emitted", "rate", Parameter("rate", 100, of=name))
        limited = self._is_limited(vertex)
        rates = [
            HARDLY_PER_S if load is None else float(f"{source_rate(subtask, load, limited=limited):.4g}")
            for subtask, load in zip(self._samples[vertex.id], loads, strict=True)
        ]
        if silent := [str(number) for number, load in enumerate(loads) if load is None]:
            self._notes.append(
                f"{name}: subtask {', '.join(silent)} emitted next to nothing; assuming "
                f"{HARDLY_PER_S:g} records/s."
            )
        if min(rates) and max(rates) / min(rates) - 1 <= _ALIKE_RATES:
            return (float(f"{fmean(rates):.4g}"),)
        return (rates[0],) if len(set(rates)) == 1 else tuple(rates)

    def _is_limited(self, source: FlinkVertex) -> bool:
        """Return whether any subtask downstream of a source is always busy."""
        return any(self._busiest(vertex) >= SATURATED for vertex in self._job.reachable(source))

    # Vertices with input

    def _service(self, vertex: FlinkVertex, name: str) -> tuple[float, tuple[float, ...]]:
        """Return the service time of a record in seconds, and the factor of each subtask."""
        given = of_vertex(self._given.service_s, name)
        if given is not None:
            return given, (1.0,)
        loads = self._loads[vertex.id]
        if self._reads_in_turns(vertex):
            loads = evened(loads, queue_growth(self._checkpoints, name, vertex.parallelism))
        if any(edge.strategy != "BROADCAST" for edge in self._job.inputs(vertex)):
            per_s = self._flows.copies(vertex).now_per_s
            loads = [None if load is None else load.without(per_s) for load in loads]
        costs = [
            None if load is None else service_s(subtask, load, COSTS, self._config, core_share)
            for subtask, load, core_share in zip(
                self._samples[vertex.id], loads, self._burning.core_shares(vertex), strict=True
            )
        ]
        example = Parameter("service_s", 0.005, of=name)
        if not any(loads):
            self._too_little(name, "read", "cost", example)
        elif all(cost is None for cost in costs):
            text = f"{name}: its busy time is not reported."
            self._problems.append(Note(text, example, advice="Set the cost of a record: {}."))
        silent = [str(number) for number, load in enumerate(loads) if load is None]
        if silent and any(loads):
            self._notes.append(
                f"{name}: subtask {', '.join(silent)} has read next to nothing; assuming the mean cost "
                "of the others."
            )
        busiest = self._busiest(vertex)
        if busiest < _HARDLY_BUSY:
            return _rounded(mean_of_known(costs) or 0.0), (1.0,)
        if self._limits_producers(vertex):
            costs = [None if cost is None else cost / busiest for cost in costs]
        return base_and_skew(costs, exact=busiest >= SATURATED)

    def _limits_producers(self, vertex: FlinkVertex) -> bool:
        """Return whether a vertex is the busiest consumer of producers that are always back-pressured.

        Such a vertex limits its job, perhaps although no subtask is always busy. If costs change, different
        subtasks are the slowest at different times, and the others wait. Their mean cost would let more
        records through.
        """
        held = {edge.source for edge in self._job.inputs(vertex) if self._held(edge.source) >= SATURATED}
        if not held or self._held(vertex.id) >= _HARDLY_BUSY:
            return False
        rivals = {edge.target for edge in self._job.edges if edge.source in held}
        first = max((self._busiest(other) for other in self._job.vertices if other.id in rivals), default=0.0)
        return self._busiest(vertex) >= max(_LIMITING, first)

    def _spread(self, vertex: FlinkVertex, name: str) -> float:
        """Return the relative uncertainty of the costs of subtasks that never idle; 0: unknown."""
        if of_vertex(self._given.service_s, name) is not None:
            return 0.0
        errors = [load.error for load in self._loads[vertex.id] if load is not None and load.never_idles]
        spread = round(sqrt(fmean(error**2 for error in errors)), 3) if errors else 0.0
        if spread < _LEAST_SPREAD:
            return 0.0
        self._note_watch_longer(
            f"{name}: the cost of a record varies, so the measured cost is uncertain by "
            f"{100 * spread:.2g} %. Runs with different seeds use costs that differ by as much."
        )
        return spread

    def _behind(self, vertex: FlinkVertex, name: str) -> tuple[float, ...]:
        """Return the backlog in seconds of each subtask of a vertex that is always busy.

        A vertex that is busy without causing back-pressure just keeps up. Its queue length depends on its
        past. Barriers wait for this backlog and for half of a source's burst.
        """
        producers = [edge.source for edge in self._job.inputs(vertex)]
        if self._busiest(vertex) < SATURATED:
            return (0.0,)
        if max(map(self._held, producers)) >= _HARDLY_HELD:
            # Subtasks that get records in turns and are all always busy keep their lags.
            loads = self._loads[vertex.id]
            all_busy = all(load and (load.busy_share or 0.0) >= SATURATED for load in loads)
            if not self._reads_in_turns(vertex) or not all_busy:
                return (0.0,)
            lags = lags_s(self._checkpoints, name, vertex.parallelism)
            return tuple(round(seconds, 3) for seconds in lags) if any(lags) else (0.0,)
        burst_s = max(self._bursts_s.get(producer, 0.0) for producer in producers)
        delays = [waits for _, waits in aligned_start_delays(self._checkpoints, name, vertex.parallelism)]
        waits = [(middle(of_subtask) or 0.0) / 1e3 for of_subtask in zip(*delays, strict=True)]
        return tuple(round(max(0.0, wait_s - burst_s / 2), 3) for wait_s in waits) or (0.0,)

    def _reads_in_turns(self, vertex: FlinkVertex) -> bool:
        """Whether producers send records to the subtasks of a vertex in turns, so all get equally many."""
        exchanges = self._job.inputs(vertex)
        in_turns = all(edge.strategy == "REBALANCE" for edge in exchanges)
        return in_turns and not self._config.adaptive_partitioner_enabled

    def _busiest(self, vertex: FlinkVertex) -> float:
        """Return the maximum busy share of a vertex's subtasks; 0: not reported."""
        return highest(load.busy_share for load in self._loads[vertex.id] if load is not None) or 0.0

    def _held(self, vertex_id: str) -> float:
        """Return the maximum back-pressured share of a vertex's subtasks; 0: not reported."""
        return highest(load.held_share for load in self._loads[vertex_id] if load is not None) or 0.0

    # Notes

    def _note_few(self, vertex: FlinkVertex, name: str) -> None:
        """Note which subtasks saw few or no records while watched, and what is assumed for them."""
        watched = [
            (str(number), load)
            for number, load in enumerate(self._loads[vertex.id])
            if load is not None and len(self._samples[vertex.id][number].samples) > 1
        ]
        few = [number for number, load in watched if 0 < load.records < ENOUGH_RECORDS]
        reads = bool(self._job.inputs(vertex))
        none = [number for number, load in watched if not load.records]
        if few:
            seen = f"{name}: fewer than {ENOUGH_RECORDS} records were seen at subtask {', '.join(few)}"
            self._note_watch_longer(f"{seen}, so rates and costs are uncertain.")
        if self._flows.fires_unseen(vertex):
            self._note_watch_longer(
                f"{name}: its windows hardly fired while watched; using its mean output per record "
                "since the start of the job."
            )
        elif none and (reads or self._held(vertex.id) < SATURATED):
            assumed = "the mean cost since the start of the job" if reads else f"{HARDLY_PER_S:g} records/s"
            self._note_watch_longer(
                f"{name}: no records were seen at subtask {', '.join(none)}; assuming {assumed}."
            )

    def _note_watch_longer(self, text: str) -> None:
        self._notes.append(Note(text, Parameter("watch_s"), advice="Set {} to a longer time."))

    def _too_little(self, name: str, done: str, what: str, example: Parameter) -> None:
        text = (
            f"{name}: too little is known about its load: each subtask must have {done} at least "
            f"{LEAST_RECORDS} records."
        )
        self._problems.append(Note(text, example, advice=f"Wait, or set the missing {what}: {{}}."))


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


# Event time


def by_event_time(
    job: FlinkJob, samples: Samples, vertices: Sequence[Vertex], notes: list[str]
) -> list[Vertex]:
    """Return the vertices, with marks on those that fire by event time, and watermarks at their sources.

    A task reports the lowest watermark that it has read. A source reports the lag of its last watermark
    behind the clock. `vertices` are in the job's order. A vertex for which this is unknown fires by the
    clock.
    """
    fitted = {vertex.id: each for vertex, each in zip(job.vertices, vertices, strict=True)}
    for vertex in job.vertices:
        sources = [each for each in job.reachable(vertex, upstream=True) if not job.inputs(each)]
        period_s = fitted[vertex.id].emit_every_s
        if period_s is None or not sources or not all(map(_follows_clock, samples[vertex.id])):
            continue
        fitted[vertex.id] = replace(fitted[vertex.id], emit_by="event_time")
        for source in sources:
            name = job.names[source.id]
            fitted[source.id] = _with_watermarks(fitted[source.id], samples[source.id], period_s, name, notes)
    return [fitted[vertex.id] for vertex in job.vertices]


def _follows_clock(subtask: SubtaskSamples) -> bool:
    """Return whether a subtask has read watermarks that advance about as fast as the clock."""
    increase, seconds = subtask.increase("currentInputWatermark"), subtask.seconds
    ends = [subtask.samples[at].get("currentInputWatermark", 0.0) for at in (0, -1) if subtask.samples]
    are_real = all(_FIRST_WATERMARK_MS <= end <= _LAST_WATERMARK_MS for end in ends)
    return bool(increase and seconds and are_real and _PACES[0] <= increase / 1e3 / seconds <= _PACES[1])


def _with_watermarks(
    source: Vertex, subtasks: Sequence[SubtaskSamples], period_s: float, name: str, notes: list[str]
) -> Vertex:
    """Return the source with watermarks, which lag behind its records by the shortest reported lag.

    The reported lag grows between two watermarks and under back-pressure. If it contains whole window
    periods, the data is old, so only the remainder is used.
    """
    if not isinstance(source.source, GeneratorSpec):
        return source
    reported = known(sample.get("watermarkLag") for subtask in subtasks for sample in subtask.samples)
    lags_ms = [lag for lag in reported if 0 <= lag <= _LAST_WATERMARK_MS]
    if not lags_ms:
        notes.append(f"{name}: the lag of its watermarks is not reported; assuming no lag.")
    behind_s = float(f"{min(lags_ms, default=0.0) / 1e3 % period_s:.2g}")
    before_s = source.source.out_of_orderness_s
    behind_s = behind_s if before_s is None else min(behind_s, before_s)
    return replace(source, source=replace(source.source, out_of_orderness_s=behind_s))


# Exchanges


def edges_of(
    job: FlinkJob, flows: JobFlows, notes: list[str], given: Overrides | None = None
) -> tuple[Edge, ...]:
    """Return the edges with their flows; `notes` gets a line for each assumption.

    Exchanges of one vertex are inputs of a join, unless the name of the vertex or `given` says that they are
    a union.
    """
    places = {vertex.id: place for place, vertex in enumerate(job.vertices)}
    in_order = sorted(job.edges, key=lambda edge: (places[edge.source], places[edge.target]))
    kinds = input_kinds(job, given or Overrides())
    edges = tuple(_edge(job, edge, flows, kinds, notes) for edge in in_order)
    for vertex in job.vertices:
        name, inputs = job.names[vertex.id], job.inputs(vertex)
        kind = kind_by_name(vertex)
        if len(inputs) > 1 and kind is not None and kinds[name] == kind:
            notes.append(kind_note(name, len(inputs), kind, ", as its name says"))
        if len(inputs) > 1 and any(_ship(edge).by_key for edge in inputs):
            notes.append(
                f"{name}: Flink does not report how many records a subtask reads from each exchange; "
                "assuming the same distribution of keys in all."
            )
    return edges


def _ship(edge: FlinkEdge) -> ShipStrategy:
    return _STRATEGIES.get(edge.strategy, ShipStrategy.REBALANCE)


def _edge(
    job: FlinkJob,
    edge: FlinkEdge,
    flows: JobFlows,
    kinds: Mapping[str, InputKind | None],
    notes: list[str],
) -> Edge:
    """Return an edge: the input of the consumer that it feeds, the fraction of its records that each subtask
    reads, and the fraction of the producer's records that it carries.
    """
    by_id = {vertex.id: vertex for vertex in job.vertices}
    producer, consumer = by_id[edge.source], by_id[edge.target]
    source, target = job.names[edge.source], job.names[edge.target]
    ship = _ship(edge)
    if edge.strategy not in _STRATEGIES:
        how = f"ships by {edge.strategy}" if edge.strategy else "does not report its ship strategy"
        notes.append(f"{source} -> {target} {how}; assuming {ship}.")
    elif ship is ShipStrategy.FORWARD and producer.parallelism != consumer.parallelism:
        ship = ShipStrategy.RESCALE
    if edge.exchange and not edge.exchange.startswith("pipelined"):
        notes.append(f"{source} -> {target} is {edge.exchange}; assuming pipelined.")
    number = job.inputs(consumer).index(edge)
    fitted = Edge(
        source=source,
        target=target,
        ship=ship.value,
        input=0 if kinds.get(target) == "union" else number,
        fraction=1.0 if ship.copies else round(flows.fraction(edge), 4),
    )
    if ship.copies and any(edge.strategy != "BROADCAST" for edge in job.inputs(consumer)):
        notes.append(
            f"{target}: the cost of a broadcast record of {source} is not reported; assuming that it takes "
            "no time. If it does, set the service of this edge in the scenario."
        )
        fitted = replace(fitted, service=((0.0, 0.0),))
    selectivities = flows.selectivities(consumer) if job.outputs(consumer) else None
    if selectivities is not None and len(set(selectivities)) > 1:
        fitted = replace(fitted, selectivity=selectivities[number])
    shares = flows.shares(consumer) if ship.by_key else None
    if shares is not None and max(shares) - min(shares) > ALIKE / len(shares):  # counts are not more exact
        fitted = replace(fitted, shares=tuple(round(share, 4) for share in shares))
    return fitted
