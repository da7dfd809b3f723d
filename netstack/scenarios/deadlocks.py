"""Job shapes that can deadlock under unaligned checkpoints.

Even if checkpoints are unaligned, barriers cannot overtake data on the exchanges into some vertices
(`aligned_readers`). So one checkpoint may be aligned at some vertices and unaligned at others. Then the tasks
can wait for each other::

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
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .ship_strategies import NamedExchange, ShipStrategy, aligned_readers, channel_counts

__all__ = ["Standstill", "standstills"]


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
