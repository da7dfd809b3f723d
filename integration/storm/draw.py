"""Draws the case of a storm from its seed: a pure function.

First the job, then settings and faults. Records are cut down until a rough estimate says that the job, left
alone, is over within `LONGEST_S`. So it is known which times are generous, and a job that does not end in
time has a reason that can be told.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from netstack import CheckpointMode, LinkConditions

from .apart import paths_meet, set_apart, with_failover
from .case import KEYED, StormCase, StormVertex, Work, estimate_s, idle_checkpoint_s
from .conditions import (
    draw_config,
    draw_costs,
    draw_faults,
    lasts_for_good,
    weighted,
    with_scarce_memory,
    with_state_stored,
)
from .going_on import draw_going_on

LONGEST_S = 5.0
"""How long a job may take, by a rough estimate, if nothing goes wrong; in emulated seconds."""

DURATION_S = 25 * LONGEST_S
"""Duration of a job that has to end by itself, some restarts included."""

HOPELESS_S = 2 * LONGEST_S
"""Duration of a job that something may keep from ending for good."""

_SHAPES = (("straight", 60), ("two sources", 22), ("diamond", 18))
_STEPS = ((0, 3), (1, 6), (2, 3))
_WORKS = (Work.PASS, Work.MARK, Work.COPY, Work.FILTER, Work.SUM, Work.SUM, Work.GATHER)
_PARALLELISMS = ((1, 4), (2, 6), (3, 3), (4, 2))
_BROADCAST = "broadcast"

Edges = tuple[tuple[str, str, str], ...]


def draw_case(seed: int) -> StormCase:
    """Return the case of a seed, which is 0 or more."""
    chance = random.Random(seed)
    apart = random.Random(f"{seed} apart")
    vertices, edges = set_apart(apart, _job(chance), lambda: _job(apart))
    config, patient = draw_config(chance)
    config = with_failover(apart, config)
    case = StormCase(
        seed=seed,
        vertices=vertices,
        edges=edges,
        config=config,
        link=_link(chance),
        duration_s=DURATION_S,
        manual_checkpoints_s=_manual(chance),
        patient=patient,
    )
    case = _settled(chance, _bounded(case))
    case = replace(case, faults=draw_faults(chance, case, estimate_s(case)))
    case = replace(case, config=with_state_stored(chance, case.config))
    case = replace(case, going_on=draw_going_on(random.Random(f"{seed} goes on"), case))
    return replace(case, duration_s=HOPELESS_S) if lasts_for_good(case.faults) else case


def _job(chance: random.Random) -> tuple[tuple[StormVertex, ...], Edges]:
    shape = weighted(chance, _SHAPES)
    managers = _managers(chance)
    sources = [_source(chance, f"source{n}", managers) for n in range(2 if shape == "two sources" else 1)]
    layers = [sources]
    if shape == "diamond":
        layers.append([_operator(chance, f"branch{n}", chance.choice(_WORKS), managers) for n in range(2)])
    steps = weighted(chance, _STEPS) - (shape == "diamond")
    for number in range(steps):
        layers.append([_operator(chance, f"step{number}", chance.choice(_WORKS), managers)])
    layers.append([_operator(chance, "sink", Work.SINK, managers)])
    edges = tuple(
        edge
        for producers, consumers in pairwise(layers)
        for consumer in consumers
        for edge in _edges(chance, producers, consumer)
    )
    return _pressed(chance, tuple(vertex for layer in layers for vertex in layer)), edges


def _managers(chance: random.Random) -> Iterator[str]:
    """The task managers of the vertices, one after the other: one each, one for all, or anything."""
    how = weighted(chance, (("own", 5), ("one", 1), ("any", 4)))
    number = 0
    while True:
        number += 1
        yield f"tm{number}" if how == "own" else "tm1" if how == "one" else f"tm{chance.randint(1, 3)}"


def _source(chance: random.Random, name: str, managers: Iterator[str]) -> StormVertex:
    parallelism = weighted(chance, _PARALLELISMS)
    some = chance.randint(40, 300)
    shares = [chance.choice((1, 1, 1, 0.3, 0.05)) for _ in range(chance.randint(1, 3))]
    paced = chance.random() < 0.4
    rates = tuple(some / chance.uniform(0.2, 1.2) if paced else 0.0 for _ in range(chance.randint(1, 2)))
    return StormVertex(
        name=name,
        work=Work.SOURCE,
        parallelism=parallelism,
        task_manager=next(managers),
        records=tuple(max(1, round(some * share)) for share in shares),
        rates=rates,
        record_bytes=(8, weighted(chance, ((8, 1), (60, 4), (800, 3), (9000, 2)))),
        keys=chance.choice((1, 3, 20, 200)),
        hot_share=chance.choice((0.0, 0.0, 0.3, 0.9)),
    )


def _operator(chance: random.Random, name: str, work: Work, managers: Iterator[str]) -> StormVertex:
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


def _link(chance: random.Random) -> LinkConditions:
    latency = 0.0 if chance.random() < 0.5 else chance.choice((0.0002, 0.001, 0.005, 0.015))
    bandwidth = None if chance.random() < 0.7 else chance.choice((3e5, 2e6, 2e7))
    return LinkConditions(latency_s=latency, bandwidth_bytes_per_s=bandwidth)


def _manual(chance: random.Random) -> tuple[float, ...]:
    if chance.random() > 0.15:
        return ()
    return tuple(sorted(chance.uniform(0.0, 0.8) for _ in range(chance.randint(1, 3))))


def _bounded(case: StormCase) -> StormCase:
    """The case with so few records, and so little work on each, that it does not take too long."""
    while (longest := estimate_s(case)) > LONGEST_S:
        share = max(0.3, min(0.9, LONGEST_S / longest))
        case = replace(case, vertices=tuple(_lighter(vertex, share) for vertex in case.vertices))
    return case


def _lighter(vertex: StormVertex, share: float) -> StormVertex:
    """A vertex with that share of records; if there are few, with smaller ones and less work."""
    if vertex.work is not Work.SOURCE:
        return replace(vertex, service_s=vertex.service_s * share**0.5)
    least, greatest = vertex.record_bytes
    return replace(
        vertex,
        records=tuple(max(1, int(number * share**0.5)) for number in vertex.records),
        record_bytes=(least, max(least, int(greatest * share**0.5))),
    )


def _settled(chance: random.Random, case: StormCase) -> StormCase:
    """The case with what depends on the job: little memory for some, and times that have to suffice."""
    case = replace(case, costs=draw_costs(chance, case))
    if chance.random() < 0.15:
        case = replace(case, config=with_scarce_memory(chance, case))
    if not case.patient:
        timeout = idle_checkpoint_s(case) * chance.uniform(1.5, 4.0)
        case = replace(case, config=replace(case.config, checkpoint_timeout_s=timeout))
    if case.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        case = _comparable(case)
    return _flowing(case)


def _flowing(case: StormCase) -> StormCase:
    """A case that does not come to a standstill as a real job would.

    Where paths meet again, a barrier that overtakes on one may have to wait on an exchange that stays
    aligned for the one on the other; and its task cannot send that in the middle of a record that finds no
    buffers, since nobody reads behind the waiting barrier. So there, records fit into one buffer.
    """
    if not (paths_meet(case) and case.config.takes_unaligned_checkpoints):
        return case
    least = max(256, case.config.min_segment_bytes)
    return replace(
        case,
        vertices=tuple(
            replace(vertex, record_bytes=(8, min(60, vertex.record_bytes[1]))) for vertex in case.vertices
        ),
        config=replace(
            case.config,
            min_segment_bytes=least,
            starting_segment_bytes=max(least, case.config.starting_segment_bytes),
        ),
    )


def _comparable(case: StormCase) -> StormCase:
    """A case whose output still tells something if records are processed twice.

    Of a sum then only its bound is known, so nothing may be made of it but output.
    """
    last = {source for source, target, _ in case.edges if case.vertex(target).work is Work.SINK}
    return replace(
        case,
        vertices=tuple(
            replace(vertex, work=Work.PASS) if vertex.work is Work.SUM and vertex.name not in last else vertex
            for vertex in case.vertices
        ),
    )
