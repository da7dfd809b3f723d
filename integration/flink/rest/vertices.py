"""The vertices of a scenario from those of a job: what sources emit, and what a record costs elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean

from netstack import CheckpointResult, CostModel, GeneratorSpec, NetworkConfig, Vertex

from ...analysis.known_values import highest, known, mean_of_known, middle
from ...errors import FlinkRestError
from .barrier_waits import aligned_start_delays, times_behind_s
from .burning import NOTHING_BURNS, Burning
from .cluster_job import FlinkJob, FlinkVertex
from .flows import JobFlows
from .job_options import Overrides, of_vertex
from .loads import (
    ENOUGH_RECORDS,
    HARDLY_PER_S,
    IDLE,
    LEAST_RECORDS,
    SATURATED,
    Load,
    load_of,
    passed_s,
    record_bytes,
    service_s,
    source_rate,
)
from .sampling import Samples, without_repeats
from .topology import placed

HEADER_BYTES = 4
"""The length before each record, which the bytes of metrics include."""

KEY_BYTES = 8
"""The least that a generated record has."""

_SAME = 0.05
"""Service times of subtasks that differ by less are taken for equal."""

_LEAST_SPREAD = 0.005
"""Costs that are known better are as good as exact."""

_ALIKE_RATES = 0.02
"""Rates of subtasks that differ by less are taken for equal."""

_HARDLY_BUSY = 0.2
"""A vertex whose subtasks work for less of their time holds nothing up, and its costs are not exact."""

_LIMITING = 0.7
"""The busiest consumer of a producer that is held back all the time limits it if it works so much."""

_HARDLY_HELD = 0.05
"""A producer that is back-pressured for less of its time finds room for all that it emits."""


class VertexReader:
    """Reads the vertices of one job; `notes` gets what a scenario cannot say."""

    def __init__(
        self,
        job: FlinkJob,
        names: Mapping[str, str],
        config: NetworkConfig,
        samples: Samples,
        flows: JobFlows,
        given: Overrides,
        notes: list[str],
        checkpoints: Sequence[CheckpointResult] = (),
        burning: Burning = NOTHING_BURNS,
    ) -> None:
        self._job = job
        self._names = names
        self._config = config
        self._samples = samples = without_repeats(samples)
        self._flows = flows
        self._given = given
        self._notes = notes
        self._checkpoints = checkpoints
        self._burning = burning
        self._problems: list[str] = []
        self._bursts_s: dict[str, float] = {}  # Flink lists sources before what reads them
        passed, age_s = passed_s(samples), job.age_s
        self._loads = {
            vertex.id: [load_of(each, _counter(job, vertex), passed, age_s) for each in samples[vertex.id]]
            for vertex in job.vertices
        }

    def vertices(self) -> list[Vertex]:
        """Return all vertices, in the job's order.

        Raises:
            FlinkRestError: some show too little to go by; a line for each thing that has to be given.
        """
        vertices = [self._vertex(vertex) for vertex in self._job.vertices]
        if self._problems:
            raise FlinkRestError(*self._problems)
        return vertices

    def _vertex(self, vertex: FlinkVertex) -> Vertex:
        name = self._names[vertex.id]
        self._note_few(vertex, name)
        place = placed(vertex)
        if not self._job.inputs(vertex):
            source = self._source(vertex, name)
            return Vertex(name=name, parallelism=vertex.parallelism, task_manager=place, source=source)
        cost, skew = self._service(vertex, name)
        firings = self._flows.firings(vertex)
        return Vertex(
            name=name,
            parallelism=vertex.parallelism,
            task_manager=place,
            service=((0.0, cost),) if cost else (),
            service_skew=skew,
            service_spread=self._spread(vertex, name) if cost else 0.0,
            service_mode=self._burning.modes.get(vertex.id, "throttle"),
            selectivity=self._selectivity(vertex, name),
            record_bytes=self._emitted_bytes(vertex, name),
            emit_every_s=None if firings is None else firings.period_s,
            behind_s=self._behind(vertex, name),
        )

    def _source(self, vertex: FlinkVertex, name: str) -> GeneratorSpec:
        size, rates = self._size(vertex, name), self._rates(vertex, name)
        firings = self._flows.firings(vertex)
        if firings is not None and of_vertex(self._given.rate, name) is None:
            unseen = self._flows.fires_unseen(vertex)
            per_s = self._flows.since_per_s(vertex) if unseen else fmean(rates) * vertex.parallelism
            records = firings.records or per_s * firings.period_s
            return self._emitting_at_times(vertex, size, firings.period_s, records)
        if not all(rates):
            cost = self._cost(vertex)
            batch = self._flows.batch(vertex)
            return GeneratorSpec(
                record_bytes=size, rates=rates, batch=batch, cost_s=cost, legacy=self._is_legacy(vertex)
            )
        burst_s = self._flows.burst_s(vertex, fmean(rates))
        self._bursts_s[vertex.id] = burst_s or 0.0
        if burst_s is not None and len(rates) == 1:
            rates = (self._flows.emitted_at_once(vertex) / burst_s,)
        source = GeneratorSpec(
            record_bytes=size, rates=rates, burst_s=burst_s, legacy=self._is_legacy(vertex)
        )
        loses_pace = burst_s is None and self._loses_pace(vertex)
        return replace(source, catch_up_s=0.0) if loses_pace else source

    def _emitting_at_times(
        self, vertex: FlinkVertex, size: int, period_s: float, records: float
    ) -> GeneratorSpec:
        """A source that emits so many records every so often, all of them by one call: a window fires."""
        at_once = max(1, round(records / vertex.parallelism))
        self._bursts_s[vertex.id] = period_s
        return GeneratorSpec(
            record_bytes=size,
            rates=(float(f"{at_once / period_s:.6g}"),),
            burst_s=period_s,
            batch=at_once,
            legacy=self._is_legacy(vertex),
        )

    def _is_legacy(self, vertex: FlinkVertex) -> bool:
        """Whether a source is of the old kind: it alone tells no busy time."""
        told = {
            other.id: load.busy_s is not None
            for other in self._job.vertices
            for load in self._loads[other.id]
            if load is not None
        }
        return told.get(vertex.id) is False and any(told.values())

    def _cost(self, vertex: FlinkVertex) -> float | None:
        """What emitting a record costs a source that is not paced; None where that is not told.

        It is no more than usual: where records are few, a source is busy with other things.
        """
        loads = [load for load in self._loads[vertex.id] if load is not None and load.busy_s is not None]
        busy, records = sum(load.busy_s or 0.0 for load in loads), sum(load.records for load in loads)
        cost = busy / records if busy > 0 and records >= ENOUGH_RECORDS else CostModel().source_record_s
        return _rounded(cost) if cost < CostModel().source_record_s else None

    def _selectivity(self, vertex: FlinkVertex, name: str) -> float:
        """Records that a vertex emits for each that it reads; 1 where its edges say it, or nobody does."""
        if not self._job.outputs(vertex):
            return 1.0
        told = self._flows.selectivities(vertex)
        if told is None:
            self._notes.append(f"{name}: what it emits is not told; here it hands on what it reads")
            return 1.0
        if not any(told):
            self._note_watch_longer(f"{name}: not seen to emit records; assuming none")
        return float(f"{told[0]:.4g}") if len(set(told)) == 1 else 1.0

    def _emitted_bytes(self, vertex: FlinkVertex, name: str) -> int | None:
        """Bytes of a record that a vertex with input emits; None: they are those of what it reads."""
        if not self._job.outputs(vertex):
            return None
        size = record_bytes(self._job, vertex, self._samples, self._config.segment_bytes)
        return None if size is None else max(KEY_BYTES, round(size) - HEADER_BYTES)

    def _size(self, vertex: FlinkVertex, name: str) -> int:
        given = of_vertex(self._given.record_bytes, name)
        if given is not None:
            return given
        size = record_bytes(self._job, vertex, self._samples, self._config.segment_bytes)
        if size is None:
            self._too_little(name, "emitted", "size", f"--record-bytes '{name}:1000'")
            return KEY_BYTES
        whole = round(size) - HEADER_BYTES
        if whole < KEY_BYTES:
            self._notes.append(f"{name}: a record has {whole} bytes; here it has {KEY_BYTES}, the least")
        return max(KEY_BYTES, whole)

    def _rates(self, vertex: FlinkVertex, name: str) -> tuple[float, ...]:
        given = of_vertex(self._given.rate, name)
        if given is not None:
            return (given,)
        loads = self._loads[vertex.id]
        if not any(loads):
            self._too_little(name, "emitted", "rate", f"--rate '{name}:100'")
        limited = self._is_limited(vertex)
        rates = [
            HARDLY_PER_S if load is None else float(f"{source_rate(subtask, load, limited=limited):.4g}")
            for subtask, load in zip(self._samples[vertex.id], loads, strict=True)
        ]
        silent = [str(number) for number, load in enumerate(loads) if load is None]
        if silent:
            self._notes.append(
                f"{name}: next to nothing comes from subtask {', '.join(silent)}; so it is here"
            )
        if min(rates) and max(rates) / min(rates) - 1 <= _ALIKE_RATES:
            return (float(f"{fmean(rates):.4g}"),)
        return (rates[0],) if len(set(rates)) == 1 else tuple(rates)

    def _loses_pace(self, vertex: FlinkVertex) -> bool:
        """Whether a paced source that its job holds back idles at other times: it makes up for nothing."""
        loads = [load for load in self._loads[vertex.id] if load is not None]
        held = mean_of_known(load.held_share for load in loads)
        idle = mean_of_known(load.idle_share for load in loads)
        return bool(held and idle and held >= _HARDLY_HELD and idle >= IDLE) and self._is_limited(vertex)

    def _service(self, vertex: FlinkVertex, name: str) -> tuple[float, tuple[float, ...]]:
        """The service time of a record in seconds, and the factor of each subtask."""
        given = of_vertex(self._given.service_s, name)
        if given is not None:
            return given, (1.0,)
        loads = self._loads[vertex.id]
        costs = [
            None if load is None else service_s(subtask, load, CostModel(), self._config, core_share)
            for subtask, load, core_share in zip(
                self._samples[vertex.id], loads, self._burning.core_shares(vertex), strict=True
            )
        ]
        if not any(loads):
            self._too_little(name, "read", "cost", f"--service '{name}:5 ms'")
        elif all(cost is None for cost in costs):
            self._problems.append(
                f"{name}: its busy time is not told; give what a record costs: --service '{name}:5 ms'"
            )
        self._note_silent(name, loads)
        busiest = self._busiest(vertex)
        if busiest < _HARDLY_BUSY:
            return _rounded(mean_of_known(costs) or 0.0), (1.0,)
        return base_and_skew(self._at_its_limit(vertex, costs, busiest), exact=busiest >= SATURATED)

    def _at_its_limit(
        self, vertex: FlinkVertex, costs: Sequence[float | None], busiest: float
    ) -> Sequence[float | None]:
        """The costs as they are if the vertex holds its job up, though no subtask works all the time.

        Where costs change, now one subtask is the slowest and now another, and all wait for it; what a
        record costs on average would let more through.
        """
        held = {edge.source for edge in self._job.inputs(vertex) if self._held(edge.source) >= SATURATED}
        rivals = {edge.target for edge in self._job.edges if edge.source in held}
        first = max((self._busiest(other) for other in self._job.vertices if other.id in rivals), default=0.0)
        if busiest < max(_LIMITING, first) or not held or self._held(vertex.id) >= _HARDLY_BUSY:
            return costs
        return [None if cost is None else cost / busiest for cost in costs]

    def _spread(self, vertex: FlinkVertex, name: str) -> float:
        """How uncertain the costs are of subtasks that never idle, as a share; 0: too little to tell."""
        if of_vertex(self._given.service_s, name) is not None:
            return 0.0
        errors = [load.error for load in self._loads[vertex.id] if load is not None and load.never_idles]
        spread = round(sqrt(fmean(error**2 for error in errors)), 3) if errors else 0.0
        if spread < _LEAST_SPREAD:
            return 0.0
        self._notes.append(
            f"{name}: what a record costs changes, and is known within {100 * spread:.2g} %, over which "
            "seeds are dealt; give --watch more time"
        )
        return spread

    def _is_limited(self, source: FlinkVertex) -> bool:
        """Whether a subtask works all the time that reads what comes of a source."""
        behind, left = set[str](), [source.id]
        while left:
            reached = left.pop()
            targets = {edge.target for edge in self._job.edges if edge.source == reached} - behind
            behind |= targets
            left += targets
        return any(self._busiest(vertex) >= SATURATED for vertex in self._job.vertices if vertex.id in behind)

    def _busiest(self, vertex: FlinkVertex) -> float:
        """Share of its time in which the subtask works that works most; 0 where none tells."""
        return highest(load.busy_share for load in self._loads[vertex.id] if load is not None) or 0.0

    def _held(self, vertex_id: str) -> float:
        """Share of its time in which the subtask waits for buffers that waits most; 0 where none tells."""
        return highest(load.held_share for load in self._loads[vertex_id] if load is not None) or 0.0

    def _behind(self, vertex: FlinkVertex, name: str) -> tuple[float, ...]:
        """How far behind the subtasks are of a vertex that works all the time, which only its past tells.

        If nothing waits for it, it can just keep up, so what waits before it is as much as it happens to be.
        Barriers wait as long, and for half of what a source emits at once.
        """
        producers = [edge.source for edge in self._job.inputs(vertex)]
        if self._busiest(vertex) < SATURATED:
            return (0.0,)
        if max(map(self._held, producers)) >= _HARDLY_HELD:
            return self._behind_each_other(vertex, name)
        burst_s = max(self._bursts_s.get(producer, 0.0) for producer in producers)
        delays = [waits for _, waits in aligned_start_delays(self._checkpoints, name, vertex.parallelism)]
        waits = [(middle(of_subtask) or 0.0) / 1e3 for of_subtask in zip(*delays, strict=True)]
        return tuple(round(max(0.0, wait_s - burst_s / 2), 3) for wait_s in waits) or (0.0,)

    def _behind_each_other(self, vertex: FlinkVertex, name: str) -> tuple[float, ...]:
        """How far subtasks are behind each other that get records in turns, and all work all the time."""
        in_turns = all(edge.strategy == "REBALANCE" for edge in self._job.inputs(vertex))
        loads = self._loads[vertex.id]
        if not in_turns or not all(load and (load.busy_share or 0.0) >= SATURATED for load in loads):
            return (0.0,)
        behind = times_behind_s(self._checkpoints, name, vertex.parallelism)
        return tuple(round(seconds, 3) for seconds in behind) if any(behind) else (0.0,)

    def _note_few(self, vertex: FlinkVertex, name: str) -> None:
        """Say where few records passed while the job was watched, or none, and what is assumed then."""
        watched = [
            (str(number), load)
            for number, load in enumerate(self._loads[vertex.id])
            if load is not None and len(self._samples[vertex.id][number].samples) > 1
        ]
        few = [number for number, load in watched if 0 < load.records < ENOUGH_RECORDS]
        reads = bool(self._job.inputs(vertex))
        none = [number for number, load in watched if not load.records]
        if few:
            seen = f"{name}: fewer than {ENOUGH_RECORDS} records seen at subtask {', '.join(few)}"
            self._note_watch_longer(f"{seen}, so rates and costs are uncertain")
        if self._flows.fires_unseen(vertex):
            self._note_watch_longer(f"{name}: its windows hardly fired; assuming their mean since the start")
        elif none and (reads or self._held(vertex.id) < SATURATED):
            assumed = "the cost of those since the start" if reads else f"{HARDLY_PER_S:g} records/s"
            self._note_watch_longer(
                f"{name}: no records seen at subtask {', '.join(none)}; assuming {assumed}"
            )

    def _note_watch_longer(self, text: str) -> None:
        self._notes.append(f"{text}; give --watch more time")

    def _note_silent(self, name: str, loads: Sequence[Load | None]) -> None:
        silent = [str(number) for number, load in enumerate(loads) if load is None]
        if silent and any(loads):
            self._notes.append(
                f"{name}: subtask {', '.join(silent)} has read next to nothing; it costs the mean"
            )

    def _too_little(self, name: str, done: str, what: str, option: str) -> None:
        self._problems.append(
            f"{name}: too little to go by: a subtask has to have {done} {LEAST_RECORDS} records; "
            f"wait, or give their {what}: {option}"
        )


def _counter(job: FlinkJob, vertex: FlinkVertex) -> str:
    return "records_in" if job.inputs(vertex) else "records_out"


def base_and_skew(costs: Iterable[float | None], *, exact: bool = False) -> tuple[float, tuple[float, ...]]:
    """Return the service time of most subtasks, to four digits, and the factors of all.

    Subtasks of unknown cost have the factor 1; so have all where none differs from the median by 5 %, unless
    they are known to be `exact`.
    """
    listed = list(costs)
    told = known(listed)
    base = middle(told) or max(told, default=0.0)
    if not base:
        return 0.0, (1.0,)
    factors = [1.0 if cost is None else cost / base for cost in listed]
    if not exact and all(abs(factor - 1) < _SAME for factor in factors):
        return _rounded(fmean(told)), (1.0,)
    return _rounded(base), tuple(round(factor, 4 if exact else 2) for factor in factors)


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")
