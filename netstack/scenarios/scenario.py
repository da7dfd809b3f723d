"""Scenarios: a job, its settings, and the measurements to take.

A scenario consists of plain values, which `rules` checks. Times are in seconds since the tasks opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate
from operator import attrgetter
from typing import Any

from buffers import GateBuffersSpec, gate_buffers, partition_buffers

from ..errors import QuantityError
from .changes import Savepoints, ScheduledChange, ScheduledSavepoint
from .costs import CostModel, LinkConditions
from .faults import AtTime, Fault, Faults
from .options import (
    DEFAULT_PRESET,
    FLINK_OPTIONS,
    POLICY,
    PRESETS,
    NetworkConfig,
    RestartStrategy,
    version_of,
    with_options,
)
from .ship_strategies import ShipStrategy, channel_counts, consumers_of_producers, producers_of_consumers
from .tables import (
    HoldsTuples,
    Key,
    Part,
    Section,
    TableOf,
    TablesOf,
    key,
    needed,
    read_table,
    table_shape,
    write_table,
    written_key,
)
from .unit_texts import format_duration, parse_duration
from .user_code import KeyHash, KeyOf, NamedObject, OperatorOfRecords, Source, object_name
from .value_kinds import (
    FLAG,
    INTEGER,
    REAL,
    STRING,
    TIME,
    FlinkVersion,
    Kind,
    Shape,
    any_of,
    list_of,
    named,
    one_of,
    one_or_more,
    table,
    tables,
    text,
)

__all__ = [
    "FILE_FORMATS",
    "FROM_SOURCE",
    "SERVICE_MODES",
    "SHIPS",
    "Edge",
    "EdgeBuffers",
    "GeneratorSpec",
    "Keys",
    "Machine",
    "PathSpec",
    "Scenario",
    "SourceObject",
    "SourceSpec",
    "Vertex",
    "changed",
    "in_slots",
]

SHIPS = tuple(ship.value for ship in ShipStrategy)
"""Names of ship strategies."""

EMISSIONS = ("regular", "random")
"""Ways to meet a fractional selectivity such as 0.5: by every second record, or by each with chance 0.5."""

EMITS_BY = ("processing_time", "event_time")
"""Clocks that decide when a vertex emits records that it holds back: the wall clock, or watermarks."""

SERVICE_MODES = ("throttle", "exact", "burn")
"""Ways to spend service time: in sleeps of at least a millisecond, record by record, or on a core."""

KEY_BYTES = 8
"""Size of the key at the start of a generated record: a 64-bit big-endian integer."""

FROM_SOURCE = 0
"""Parallelism of a source whose files have not been opened yet."""

MAX_PARALLELISM = 1 << 15
"""Flink's maximum number of subtasks and key groups of a vertex (KeyGroupRangeAssignment)."""

Step = tuple[float, float]
"""A time in seconds, and the cost of a record from then on, in seconds."""


def _service(value: object) -> tuple[Step, ...]:
    if not isinstance(value, list):
        return ((0.0, parse_duration(value)),)
    return tuple(_step(table(step)) for step in value)


def _step(step: Mapping[str, object]) -> Step:
    if step.keys() != {"at", "cost"}:
        raise QuantityError(
            f"has a step with wrong keys, {dict(step)!r}", 'steps such as { at = "30 s", cost = "5 ms" }'
        )
    return parse_duration(step["at"]), parse_duration(step["cost"])


def _steps(service: Sequence[Step]) -> object:
    if len(service) == 1 and service[0][0] == 0:
        return format_duration(service[0][1])
    return [{"at": format_duration(at), "cost": format_duration(cost)} for at, cost in service]


CoursePart = tuple[float, float]
"""Seconds, and the factor of a cost or of a rate for them."""


def _course(value: object) -> tuple[CoursePart, ...]:
    return tuple(_part(part) for part in tables(value))


def _part(part: Mapping[str, object]) -> CoursePart:
    if part.keys() != {"for", "factor"}:
        raise QuantityError(
            f"has a part with wrong keys, {dict(part)!r}", 'parts such as { for = "10 s", factor = 1.5 }'
        )
    return parse_duration(part["for"]), REAL.parse(part["factor"])


def _parts(course: Sequence[CoursePart]) -> object:
    return [{"for": format_duration(seconds), "factor": factor} for seconds, factor in course]


def mean_factor(course: Sequence[CoursePart]) -> float:
    """Return the mean factor of a course over its period, which must be above 0 s."""
    seconds = sum(part_s for part_s, _ in course)
    return sum(part_s * factor for part_s, factor in course) / seconds


def _window(value: object) -> tuple[float, float]:
    ends = _TIMES.parse(value)
    if len(ends) != 2:
        raise QuantityError(f"{value!r} is not a window", '["20 s", "60 s"]')
    return ends[0], ends[1]


_STEP: Shape = {
    "type": "object",
    "properties": {"at": TIME.shape, "cost": TIME.shape},
    "required": ["at", "cost"],
    "additionalProperties": False,
}
_TIMES = list_of(TIME)
_NAMES = one_or_more(STRING)
_REALS = one_or_more(REAL)
_SERVICE = Kind(
    _service,
    _steps,
    any_of(TIME.shape, {"type": "array", "items": _STEP}),
    is_tuple=True,
    pairs="((0.0, 0.005),)",
)
_WINDOW = Kind(_window, _TIMES.render, _TIMES.shape | {"minItems": 2, "maxItems": 2})
_PART: Shape = {
    "type": "object",
    "properties": {"for": TIME.shape, "factor": REAL.shape},
    "required": ["for", "factor"],
    "additionalProperties": False,
}
_COURSE = Kind(
    _course, _parts, {"type": "array", "items": _PART}, is_tuple=True, pairs="((10.0, 0.5), (10.0, 1.5))"
)
_OBJECT = Kind(lambda value: NamedObject(text(value)), object_name, STRING.shape)
"""Kind of a Python object; a document contains the name of the object."""

_PARALLELISM = Kind(INTEGER.parse, lambda count: count or None, INTEGER.shape)
_PLACES = Kind(
    lambda value: _NAMES.parse(value) if isinstance(value, list) else text(value),
    lambda placed: placed if isinstance(placed, str) else list(placed),
    _NAMES.shape,
)
_COLUMNS = replace(_NAMES, render=lambda columns: list(columns) if len(columns) > 1 else columns[0])
_MODE = one_of(SERVICE_MODES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys(HoldsTuples):
    """Keys of generated records: 0 to `number` - 1; key k has the weight ``1 / (k + 1) ** zipf``.

    `most_frequent` holds the fractions of all records that have key 0, key 1 and so on, in place of these
    weights. The remaining keys share the remaining records by their weights.
    """

    number: int = field(metadata=needed(INTEGER, "1000", 1, "Number of keys."))
    zipf: float = key(REAL, 0.0, "Exponent of the Zipf distribution; 0: equally frequent keys.")
    most_frequent: tuple[float, ...] = key(
        _REALS, (), "Fraction of all records for key 0, key 1 and so on; the other keys share the rest."
    )


CATCH_UP_S = 1.0
"""Maximum delay in seconds that a source with an even rate makes up.

The value is that of Guava's RateLimiter, which Flink's generators use.
"""


_RATES = needed(
    _REALS,
    fallback=(0.0,),
    doc="Records per second of each subtask; a shorter list repeats. 0: as fast as possible.",
    name="rate",
)
_OUT_OF_ORDERNESS = needed(TIME, doc="Lag of the watermarks behind the records; None: no watermarks.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSpec(HoldsTuples):
    """Source of generated records. A record has a length field and `record_bytes` bytes; 8 are its key."""

    record_bytes: int = field(
        metadata=needed(
            INTEGER,
            "1000, or a path",
            8,
            "Bytes of a record after its length field of 4 bytes; the first 8 bytes are the key.",
        )
    )
    record_spread: float = key(
        REAL,
        0.0,
        "Relative standard deviation of the bytes of a record, which are then log-normal with a mean of "
        "about `record_bytes`.",
    )
    rates: tuple[float, ...] = field(default=(0.0,), metadata=_RATES)
    out_of_orderness_s: float | None = field(default=None, metadata=_OUT_OF_ORDERNESS)
    keys: Keys | None = key(
        TableOf(Keys),
        None,
        "Number of keys and their frequencies; None: random 64-bit numbers, which hardly repeat.",
    )
    burst_s: float | None = key(
        TIME, None, "Period of bursts: all records of a period come at its start; None: no bursts."
    )
    batch: int = key(
        INTEGER, 1, "Number of records that the source emits at once, as with a flat map in its chain."
    )
    legacy: bool = key(
        FLAG, False, "Whether the source is a SourceFunction, which emits even if no output is available."
    )
    cost_s: float | None = key(TIME, None, "Time to emit a record; None: the time in the cost model.")
    catch_up_s: float = key(
        TIME,
        CATCH_UP_S,
        "Maximum delay that a source makes up after a lack of buffers, if its rate is even.",
    )
    wave_s: float | None = key(
        TIME, None, "Period of a sine wave of the rate, between 0 and twice the rate; None: an even rate."
    )


FILE_FORMATS = ("csv", "json", "parquet")
"""Formats of the files of a `PathSpec`."""

_FORMAT = named({name: name for name in FILE_FORMATS}, "is not a format that can be read")
_key = key  # `PathSpec` has a field of that name


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSpec(HoldsTuples):
    """Source of rows that Spark reads from files; the caller opens it as a `SourceObject`."""

    path: str = field(
        metadata=needed(
            STRING, None, "?", "Path of the files, relative to the scenario file or the working directory."
        )
    )
    key: tuple[str, ...] = _key(
        _COLUMNS, (), "Columns whose values are the key of hash exchanges; empty: no key."
    )
    repeat: bool = written_key(FLAG, False, "Whether a subtask starts again after its last row.")
    rates: tuple[float, ...] = field(default=(0.0,), metadata=_RATES)
    out_of_orderness_s: float | None = field(default=None, metadata=_OUT_OF_ORDERNESS)
    format: str | None = _key(_FORMAT, None, "Format of the files; None: as the file name says.")

    def opened(self, source: Source) -> SourceObject:
        """Return the opened source that replaces this path, with `source` as its reader."""
        disorder_s = self.out_of_orderness_s
        return SourceObject(source=source, rates=self.rates, out_of_orderness_s=disorder_s, spec=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceObject(HoldsTuples):
    """A source that exists as an object: a user's source, or an opened path."""

    source: Source = field(metadata=needed(_OBJECT, None, None, name="object"))
    rates: tuple[float, ...] = field(default=(0.0,), metadata=_RATES)
    out_of_orderness_s: float | None = field(default=None, metadata=_OUT_OF_ORDERNESS)
    spec: PathSpec | None = None
    """The path that was opened."""


SourceSpec = GeneratorSpec | PathSpec | SourceObject


class _SourceTable(Part):
    """The table of a source; its keys determine the type of the source."""

    def read(self, section: Section, key: Key, default: object) -> SourceSpec | None:
        if key.name not in section:
            return None
        source = section.section(key.name)
        if not isinstance(section.values[key.name], Mapping):
            return GeneratorSpec(record_bytes=8)  # the mistake has been reported already
        if "object" in source:
            return read_table(source, SourceObject)
        if "path" not in source:
            return read_table(source, GeneratorSpec)
        if "record_bytes" in source:
            source.complain("record_bytes", "is given together with a path; remove one of the two")
            source.take("record_bytes", INTEGER.parse, 8)
        return read_table(source, PathSpec)

    def render(self, value: SourceSpec) -> object:
        if isinstance(value, SourceObject) and value.spec is not None:
            disorder_s = value.out_of_orderness_s
            return write_table(replace(value.spec, rates=value.rates, out_of_orderness_s=disorder_s))
        return write_table(value)

    @property
    def shape(self) -> Shape:
        return any_of(*map(table_shape, (GeneratorSpec, PathSpec, SourceObject)))


SLOT_SHARING_GROUP = Key(
    name="slot_sharing_group",
    kind=STRING,
    default="default",
    doc="Group of vertices that share slots, if the scenario has slots; absent: one group for all.",
)
"""A key of vertices, used only by `in_slots`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex(HoldsTuples):
    """One operator of the job, in `parallelism` subtasks; a source if `source` is given."""

    name: str = field(metadata=needed(STRING, '"source"', "", "Name of the vertex in edges and results."))
    parallelism: int = written_key(
        _PARALLELISM, 1, "Number of subtasks; absent: 1, or the number of partitions of a path."
    )
    task_manager: str | tuple[str, ...] | None = key(
        _PLACES,
        None,
        "Task manager, or a list for the subtasks; a shorter list repeats; None: one for the vertex.",
        beside=(SLOT_SHARING_GROUP,),
    )
    source: SourceSpec | None = key(
        _SourceTable(), None, "Source of the vertex's records; None: the vertex reads from edges."
    )
    service: tuple[Step, ...] = key(
        _SERVICE,
        (),
        "Cost of a record, or a list of costs, each from a time on, the first from 0 s; empty: no cost.",
    )
    service_skew: tuple[float, ...] = key(
        _REALS, (1.0,), "Factor of each subtask's cost; a shorter list repeats."
    )
    service_spread: float = key(
        REAL,
        0.0,
        "Relative standard error of the cost: seed 1 uses the given cost, other seeds vary it.",
    )
    service_mode: str = key(
        _MODE,
        "throttle",
        "Way to spend service time: in sleeps, record by record, or on a core; absent: as in the scenario.",
    )
    course: tuple[CoursePart, ...] = key(
        _COURSE,
        (),
        "Factors of the costs, or of a source's rate, each for a time; after the last one the first one "
        "follows; those of a source have a mean of 1; empty: no change.",
    )
    selectivity: float = key(REAL, 1.0, "Records emitted for each record read.")
    emission: str = key(
        one_of(EMISSIONS),
        "regular",
        "Way to meet a fractional selectivity such as 0.5: by every second record, or by random choice.",
    )
    record_bytes: int | None = key(
        INTEGER, None, "Bytes of an emitted record, without its length field; None: those of the record read."
    )
    emit_every_s: float | None = key(
        TIME, None, "The vertex emits only at multiples of this time, as a window does; None: at once."
    )
    emit_by: str = key(one_of(EMITS_BY), EMITS_BY[0], "Clock that `emit_every` refers to.")
    emit_keys: int | None = key(
        INTEGER,
        None,
        "Number of keys of each subtask, one of which each record has at random; a window by event time "
        "emits one record for each key in it. None: `selectivity` decides.",
    )
    emit_cost_s: float = key(
        TIME,
        0.0,
        "Cost of each record of a firing window, before it is emitted; the subtask does nothing else until "
        "it has emitted all of them.",
    )
    behind_s: tuple[float, ...] = key(
        one_or_more(TIME),
        (0.0,),
        "Time of work that remains at the start. Each subtask does it before it reads, or with "
        "debloating when its buffers have stopped growing; a shorter list repeats.",
    )
    operator: Callable[[int], OperatorOfRecords] | None = key(
        _OBJECT,
        None,
        "Function that returns the operator of a subtask; None: the vertex forwards its records.",
        hidden=True,
    )

    def manager_of(self, subtask: int) -> str:
        """Return the task manager in which a subtask runs."""
        placed = self.task_manager
        if placed is None:
            return self.name
        return placed if isinstance(placed, str) else placed[subtask % len(placed)]

    @property
    def managers(self) -> tuple[str, ...]:
        """The task managers in which the vertex runs, in the order of its subtasks, without duplicates."""
        every = (self.manager_of(subtask) for subtask in range(max(1, self.parallelism)))
        return tuple(dict.fromkeys(every))

    @property
    def emits_by_event_time(self) -> bool:
        """Whether watermarks decide when the vertex emits records that it holds back."""
        return self.emit_by == "event_time"

    @property
    def burns(self) -> bool:
        """Whether the vertex's work on records occupies a core instead of only waiting."""
        return self.service_mode == "burn"

    def rate(self, subtask: int) -> float:
        """Return the records per second that a source's subtask emits; 0: as fast as possible."""
        if self.source is None or not self.source.rates:
            return 0.0
        return self.source.rates[subtask % len(self.source.rates)]

    def service_steps(self, subtask: int) -> tuple[Step, ...]:
        """Return the (time, cost) steps of a subtask, at least one. Its factor multiplies the costs."""
        return self.steps_of(self.service, subtask)

    def steps_of(self, service: Sequence[Step], subtask: int) -> tuple[Step, ...]:
        """Return the steps of `service` with the costs of a subtask; see `service_steps`."""
        factor = self.service_skew[subtask % len(self.service_skew)] if self.service_skew else 1.0
        return tuple((at, cost * factor) for at, cost in service) or ((0.0, 0.0),)


def in_slots(
    vertices: Sequence[Vertex], slots: int | None, groups: Sequence[str] | None = None
) -> tuple[Vertex, ...]:
    """Assign subtasks to task managers with `slots` slots each, by slot sharing; returns the vertices.

    Subtask i of every vertex of a slot sharing group shares slot i of the group. The slots of the groups are
    numbered one group after the other, and fill one task manager after the other: "tm-1", "tm-2" and so on.
    `groups` holds the group of each vertex; by default all vertices are in one group. A vertex that names its
    task manager stays there. The vertices are returned unchanged if `slots` is None or less than 1. They are
    also returned unchanged if a vertex has more subtasks than allowed: a rule refuses it later, and so many
    names of task managers would fill the memory. The algorithm is Flink's
    LocalInputPreferredSlotSharingStrategy, for vertices whose inputs are all of one kind.
    """
    huge = any(vertex.parallelism > MAX_PARALLELISM for vertex in vertices)
    if slots is None or slots < 1 or huge:
        return tuple(vertices)
    groups = [SLOT_SHARING_GROUP.default] * len(vertices) if groups is None else groups
    needed_by: dict[str, int] = {}
    for vertex, group in zip(vertices, groups, strict=True):
        needed_by[group] = max(needed_by.get(group, 1), vertex.parallelism)
    first = dict(zip(needed_by, accumulate(needed_by.values(), initial=0), strict=False))
    return tuple(
        vertex
        if vertex.task_manager is not None
        else replace(vertex, task_manager=_managers(first[group], max(1, vertex.parallelism), slots))
        for vertex, group in zip(vertices, groups, strict=True)
    )


def _managers(first: int, count: int, slots: int) -> tuple[str, ...]:
    return tuple(f"tm-{slot // slots + 1}" for slot in range(first, first + count))


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBuffers:
    """Numbers of buffers of an edge's gates and partitions; None: the value of the option."""

    exclusive: int | None = key(INTEGER, None, "Exclusive buffers of each channel.")
    floating: int | None = key(INTEGER, None, "Floating buffers of each gate.")
    partition: int | None = key(
        INTEGER,
        None,
        "Maximum number of buffers of a producer's pool, without overdraft; None: computed from exclusive "
        "and floating.",
    )
    max_per_channel: int | None = key(INTEGER, None, "Maximum number of buffers of a subpartition.")

    def per_channel(self, config: NetworkConfig) -> int:
        """Return the number of exclusive buffers of a channel."""
        return config.exclusive_buffers_per_channel if self.exclusive is None else self.exclusive

    def per_gate(self, config: NetworkConfig) -> int:
        """Return the number of floating buffers of a gate."""
        return config.floating_buffers_per_gate if self.floating is None else self.floating

    def quota(self, config: NetworkConfig) -> int:
        """Return the maximum number of buffers of a subpartition."""
        return config.max_buffers_per_channel if self.max_per_channel is None else self.max_per_channel

    def gate(self, config: NetworkConfig, channels: int) -> GateBuffersSpec:
        """Return the buffers of a gate with this number of channels."""
        each, floating = self.per_channel(config), self.per_gate(config)
        return gate_buffers(channels, each, floating, config.max_required_buffers_per_gate)

    def pool(self, config: NetworkConfig, subpartitions: int) -> tuple[int, int]:
        """Return the minimum and maximum number of buffers of a partition's pool, without overdraft."""
        minimum, most = partition_buffers(subpartitions, self.per_channel(config), self.per_gate(config))
        return minimum, most if self.partition is None else max(minimum, self.partition)

    def pool_segments(self, config: NetworkConfig, subpartitions: int) -> int:
        """Return the maximum number of buffers of a partition's pool, with overdraft."""
        return self.pool(config, subpartitions)[1] + config.max_overdraft_buffers_per_gate


AS_OPTIONS_SAY = EdgeBuffers()
"""Buffers of an edge for which the options set all numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge(HoldsTuples):
    """An exchange: the records of one vertex go to the subtasks of another."""

    source: str = field(
        metadata=needed(
            STRING, 'the name of a vertex, "source"', "", "Name of the vertex that sends.", name="from"
        )
    )
    target: str = field(
        metadata=needed(
            STRING, 'the name of a vertex, "stage1"', "", "Name of the vertex that reads.", name="to"
        )
    )
    ship: str = written_key(one_of(SHIPS), "rebalance", "Ship strategy of the records.")
    key_hash: KeyHash | None = key(
        _OBJECT,
        None,
        "Java's hashCode of each record's key, for ``hash``; None: see `key_hash_of`.",
        hidden=True,
    )
    shares: tuple[float, ...] = key(
        list_of(REAL),
        (),
        "With hash: each consumer's share of the records, in any unit; empty: the key decides.",
    )
    fraction: float = key(
        REAL, 1.0, "Fraction of the producer's records that go over this edge, as to a side output."
    )
    input: int = key(INTEGER, 0, "Number of the consumer's input; edges with the same number form a union.")
    selectivity: float | None = key(
        REAL,
        None,
        "Records that the consumer emits for each record of this edge; None: the consumer's selectivity.",
    )
    service: tuple[Step, ...] | None = key(
        _SERVICE, None, "Cost of a record of this edge at the consumer; None: the consumer's service."
    )
    buffers: EdgeBuffers = key(
        TableOf(EdgeBuffers), AS_OPTIONS_SAY, "Network buffers of this edge; None: the values of the options."
    )

    @property
    def strategy(self) -> ShipStrategy:
        """The ship strategy. An unknown name counts as rebalance; the rules report it."""
        return ShipStrategy.of(self.ship)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(HoldsTuples):
    """A machine whose cores several task managers share. If all cores are busy, work takes longer."""

    cores: float = field(metadata=needed(REAL, "2", 1.0, "Number of cores that the task managers share."))
    task_managers: tuple[str, ...] = field(
        metadata=needed(_NAMES, '["tm-1", "tm-2"]', (), "Task managers that run on the machine.")
    )


def label(values: Mapping[str, Any], place: int) -> str:
    """Return the name of a vertex's or an edge's table, for messages."""
    if isinstance(values.get("name"), str):
        return str(values["name"])
    if "from" in values and "to" in values:
        return f"{values['from']}->{values['to']}"
    return str(place)


SERVICE_MODE = Key(
    name="service_mode",
    kind=_MODE,
    default="throttle",
    doc="Service mode of vertices without a service_mode.",
)
SLOTS = Key(
    name="slots",
    kind=INTEGER,
    default=None,
    doc="Number of slots of each task manager; None: a task manager for each vertex.",
)
_PRESET = named({name: name for name in PRESETS}, "is not the name of a preset")


@dataclass(frozen=True, kw_only=True)
class Scenario(HoldsTuples):
    """A job and the conditions under which it runs.

    The index of a vertex in `vertices` is its number in every result; by convention, sources come first.
    """

    name: str = field(
        metadata=needed(STRING, fallback="", doc="Name of the job; absent: the name of the file.")
    )
    duration_s: float = field(metadata=needed(TIME, '"60 s"', 1.0, "Length of the run."))
    vertices: tuple[Vertex, ...] = field(
        metadata=needed(
            TablesOf(Vertex, label), doc="The operators of the job.", beside=(SERVICE_MODE, SLOTS)
        )
    )
    edges: tuple[Edge, ...] = written_key(TablesOf(Edge, label), (), "The exchanges between the operators.")
    warmup_s: float = written_key(TIME, 0.0, "Time at the beginning that results leave out.")
    seed: int = written_key(INTEGER, 1, "Seed of random numbers; the same seed gives the same result.")
    preset: str = written_key(_PRESET, DEFAULT_PRESET, "Version of Flink that sets the defaults.")
    phases: tuple[tuple[float, float], ...] = key(
        replace(list_of(_WINDOW), pairs="((20.0, 60.0),)"),
        (),
        "Windows that results summarise, each with start and end; empty: from warmup to the end.",
    )
    config: NetworkConfig = field(
        default_factory=NetworkConfig,
        metadata=needed(
            FLINK_OPTIONS,
            doc="Options of Flink; absent: those of the preset.",
            name="flink",
            beside=(POLICY,),
        ),
    )
    costs: CostModel = field(
        default_factory=CostModel,
        metadata=needed(
            TableOf(CostModel), fallback=CostModel(), doc="Costs of a machine; absent: measured defaults."
        ),
    )
    link: LinkConditions = field(
        default_factory=LinkConditions,
        metadata=needed(
            TableOf(LinkConditions),
            fallback=LinkConditions(),
            doc="The network between task managers; absent: loopback.",
        ),
    )
    machines: tuple[Machine, ...] = key(
        TablesOf(Machine),
        (),
        "Machines with limited cores; a task manager on no machine has no limit.",
    )
    manual_checkpoints_s: tuple[float, ...] = key(
        _TIMES,
        (),
        "Times of checkpoints that a user requests, besides periodic checkpoints.",
        name="checkpoints_at",
    )
    checkpoints_from_s: float | None = key(
        TIME,
        None,
        "Time of the first periodic checkpoint; None: at random in the first interval, as in Flink.",
    )
    savepoints: tuple[ScheduledSavepoint, ...] = key(
        Savepoints(), (), "Savepoints that a user requests.", name="savepoints_at"
    )
    faults: tuple[Fault, ...] = key(Faults(), (), "Faults, numbered from 0 in this order.")
    changes: tuple[ScheduledChange, ...] = key(TablesOf(ScheduledChange), (), "Changes of the running job.")

    @property
    def takes_checkpoints(self) -> bool:
        """Whether any checkpoint is taken, periodically or at a user's request."""
        return self.config.checkpoint_interval_s is not None or bool(self.manual_checkpoints_s)

    @property
    def barriers_pass_blocked(self) -> bool:
        """Whether an unaligned barrier also passes on a blocked channel, as in Flink from 2.3 on."""
        return self.flink_version >= FlinkVersion(2, 3)

    @property
    def flink_version(self) -> FlinkVersion:
        """The version of Flink that the preset stands for."""
        return version_of(self.preset)

    @property
    def stores_state(self) -> bool:
        """Whether any checkpoint or savepoint is taken."""
        return self.takes_checkpoints or bool(self.savepoints)

    @property
    def keeps_keyed_state(self) -> bool:
        """Whether there may be keyed state, because a user's operator runs."""
        return any(vertex.operator is not None for vertex in self.vertices)

    @property
    def restart_strategy(self) -> RestartStrategy:
        """The restart strategy of the job."""
        return self.config.restart_strategy_for(takes_checkpoints=self.takes_checkpoints)

    @property
    def windows(self) -> tuple[tuple[float, float], ...]:
        """The windows that results summarise: the phases, or else the whole run after the warm-up."""
        return self.phases or ((self.warmup_s, self.duration_s),)

    def ending_at(self, duration_s: float) -> Scenario:
        """Return the scenario of a run that ends at `duration_s`, before or after the planned end.

        Windows, requests, changes and faults after that time are removed. A window that ended at the planned
        end now ends at the new end.
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
            faults=tuple(
                fault
                for fault in self.faults
                if not isinstance(fault.when, AtTime) or fault.when.time_s < duration_s
            ),
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
        """Return the vertex with this name.

        Raises:
            KeyError: if there is no such vertex.
        """
        return self._by_name[name]

    def inputs(self, vertex: Vertex) -> tuple[Edge, ...]:
        """Return the edges into a vertex, in the scenario's order."""
        return self._inputs.get(vertex.name, ())

    def outputs(self, vertex: Vertex) -> tuple[Edge, ...]:
        """Return the edges out of a vertex, in the scenario's order."""
        return self._outputs.get(vertex.name, ())

    @cached_property
    def _inputs(self) -> dict[str, tuple[Edge, ...]]:
        return _edges_by(attrgetter("target"), self.edges)

    @cached_property
    def _outputs(self) -> dict[str, tuple[Edge, ...]]:
        return _edges_by(attrgetter("source"), self.edges)

    def consumers_reached(self, edge: Edge) -> list[list[int]]:
        """Return the consumers of each subpartition, for each producer of an edge."""
        producer, consumer = self.vertex(edge.source), self.vertex(edge.target)
        return consumers_of_producers(edge.ship, producer.parallelism, consumer.parallelism)

    def channel_ends(self, edge: Edge) -> Iterator[tuple[str, str]]:
        """Yield the two task managers of each channel of an edge, the producer's first, by consumer."""
        producer, consumer = self.vertex(edge.source), self.vertex(edge.target)
        reached = self.consumers_reached(edge)
        for target, channels in enumerate(producers_of_consumers(reached, consumer.parallelism)):
            for source, _ in channels:
                yield producer.manager_of(source), consumer.manager_of(target)

    @cached_property
    def channels(self) -> int:
        """Number of channels of all edges."""
        total = 0
        for edge in self.edges:
            producers, consumers = (self.vertex(name).parallelism for name in (edge.source, edge.target))
            counts = channel_counts(edge.ship, producers, consumers)
            total += sum(each * count for each, count in counts.items())
        return total

    def has_remote_channels(self, edge: Edge) -> bool:
        """Whether some of an edge's channels lead from one task manager to another."""
        ends = self.vertex(edge.source).managers, self.vertex(edge.target).managers
        if all(len(managers) == 1 for managers in ends):
            return ends[0] != ends[1]
        if not edge.strategy.pointwise:
            return True  # each subtask reads from subtasks on all task managers of the producer
        return any(source != target for source, target in self.channel_ends(edge))

    def topological_order(self) -> tuple[Vertex, ...]:
        """Return the vertices in topological order; vertices that could swap stay in the scenario's order.

        Vertices of cycles are omitted.
        """
        return self._topological_order

    @cached_property
    def _topological_order(self) -> tuple[Vertex, ...]:
        places: dict[str, int] = {}
        for place, vertex in enumerate(self.vertices):
            places.setdefault(vertex.name, place)
        inputs_left = {name: len(self._inputs.get(name, ())) for name in places}
        ready = [place for name, place in places.items() if not inputs_left[name]]  # a sorted list is a heap
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
        """Return the function that computes a record's key, if the operator has keyed state; else None."""
        operator = None if vertex.operator is None else vertex.operator(0)
        return operator.key_of if operator is not None and operator.keyed else None

    def is_broadcast_side(self, edge: Edge) -> bool:
        """Whether the operator after an edge processes the edge's records as broadcast records."""
        operator = self.vertex(edge.target).operator
        return edge.strategy.copies and operator is not None and operator(0).reads_broadcast

    def vertices_before(self, name: str) -> tuple[Vertex, ...]:
        """Return a vertex and all vertices whose records reach it, in topological order."""
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


def changed(scenario: Scenario, change: ScheduledChange) -> Scenario:
    """Return the scenario after a change."""
    config = with_options(scenario.config, dict(change.settings)) if change.settings else scenario.config
    vertices = tuple(
        _changed_vertex(vertex, change) if vertex.name == change.vertex else vertex
        for vertex in scenario.vertices
    )
    return replace(scenario, config=config, vertices=vertices)


def _changed_vertex(vertex: Vertex, change: ScheduledChange) -> Vertex:
    source = vertex.source
    return replace(
        vertex,
        service=vertex.service if change.service_s is None else ((0.0, change.service_s),),
        service_skew=change.service_skew or vertex.service_skew,
        source=source if source is None or not change.rates else replace(source, rates=change.rates),
    )
