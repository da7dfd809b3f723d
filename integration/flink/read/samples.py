"""Values of the metrics of subtasks, and the times and rates that follow from them.

Answers have no timestamp. The time between two answers is the growth of the task's busy, idle and
back-pressured times, its *account* of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from ...base.optional_figures import complete, middle
from ..http.answers import number
from .job import FlinkJob, FlinkVertex

METER_S = 60.0
"""Period in seconds over which Flink measures a rate (MeterView)."""

OF_A_MINUTE = "_of_a_minute"
"""End of the names of fields with the rate of a counter in the last minute."""

_SAME_LOAD = 0.2
"""The load has changed if the present rate differs from that of the minute before by more than this share."""

_TOTALS: Mapping[str, str] = {
    "records_in": "read-records",
    "records_out": "write-records",
    "bytes_in": "read-bytes",
    "bytes_out": "write-bytes",
    "busy_ms": "accumulated-busy-time",
    "idle_ms": "accumulated-idle-time",
    "backpressured_ms": "accumulated-backpressured-time",
}
"""Fields that ``/vertices/V`` reports too, and their names there."""

ACCOUNT = ("busy_ms", "idle_ms", "backpressured_ms")
"""The parts of a task's account of its time."""

Sample = Mapping[str, float]
"""Values by field; absent fields are not reported."""

Task = tuple[str, int]
"""The id of a vertex, and the number of a subtask."""

Round = Mapping[Task, tuple[float, Sample]]
"""The answers of one poll, each with its time (seconds of the client's clock)."""


@dataclass(frozen=True)
class SubtaskSamples:
    """The answers of one subtask, in order, with their times (seconds of the client's clock)."""

    samples: tuple[Sample, ...]
    times: tuple[float, ...] = ()

    def total(self, field: str) -> float | None:
        """Return the last value of a counter, which counts from the start of the task."""
        return self.samples[-1].get(field) if self.samples else None

    def increase(self, field: str) -> float | None:
        """Return how much a counter grew between the first and the last answer."""
        if len(self.samples) < 2 or not all(field in self.samples[end] for end in (0, -1)):
            return None
        return self.samples[-1][field] - self.samples[0][field]

    def gauge(self, field: str) -> float | None:
        """Return the median of a gauge, without the negative values before the first measurement."""
        values = [sample[field] for sample in self.samples if sample.get(field, -1) >= 0]
        return median(values) if values else None

    def minute_per_s(self, field: str) -> float | None:
        """Return the rate of a counter in the minute before the first answer; None: not reported."""
        return self.samples[0].get(f"{field}{OF_A_MINUTE}") if len(self.samples) > 1 else None

    @cached_property
    def accounted_s(self) -> float | None:
        """Time between the first and the last answer by the task's account; None: the task has no account."""
        parts = complete(self.increase(field) for field in ACCOUNT)
        return None if parts is None else sum(parts) / 1e3

    @property
    def seconds(self) -> float | None:
        """Time between the first and the last answer, by the task's account if there is one.

        None if the account stands still, because all answers are then from one moment.
        """
        accounted = self.accounted_s
        if accounted is not None:
            return accounted if accounted > 0 else None
        return self.times[-1] - self.times[0] if len(self.times) > 1 else None


Samples = Mapping[str, list[SubtaskSamples]]
"""Samples of each subtask, by vertex id."""


def account_s(sample: Sample) -> float | None:
    """Return the accounted time of a task since its start; None: it does not report all parts."""
    parts = complete(sample.get(part) for part in ACCOUNT)
    return None if parts is None else sum(parts) / 1e3


def passed_s(samples: Samples) -> float | None:
    """Return the time watched, as the median over the accounts of tasks; None: no task has an account."""
    return middle(subtask.accounted_s or None for subtasks in samples.values() for subtask in subtasks)


def is_same_load(now: float, before: float) -> bool:
    """Return whether the rates over the time watched and over the minute before show the same load."""
    return abs(before - now) <= _SAME_LOAD * now


def longer_per_s(now: float, seconds: float, minute_before: float | None) -> float:
    """Return the rate `now`, averaged with the minute before if the load was the same."""
    if minute_before is None or not is_same_load(now, minute_before):
        return now
    return (now * seconds + minute_before * METER_S) / (seconds + METER_S)


def samples_of(rounds: Sequence[Round], job: FlinkJob) -> Samples:
    """Return the answers by subtask."""
    samples: dict[str, list[SubtaskSamples]] = {}
    for vertex in job.vertices:
        samples[vertex.id] = []
        for subtask in range(vertex.parallelism):
            answers = [round_[vertex.id, subtask] for round_ in rounds if (vertex.id, subtask) in round_]
            if not answers and (sample := totals(vertex, subtask)):
                samples[vertex.id].append(SubtaskSamples((sample,)))
                continue
            seen, times = tuple(sample for _, sample in answers), tuple(at for at, _ in answers)
            samples[vertex.id].append(SubtaskSamples(seen, times))
    return samples


def totals(vertex: FlinkVertex, subtask: int) -> Sample:
    """Return the counters of a subtask since it started, as ``/vertices/V`` reports them."""
    reported = vertex.totals[subtask] if subtask < len(vertex.totals) else {}
    values = {field: number(reported.get(name)) for field, name in _TOTALS.items()}
    return {field: value for field, value in values.items() if value is not None}


def stands_still(samples: Samples) -> bool:
    """Return whether tasks answered several times, and no account of time advanced.

    Tasks without an account are ignored if other tasks have one.
    """
    polled = [subtask for subtasks in samples.values() for subtask in subtasks if len(subtask.samples) > 1]
    keep_account = [subtask for subtask in polled if subtask.accounted_s is not None]
    return bool(polled) and all(subtask.seconds is None for subtask in keep_account or polled)


def without_repeats(samples: Samples) -> Samples:
    """Return the samples. If no time passed between them, return only the last sample of each subtask."""
    if not stands_still(samples):
        return samples
    return {
        vertex: [SubtaskSamples(each.samples[-1:], each.times[-1:]) for each in subtasks]
        for vertex, subtasks in samples.items()
    }
