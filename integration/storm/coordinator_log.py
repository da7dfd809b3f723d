"""What the coordinator of a storm's job did and when, and whether that was by its rules.

The log is a trace of the job, so it sees what a user would. Times are emulated seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from netstack import CutLink, Job, RestartStrategy

from .case import StormCase

_COUNTED = (
    "IO_EXCEPTION",
    "CHECKPOINT_ASYNC_EXCEPTION",
    "CHECKPOINT_EXPIRED",
    "CHECKPOINT_DECLINED",
    "FINALIZE_CHECKPOINT_FAILURE",
)
"""Failures of checkpoints that count against those that are tolerated."""

_EXACT_S = 1e-9
_QUEUED_S = 0.0021
"""From the end of a checkpoint to one that has waited for it, at most."""


class Taken(NamedTuple):
    """A checkpoint, when it was triggered, when and how it ended; None: it has not."""

    checkpoint_id: int
    triggered_at: float
    ended_at: float | None = None
    failure: str | None = None


class CoordinatorLog:
    """A `Trace` that keeps what concerns checkpoints as a whole."""

    def __init__(self) -> None:
        self.checkpoints: dict[int, Taken] = {}
        self.savepoints: set[int] = set()
        self.refused_at: list[float] = []
        """When a request was refused, or a trigger was not possible."""

    def __call__(self, at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        """Take note of one step."""
        if place != "coordinator":
            return
        if text.startswith(("no checkpoint: ", "a request for a checkpoint is refused", "there is no savep")):
            self.refused_at.append(at)
        elif checkpoint_id is not None:
            self._of_checkpoint(at, text, checkpoint_id)

    def _of_checkpoint(self, at: float, text: str, number: int) -> None:
        name = f"checkpoint {number}"
        if text.startswith("triggers savepoint "):
            self.savepoints.add(number)
        if text.startswith("triggers "):
            self.checkpoints[number] = Taken(number, at)
        elif (taken := self.checkpoints.get(number)) is None:
            return
        elif text.startswith((f"{name} is complete", f"savepoint {number} is complete")):
            self.checkpoints[number] = taken._replace(ended_at=at)
        elif text.startswith((f"{name} failed: ", f"savepoint {number} failed: ")):
            failure = text.partition(" failed: ")[2].split(",")[0]
            self.checkpoints[number] = taken._replace(ended_at=at, failure=failure)


def check_coordinator(case: StormCase, job: Job, log: CoordinatorLog) -> Iterator[str]:
    """Checkpoints were taken, given up and counted by the rules, to the moment."""
    taken = list(log.checkpoints.values())
    yield from _check_timeout(case, job, taken)
    yield from _check_order(taken, log)
    yield from _check_concurrency(case, taken, log)
    yield from _check_failures(case, job, taken, log)
    yield from _check_requests(case, job, taken, log)
    if not case.manual_checkpoints_s and not log.savepoints:
        yield from _check_pause(case, taken)
        yield from _check_interval(case, job, taken, log)


def _check_timeout(case: StormCase, job: Job, taken: Sequence[Taken]) -> Iterator[str]:
    timeout = case.config.checkpoint_timeout_s
    for each in taken:
        ended_at = job.agenda.now if each.ended_at is None else each.ended_at
        lasted = ended_at - each.triggered_at
        expired = each.failure == "CHECKPOINT_EXPIRED"
        if lasted > timeout + _EXACT_S or (expired and lasted < timeout - _EXACT_S):
            yield f"checkpoint {each.checkpoint_id} went on for {lasted:.6f} s, its timeout is {timeout} s"


def _check_order(taken: Sequence[Taken], log: CoordinatorLog) -> Iterator[str]:
    """When one is complete, those before it have ended, too."""
    complete = [each for each in taken if each.ended_at is not None and each.failure is None]
    for each in complete:
        for older in taken:
            numbers = older.checkpoint_id, each.checkpoint_id
            if numbers[0] >= numbers[1] or log.savepoints & {*numbers}:
                continue
            if older.ended_at is None or older.ended_at > (each.ended_at or 0.0):
                yield f"checkpoint {older.checkpoint_id} went on behind {each.checkpoint_id}"


def _pending_at(taken: Sequence[Taken], at: float) -> int:
    """How many go on at a moment, not counting one that begins or ends then."""
    return sum(each.triggered_at < at and (each.ended_at is None or each.ended_at > at) for each in taken)


def _check_concurrency(case: StormCase, taken: Sequence[Taken], log: CoordinatorLog) -> Iterator[str]:
    most = case.config.max_concurrent_checkpoints
    for each in taken:
        if each.checkpoint_id not in log.savepoints and _pending_at(taken, each.triggered_at) >= most:
            yield f"checkpoint {each.checkpoint_id} began beside {most} others, which is the most at once"


def _check_pause(case: StormCase, taken: Sequence[Taken]) -> Iterator[str]:
    pause = case.config.checkpoint_min_pause_s
    for each in taken:
        ends = [other.ended_at for other in taken if other.ended_at is not None]
        last = max((end for end in ends if end <= each.triggered_at), default=None)
        if last is not None and each.triggered_at < last + pause - _EXACT_S:
            since = each.triggered_at - last
            yield f"checkpoint {each.checkpoint_id} began {since:.6f} s behind one, the pause is {pause} s"


def _ends_of_attempts(job: Job) -> list[float]:
    return [*(restart.failed_at for restart in job.restarts), job.agenda.now]


def _check_interval(case: StormCase, job: Job, taken: Sequence[Taken], log: CoordinatorLog) -> Iterator[str]:
    """One interval behind a checkpoint that the timer began there is the next one, unless it has to wait."""
    config = case.config
    if config.checkpoint_interval_s is None:
        return
    interval = max(config.checkpoint_interval_s, config.checkpoint_min_pause_s)
    ends = sorted(each.ended_at for each in taken if each.ended_at is not None)
    for each in taken:
        if any(end <= each.triggered_at < end + _QUEUED_S for end in ends):
            continue  # it has waited, and so the timer goes by another time
        due = each.triggered_at + interval
        over = min(end for end in _ends_of_attempts(job) if end >= each.triggered_at)
        paused = any(end <= due < end + config.checkpoint_min_pause_s + _EXACT_S for end in ends)
        busy = _pending_at(taken, due) + sum(abs(end - due) < _EXACT_S for end in ends)
        if due >= over - _EXACT_S or paused or busy >= config.max_concurrent_checkpoints:
            continue
        if not _happened_at(due, [*(other.triggered_at for other in taken), *log.refused_at]):
            yield f"no checkpoint began {interval} s behind checkpoint {each.checkpoint_id}"


def _happened_at(at: float, times: Sequence[float], within_s: float = _EXACT_S) -> bool:
    return any(at - _EXACT_S <= time <= at + within_s for time in times)


def _check_requests(case: StormCase, job: Job, taken: Sequence[Taken], log: CoordinatorLog) -> Iterator[str]:
    """Whenever a user asks for a checkpoint, one begins, or as soon as there may be one more."""
    begun, most = [each.triggered_at for each in taken], case.config.max_concurrent_checkpoints
    ends = sorted(each.ended_at for each in taken if each.ended_at is not None)
    for at in case.manual_checkpoints_s:
        over = min((end for end in _ends_of_attempts(job) if end >= at - _EXACT_S), default=at)
        room = (end for end in ends if end >= at and _pending_at(taken, end + _EXACT_S) < most)
        end = min(next(room, over), over)
        if _happened_at(at, begun) or _happened_at(at, log.refused_at, end - at + _QUEUED_S):
            continue
        waits = _pending_at(taken, at) >= most
        if over - _QUEUED_S > at and not (waits and _happened_at(end, [*begun, over], _QUEUED_S)):
            yield f"the request of a user at {at:.4f} s was not answered"


def _check_failures(case: StormCase, job: Job, taken: Sequence[Taken], log: CoordinatorLog) -> Iterator[str]:
    """The job has failed exactly when more checkpoints in a row had failed than are tolerated."""
    tolerable, in_a_row, last_success = case.config.tolerable_failed_checkpoints, 0, 0
    failures = _failures_of(job)
    ended = [each for each in taken if each.ended_at is not None and each.checkpoint_id not in log.savepoints]
    for each in sorted(ended, key=lambda each: (each.ended_at, each.failure is None)):
        if each.failure is None:
            last_success, in_a_row = max(last_success, each.checkpoint_id), 0
        elif each.failure in _COUNTED and each.checkpoint_id > last_success:
            in_a_row += 1
            if in_a_row > tolerable:
                in_a_row = 0
                if not _happened_at(each.ended_at or 0.0, failures):
                    yield f"went on behind {tolerable + 1} failed checkpoints, tolerable: {tolerable}"


def check_restarts(case: StormCase, job: Job) -> Iterator[str]:
    """Each restart came after the delay that its strategy says."""
    config = case.config
    for restart in job.restarts:
        if restart.restarted_at is None:
            continue
        delay = restart.restarted_at - restart.failed_at
        match case.restart_strategy:
            case RestartStrategy.FIXED_DELAY:
                least = most = config.restart_delay_s
            case RestartStrategy.FAILURE_RATE:
                least = most = config.restart_failure_rate_delay_s
            case _:
                least, most = config.restart_initial_backoff_s, config.restart_max_backoff_s
        shortest, longest = _deployment_s(job, restart.tasks)
        if not least + shortest - _EXACT_S <= delay <= most + longest + _EXACT_S:
            yield f"restarted {delay:.6f} s behind a failure, and not {least} to {most} s and deployment"


def _deployment_s(job: Job, names: Sequence[str]) -> tuple[float, float]:
    """The shortest and longest time in which tasks are deployed: exact for all, whose names are not given."""
    scenario = job.scenario
    managers = Counter(
        vertex.manager_of(index) for vertex in scenario.vertices for index in range(vertex.parallelism)
    )
    costs, most = scenario.costs, max(managers.values())
    least = 1 if names else most
    return costs.deploy_s + costs.deploy_per_task_s * least, costs.deploy_s + costs.deploy_per_task_s * most


def check_heartbeats(case: StormCase, job: Job) -> Iterator[str]:
    """A link that is cut for longer than the heartbeat timeout has failed the job by then."""
    timeout, failures = case.config.heartbeat_timeout_s, _failures_of(job)
    short = {str(fault) for fault in case.faults if isinstance(fault, CutLink) and _is_over(fault, timeout)}
    long = {str(fault) for fault in case.faults if isinstance(fault, CutLink)} - short
    for fired in job.faults.fired:
        if fired.what not in long or fired.time + timeout >= job.agenda.now - _EXACT_S:
            continue
        if not _waits_at(job, fired.time) and not _happened_at(fired.time, failures, timeout + _EXACT_S):
            yield f"{fired.what} at {fired.time:.4f} s, and nothing failed within {timeout} s"


def _is_over(fault: CutLink, timeout_s: float) -> bool:
    return fault.for_s is not None and fault.for_s <= timeout_s


def _waits_at(job: Job, at: float) -> bool:
    """Whether a job waits for a restart at a moment."""
    return any(
        restart.failed_at <= at and (restart.restarted_at is None or at <= restart.restarted_at)
        for restart in job.restarts
    )


def _failures_of(job: Job) -> list[float]:
    """When the job has failed."""
    failures = [restart.failed_at for restart in job.restarts]
    return failures if job.failure is None else [*failures, job.agenda.now]
