"""The window of a job's past whose figures are read, and the id of the job at that time.

Checkpoints are reported when they complete, so the gauge of the last duration lags behind. The duration at a
moment is therefore that of the checkpoint that completes next::

    completed     1 s             9 s             8 s       1 s
                   |               |               |         |
    gauge          1 1 1 1 1 1 1 1 9 9 9 9 9 9 9 9 8 8 8 8 8 1
    used           9 9 9 9 9 9 9 9 8 8 8 8 8 8 8 8 1 1 1 1 1 ...

The slowest window is the one with the highest mean of these durations. Windows in which the job restarted do
not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple

from ...base.errors import FlinkRestError, Note, Parameter
from ...base.number_text import time_span
from ...base.optional_figures import known
from ..http.answers import Past
from ..http.client import RestClient
from .job import FlinkJob
from .prometheus import (
    JOB,
    JOB_ID,
    NAME,
    TASK,
    TASK_ID,
    equidistant,
    one_of,
    query_range,
    selector,
)

RECORDS = (f"{TASK}numRecordsIn", f"{TASK}numRecordsOut")
"""Metrics that every task has."""

DURATION, COMPLETED = "lastCheckpointDuration", "numberOfCompletedCheckpoints"
FAILED, _RESTARTS = "numberOfFailedCheckpoints", "numRestarts"

_STEPS_OF_WINDOW = 20
_LEAST_STEPS = 4
MOST_STEPS = 10_000
"""Prometheus gives at most 11,000 points of a series."""

MOST_WINDOWS = MOST_STEPS // _LEAST_STEPS
"""Maximum ratio of the time that is searched to the window."""

_MOST_SHOWN = 5
_ROUNDING_S = 0.001


class Window(NamedTuple):
    """A time in seconds since 1970, and the id that the job had then."""

    begin_s: float
    end_s: float
    job_id: str
    slowest: Slowest | None = None
    """Its durations of checkpoints, if the window was searched."""


class Slowest(NamedTuple):
    """Durations of checkpoints in milliseconds: the mean in the slowest window, and the usual one."""

    mean_ms: float
    usual_ms: float
    searched_s: float
    failed_at: tuple[float, ...] = ()
    """Times outside the window at which checkpoints had failed. They have no duration."""


def moment_text(at_s: float) -> str:
    """Return a time in local time, with its offset from UTC."""
    return f"{datetime.fromtimestamp(at_s).astimezone():%Y-%m-%d %H:%M:%S %z}"


def span_text(begin_s: float, end_s: float) -> str:
    """Return a span of time in local time, with the offset from UTC at its end."""
    begin, end = (datetime.fromtimestamp(at_s).astimezone() for at_s in (begin_s, end_s))
    same_day = begin.date() == end.date() and begin.utcoffset() == end.utcoffset()
    return f"{moment_text(begin_s)[:19] if same_day else moment_text(begin_s)} to " + (
        f"{end:%H:%M:%S %z}" if same_day else moment_text(end_s)
    )


def find_window(client: RestClient, job: FlinkJob, past: Past) -> Window:
    """Return the window to read.

    Raises:
        FlinkRestError: Prometheus cannot be read, or lacks the job or its checkpoints at that time.
    """
    span_s = past.end_s - past.begin_s
    times = _times(past.begin_s, past.end_s, past.for_s / _LEAST_STEPS)
    first = job.vertices[0].id
    counts = query_range(
        client, f"count by ({JOB_ID}) ({selector(RECORDS, **{TASK_ID: one_of([first])})})", times
    )
    ids = [each.labels[JOB_ID] for each in counts if each.labels.get(JOB_ID)]
    if not ids:
        raise _unknown_job(client, job, times)
    if span_s < past.for_s + _ROUNDING_S:
        if job.id in ids:
            return Window(past.begin_s, past.end_s, job.id)
        if len(ids) == 1:
            return Window(past.begin_s, past.end_s, ids[0])
        raise FlinkRestError(
            f"From {span_text(past.begin_s, past.end_s)}, {len(ids)} jobs with the vertices of {job.name} "
            f"ran in Prometheus, and none has the id {job.id}: {_listed(ids)}. Choose a time when one ran."
        )
    return _slowest(client, ids, past)


def _times(begin_s: float, end_s: float, step_s: float) -> list[float]:
    """Return equidistant times from `begin_s` on, at most `MOST_STEPS` steps, of at least a second."""
    steps = max(1, min(MOST_STEPS, round((end_s - begin_s) / max(1.0, step_s))))
    return equidistant(begin_s, end_s, steps)


def _slowest(client: RestClient, ids: Sequence[str], past: Past) -> Window:
    span_s = past.end_s - past.begin_s
    in_window = max(_LEAST_STEPS, min(_STEPS_OF_WINDOW, int(MOST_STEPS * past.for_s / span_s)))
    steps = int(span_s / past.for_s * in_window)
    times = equidistant(past.end_s - steps * past.for_s / in_window, past.end_s, steps)
    names = [JOB + name for name in (DURATION, COMPLETED, FAILED, _RESTARTS)]
    found = query_range(
        client, f"max by ({NAME},{JOB_ID}) ({selector(names, **{JOB_ID: one_of(ids)})})", times
    )
    by_id: dict[str, dict[str, Mapping[float, float]]] = {}
    for each in found:
        name = each.labels.get(NAME, "").removeprefix(JOB)
        by_id.setdefault(each.labels.get(JOB_ID, ""), {})[name] = each.values
    if not any(DURATION in series for series in by_id.values()):
        raise FlinkRestError(
            Note(
                f"Prometheus has no {JOB}{DURATION} of the job {', '.join(ids[:_MOST_SHOWN])} from "
                f"{span_text(past.begin_s, past.end_s)}, so the slowest checkpoints are unknown. Check that "
                "it scrapes the job manager.",
                Parameter("begin_s"),
                advice="Or set {} to a time.",
            )
        )
    windows: list[tuple[float, Window]] = []
    all_ms: list[float] = []
    for job_id, of_job in by_id.items():
        durations = _next_durations(times, of_job)
        all_ms += known(durations)
        for at in range(len(times) - in_window):
            inside = range(at, at + in_window + 1)
            known_ms = known(durations[number] for number in inside)
            restarts = {of_job.get(_RESTARTS, {}).get(times[number]) for number in inside}
            if len(known_ms) == len(inside) and len(restarts) == 1:
                mean_ms = sum(known_ms) / len(known_ms)
                windows.append((mean_ms, Window(times[at], times[at + in_window], job_id)))
    if not windows:
        raise FlinkRestError(
            Note(
                f"Prometheus has no window of {time_span(past.for_s)} from "
                f"{span_text(past.begin_s, past.end_s)} in which the job ran without a restart and completed "
                "checkpoints.",
                Parameter("for_s", max(10.0, past.for_s / 5)),
                advice="Try a shorter one, such as {}.",
            )
        )
    mean_ms, window = max(windows, key=lambda each: each[0])
    failed_at = tuple(
        now
        for of_job in by_id.values()
        for before, now in pairwise(times)
        if of_job.get(FAILED, {}).get(now, 0.0) > of_job.get(FAILED, {}).get(before, inf)
        and not window.begin_s <= now <= window.end_s
    )
    return window._replace(slowest=Slowest(mean_ms, median(all_ms), span_s, failed_at))


def _next_durations(
    times: Sequence[float], series: Mapping[str, Mapping[float, float]]
) -> list[float | None]:
    """Return, for each time, the duration in ms of the checkpoint that completes next.

    After the last one, it is the last duration. None: the job manager reported none at that time.
    """
    gauge = series.get(DURATION, {})
    durations: list[float | None] = [None] * len(times)
    upcoming: float | None = None
    completions = set(completion_times(times, series))
    for number in range(len(times) - 1, -1, -1):
        now = gauge.get(times[number])
        if now is None or now < 0:
            upcoming = None
            continue
        upcoming = now if upcoming is None else upcoming
        durations[number] = upcoming
        if times[number] in completions:
            upcoming = now
    return durations


def completion_times(times: Sequence[float], series: Mapping[str, Mapping[float, float]]) -> Iterator[float]:
    """Yield the times at which a checkpoint had completed since the time before."""
    gauge, counts = series.get(DURATION, {}), series.get(COMPLETED, {})
    for before, now in pairwise(times):
        if before in gauge and now in gauge and gauge[now] >= 0:
            grown = counts.get(now, 0.0) > counts.get(before, 0.0)
            if grown or gauge[now] != gauge[before]:
                yield now


def _unknown_job(client: RestClient, job: FlinkJob, times: Sequence[float]) -> FlinkRestError:
    """Return the error about a job that Prometheus does not know at these times, with the reason."""
    when = f"from {span_text(times[0], times[-1])}"
    found = query_range(client, f"count by ({JOB_ID},job_name) ({selector(RECORDS)})", times)
    if not found:
        return FlinkRestError(
            f"Prometheus has no {RECORDS[0]} {when}. Check that it scraped Flink's Prometheus reporter then, "
            "and that its rules do not rename or drop the metrics."
        )
    if not any(each.labels.get(JOB_ID) for each in found):
        return FlinkRestError(f"{RECORDS[0]} in Prometheus has no label {JOB_ID}. {_EXCLUDED}")
    if not any(each.labels.get(JOB_ID) == job.id for each in found):
        jobs = sorted(f"{each.labels.get(JOB_ID)} ({each.labels.get('job_name')})" for each in found)
        return FlinkRestError(
            f"Prometheus has no job {job.id} ({job.name}) {when}, and no other job with its vertices. It has "
            f"{_listed(jobs)}."
        )
    tasks = query_range(client, f"count by ({TASK_ID}) ({_of_job(job.id)})", times)
    if not any(each.labels.get(TASK_ID) for each in tasks):
        return FlinkRestError(f"{RECORDS[0]} in Prometheus has no label {TASK_ID}. {_EXCLUDED}")
    return FlinkRestError(
        f"Prometheus has the job {job.id} {when}, but not its vertex {job.vertices[0].name!r}: the job had "
        "another plan then. Give a recording of that time in place of the cluster."
    )


def _of_job(job_id: str) -> str:
    return selector(RECORDS, **{JOB_ID: one_of([job_id])})


_EXCLUDED = (
    "Check metrics.reporter.prom.scope.variables.excludes in Flink's options, and the rules that relabel "
    "metrics."
)


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_SHOWN
    return ", ".join(texts[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
