"""Scenarios: a job, the settings it runs under, and what is measured of it.

Everything is a value; `scenario_rules` says which values make sense. Seconds count from the opening of
the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from operator import attrgetter

from flowcontrol import readable

from .changes import ScheduledChange
from .config import DEFAULT_PRESET, CostModel, LinkConditions, NetworkConfig, RestartStrategy
from .edge_buffers import AS_OPTIONS_SAY, EdgeBuffers
from .fault import AtTime, Fault
from .savepoints import ScheduledSavepoint
from .user_code import KeyHash, KeyOf, OperatorOfRecords, Source
from .wiring import consumers_of_producers, producers_of_consumers

SHIPS = ("forward", "rescale", "rebalance", "hash", "broadcast")
"""How the records of an edge are dealt out to the consumers."""

EMISSIONS = ("regular", "random")
"""Which records give one more than others where the selectivity is no whole number: in turns, or any."""

EMITS_BY = ("processing_time", "event_time")
"""By which time a vertex emits what it holds back: by the clock, or by the watermarks that it reads."""

SERVICE_MODES = ("throttle", "exact", "burn")
"""How service time is spent: in sleeps of at least a millisecond, as a task would, or record by record."""

KEY_BYTES = 8
"""Bytes of the key that begins a generated record: a 64-bit big-endian integer."""

FROM_SOURCE = 0
"""Parallelism of a vertex whose path has yet to be opened."""

MAX_PARALLELISM = 1 << 15
"""Most subtasks of a vertex, and most key groups, that Flink accepts (KeyGroupRangeAssignment)."""

Step = tuple[float, float]
"""From a time on, in seconds, a record costs this many seconds."""


class ScenarioError(ValueError):
    """A scenario makes no sense, or is more than this version can run.

    `problems` has one line for each mistake: where it is, what is wrong, and what would be right. What cannot
    be shown in a line, such as a line feed in a name, stands as its escape.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(map(readable, problems))
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[tuple[str, ...]]]:
        return ScenarioError, (self.problems,)  # to another process, by its problems and not by their text


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Which keys generated records have: 0 to `number` - 1, key k as often as ``1 / (k + 1) ** zipf``.

    `most_frequent` are shares of all records that the first keys have instead; the others have the rest.
    """

    number: int
    zipf: float = 0.0
    """0: all alike."""
    most_frequent: tuple[float, ...] = ()


CATCH_UP_S = 1.0
"""What a paced source makes up for: as much as the rate limiter of Flink's generators does (Guava's)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSpec:
    """Generated records: `record_bytes` after the length header, beginning with a random 64-bit key."""

    record_bytes: int
    rates: tuple[float, ...] = (0.0,)
    """Records per second of each subtask, cyclic; 0: as fast as possible."""
    out_of_orderness_s: float | None = None
    """How far its watermarks stay behind its records, in seconds; None: it sends no watermarks."""
    keys: Keys | None = None
    """None: any 64-bit number, so that hardly a key comes twice."""
    burst_s: float | None = None
    """The records of so many seconds come all at once, at the beginning; None: one by one."""
    batch: int = 1
    """Records that come of one call, as of a flat map in the source's chain: all of them or none."""
    legacy: bool = False
    """Whether it is a SourceFunction, which emits without asking whether its outputs are available."""
    cost_s: float | None = None
    """Seconds that emitting a record takes; None: as the cost model says."""
    catch_up_s: float = CATCH_UP_S
    """Of what an even pace missed while outputs were not available, so many seconds are made up for."""
    wave_s: float | None = None
    """Period of a sine wave that the rate follows, from 0 to twice the rate; None: it is even."""


FILE_FORMATS = ("csv", "json", "parquet")
"""What the files of a `PathSpec` may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSpec:
    """Rows of files that Spark reads; whoever runs the scenario opens them and puts in a `SourceObject`."""

    path: str
    key: tuple[str, ...] = ()
    """Columns that hash exchanges use."""
    repeat: bool = False
    """Whether a subtask begins again at the end of its rows."""
    rates: tuple[float, ...] = (0.0,)
    """Records per second of each subtask, cyclic; 0: as fast as possible."""
    out_of_orderness_s: float | None = None
    """How far its watermarks stay behind its records, in seconds; None: it sends no watermarks."""
    format: str | None = None
    """One of `FILE_FORMATS`; None: the name of the file tells."""

    def opened(self, source: Source) -> SourceObject:
        """What takes its place when `source` reads it."""
        disorder_s = self.out_of_orderness_s
        return SourceObject(source=source, rates=self.rates, out_of_orderness_s=disorder_s, spec=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceObject:
    """A source that exists already: one of the user's, or an opened path."""

    source: Source
    rates: tuple[float, ...] = (0.0,)
    """Records per second of each subtask, cyclic; 0: as fast as possible."""
    out_of_orderness_s: float | None = None
    """How far its watermarks stay behind its records, in seconds; None: it sends no watermarks."""
    spec: PathSpec | None = None
    """The path that was opened."""


SourceSpec = GeneratorSpec | PathSpec | SourceObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """One operator of the job, in `parallelism` subtasks; a source where `source` is given."""

    name: str
    parallelism: int = 1
    """`FROM_SOURCE` stands for as many as a path has partitions, until it has been opened."""
    task_manager: str | tuple[str, ...] | None = None
    """The process it runs in, or those of its subtasks, cyclic; None: one of its own."""
    source: SourceSpec | None = None
    service: tuple[Step, ...] = ()
    """Cost of a record over time, the first one from 0 on; empty: nothing."""
    service_skew: tuple[float, ...] = (1.0,)
    """Factor of the cost of each subtask, cyclic."""
    service_spread: float = 0.0
    """Standard error of the cost, as a share of it; seed 1 runs with the cost as given, others around it."""
    service_mode: str = "throttle"
    selectivity: float = 1.0
    """Records that it emits for each that it reads."""
    emission: str = "regular"
    """One of `EMISSIONS`."""
    record_bytes: int | None = None
    """Bytes of the records that it emits, without their length; None: of those that it reads."""
    emit_every_s: float | None = None
    """What it emits it holds back, and emits all at once every so often, as a window does; None: at once."""
    emit_by: str = "processing_time"
    """By which time it does so, one of `EMITS_BY`."""
    behind_s: tuple[float, ...] = (0.0,)
    """Seconds of earlier work that each subtask, cyclic, ends before it reads anything, when a job starts."""
    operator: Callable[[int], OperatorOfRecords] | None = None
    """What it does with records; None: it hands them on, as the fields above say."""

    def manager_of(self, subtask: int) -> str:
        """The task manager that a subtask runs in."""
        placed = self.task_manager
        if placed is None:
            return self.name
        return placed if isinstance(placed, str) else placed[subtask % len(placed)]

    @property
    def managers(self) -> tuple[str, ...]:
        """The task managers that it runs in, in the order of its subtasks, each once."""
        every = (self.manager_of(subtask) for subtask in range(max(1, self.parallelism)))
        return tuple(dict.fromkeys(every))

    @property
    def emits_by_event_time(self) -> bool:
        """Whether it emits what it holds back when a watermark says so."""
        return self.emit_by == "event_time"

    @property
    def burns(self) -> bool:
        """Whether its work on records takes a core, rather than waiting."""
        return self.service_mode == "burn"

    def rate(self, subtask: int) -> float:
        """Records per second that a source's subtask emits; 0: as fast as possible."""
        if self.source is None or not self.source.rates:
            return 0.0
        return self.source.rates[subtask % len(self.source.rates)]

    def service_steps(self, subtask: int) -> tuple[Step, ...]:
        """The (time, cost) steps of a subtask, with its factor; at least one."""
        return self.steps_of(self.service, subtask)

    def steps_of(self, service: Sequence[Step], subtask: int) -> tuple[Step, ...]:
        """The (time, cost) steps of `service` for a subtask, with its factor; at least one."""
        factor = self.service_skew[subtask % len(self.service_skew)] if self.service_skew else 1.0
        return tuple((at, cost * factor) for at, cost in service) or ((0.0, 0.0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An exchange: the records of one vertex go to the subtasks of another."""

    source: str
    target: str
    ship: str = "rebalance"
    key_hash: KeyHash | None = None
    """Java's hashCode of each record's key, for ``hash``; None: see `key_hash_of`."""
    shares: tuple[float, ...] = ()
    """How often a record goes to each consumer, for ``hash``, in any unit; empty: its key says where to."""
    fraction: float = 1.0
    """Share of what the producer emits that goes over this exchange, as of a side output; 1: all of it."""
    input: int = 0
    """Which input of the consumer it leads to: edges of one input are a union, inputs are read in turns."""
    selectivity: float | None = None
    """Records that the consumer emits for each of this exchange; None: as its vertex says."""
    service: tuple[Step, ...] | None = None
    """Cost of a record of this exchange at the consumer; None: as its vertex says."""
    buffers: EdgeBuffers = AS_OPTIONS_SAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine whose cores some task managers share: what their subtasks burn takes longer if it is full."""

    cores: float
    task_managers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A job and the conditions it runs under.

    A vertex's place in `vertices` is its number in every result, so sources come first by custom.
    """

    name: str
    duration_s: float
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...] = ()
    warmup_s: float = 0.0
    seed: int = 1
    preset: str = DEFAULT_PRESET
    phases: tuple[tuple[float, float], ...] = ()
    """Windows that `steady` summarises, (from, to) in seconds; empty: from warmup to the end."""
    config: NetworkConfig = field(default_factory=NetworkConfig)
    costs: CostModel = field(default_factory=CostModel)
    link: LinkConditions = field(default_factory=LinkConditions)
    machines: tuple[Machine, ...] = ()
    """Whose cores are limited; a task manager on none of them has as many as its subtasks need."""
    manual_checkpoints_s: tuple[float, ...] = ()
    """When a user asks for a checkpoint, besides those of the interval."""
    savepoints: tuple[ScheduledSavepoint, ...] = ()
    """When a user asks for a savepoint."""
    faults: tuple[Fault, ...] = ()
    """What goes wrong; a fault's place is its number."""
    changes: tuple[ScheduledChange, ...] = ()
    """What is changed while the job runs."""

    @property
    def takes_checkpoints(self) -> bool:
        """Whether there is a checkpoint at all, by the interval or by a user."""
        return self.config.checkpoint_interval_s is not None or bool(self.manual_checkpoints_s)

    @property
    def stores_state(self) -> bool:
        """Whether there is a checkpoint or a savepoint."""
        return self.takes_checkpoints or bool(self.savepoints)

    @property
    def keeps_keyed_state(self) -> bool:
        """Whether there may be keyed state: a user's operator runs."""
        return any(vertex.operator is not None for vertex in self.vertices)

    @property
    def restart_strategy(self) -> RestartStrategy:
        """What follows a failure of the job."""
        return self.config.restart_strategy_for(takes_checkpoints=self.takes_checkpoints)

    @property
    def windows(self) -> tuple[tuple[float, float], ...]:
        """The phases, or the one from warmup to the end."""
        return self.phases or ((self.warmup_s, self.duration_s),)

    def ending_at(self, duration_s: float) -> Scenario:
        """Return the scenario of a run that ends then, sooner or later.

        It lacks the windows, requests and faults after that, and a window that ended with the run still does.
        """
        if duration_s == self.duration_s:
            return self
        ends = {self.duration_s: duration_s}
        return replace(
            self,
            duration_s=duration_s,
            phases=tuple(
                (begin, min(ends.get(end, end), duration_s))
                for begin, end in self.phases
                if begin < duration_s
            ),
            manual_checkpoints_s=tuple(at for at in self.manual_checkpoints_s if at < duration_s),
            savepoints=tuple(each for each in self.savepoints if each.at_s < duration_s),
            faults=tuple(fault for fault in self.faults if _may_fire_before(fault, duration_s)),
            changes=tuple(change for change in self.changes if change.at_s < duration_s),
        )

    @property
    def task_managers(self) -> tuple[str, ...]:
        """All task managers, in the order in which vertices name them."""
        return tuple(dict.fromkeys(name for vertex in self.vertices for name in vertex.managers))

    @cached_property
    def _by_name(self) -> dict[str, Vertex]:
        return {vertex.name: vertex for vertex in self.vertices}

    def vertex(self, name: str) -> Vertex:
        """Return the vertex of that name.

        Raises:
            KeyError: there is none.
        """
        return self._by_name[name]

    def inputs(self, vertex: Vertex) -> tuple[Edge, ...]:
        """The edges into a vertex, in the scenario's order."""
        return self._inputs.get(vertex.name, ())

    def outputs(self, vertex: Vertex) -> tuple[Edge, ...]:
        """The edges out of a vertex, in the scenario's order."""
        return self._outputs.get(vertex.name, ())

    @cached_property
    def _inputs(self) -> dict[str, tuple[Edge, ...]]:
        return _edges_by(attrgetter("target"), self.edges)

    @cached_property
    def _outputs(self) -> dict[str, tuple[Edge, ...]]:
        return _edges_by(attrgetter("source"), self.edges)

    def channel_ends(self, edge: Edge) -> Iterator[tuple[str, str]]:
        """The task managers of producer and consumer of each channel of an edge, consumer by consumer."""
        producer, consumer = self.vertex(edge.source), self.vertex(edge.target)
        reached = consumers_of_producers(edge.ship, producer.parallelism, consumer.parallelism)
        for target, channels in enumerate(producers_of_consumers(reached, consumer.parallelism)):
            for source, _ in channels:
                yield producer.manager_of(source), consumer.manager_of(target)

    def has_remote_channels(self, edge: Edge) -> bool:
        """Whether some of an edge's channels lead from one task manager to another."""
        ends = self.vertex(edge.source).managers, self.vertex(edge.target).managers
        if all(len(managers) == 1 for managers in ends):
            return ends[0] != ends[1]
        return any(source != target for source, target in self.channel_ends(edge))

    def topological_order(self) -> tuple[Vertex, ...]:
        """The vertices, each after all it reads from, else in their order; those of a cycle are left out."""
        return self._topological_order

    @cached_property
    def _topological_order(self) -> tuple[Vertex, ...]:
        places: dict[str, int] = {}
        for place, vertex in enumerate(self.vertices):
            places.setdefault(vertex.name, place)
        inputs_left = {name: len(self._inputs.get(name, ())) for name in places}
        ready = [place for name, place in places.items() if not inputs_left[name]]  # a heap, as it rises
        placed: list[Vertex] = []
        while ready:
            vertex = self.vertices[heappop(ready)]
            placed.append(vertex)
            for edge in self.outputs(vertex):
                if edge.target in places:
                    inputs_left[edge.target] -= 1
                    if not inputs_left[edge.target]:
                        heappush(ready, places[edge.target])
        return tuple(placed)

    def key_of(self, vertex: Vertex) -> KeyOf | None:
        """Return what says the key of a record to an operator with keyed state; None for any other vertex."""
        operator = None if vertex.operator is None else vertex.operator(0)
        return operator.key_of if operator is not None and operator.keyed else None

    def is_broadcast_side(self, edge: Edge) -> bool:
        """Whether the operator behind an edge treats its records by themselves, as all subtasks read them."""
        operator = self.vertex(edge.target).operator
        return edge.ship == "broadcast" and operator is not None and operator(0).reads_broadcast

    def vertices_before(self, name: str) -> tuple[Vertex, ...]:
        """The vertices whose records reach a vertex, and that vertex; in topological order."""
        reached = {name}
        for vertex in reversed(self.topological_order()):
            if vertex.name in reached:
                reached.update(edge.source for edge in self.inputs(vertex))
        return tuple(vertex for vertex in self.topological_order() if vertex.name in reached)


def _edges_by(end: Callable[[Edge], str], edges: Iterable[Edge]) -> dict[str, tuple[Edge, ...]]:
    found: dict[str, list[Edge]] = {}
    for edge in edges:
        found.setdefault(end(edge), []).append(edge)
    return {name: tuple(own) for name, own in found.items()}


def _may_fire_before(fault: Fault, time_s: float) -> bool:
    return not isinstance(fault.when, AtTime) or fault.when.time_s < time_s
