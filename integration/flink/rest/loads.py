"""What passes through each subtask: how many records, how large, how much work; from what tasks have counted.

A task adds up the time in which it was busy, so busy time over records is what a record costs, back-pressured
or not. Counts of the time watched are the load of now; where they are too few, those since the task started
stand in. Bytes are counted by buffers, so a few buffers more or less make a count of few bytes wrong; over
one exchange the producer's count errs one way and the consumer's the other.

In a scenario every vertex hands on what it reads, and keys are spread evenly. A vertex of a real job may emit
one record for ten, and one key may be had by half the records. The share (`shares`) says how many records of
the job one record here stands for; service times are multiplied by it, so that each subtask is as busy as it
is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netstack import CostModel, Edge, NetworkConfig

from ...analysis.known_values import complete, known, mean_of_known
from .cluster_job import FlinkJob, FlinkVertex
from .sampling import Samples, SubtaskSamples

ENOUGH_RECORDS = 200
"""From so many on, the records of the time watched say what one costs."""

LEAST_RECORDS = 50
"""Fewer than so many since the start say nothing."""

ENOUGH_BUFFERS = 400
"""From so many on, the bytes of the time watched say how large a record is, within half a percent."""

SATURATED = 0.9
"""Share of its time in which a source is back-pressured and nothing tells how fast it would be."""

IDLE = 0.05
"""A source that has nothing to do for such a share of its time emits what there is."""

_LEAST_SERVICE_S = 1e-6
_SLEEP_S = 1e-3

ALIKE = 0.2
"""A share this close to 1 is taken for 1: counts of a few seconds are not more exact."""

Rates = Mapping[str, Sequence[float | None]]
"""Records per second by the vertex's id, of each subtask; None: it is not told."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one subtask counted; None: it does not say."""

    records: float
    busy_s: float | None
    seconds: float | None
    """How long it took."""

    @property
    def per_s(self) -> float | None:
        """Records per second."""
        return self.records / self.seconds if self.seconds else None


def load_of(subtask: SubtaskSamples, field: str) -> Load | None:
    """Return a subtask's load by its counter of records ("records_in", "records_out"); None: too few."""
    watched = subtask.increase(field)
    if watched is not None and watched >= ENOUGH_RECORDS:
        return Load(watched, _seconds(subtask.increase("busy_ms")), subtask.seconds)
    total = subtask.total(field)
    if total is None or total < LEAST_RECORDS:
        return None
    parts = [subtask.total(part) for part in ("busy_ms", "idle_ms", "backpressured_ms")]
    told = complete(parts)
    return Load(total, _seconds(parts[0]), None if told is None else _seconds(sum(told)))


def is_of_the_past(subtask: SubtaskSamples, field: str) -> bool:
    """Return whether `load_of` takes what was counted since the start, since too little passes now."""
    watched = subtask.increase(field)
    few = watched is not None and subtask.seconds is not None and watched < ENOUGH_RECORDS
    return few and (subtask.total(field) or 0.0) >= LEAST_RECORDS


def overhead_s(subtask: SubtaskSamples, service_s: float, costs: CostModel, config: NetworkConfig) -> float:
    """Return the seconds a record that the emulated task spends besides its service time."""
    buffers = sum(subtask.total(field) or 0.0 for field in ("buffers_in_remote", "buffers_in_local"))
    records, size = subtask.total("records_in") or 0.0, subtask.total("bytes_in") or 0.0
    buffers = buffers or size / config.segment_bytes
    a_record = buffers / records if records else 0.0
    sleeps = min(1.0, service_s / _SLEEP_S)
    return costs.consumer_record_s + costs.consumer_buffer_s * a_record + costs.after_sleep_s * sleeps


def service_s(subtask: SubtaskSamples, load: Load, costs: CostModel, config: NetworkConfig) -> float | None:
    """Return the service time of a subtask's records in seconds; None where its busy time is not told."""
    if load.busy_s is None:
        return None
    a_record = load.busy_s / load.records
    left = a_record - overhead_s(subtask, a_record, costs, config)
    return left if left >= _LEAST_SERVICE_S else 0.0


def source_rate(subtask: SubtaskSamples, load: Load) -> float:
    """Return the records per second that a source's subtask would emit unhindered; 0: as fast as possible.

    One that idles emits all there is. One that never idles is slowed by back-pressure only: without it, it
    would emit in all its time what it emits in the rest.
    """
    rate, (busy, idle, held) = load.per_s, _times(subtask)
    if rate is None or busy is None or idle is None or held is None or busy + idle + held <= 0:
        return rate or 0.0
    share = held / (busy + idle + held)
    if share >= SATURATED:
        return 0.0
    return rate if idle / (busy + idle + held) >= IDLE else rate / (1 - share)


def _times(subtask: SubtaskSamples) -> list[float | None]:
    """Busy, idle and back-pressured time: while watched, or since the start where that tells nothing."""
    count = SubtaskSamples.total if subtask.seconds is None else SubtaskSamples.increase
    return [count(subtask, part) for part in ("busy_ms", "idle_ms", "backpressured_ms")]


def record_bytes(job: FlinkJob, vertex: FlinkVertex, samples: Samples, segment_bytes: int) -> float | None:
    """Return the bytes of a record that a vertex emits, its 4-byte length included; None: it cannot be told.

    Where all goes to one vertex that reads nothing else, both ends count the same records.
    """
    sizes = [_size(samples[vertex.id], "out", segment_bytes)]
    outputs = job.outputs(vertex)
    if len(outputs) > 1:
        sizes = []  # Flink counts bytes for each edge, and in some versions records once
    consumers = [other for other in job.vertices if any(edge.target == other.id for edge in outputs)]
    sizes += [
        _size(samples[other.id], "in", segment_bytes)
        for other in consumers
        if all(edge.source == vertex.id for edge in job.inputs(other))
    ]
    return mean_of_known(sizes)


def _size(subtasks: Sequence[SubtaskSamples], direction: str, segment_bytes: int) -> float | None:
    """Bytes by records: of the time watched if that is enough, else since the start."""
    for count, enough in (
        (SubtaskSamples.increase, ENOUGH_BUFFERS * segment_bytes),
        (SubtaskSamples.total, 0),
    ):
        size = sum(count(subtask, f"bytes_{direction}") or 0.0 for subtask in subtasks)
        records = sum(count(subtask, f"records_{direction}") or 0.0 for subtask in subtasks)
        if records >= LEAST_RECORDS and size >= max(enough, 1):
            return size / records
    return None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


def shares(job: FlinkJob, edges: Sequence[Edge], names: Mapping[str, str], rates: Rates) -> Rates:
    """Return for each vertex with input, by its id, the records of the job for each record here, by subtask.

    `rates` are what the job's sources emit and its other vertices read. None where that is not known.
    """
    by_ends = {(edge.source, edge.target): edge.ship for edge in edges}
    emitted: dict[str, list[float] | None] = {}
    by_vertex: dict[str, list[float | None]] = {}
    for vertex in job.vertices:
        inputs = job.inputs(vertex)
        if not inputs:
            emitted[vertex.id] = _emitted(job, vertex, rates)
            continue
        arriving: list[float] | None = [0.0] * vertex.parallelism
        for edge in inputs:
            ship = by_ends[names[edge.source], names[edge.target]]
            arriving = _add(arriving, emitted[edge.source], ship)
        emitted[vertex.id] = arriving
        by_vertex[vertex.id] = _shares(rates[vertex.id], arriving)
    return by_vertex


def _emitted(job: FlinkJob, source: FlinkVertex, rates: Rates) -> list[float] | None:
    """What the subtasks of a source emit into each edge.

    One that several vertices read may count a record for each of them, so one of these tells how many.
    """
    emitted = known(rates[source.id])
    total = sum(emitted)
    if len(emitted) < source.parallelism or not total:
        return None
    outputs = job.outputs(source)
    for edge in outputs if len(outputs) > 1 else ():
        reader = next(vertex for vertex in job.vertices if vertex.id == edge.target)
        read = known(rates[reader.id])
        if len(job.inputs(reader)) == 1 and edge.strategy != "BROADCAST" and len(read) == reader.parallelism:
            return [rate * sum(read) / total for rate in emitted]
    return emitted


def _add(arriving: list[float] | None, emitted: list[float] | None, ship: str) -> list[float] | None:
    if arriving is None or emitted is None:
        return None
    consumers = len(arriving)
    if ship == "forward":
        return [mine + theirs for mine, theirs in zip(arriving, emitted, strict=True)]
    each = sum(emitted) if ship == "broadcast" else sum(emitted) / consumers
    return [mine + each for mine in arriving]


def _shares(read: Sequence[float | None], arriving: list[float] | None) -> list[float | None]:
    if arriving is None:
        return [None] * len(read)
    return [
        None if rate is None or not here else _rounded(rate / here)
        for rate, here in zip(read, arriving, strict=True)
    ]


def _rounded(share: float) -> float:
    return 1.0 if abs(share - 1) <= ALIKE else share
