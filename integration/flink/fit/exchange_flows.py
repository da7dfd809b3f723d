"""Flows of a job: records over each exchange, selectivities, shares of subtasks, and firings.

Flink counts what a task reads and emits over all its inputs and outputs together. If a producer has only one
output, the exchange carries all that the producer emits. If a consumer has only one input, the exchange
carries all that the consumer reads. Otherwise the flow of the exchange is unknown. Windows, timers, and
sources with these in their chain emit in bursts, independent of their input. Between some polls they emit
nothing, and between others everything at once. A selective filter has polls without output too, but
in the other polls it emits few records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ...base.optional_figures import complete, highest, known, middle, quotient
from ..read.job import FlinkEdge, FlinkJob, FlinkVertex
from ..read.samples import ACCOUNT, Sample, Samples, SubtaskSamples, longer_per_s, passed_s
from .subtask_loads import LEAST_RECORDS

ALIKE = 0.02
"""A ratio that differs from 1 by at most this counts as 1. Small differences occur because the two ends of an
exchange are not polled at the same moment.
"""

_IN_FLIGHT = 0.03
"""Allowed relative difference between two counts of the same records, for records in flight."""

_SIGMAS = 3.0
"""Present counts and counts since the start agree if they differ by at most this many standard deviations."""

_EXACT = 0.03
"""If a ratio over the time watched has a relative error above this, counts since the start are used."""

_ROUND_BURSTS = tuple(step * 10.0**power for power in range(-2, 2) for step in (1, 2, 5))
"""Usual intervals between the bursts of a source, in seconds."""

_ROUNDED = 0.02
"""Minimum relative error of a count of bursts, because tasks are never polled at the same moment."""

_LEAST_BURST_S = 0.02
_LONGEST_BURST_S = 60.0
_LARGEST_BATCH = 1000

_QUIET = 0.4
"""A vertex emits in bursts, or rarely, if at least this share of the polls shows no output."""

_MORE_THAN_CHANCE = 10
"""Minimum mean number of records per poll for polls without output to show bursts.

A vertex that emits its records one by one at this rate would hardly ever have such a poll by chance.
"""

_HELD = 0.5
"""Minimum back-pressured share of time for which a task's bursts are ignored, because the task emits whenever
downstream buffers become free.
"""

_WINDOW = re.compile(
    r"(?<!Session)Windows\((\d+)(?:, (\d+))?|(?:size|slide|step|max_size)=\[(\d+) (ms|s|min|h)\b"
)
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}

_ROUND_WINDOWS = (1, 2, 3, 5, 10, 15, 20, 30, 60, 90, 120, 180, 300, 600, 900, 1800, 3600)
"""Usual lengths of windows, in seconds."""


class Counts(NamedTuple):
    """Records per second now and since the start, each with the number of counted records.

    "Now" means the time watched, and the minute before if the load was the same. Tasks are polled one after
    the other, so the elapsed time of each task is the sum of its own busy, idle and back-pressured time.
    """

    now_per_s: float
    since_per_s: float
    watched: float
    total: float

    def times(self, factor: float) -> Counts:
        """Return the counts multiplied by a factor."""
        return Counts(*(value * factor for value in self))

    def without(self, part: Counts) -> Counts:
        """Return the counts minus those of `part`, which are some of the same records."""
        return Counts(*(max(0.0, value - other) for value, other in zip(self, part, strict=True)))


class Firings(NamedTuple):
    """Bursts of a vertex: all its subtasks together emit `records` every `period_s` seconds. 0: unknown."""

    period_s: float
    records: float


class _Poll(NamedTuple):
    """An answer of a subtask, with the time of its poll in seconds."""

    at_s: float
    sample: Sample

    @property
    def emitted(self) -> float:
        """Records emitted since the start."""
        return self.sample["records_out"]


class _Firing(NamedTuple):
    """Output of a subtask between two polls without output. `whole`: begin and end were both seen."""

    started_s: float
    ended_s: float
    records: float
    whole: bool


class JobFlows:
    """The flows of one job, from the counters of its tasks. An unknown rate or ratio is None.

    `growth` maps the id of each vertex to the growth of its subtasks' queues, as shares of the records read.
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
        self._firings: dict[str, Firings | None] = {}
        self._age_s = middle(_partial_account_s(each.samples[-1]) or None for each in every if each.samples)

    def _each(self, vertex: FlinkVertex, field: str) -> list[Counts] | None:
        """Return the counts of each subtask of a vertex."""
        counts: list[Counts] = []
        for subtask in self._samples[vertex.id]:
            total = subtask.total(field)
            if total is None:
                return None
            watched = subtask.increase(field) or 0.0
            watched_s = subtask.accounted_s or self._watched_s or subtask.seconds
            age_s = _partial_account_s(subtask.samples[-1]) or self._age_s or 1.0
            now = watched / watched_s if watched_s else 0.0
            if watched_s:
                now = longer_per_s(now, watched_s, subtask.minute_per_s(field))
            counts.append(Counts(now, total / age_s, watched, total))
        return counts if len(counts) == vertex.parallelism else None

    def _counts(self, vertex: FlinkVertex, field: str) -> Counts | None:
        each = self._each(vertex, field)
        return None if each is None else _sum(each)

    def over(self, edge: FlinkEdge) -> Counts | None:
        """Return the records over an exchange, as counted by the consumer."""
        producer, consumer = self._by_id[edge.source], self._by_id[edge.target]
        if len(self._job.inputs(consumer)) == 1:
            return self._counts(consumer, "records_in")
        counts = self._counts(producer, "records_out")
        if counts is None or len(self._job.outputs(producer)) > 1:
            return None
        copies = consumer.parallelism if edge.strategy == "BROADCAST" else 1
        return counts.times(copies)

    def _emitted_over(self, edge: FlinkEdge) -> Counts | None:
        """Return the records emitted into an exchange.

        A broadcast record counts once, not once per consumer.
        """
        counts = self.over(edge)
        if counts is None or edge.strategy != "BROADCAST":
            return counts
        return counts.times(1 / self._by_id[edge.target].parallelism)

    def _emitted(self, vertex: FlinkVertex) -> Counts | None:
        """Return the records that a vertex emits over its busiest exchange."""
        outputs = self._job.outputs(vertex)
        if len(outputs) == 1:
            return self._counts(vertex, "records_out")
        known = [counts for counts in map(self._emitted_over, outputs) if counts is not None]
        return max(known, key=lambda counts: counts.total) if known else None

    def selectivities(self, vertex: FlinkVertex) -> list[float] | None:
        """Return the records that a vertex emits per record read, by input.

        If one of several inputs explains all output, the others get 0. Otherwise all inputs count alike.
        """
        edges = self._job.inputs(vertex)
        emitted, read = self._emitted(vertex), self._counts(vertex, "records_in")
        if emitted is None or read is None or read.total < LEAST_RECORDS:
            return None
        # With several outputs, a firing counts the records of all outputs together.
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

    def fraction(self, edge: FlinkEdge) -> float:
        """Return the share of the producer's records that an exchange carries; 1 if unknown."""
        producer = self._by_id[edge.source]
        if len(self._job.outputs(producer)) == 1:
            return 1.0
        most, here = self._emitted(producer), self._emitted_over(edge)
        if most is None or here is None or not most.total:
            return 1.0
        share = _ratio(here, most)
        return 1.0 if share >= 1 - ALIKE else share

    def shares(self, vertex: FlinkVertex) -> list[float] | None:
        """Return, for each subtask, the share of the records that are sent to it, read or not. The sum is 1.

        Broadcast records are left out, since each subtask gets all of them. Shares that differ by no more
        than chance are equal: with few records, chance would count twice, here and in the emulation.
        """
        each = self._each(vertex, "records_in")
        if each is None:
            return None
        copies = self.copies(vertex)
        each = [counts.without(copies) for counts in each]
        whole = _sum(each)
        if whole.total < LEAST_RECORDS * vertex.parallelism:
            return None
        growth = self._growth.get(vertex.id, [0.0] * len(each))
        shares = [_ratio(counts, whole) * (1 + more) for counts, more in zip(each, growth, strict=True)]
        shares = [share / sum(shares) for share in shares]
        is_even = not any(growth) and _are_even(shares, whole.total)
        return [1 / len(shares)] * len(shares) if is_even else shares

    def copies(self, vertex: FlinkVertex) -> Counts:
        """Return the broadcast records that each subtask of a vertex reads; 0 if their number is unknown."""
        exchanges = [edge for edge in self._job.inputs(vertex) if edge.strategy == "BROADCAST"]
        return _sum(known(self._emitted_over(edge) for edge in exchanges))

    def since_per_s(self, vertex: FlinkVertex) -> float:
        """Return the mean records per second that a vertex has emitted since its start; 0: unknown."""
        counts = self._counts(vertex, "records_out")
        return 0.0 if counts is None else counts.since_per_s

    def emitted_at_once(self, vertex: FlinkVertex) -> int:
        """Return how many records a source emits at once: the greatest common divisor of its counters."""
        counts = [
            int(sample["records_out"])
            for subtask in self._samples[vertex.id]
            for sample in subtask.samples
            if sample.get("records_out")
        ]
        return math.gcd(*counts) if len(set(counts)) >= 4 else 1

    def burst_s(self, vertex: FlinkVertex, rate: float) -> float | None:
        """Return the seconds between bursts of a paced source; None: it emits records one by one.

        The count of bursts may be wrong by one. If a round number lies within the resulting error, it is
        returned.
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
        """Return the number of records that an unpaced source emits in one call."""
        at_once = self.emitted_at_once(vertex)
        return at_once if at_once <= _LARGEST_BATCH else 1

    def fires_unseen(self, vertex: FlinkVertex) -> bool:
        """Return whether a vertex has windows, according to its description, but they hardly fired while the
        job was watched.
        """
        firings, emitted = self.firings(vertex), self._counts(vertex, "records_out")
        few = emitted is not None and emitted.watched < LEAST_RECORDS
        return few and firings is not None and not firings.records

    @cached_property
    def _poll_times(self) -> list[float]:
        return _poll_times(self._samples)

    def firings(self, vertex: FlinkVertex) -> Firings | None:
        """Return the interval and size of a vertex's bursts; None if it emits records while it reads, or
        rarely.
        """
        if vertex.id not in self._firings:
            self._firings[vertex.id] = self._find_firings(vertex)
        return self._firings[vertex.id]

    def _find_firings(self, vertex: FlinkVertex) -> Firings | None:
        if not self._job.outputs(vertex):
            return None
        subtasks, is_source = self._samples[vertex.id], not self._job.inputs(vertex)
        polls = [_advancing(subtask, self._poll_times, is_source=is_source) for subtask in subtasks]
        emitted = [
            after.emitted - before.emitted for of_subtask in polls for before, after in pairwise(of_subtask)
        ]
        total = sum(of_subtask[-1].emitted for of_subtask in polls if of_subtask)
        if total < LEAST_RECORDS or not emitted or emitted.count(0) < _QUIET * len(emitted):
            return None
        firings = [_firings(of_subtask) for of_subtask in polls]
        period_s = window_s(vertex.description)
        held_ms = highest(quotient(each.increase("backpressured_ms"), each.accounted_s) for each in subtasks)
        shows_itself = sum(emitted) >= _MORE_THAN_CHANCE * len(emitted) and (held_ms or 0.0) / 1e3 < _HELD
        if period_s is None and shows_itself:
            period_s = _round_period_s(firings)
        if period_s is None:
            return None
        records = complete(_records_of_one(of_subtask, period_s) for of_subtask in firings)
        return Firings(period_s, sum(records or [0.0]))


def _sum(parts: Iterable[Counts]) -> Counts:
    return Counts(*(sum(values) for values in zip(Counts(0, 0, 0, 0), *parts, strict=True)))


def _ratio(part: Counts, whole: Counts) -> float:
    """Return a ratio over the time watched, or since the start if that is more exact and the two agree.

    Counts since the start omit the queue before a task, which matters for a young task, and include the
    task's start-up. They are used alone only if `whole` had no records in the time watched.
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


def _are_even(shares: Sequence[float], records: float) -> bool:
    """Whether shares of so many records differ by no more than chance, by their chi-squared statistic."""
    free = len(shares) - 1
    squares = sum((share - 1 / len(shares)) ** 2 for share in shares)
    return records * len(shares) * squares <= free + 2 * math.sqrt(2 * free)


def _are_the_same(one: Counts, other: Counts) -> bool:
    """Return whether both ends of an exchange count the same records, except for records in flight."""
    return any(
        theirs > 0 and abs(ours / theirs - 1) <= _IN_FLIGHT
        for ours, theirs in ((one.now_per_s, other.now_per_s), (one.since_per_s, other.since_per_s))
    )


def _partial_account_s(sample: Sample) -> float:
    """Return the sum of the reported parts of a task's times since its start, in seconds."""
    return sum(sample.get(part, 0.0) for part in ACCOUNT) / 1e3


# Firings


def window_s(description: str) -> float | None:
    """Return the interval in seconds at which the windows in a vertex's description fire.

    The interval is the slide of a sliding window, the step of a cumulating one, and the size of any other
    window.
    """
    ends = []
    for size_ms, slide_ms, number, unit in _WINDOW.findall(description):
        ends.append(float(slide_ms or size_ms) / 1e3 if size_ms else float(number) * _UNITS[unit])
    return min(ends, default=None)


def _poll_times(samples: Samples) -> list[float]:
    """Return the time of each poll in seconds; empty if no task reports its times.

    The time is the sum of a task's busy, idle and back-pressured time, as the median over tasks.
    """
    of_tasks = [
        [_partial_account_s(sample) for sample in subtask.samples]
        for subtasks in samples.values()
        for subtask in subtasks
        if subtask.accounted_s
    ]
    polls = max(map(len, of_tasks), default=0)
    complete_ones = [times for times in of_tasks if len(times) == polls]
    return [middle(times) or 0.0 for times in zip(*complete_ones, strict=True)]


def _advancing(subtask: SubtaskSamples, clock: Sequence[float], *, is_source: bool) -> list[_Poll]:
    """Return the answers of a subtask with their times. An answer is left out if nothing happened since the
    one before: no time passed (at a source), or no record was read.
    """

    def has_advanced(last: _Poll, poll: _Poll) -> bool:
        if is_source:
            return poll.at_s > last.at_s
        return poll.sample.get("records_in", 0.0) > last.sample.get("records_in", 0.0)

    times = clock if len(clock) == len(subtask.samples) else subtask.times
    polls: list[_Poll] = []
    for poll in map(_Poll, times, subtask.samples):
        if "records_out" in poll.sample and (not polls or has_advanced(polls[-1], poll)):
            polls.append(poll)
    return polls


def _firings(polls: Sequence[_Poll]) -> list[_Firing]:
    """Return the bursts: the output between polls without output. A single poll without output does not
    divide a burst.
    """
    firings: list[_Firing] = []
    started_s: float | None = None
    records, whole = 0.0, False
    for number, (before, after) in enumerate(pairwise(polls)):
        grown = after.emitted - before.emitted
        if grown and started_s is None:
            started_s, records, whole = before.at_s, 0.0, number > 0
        records += grown
        if started_s is not None and not grown:
            firings.append(_Firing(started_s, before.at_s, records, whole))
            started_s = None
    if started_s is not None:
        firings.append(_Firing(started_s, polls[-1].at_s, records, whole=False))
    return firings


def _round_period_s(firings: Iterable[Sequence[_Firing]]) -> float | None:
    """Return the usual length of a window that is nearest to the gap between firings; None: no gap was seen.

    `firings` has those of each subtask.
    """
    gap_s = middle(
        (late.started_s + late.ended_s - early.started_s - early.ended_s) / 2
        for of_subtask in firings
        for early, late in pairwise(of_subtask)
    )
    if not gap_s:
        return None
    return float(min(_ROUND_WINDOWS, key=lambda seconds: abs(math.log(seconds / gap_s))))


def _records_of_one(firings: Sequence[_Firing], period_s: float) -> float | None:
    """Return the records of one firing of a subtask; firings over several periods are left out."""
    single = [firing for firing in firings if firing.ended_s - firing.started_s <= period_s]
    whole = [firing.records for firing in single if firing.whole]
    return middle(whole or [firing.records for firing in single])
