"""The vertices of a scenario from those of a job: what sources emit, and what a record costs elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from netstack import CostModel, Edge, GeneratorSpec, NetworkConfig, Vertex

from ...analysis.known_values import known, middle
from .client import FlinkRestError
from .cluster_job import FlinkJob, FlinkVertex
from .job_options import Overrides, of_vertex
from .loads import (
    ALIKE,
    LEAST_RECORDS,
    Load,
    is_of_the_past,
    load_of,
    record_bytes,
    service_s,
    shares,
    source_rate,
)
from .sampling import Samples

HEADER_BYTES = 4
"""The length before each record, which the bytes of metrics include."""

KEY_BYTES = 8
"""The least that a generated record has."""

_SAME = 0.05
"""Service times of subtasks that differ by less are taken for equal."""

_HARDLY = 0.05
"""Records per second of a source's subtask that has emitted too few to say how many."""


class VertexReader:
    """Reads the vertices of one job; `notes` gets what a scenario cannot say."""

    def __init__(
        self,
        job: FlinkJob,
        names: Mapping[str, str],
        edges: Sequence[Edge],
        config: NetworkConfig,
        samples: Samples,
        given: Overrides,
        notes: list[str],
    ) -> None:
        self._job = job
        self._names = names
        self._config = config
        self._samples = samples
        self._given = given
        self._notes = notes
        self._problems: list[str] = []
        self._loads = {
            vertex.id: [load_of(subtask, _counter(job, vertex)) for subtask in samples[vertex.id]]
            for vertex in job.vertices
        }
        rates = {
            vertex: [None if load is None else load.per_s for load in loads]
            for vertex, loads in self._loads.items()
        }
        self._shares = shares(job, edges, names, rates)

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
        self._note_past(vertex, name)
        if not self._job.inputs(vertex):
            source = GeneratorSpec(record_bytes=self._size(vertex, name), rates=self._rates(vertex, name))
            return Vertex(name=name, parallelism=vertex.parallelism, source=source)
        cost, skew = self._service(vertex, name)
        service = ((0.0, cost),) if cost else ()
        return Vertex(name=name, parallelism=vertex.parallelism, service=service, service_skew=skew)

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
        rates = [
            _HARDLY if load is None else float(f"{source_rate(subtask, load):.4g}")
            for subtask, load in zip(self._samples[vertex.id], loads, strict=True)
        ]
        silent = [str(number) for number, load in enumerate(loads) if load is None]
        if silent:
            self._notes.append(
                f"{name}: next to nothing comes from subtask {', '.join(silent)}; so it is here"
            )
        return (rates[0],) if len(set(rates)) == 1 else tuple(rates)

    def _service(self, vertex: FlinkVertex, name: str) -> tuple[float, tuple[float, ...]]:
        """The service time of a record in seconds, and the factor of each subtask."""
        given = of_vertex(self._given.service_s, name)
        if given is not None:
            return given, (1.0,)
        loads = self._loads[vertex.id]
        costs = [
            None if load is None else service_s(subtask, load, CostModel(), self._config)
            for subtask, load in zip(self._samples[vertex.id], loads, strict=True)
        ]
        if not any(loads):
            self._too_little(name, "read", "cost", f"--service '{name}:5 ms'")
        elif all(cost is None for cost in costs):
            self._problems.append(
                f"{name}: its busy time is not told; give what a record costs: --service '{name}:5 ms'"
            )
        for_each = self._shares[vertex.id]
        self._note_shares(name, for_each)
        self._note_silent(name, loads)
        scaled = [
            None if cost is None else cost * (share or 1.0)
            for cost, share in zip(costs, for_each, strict=True)
        ]
        return base_and_skew(scaled)

    def _note_past(self, vertex: FlinkVertex, name: str) -> None:
        counter, subtasks = _counter(self._job, vertex), enumerate(self._samples[vertex.id])
        past = [str(number) for number, subtask in subtasks if is_of_the_past(subtask, counter)]
        if past:
            self._notes.append(
                f"{name}: few records pass through subtask {', '.join(past)} now, so all that it has counted "
                "since it started stands in"
            )

    def _note_shares(self, name: str, for_each: Sequence[float | None]) -> None:
        told = known(for_each)
        if all(share == 1 for share in told):
            return
        mean = fmean(told)
        if abs(mean - 1) > ALIKE:
            self._notes.append(
                f"{name} reads {mean:.2g} records of the job for each that reaches it here, where every "
                "vertex hands on what it reads; its service time makes up for it, its bytes in flight do not"
            )
        if max(told) - min(told) > ALIKE * mean:
            shown = ", ".join(f"{share / mean:.2g}" for share in told)
            self._notes.append(
                f"{name}: its subtasks read unevenly, {shown} of the mean, as with frequent keys; here "
                "they read evenly, and service_skew makes up for it; delays at the busiest come out too long"
            )

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


def base_and_skew(costs: Iterable[float | None]) -> tuple[float, tuple[float, ...]]:
    """Return the service time of most subtasks, to three digits, and the factors of all.

    Subtasks of unknown cost have the factor 1; so have all where none differs from the median by 5 %.
    """
    listed = list(costs)
    told = known(listed)
    base = middle(told) or max(told, default=0.0)
    if not base:
        return 0.0, (1.0,)
    factors = [1.0 if cost is None else cost / base for cost in listed]
    if all(abs(factor - 1) < _SAME for factor in factors):
        return _rounded(fmean(told)), (1.0,)
    return _rounded(base), tuple(round(factor, 2) for factor in factors)


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.3g}")
