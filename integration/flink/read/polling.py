"""Polling the metrics of all subtasks.

Flink lists the names of a subtask's metrics, and reports the values of those that are requested. Its job
manager collects values at most once per update interval (``metrics.fetcher.update-interval``, 10 s by
default), and reports the last values until then. So polling for a shorter time sees no change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netstack import QuantityError, parse_flink_duration

from ..http.answers import number
from ..http.client import RestClient
from .job import FlinkJob
from .job_state import JobState
from .running_tasks import check_all_go_on, check_counts
from .samples import METER_S, OF_A_MINUTE, Round, Sample, Samples, samples_of

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

METER_AGE_S = METER_S + 10.0
"""Minimum age of a job, in seconds, for its meters to cover a whole minute of running tasks."""

OVER_GATES: Mapping[str, Callable[[Sequence[float]], float]] = {"debloatedBufferSize": min}
"""Aggregation of a field's values over several gates; by default the maximum."""

MetricNames = Mapping[str, Mapping[str, str]]
"""Metric names of the subtasks and the field of each, by vertex id."""


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
            if field.endswith(OF_A_MINUTE) and job.age_s < METER_AGE_S:
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
        field: OVER_GATES.get(field, max)(of_gates)
        for field, of_gates in values.items()
        if len(of_gates) == expected[field]
    }
