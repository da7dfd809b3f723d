"""The case of a storm: a small job, its settings and its faults, as values, and the scenario they make.

A case holds no records and no functions, only what they follow from, so it can be printed, sent to another
process and changed a little at a time. `work` has the records and what is done with them. How long the job
may take follows from its case, too: roughly, and rather too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum

from flowcontrol import SavepointFormat
from netstack import (
    CheckpointMode,
    CostModel,
    Fault,
    LinkConditions,
    NetworkConfig,
    RestartStrategy,
    format_duration,
)

_HOP_S = 0.0005
"""Time from a full buffer to the credit for the next, loopback and wake-ups included."""

_COMMIT_S = 0.1
"""Time for what follows the last record: events, snapshots, acknowledgements."""


class Work(StrEnum):
    """What a vertex of a storm does with a record."""

    SOURCE = "source"
    PASS = "pass on"
    MARK = "mark"
    COPY = "copy"
    FILTER = "filter"
    SUM = "sum by key"
    GATHER = "gather by key"
    SINK = "sink"


KEYED = frozenset({Work.SUM, Work.GATHER})
"""What keeps keyed state, and emits it when the input has ended."""


class Guarantee(StrEnum):
    """What is promised of the output of a job that ends."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"
    NOTHING_INVENTED = "nothing invented"


@dataclass(frozen=True, slots=True, kw_only=True)
class StormVertex:
    """A vertex; what concerns sources only, or operators only, is ignored in the others."""

    name: str
    work: Work
    parallelism: int
    task_manager: str
    records: tuple[int, ...] = (0,)
    """Number of records of each subtask of a source, cyclic."""
    rates: tuple[float, ...] = (0.0,)
    """Records a second of each subtask of a source, cyclic; 0: as fast as possible."""
    record_bytes: tuple[int, int] = (8, 8)
    """Least and greatest size of a record of a source."""
    keys: int = 1
    """Different keys of a source's records."""
    hot_share: float = 0.0
    """Share of a source's records that have one and the same key."""
    copies: int = 1
    """Copies of each record."""
    service_s: float = 0.0
    """Cost of a record."""
    service_skew: tuple[float, ...] = (1.0,)
    service_mode: str = "throttle"

    def record_count(self, subtask: int) -> int:
        """How many records a subtask of a source emits."""
        return self.records[subtask % len(self.records)]

    @property
    def all_records(self) -> int:
        """How many records a source emits."""
        return sum(map(self.record_count, range(self.parallelism)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GoingOn:
    """That a job is stopped, and another run goes on from its last checkpoint at another parallelism.

    `parallelism` is that of each vertex, in their order. With a `savepoint`, in that format, it is a user who
    stops the job, and the other run goes on from that.
    """

    stopped_at_s: float
    parallelism: tuple[int, ...]
    savepoint: SavepointFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StormCase:
    """One case; the seed names it, and is that of the emulation too.

    `patient` says that checkpoints have time enough: one that expires has a fault behind it.
    """

    seed: int
    vertices: tuple[StormVertex, ...]
    edges: tuple[tuple[str, str, str], ...]
    """Producer, consumer and how records are dealt out."""
    config: NetworkConfig
    duration_s: float
    costs: CostModel = field(default_factory=CostModel)
    link: LinkConditions = field(default_factory=LinkConditions)
    faults: tuple[Fault, ...] = ()
    manual_checkpoints_s: tuple[float, ...] = ()
    patient: bool = True
    transactional: bool = True
    """Whether sinks commit with checkpoints; else at once."""
    going_on: GoingOn | None = None
    """What the run is followed by; None: it is the only one."""

    def vertex(self, name: str) -> StormVertex:
        """Return the vertex of that name."""
        return next(vertex for vertex in self.vertices if vertex.name == name)

    def inputs(self, vertex: StormVertex) -> list[tuple[StormVertex, str]]:
        """The producers that a vertex reads from, and how their records are dealt out."""
        return [(self.vertex(source), ship) for source, target, ship in self.edges if target == vertex.name]

    @property
    def takes_checkpoints(self) -> bool:
        """Whether there is a checkpoint at all, by the interval or by a user."""
        return self.config.checkpoint_interval_s is not None or bool(self.manual_checkpoints_s)

    @property
    def restart_strategy(self) -> RestartStrategy:
        """What follows a failure of the job."""
        return self.config.restart_strategy_for(takes_checkpoints=self.takes_checkpoints)

    def gives_up(self, failures: Sequence[float]) -> bool:
        """Whether the job fails for good with the last of these failures; their times are in seconds."""
        config = self.config
        match self.restart_strategy:
            case RestartStrategy.NONE:
                return len(failures) > 0
            case RestartStrategy.FIXED_DELAY:
                return len(failures) > config.restart_attempts
            case RestartStrategy.FAILURE_RATE:
                last = failures[-1 - config.restart_max_failures_per_interval :]
                full = len(last) > config.restart_max_failures_per_interval
                return full and last[-1] - last[0] <= config.restart_failure_rate_interval_s
            case _:
                return False

    def guarantee(self, restarts: int) -> Guarantee:
        """What is promised of the output after that many restarts.

        Without regular checkpoints, output is committed when the input ends, and a restart may come between
        the ends of two sinks.
        """
        if not restarts:
            return Guarantee.EXACTLY_ONCE
        if self.config.checkpoint_interval_s is None:
            return Guarantee.NOTHING_INVENTED
        if self.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
            return Guarantee.AT_LEAST_ONCE
        return Guarantee.EXACTLY_ONCE

    @property
    def commits_all(self) -> bool:
        """Whether a job that ends has committed all it has put out.

        If tasks do not wait for a last checkpoint, what they put out after the one before stays pending.
        """
        return self.config.checkpoints_after_tasks_finish or self.config.checkpoint_interval_s is None

    def lines(self) -> Iterator[str]:
        """The case as text."""
        yield f"seed {self.seed}, at most {format_duration(self.duration_s)}"
        for vertex in self.vertices:
            yield f"  {vertex.name}: {', '.join(_details(vertex))}"
        for source, target, ship in self.edges:
            yield f"  {source} -> {target}: {ship}"
        yield f"  settings: {', '.join(_changes(self.config, NetworkConfig()))}"
        yield f"  costs: {', '.join(_changes(self.costs, CostModel())) or 'as always'}"
        yield f"  link: {', '.join(_changes(self.link, LinkConditions())) or 'as always'}"
        for at in self.manual_checkpoints_s:
            yield f"  a user asks for a checkpoint at {at:.4f} s"
        for fault in self.faults:
            yield f"  fault: {fault!r}"
        if self.going_on is not None:
            numbers = ", ".join(map(str, self.going_on.parallelism))
            layout = self.going_on.savepoint
            way = "stopped" if layout is None else f"stopped with a {layout.name.lower()} savepoint"
            yield f"  {way} at {self.going_on.stopped_at_s:.4f} s, and gone on at parallelism {numbers}"


def _details(vertex: StormVertex) -> Iterator[str]:
    yield f"{vertex.work} x{vertex.parallelism} in {vertex.task_manager}"
    yield from _changes(
        vertex, StormVertex(name=vertex.name, work=vertex.work, parallelism=0, task_manager="")
    )


def _changes(ours: object, usual: object) -> Iterator[str]:
    """Each field that is not as usual; the first ones of a vertex have been told already."""
    for each in fields(ours):  # type: ignore[arg-type]
        value = getattr(ours, each.name)
        if value != getattr(usual, each.name) and each.name not in ("parallelism", "task_manager", "given"):
            yield f"{each.name}={value:.6g}" if isinstance(value, float) else f"{each.name}={value}"


def estimate_s(case: StormCase) -> float:
    """Seconds until the last record has been processed, if nothing goes wrong, as if nothing overlapped."""
    emitted: dict[str, tuple[float, float]] = {}
    total = _COMMIT_S
    for vertex in case.vertices:
        if vertex.work is Work.SOURCE:
            rate = min(vertex.rates)
            total += max(vertex.records) / rate if rate else 0.0
            emitted[vertex.name] = vertex.all_records, vertex.record_bytes[1] / 3 + 24
            continue
        records, most, size = 0.0, 0.0, 0.0
        for producer, ship in case.inputs(vertex):
            number, record_size = emitted[producer.name]
            share = _greatest_share(producer, vertex, ship)
            size = max(size, record_size)
            copies = vertex.parallelism if ship == "broadcast" else 1
            records += number * copies
            most += number * share
            if producer.task_manager != vertex.task_manager:
                total += _round_trips_s(case, number * share, record_size)
                total += number * copies * (record_size + 20) / (case.link.bandwidth_bytes_per_s or 2e9)
        total += most * (vertex.service_s * max(vertex.service_skew) + 1e-5)
        emitted[vertex.name] = records * (vertex.copies if vertex.work is Work.COPY else 1), size
    return total


def _greatest_share(producer: StormVertex, consumer: StormVertex, ship: str) -> float:
    """The share of a producer's records that one subtask of the consumer may have to process."""
    if ship in ("hash", "broadcast"):
        return 1.0
    if ship == "rebalance":
        return 1.0 / consumer.parallelism
    return 1.0 / min(producer.parallelism, consumer.parallelism)


def _round_trips_s(case: StormCase, records: float, size: float) -> float:
    """Seconds that records need on one channel for want of credit."""
    config = case.config
    capacity = config.min_segment_bytes if config.debloat_enabled else config.segment_bytes
    flushed_each = config.buffer_timeout_s == 0
    buffers = records * (max(1.0, size / capacity) if flushed_each else size / capacity) + 1
    credits = max(1, config.exclusive_buffers_per_channel)
    return buffers * (2 * case.link.latency_s + _HOP_S) / credits


def idle_checkpoint_s(case: StormCase) -> float:
    """Seconds that a checkpoint takes at most while no records are in its way."""
    sources = sum(vertex.parallelism for vertex in case.vertices if vertex.work is Work.SOURCE)
    costs = case.costs
    hops = len(case.vertices)
    triggers = costs.trigger_s[1] + costs.trigger_per_source_s * sources
    passing = hops * (costs.sync_s[1] * 2 + case.link.latency_s + 0.005)
    return triggers + passing + costs.ack_unaligned_s[1] + costs.ack_s[1] + 0.02
