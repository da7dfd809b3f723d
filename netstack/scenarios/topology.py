"""The data flow of a job: ship strategies, channels, watermarks, records that tasks read, deadlocks.

Some shapes can deadlock under unaligned checkpoints (`standstills`). Barriers overtake no data on the way
into some vertices (`aligned_readers`), even where checkpoints are unaligned. So one checkpoint may be aligned
at some vertices and unaligned at others, and then it can wait for itself::

            /--- b ---\\          b -> c is forward: each barrier blocks its channel of c
    x --- a            c         until the barriers of all channels of c are there
            \\---------/          x -> a is forward: the barrier comes behind all data of x

`b` begins its checkpoint as soon as one barrier has overtaken what waits for it, and sends its own on, which
blocks its channel at `c`. Now `c` waits for the barrier of a subtask of `a` that comes behind data, this `a`
for `b` to take its output, and `b` for `c` to read on. No task continues, even after the checkpoint has
expired. Flink 2.2.1 deadlocks just so (measured). With aligned checkpoints it does not: there `b` sends its
barrier when those of all subtasks of `a` are there.

Where barriers overtake after a timeout only, a checkpoint that has expired leaves channels blocked that the
next ones need, and then no diamond is needed: any vertex whose barriers come behind data will do for `a`
(measured as well).

A task handles a barrier between two records only. So a vertex will do for `a` as well that waits for buffers
in the middle of one, as it writes more of it than there is room for.

A source sends watermarks only where some vertex behind it emits by event time: then they reach every vertex
behind that source, as in Flink. The event time of a record is the time at which its source emitted it.

Functions of users read the content of records, and so does a hash exchange, on the side that writes to it;
vertices without a function forward what they read. The records of all other edges need no bytes
(`buffers/payload.py`)::

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
    """Ways to deal out the records of an exchange to its consumers (Flink's ShipStrategyType)."""

    FORWARD = "forward"
    RESCALE = "rescale"
    REBALANCE = "rebalance"
    HASH = "hash"
    BROADCAST = "broadcast"

    @classmethod
    def of(cls, name: str) -> ShipStrategy:
        """Return the strategy of a name; an unknown one counts as rebalance until the rules refuse it."""
        return cls(name) if name in _BY_NAME else cls.REBALANCE

    @property
    def pointwise(self) -> bool:
        """Whether a producer reaches only its own group of consumers."""
        return self in (ShipStrategy.FORWARD, ShipStrategy.RESCALE)

    @property
    def by_key(self) -> bool:
        """Whether the key of a record says which consumer it goes to."""
        return self is ShipStrategy.HASH

    @property
    def copies(self) -> bool:
        """Whether each record goes to all consumers."""
        return self is ShipStrategy.BROADCAST

    @property
    def can_be_overtaken(self) -> bool:
        """Whether barriers may overtake its data: no data that a new parallelism could not deal out anew."""
        return not (self.pointwise or self.copies)


_BY_NAME = frozenset(ship.value for ship in ShipStrategy)


class NamedExchange(Protocol):
    """Vertices by name, and how records are dealt out between them."""

    @property
    def source(self) -> str:
        """The vertex that writes."""
        ...

    @property
    def target(self) -> str:
        """The vertex that reads."""
        ...

    @property
    def ship(self) -> str:
        """The way, by its name in a scenario."""
        ...


def aligned_readers(exchanges: Iterable[NamedExchange]) -> set[str]:
    """The vertices into which no barrier overtakes: one such exchange keeps all others into it aligned.

    As in Flink's StreamGraphGenerator.
    """
    return {each.target for each in exchanges if not ShipStrategy.of(each.ship).can_be_overtaken}


def consumers_of_producers(ship: str, producers: int, consumers: int) -> list[list[int]]:
    """The consumers that each producer has a subpartition for, in the order of the subpartitions.

    All-to-all exchanges reach every consumer. Pointwise ones deal the larger side out evenly over the
    smaller, in order (Flink's pointwise distribution pattern).
    """
    if not ShipStrategy.of(ship).pointwise:
        return [list(range(consumers)) for _ in range(producers)]
    reached: list[list[int]] = [[] for _ in range(producers)]
    for consumer in range(consumers):
        if producers >= consumers:
            first, end = consumer * producers // consumers, (consumer + 1) * producers // consumers
        else:
            first = consumer * producers // consumers
            end = first + 1
        for producer in range(first, end):
            reached[producer].append(consumer)
    return reached


def producers_of_consumers(reached: list[list[int]], consumers: int) -> list[list[tuple[int, int]]]:
    """Return the (producer, subpartition) pairs of each consumer's channels, in order of producers."""
    channels: list[list[tuple[int, int]]] = [[] for _ in range(consumers)]
    for producer, own in enumerate(reached):
        for subpartition, consumer in enumerate(own):
            channels[consumer].append((producer, subpartition))
    return channels


def channel_counts(ship: str, producers: int, consumers: int) -> dict[int, int]:
    """Return how many consumers of an exchange have how many channels, by the number of channels.

    With the two sides swapped, how many producers have how many subpartitions. It is counted, not listed: an
    exchange of many thousand subtasks costs no more than one of two.
    """
    if not ShipStrategy.of(ship).pointwise:
        return {producers: consumers}
    if producers <= consumers:
        return {1: consumers}
    each, rest = divmod(producers, consumers)
    return {each: consumers - rest, each + 1: rest} if rest else {each: consumers}


Exchange = tuple[str, str, str]
"""Producer and consumer of an exchange, and how it deals records out."""


class JobShape(NamedTuple):
    """The parts of a job that its state depends on: its name, its vertices' parallelism, its exchanges.

    `unread` are exchanges whose records no function reads, so that their bytes need not be kept.
    `max_parallelism` has the vertices whose number of key groups is that of the checkpoint that the job goes
    on from, and not the one that follows from their parallelism.
    """

    name: str
    parallelism: Mapping[str, int]
    exchanges: tuple[Exchange, ...] = ()
    unread: tuple[Exchange, ...] = ()
    max_parallelism: Mapping[str, int] = MappingProxyType({})


class Standstill(NamedTuple):
    """Three vertices by name: `joins` does not read `blocked` before it has a barrier that waits for `late`,
    and `late` waits for `blocked`.

    `at_once`: whether one checkpoint is enough for that; else an expired one comes before.
    """

    late: str
    blocked: str
    joins: str
    at_once: bool


def standstills(
    exchanges: Sequence[NamedExchange], parallelism: Mapping[str, int], write_much: Collection[str] = ()
) -> Iterator[Standstill]:
    """Yield the ways in which unaligned checkpoints can deadlock a job of these exchanges.

    `parallelism`: that of each vertex, by name. `write_much`: vertices that may write more for one record
    than a buffer and the overdraft buffers hold. Whether the job deadlocks depends on the load: `blocked` has
    to be slower than what it reads, for longer than buffers last.
    """
    behind_data = aligned_readers(exchanges)
    come_late = behind_data | set(write_much)
    for edge in exchanges:
        blocked, joins = edge.source, edge.target
        if joins not in behind_data or blocked in behind_data:
            continue
        if min(_most_channels(vertex, exchanges, parallelism) for vertex in (blocked, joins)) < 2:
            continue  # no other barrier can be there before, or be waited for
        before = _all_before([blocked], exchanges)
        others = [each.source for each in exchanges if each.target == joins and each is not edge]
        pointwise = [
            each for each in exchanges if ShipStrategy.of(each.ship).pointwise and each.target != blocked
        ]
        # Whose subtask may have no barrier but those of one subtask before it, past `blocked`.
        as_late = _all_before(others, pointwise) | set(others)
        for late in sorted(come_late & before):
            if late != blocked:
                yield Standstill(late, blocked, joins, at_once=late in as_late)


def _most_channels(vertex: str, exchanges: Collection[NamedExchange], parallelism: Mapping[str, int]) -> int:
    """The channels of the subtask of a vertex that has the most."""
    return sum(
        max(channel_counts(each.ship, parallelism[each.source], parallelism[vertex]))
        for each in exchanges
        if each.target == vertex
    )


def _all_before(vertices: Iterable[str], exchanges: Collection[NamedExchange]) -> set[str]:
    """All vertices whose data reach one of these."""
    before: set[str] = set()
    left = list(vertices)
    while left:
        vertex = left.pop()
        new = {each.source for each in exchanges if each.target == vertex} - before
        before |= new
        left += new
    return before


def sources_with_watermarks(scenario: Scenario) -> frozenset[str]:
    """Return the sources that send watermarks, by name."""
    return frozenset(
        source.name
        for vertex in scenario.vertices
        if vertex.emits_by_event_time
        for source in sources_of(scenario, vertex)
        if source.source is not None and source.source.out_of_orderness_s is not None
    )


def readers_of_watermarks(scenario: Scenario) -> frozenset[str]:
    """Return the vertices that watermarks reach, by name."""
    sources = sources_with_watermarks(scenario)
    return frozenset(
        vertex.name
        for vertex in scenario.vertices
        if vertex.source is None and any(each.name in sources for each in sources_of(scenario, vertex))
    )


def disorder_s(scenario: Scenario, edge: Edge) -> float:
    """Return how far the watermarks of an edge stay behind the records before them, in seconds.

    Where the records of several sources come together, the least watermark goes on, which is that of the
    source with the most disorder. What a window gives by event time comes right before the watermark that
    made it fire.
    """
    behind: dict[str, float] = {}
    """Delay of the watermarks that each vertex sends."""
    for vertex in scenario.vertices_before(edge.source):
        if vertex.source is not None:
            behind[vertex.name] = vertex.source.out_of_orderness_s or 0.0
        elif vertex.emits_by_event_time:
            behind[vertex.name] = 0.0
        else:
            behind[vertex.name] = max(behind[each.source] for each in scenario.inputs(vertex))
    return behind[edge.source]


def sources_of(scenario: Scenario, vertex: Vertex) -> list[Vertex]:
    """Return the sources whose records reach a vertex, or itself if it is one."""
    return [each for each in scenario.vertices_before(vertex.name) if each.source is not None]


class Contents(NamedTuple):
    """Vertices (by name) and edges (by number) whose records need real bytes, there or downstream."""

    vertices: frozenset[str]
    edges: frozenset[int]


def contents_of(scenario: Scenario) -> Contents:
    """Return which records need their bytes; those with watermarks among them do."""
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
    """Return what the checkpoints of a job depend on."""
    exchanges = tuple((edge.source, edge.target, edge.ship) for edge in scenario.edges)
    read = contents_of(scenario).edges
    return JobShape(
        scenario.name,
        {vertex.name: vertex.parallelism for vertex in scenario.vertices},
        exchanges,
        tuple(exchange for number, exchange in enumerate(exchanges) if number not in read),
    )
