"""How often the subtasks of a job have lived: what is no state begins anew in each life.

Of a life only that counts which was in the checkpoint that the next one began with. So two restarts from the
same checkpoint leave one life between them that has done nothing::

    life 1 ....[1]....[2]..x   life 2 from [2] ..x   life 3 from [2] ..[3].. to the end      two that count
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from msgspec import UNSET, UnsetType

from netstack import Job


class Returned(Protocol):
    """A failure and the restart after it, of a job or of its result."""

    @property
    def tasks(self) -> Sequence[str] | UnsetType:
        """Which tasks it was of; none are named if it was of all."""
        ...

    @property
    def restarted_at(self) -> float | None:
        """When they were there again; None: they were not."""
        ...

    @property
    def checkpoint_id(self) -> int | None:
        """What they began with; None: with nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a job: what it began with, at which parallelism, and how often it came back."""

    parallelism: Mapping[str, int]
    restarts: Sequence[Returned]
    began_with: int | None = None

    def lives(self, vertex: str, goes_on_with: int | None) -> int:
        """Lives of the subtasks of a vertex that count, if another run goes on with that checkpoint."""
        subtasks = range(self.parallelism[vertex])
        return sum(self._lives(vertex, subtask, goes_on_with) for subtask in subtasks)

    def _lives(self, vertex: str, subtask: int, goes_on_with: int | None) -> int:
        ids = [self.began_with]
        ids += [each.checkpoint_id for each in self.restarts if _is_of(each, vertex, subtask)]
        lives = sum(now != before for before, now in pairwise(ids))
        return lives + (goes_on_with is None or goes_on_with != ids[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """The lives of all subtasks of a job, in one run, or in two of which one goes on from the other."""

    runs: tuple[Run, ...]

    @property
    def restarts(self) -> int:
        """How often the job, or a part of it, began again."""
        return sum(len(run.restarts) for run in self.runs) + len(self.runs) - 1

    def of(self, vertex: str) -> int:
        """How many lives of subtasks of a vertex count."""
        return sum(run.lives(vertex, goes_on) for run, goes_on in self._chain())

    def _chain(self) -> Iterator[tuple[Run, int | None]]:
        for run, after in zip(self.runs, [*self.runs[1:], None], strict=True):
            yield run, None if after is None else after.began_with

    def keepers(self, vertex: str) -> int:
        """How many subtasks of a vertex may have kept, at their end, a part of what is in state.

        Of those that had ended before the checkpoint that another run goes on from, it has no state.
        """
        return sum(run.parallelism[vertex] for run in self.runs)

    def united(self, vertex: str) -> int:
        """Of how many subtasks one has got at most what they had kept in a list of state."""
        first, last = self.runs[0].parallelism[vertex], self.runs[-1].parallelism[vertex]
        return max(1, -(-first // last))


def lives_of(jobs: Sequence[Job]) -> Lives:
    """Return the lives of jobs of which each goes on from the one before."""
    return Lives(
        runs=tuple(
            Run(
                parallelism={vertex.name: vertex.parallelism for vertex in job.scenario.vertices},
                restarts=job.restarts,
                began_with=None if job.start is None else job.start.initial.metadata.checkpoint_id,
            )
            for job in jobs
        )
    )


def _is_of(restart: Returned, vertex: str, subtask: int) -> bool:
    """Whether a subtask was there again after a restart; of what was lost only that it began may be known."""
    if restart.restarted_at is None and restart.checkpoint_id is None:
        return False
    if restart.tasks is UNSET or not restart.tasks:
        return True
    for task in restart.tasks:
        name, _, indices = task.partition("[")
        if name == vertex:
            return not indices or str(subtask) in indices.rstrip("]").split(", ")
    return False
