"""Polling the metrics of all subtasks.

Flink lists the names of a subtask's metrics, and reports the values of those that are requested. Its job
manager collects values at most once per update interval (``metrics.fetcher.update-interval``, 10 s by
default), and reports the last values until then. So polling for a shorter time sees no change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from netstack import QuantityError, parse_flink_duration

from ...base.optional_figures import quotient
from ..http.answers import number
from ..http.client import RestClient
from .job import FlinkJob, FlinkVertex
from .job_state import JobState
from .running_tasks import check_all_go_on, check_counts
from .samples import (
    ACCOUNT,
    METER_S,
    OF_A_MINUTE,
    Round,
    Sample,
    Samples,
    account_s,
    samples_of,
    totals,
)

POLLS = 12
"""Number of polls of a job of which all subtasks are polled in detail."""

POLLS_OF_LARGE = 7
"""Maximum number of polls of a larger job, at most one for each update of its metrics."""

IN_DETAIL = 300
"""Maximum number of subtasks of a job that are polled in detail."""

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

_BETWEEN = frozenset({"records_in", "records_out", *ACCOUNT})
"""Fields of a subtask that is not polled in detail: whether it runs, and the course of its load."""

_AT_END = _BETWEEN | {
    *("bytes_in", "bytes_out", "buffers_in_remote", "buffers_in_local", "buffers_out"),
    "currentInputWatermark",
}
"""Fields of such a subtask at the last poll: all that a scenario needs of every subtask."""

AT_BEGIN = _AT_END | {field for field in METRICS if field.endswith(OF_A_MINUTE)}
"""Fields of such a subtask at the first poll, with the rates of the minute before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """The metrics to request."""

    fields: Mapping[str, Mapping[str, str]]
    """Metric names of the subtasks and the field of each, by vertex id."""
    in_detail: Mapping[str, Collection[int]]
    """The subtasks that are polled in detail, by vertex id. Others are polled for their load alone."""


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
    interval_s, in_detail = _interval_s(job), subtasks_in_detail(job)
    is_large = any(len(in_detail[vertex.id]) < vertex.parallelism for vertex in job.vertices)
    polls = POLLS
    if is_large:
        updates = watch_s / interval_s if interval_s else inf
        polls = 1 + int(min(max(updates, 1), POLLS_OF_LARGE - 1))
    period = watch_s / (polls - 1)
    fields = metric_fields(client, job, lambda: pause(period))
    polled = Polled(fields=fields, in_detail=in_detail)
    rounds: list[Round] = []
    begin_s = client.clock()
    for number_of in range(polls):
        if number_of:
            now_s = client.clock()
            begin_s = max(begin_s + period, now_s)
            pause(begin_s - now_s)
        needed = {0: AT_BEGIN, polls - 1: _AT_END}.get(number_of, _BETWEEN)
        rounds.append(poll(client, job, polled, needed))
        on_poll(number_of * period)

    def poll_again() -> Round:
        pause(period)
        return poll(client, job, polled, _BETWEEN)

    check_counts(client, job, state, rounds)
    # For a large job, one more poll would take a whole interval.
    at_each_poll = interval_s < period if is_large else interval_s < 2 * period
    check_all_go_on(client, job, rounds, poll_again, at_each_poll=at_each_poll)
    return samples_of(rounds, job)


def subtasks_in_detail(job: FlinkJob) -> Mapping[str, Collection[int]]:
    """Return the subtasks to poll in detail, by vertex id.

    These are all, or those of each vertex that have been busiest since they started, and as many others.
    """
    in_detail: dict[str, Collection[int]] = {}
    left = IN_DETAIL
    # Small vertices first, since they need less than an equal part.
    vertices = sorted(job.vertices, key=lambda vertex: vertex.parallelism)
    for number_of, vertex in enumerate(vertices):
        most = max(1, left // (len(vertices) - number_of))
        in_detail[vertex.id] = _of_vertex(vertex, most)
        left -= len(in_detail[vertex.id])
    return in_detail


def _of_vertex(vertex: FlinkVertex, most: int) -> Collection[int]:
    """Return at most so many subtasks of a vertex: the busiest ones, and others at equal distances."""
    if vertex.parallelism <= most:
        return range(vertex.parallelism)
    busy = {subtask: _busy_share(totals(vertex, subtask)) for subtask in range(vertex.parallelism)}
    by_share = sorted(busy, key=lambda subtask: -busy[subtask])
    chosen = set(by_share[: (most + 1) // 2])
    others = [subtask for subtask in busy if subtask not in chosen]
    more = most - len(chosen)
    return chosen | {others[place * len(others) // more] for place in range(more)}


def _busy_share(sample: Sample) -> float:
    """Return the share of time for which a subtask has been busy; 0: not reported."""
    return quotient(quotient(sample.get("busy_ms"), 1e3), account_s(sample)) or 0.0


def metric_fields(
    client: RestClient, job: FlinkJob, wait: Callable[[], None]
) -> Mapping[str, Mapping[str, str]]:
    """Return the names of the metrics to request and their fields, by vertex id.

    `wait` is called while a starting cluster lists no metrics.
    """
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


def poll(client: RestClient, job: FlinkJob, polled: Polled, needed: Collection[str]) -> Round:
    """Request the present values of all subtasks; `needed` are the fields of those not polled in detail."""
    answers = {}
    for vertex in job.vertices:
        fields, in_detail = polled.fields[vertex.id], polled.in_detail[vertex.id]
        if not fields:
            continue
        every, some = tuple(fields), tuple(name for name, field in fields.items() if field in needed)
        names = {subtask: every if subtask in in_detail else some for subtask in range(vertex.parallelism)}
        path = f"/jobs/{job.id}/vertices/{vertex.id}"
        for subtask, entries in client.subtask_metrics(path, names):
            if entries:
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
