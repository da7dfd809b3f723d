"""Check that all tasks ran while their metrics were polled.

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

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from ...base.errors import FlinkRestError
from ..http.client import RestClient
from .job import FlinkJob
from .job_state import JobState, restarted
from .samples import Round, Sample, Task, account_s

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


_LEAST_LACK = 0.5
"""A task lacks time if it accounts for less than the median of all tasks, by this share of the longest step
between two polls.
"""


def check_counts(client: RestClient, job: FlinkJob, state: JobState, rounds: Sequence[Round]) -> None:
    """Require that counters have only grown, and belong to the attempts that run.

    Raises:
        FlinkRestError: a task's counter was reset, or belongs to an earlier attempt.
    """
    for vertex in job.vertices:
        entries = {entry["subtask"]: entry for entry in state.subtasks(vertex.id)}
        for subtask in range(vertex.parallelism):
            answers = [round_[vertex.id, subtask] for round_ in rounds if (vertex.id, subtask) in round_]
            if any(has_fallen(earlier, later) for (_, earlier), (_, later) in pairwise(answers)):
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


def has_fallen(earlier: Sample, later: Sample) -> bool:
    """Return whether a counter, or the time for which a task accounts, was reset between two answers."""
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
    silent = [task for task in _behind(advances) if _lacks_time(polls, task)]
    if not silent:
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


def _lacks_time(polls: Sequence[Round], task: Task) -> bool:
    """Return whether a task accounts for less time since the first poll than others; True: it has no account.

    A task that stands still at the end of a recording does not: its last values were only read earlier.
    """
    accounts: dict[Task, list[float]] = {}
    for round_ in polls:
        for each, (_, sample) in round_.items():
            if (seconds := account_s(sample)) is not None:
                accounts.setdefault(each, []).append(seconds)
    if task not in accounts:
        return True
    steps = [after - before for each in accounts.values() for before, after in pairwise(each)]
    grown = {each: seconds[-1] - seconds[0] for each, seconds in accounts.items()}
    return median(grown.values()) - grown[task] > _LEAST_LACK * max(steps, default=0.0)


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
