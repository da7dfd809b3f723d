"""The case of a storm: a small job, its settings and its faults, as values.

A case holds no records and no functions, only what they follow from, so it can be printed, sent to another
process and changed a little at a time. `storm_records` and `storm_operators` have the records and what is
done with them, `storm_scenarios` what is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fractions import Fraction
from math import ceil

from flowcontrol import SavepointFormat
from netstack import (
    DEFAULT_PRESET,
    CheckpointMode,
    CostModel,
    Edge,
    Fault,
    LinkConditions,
    NetworkConfig,
    RestartStrategy,
    format_duration,
    standstills,
)


class Work(StrEnum):
    """What a vertex of a storm does with a record."""

    SOURCE = "source"
    PASS = "pass on"
    MARK = "mark"
    COPY = "copy"
    EMIT = "emit as the scenario says"
    FILTER = "filter"
    SUM = "sum by key"
    SUM_IN_VALUE = "sum by key in a value"
    SUM_IN_AGGREGATE = "sum by key in an accumulator"
    GATHER = "gather by key"
    GATHER_IN_MAP = "gather by key in a map"
    REMEMBER = "remember for a while and pass on"
    COUNT = "count in operator state and pass on"
    SINK = "sink"


SUMS = frozenset({Work.SUM, Work.SUM_IN_VALUE, Work.SUM_IN_AGGREGATE})
"""What keeps a number for each key, and emits it when the input has ended."""

GATHERS = frozenset({Work.GATHER, Work.GATHER_IN_MAP})
"""What keeps all records by their keys, and emits them when the input has ended."""

ONE_FOR_ONE = GATHERS | {Work.PASS, Work.MARK, Work.REMEMBER, Work.COUNT}
"""What emits a record for each that it reads, sooner or later."""

KEYED = SUMS | GATHERS | {Work.REMEMBER}
"""What keeps keyed state."""


class Reading(StrEnum):
    """How a source of a storm comes by its records."""

    MEMORY = "memory"
    COMPUTED = "computed"
    FILE = "file"
    FORWARD_ONLY = "file, forward only"


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
    task_manager: str | tuple[str, ...]
    """Where it runs, or where its subtasks do, cyclic."""
    reading: Reading = Reading.MEMORY
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
    selectivity: Fraction = Fraction(1)
    """How many records it emits for one, as the scenario says; if it is `apart`, each edge says so."""
    at_random: bool = False
    """Whether what that has behind the point goes by chance, and not in turns."""
    emit_every_s: float = 0.0
    """How long what the scenario lets it emit is held back; 0: it is not."""
    by_event_time: bool = False
    """Whether that goes by windows of event time."""
    out_of_orderness_s: float | None = None
    """How far the watermarks of a source are behind its records; None: it sends none."""
    service_s: float = 0.0
    """Cost of a record."""
    service_skew: tuple[float, ...] = (1.0,)
    service_mode: str = "throttle"
    service_steps: tuple[tuple[float, float], ...] = ()
    """From when on, in seconds, a record costs how many times as much."""
    apart: bool = False
    """Whether the edges into it are inputs of their own, read in turns, each with a cost of its own."""
    ttl_s: float = 0.0
    """How long what it remembers lives."""

    @property
    def managers(self) -> tuple[str, ...]:
        """The task managers of its subtasks, each once, in their order."""
        return tuple(dict.fromkeys(map(self.manager_of, range(self.parallelism))))

    def manager_of(self, subtask: int) -> str:
        """The task manager of a subtask."""
        placed = self.task_manager
        return placed if isinstance(placed, str) else placed[subtask % len(placed)]

    @property
    def most_for_one(self) -> int | Fraction:
        """How many records its selectivity lets it emit for one, at most, if many are read."""
        return ceil(self.selectivity) if self.at_random else self.selectivity

    def record_count(self, subtask: int) -> int:
        """How many records a subtask of a source emits."""
        return self.records[subtask % len(self.records)]

    @property
    def all_records(self) -> int:
        """How many records a source emits."""
        return sum(map(self.record_count, range(self.parallelism)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """That a job is stopped, and another run goes on from its last checkpoint at another parallelism.

    `parallelism` is that of each vertex, in their order. With a `savepoint`, in that format, it is a user who
    stops the job, and the other run goes on from that. `killed`: nothing was cleaned up at the end, and the
    other run goes on from the checkpoint that is so many places `back` among those that are retained.
    """

    stopped_at_s: float
    parallelism: tuple[int, ...]
    savepoint: SavepointFormat | None = None
    killed: bool = False
    back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A pool of another job in the same task manager: it is there from a time on, for a while, in seconds."""

    task_manager: str
    comes_at_s: float
    stays_s: float
    segments: int
    """What it is guaranteed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTrouble:
    """That a file of a checkpoint cannot be read: the `number`-th time that one is, over the whole run.

    If it is `damaged`, it stays so, else it can be read the next time.
    """

    number: int
    damaged: bool


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
    fractions: tuple[tuple[str, str, Fraction], ...] = ()
    """Edges that take a share of the records only, by producer and consumer."""
    costs: CostModel = field(default_factory=CostModel)
    link: LinkConditions = field(default_factory=LinkConditions)
    faults: tuple[Fault, ...] = ()
    manual_checkpoints_s: tuple[float, ...] = ()
    patient: bool = True
    transactional: bool = True
    """Whether sinks commit with checkpoints; else at once."""
    preset: str = DEFAULT_PRESET
    """Which version of Flink it is; before 2, no buffer grows beyond what was announced for it."""
    on_disk: bool = False
    """Whether checkpoints are files of a directory."""
    trouble: tuple[ReadTrouble, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    continuation: Continuation | None = None
    """What the run is followed by; None: it is the only one."""

    def vertex(self, name: str) -> StormVertex:
        """Return the vertex of that name."""
        return next(vertex for vertex in self.vertices if vertex.name == name)

    def inputs(self, vertex: StormVertex) -> list[tuple[StormVertex, str]]:
        """The producers that a vertex reads from, and how their records are dealt out."""
        return [(self.vertex(source), ship) for source, target, ship in self.edges if target == vertex.name]

    def fraction(self, source: str, target: str) -> Fraction:
        """The share of a producer's records that goes to a consumer; 1 where nothing else reads from it."""
        ways = sum(origin == source for origin, _, _ in self.edges)
        shares = {edge[:2]: edge[2] for edge in self.fractions} if ways > 1 else {}
        return shares.get((source, target), Fraction(1))

    def may_stand_still(self, parallelism: Mapping[str, int]) -> bool:
        """Whether unaligned checkpoints can bring the job to a stand, as they do in Flink (`standstills`)."""
        if not self.config.takes_unaligned_checkpoints:
            return False
        edges = [Edge(source=source, target=target, ship=ship) for source, target, ship in self.edges]
        after_a_timeout = self.config.aligned_checkpoint_timeout_s > 0
        ways = standstills(edges, parallelism, self.write_much)
        return any(each.at_once or after_a_timeout for each in ways)

    @property
    def write_much(self) -> set[str]:
        """The vertices that may write more for one record than a buffer and the overdraft buffers hold."""
        room = self.config.min_segment_bytes * (1 + self.config.max_overdraft_buffers_per_gate)
        sizes: dict[str, float] = {}
        much = set()
        for vertex in self.vertices:
            read = max((sizes[producer.name] for producer, _ in self.inputs(vertex)), default=0)
            sizes[vertex.name] = size = vertex.record_bytes[1] if vertex.work is Work.SOURCE else read
            at_end = vertex.work in SUMS | GATHERS or vertex.emit_every_s > 0
            if at_end or size * vertex.copies * vertex.most_for_one > room:
                much.add(vertex.name)
        return much

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
            case RestartStrategy.EXPONENTIAL_DELAY:
                limit = config.restart_attempts_before_reset
                return limit is not None and len(failures) > limit
            case _:
                return False

    def guarantee(self, restarts: int, *, went_back: bool = False) -> Guarantee:
        """What is promised of the output after that many restarts.

        A run that `went_back` to a checkpoint before the last has committed more than that knows of. Without
        regular checkpoints, output is committed when the input ends, and a restart may come between
        the ends of two sinks.
        """
        if not restarts:
            return Guarantee.EXACTLY_ONCE
        if self.config.checkpoint_interval_s is None:
            return Guarantee.NOTHING_INVENTED
        if went_back or self.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
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
            share = self.fraction(source, target)
            yield f"  {source} -> {target}: {ship}{f', {share} of the records' if share < 1 else ''}"
        yield f"  settings: {', '.join(_changes(self.config, NetworkConfig()))}"
        yield f"  costs: {', '.join(_changes(self.costs, CostModel())) or 'as always'}"
        yield f"  link: {', '.join(_changes(self.link, LinkConditions())) or 'as always'}"
        for at in self.manual_checkpoints_s:
            yield f"  a user asks for a checkpoint at {at:.4f} s"
        for fault in self.faults:
            yield f"  fault: {fault!r}"
        if self.preset != DEFAULT_PRESET:
            yield f"  {self.preset}"
        if self.on_disk:
            yield "  checkpoints are on disk"
        for trouble in self.trouble:
            what = "is damaged" if trouble.damaged else "cannot be read directly: "
            yield f"  file {trouble.number} that is read {what}"
        for other in self.neighbours:
            yield f"  {other!r}"
        if self.continuation is not None:
            numbers = ", ".join(map(str, self.continuation.parallelism))
            layout = self.continuation.savepoint
            way = "killed" if self.continuation.killed else "stopped"
            way += "" if layout is None else f" with a {layout.name.lower()} savepoint"
            back = f" from {self.continuation.back} back" if self.continuation.back else ""
            stopped = f"{way} at {self.continuation.stopped_at_s:.4f} s"
            yield f"  {stopped}, and continued{back} at parallelism {numbers}"


def _details(vertex: StormVertex) -> Iterator[str]:
    yield f"{vertex.work} x{vertex.parallelism} in {'/'.join(vertex.managers)}"
    yield from _changes(
        vertex, StormVertex(name=vertex.name, work=vertex.work, parallelism=0, task_manager="")
    )


def _changes(ours: object, usual: object) -> Iterator[str]:
    """Each field that is not as usual; the first ones of a vertex have been told already."""
    for each in fields(ours):  # type: ignore[arg-type]
        value = getattr(ours, each.name)
        if value != getattr(usual, each.name) and each.name not in ("parallelism", "task_manager", "given"):
            yield f"{each.name}={value:.6g}" if isinstance(value, float) else f"{each.name}={value}"
