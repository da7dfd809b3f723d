"""The order of records: those that went the same way come as they were sent.

A channel keeps the order of what is sent over it. So of the records of one subtask of a source, those come in
order that had no choice: all of them, as long as they stay together, or those of a key, as long as a hash
exchange keeps these together::

    source[0] --forward--> map[0] --rebalance--> sink[0]      all that come to sink[0] are in order
    source[0] --hash-----> map[..] --hash------> sink[0]      those of each key are
    source[0] --rebalance> map[..] --hash------> sink[0]      none have to be

A rebalance exchange deals records out in turns. So where it is the only choice on the way, and those of a
subtask of the source come to it alone, each subtask behind it has every n-th of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from netstack import CheckpointMode, ShipStrategy, Transaction

from .case import GATHERS, SUMS, StormCase, StormVertex, Work
from .storm_records import KEY_SIZE, key_of

_HEAD = re.compile(rb"(?s)\A.{%d}\d*(source\d+)\.(\d+)\.(\d+)" % KEY_SIZE)


_SHOWN = 8
"""Records that a line names at most."""


class Order(IntEnum):
    """Which records of a subtask of a source come in order."""

    NONE = 0
    OF_KEYS = 1
    ALL = 2


class Together(IntEnum):
    """Which records of a subtask of a source are in one subtask of a vertex."""

    NONE = 0
    OF_KEYS = 1
    ALL = 2


class Way(NamedTuple):
    """What is known of the records of a source at a vertex."""

    order: Order
    together: Together


def orders_at(case: StormCase, source: StormVertex) -> dict[str, Order]:
    """Which records of a source are in order in each subtask of a vertex, by the vertex's name."""
    ways = {source.name: Way(Order.ALL, Together.ALL)}
    for vertex in case.vertices:
        reached = [(producer, ship) for producer, ship in case.inputs(vertex) if producer.name in ways]
        if len(reached) == 1:
            producer, ship = reached[0]
            ways[vertex.name] = _behind(vertex, _over(producer, vertex, ship, ways[producer.name]))
        elif reached:
            ways[vertex.name] = Way(Order.NONE, Together.NONE)
    return {name: way.order for name, way in ways.items()}


def _over(producer: StormVertex, consumer: StormVertex, ship: str, way: Way) -> Way:
    """What is known behind an exchange."""
    one_producer = producer.parallelism == 1 or ship == ShipStrategy.FORWARD
    one_producer = one_producer or (
        ship == ShipStrategy.RESCALE and producer.parallelism <= consumer.parallelism
    )
    together = Together.ALL if one_producer else way.together
    order = Order(min(way.order, int(together)))
    if consumer.parallelism == 1:
        return Way(order, Together.ALL)
    if ship == ShipStrategy.FORWARD or (
        ship == ShipStrategy.RESCALE and producer.parallelism >= consumer.parallelism
    ):
        return Way(order, way.together)
    return Way(order, Together.OF_KEYS if ship == ShipStrategy.HASH else Together.NONE)


def _behind(vertex: StormVertex, way: Way) -> Way:
    """What is known behind a vertex."""
    if vertex.work in SUMS or vertex.work is Work.GATHER_IN_MAP or vertex.by_event_time:
        # Of windows: behind a restart records count as of the first one, until a watermark comes.
        return Way(Order.NONE, way.together)
    if vertex.work in GATHERS:
        return Way(Order(min(way.order, Order.OF_KEYS)), way.together)
    return way


def check_order(case: StormCase, transactions: Sequence[Transaction], restarts: int) -> Iterator[str]:
    """The records that each subtask of the sink has committed are in order, as far as they have to be.

    Where records may be processed twice, they are in order as long as nothing has failed.
    """
    if restarts and case.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        return
    if restarts and case.config.checkpoint_interval_s is None:
        return  # what was committed before the restart is committed again
    orders = {
        vertex.name.encode(): orders_at(case, vertex).get("sink", Order.NONE)
        for vertex in case.vertices
        if vertex.work is Work.SOURCE
    }
    by_subtask: dict[int, list[Transaction]] = defaultdict(list)
    # What is put out at the end without a checkpoint is transaction 0, and the last one.
    for each in sorted(transactions, key=lambda each: (each.checkpoint_id == 0, *each[:3])):
        by_subtask[each.subtask].append(each)
    for subtask, own in by_subtask.items():
        yield from _out_of_order(orders, subtask, [record for each in own for record in each.records])


def check_turns(case: StormCase, transactions: Sequence[Transaction]) -> Iterator[str]:
    """In a run without failures, records that were dealt out have come to the sink in turns."""
    dealt = {each.name.encode(): turns for each in case.vertices if (turns := turns_of(case, each))}
    for transaction in transactions:
        numbers: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)
        for head in map(_HEAD.match, transaction.records):
            if head is not None and head[1] in dealt:
                numbers[head[1], head[2]].append(int(head[3]))
        for (source, subtask), own in numbers.items():
            places = {number % dealt[source] for number in own}
            if len(places) > 1:
                name = f"{source.decode()}[{subtask.decode()}]"
                text = f"sink[{transaction.subtask}] has records {own[:_SHOWN]} of {name}"
                yield f"{text}, which deals out to {dealt[source]} in turns"


def turns_of(case: StormCase, source: StormVertex) -> int:
    """Among how many subtasks the records of a source are dealt out on their way; 0: not in turns alone."""
    if case.config.adaptive_partitioner_enabled:
        return 0
    turns, alone, vertex = 1, True, source
    while vertex.work is not Work.SINK:
        ways = [(target, ship) for origin, target, ship in case.edges if origin == vertex.name]
        if len(ways) != 1 or vertex.work not in (Work.SOURCE, Work.PASS):
            return 0
        ((target, ship),) = ways
        producer, vertex = vertex, case.vertex(target)
        if ship == ShipStrategy.REBALANCE and turns == 1 and alone:
            turns = vertex.parallelism
        elif ship != ShipStrategy.FORWARD and vertex.parallelism > 1:
            return 0
        one_producer = producer.parallelism == 1 or ship == ShipStrategy.FORWARD
        alone = alone and one_producer and len(case.inputs(vertex)) == 1
    return turns if vertex.parallelism > 1 and turns > 1 else 0


def _out_of_order(orders: dict[bytes, Order], subtask: int, records: Sequence[bytes]) -> Iterator[str]:
    last: dict[tuple[bytes, ...], int] = {}
    for record in records:
        head = _HEAD.match(record)
        order = Order.NONE if head is None else orders[head[1]]
        if head is None or order is Order.NONE:
            continue
        place = (head[1], head[2], key_of(record) if order is Order.OF_KEYS else b"")
        number = int(head[3])
        if number < last.get(place, -1):
            text = f"record {number} of {head[1].decode()}[{head[2].decode()}] behind {last[place]}"
            yield f"out of order in sink[{subtask}]: {text}"
            return
        last[place] = number
