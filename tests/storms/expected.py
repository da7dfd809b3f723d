"""Expected records of a storm, computed without any network: each record, its possible number, and the total.

Usually the total is one number. If a share p/q of the records passes, in regular turns, then the order of
records decides which ones pass, and the total has bounds::

    fraction of an edge   starts again in each life of a producer: of n records in L lives
                          at most p/q n pass, and at least p/q n - L (q-1)/q
    selectivity           is kept in state: of n records over S subtasks
                          at most p/q n are emitted, and at least p/q n - S (q-1)/q

The number is exact for a single subtask, and if the number of records of each subtask is known. In a job
that never failed, the records of a source that pass an edge are known one by one. With random choice, each
record yields the whole number below or above the selectivity; the total is rarely further from p/q n than
`by_chance` says.

A life of a subtask counts only if the next one began with a checkpoint of it. Two restarts from the same
checkpoint leave a life between them that has no effect::

    life 1 ....[1]....[2]..x   life 2 from [2] ..x   life 3 from [2] ..[3].. to the end      two count
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, log, sqrt
from typing import Protocol

import numpy as np
from msgspec import UNSET, UnsetType

from buffers import RecordBlock
from netstack import CheckpointMode, Job, ShipStrategy, assign_to_operators, default_max_parallelism

from .case import StormCase, StormVertex, Work
from .operators import key_hash, made_of, records_of

_HARDLY_EVER = 1e-13
"""Chance that a right number lies outside its bounds."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Records: each comes `least` to `most` times, and all together `low` to `high` times."""

    least: Counter[bytes]
    most: Counter[bytes]
    low: int
    high: int

    @classmethod
    def exactly(cls, records: Counter[bytes]) -> Amount:
        """These and no others."""
        total = records.total()
        return cls(records, records, total, total)

    @property
    def is_exact(self) -> bool:
        """Whether it is known which records these are."""
        return self.least is self.most

    def times(self, number: int) -> Amount:
        """Each of the records so often."""
        if number == 1:
            return self
        most = _times(self.most, number)
        least = most if self.is_exact else _times(self.least, number)
        return Amount(least, most, self.low * number, self.high * number)

    def within(self, low: int, high: int) -> Amount:
        """As many, as far as `low` and `high` leave room for that."""
        return Amount(self.least, self.most, max(self.low, low), min(self.high, high))


NOTHING = Amount.exactly(Counter())


def together(amounts: Iterable[Amount]) -> Amount:
    """All of them."""
    some = list(amounts)
    if len(some) == 1:
        return some[0]
    most = sum((each.most for each in some), Counter[bytes]())
    exact = all(each.is_exact for each in some)
    least = most if exact else sum((each.least for each in some), Counter[bytes]())
    return Amount(least, most, sum(each.low for each in some), sum(each.high for each in some))


@dataclass(frozen=True, slots=True)
class Flow:
    """What all subtasks of a vertex read, what they write, and what of that goes over each edge."""

    read: Amount
    written: Amount
    sent: dict[str, Amount]
    """By consumer."""


def flows_of(case: StormCase, lives: Lives | None = None) -> dict[str, Flow]:
    """What goes through each vertex of a case, by name; without `lives`, in a job that never failed."""
    return _Flows(case, lives).all()


def expected_output(case: StormCase, lives: Lives | None = None) -> dict[str, Amount]:
    """What each sink of a case has to commit in the end, by name; `lives` as of `flows_of`."""
    flows = flows_of(case, lives)
    return {vertex.name: flows[vertex.name].written for vertex in case.vertices if vertex.work is Work.SINK}


class _Flows:
    def __init__(self, case: StormCase, lives: Lives | None) -> None:
        self._case = case
        self._never_failed = lives is None or (lives.restarts == 0 and len(lives.runs) == 1)
        self._lives = lives
        # Records that come twice shift the turns of those behind them, so it is not known which these are.
        self._shifts = not self._never_failed and case.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE
        self._flows: dict[str, Flow] = {}

    def all(self) -> dict[str, Flow]:
        case = self._case
        for vertex in case.vertices:  # each stands behind those that it reads from
            if vertex.work is Work.SOURCE:
                subtasks = range(vertex.parallelism)
                own = Counter(record for each in subtasks for record in records_of(case, vertex, each))
                read, written = NOTHING, Amount.exactly(own)
            else:
                read, written = self._behind(vertex)
            targets = [target for source, target, _ in case.edges if source == vertex.name]
            sent = {target: self._over(vertex, target, written) for target in targets}
            self._flows[vertex.name] = Flow(read, written, sent)
        return self._flows

    def _over(self, vertex: StormVertex, target: str, written: Amount) -> Amount:
        """What goes over an edge."""
        share = self._case.fraction(vertex.name, target)
        if share == 1:
            return written
        if vertex.work is Work.SOURCE and self._never_failed:
            own = (records_of(self._case, vertex, subtask) for subtask in range(vertex.parallelism))
            return Amount.exactly(Counter(record for records in own for record in in_turns(records, share)))
        lives = vertex.parallelism if self._lives is None else self._lives.of(vertex.name)
        some = Amount(Counter(), written.most, 0, written.high)
        return some.within(at_least(share, written.low, lives), self._most_over(vertex, share, written))

    def _most_over(self, vertex: StormVertex, share: Fraction, written: Amount) -> int:
        """How many records go over an edge at most; where it is known who writes how many, by subtask."""
        if vertex.work is Work.SOURCE and (self._lives is None or len(self._lives.runs) == 1):
            return sum(floor(share * vertex.record_count(each)) for each in range(vertex.parallelism))
        return floor(share * written.high)

    def _behind(self, vertex: StormVertex) -> tuple[Amount, Amount]:
        """What a vertex reads and writes."""
        inputs = self._case.inputs(vertex)
        sent = [self._flows[producer.name].sent[vertex.name] for producer, _ in inputs]
        if all(ShipStrategy.of(ship).copies for _, ship in inputs):  # each subtask sees, and does, the same
            seen = together(sent)
            read = seen.times(vertex.parallelism)
            if vertex.selectivity.denominator == 1:
                return read, self._made(vertex, seen).times(vertex.parallelism)
            return read, self._emitted(vertex, [each.times(vertex.parallelism) for each in sent])
        ways = zip(sent, inputs, strict=True)
        seen_over = [
            each.times(vertex.parallelism if ShipStrategy.of(ship).copies else 1) for each, (_, ship) in ways
        ]
        read = together(seen_over)
        if vertex.selectivity.denominator > 1:
            return read, self._emitted(vertex, seen_over)
        return read, self._made(vertex, read)

    def _emitted(self, vertex: StormVertex, seen: list[Amount]) -> Amount:
        """What comes of what a vertex reads over each edge, where its selectivity is no whole number."""
        inputs = self._case.inputs(vertex)
        if vertex.apart:  # each edge is counted for itself
            pairs = zip(seen, inputs, strict=True)
            return together(self._of_input(vertex, each, [edge]) for each, edge in pairs)
        return self._of_input(vertex, together(seen), inputs)

    def _of_input(self, vertex: StormVertex, seen: Amount, inputs: list[tuple[StormVertex, str]]) -> Amount:
        share, lives = vertex.selectivity, self._lives
        if vertex.at_random:
            return self._drawn(vertex, seen)
        united = 1 if lives is None else lives.united(vertex.name)
        keepers = vertex.parallelism if lives is None else lives.keepers(vertex.name)
        owed = united * Fraction(share.denominator - 1, share.denominator)
        least, most = _times(seen.least, floor(share)), _times(seen.most, floor(share + owed))
        some = Amount(least, most, least.total(), most.total())
        if lives is None or len(lives.runs) == 1:
            counts = self._read_by_subtask(vertex, seen, inputs)
            if counts is not None:
                exact = sum(floor(share * count) for count in counts)
                return some.within(exact, exact)
        return some.within(at_least(share, seen.low, keepers), floor(share * seen.high))

    def _drawn(self, vertex: StormVertex, seen: Amount) -> Amount:
        """What comes of what a vertex reads where chance says whether a record gives one more."""
        share, lives = vertex.selectivity, self._lives
        counts = vertex.parallelism if lives is None else lives.of(vertex.name)
        least, most = seen.times(floor(share)), seen.times(ceil(share))
        some = Amount(least.least, most.most, least.low, most.high)
        low, high = by_chance(share, seen.low, counts)[0], by_chance(share, seen.high, counts)[1]
        return some.within(low, high)

    def _read_by_subtask(
        self, vertex: StormVertex, seen: Amount, inputs: list[tuple[StormVertex, str]]
    ) -> list[int] | None:
        """How many records each subtask of a vertex reads; None where that is not known."""
        ships = {ship for _, ship in inputs}
        if vertex.parallelism == 1 and seen.low == seen.high:
            return [seen.low]
        if ships == {ShipStrategy.BROADCAST} and seen.low == seen.high:
            return [seen.low // vertex.parallelism] * vertex.parallelism
        if ships == {ShipStrategy.HASH} and seen.is_exact:
            return _by_key(seen.most, vertex.parallelism)
        if ships == {ShipStrategy.FORWARD} and all(
            self._is_known(producer, vertex) for producer, _ in inputs
        ):
            subtasks = range(vertex.parallelism)
            return [sum(producer.record_count(each) for producer, _ in inputs) for each in subtasks]
        return None

    def _is_known(self, producer: StormVertex, consumer: StormVertex) -> bool:
        """Whether a producer is a source all of whose records go to a consumer."""
        return producer.work is Work.SOURCE and self._case.fraction(producer.name, consumer.name) == 1

    def _made(self, vertex: StormVertex, seen: Amount) -> Amount:
        """What a vertex makes of the records it sees, where each gives as many whatever others there are."""
        if vertex.work is Work.EMIT:
            return seen.times(int(vertex.selectivity))
        most = made_of(vertex, seen.most)
        if seen.is_exact:
            return Amount.exactly(most)
        least = made_of(vertex, seen.least)
        if vertex.work is not Work.FILTER:
            return Amount(least, most, seen.low * vertex.copies, seen.high * vertex.copies)
        some = Amount(least, most, least.total(), most.total())
        low = 0 if self._shifts else seen.low - (seen.most.total() - most.total())
        return some.within(low, seen.high - (seen.least.total() - least.total()))


def in_turns(records: list[bytes], share: Fraction) -> Iterator[bytes]:
    """The records that a fraction lets through, from the first one on."""
    for number, record in enumerate(records):
        if floor(share * (number + 1)) > floor(share * number):
            yield record


def at_least(share: Fraction, records: int, counts: int) -> int:
    """How many records go at least, of so many, where as many counts leave off somewhere."""
    return max(0, ceil(share * records - counts * Fraction(share.denominator - 1, share.denominator)))


def by_chance(share: Fraction, records: int, counts: int) -> tuple[int, int]:
    """How many records go at least and at most, of so many in as many counts, which may draw alike.

    Each count begins with the same numbers after a restart, so no two are taken to make up for each other;
    and any of its records may be its last (Hoeffding's bound, for each of them).
    """
    if not records:
        return 0, 0
    strays = counts * sqrt(records / 2 * log(2 * records * counts / _HARDLY_EVER))
    low, high = ceil(share * records - strays), floor(share * records + strays)
    return max(low, floor(share) * records), min(high, ceil(share) * records)


def _by_key(records: Counter[bytes], parallelism: int) -> list[int]:
    """How many records each subtask is sent by their keys."""
    hashes = key_hash(RecordBlock.from_payloads(list(records)))
    subtasks = assign_to_operators(hashes, default_max_parallelism(parallelism), parallelism)
    numbers = np.fromiter(records.values(), dtype=np.int64, count=len(records))
    return [int(count) for count in np.bincount(subtasks, weights=numbers, minlength=parallelism)]


def _times(records: Counter[bytes], times: int) -> Counter[bytes]:
    if times == 1:
        return records
    return Counter({record: number * times for record, number in records.items()}) if times else Counter()


class Returned(Protocol):
    """A failure and the restart after it, of a job or of its result."""

    @property
    def tasks(self) -> Sequence[str] | UnsetType:
        """Which tasks it was of; none are named if it was of all."""
        ...

    @property
    def restarted_at(self) -> float | None:
        """When they were there again; None: they were not."""
        ...

    @property
    def checkpoint_id(self) -> int | None:
        """What they began with; None: with nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a job: what it began with, at which parallelism, and how often it came back."""

    parallelism: Mapping[str, int]
    restarts: Sequence[Returned]
    began_with: int | None = None

    def lives(self, vertex: str, goes_on_with: int | None) -> int:
        """Lives of the subtasks of a vertex that count, if another run goes on with that checkpoint."""
        subtasks = range(self.parallelism[vertex])
        return sum(self._lives(vertex, subtask, goes_on_with) for subtask in subtasks)

    def _lives(self, vertex: str, subtask: int, goes_on_with: int | None) -> int:
        ids = [self.began_with]
        ids += [each.checkpoint_id for each in self.restarts if _is_of(each, vertex, subtask)]
        lives = sum(now != before for before, now in pairwise(ids))
        return lives + (goes_on_with is None or goes_on_with != ids[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """The lives of all subtasks of a job, in one run, or in two of which one goes on from the other."""

    runs: tuple[Run, ...]

    @property
    def restarts(self) -> int:
        """How often the job, or a part of it, began again."""
        return sum(len(run.restarts) for run in self.runs) + len(self.runs) - 1

    def of(self, vertex: str) -> int:
        """How many lives of subtasks of a vertex count."""
        return sum(run.lives(vertex, goes_on) for run, goes_on in self._chain())

    def _chain(self) -> Iterator[tuple[Run, int | None]]:
        for run, after in zip(self.runs, [*self.runs[1:], None], strict=True):
            yield run, None if after is None else after.began_with

    def keepers(self, vertex: str) -> int:
        """How many subtasks of a vertex may have kept, at their end, a part of what is in state.

        Of those that had ended before the checkpoint that another run goes on from, it has no state.
        """
        return sum(run.parallelism[vertex] for run in self.runs)

    def united(self, vertex: str) -> int:
        """Of how many subtasks one has got at most what they had kept in a list of state."""
        first, last = self.runs[0].parallelism[vertex], self.runs[-1].parallelism[vertex]
        return max(1, -(-first // last))


def lives_of(jobs: Sequence[Job]) -> Lives:
    """Return the lives of jobs of which each goes on from the one before."""
    return Lives(
        runs=tuple(
            Run(
                parallelism={vertex.name: vertex.parallelism for vertex in job.scenario.vertices},
                restarts=job.restarts,
                began_with=None if job.start is None else job.start.initial.metadata.checkpoint_id,
            )
            for job in jobs
        )
    )


def _is_of(restart: Returned, vertex: str, subtask: int) -> bool:
    """Whether a subtask was there again after a restart; of what was lost only that it began may be known."""
    if restart.restarted_at is None and restart.checkpoint_id is None:
        return False
    if restart.tasks is UNSET or not restart.tasks:
        return True
    for task in restart.tasks:
        name, _, indices = task.partition("[")
        if name == vertex:
            return not indices or str(subtask) in indices.rstrip("]").split(", ")
    return False
