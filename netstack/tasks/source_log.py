"""The input of a paced source subtask: a log that others fill at a rate, also while the job is down.

A failure does not stop the log. The restarted subtask begins at the position in the restored checkpoint. It
reads all records that have arrived since then as fast as its costs and its outputs allow, and then continues
at the rate::

    records   running     failure, restart    reads the backlog     running
    arrived   ----------------------------------------------------------------->
    read      ------------|                   |=====================|---------->
              checkpoint ^                    ^ begins again at the checkpoint's position

A `Pace` describes a rate that changes over time. It returns the number of records due by a time, and the time
at which more records are due. Times of a pace are seconds since the pace began.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil, cos, floor, pi
from typing import NamedTuple

from ..scenarios.scenario import GeneratorSpec, Vertex
from .course import Course

_RATE_STEP_S = 0.001
"""Interval at which a continuously changing rate is evaluated."""

_ROUNDING = 1e-9

_HALVINGS = 50
"""Number of steps in which the arrival of a record is found."""


class Bursts:
    """Bursts with a mean of `rate` records per second: all records of a period of `period_s` seconds are due
    at its start.
    """

    def __init__(self, rate: float, period_s: float) -> None:
        self._records = rate * period_s
        self._period = period_s

    def due_by(self, elapsed_s: float) -> int:
        """Return the number of records due by a time."""
        return int((self._bursts(elapsed_s) + 1) * self._records + _ROUNDING)

    def next_due(self, elapsed_s: float) -> float:
        """Return the time of the next burst."""
        return (self._bursts(elapsed_s) + 1) * self._period

    def arrival_s(self, number: int) -> float:
        """Return the time of the burst with record `number`, which counts from 0."""
        return max(0, ceil((number + 1 - _ROUNDING) / self._records) - 1) * self._period

    def _bursts(self, elapsed_s: float) -> int:
        return floor(elapsed_s / self._period + _ROUNDING)


class Wave:
    """A rate that follows a sine wave around `rate` records per second, from 0 to 2 * `rate`."""

    def __init__(self, rate: float, period_s: float) -> None:
        self._rate = rate
        self._period = period_s

    def due_by(self, elapsed_s: float) -> int:
        """Return the number of records due by a time: the integral of the rate."""
        turn = 2 * pi / self._period
        return int(self._rate * (elapsed_s + (1 - cos(turn * elapsed_s)) / turn) + _ROUNDING) + 1

    def next_due(self, elapsed_s: float) -> float:
        """Return the time, slightly later, at which the rate is evaluated again."""
        return elapsed_s + _RATE_STEP_S

    def arrival_s(self, number: int) -> float:
        """Return the time at which record `number` is due, which counts from 0."""
        early, late = 0.0, number / self._rate
        for _ in range(_HALVINGS):
            middle = (early + late) / 2
            if self.due_by(middle) > number:
                late = middle
            else:
                early = middle
        return late


class Uneven:
    """A rate of `rate` records per second, multiplied by the factors of a course."""

    def __init__(self, rate: float, course: Course) -> None:
        self._rate = rate
        self._course = course

    def due_by(self, elapsed_s: float) -> int:
        """Return the number of records due by a time: the integral of the rate."""
        return int(self._rate * self._course.sum_until(elapsed_s) + _ROUNDING) + 1

    def next_due(self, elapsed_s: float) -> float:
        """Return the time of the next record, or slightly later."""
        return max(self.arrival_s(self.due_by(elapsed_s)), elapsed_s + _RATE_STEP_S)

    def arrival_s(self, number: int) -> float:
        """Return the time at which record `number` is due, which counts from 0."""
        return self._course.time_of(number / self._rate)


Pace = Bursts | Uneven | Wave
"""The number of records that are due over time."""


def pace_of(vertex: Vertex, rate: float) -> Pace | None:
    """Return the pace of a source's subtask with `rate` records per second; None if the rate is even or
    unlimited.
    """
    source = vertex.source
    if not isinstance(source, GeneratorSpec) or rate <= 0:
        return None
    if vertex.course:
        return Uneven(rate, Course(vertex.course))
    if source.burst_s is not None:
        return Bursts(rate, source.burst_s)
    return None if source.wave_s is None else Wave(rate, source.wave_s)


class LogSpan(NamedTuple):
    """A time span in which a log is filled at one rate, from the time `since_s` on. `first` is the position
    of the span's first record. `rate`: records per second; 0: no limit, so the log has no schedule.
    """

    since_s: float
    first: int
    rate: float
    pace: Pace | None

    def arrived_by(self, now: float) -> int:
        """Return the number of records in the log at a time."""
        elapsed_s = now - self.since_s
        if not self.rate or elapsed_s < -1e-12:
            return self.first
        if self.pace is not None:
            return self.first + self.pace.due_by(elapsed_s)
        return self.first + int(elapsed_s * self.rate + _ROUNDING) + 1

    def arrival_s(self, position: int) -> float:
        """Return the time at which the record at `position` arrives."""
        if self.pace is not None:
            return self.since_s + self.pace.arrival_s(max(0, position - self.first))
        return self.since_s + (position - self.first) / self.rate if self.rate else self.since_s


class SourceLog:
    """The log that a source subtask reads. It outlives the subtask, and counts on while the job is down.

    `spans`: the spans since the job began, oldest first. The first span begins when the source first runs;
    without a rate, a span has the records that were read.
    """

    def __init__(self, spans: Collection[LogSpan] = ()) -> None:
        self.spans = list(spans)
        self._announced: list[LogSpan] = []  # changes that the subtask has not obeyed yet

    @property
    def latest(self) -> LogSpan:
        """The span that is being filled."""
        return self.spans[-1]

    def begin(self, now: float, position: int, rate: float, pace: Pace | None) -> bool:
        """Begin to read at a position; returns whether another subtask has read the log before."""
        if self.spans:
            return True
        self.spans.append(LogSpan(now, position, rate, pace))
        return False

    def announce(self, at: float, rate: float, pace: Pace | None) -> None:
        """Record that the rate changes at a time.

        A running subtask obeys the change later, with `change`. A subtask that is created later obeys it from
        its beginning.
        """
        self._announced.append(LogSpan(at, 0, rate, pace))

    def reopen(self) -> None:
        """Record that a new subtask is created, which obeys all announced changes."""
        for change in self._announced:
            if self.spans:
                self.spans.append(change._replace(first=self.latest.arrived_by(change.since_s)))
        self._announced.clear()

    def change(self, now: float, position: int, rate: float, pace: Pace | None, *, behind: bool) -> None:
        """Begin a span at the position of a subtask that obeys an announced change now.

        If the subtask is `behind`, the span begins with the records that had arrived when the rate changed.
        """
        at = self._announced.pop(0).since_s
        if behind:
            self.spans.append(LogSpan(at, max(self.latest.arrived_by(at), position), rate, pace))
        else:
            self.spans.append(LogSpan(now, position, rate, pace))

    def leave(self, position: int, next_due: float) -> None:
        """Record that a subtask stops at a position, although the next record is due at `next_due`.

        The delays that a source with an even rate does not make up have moved this time. Without a rate, the
        records that were read are the log.
        """
        span = self.latest
        if not span.rate:
            self.spans[-1] = span._replace(first=max(span.first, position))
        elif span.pace is None:
            self.spans[-1] = span._replace(since_s=next_due - (position - span.first) / span.rate)

    def arrived_by(self, now: float) -> int:
        """Return the number of records that have arrived by now."""
        return self.latest.arrived_by(now)

    def arrival_s(self, position: int) -> float:
        """Return the time at which the record at `position` arrived or will arrive."""
        for span in reversed(self.spans):
            if span.first <= position:
                return span.arrival_s(position)
        return self.spans[0].since_s


class SourceLogs:
    """The logs of a run's source subtasks, by the number of the vertex and the index of the subtask."""

    def __init__(self, logs: Mapping[tuple[int, int], SourceLog] | None = None) -> None:
        self._logs = dict(logs or {})

    def of(self, vertex: int, index: int) -> SourceLog:
        """Return the log of a subtask; a new one for the first execution of the subtask."""
        return self._logs.setdefault((vertex, index), SourceLog())

    def announce(self, at: float, number: int, vertex: Vertex) -> None:
        """Record that the rates of a vertex, given with its number, change at a time."""
        for (of, index), log in self._logs.items():
            if of == number:
                log.announce(at, vertex.rate(index), pace_of(vertex, vertex.rate(index)))
