"""The exchanges of a job: ship strategies, channels, watermarks, the records that tasks read, deadlocks.

Some job shapes can deadlock under unaligned checkpoints (`standstills`). Even if checkpoints are unaligned,
barriers cannot overtake data on the exchanges into some vertices (`aligned_readers`). So one checkpoint may
be aligned at some vertices and unaligned at others. Then the tasks can wait for each other::

            /--- b ---\\          b -> c is forward: each barrier blocks its channel of c
    x --- a            c         until the barriers of all channels of c are there
            \\---------/          x -> a is forward: the barrier comes behind all data of x

`b` begins its checkpoint as soon as one barrier has overtaken the data in front of it. It sends its own
barrier downstream, which blocks the channel from `b` at `c`. Now `c` waits for the barrier of a subtask of
`a`, which is behind data. This subtask waits for `b` to take its output, and `b` waits for `c` to continue
reading. No task continues, even after the checkpoint has expired. Flink 2.2.1 deadlocks in the same way
(measured). With aligned checkpoints it does not, because `b` sends its barrier only after the barriers of all
subtasks of `a` have arrived.

If barriers overtake only after a timeout, an expired checkpoint leaves channels blocked, and the next
checkpoints wait for these channels. Then the edge from `a` to `c` is not needed: any vertex whose barriers
stay behind data can take the role of `a` (also measured). In Flink 2.3, such a job continues (measured),
because an unaligned barrier also passes on a channel that an older barrier blocks.

A task handles a barrier only between two records. So a vertex can also take the role of `a` if its output for
one record is larger than the free buffers. It then waits for buffers in the middle of a record.

A source sends watermarks only if a downstream vertex emits by event time. As in Flink, its watermarks then
reach every vertex downstream of the source. The event time of a record is the time at which its source
emitted it.

User functions read the content of records, and so does the writing side of a hash exchange. Vertices without
a function forward the records that they read. If no task downstream reads the content of an edge's records,
these records need no bytes (`buffers/payload.py`)::

    generator --rebalance--> map --hash--> window --forward--> sink
              ^ bytes, for the hash behind        ^ none     ^ bytes if the sink is the user's
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from .scenario import Edge, Scenario, Vertex


class ShipStrategy(StrEnum):
    """Distribution of an exchange's records to its consumers (Flink's ShipStrategyType)."""

    FORWARD = "forward"
    RESCALE = "rescale"
    REBALANCE = "rebalance"
    HASH = "hash"
    BROADCAST = "broadcast"

    @classmethod
    def of(cls, name: str) -> ShipStrategy:
        """Return the strategy with this name; an unknown name counts as rebalance until rules report it."""
        return cls(name) if name in _BY_NAME else cls.REBALANCE

    @property
    def pointwise(self) -> bool:
        """Whether a producer reaches only its own group of consumers."""
        return self in (ShipStrategy.FORWARD, ShipStrategy.RESCALE)

    @property
    def in_turns(self) -> bool:
        """Whether records go to consumers round robin, or with adaptive partition selection by load."""
        return self in (ShipStrategy.REBALANCE, ShipStrategy.RESCALE)

    @property
    def by_key(self) -> bool:
        """Whether the key of a record determines its consumer."""
        return self is ShipStrategy.HASH

    @property
    def copies(self) -> bool:
        """Whether each record goes to all consumers."""
        return self is ShipStrategy.BROADCAST

    @property
    def can_be_overtaken(self) -> bool:
        """Whether barriers may overtake data: only if rescaling can redistribute this data."""
        return not (self.pointwise or self.copies)


_BY_NAME = frozenset(ship.value for ship in ShipStrategy)


class NamedExchange(Protocol):
    """An exchange between vertices by name, with its ship strategy."""

    @property
    def source(self) -> str:
        """Name of the vertex that writes."""

    @property
    def target(self) -> str:
        """Name of the vertex that reads."""

    @property
    def ship(self) -> str:
        """Name of the ship strategy."""


def aligned_readers(exchanges: Iterable[NamedExchange]) -> set[str]:
    """Return the vertices at which barriers overtake no data.

    As in Flink's StreamGraphGenerator, all inputs of a vertex are aligned if barriers cannot overtake data on
    one of them.
    """
    return {each.target for each in exchanges if not ShipStrategy.of(each.ship).can_be_overtaken}


def producers_read(ship: str, producers: int, consumers: int, consumer: int) -> range:
    """Return the producers that a consumer reads.

    All-to-all exchanges connect it with every producer. Pointwise exchanges distribute the larger side evenly
    over the smaller one, in order (Flink's pointwise distribution pattern).
    """
    if not ShipStrategy.of(ship).pointwise:
        return range(producers)
    first = consumer * producers // consumers
    return range(first, max(first + 1, (consumer + 1) * producers // consumers))


def subpartition_counts(ship: str, producers: int, consumers: int) -> list[int]:
    """Return the number of subpartitions of each producer."""
    if not ShipStrategy.of(ship).pointwise:
        return [consumers] * producers
    return [len(reached) for reached in consumers_of_producers(ship, producers, consumers)]


def consumers_of_producers(ship: str, producers: int, consumers: int) -> list[list[int]]:
    """Return the consumer of each subpartition, for each producer (`producers_read`)."""
    if not ShipStrategy.of(ship).pointwise:
        return [list(range(consumers)) for _ in range(producers)]
    reached: list[list[int]] = [[] for _ in range(producers)]
    for consumer in range(consumers):
        for producer in producers_read(ship, producers, consumers, consumer):
            reached[producer].append(consumer)
    return reached


def producers_of_consumers(reached: list[list[int]], consumers: int) -> list[list[tuple[int, int]]]:
    """Return the (producer, subpartition) pair of each channel, for each consumer, in order of producers."""
    channels: list[list[tuple[int, int]]] = [[] for _ in range(consumers)]
    for producer, own in enumerate(reached):
        for subpartition, consumer in enumerate(own):
            channels[consumer].append((producer, subpartition))
    return channels


def channel_counts(ship: str, producers: int, consumers: int) -> dict[int, int]:
    """Return a histogram of an exchange: how many consumers have how many channels, by number of channels.

    With `producers` and `consumers` swapped, it counts producers by their number of subpartitions. The
    function does not list channels, so its cost does not depend on the number of subtasks.
    """
    if not ShipStrategy.of(ship).pointwise:
        return {producers: consumers}
    if producers <= consumers:
        return {1: consumers}
    each, rest = divmod(producers, consumers)
    return {each: consumers - rest, each + 1: rest} if rest else {each: consumers}


def capacity_by_load(ship: str, producers: int, rates: Sequence[float]) -> float:
    """Return the records/s that all consumers read together if producers choose them by load (FLIP-339).

    `rates` holds the records/s that each consumer can read. All producers emit at the same rate, so the
    producer with the slowest consumers limits all producers.
    """
    reached = consumers_of_producers(ship, producers, len(rates))
    readers = [len(channels) for channels in producers_of_consumers(reached, len(rates))]
    return producers * min(sum(rates[consumer] / readers[consumer] for consumer in own) for own in reached)


Exchange = tuple[str, str, str]
"""Producer, consumer and ship strategy of an exchange."""


class JobShape(NamedTuple):
    """The properties of a job that its checkpoints depend on: name, parallelism of the vertices, exchanges.

    `unread`: exchanges with records whose content no task reads; only lengths are kept.
    `max_parallelism`: the number of key groups of vertices for which it is not the default, but that of the
    restored checkpoint.
    """

    name: str
    parallelism: Mapping[str, int]
    exchanges: tuple[Exchange, ...] = ()
    unread: tuple[Exchange, ...] = ()
    max_parallelism: Mapping[str, int] = MappingProxyType({})


class Standstill(NamedTuple):
    """Three vertices, by name, that can deadlock (a, b and c in the diagram of this module).

    `joins` blocks its channel from `blocked` until the barrier of `late` arrives, and `late` waits for
    `blocked` to read. `at_once`: whether one checkpoint suffices; otherwise, an earlier checkpoint must have
    expired.
    """

    late: str
    blocked: str
    joins: str
    at_once: bool


def standstills(
    exchanges: Sequence[NamedExchange], parallelism: Mapping[str, int], write_much: Collection[str] = ()
) -> Iterator[Standstill]:
    """Yield the ways in which unaligned checkpoints can deadlock a job with these exchanges.

    `parallelism`: the parallelism of each vertex, by name. `write_much`: vertices whose output for one record
    may be larger than one buffer and the overdraft buffers. Whether the job really deadlocks depends on the
    load: `blocked` has to be slower than its producers until all buffers are full.
    """
    behind_data = aligned_readers(exchanges)
    come_late = behind_data | set(write_much)
    for edge in exchanges:
        blocked, joins = edge.source, edge.target
        if joins not in behind_data or blocked in behind_data:
            continue
        if min(_most_channels(vertex, exchanges, parallelism) for vertex in (blocked, joins)) < 2:
            continue  # with a single channel, no barrier has to wait for another
        before = _all_before([blocked], exchanges)
        others = [each.source for each in exchanges if each.target == joins and each is not edge]
        pointwise = [
            each for each in exchanges if ShipStrategy.of(each.ship).pointwise and each.target != blocked
        ]
        # Vertices that reach `joins` without `blocked`, over pointwise exchanges only: on this way, a barrier
        # is as late as that of one subtask of the vertex.
        as_late = _all_before(others, pointwise) | set(others)
        for late in sorted(come_late & before):
            if late != blocked:
                yield Standstill(late, blocked, joins, at_once=late in as_late)


def _most_channels(vertex: str, exchanges: Collection[NamedExchange], parallelism: Mapping[str, int]) -> int:
    """Return the maximum number of channels of a subtask of a vertex."""
    return sum(
        max(channel_counts(each.ship, parallelism[each.source], parallelism[vertex]))
        for each in exchanges
        if each.target == vertex
    )


def _all_before(vertices: Iterable[str], exchanges: Collection[NamedExchange]) -> set[str]:
    """Return all vertices whose data reaches one of the given vertices."""
    before: set[str] = set()
    left = list(vertices)
    while left:
        vertex = left.pop()
        new = {each.source for each in exchanges if each.target == vertex} - before
        before |= new
        left += new
    return before


def sources_with_watermarks(scenario: Scenario) -> frozenset[str]:
    """Return the names of the sources that send watermarks."""
    return frozenset(
        source.name
        for vertex in scenario.vertices
        if vertex.emits_by_event_time
        for source in sources_of(scenario, vertex)
        if source.source is not None and source.source.out_of_orderness_s is not None
    )


def readers_of_watermarks(scenario: Scenario) -> frozenset[str]:
    """Return the names of the vertices that watermarks reach."""
    sources = sources_with_watermarks(scenario)
    return frozenset(
        vertex.name
        for vertex in scenario.vertices
        if vertex.source is None and any(each.name in sources for each in sources_of(scenario, vertex))
    )


def disorder_s(scenario: Scenario, edge: Edge) -> float:
    """Return the lag of an edge's watermarks behind the preceding records, in seconds.

    If the records of several sources are merged, the lowest watermark is forwarded: that of the source with
    the largest lag. Behind an event-time window the lag is 0, since its results are sent directly before the
    watermark that fired the window.
    """
    behind: dict[str, float] = {}
    """Lag of the watermarks that each vertex sends, in seconds."""
    for vertex in scenario.vertices_before(edge.source):
        if vertex.source is not None:
            behind[vertex.name] = vertex.source.out_of_orderness_s or 0.0
        elif vertex.emits_by_event_time:
            behind[vertex.name] = 0.0
        else:
            behind[vertex.name] = max(behind[each.source] for each in scenario.inputs(vertex))
    return behind[edge.source]


def sources_of(scenario: Scenario, vertex: Vertex) -> list[Vertex]:
    """Return the sources whose records reach a vertex; for a source, the source itself."""
    return [each for each in scenario.vertices_before(vertex.name) if each.source is not None]


class Contents(NamedTuple):
    """Vertices (by name) and edges (by number) whose records need bytes, since a task reads them later."""

    vertices: frozenset[str]
    edges: frozenset[int]


def contents_of(scenario: Scenario) -> Contents:
    """Return the vertices and edges whose records need contents, not only a size.

    All edges with watermarks are among them.
    """
    with_watermarks = sources_with_watermarks(scenario) | readers_of_watermarks(scenario)
    vertices: set[str] = set()
    edges: set[int] = set()
    for vertex in reversed(scenario.topological_order()):
        for number, edge in enumerate(scenario.edges):
            if edge.source != vertex.name:
                continue
            has_function = scenario.vertex(edge.target).operator is not None
            if has_function or edge.target in vertices or vertex.name in with_watermarks:
                edges.add(number)
            if number in edges or (edge.strategy.by_key and not edge.shares):
                vertices.add(vertex.name)
    return Contents(frozenset(vertices), frozenset(edges))


def shape_of(scenario: Scenario) -> JobShape:
    """Return the properties of a job that its checkpoints depend on."""
    exchanges = tuple((edge.source, edge.target, edge.ship) for edge in scenario.edges)
    read = contents_of(scenario).edges
    return JobShape(
        scenario.name,
        {vertex.name: vertex.parallelism for vertex in scenario.vertices},
        exchanges,
        tuple(exchange for number, exchange in enumerate(exchanges) if number not in read),
    )
