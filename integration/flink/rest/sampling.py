"""The metrics of each subtask, read several times over a while.

Flink lists the names of a subtask's metrics, and answers those that are asked for. Its job manager collects
values at most once an update interval (``metrics.fetcher.update-interval``, 10 s by default) and answers with
the last ones until then, so a shorter look sees nothing change. Answers bear no time: how long passed between
two of them is told by the times that the task itself has added up as busy, idle and back-pressured.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from netstack import QuantityError, parse_flink_duration

from ...analysis.known_values import complete
from .answers import number
from .client import RestClient
from .cluster_job import FlinkJob, FlinkVertex
from .job_state import JobState
from .steady_tasks import Round, Sample, check_all_go_on, check_counts

SAMPLES = 12
"""How often each subtask is asked."""

UPDATE_INTERVAL = "metrics.fetcher.update-interval"
_DEFAULT_INTERVAL_S = 10.0
_UPDATES = 3
_LEAST_WATCH_S = 20.0
_TRIES = 3

_GATE = r"Shuffle\.Netty\.Input\.\d+\."
METRICS: Mapping[str, tuple[str, ...]] = {
    "records_in": ("numRecordsIn",),
    "records_out": ("numRecordsOut",),
    "records_in_of_a_minute": ("numRecordsInPerSecond",),
    "records_out_of_a_minute": ("numRecordsOutPerSecond",),
    "bytes_in_of_a_minute": ("numBytesInPerSecond",),
    "bytes_out_of_a_minute": ("numBytesOutPerSecond",),
    "bytes_in": ("numBytesIn",),
    "bytes_out": ("numBytesOut",),
    "buffers_in_remote": ("numBuffersInRemote",),
    "buffers_in_local": ("numBuffersInLocal",),
    "buffers_out": ("numBuffersOut",),
    "busy_ms": ("accumulateBusyTimeMs",),
    "idle_ms": ("accumulateIdleTimeMs",),
    "backpressured_ms": ("accumulateBackPressuredTimeMs",),
    "debloatedBufferSize": (_GATE + "debloatedBufferSize",),
    "estimatedTimeToConsumeBuffersMs": (
        _GATE + "estimatedTimeToConsumeBuffersMs",
        "estimatedTimeToConsumeBuffersMs",
    ),
    "inputQueueLength": (r"Shuffle\.Netty\.Input\.Buffers\.inputQueueLength", r"buffers\.inputQueueLength"),
    "inputQueueSize": (r"Shuffle\.Netty\.Input\.Buffers\.inputQueueSize", r"buffers\.inputQueueSize"),
    "inPoolUsage": (r"Shuffle\.Netty\.Input\.Buffers\.inPoolUsage", r"buffers\.inPoolUsage"),
    "inputExclusiveBuffersUsage": (
        r"Shuffle\.Netty\.Input\.Buffers\.inputExclusiveBuffersUsage",
        r"buffers\.inputExclusiveBuffersUsage",
    ),
    "inputFloatingBuffersUsage": (
        r"Shuffle\.Netty\.Input\.Buffers\.inputFloatingBuffersUsage",
        r"buffers\.inputFloatingBuffersUsage",
    ),
    "outputQueueLength": (
        r"Shuffle\.Netty\.Output\.Buffers\.outputQueueLength",
        r"buffers\.outputQueueLength",
    ),
    "outputQueueSize": (r"Shuffle\.Netty\.Output\.Buffers\.outputQueueSize", r"buffers\.outputQueueSize"),
    "currentInputWatermark": ("currentInputWatermark",),
    "watermarkLag": (r".*\.watermarkLag",),
    "outPoolUsage": (r"Shuffle\.Netty\.Output\.Buffers\.outPoolUsage", r"buffers\.outPoolUsage"),
}
"""Of each field the patterns of its metric's name; the first one that a task has is read."""

METER_S = 60.0
"""A rate of Flink's is one over so long (MeterView); of a task that is younger it says too little."""

_OF_A_MINUTE = "_of_a_minute"
_METER_AGE_S = METER_S + 10.0
"""A job that has run so long has had its tasks running for a minute, and its rates calculated since."""

_OVER_GATES: Mapping[str, Callable[[Sequence[float]], float]] = {"debloatedBufferSize": min}
"""How the values of several gates become the task's; the greatest one unless said here."""

_TOTALS: Mapping[str, str] = {
    "records_in": "read-records",
    "records_out": "write-records",
    "bytes_in": "read-bytes",
    "bytes_out": "write-bytes",
    "busy_ms": "accumulated-busy-time",
    "idle_ms": "accumulated-idle-time",
    "backpressured_ms": "accumulated-backpressured-time",
}
"""The same counters as ``/vertices/V`` names them."""


@dataclass(frozen=True, slots=True)
class SubtaskSamples:
    """What one subtask answered, in order, and when it was asked (seconds of the asker's clock)."""

    samples: tuple[Sample, ...]
    times: tuple[float, ...] = ()

    def total(self, field: str) -> float | None:
        """The last value of a counter: what it has counted since the task started."""
        return self.samples[-1].get(field) if self.samples else None

    def increase(self, field: str) -> float | None:
        """How much a counter grew between the first and the last answer."""
        if len(self.samples) < 2 or not all(field in self.samples[end] for end in (0, -1)):
            return None
        return self.samples[-1][field] - self.samples[0][field]

    def gauge(self, field: str) -> float | None:
        """Median of a gauge over the answers; those before the first measurement (below 0) do not count."""
        values = [sample[field] for sample in self.samples if sample.get(field, -1) >= 0]
        return median(values) if values else None

    def minute_per_s(self, field: str) -> float | None:
        """How fast a counter of records grew in the minute before the first answer; None: it is not told."""
        return self.samples[0].get(f"{field}{_OF_A_MINUTE}") if len(self.samples) > 1 else None

    @property
    def accounted_s(self) -> float | None:
        """Time between the first and the last answer by the task's own account; None: it keeps none."""
        parts = complete(self.increase(field) for field in ("busy_ms", "idle_ms", "backpressured_ms"))
        return None if parts is None else sum(parts) / 1e3

    @property
    def seconds(self) -> float | None:
        """Time between the first and the last answer, by the task's own account if it keeps one.

        None where that account stands still: then all answers are of one moment.
        """
        accounted = self.accounted_s
        if accounted is not None:
            return accounted if accounted > 0 else None
        return self.times[-1] - self.times[0] if len(self.times) > 1 else None

    def per_s(self, field: str) -> float | None:
        """How fast a counter grew."""
        grown, seconds = self.increase(field), self.seconds
        return None if grown is None or not seconds else grown / seconds


Samples = Mapping[str, list[SubtaskSamples]]
"""By the vertex's id, of each subtask."""

MetricNames = Mapping[str, Mapping[str, str]]
"""By the vertex's id the metrics that its subtasks have, and the field of each."""


def watch_time_s(job: FlinkJob) -> float:
    """Return how long to look, in seconds, to see the metrics change a few times."""
    return max(_LEAST_WATCH_S, _UPDATES * _interval_s(job))


def _interval_s(job: FlinkJob) -> float:
    """How often the cluster collects metrics, at most."""
    try:
        told = parse_flink_duration(job.configuration.get(UPDATE_INTERVAL, _DEFAULT_INTERVAL_S * 1e3))
    except QuantityError:
        return _DEFAULT_INTERVAL_S
    return told


def take_samples(
    client: RestClient,
    job: FlinkJob,
    state: JobState,
    watch_s: float,
    *,
    pause: Callable[[float], None],
    clock: Callable[[], float],
    done: Callable[[float], None] = lambda seconds: None,
    also: Callable[[], None] = lambda: None,
) -> Samples:
    """Return what all subtasks answer during `watch_s` seconds; `done` is told how many of them are over.

    `also` is called each time that all have been asked. A vertex without metrics has one sample, of what
    ``/vertices/V`` says. `state` is that in which the job was before.

    Raises:
        FlinkRestError: a task has begun anew, or stood still while others went on.
    """
    period = watch_s / (SAMPLES - 1)
    names = metric_names(client, job, lambda: pause(period))
    rounds: list[Round] = []
    for look in range(SAMPLES):
        if look:
            pause(period)
        rounds.append(ask_all(client, job, names, clock))
        also()
        done(look * period)

    def look_again() -> Round:
        pause(period)
        return ask_all(client, job, names, clock)

    check_counts(client, job, state, rounds)
    check_all_go_on(client, job, rounds, look_again, at_each_look=_interval_s(job) < 2 * period)
    return gathered(rounds, job)


def gathered(rounds: Sequence[Round], job: FlinkJob) -> Samples:
    """Return what each subtask of a job has answered, round by round."""
    return {
        vertex.id: [_gathered(rounds, vertex, n) for n in range(vertex.parallelism)]
        for vertex in job.vertices
    }


def metric_names(client: RestClient, job: FlinkJob, wait: Callable[[], None]) -> MetricNames:
    """Return which metrics to ask for; `wait` is called where a cluster lists none yet."""
    return {vertex.id: _names(client, job, vertex, wait) for vertex in job.vertices}


def stands_still(samples: Samples) -> bool:
    """Return whether tasks answered several times, and none of them had gone on.

    Tasks that keep no account of their time do not count where others do.
    """
    asked = [subtask for subtasks in samples.values() for subtask in subtasks if len(subtask.samples) > 1]
    keep_account = [subtask for subtask in asked if subtask.accounted_s is not None]
    return bool(asked) and all(subtask.seconds is None for subtask in keep_account or asked)


def without_repeats(samples: Samples) -> Samples:
    """Return the samples, or the last one of each subtask where no time passed between them."""
    if not stands_still(samples):
        return samples
    return {
        vertex: [SubtaskSamples(each.samples[-1:], each.times[-1:]) for each in subtasks]
        for vertex, subtasks in samples.items()
    }


def _names(
    client: RestClient, job: FlinkJob, vertex: FlinkVertex, wait: Callable[[], None]
) -> dict[str, str]:
    """The metrics to ask for, with their fields. A cluster that nobody has asked lists none at first."""
    path = f"/jobs/{job.id}/vertices/{vertex.id}/subtasks/0/metrics"
    for left in reversed(range(_TRIES)):
        entries = client.find_list(path)
        if entries or entries is None or not left:
            break
        wait()
    listed = [str(entry["id"]) for entry in entries or ()]
    fields: dict[str, str] = {}
    for field, patterns in METRICS.items():
        if field.endswith(_OF_A_MINUTE) and job.age_s < _METER_AGE_S:
            continue
        for pattern in patterns:
            matches = [name for name in listed if re.fullmatch(pattern, name)]
            if matches:
                fields.update(dict.fromkeys(matches, field))
                break
    return fields


def ask_all(client: RestClient, job: FlinkJob, names: MetricNames, clock: Callable[[], float]) -> Round:
    """Return what all subtasks answer now."""
    tasks = [
        (vertex.id, subtask)
        for vertex in job.vertices
        for subtask in range(vertex.parallelism if names[vertex.id] else 0)
    ]
    answers = {}
    for vertex, subtask in tasks:
        path = f"/jobs/{job.id}/vertices/{vertex}/subtasks/{subtask}/metrics"
        entries = client.find_list(f"{path}?get={','.join(names[vertex])}")
        if entries:
            answers[vertex, subtask] = (clock(), _sample(entries, names[vertex]))
    return answers


def _sample(entries: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> Sample:
    """What was answered; a field of several gates only if all of them tell."""
    values: dict[str, list[float]] = {}
    for entry in entries:
        field, value = fields.get(entry["id"]), number(entry.get("value"))
        if field is not None and value is not None:
            values.setdefault(field, []).append(value)
    asked = Counter(fields.values())
    return {
        field: _OVER_GATES.get(field, max)(of_gates)
        for field, of_gates in values.items()
        if len(of_gates) == asked[field]
    }


def _gathered(rounds: Sequence[Round], vertex: FlinkVertex, subtask: int) -> SubtaskSamples:
    answered = [answers[vertex.id, subtask] for answers in rounds if (vertex.id, subtask) in answers]
    if answered:
        return SubtaskSamples(tuple(sample for _, sample in answered), tuple(time for time, _ in answered))
    sample = counted(vertex, subtask)
    return SubtaskSamples((sample,) if sample else ())


def counted(vertex: FlinkVertex, subtask: int) -> Sample:
    """Return what a subtask has counted since it started, as ``/vertices/V`` says."""
    totals = vertex.totals[subtask] if subtask < len(vertex.totals) else {}
    values = {field: number(totals.get(name)) for field, name in _TOTALS.items()}
    return {field: value for field, value in values.items() if value is not None}
