"""Jobs that unaligned checkpoints can bring to a stand, by the shape of the job.

Barriers overtake no data on the way into some vertices (`aligned_readers`), also where checkpoints are
unaligned. So one checkpoint may be both, and then it can wait for itself::

            /--- b ---\\          b -> c is forward: each barrier blocks its channel of c
    x --- a            c         until the barriers of all channels of c are there
            \\---------/          x -> a is forward: the barrier comes behind all data of x

`b` begins its checkpoint as soon as one barrier has overtaken what waits for it, and sends its own on, which
blocks its channel at `c`. Now `c` waits for the barrier of a subtask of `a` that comes behind data, this `a`
for `b` to take its output, and `b` for `c` to read on. Nobody goes on, also after the checkpoint has expired.
Flink 2.2.1 stands still just so (measured). With aligned checkpoints it does not: there `b` sends its barrier
when those of all subtasks of `a` are there.

Where barriers overtake after a timeout only, a checkpoint that has expired leaves channels blocked that the
next ones need, and then no diamond is needed: any vertex whose barriers come behind data will do for `a`
(measured as well).

A task handles a barrier between two records only. So a vertex will do for `a` as well that waits for buffers
in the middle of one, as it writes more of it than there is room for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .wiring import POINTWISE, Exchange, aligned_readers, channel_counts


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
    exchanges: Sequence[Exchange], parallelism: Mapping[str, int], write_much: Collection[str] = ()
) -> Iterator[Standstill]:
    """Yield how unaligned checkpoints may bring a job of these exchanges to a stand.

    `parallelism`: that of each vertex, by name. `write_much`: vertices that may write more for one record
    than a buffer and the overdraft buffers hold. Whether it comes to that depends on the load: `blocked` has
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
        pointwise = [each for each in exchanges if each.ship in POINTWISE and each.target != blocked]
        # Whose subtask may have no barrier but those of one subtask before it, past `blocked`.
        as_late = _all_before(others, pointwise) | set(others)
        for late in sorted(come_late & before):
            if late != blocked:
                yield Standstill(late, blocked, joins, at_once=late in as_late)


def _most_channels(vertex: str, exchanges: Collection[Exchange], parallelism: Mapping[str, int]) -> int:
    """The channels of the subtask of a vertex that has the most."""
    return sum(
        max(channel_counts(each.ship, parallelism[each.source], parallelism[vertex]))
        for each in exchanges
        if each.target == vertex
    )


def _all_before(vertices: Iterable[str], exchanges: Collection[Exchange]) -> set[str]:
    """All vertices whose data come to one of these, by whatever ways."""
    before: set[str] = set()
    left = list(vertices)
    while left:
        vertex = left.pop()
        new = {each.source for each in exchanges if each.target == vertex} - before
        before |= new
        left += new
    return before
