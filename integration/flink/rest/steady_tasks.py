"""Whether the tasks that are watched all run all the time: counts go up, and clocks go on.

Between the moment at which a task restarts, or its task manager is lost, and the moment at which the
cluster says so, seconds pass. What tells of it until then are the metrics: counts that begin anew, or are
still those of an earlier attempt, and values that stand still while those of other tasks go on::

    look                    1     2     3     4     5     6     7
    most tasks              40    40    50    50    60    60    70   s, as they account for their time
    asked just before       40    40    40    50    50    60    60   a look later: values came in between
    of a lost task manager  40    40    50    50    50    50    50

Flink collects the values of all tasks together, so that nobody is two looks behind for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from ...analysis.known_values import complete
from ...errors import FlinkRestError
from .client import RestClient
from .cluster_job import FlinkJob
from .job_state import JobState, restarted

Sample = Mapping[str, float]
"""Values by field; what a task does not have is absent."""

Task = tuple[str, int]
"""The id of a vertex, and the number of a subtask."""

Round = Mapping[Task, tuple[float, Sample]]
"""What tasks answered at one look, and when (seconds of the asker's clock)."""

_COUNTERS = (
    "records_in",
    "records_out",
    "bytes_in",
    "bytes_out",
    "buffers_in_remote",
    "buffers_in_local",
    "buffers_out",
)
"""What only grows while a task runs; a busy time is a difference of clocks, and may step back a little."""

_TIMES = ("busy_ms", "idle_ms", "backpressured_ms")

_STEP_BACK_MS = 1000.0
"""So far the sum of a task's times may step back, each being a difference of clocks."""

_YOUNGER_MS = 10_000.0
"""A task may account for so much more than its attempt has run: the two are told of different moments."""

_LOOKS_IN_DOUBT = 3

_MOST_BEHIND = 1
"""Looks by which a task may be behind others, because values were collected while tasks were asked."""


def check_counts(client: RestClient, job: FlinkJob, state: JobState, rounds: Sequence[Round]) -> None:
    """Make sure that what tasks count has only grown, and is of the attempts that run.

    Raises:
        FlinkRestError: a task has begun to count anew, or tells of an attempt before.
    """
    for vertex in job.vertices:
        for subtask in range(vertex.parallelism):
            answers = _answers(rounds, (vertex.id, subtask))
            of = f", by what subtask {subtask} of {vertex.name!r} counts"
            if any(_has_fallen(earlier, later) for (_, earlier), (_, later) in pairwise(answers)):
                raise FlinkRestError(f"{client.url}: {restarted(job.id, of)}")
            if answers and _is_older(state, vertex.id, subtask, *answers[0]):
                raise FlinkRestError(
                    f"{client.url}: job {job.id}: the metrics of subtask {subtask} of {vertex.name!r} are "
                    "still those of the time before it restarted; try again in some seconds"
                )


def check_all_go_on(
    client: RestClient,
    job: FlinkJob,
    rounds: Sequence[Round],
    look_again: Callable[[], Round],
    *,
    at_each_look: bool,
) -> None:
    """Make sure that no task has fallen silent while others went on.

    `look_again` waits, and asks all of them once more, where that is in doubt. With `at_each_look`
    values are collected as often as one looks, so that who stood still at the last look is in doubt too.
    Where nobody goes on any more, as at the end of a recording, nobody has fallen silent.

    Raises:
        FlinkRestError: one has fallen silent.
    """
    steps = _last_steps(rounds, job)
    at_each_look &= max(steps.values(), default=0) >= len(rounds) - 1 - _MOST_BEHIND
    looks = list(rounds)
    while len(looks) < len(rounds) + _LOOKS_IN_DOUBT and (
        _behind(steps) or (at_each_look and min(steps.values()) < len(rounds))
    ):
        looks.append(look_again())
        if _is_over(rounds, looks[-1]):
            return
        steps = _last_steps(looks, job)
    silent = _behind(steps)
    if silent:
        raise FlinkRestError(f"{client.url}: {_silent(job, *min(silent, key=lambda task: steps[task]))}")


def _silent(job: FlinkJob, vertex_id: str, subtask: int) -> str:
    vertex = next(vertex for vertex in job.vertices if vertex.id == vertex_id)
    manager = vertex.managers[subtask] if subtask < len(vertex.managers) else None
    return (
        f"job {job.id}: subtask {subtask} of {vertex.name!r} fell silent while others went on; "
        f"its task manager{'' if manager is None else f' {manager}'} may be lost or slow; "
        "try again once the job runs steadily"
    )


def _is_over(rounds: Sequence[Round], again: Round) -> bool:
    """Whether a recording has no more looks, and gives its last answers once more."""
    times = {task: answer[0] for answers in rounds for task, answer in answers.items()}
    return all(times.get(task) == at for task, (at, _) in again.items())


def _answers(rounds: Iterable[Round], task: Task) -> list[tuple[float, Sample]]:
    return [answers[task] for answers in rounds if task in answers]


def _account_ms(sample: Sample) -> float | None:
    """What a task has accounted for since it started; None: it does not keep account of all."""
    parts = complete(sample.get(field) for field in _TIMES)
    return None if parts is None else sum(parts)


def _has_fallen(earlier: Sample, later: Sample) -> bool:
    fallen = any(later[field] < earlier[field] for field in _COUNTERS if field in earlier and field in later)
    before, after = _account_ms(earlier), _account_ms(later)
    return fallen or (before is not None and after is not None and after < before - _STEP_BACK_MS)


def _is_older(state: JobState, vertex: str, subtask: int, asked_s: float, sample: Sample) -> bool:
    """Whether a task has accounted for more time than its attempt has run."""
    entry = next((each for each in state.subtasks(vertex) if each["subtask"] == subtask), {})
    runs_ms, account_ms = entry.get("duration"), _account_ms(sample)
    if not isinstance(runs_ms, int) or runs_ms < 0 or account_ms is None:
        return False
    return account_ms > runs_ms + 1e3 * (asked_s - state.asked_s) + _YOUNGER_MS


def _last_steps(rounds: Sequence[Round], job: FlinkJob) -> dict[Task, int]:
    """The last step of each task of which one can say it; none of vertices that were not asked."""
    asked = {vertex for answers in rounds for vertex, _ in answers}
    steps = {
        (vertex.id, subtask): _last_step(rounds, (vertex.id, subtask))
        for vertex in job.vertices
        if vertex.id in asked
        for subtask in range(vertex.parallelism)
    }
    return {task: step for task, step in steps.items() if step is not None}


def _behind(steps: Mapping[Task, int]) -> list[Task]:
    """The tasks that stood still, or did not answer, while others went on."""
    latest = max(steps.values(), default=0)
    return [task for task, step in steps.items() if latest - step > _MOST_BEHIND]


def _last_step(rounds: Sequence[Round], task: Task) -> int | None:
    """The last look at which time may have passed for a task since the one before; -1: it never answered.

    None: it answers, and keeps no account of its time, so nobody can say.
    """
    answered = [(look, answers[task][1]) for look, answers in enumerate(rounds) if task in answers]
    accounts = [(look, _account_ms(sample)) for look, sample in answered]
    if _keeps_no_account(answered):
        last = max((look for look, _ in answered), default=-1)
        return None if last >= len(rounds) - 1 - _MOST_BEHIND else last
    steps = [
        later
        for (_, before), (later, after) in pairwise(accounts)
        if before is None or after is None or after > before  # where part of an account is missing, it may
    ]
    return steps[-1] if steps else answered[0][0]


def _keeps_no_account(answered: Sequence[tuple[int, Sample]]) -> bool:
    """Whether a task never tells all parts of its account, or that stands still while other values move."""
    accounts = {_account_ms(sample) for _, sample in answered}
    if accounts <= {None}:
        return True
    return len(accounts) == 1 and any(before != after for (_, before), (_, after) in pairwise(answered))
