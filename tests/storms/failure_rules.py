"""The rules of failures, held against the times of a run: heartbeats that are missed, delays of restarts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from netstack import AtTime, CutLink, DelayMessages, DropMessages, Job, RestartStrategy

from .case import StormCase

_ROUNDING_S = 1e-9
_COMPLETED = "completed"
"""What tells tasks that a checkpoint is complete, the last one too, before which they do not end."""


class Tasks(NamedTuple):
    """When the tasks of an attempt were there, running or not, in seconds; what ended it, if it failed."""

    begin: float
    end: float
    cause: str | None


def check_heartbeats(case: StormCase, job: Job) -> Iterator[str]:
    """A link that is cut for longer than the timeout has failed the job then, and not before.

    Of a job with several regions only those fail that need the link, and nothing fails whose tasks at one of
    its ends have ended.
    """
    if len(job.regions) > 1:
        return
    timeout = case.config.heartbeat_timeout_s
    for tasks in _attempts(job):
        due = [
            (max(tasks.begin, time) + timeout, cuts)
            for time, cuts in _fired_cuts(case, job)
            if time < tasks.end and any(_until(time, cut) > max(tasks.begin, time) + timeout for cut in cuts)
        ]
        for at, cuts in due:
            if len(cuts) == 1 and at < tasks.end - _ROUNDING_S and not _only_some_are_left(case, job, tasks):
                yield f"{cuts[0]}, and no heartbeat came for {timeout:g} s: no failure at {at:.6f} s"
        if tasks.cause is not None and "no heartbeat came" in tasks.cause:
            times = [at for at, _ in due]
            if not any(abs(at - tasks.end) <= _ROUNDING_S for at in times):
                yield f"{tasks.cause}: at {tasks.end:.6f} s, and due was that at {times}"


def _only_some_are_left(case: StormCase, job: Job, tasks: Tasks) -> bool:
    """Whether a task may have gone on after others had ended: it did not hear of the last checkpoint."""
    fired = {each.what for each in job.faults.fired}
    holds_up = (fault for fault in case.faults if isinstance(fault, DelayMessages | DropMessages))
    return tasks.cause is None and any(
        fault.messages == _COMPLETED and str(fault) in fired for fault in holds_up
    )


def _fired_cuts(case: StormCase, job: Job) -> Iterator[tuple[float, list[CutLink]]]:
    """When a cut has fired, and which ones it may have been: several may have the same text."""
    cuts = [fault for fault in case.faults if isinstance(fault, CutLink)]
    for each in job.faults.fired:
        alike = [fault for fault in cuts if str(fault) == each.what]
        timed = [
            fault
            for fault in alike
            if isinstance(fault.when, AtTime) and abs(fault.when.time_s - each.time) <= _ROUNDING_S
        ]
        counted = [fault for fault in alike if not isinstance(fault.when, AtTime)]
        if alike:
            yield each.time, timed or counted


def _until(time: float, cut: CutLink) -> float:
    return math.inf if cut.for_s is None else time + cut.for_s


def _attempts(job: Job) -> Iterator[Tasks]:
    begin: float | None = 0.0
    for restart in job.restarts:
        if begin is not None:
            yield Tasks(begin, restart.failed_at, restart.cause)
        begin = restart.restarted_at
    if begin is not None:
        yield Tasks(begin, job.agenda.now, job.failure)


def check_delays(case: StormCase, job: Job) -> Iterator[str]:
    """Every restart came after the delay that its strategy says."""
    config = case.config
    match case.restart_strategy:
        case RestartStrategy.FIXED_DELAY:
            least = most = config.restart_delay_s
        case RestartStrategy.FAILURE_RATE:
            least = most = config.restart_failure_rate_delay_s
        case _:
            least, most = config.restart_initial_backoff_s, config.restart_max_backoff_s
    for number, restart in enumerate(job.restarts, 1):
        # A failure while tasks wait for their restart counts as one with theirs.
        ends = [
            each.failed_at + most if each.restarted_at is None else each.restarted_at
            for each in job.restarts[: number - 1]
        ]
        waits = bool(restart.tasks) or max(ends, default=0.0) > restart.failed_at
        merged = waits and case.restart_strategy is RestartStrategy.EXPONENTIAL_DELAY
        if restart.restarted_at is None or merged:
            continue
        shortest, longest = _deployment_s(job, restart.tasks)
        delay = restart.restarted_at - restart.failed_at
        if not least + shortest - _ROUNDING_S <= delay <= most + longest + _ROUNDING_S:
            says = f"{case.restart_strategy} says {least:g} s and deployment"
            yield f"restart {number} came after {delay:.6f} s, and {says}"


def _deployment_s(job: Job, names: Sequence[str]) -> tuple[float, float]:
    """The shortest and longest time in which tasks are deployed: exact for all, whose names are not given."""
    scenario = job.scenario
    managers = Counter(
        vertex.manager_of(index) for vertex in scenario.vertices for index in range(vertex.parallelism)
    )
    costs, most = scenario.costs, max(managers.values())
    least = 1 if names else most
    return costs.deploy_s + costs.deploy_per_task_s * least, costs.deploy_s + costs.deploy_per_task_s * most
