"""What flows through a job: records over each exchange, what a vertex makes of them, to whom they go.

Flink counts what a task reads and what it emits, over all its inputs and outputs together. Over an exchange
flows what its producer emits, if that has no other; else what its consumer reads, if that has no other; else
it is not told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...analysis.known_values import middle
from .cluster_job import FlinkEdge, FlinkJob, FlinkVertex
from .firings import Firings, account_s, firings_of
from .loads import LEAST_RECORDS, longer_per_s, passed_s
from .sampling import Samples, SubtaskSamples

ALIKE = 0.02
"""A ratio this close to 1 is taken for 1: counts of two ends are never of the same moment."""

_IN_FLIGHT = 0.03
"""How far two counts of the same records may be apart."""

_SIGMAS = 3.0
"""How far counts of now may be off those since the start by chance."""

_EXACT = 0.03
"""A ratio of what was watched that may be so far off tells less than the counts since the start."""

_ROUND_BURSTS = tuple(step * 10.0**power for power in range(-2, 2) for step in (1, 2, 5))
"""Seconds that people leave between the bursts of a source."""

_ROUNDED = 0.02
"""A count of bursts that is exact may still be so far off, for tasks are never asked at the same moment."""

_LEAST_BURST_S = 0.02
_LONGEST_BURST_S = 60.0
_LARGEST_BATCH = 1000


class Counts(NamedTuple):
    """Records per second now and since the start, and how many were counted for that.

    Now is the time watched, and the minute before where the load was the same. Tasks are asked one after the
    other, so each is timed by its own account.
    """

    now_per_s: float
    since_per_s: float
    watched: float
    total: float

    def times(self, factor: float) -> Counts:
        """That many times as much."""
        return Counts(*(value * factor for value in self))


def _together(parts: Iterable[Counts]) -> Counts:
    return Counts(*(sum(values) for values in zip(Counts(0, 0, 0, 0), *parts, strict=True)))


class JobFlows:
    """The flows of one job, from what its tasks have counted; a rate or ratio that is not told is None.

    `growth` says by the vertex's id how the queues before its subtasks grow, as shares of what they read.
    """

    def __init__(
        self, job: FlinkJob, samples: Samples, growth: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        self._growth = growth or {}
        self._job = job
        self._samples = samples
        self._by_id = {vertex.id: vertex for vertex in job.vertices}
        every = [subtask for subtasks in samples.values() for subtask in subtasks]
        self._watched_s = passed_s(samples)
        self._age_s = middle(account_s(subtask.samples[-1]) or None for subtask in every if subtask.samples)

    def _each(self, vertex: FlinkVertex, field: str) -> list[Counts] | None:
        """The counts of each subtask of a vertex."""
        counts = [self._count(subtask, field) for subtask in self._samples[vertex.id]]
        known = [count for count in counts if count is not None]
        return known if len(known) == vertex.parallelism else None

    def _count(self, subtask: SubtaskSamples, field: str) -> Counts | None:
        total = subtask.total(field)
        if total is None:
            return None
        watched = subtask.increase(field) or 0.0
        watched_s = subtask.accounted_s or self._watched_s or subtask.seconds
        age_s = account_s(subtask.samples[-1]) or self._age_s or 1.0
        if not watched_s:
            return Counts(0.0, total / age_s, watched, total)
        rate = longer_per_s(watched / watched_s, watched_s, subtask.minute_per_s(field))
        return Counts(rate, total / age_s, watched, total)

    def _counts(self, vertex: FlinkVertex, field: str) -> Counts | None:
        each = self._each(vertex, field)
        return None if each is None else _together(each)

    def over(self, edge: FlinkEdge) -> Counts | None:
        """What flows over an exchange, as it is read."""
        producer, consumer = self._by_id[edge.source], self._by_id[edge.target]
        if len(self._job.inputs(consumer)) == 1:
            return self._counts(consumer, "records_in")
        counts = self._counts(producer, "records_out")
        if counts is None or len(self._job.outputs(producer)) > 1:
            return None
        copies = consumer.parallelism if edge.strategy == "BROADCAST" else 1
        return counts.times(copies)

    def selectivities(self, vertex: FlinkVertex) -> list[float] | None:
        """Records that a vertex emits for each that it reads, by its inputs.

        Of several inputs, one may account for all that is emitted; else all count alike.
        """
        edges = self._job.inputs(vertex)
        emitted, read = self._emitted(vertex), self._counts(vertex, "records_in")
        if emitted is None or read is None or read.total < LEAST_RECORDS:
            return None
        # Of several outputs a firing counts all together.
        firings = self.firings(vertex) if len(self._job.outputs(vertex)) == 1 else None
        ratio = _ratio(emitted, read)
        if firings is not None and firings.records and read.now_per_s:
            ratio = firings.records / firings.period_s / read.now_per_s
        elif self.fires_unseen(vertex):
            ratio = emitted.since_per_s / read.since_per_s
        if len(edges) > 1:
            for place, edge in enumerate(edges):
                alone = self.over(edge)
                if alone is not None and _are_the_same(emitted, alone):
                    return [1.0 if other == place else 0.0 for other in range(len(edges))]
        return [1.0 if abs(ratio - 1) <= ALIKE else ratio] * len(edges)

    def _emitted(self, vertex: FlinkVertex) -> Counts | None:
        """What a vertex emits over the exchange that carries the most."""
        outputs = self._job.outputs(vertex)
        if len(outputs) == 1:
            return self._counts(vertex, "records_out")
        over = [_unicast(self.over(edge), edge, self._by_id[edge.target]) for edge in outputs]
        known = [counts for counts in over if counts is not None]
        return max(known, key=lambda counts: counts.total) if known else None

    def fraction(self, edge: FlinkEdge) -> float:
        """Share of what the producer emits that goes over this exchange; 1 where it is not told."""
        producer = self._by_id[edge.source]
        if len(self._job.outputs(producer)) == 1:
            return 1.0
        most, here = self._emitted(producer), _unicast(self.over(edge), edge, self._by_id[edge.target])
        if most is None or here is None or not most.total:
            return 1.0
        share = _ratio(here, most)
        return 1.0 if share >= 1 - ALIKE else share

    def shares(self, vertex: FlinkVertex) -> list[float] | None:
        """How often a record goes to each subtask of a vertex, read or not; the sum is 1."""
        each = self._each(vertex, "records_in")
        if each is None or sum(counts.total for counts in each) < LEAST_RECORDS * vertex.parallelism:
            return None
        whole = _together(each)
        growth = self._growth.get(vertex.id, [0.0] * len(each))
        shares = [_ratio(counts, whole) * (1 + more) for counts, more in zip(each, growth, strict=True)]
        return [share / sum(shares) for share in shares]

    def firings(self, vertex: FlinkVertex) -> Firings | None:
        """How often a vertex emits, and how much, if it does so at times; None: it emits when it reads."""
        return firings_of(self._job, vertex, self._samples) if self._job.outputs(vertex) else None

    def fires_unseen(self, vertex: FlinkVertex) -> bool:
        """Whether windows of a vertex fire, as its description says, and hardly emitted while watched."""
        firings, emitted = self.firings(vertex), self._counts(vertex, "records_out")
        few = emitted is not None and emitted.watched < LEAST_RECORDS
        return few and firings is not None and not firings.records

    def since_per_s(self, vertex: FlinkVertex) -> float:
        """Records per second that a vertex has emitted on average since the start; 0: not reported."""
        counts = self._counts(vertex, "records_out")
        return 0.0 if counts is None else counts.since_per_s

    def emitted_at_once(self, vertex: FlinkVertex) -> int:
        """The number of records in which a source's counts go up, whenever one looks; 1: any."""
        counts = [
            int(sample["records_out"])
            for subtask in self._samples[vertex.id]
            for sample in subtask.samples
            if sample.get("records_out")
        ]
        return math.gcd(*counts) if len(set(counts)) >= 4 else 1

    def burst_s(self, vertex: FlinkVertex, rate: float) -> float | None:
        """Seconds whose records a paced source emits all at once; None: they come one by one.

        It is a round number where one lies within the error of the count, a burst more or less.
        """
        at_once = self.emitted_at_once(vertex)
        seconds = at_once / rate if rate else 0.0
        if at_once == 1 or not _LEAST_BURST_S <= seconds <= _LONGEST_BURST_S:
            return None
        counted = max(subtask.increase("records_out") or 0.0 for subtask in self._samples[vertex.id])
        error = max(_ROUNDED, at_once / counted if counted else 0.0)
        nearest = min(_ROUND_BURSTS, key=lambda round_s: abs(math.log(round_s / seconds)))
        return nearest if abs(seconds / nearest - 1) <= error else float(f"{seconds:.4g}")

    def batch(self, vertex: FlinkVertex) -> int:
        """Records that come of one call of an unpaced source's chain."""
        at_once = self.emitted_at_once(vertex)
        return at_once if at_once <= _LARGEST_BATCH else 1


def _ratio(part: Counts, whole: Counts) -> float:
    """Return the ratio of the time watched, or since the start where that is more exact and the two agree.

    Counts since the start lack what waits before a task, which matters where it is young, and include its
    start. They count alone only where nothing was seen of the whole.
    """
    since = part.since_per_s / whole.since_per_s if whole.since_per_s else 0.0
    if not whole.watched or not whole.now_per_s:
        return since
    now = part.now_per_s / whole.now_per_s
    if part.watched < LEAST_RECORDS or whole.watched < LEAST_RECORDS:
        expected = since * whole.watched
        agree = abs(now - since) * whole.watched <= _SIGMAS * math.sqrt(max(expected, 1.0))
        return since if agree else now
    by_chance = math.sqrt(1 / part.watched + 1 / whole.watched)
    return since if by_chance > _EXACT and abs(now - since) <= _SIGMAS * since * by_chance else now


def _are_the_same(one: Counts, other: Counts) -> bool:
    """Whether two ends count the same records: those in flight between them aside."""
    return any(
        theirs > 0 and abs(ours / theirs - 1) <= _IN_FLIGHT
        for ours, theirs in ((one.now_per_s, other.now_per_s), (one.since_per_s, other.since_per_s))
    )


def _unicast(counts: Counts | None, edge: FlinkEdge, consumer: FlinkVertex) -> Counts | None:
    """The records that were emitted for what was read: one for all consumers of a broadcast."""
    if counts is None or edge.strategy != "BROADCAST":
        return counts
    return counts.times(1 / consumer.parallelism)


def shares_of(values: Iterable[float], digits: int = 4) -> tuple[float, ...]:
    """Return shares as a scenario file has them."""
    return tuple(round(value, digits) for value in values)


def are_even(shares: Sequence[float]) -> bool:
    """Whether shares are the same for all, as far as a count can tell."""
    return max(shares) - min(shares) <= ALIKE / len(shares)
