"""The rules of the checkpoint coordinator, held against the times of a run.

`_Model` is told when attempts ran, when checkpoints ended and when users asked, and says when the coordinator
had to trigger. When the first trigger of an attempt comes is random, within an interval; it is taken from the
run. From a savepoint on, and where nothing tells the first trigger from others, only the plain rules are
held: no more at once than allowed, none longer than the timeout, none within the pause.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from netstack import Job

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
    if case.going_on is not None and case.going_on.savepoint is not None:
        until = min(until, case.going_on.stopped_at_s)
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
        going_on = self.given + sum(each.begin < now - _ROUNDING_S and each.goes_on_at(now) for each in begun)
        while (self.users or self.waits) and going_on + due < self.most:
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
