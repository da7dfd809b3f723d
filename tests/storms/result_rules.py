"""Checks of a finished storm against the times of the run: coordinator, checkpoints, failures, figures.

`_Model` of the coordinator reads when attempts ran, when checkpoints ended and when users asked, and yields
when the coordinator must trigger. The first trigger of an attempt is random within an interval, so the
model takes it from the run. After a savepoint, and where the first trigger cannot be told from others, only
simple rules apply: the limits of concurrent checkpoints, of the timeout and of the pause.

The end of a checkpoint has effects: tasks are notified, older checkpoints are aborted, and a job may fail.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from netstack import (
    CHANNEL_STATE,
    AtTime,
    CutLink,
    DelayMessages,
    DropMessages,
    Job,
    RestartStrategy,
    ShipStrategy,
    StateFormat,
    SubtaskSnapshot,
)

from .case import StormCase

AFTER_END_S = 0.002
"""From the end of a checkpoint to the trigger of one that waits."""

SUSPENDED = "CHECKPOINT_COORDINATOR_SUSPEND"
"""Why checkpoints fail with their attempt; no pause begins with that."""

_ROUNDING_S = 1e-9
_LAST_S = 0.05
"""So long before the end of a run, tasks may have ended that would have to take part."""


class Span(NamedTuple):
    """When all tasks of an attempt ran, in seconds."""

    begin: float
    end: float


class Times(NamedTuple):
    """When a checkpoint began and ended, in seconds."""

    number: int
    begin: float
    end: float | None
    failure: str | None
    savepoint: bool

    def goes_on_at(self, time: float) -> bool:
        """Whether it had begun and not ended."""
        return self.begin <= time and (self.end is None or self.end > time)


def check_coordinator(case: StormCase, job: Job) -> Iterator[str]:
    """Every checkpoint began and ended when it had to, and each request of a user was answered."""
    checkpoints = [
        Times(head.checkpoint_id, head.triggered_at, head.ended_at, head.failure, head.savepoint is not None)
        for head in sorted(job.recorder.checkpoints)
    ]
    yield from _about_numbers(job, checkpoints)
    yield from _about_timeouts(case, job, checkpoints)
    yield from _about_numbers_at_once(case, checkpoints)
    if any(restart.tasks for restart in job.restarts):
        return  # while regions restart, it is none's attempt that says when checkpoints are due
    attempts = attempts_of(job)
    ends = sorted(each.end for each in checkpoints if each.end is not None and each.failure != SUSPENDED)
    for attempt in attempts:
        yield from _about_triggers(case, job, attempt, checkpoints, ends)


def attempts_of(job: Job) -> list[Span]:
    """When the tasks of a job ran."""
    begin = 0.0 if job.start is None else job.start.running_at
    spans = []
    for restart in job.restarts:
        if begin is not None:
            spans.append(Span(begin, restart.failed_at))
        begin = restart.running_at
    return spans if begin is None else [*spans, Span(begin, job.agenda.now)]


def _about_numbers(job: Job, checkpoints: Sequence[Times]) -> Iterator[str]:
    first = 1 if job.start is None else job.start.initial.next_id
    numbers = [each.number for each in checkpoints]
    if numbers != list(range(first, job.coordinator.next_id)):
        last = job.coordinator.next_id - 1
        yield f"checkpoints {numbers} are recorded, and {first} to {last} were triggered"


def _about_timeouts(case: StormCase, job: Job, checkpoints: Sequence[Times]) -> Iterator[str]:
    for each in checkpoints:
        deadline = each.begin + case.config.checkpoint_timeout_s
        ended = job.agenda.now if each.end is None else each.end
        over = f"and its time was over at {deadline:.6f} s"
        if ended > deadline:
            yield f"checkpoint {each.number} went on until {ended:.6f} s, {over}"
        if each.failure == "CHECKPOINT_EXPIRED" and ended != deadline:
            yield f"checkpoint {each.number} expired at {ended:.6f} s, {over}"


def _about_numbers_at_once(case: StormCase, checkpoints: Sequence[Times]) -> Iterator[str]:
    most = case.config.max_concurrent_checkpoints
    for place, each in enumerate(checkpoints):
        others = sum(other.goes_on_at(each.begin) for other in checkpoints[:place])
        if others >= most and not (each.savepoint and not case.config.takes_unaligned_checkpoints):
            yield f"checkpoint {each.number} began beside {others} others, and {most} may go on at once"


def _about_triggers(
    case: StormCase, job: Job, attempt: Span, checkpoints: Sequence[Times], ends: Sequence[float]
) -> Iterator[str]:
    """Yield what is wrong with the times at which the checkpoints of an attempt were triggered."""
    until = attempt.end
    if case.continuation is not None and case.continuation.savepoint is not None:
        until = min(until, case.continuation.stopped_at_s)
    model = _Model(case, attempt, [end for end in ends if end < attempt.begin])
    begun = [each for each in checkpoints if attempt.begin <= each.begin < until]
    went_before = [each for each in checkpoints if each.goes_on_at(attempt.begin) and each not in begun]
    assert not went_before, "a checkpoint outlives its attempt"
    manual = [at for at in case.manual_checkpoints_s if attempt.begin < at < until]
    model.follow([end for end in ends if attempt.begin <= end <= until], manual, begun, until)
    yield from model.problems
    if case.config.checkpoints_after_tasks_finish:
        for at in model.missing:
            if at < min(until, job.agenda.now - _LAST_S):
                who = "a user has asked for" if model.by_user.get(at) else "was due"
                yield f"no checkpoint was triggered at {at:.6f} s, when one {who}"


@dataclass
class _Model:
    """What a scheduler of checkpoints has to do; `last_ends` are those before this attempt."""

    case: StormCase
    attempt: Span
    last_ends: Sequence[float]
    problems: list[str] = field(default_factory=list)
    missing: list[float] = field(default_factory=list)
    by_user: dict[float, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = self.case.config
        self.pause, self.most = config.checkpoint_min_pause_s, config.max_concurrent_checkpoints
        self.interval = config.checkpoint_interval_s
        if self.interval is not None:
            self.interval = max(self.interval, self.pause)
        self.last_end = max(self.last_ends, default=-math.inf)
        self.tick: float | None = None  # the next one; None: not known yet, or there is none
        self.unsure = False  # nothing tells the first tick from what waits
        self.users = 0
        self.waits = False
        self.grants: list[float] = []
        self.given_at, self.given = -math.inf, 0  # how many are triggered at one moment, after several ends

    def follow(
        self, ends: Sequence[float], manual: Sequence[float], begun: Sequence[Times], until: float
    ) -> None:
        """Go through an attempt, and compare the triggers with those that had to come."""
        ends, asked = list(ends), list(manual)
        left = list(begun)
        while True:
            now = min([*ends[:1], *asked[:1], *self.grants[:1], *[each.begin for each in left[:1]],
                       *([] if self.tick is None else [self.tick])], default=math.inf)  # fmt: skip
            if now >= until:
                return
            due = 0
            if ends and ends[0] <= now:
                ends.pop(0)
                self.last_end = now
                if self.users or self.waits:
                    self.grants.append(now + AFTER_END_S)
            elif self.grants and self.grants[0] <= now:
                self.grants.pop(0)
                due = self._granted(now, begun)
            elif self.tick is not None and self.tick <= now + _ROUNDING_S:
                assert self.interval is not None
                now, self.tick = self.tick, self.tick + self.interval
                self.waits = True
                due = self._granted(now, begun)
            elif asked and asked[0] <= now:
                asked.pop(0)
                self.users += 1
                due = self._granted(now, begun)
            else:
                self._not_foreseen(left.pop(0))
            for _ in range(due):
                self._compare(now, left)

    def _granted(self, now: float, begun: Sequence[Times]) -> int:
        """How many checkpoints are triggered now."""
        due = 0
        if now > self.given_at + _ROUNDING_S:
            self.given_at, self.given = now, 0
        pending = self.given + sum(each.begin < now - _ROUNDING_S and each.goes_on_at(now) for each in begun)
        while (self.users or self.waits) and pending + due < self.most:
            if self.users:
                self.users -= 1
                due += 1
                self.by_user[now] = True
                continue
            self.waits = False
            if now < self.last_end + self.pause:
                self.tick = self.last_end + self.pause
            else:
                due += 1
        self.given += due
        return due

    def _compare(self, now: float, left: list[Times]) -> None:
        if left and abs(left[0].begin - now) <= _ROUNDING_S:
            left.pop(0)
            self.unsure = self.unsure or (self.tick is None and self.interval is not None)
        elif not self.unsure:
            self.missing.append(now)

    def _not_foreseen(self, each: Times) -> None:
        """A trigger that nothing has told of: the first of an attempt, or one too many."""
        name = f"checkpoint {each.number} was triggered at {each.begin:.6f} s"
        if self.interval is None:
            self.problems.append(f"{name}, and nobody has asked for it")
        elif self.tick is None and not self.unsure:
            first = each.begin - self.attempt.begin
            if not self.pause - _ROUNDING_S <= first <= self.interval + _ROUNDING_S:
                text = f"{name}, {first:.6f} s after the tasks ran"
                self.problems.append(f"{text}: {self.pause:g} to {self.interval:g} s are due")
            self.tick = each.begin + self.interval
        elif self.unsure:
            if self.users:
                self.users -= 1  # a tick that nobody knows of has let it be looked at
            elif each.begin < self.last_end + self.pause - _ROUNDING_S:
                self.problems.append(f"{name}, within the pause after {self.last_end:.6f} s")
        else:
            self.problems.append(f"{name}, and the next one was due at {self.tick:.6f} s")


_COUNTED = (
    "IO_EXCEPTION",
    "CHECKPOINT_ASYNC_EXCEPTION",
    "CHECKPOINT_EXPIRED",
    "CHECKPOINT_DECLINED",
    "FINALIZE_CHECKPOINT_FAILURE",
)
"""Failures of which a job tolerates only so many in a row."""


_ABORTED = "aborted"


class Notices:
    """Counts what a coordinator tells its tasks, by kind and time."""

    def __init__(self) -> None:
        self._sent: Counter[tuple[str, float]] = Counter()

    def listen(self, job: Job) -> None:
        """Hear what is sent in a job."""

        def heard(kind: str, task: tuple[int, int]) -> float:
            self._sent[kind, job.agenda.now] += 1
            return 0.0

        # First, since a fault may lose a message, of which nobody else hears then.
        job.coordinator.control_plane.interference.insert(0, heard)

    def check(self, job: Job) -> Iterator[str]:
        """Yield for which checkpoints no task was told that they had ended."""
        for head in job.recorder.checkpoints:
            if (
                head.ended_at is None
                or head.savepoint is not None
                or head.ended_at > job.agenda.now - _LAST_S
            ):
                continue
            if head.failure == "CHECKPOINT_COORDINATOR_SUSPEND":
                continue  # the tasks are gone
            kind = _ABORTED if head.failure else "completed"
            if not self._sent[kind, head.ended_at]:
                yield f"no task was told that checkpoint {head.checkpoint_id} was {kind}"

    def were_all_over(self, job: Job, failed_at: float) -> bool:
        """Whether all tasks had ended when a checkpoint failed, as nobody was told of it."""
        return failed_at > job.agenda.now - _LAST_S and not self._sent[_ABORTED, failed_at]


def check_subsumed(job: Job) -> Iterator[str]:
    """No checkpoint goes on when a later one is complete, but for those that users want."""
    heads = [head for head in job.recorder.checkpoints if head.savepoint is None]
    for head in heads:
        if head.status != "COMPLETED" or head.ended_at is None:
            continue
        for older in heads:
            goes_on = older.ended_at is None or older.ended_at > head.ended_at + _ROUNDING_S
            if older.checkpoint_id < head.checkpoint_id and goes_on:
                text = f"checkpoint {older.checkpoint_id} goes on behind {head.ended_at:.6f} s"
                yield f"{text}, when checkpoint {head.checkpoint_id} was complete"


def check_tolerance(job: Job, notices: Notices) -> Iterator[str]:
    """A job that is not over fails with the first checkpoint that is one failure in a row too many."""
    tolerable, in_a_row, succeeded = job.scenario.config.tolerable_failed_checkpoints, 0, 0
    failed_at = [restart.failed_at for restart in job.restarts]
    if job.failure is not None:
        failed_at.append(job.agenda.now)
    ended = [(head.ended_at, head) for head in job.recorder.checkpoints if head.ended_at is not None]
    for ended_at, head in sorted(ended, key=lambda each: (each[0], each[1].checkpoint_id)):
        if head.status == "COMPLETED":
            in_a_row, succeeded = 0, max(succeeded, head.checkpoint_id)
        elif head.failure in _COUNTED and head.checkpoint_id > succeeded and not head.savepoint:
            in_a_row += 1
            if in_a_row > tolerable:
                in_a_row = 0
                failed = any(abs(at - ended_at) <= _ROUNDING_S for at in failed_at)
                if not failed and not notices.were_all_over(job, ended_at):
                    text = f"checkpoint {head.checkpoint_id} failed at {ended_at:.6f} s"
                    yield f"{text}, more in a row than {tolerable}, and the job went on"


def check_uploads(job: Job) -> Iterator[str]:
    """To store what a task had not stored before takes its time, at the rate of the costs."""
    rate = job.scenario.costs.upload_rate_bytes_per_s
    places = {head.checkpoint_id: place for place, head in enumerate(job.recorder.checkpoints)}
    for metadata in job.coordinator.store.checkpoints:
        place = places.get(metadata.checkpoint_id)
        if place is not None:
            yield from _too_fast(job, metadata.subtasks, place, rate)


def _too_fast(job: Job, subtasks: Sequence[SubtaskSnapshot], place: int, rate: float) -> Iterator[str]:
    numbers = {vertex.name: number for number, vertex in enumerate(job.scenario.vertices)}
    for each in subtasks:
        new = [handle for handle in each.handles if handle.file is not None and not handle.stored_before]
        # Changes and overtaken data may have been under way before.
        sizes = [
            handle.size
            for handle in new
            if handle.format is not StateFormat.LOG and handle.kind not in CHANNEL_STATE
        ]
        stored = sum(sizes)
        took = job.recorder.parts_of(numbers[each.vertex])["async_s"][place][each.subtask]
        if stored / rate > took + _ROUNDING_S:
            yield f"{each.vertex}[{each.subtask}] stored {stored} bytes in {took:.9f} s, at {rate:g} B/s"


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


_SLACK_S = 1e-6
_WAKE_UPS = 10
"""A task takes less than so many of their median to wake up."""

_COUNTERS = ("records_in", "bytes_in", "buffers_in", "records_out", "bytes_out", "buffers_out")
_TIMES = ("busy_s", "backpressured_s", "idle_s")


def check_figures(case: StormCase, job: Job) -> Iterator[str]:
    """Counters never go back, and times are no longer than the run."""
    samples = [job.recorder.samples_of(number) for number in range(len(case.vertices))]
    if not len(job.recorder.times):
        return
    for vertex, figures in zip(case.vertices, samples, strict=True):
        for name in (*_COUNTERS, *_TIMES):
            if (np.diff(figures[name], axis=1) < -_SLACK_S).any():
                yield f"{name} of {vertex.name} goes back"
        booked = np.diff(np.sum([figures[name] for name in _TIMES], axis=0), axis=1, prepend=0.0)
        too_long = booked - np.diff(job.recorder.times, prepend=0.0)
        if too_long.max() > _SLACK_S:
            yield f"{vertex.name} was busy, held up or idle for {too_long.max():.6f} s more than there were"


def check_checkpoint_times(case: StormCase, job: Job) -> Iterator[str]:
    """No task has aligned a checkpoint for longer than its timeout, where barriers may overtake.

    The timeout wakes the task, which takes a moment, and the last barrier may come in that.
    """
    config = case.config
    if not config.takes_unaligned_checkpoints:
        return
    timeout = config.aligned_checkpoint_timeout_s
    latest = timeout + _WAKE_UPS * case.costs.wake_up_s + _SLACK_S
    for number, vertex in enumerate(case.vertices):
        parts = job.recorder.parts_of(number)
        start_delay, alignment = parts["start_delay_s"], parts["alignment_s"]
        kept = np.array([head.savepoint is None for head in job.recorder.checkpoints], dtype=bool)
        if all(ShipStrategy.of(ship).can_be_overtaken for _, ship in case.inputs(vertex)):
            late = (alignment > 0) & (start_delay + alignment > latest) & (parts["unaligned"] == 0)
            if late[kept].any():
                yield f"{vertex.name} aligned a checkpoint for longer than its timeout of {timeout} s"
