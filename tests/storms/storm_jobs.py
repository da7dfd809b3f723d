"""Draws the job of a storm: its vertices, where they run, and how records go between them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from netstack import LinkConditions

from .case import KEYED, Reading, StormVertex, Work
from .storm_records import KEY_SIZE

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
