"""What happens to a Flink job and its cluster, as one start of the job after the other; drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Start:
    """One start of a job: from when to when it runs, where, and how fast; times in seconds of the clock."""

    job: str
    attempt: int
    version: str
    running_s: float
    """From then on the job is RUNNING."""
    tasks_s: float
    """From then on its tasks are."""
    failed_s: float = inf
    """From then on the cluster knows that it runs no more."""
    lost_s: float = inf
    """From then on the task manager `lost` says nothing, and all others are back-pressured."""
    lost: str = ""
    parallelism: int
    """Of the second vertex."""
    managers: tuple[str, ...]
    turn: int
    """The task manager of the first subtask."""
    factor: float
    """By which its rates differ from the recorded ones."""

    def manager(self, place: int, subtask: int) -> str:
        """Where a subtask runs."""
        return self.managers[(place + subtask + self.turn) % len(self.managers)]

    def unending(self) -> Start:
        """The same start of a job which nothing happens to."""
        return replace(self, failed_s=inf, lost_s=inf, lost="")


WHEN_S = ((-45.0, 45.0), (0.0, 0.6), (19.0, 25.0), (29.0, 36.0))
"""When the first thing happens, counted from when reading begins: at any time, as it begins, as it ends."""


def draw_starts(random: Random) -> tuple[Start, ...]:
    """A job that runs for minutes, and one or two things that happen to its cluster."""
    start = Start(
        job="a" * 32,
        attempt=0,
        version="2.2.1",
        running_s=-300.0,
        tasks_s=-298.5,
        parallelism=2,
        managers=("tm0", "tm1", "tm2"),
        turn=0,
        factor=1.0,
    )
    starts = [start]
    happens_s = random.uniform(*random.choice(WHEN_S))
    for _ in range(random.choice((1, 1, 2))):
        happen = random.choice((_restart, _restart, _loss, _loss, _rescaling, _another_job, _another_manager))
        starts[-1:] = happen(random, starts[-1], happens_s)
        happens_s = starts[-1].tasks_s + random.uniform(5.0, 40.0)
    return tuple(starts)


def _again(random: Random, before: Start, failed_s: float, **changes: Any) -> tuple[Start, Start]:
    """A start that fails then, and the next one, of a job that has other rates now."""
    running_s = failed_s + random.choice((0.005, random.uniform(0.5, 12.0)))
    after = replace(
        before.unending(),
        attempt=before.attempt + 1,
        running_s=running_s,
        tasks_s=running_s + random.choice((0.01, random.uniform(0.3, 3.0))),
        turn=random.randrange(3),
        factor=before.factor * random.choice((0.4, 2.5)),
    )
    return replace(before, failed_s=failed_s), replace(after, **changes)


def _restart(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    return _again(random, before, at_s)


def _loss(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    """A task manager is lost, which the cluster knows at once or by its heartbeat; another one comes."""
    lost = random.choice(before.managers)
    noticed_s = at_s + random.choice((0.1, random.uniform(1.0, 50.0)))
    number = 1 + max(int(manager.removeprefix("tm")) for manager in before.managers)
    managers = tuple(f"tm{number}" if manager == lost else manager for manager in before.managers)
    first, after = _again(random, before, noticed_s, managers=managers)
    return replace(first, lost=lost, lost_s=at_s), after


def _rescaling(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    return _again(random, before, at_s, parallelism=random.choice((1, 3, 4)))


def _another_job(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    job = chr(ord(before.job[0]) + 1) * 32
    return _again(random, before, at_s, job=job, attempt=0, parallelism=random.choice((1, 2, 3)))


def _another_manager(random: Random, before: Start, at_s: float) -> tuple[Start, Start]:
    """Another job manager, of another Flink, goes on with the job under the same id."""
    return _again(random, before, at_s, attempt=0, version="1.20.5")
