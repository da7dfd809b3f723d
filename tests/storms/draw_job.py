"""Draws the job of a storm: vertices, their places, the exchanges between them, and what they emit.

Some jobs have several pipelined regions, which restart independently: a second pipeline beside the first
one, or exchanges that connect only subtasks of the same row. Some exchanges pass only a share of the
records.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import Any, TypeVar

from flowcontrol import MAX_WATERMARK, NO_WATERMARK
from netstack import FailoverStrategy, LinkConditions, NetworkConfig, ShipStrategy

from .case import KEYED, SUMS, Reading, StormCase, StormVertex, Work
from .operators import KEY_SIZE, Broken

_SHAPES = (("straight", 54), ("sources", 26), ("diamond", 20))
_SOURCES = ((2, 6), (3, 2), (4, 1))
_STEPS = ((0, 3), (1, 6), (2, 3))
_WORKS = (
    (Work.PASS, 4),
    (Work.MARK, 4),
    (Work.COPY, 4),
    (Work.FILTER, 4),
    (Work.SUM, 3),
    (Work.SUM_IN_VALUE, 2),
    (Work.SUM_IN_AGGREGATE, 2),
    (Work.GATHER, 4),
    (Work.GATHER_IN_MAP, 3),
    (Work.REMEMBER, 6),
    (Work.COUNT, 4),
)
_PARALLELISMS = ((1, 80), (2, 120), (3, 60), (4, 36), (8, 3), (16, 1))
_READINGS = ((Reading.MEMORY, 6), (Reading.COMPUTED, 2), (Reading.FILE, 1), (Reading.FORWARD_ONLY, 1))
_SIZES = ((KEY_SIZE, 4), (8, 8), (60, 40), (800, 30), (9_000, 16), (90_000, 2), (1_000_000, 1))
"""Bytes of the largest records, and weights."""

_MANY_BYTES = 4_000_000
"""So many bytes of records a source has at most."""

_BROADCAST = "broadcast"
_T = TypeVar("_T")

Edges = tuple[tuple[str, str, str], ...]


def weighted(chance: random.Random, choices: Sequence[tuple[_T, int]]) -> _T:
    """One of the choices, each as likely as its weight says."""
    return chance.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]


def draw_job(chance: random.Random) -> tuple[tuple[StormVertex, ...], Edges]:
    """Return the vertices of a job, each behind those that it reads from, and its edges."""
    shape = weighted(chance, _SHAPES)
    managers = _managers(chance)
    number = weighted(chance, _SOURCES) if shape == "sources" else 1
    layers = [[_source(chance, f"source{n}", managers) for n in range(number)]]
    if shape == "diamond":
        layers.append([_operator(chance, f"branch{n}", weighted(chance, _WORKS), managers) for n in range(2)])
    steps = weighted(chance, _STEPS) - (shape == "diamond")
    for number in range(steps):
        layers.append([_operator(chance, f"step{number}", weighted(chance, _WORKS), managers)])
    layers.append([_operator(chance, "sink", Work.SINK, managers)])
    edges = tuple(
        edge
        for producers, consumers in pairwise(layers)
        for consumer in consumers
        for edge in _edges(chance, producers, consumer)
    )
    return _pressed(chance, tuple(vertex for layer in layers for vertex in layer)), edges


def _managers(chance: random.Random) -> Iterator[str | tuple[str, ...]]:
    """The task managers of the vertices, one after the other: one each, one for all, shared, or anything."""
    how = weighted(chance, (("own", 5), ("one", 1), ("any", 3), ("shared", 3)))
    number = 0
    while True:
        number += 1
        if how == "shared":
            first = chance.randint(1, 3)
            yield tuple(f"tm{1 + (first + n) % 3}" for n in range(chance.randint(1, 3)))
        else:
            yield f"tm{number}" if how == "own" else "tm1" if how == "one" else f"tm{chance.randint(1, 3)}"


def _source(chance: random.Random, name: str, managers: Iterator[str | tuple[str, ...]]) -> StormVertex:
    parallelism = weighted(chance, _PARALLELISMS)
    greatest = weighted(chance, _SIZES)
    some = min(chance.randint(30, 220), max(2, 3 * _MANY_BYTES // (greatest * parallelism)))
    some = some if parallelism < 8 else some // 4 + 1
    shares = [chance.choice((1, 1, 1, 0.3, 0.05)) for _ in range(chance.randint(1, 3))]
    paced = chance.random() < 0.4
    rates = tuple(some / chance.uniform(0.2, 1.2) if paced else 0.0 for _ in range(chance.randint(1, 2)))
    return StormVertex(
        name=name,
        work=Work.SOURCE,
        parallelism=parallelism,
        task_manager=next(managers),
        reading=weighted(chance, _READINGS),
        records=tuple(max(1, round(some * share)) for share in shares),
        rates=rates,
        record_bytes=(min(8, chance.randint(1, greatest)) if greatest <= KEY_SIZE else 8, greatest),
        keys=chance.choice((1, 3, 20, 200)),
        hot_share=chance.choice((0.0, 0.0, 0.3, 0.9)),
    )


def _operator(
    chance: random.Random, name: str, work: Work, managers: Iterator[str | tuple[str, ...]]
) -> StormVertex:
    busy = chance.random() < 0.65
    skewed = chance.random() < 0.4
    return StormVertex(
        name=name,
        work=work,
        parallelism=weighted(chance, _PARALLELISMS),
        task_manager=next(managers),
        copies=chance.randint(1, 3) if work is Work.COPY else 1,
        service_s=chance.choice((2e-5, 2e-4, 1e-3, 3e-3)) * chance.uniform(0.5, 1.0) if busy else 0.0,
        service_skew=(1.0, chance.choice((0.0, 0.2, 3.0))) if skewed else (1.0,),
        service_mode=chance.choice(("throttle", "throttle", "exact")),
        service_steps=_bursts(chance) if chance.random() < 0.25 else (),
        apart=chance.random() < 0.3,
        ttl_s=0.005 * 200 ** chance.random() if work is Work.REMEMBER else 0.0,
    )


def _bursts(chance: random.Random) -> tuple[tuple[float, float], ...]:
    """Steps of the load: more for a while, then as before or less."""
    begins = chance.uniform(0.01, 0.5)
    return (
        (begins, chance.choice((3.0, 10.0))),
        (begins + chance.uniform(0.05, 0.5), chance.choice((1.0, 0.2))),
    )


def _edges(
    chance: random.Random, producers: list[StormVertex], consumer: StormVertex
) -> Iterator[tuple[str, str, str]]:
    """The edges from all producers to a consumer."""
    by_key = consumer.work in KEYED and consumer.parallelism > 1
    for producer in producers:
        ships = ["rescale", "rebalance", "rebalance", "hash", "hash"]
        if producer.parallelism == consumer.parallelism:
            ships += ["forward", "forward"]
        if chance.random() < 0.15:
            ships = [_BROADCAST]
        yield producer.name, consumer.name, "hash" if by_key else chance.choice(ships)


def _pressed(chance: random.Random, vertices: tuple[StormVertex, ...]) -> tuple[StormVertex, ...]:
    """The vertices with one that is slow for so long that its input queues up, most of the time."""
    records = sum(vertex.all_records for vertex in vertices if vertex.work is Work.SOURCE)
    slow = chance.choice([vertex.name for vertex in vertices if vertex.work is not Work.SOURCE])
    service_s = chance.uniform(0.3, 2.0) / records if chance.random() < 0.6 else None
    return tuple(
        replace(vertex, service_s=service_s) if service_s and vertex.name == slow else vertex
        for vertex in vertices
    )


def draw_link(chance: random.Random) -> LinkConditions:
    """Return the network between two task managers."""
    latency = 0.0 if chance.random() < 0.5 else chance.choice((0.0002, 0.001, 0.005, 0.015))
    bandwidth = None if chance.random() < 0.7 else chance.choice((3e5, 2e6, 2e7))
    return LinkConditions(latency_s=latency, bandwidth_bytes_per_s=bandwidth)


Fractions = tuple[tuple[str, str, Fraction], ...]

_SIDE_OUTPUT = 0.2
"""Share of the sinks that also read from a vertex further up."""

_OF_AN_EDGE = 0.5
"""Share of the edges that could have a fraction which have one."""

_ODD = 0.9
"""Share of the vertices that emit as the scenario says of which it says no whole number."""

_AT_RANDOM = 0.3
"""Share of the vertices with an odd selectivity whose records come at random, and not in turns."""

_MORE_ODD = 0.3
"""Share of the vertices that pass records on, or mark them, in whose place one emits so at once."""

_SHARES = {Work.EMIT: _ODD, Work.PASS: _MORE_ODD, Work.MARK: _MORE_ODD}

_FRACTIONS = tuple(map(Fraction, ("1/20", "1/4", "1/3", "2/5", "1/2", "3/4", "9/10")))
_SELECTIVITIES = tuple(map(Fraction, ("1/4", "1/3", "2/5", "1/2", "3/4", "9/10", "3/2", "7/3")))


def with_shares(
    chance: random.Random, vertices: Sequence[StormVertex], edges: Edges
) -> tuple[tuple[StormVertex, ...], Edges, Fractions]:
    """Return vertices and edges, some of which let a share of the records through, and the edges' shares."""
    for sink in vertices:
        if sink.work is Work.SINK and chance.random() < _SIDE_OUTPUT:
            edges = (*edges, *_side_output(chance, sink, vertices, edges))
    ways = Counter(source for source, _, _ in edges)
    fractions = tuple(
        (source, target, chance.choice(_FRACTIONS))
        for source, target, ship in edges
        if ways[source] > 1 and not ShipStrategy.of(ship).copies and chance.random() < _OF_AN_EDGE
    )
    odd = [
        replace(vertex, work=Work.EMIT, selectivity=chance.choice(_SELECTIVITIES))
        if chance.random() < _SHARES.get(vertex.work, 0.0)
        else vertex
        for vertex in vertices
    ]
    emitting = [
        replace(vertex, at_random=vertex.selectivity.denominator > 1 and chance.random() < _AT_RANDOM)
        for vertex in odd
    ]
    return _without_sums(emitting, edges, fractions), edges, fractions


def _side_output(
    chance: random.Random, sink: StormVertex, vertices: Sequence[StormVertex], edges: Edges
) -> Edges:
    """An edge to a sink from a vertex of its pipeline that it does not read from yet, if there is one."""
    before = {source for source, target, _ in edges if target == sink.name}
    further = {sink.name}
    for vertex in reversed(vertices):  # each stands behind those that it reads from
        if any(source == vertex.name and target in further for source, target, _ in edges):
            further.add(vertex.name)
    free = [vertex for vertex in vertices if vertex.name in further - before - {sink.name}]
    if not free:
        return ()
    producer = chance.choice(free)
    in_rows = all(ShipStrategy.of(ship).pointwise for _, _, ship in edges)
    ships = ["rescale"] if in_rows else ["rescale", "rebalance", "hash"]
    if producer.parallelism == sink.parallelism:
        ships.append("forward")
    return ((producer.name, sink.name, chance.choice(ships)),)


def _without_sums(
    vertices: Sequence[StormVertex], edges: Edges, fractions: Fractions
) -> tuple[StormVertex, ...]:
    """The vertices, of which none sums what it reads a share of."""
    partly: set[str] = set()
    shares = {edge[:2] for edge in fractions}
    known: list[StormVertex] = []
    for vertex in vertices:
        inputs = {source for source, target, _ in edges if target == vertex.name}
        reads_a_share = bool(inputs & partly) or any((source, vertex.name) in shares for source in inputs)
        if reads_a_share or vertex.selectivity.denominator > 1:
            partly.add(vertex.name)
        known.append(replace(vertex, work=Work.GATHER) if reads_a_share and vertex.work in SUMS else vertex)
    return tuple(known)


_SHARE = 0.35
"""Of the vertices whose place they may take."""

_REPLACED = frozenset({Work.PASS, Work.MARK, Work.COPY})
_HELD_BACK = 0.6
_BY_EVENT_TIME = 0.6
_SHORTEST_S, _TIMES_LONGER = 0.005, 60.0
_DISORDERS_S = (0.0, 0.0, 0.01, 0.2)
_INTERVALS_S = (0.005, 0.02, 0.2)


def with_emissions(chance: random.Random, vertices: Sequence[StormVertex]) -> tuple[StormVertex, ...]:
    """Return the vertices, some of which emit as the scenario says; sources have watermarks for them."""
    emitting = [
        _emitting(chance, vertex) if vertex.work in _REPLACED and chance.random() < _SHARE else vertex
        for vertex in vertices
    ]
    if not any(vertex.by_event_time for vertex in emitting):
        return tuple(emitting)
    return tuple(
        replace(vertex, out_of_orderness_s=chance.choice(_DISORDERS_S))
        if vertex.work is Work.SOURCE
        else vertex
        for vertex in emitting
    )


def with_watermarks(
    chance: random.Random, config: NetworkConfig, vertices: Sequence[StormVertex]
) -> NetworkConfig:
    """Return the settings, with watermarks now and then where there are any."""
    if not any(vertex.by_event_time for vertex in vertices):
        return config
    return replace(config, auto_watermark_interval_s=chance.choice(_INTERVALS_S))


def at_once(vertex: StormVertex) -> StormVertex:
    """Return a vertex that holds nothing back."""
    return replace(vertex, emit_every_s=0.0, by_event_time=False)


def _emitting(chance: random.Random, vertex: StormVertex) -> StormVertex:
    held_back = chance.random() < _HELD_BACK
    return replace(
        vertex,
        work=Work.EMIT,
        copies=1,
        selectivity=Fraction(chance.choice((1, 2, 3)) if held_back else chance.choice((2, 3))),
        emit_every_s=_SHORTEST_S * _TIMES_LONGER ** chance.random() if held_back else 0.0,
        by_event_time=held_back and chance.random() < _BY_EVENT_TIME,
    )


def sends_watermarks(case: StormCase, source: StormVertex) -> bool:
    """Return whether a vertex behind a source waits for watermarks."""
    behind, left = {source.name}, [source.name]
    while left:
        reached = left.pop()
        targets = {target for origin, target, _ in case.edges if origin == reached} - behind
        behind |= targets
        left += targets
    return any(vertex.by_event_time for vertex in case.vertices if vertex.name in behind)


def has_watermarks(case: StormCase) -> bool:
    """Return whether any are sent in a case."""
    return any(vertex.by_event_time for vertex in case.vertices)


class EventTimes:
    """The watermarks that the tasks of an attempt may have, by what its sources have emitted so far.

    A source has emitted its latest record between two looks. Data in flight that was restored may hold
    watermarks of the attempt before, which were behind the clock when this one began.
    """

    def __init__(self, case: StormCase, attempt: Any) -> None:
        self._case = case
        self._behind_ms = {
            vertex.name: round((vertex.out_of_orderness_s or 0.0) * 1e3) + 1 for vertex in case.vertices
        }
        self._begun_ms: dict[object, int] = {}
        self._looks: dict[object, tuple[int, int]] = {}  # position and time of the look before, by source
        self._emitted: dict[object, float] = {}  # when the latest record was emitted, at the latest
        self._watches = has_watermarks(case)

    def check(self, attempt: Any, *, idle: bool) -> None:
        """Check the watermarks and windows of all subtasks; `idle`: no message is under way between them.

        Raises:
            Broken: a watermark is ahead of what the sources have emitted, or of the clock, or behind it for
                no reason; or a window is kept that a watermark has passed.
        """
        if not self._watches:
            return
        least: dict[tuple[str, int], float] = {}
        present = list(attempt.present)
        restored = any(each.recovered_from is not None for each in present)
        for subtask in present:  # each vertex stands behind those that it reads from
            place = subtask.name, subtask.index
            flow = getattr(subtask, "watermarks", None)
            if flow is None:
                least[place] = self._of_source(subtask)
                continue
            least[place] = min(least[each.name, each.index] for each in subtask.upstream)
            lowest, now_ms = flow._valve.lowest, flow.clock.now_ms
            most = least[place]
            if restored:
                most = max(most, self._begun_ms.setdefault(subtask, now_ms))
            if lowest > most:
                raise Broken(f"{subtask} has the watermark {lowest}, and its sources emitted up to {most}")
            if lowest != MAX_WATERMARK and lowest >= now_ms:
                raise Broken(f"{subtask} has read the watermark {lowest} at {now_ms} ms")
            self._check_windows(subtask, flow, lowest)
            if idle and _has_read_all(subtask):
                sent = min(_sent(each) for each in subtask.upstream)
                if lowest < sent:
                    raise Broken(f"{subtask} has the watermark {lowest}, and its inputs have sent {sent}")

    def _of_source(self, source: Any) -> float:
        """The highest watermark that a source may have sent."""
        watermarks = getattr(source, "_watermarks", None)
        if watermarks is None:
            return NO_WATERMARK
        position, now_ms = source.position, watermarks.clock.now_ms
        before = self._looks.get(source)
        if before is None or before[0] != position:
            self._emitted[source] = now_ms
        self._looks[source] = position, now_ms
        sent = watermarks._sent
        if source.data_ended or (sent == MAX_WATERMARK and source._index == len(source._block)):
            return inf
        most = self._emitted[source] - self._behind_ms[source.name]
        if sent > most:
            raise Broken(f"{source} has sent the watermark {sent}, and its latest record allows {most}")
        return most

    def _check_windows(self, subtask: Any, flow: Any, lowest: int) -> None:
        windows = () if flow.windows is None else flow.windows._windows
        passed = [end for end in windows if end - 1 <= lowest != NO_WATERMARK]
        if passed:
            raise Broken(f"{subtask} keeps the window that ends at {passed[0]} ms, and has read {lowest}")


def _has_read_all(subtask: Any) -> bool:
    """Whether a task has read all that those before it have sent, which stand still."""
    if subtask.mail or subtask.times.state.name != "INPUT":
        return False
    if any(channel.queue_length for gate in subtask.gates for channel in gate.channels):
        return False
    return all(
        (each.times.state.name in ("INPUT", "CONSUMERS", "TIME") or each.ended)
        and not each.mail
        and not any(output.partition.queued.length for output in each.outputs)
        for each in subtask.upstream
    )


def _sent(subtask: Any) -> int:
    """The latest watermark that a task has sent; it stands still."""
    flow = getattr(subtask, "watermarks", None)
    if flow is not None:
        return int(flow._valve.lowest)
    watermarks = getattr(subtask, "_watermarks", None)
    return NO_WATERMARK if watermarks is None else int(watermarks._sent)


Drawn = tuple[tuple[StormVertex, ...], Edges]
"""The vertices and edges of a job."""

_SEVERAL_REGIONS = 0.3
"""Of the cases that are drawn so."""

_FULL = 0.15
"""Of those, jobs that restart as a whole."""


def set_apart(chance: random.Random, job: Drawn, another: Callable[[], Drawn]) -> Drawn:
    """Return a job, most as they were drawn; `another` draws one more."""
    if chance.random() > _SEVERAL_REGIONS:
        return job
    if chance.random() < 0.5:
        return _in_rows(chance, job)
    vertices, edges = job
    more, more_edges = another()
    return (
        (*vertices, *(replace(vertex, name=_beside(vertex.name)) for vertex in more)),
        (*edges, *((_beside(source), _beside(target), ship) for source, target, ship in more_edges)),
    )


def _beside(name: str) -> str:
    return f"{name}-beside"


def _in_rows(chance: random.Random, job: Drawn) -> Drawn:
    """The job with as many subtasks of all vertices, whose records stay in their row."""
    vertices, edges = job
    parallelism, ship = chance.randint(2, 4), chance.choice(("forward", "forward", "rescale"))
    return (
        tuple(
            replace(vertex, parallelism=parallelism, work=Work.PASS if vertex.work in KEYED else vertex.work)
            for vertex in vertices
        ),
        tuple((source, target, ship) for source, target, _ in edges),
    )


def with_failover(chance: random.Random, config: NetworkConfig) -> NetworkConfig:
    """The settings, some with restarts of the whole job."""
    full = chance.random() < _FULL
    return replace(config, failover_strategy=FailoverStrategy.FULL) if full else config


def paths_meet(case: StormCase) -> bool:
    """Whether records of one source come to a vertex on two ways."""
    sources: dict[str, frozenset[str]] = {}
    for vertex in case.vertices:  # each stands behind those that it reads from
        ways = [sources[producer.name] for producer, _ in case.inputs(vertex)]
        union = frozenset[str]().union(*ways)
        if len(union) < sum(map(len, ways)):
            return True
        sources[vertex.name] = union or frozenset({vertex.name})
    return False


def pipelines(case: StormCase) -> list[set[str]]:
    """The vertices of each pipeline, in their order: of those that no edge joins."""
    joined: list[set[str]] = [{vertex.name} for vertex in case.vertices]
    for source, target, _ in case.edges:
        one = next(names for names in joined if source in names)
        other = next(names for names in joined if target in names)
        if one is not other:
            one |= other
            joined.remove(other)
    return joined


def has_regions(case: StormCase) -> bool:
    """Whether parts of the job may restart apart from each other."""
    if len(pipelines(case)) > 1:
        return True
    in_rows = all(ShipStrategy.of(ship).pointwise for _, _, ship in case.edges)
    return in_rows and any(vertex.parallelism > 1 for vertex in case.vertices)
