"""Figures of a job in a window of the past, from Prometheus, in the form of those read from Flink.

Values are requested at equidistant moments. Prometheus answers with its last scrape before each of them, and
scrapes task managers one after the other. So only moments are used at which all task managers have been
scraped again since the moment before. A moment at which a subtask is missing, because its task manager was
not scraped, is left out, too.

Flink reports the barriers of each subtask only as the last start delay and the last alignment. So a
checkpoint has the values that its subtasks reported when it had completed; those of a subtask may already
belong to the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from netstack import CheckpointResult, VertexCheckpoint

from ...base.errors import FlinkRestError, Note, Parameter
from ...base.optional_figures import highest
from ..http.client import RestClient
from .checkpoints import EndedCheckpoints
from .cores_in_use import CPU_LOAD, CPU_TIME
from .job import FlinkJob, FlinkVertex, host_of
from .job_state import JobState
from .past_window import COMPLETED, DURATION, FAILED, Window, completion_times, moment_text, span_text
from .polling import METER_AGE_S, METRICS, OVER_GATES
from .prometheus import (
    ATTEMPT,
    HOST,
    JOB,
    JOB_ID,
    MANAGER,
    MOST_IN_ANSWER,
    NAME,
    SUBTASK,
    TASK,
    TASK_ID,
    TASK_MANAGER,
    VALUES_OF_POINT,
    VALUES_OF_SERIES,
    Series,
    as_label,
    equidistant,
    one_of,
    query_range,
    selector,
)
from .running_tasks import has_fallen
from .samples import OF_A_MINUTE, Sample, Samples, SubtaskSamples, Task, account_s

MOST_MOMENTS, LEAST_MOMENTS = 61, 7
_MOMENTS_OF_ALL_TASKS = 70_000
"""Maximum number of moments, summed over all subtasks, which bounds the memory."""

_START_DELAY, _ALIGNMENT = "checkpointStartDelayNanos", "checkpointAlignmentTime"
_NANOS_PER_MS = 1e6

_OF_SOME_JOBS = frozenset(
    {"debloatedBufferSize", "estimatedTimeToConsumeBuffersMs", "currentInputWatermark", "watermarkLag"}
)
"""Fields that only jobs with debloating or with watermarks have."""

_STATE, _PROCESSED, _PERSISTED = (
    "lastCheckpointFullSize",
    "lastCheckpointProcessedData",
    "lastCheckpointPersistedData",
)
_OF_CHECKPOINTS = (DURATION, COMPLETED, FAILED, _STATE, _PROCESSED, _PERSISTED)
_COMPLETED_AT_MS, _ID = "lastCheckpointCompletedTimestamp", "lastCompletedCheckpointId"
"""Metrics that only later versions have."""

SEGMENTS = "Status.Shuffle.Netty.TotalMemorySegments"
_OF_MANAGERS = {f"{TASK_MANAGER}{name.replace('.', '_')}": name for name in (CPU_LOAD, CPU_TIME, SEGMENTS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFigures:
    """Figures of a job in a window of the past."""

    window: Window
    job: FlinkJob
    """The job as it was then: its age, and the task managers of its subtasks."""
    samples: Samples
    checkpoints: list[CheckpointResult]
    """Those that completed in the window or, if none did, the last one before."""
    ended: EndedCheckpoints
    before: bool
    """Whether the only checkpoint completed before the window."""
    managers: Mapping[str, Mapping[str, Any]]
    """The task managers of that time, in the form of ``/taskmanagers/ID``."""
    use: Mapping[str, list[Sample]]
    """Use of cores at each moment, by task manager."""
    gone: list[str]
    """Task managers that the cluster no longer has."""
    missing: list[str]
    """Names of metrics that Prometheus should have, and lacks."""
    moments: tuple[int, int]
    """Number of moments with figures of all subtasks, and of all moments."""


class _Tasks(NamedTuple):
    """The values of the subtasks of a job."""

    values: Mapping[Task, Mapping[float, Sample]]
    managers: Mapping[Task, str]
    """Label of the last task manager of each subtask."""
    attempts: Mapping[Task, Mapping[str, float]]
    """First moment of each attempt."""
    hosts: Mapping[str, str]
    """Host by label of the task manager."""
    names: frozenset[str]
    """Fields that at least one subtask has."""


def read_past(client: RestClient, job: FlinkJob, state: JobState, window: Window) -> PastFigures:
    """Read the figures of a job in a window.

    Raises:
        FlinkRestError: Prometheus cannot be read, lacks subtasks, or the job restarted in the window.
    """
    times = _moments(job, window)
    tasks = _read_tasks(client, job, window.job_id, times)
    _check_subtasks(job, window, tasks)
    _check_attempts(job, window, tasks)
    complete = [at for at in times if all(at in of_task for of_task in tasks.values.values())]
    scraped = _scraped(tasks, complete)
    if len(scraped) < 2:
        raise FlinkRestError(
            Note(
                f"Prometheus has scraped all subtasks {len(scraped)} times from "
                f"{span_text(window.begin_s, window.end_s)}; at least 2 are needed.",
                Parameter("for_s", 2 * (window.end_s - window.begin_s)),
                advice="Check that it scraped all task managers then, or set {}.",
            )
        )
    of_managers = _read_managers(client, window.job_id, times)
    managers, names, gone = _managers(state, tasks, of_managers)
    samples = _samples(job, window, tasks, scraped)
    then = _job_then(job, window, tasks, samples, names)
    if then.age_s < METER_AGE_S:
        samples = _without_meters(samples)
    of_checkpoints = _read_checkpoints(client, window.job_id, times)
    checkpoints, before = _checkpoints(then, window, tasks, of_checkpoints, times)
    use: dict[str, list[Sample]] = {
        names.get(label, label): [
            {name: series[at] for name, series in metrics.items() if name != SEGMENTS and at in series}
            for at in scraped
        ]
        for label, metrics in of_managers.items()
        if names.get(label, label) in managers
    }
    return PastFigures(
        window=window,
        job=then,
        samples=samples,
        checkpoints=checkpoints,
        ended=_ended(times, of_checkpoints),
        before=before,
        managers=managers,
        use=use,
        gone=gone,
        missing=_missing(tasks, of_checkpoints, of_managers),
        moments=(len(complete), len(times)),
    )


def _moments(job: FlinkJob, window: Window) -> list[float]:
    """Return equidistant moments of the window, at least a second apart, fewer for large jobs."""
    subtasks = sum(vertex.parallelism for vertex in job.vertices)
    seconds = window.end_s - window.begin_s
    most = min(MOST_MOMENTS, max(LEAST_MOMENTS, _MOMENTS_OF_ALL_TASKS // subtasks), int(seconds) + 1)
    return equidistant(window.begin_s, window.end_s, max(1, most - 1))


def _scraped(tasks: _Tasks, times: Sequence[float]) -> list[float]:
    """Return the moments at which the accounts of all subtasks have grown since the moment before."""
    used = list(times[:1])
    for at in times[1:]:
        accounts = (
            (account_s(of_task[used[-1]]), account_s(of_task[at])) for of_task in tasks.values.values()
        )
        if all(before is None or now is None or now > before for before, now in accounts):
            used.append(at)
    return used


# Subtasks


def _pattern_of(pattern: str) -> str:
    """Return the pattern of a metric in Prometheus, without its beginning, for one of the REST API."""
    return pattern.replace(r"\.", "_")


_PATTERNS = {
    **{field: "|".join(map(_pattern_of, patterns)) for field, patterns in METRICS.items()},
    _START_DELAY: _START_DELAY,
    _ALIGNMENT: _ALIGNMENT,
}


def _read_tasks(client: RestClient, job: FlinkJob, job_id: str, times: Sequence[float]) -> _Tasks:
    known = {vertex.id for vertex in job.vertices}
    values: dict[Task, dict[float, dict[str, float]]] = {}
    managers: dict[Task, tuple[float, str]] = {}
    attempts: dict[Task, dict[str, float]] = {}
    hosts: dict[str, str] = {}
    names: set[str] = set()
    for fields, found in _by_fields(client, job, job_id, times):
        for each in found:
            labels, number = each.labels, each.labels.get(SUBTASK, "")
            name = labels.get(NAME, "").removeprefix(TASK)
            field = next((field for field, pattern in fields.items() if pattern.fullmatch(name)), None)
            if field is None or labels.get(TASK_ID) not in known or not number.isdecimal() or not each.values:
                continue
            task = (labels[TASK_ID], int(number))
            names.add(field)
            first, last = min(each.values), max(each.values)
            if manager := labels.get(MANAGER):
                managers[task] = max(managers.get(task, (0.0, "")), (last, manager))
                hosts[manager] = labels.get(HOST, "")
            began = attempts.setdefault(task, {})
            attempt = labels.get(ATTEMPT, "")
            began[attempt] = min(first, began.get(attempt, first))
            choose = OVER_GATES.get(field, max)
            at_times = values.setdefault(task, {})
            for at, value in each.values.items():
                sample = at_times.setdefault(at, {})
                sample[field] = choose([sample[field], value]) if field in sample else value
    placed = {task: manager for task, (_, manager) in managers.items()}
    return _Tasks(values, placed, attempts, hosts, frozenset(names))


def _by_fields(
    client: RestClient, job: FlinkJob, job_id: str, times: Sequence[float]
) -> Iterator[tuple[Mapping[str, re.Pattern[str]], list[Series]]]:
    """Yield the series of some fields at a time, so that no answer has too many values."""
    subtasks = sum(vertex.parallelism for vertex in job.vertices)
    of_field = subtasks * (VALUES_OF_POINT * len(times) + VALUES_OF_SERIES)
    at_once = max(1, MOST_IN_ANSWER // of_field)
    fields = list(_PATTERNS)
    by = ",".join((NAME, TASK_ID, SUBTASK, ATTEMPT, MANAGER, HOST))
    for begin in range(0, len(fields), at_once):
        patterns = {field: _PATTERNS[field] for field in fields[begin : begin + at_once]}
        names = [f"{TASK}({'|'.join(patterns.values())})"]
        found = query_range(client, f"max by ({by}) ({selector(names, **{JOB_ID: one_of([job_id])})})", times)
        yield {field: re.compile(pattern) for field, pattern in patterns.items()}, found


def _check_subtasks(job: FlinkJob, window: Window, tasks: _Tasks) -> None:
    """Require figures of exactly the subtasks that the job has.

    Raises:
        FlinkRestError: subtasks are missing, or there are others.
    """
    problems = []
    for vertex in job.vertices:
        there = {subtask for vertex_id, subtask in tasks.values if vertex_id == vertex.id}
        if there == set(range(vertex.parallelism)):
            continue
        if not there:
            problems.append(f"{vertex.name!r}: Prometheus has no figures of it.")
        elif max(there) >= vertex.parallelism:
            problems.append(
                f"{vertex.name!r}: it had {max(there) + 1} subtasks then, and has {vertex.parallelism} in "
                "the cluster. Give a recording of that time in place of the cluster."
            )
        else:
            absent = sorted(set(range(vertex.parallelism)) - there)
            problems.append(
                f"{vertex.name!r}: Prometheus has no figures of subtask {', '.join(map(str, absent))}: it "
                "did not scrape all task managers, or the job had another parallelism then."
            )
    if problems:
        when = f"From {span_text(window.begin_s, window.end_s)}: "
        raise FlinkRestError(*(when + problem for problem in problems))


def _check_attempts(job: FlinkJob, window: Window, tasks: _Tasks) -> None:
    """Require that no subtask restarted in the window.

    Raises:
        FlinkRestError: a subtask restarted, as its attempts or its counters show.
    """
    restarts: list[tuple[float, Task]] = []
    for task, at_times in tasks.values.items():
        restarts += [(began, task) for began in sorted(tasks.attempts[task].values())[1:]]
        in_order = sorted(at_times.items())
        restarts += [(at, task) for (_, before), (at, now) in pairwise(in_order) if has_fallen(before, now)]
    if not restarts:
        return
    at, (vertex_id, subtask) = min(restarts)
    vertex = next(vertex for vertex in job.vertices if vertex.id == vertex_id)
    raise FlinkRestError(
        Note(
            f"The job restarted at about {moment_text(at)}, as the counters of subtask {subtask} of "
            f"{vertex.name!r} show, within the window {span_text(window.begin_s, window.end_s)}.",
            Parameter("begin_s"),
            Parameter("for_s"),
            advice="Set {} and {} to a window without a restart.",
        )
    )


def _samples(job: FlinkJob, window: Window, tasks: _Tasks, times: Sequence[float]) -> Samples:
    barriers = {_START_DELAY, _ALIGNMENT}
    samples: dict[str, list[SubtaskSamples]] = {}
    for vertex in job.vertices:
        samples[vertex.id] = [
            SubtaskSamples(
                tuple(
                    {field: value for field, value in of_task[at].items() if field not in barriers}
                    for at in times
                ),
                tuple(times),
            )
            for of_task in (tasks.values[vertex.id, number] for number in range(vertex.parallelism))
        ]
    return samples


def _without_meters(samples: Samples) -> Samples:
    """Return samples without rates of the minute before, in which the job did not run all the time."""
    return {
        vertex: [
            SubtaskSamples(
                tuple(
                    {field: value for field, value in sample.items() if not field.endswith(OF_A_MINUTE)}
                    for sample in subtask.samples
                ),
                subtask.times,
            )
            for subtask in subtasks
        ]
        for vertex, subtasks in samples.items()
    }


def _job_then(
    job: FlinkJob, window: Window, tasks: _Tasks, samples: Samples, names: Mapping[str, str]
) -> FlinkJob:
    """Return the job with its age and the places of its subtasks at the begin of the window.

    If it has started since, its age follows from the time for which its tasks account.
    """
    since_s = job.running_since_ms / 1e3
    if window.job_id != job.id or since_s > window.begin_s:
        accounts = (account_s(each.samples[0]) for subtasks in samples.values() for each in subtasks)
        since_s = window.begin_s - (highest(accounts) or 0.0)
    vertices = []
    for vertex in job.vertices:
        labels = [tasks.managers.get((vertex.id, number)) for number in range(vertex.parallelism)]
        managers = tuple(None if label is None else names.get(label, label) for label in labels)
        vertices.append(
            replace(vertex, totals=(), managers=vertex.managers if None in managers else managers)
        )
    return replace(
        job, running_since_ms=1e3 * since_s, age_s=window.begin_s - since_s, vertices=tuple(vertices)
    )


# Task managers


def _read_managers(
    client: RestClient, job_id: str, times: Sequence[float]
) -> dict[str, dict[str, Mapping[float, float]]]:
    """Return the metrics of the task managers that ran the job, by their labels and by their REST names."""
    of_job = selector([f"{TASK}numRecordsIn", f"{TASK}numRecordsOut"], **{JOB_ID: one_of([job_id])})
    query = (
        f"max by ({NAME},{MANAGER}) ({selector(_OF_MANAGERS)}) and on ({MANAGER}) "
        f"count by ({MANAGER}) ({of_job})"
    )
    found: dict[str, dict[str, Mapping[float, float]]] = {}
    for each in query_range(client, query, times):
        name, label = _OF_MANAGERS.get(each.labels.get(NAME, "")), each.labels.get(MANAGER)
        values = {at: value for at, value in each.values.items() if value >= 0}
        if name is not None and label and values:
            found.setdefault(label, {})[name] = values
    return found


def _managers(
    state: JobState, tasks: _Tasks, metrics: Mapping[str, Mapping[str, Mapping[float, float]]]
) -> tuple[dict[str, dict[str, Any]], dict[str, str], list[str]]:
    """Return the task managers of the job at that time, their ids by label, and those that are gone.

    Of a task manager that is gone, the host and the network memory are known. It is assumed to have had the
    cores of the present ones, if these are equal.
    """
    ids = {as_label(manager): manager for manager in state.managers}
    labels = sorted(set(tasks.managers.values()), key=lambda label: (len(label), label))
    of_paths = filter(None, (host_of(answer.get("path")) for answer in state.managers.values()))
    hosts = {as_label(host): host for host in of_paths}
    hardware = [answer.get("hardware") for answer in state.managers.values()]
    alike = hardware[0] if hardware and all(each == hardware[0] for each in hardware) else None
    found: dict[str, dict[str, Any]] = {}
    for label in labels:
        present = state.managers.get(ids.get(label, label))
        details = dict(present or {})
        if present is None:
            if host := tasks.hosts.get(label):
                details["path"] = f"flink@{hosts.get(host, host)}"
            if alike is not None:
                details["hardware"] = alike
        if segments := metrics.get(label, {}).get(SEGMENTS):
            count = segments[max(segments)]
            details["metrics"] = {**details.get("metrics", {}), "nettyShuffleMemorySegmentsTotal": int(count)}
        found[ids.get(label, label)] = details
    gone = [label for label in labels if label not in ids] if state.managers else []
    return found, ids, gone


# Checkpoints


def _read_checkpoints(
    client: RestClient, job_id: str, times: Sequence[float]
) -> dict[str, Mapping[float, float]]:
    names = [JOB + name for name in (*_OF_CHECKPOINTS, _COMPLETED_AT_MS, _ID)]
    query = f"max by ({NAME}) ({selector(names, **{JOB_ID: one_of([job_id])})})"
    found = query_range(client, query, times)
    return {each.labels.get(NAME, "").removeprefix(JOB): each.values for each in found if each.values}


def _checkpoints(
    job: FlinkJob,
    window: Window,
    tasks: _Tasks,
    series: Mapping[str, Mapping[float, float]],
    times: Sequence[float],
) -> tuple[list[CheckpointResult], bool]:
    """Return the checkpoints that completed in the window, and False; else the last one, and True."""
    completed = list(completion_times(times, series))
    if completed:
        return [_checkpoint(job, window, tasks, series, at) for at in completed], False
    last = [at for at in times if series.get(DURATION, {}).get(at, -1.0) >= 0]
    return [_checkpoint(job, window, tasks, series, at) for at in last[:1]], bool(last)


def _checkpoint(
    job: FlinkJob,
    window: Window,
    tasks: _Tasks,
    series: Mapping[str, Mapping[float, float]],
    at: float,
) -> CheckpointResult:
    """Return the checkpoint that had completed at a time."""

    def count(name: str) -> int | None:
        value = series.get(name, {}).get(at, -1.0)
        return None if value < 0 else int(value)

    duration_ms, completed_ms = series[DURATION][at], count(_COMPLETED_AT_MS) or 1e3 * at
    processed, persisted = count(_PROCESSED), count(_PERSISTED)
    are_known = processed is not None and persisted is not None
    return CheckpointResult(
        id=count(_ID) or count(COMPLETED) or 0,
        t=(completed_ms - duration_ms - job.running_since_ms) / 1e3,
        checkpoint_type="UNKNOWN",
        duration_ms=duration_ms,
        state_bytes=count(_STATE) or 0,
        processed_bytes=processed or 0,
        persisted_bytes=persisted or 0,
        vertices=[_part(job, vertex, tasks, at, persisted, are_known=are_known) for vertex in job.vertices],
    )


def _part(
    job: FlinkJob, vertex: FlinkVertex, tasks: _Tasks, at: float, persisted: int | None, *, are_known: bool
) -> VertexCheckpoint:
    def each(field: str) -> list[float | None]:
        values = (
            tasks.values[vertex.id, number].get(at, {}).get(field, -1.0)
            for number in range(vertex.parallelism)
        )
        return [None if value < 0 else value / _NANOS_PER_MS for value in values]

    delays, nothing = each(_START_DELAY), [None] * vertex.parallelism
    return VertexCheckpoint(
        name=job.names[vertex.id],
        start_delay_ms=delays,
        alignment_ms=each(_ALIGNMENT),
        # The sizes of a subtask are unknown. Without sizes of the whole checkpoint, none is known.
        alignment_processed_bytes=[] if are_known else list(nothing),
        alignment_persisted_bytes=[] if are_known else list(nothing),
        unaligned=[False] * vertex.parallelism if persisted == 0 else list(nothing),
    )


def _ended(times: Sequence[float], series: Mapping[str, Mapping[float, float]]) -> EndedCheckpoints:
    completed, failed = (_growth(times, series.get(name, {})) for name in (COMPLETED, FAILED))
    return EndedCheckpoints(completed + failed, failed)


def _growth(times: Sequence[float], counts: Mapping[float, float]) -> int:
    """Return how much a count grew. A new job manager begins again at 0."""
    known = [counts[at] for at in times if at in counts]
    return int(sum(max(0.0, now - before) for before, now in pairwise(known)))


def _missing(
    tasks: _Tasks,
    of_checkpoints: Mapping[str, object],
    of_managers: Mapping[str, Mapping[str, object]],
) -> list[str]:
    """Return the names of the metrics that Prometheus should have, and lacks."""
    patterns = {field: pattern for field, pattern in _PATTERNS.items() if field not in _OF_SOME_JOBS}
    missing = [
        TASK + pattern.partition("|")[0] for field, pattern in patterns.items() if field not in tasks.names
    ]
    missing += [JOB + name for name in _OF_CHECKPOINTS if name not in of_checkpoints]
    missing += [
        metric
        for metric, name in _OF_MANAGERS.items()
        if not any(name in metrics for metrics in of_managers.values())
    ]
    return missing
