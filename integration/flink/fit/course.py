"""The course of costs and rates while a job was watched, for the emulation to repeat.

The factors of a course are relative to the mean, which the fit of a vertex gives::

    watched    cost 1.0 ms    1.0 ms    3.1 ms    2.9 ms        mean 1.5 ms
    course     for 2.1 s      2.0 s     2.2 s     1.9 s
               factor 0.67    0.67      2.07      1.93

All courses of a job have the same period, the time watched, so that they stay in step.

Metrics are renewed every 10 s by default, so counters blur what changes faster. But the wait of a barrier
at a vertex that is always busy shows the cost of a record at that moment: the vertex reads the data in front
of the barrier meanwhile, and as long as its producers are held back, that is always about the same amount.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import fmean, median
from typing import NamedTuple

from netstack import GeneratorSpec, Scenario, Vertex

from ...base.optional_figures import complete
from ..read.job import FlinkJob, FlinkVertex
from ..read.samples import ACCOUNT, Samples, account_s

Course = tuple[tuple[float, float], ...]
"""Seconds, and the factor for them, of each part; see `Vertex.course`."""

Courses = Mapping[str, Course]
"""The courses of vertices, by their names."""

_LEAST_UPDATE_S = 0.5
"""Minimum time between two updates of a task's metrics."""

_MOST_PARTS = 60
"""Maximum number of parts of a course. Neighbours are pooled if there are more."""

_LONGEST_S = 600.0
"""Maximum length of a course, since an emulation repeats all of it. Of a longer one, the worst part stays."""


class Interval(NamedTuple):
    """Counts of a vertex, summed over its subtasks, between two updates of its metrics."""

    at_s: float
    """Middle of the interval, by the accounts of the tasks."""
    seconds: float
    records: float
    busy_s: float
    held_s: float = 0.0
    """Back-pressured time."""

    @property
    def per_s(self) -> float:
        """Records per second."""
        return self.records / self.seconds


def intervals_of(job: FlinkJob, vertex: FlinkVertex, samples: Samples) -> list[Interval]:
    """Return the counts of a vertex between updates of its metrics; empty if a value is unknown."""
    field = "records_in" if job.inputs(vertex) else "records_out"
    counts: list[tuple[float, float, float, float]] = []
    for polled in zip(*(subtask.samples for subtask in samples[vertex.id]), strict=False):
        accounts = complete(map(account_s, polled))
        records = complete(sample.get(field) for sample in polled)
        if accounts is None or records is None:
            return []
        busy_ms, _, held_ms = (sum(sample[part] for sample in polled) for part in ACCOUNT)
        at_s = fmean(accounts)
        if not counts or at_s - counts[-1][0] >= _LEAST_UPDATE_S:
            counts.append((at_s, sum(records), busy_ms / 1e3, held_ms / 1e3))
    return [
        Interval((begin + end) / 2, end - begin, later - earlier, busier - busy, longer - held)
        for (begin, earlier, busy, held), (end, later, busier, longer) in pairwise(counts)
    ]


def cost_course(intervals: Sequence[Interval]) -> Course:
    """Return the course of the busy time of a record."""
    mean = sum(each.busy_s for each in intervals) / sum(each.records for each in intervals)
    parts = [(each.seconds, each.busy_s, each.records) for each in _pooled(intervals)]
    # An interval without records has no cost of its own; the one before goes on.
    factors: list[float] = []
    for _, busy_s, records in parts:
        factors.append(max(0.0, busy_s / records / mean) if records > 0 else (factors or [1.0])[-1])
    return _written([(seconds, factor) for (seconds, _, _), factor in zip(parts, factors, strict=True)])


def rate_course(intervals: Sequence[Interval]) -> Course:
    """Return the course of the records per second."""
    mean = sum(each.records for each in intervals) / sum(each.seconds for each in intervals)
    return _written([(each.seconds, each.per_s / mean) for each in _pooled(intervals)])


def wait_course(waits_ms: Sequence[tuple[float, float]]) -> Course:
    """Return the course of the cost of a record by the waits of barriers, given as (seconds, ms) in order.

    While a record costs twice as much, half as many are read. So the mean of the inverse factors is 1.
    """
    times = [at_s for at_s, _ in waits_ms]
    lengths = [later - at_s for at_s, later in pairwise(times)]
    lengths.append(median(lengths))
    waits = [max(wait, 1.0) for _, wait in waits_ms]
    mean = sum(lengths) / sum(seconds / wait for seconds, wait in zip(lengths, waits, strict=True))
    return _written([(seconds, wait / mean) for seconds, wait in zip(lengths, waits, strict=True)])


def with_courses(scenario: Scenario, courses: Courses) -> Scenario:
    """Return the scenario with the courses of its vertices, and a window of whole periods."""
    if not courses:
        return scenario
    period_s = max(_length_s(course) for course in courses.values())
    courses = {name: _in_step(course, period_s) for name, course in courses.items()}
    if period_s > _LONGEST_S:
        begin_s = _worst_begin_s(list(courses.values()), period_s)
        courses = {name: _cut(course, begin_s, begin_s + _LONGEST_S) for name, course in courses.items()}
        period_s = _LONGEST_S
    vertices = [
        _following(vertex, courses[vertex.name]) if vertex.name in courses else vertex
        for vertex in scenario.vertices
    ]
    window_s = scenario.duration_s - scenario.warmup_s
    whole_s = round(-(-window_s // period_s) * period_s, 3)
    return replace(scenario, vertices=tuple(vertices), duration_s=scenario.warmup_s + whole_s)


def _following(vertex: Vertex, course: Course) -> Vertex:
    """Return a vertex with a course. The rate of a source is the mean of its course."""
    source = vertex.source
    if source is None:
        return replace(vertex, course=course)
    assert isinstance(source, GeneratorSpec)
    mean = sum(seconds * factor for seconds, factor in course) / _length_s(course)
    parts = tuple((seconds, round(factor / mean, 3)) for seconds, factor in course)
    rates = tuple(float(f"{rate * mean:.4g}") for rate in source.rates)
    return replace(vertex, course=parts, source=replace(source, rates=rates))


def _pooled(intervals: Sequence[Interval]) -> list[Interval]:
    """Return at most `_MOST_PARTS` intervals: neighbours are added up."""
    together = -(-len(intervals) // _MOST_PARTS)
    groups = [intervals[at : at + together] for at in range(0, len(intervals), together)]
    return [
        Interval(
            fmean(each.at_s for each in group),
            *(sum(values) for values in list(zip(*group, strict=True))[1:]),
        )
        for group in groups
    ]


def _written(parts: Sequence[tuple[float, float]]) -> Course:
    """Return the parts to three decimals."""
    return tuple((round(seconds, 3), round(factor, 3)) for seconds, factor in parts)


def _length_s(course: Course) -> float:
    return sum(seconds for seconds, _ in course)


def _in_step(course: Course, period_s: float) -> Course:
    """Return the course stretched to a period."""
    stretch = period_s / _length_s(course)
    parts = [(round(seconds * stretch, 3), factor) for seconds, factor in course]
    last_s = period_s - sum(seconds for seconds, _ in parts[:-1])
    return (*parts[:-1], (round(last_s, 3), parts[-1][1]))


def _worst_begin_s(courses: Sequence[Course], period_s: float) -> float:
    """Return the begin of the `_LONGEST_S` seconds in which the factors of all courses are highest."""
    begins = {at_s for course in courses for at_s in accumulate((part for part, _ in course), initial=0.0)}
    within = [min(at_s, period_s - _LONGEST_S) for at_s in sorted(begins)]

    def amount(begin_s: float) -> float:
        cut = [_cut(course, begin_s, begin_s + _LONGEST_S) for course in courses]
        return sum(seconds * factor for course in cut for seconds, factor in course)

    return max(within, key=amount)


def _cut(course: Course, begin_s: float, end_s: float) -> Course:
    """Return the part of a course between two times."""
    ends = list(accumulate(seconds for seconds, _ in course))
    parts = [
        (round(min(end, end_s) - max(end - seconds, begin_s), 3), factor)
        for (seconds, factor), end in zip(course, ends, strict=True)
        if min(end, end_s) - max(end - seconds, begin_s) > 0.0005
    ]
    return tuple(parts)
