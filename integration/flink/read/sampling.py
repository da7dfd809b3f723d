"""Polling the metrics of all subtasks, and the check that all tasks ran throughout.

Flink lists the names of a subtask's metrics, and reports the values of those that are requested. Its job
manager collects values at most once per update interval (``metrics.fetcher.update-interval``, 10 s by
default), and reports the last values until then. So polling for a shorter time sees no change. Answers have
no timestamp. The time between two answers is the growth of the task's busy, idle and back-pressured times,
its *account* of time.

The cluster reports the restart of a task, or the loss of its task manager, only after some seconds. Until
then, metrics reveal it: counters start again from 0 or still belong to an earlier attempt, and accounts of
time stand still while the accounts of other tasks advance::

    poll                    1     2     3     4     5     6     7
    most tasks              40    40    50    50    60    60    70   s of account
    task polled earlier     40    40    40    50    50    60    60   one poll behind: values updated in a poll
    of a lost task manager  40    40    50    50    50    50    50

Flink collects the values of all tasks together, so no running task is two polls behind for long.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from netstack import QuantityError, parse_flink_duration

from ...base.errors import FlinkRestError
from ...base.optional_figures import complete, middle
from ..http.answers import number
from ..http.client import RestClient
from .job import FlinkJob, FlinkVertex
from .job_state import JobState, restarted

POLLS = 12
"""Number of polls of each subtask."""

UPDATE_INTERVAL = "metrics.fetcher.update-interval"
_DEFAULT_INTERVAL_S = 10.0
_UPDATES = 3
_LEAST_WATCH_S = 20.0
_TRIES = 3

_GATE = r"Shuffle\.Netty\.Input\.\d+\."
_INPUT = r"Shuffle\.Netty\.Input\.Buffers\."
_OUTPUT = r"Shuffle\.Netty\.Output\.Buffers\."


def _of_buffers(direction: str, *names: str) -> dict[str, tuple[str, ...]]:
    """Return the patterns of metrics that Flink also lists by a short name."""
    return {name: (direction + name, rf"buffers\.{name}") for name in names}


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
    **_of_buffers(_INPUT, "inputQueueLength", "inputQueueSize", "inPoolUsage"),
    **_of_buffers(_INPUT, "inputExclusiveBuffersUsage", "inputFloatingBuffersUsage"),
    **_of_buffers(_OUTPUT, "outputQueueLength", "outputQueueSize", "outPoolUsage"),
    "currentInputWatermark": ("currentInputWatermark",),
    "watermarkLag": (r".*\.watermarkLag",),
}
"""Patterns of metric names for each field. The first metric that a task has is read."""

METER_S = 60.0
"""Period in seconds over which Flink measures a rate (MeterView)."""

_OF_A_MINUTE = "_of_a_minute"
_METER_AGE_S = METER_S + 10.0
"""Minimum age of a job, in seconds, for its meters to cover a whole minute of running tasks."""

_SAME_LOAD = 0.2
"""The load has changed if the present rate differs from that of the minute before by more than this share."""

_OVER_GATES: Mapping[str, Callable[[Sequence[float]], float]] = {"debloatedBufferSize": min}
"""Aggregation of a field's values over several gates; by default the maximum."""

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

_COUNTERS = (
    "records_in",
    "records_out",
    "bytes_in",
    "bytes_out",
    "buffers_in_remote",
    "buffers_in_local",
    "buffers_out",
)
"""Values that only grow while a task runs. Times are not included, because they may decrease a little."""

_STEP_BACK_S = 1.0
"""Maximum decrease, in seconds, of the sum of a task's times."""

_YOUNGER_S = 10.0
"""A task's accounted time may exceed the duration of its attempt by this many seconds.

The cluster reports both of these times late.
"""

_MORE_POLLS = 3
"""Additional polls if it is unclear whether a task is still running."""

_MOST_BEHIND = 1
"""Maximum number of polls by which the values of a task may be older than those of the others.

Flink may collect new values in the middle of a poll.
"""

Sample = Mapping[str, float]
"""Values by field; absent fields are not reported."""

Task = tuple[str, int]
"""The id of a vertex, and the number of a subtask."""

Round = Mapping[Task, tuple[float, Sample]]
"""The answers of one poll, each with its time (seconds of the client's clock)."""

MetricNames = Mapping[str, Mapping[str, str]]
"""Metric names of the subtasks and the field of each, by vertex id."""


@dataclass(frozen=True, slots=True)
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
        return self.samples[0].get(f"{field}{_OF_A_MINUTE}") if len(self.samples) > 1 else None

    @property
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


# Polling


def watch_time_s(job: FlinkJob) -> float:
    """Return for how many seconds to watch the metrics, to see them change a few times."""
    return max(_LEAST_WATCH_S, _UPDATES * _interval_s(job))


def _interval_s(job: FlinkJob) -> float:
    """Return the interval at which the cluster collects metrics."""
    try:
        return parse_flink_duration(job.configuration.get(UPDATE_INTERVAL, _DEFAULT_INTERVAL_S * 1e3))
    except QuantityError:
        return _DEFAULT_INTERVAL_S


def take_samples(
    client: RestClient,
    job: FlinkJob,
    state: JobState,
    watch_s: float,
    *,
    pause: Callable[[float], None],
    on_poll: Callable[[float], None] = lambda seconds: None,
) -> Samples:
    """Poll all subtasks during `watch_s` seconds; `on_poll` gets the seconds so far after each poll.

    A vertex without metrics gets one sample: the counters of ``/vertices/V``. `state` is the job's state
    before the polls.

    Raises:
        FlinkRestError: a task has restarted, or stood still while others went on.
    """
    period = watch_s / (POLLS - 1)
    names = metric_names(client, job, lambda: pause(period))
    rounds: list[Round] = []
    for number_of in range(POLLS):
        if number_of:
            pause(period)
        rounds.append(poll(client, job, names))
        on_poll(number_of * period)

    def poll_again() -> Round:
        pause(period)
        return poll(client, job, names)

    check_counts(client, job, state, rounds)
    check_all_go_on(client, job, rounds, poll_again, at_each_poll=_interval_s(job) < 2 * period)
    return samples_of(rounds, job)


def metric_names(client: RestClient, job: FlinkJob, wait: Callable[[], None]) -> MetricNames:
    """Return the metrics to request. `wait` is called while a starting cluster lists no metrics."""
    names: dict[str, Mapping[str, str]] = {}
    for vertex in job.vertices:
        for left in reversed(range(_TRIES)):
            entries = client.find_list(f"/jobs/{job.id}/vertices/{vertex.id}/subtasks/0/metrics")
            if entries or entries is None or not left:
                break
            wait()
        listed = [str(entry["id"]) for entry in entries or ()]
        fields: dict[str, str] = {}
        for field, patterns in METRICS.items():
            if field.endswith(_OF_A_MINUTE) and job.age_s < _METER_AGE_S:
                continue
            for pattern in patterns:
                if matches := [name for name in listed if re.fullmatch(pattern, name)]:
                    fields.update(dict.fromkeys(matches, field))
                    break
        names[vertex.id] = fields
    return names


def poll(client: RestClient, job: FlinkJob, names: MetricNames) -> Round:
    """Request the present values of all subtasks."""
    answers = {}
    for vertex in job.vertices:
        fields = names[vertex.id]
        for subtask in range(vertex.parallelism if fields else 0):
            path = f"/jobs/{job.id}/vertices/{vertex.id}/subtasks/{subtask}/metrics"
            if entries := client.find_list(f"{path}?get={','.join(fields)}"):
                answers[vertex.id, subtask] = (client.clock(), _sample(entries, fields))
    return answers


def _sample(entries: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> Sample:
    """Return the values by field. A field measured per gate is only present if all gates report it."""
    values: dict[str, list[float]] = {}
    for entry in entries:
        field, value = fields.get(entry["id"]), number(entry.get("value"))
        if field is not None and value is not None:
            values.setdefault(field, []).append(value)
    expected = Counter(fields.values())
    return {
        field: _OVER_GATES.get(field, max)(of_gates)
        for field, of_gates in values.items()
        if len(of_gates) == expected[field]
    }


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


# Whether all tasks run


def check_counts(client: RestClient, job: FlinkJob, state: JobState, rounds: Sequence[Round]) -> None:
    """Require that counters have only grown, and belong to the attempts that run.

    Raises:
        FlinkRestError: a task's counter was reset, or belongs to an earlier attempt.
    """
    for vertex in job.vertices:
        entries = {entry["subtask"]: entry for entry in state.subtasks(vertex.id)}
        for subtask in range(vertex.parallelism):
            answers = [round_[vertex.id, subtask] for round_ in rounds if (vertex.id, subtask) in round_]
            if any(_has_fallen(earlier, later) for (_, earlier), (_, later) in pairwise(answers)):
                detail = f", as the counters of subtask {subtask} of {vertex.name!r} show"
                raise FlinkRestError(f"{client.url}: {restarted(job.id, detail)}")
            runs_ms = entries.get(subtask, {}).get("duration")
            if not answers or not isinstance(runs_ms, int) or runs_ms < 0:
                continue
            at_s, sample = answers[0]
            seconds = account_s(sample)
            if seconds is not None and seconds > runs_ms / 1e3 + at_s - state.asked_s + _YOUNGER_S:
                raise FlinkRestError(
                    f"{client.url}: job {job.id}: the metrics of subtask {subtask} of {vertex.name!r} "
                    "are still from before its restart. Try again in a few seconds."
                )


def _has_fallen(earlier: Sample, later: Sample) -> bool:
    fallen = any(later[field] < earlier[field] for field in _COUNTERS if field in earlier and field in later)
    before, after = account_s(earlier), account_s(later)
    return fallen or (before is not None and after is not None and after < before - _STEP_BACK_S)


def check_all_go_on(
    client: RestClient,
    job: FlinkJob,
    rounds: Sequence[Round],
    poll_again: Callable[[], Round],
    *,
    at_each_poll: bool,
) -> None:
    """Require that no task has stopped reporting while others continued.

    `poll_again` waits and polls once more; it is called if a task may have stopped. With `at_each_poll`,
    values are collected at every poll, so a task that stood still at the last poll is checked too. If all
    tasks stand still, as at the end of a recording, there is no error.

    Raises:
        FlinkRestError: a task has stopped reporting.
    """
    advances = _last_advances(rounds, job)
    others_advanced = max(advances.values(), default=0) >= len(rounds) - 1 - _MOST_BEHIND
    polls = list(rounds)
    for _ in range(_MORE_POLLS):
        stood_still = at_each_poll and others_advanced and min(advances.values()) < len(rounds)
        if not stood_still and not _behind(advances):
            break
        polls.append(poll_again())
        times = {task: at for round_ in rounds for task, (at, _) in round_.items()}
        if all(times.get(task) == at for task, (at, _) in polls[-1].items()):
            return  # after its end, a recording repeats its last answers
        advances = _last_advances(polls, job)
    if not (silent := _behind(advances)):
        return
    vertex_id, subtask = min(silent, key=lambda task: advances[task])
    vertex = next(vertex for vertex in job.vertices if vertex.id == vertex_id)
    manager = vertex.managers[subtask] if subtask < len(vertex.managers) else None
    raise FlinkRestError(
        f"{client.url}: job {job.id}: subtask {subtask} of {vertex.name!r} stopped reporting while others "
        f"continued; its task manager{'' if manager is None else f' {manager}'} may be lost or slow. "
        "Try again once the job runs steadily."
    )


def _behind(advances: Mapping[Task, int]) -> list[Task]:
    """Return the tasks that stood still or did not answer while others advanced."""
    latest = max(advances.values(), default=0)
    return [task for task, at in advances.items() if latest - at > _MOST_BEHIND]


def _last_advances(rounds: Sequence[Round], job: FlinkJob) -> dict[Task, int]:
    """Return the last poll at which each task advanced, if known."""
    polled = {vertex for round_ in rounds for vertex, _ in round_}
    advances = {
        (vertex.id, subtask): _last_advance(rounds, (vertex.id, subtask))
        for vertex in job.vertices
        if vertex.id in polled
        for subtask in range(vertex.parallelism)
    }
    return {task: at for task, at in advances.items() if at is not None}


def _last_advance(rounds: Sequence[Round], task: Task) -> int | None:
    """Return the last poll at which the time that a task reports has grown; -1: the task never answered.

    The time is the sum of busy, idle and back-pressured time. None: the task answers without these.
    """
    answers = [(at, round_[task][1]) for at, round_ in enumerate(rounds) if task in round_]
    if not _keeps_account([sample for _, sample in answers]):
        last = max((at for at, _ in answers), default=-1)
        return None if last >= len(rounds) - 1 - _MOST_BEHIND else last
    accounts = [(at, account_s(sample)) for at, sample in answers]
    advances = [
        later
        for (_, before), (later, after) in pairwise(accounts)
        if before is None or after is None or after > before  # a task with a missing part may have advanced
    ]
    return advances[-1] if advances else answers[0][0]


def _keeps_account(samples: Sequence[Sample]) -> bool:
    """Return whether a task reports its times, and they are not constant while its other values change."""
    accounts = set(map(account_s, samples))
    if accounts <= {None}:
        return False
    return len(accounts) > 1 or all(before == after for before, after in pairwise(samples))
