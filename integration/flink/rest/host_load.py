"""The tasks of one machine: how busy they are, and what that says together with the cores that are in use.

If all of their busy time was work that takes a core, as many cores were in use as tasks were busy at a time,
but no more than there are::

    2 cores; tasks that are busy for 0.8, 0.8, 0.8 and 1.0 of their time: 2 cores in use nearly always
    used 1.8: their work takes a core, and each had one for about half of its busy time
    used 0.2: their work waits

A task that does not tell how busy it is, such as a source of the old kind, may have used cores as well: as
many as it gets if it wants one all the time, but for the time in which it was idle or held back. It gets no
more than its equal share, since the others want theirs. What tasks that tell would have had beside these is
held against what is in use beyond that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf

from .core_sharing import cores_in_use, shares_of_core
from .processors import Host

BURN = "burn"
"""The service mode of work that takes a core."""

_AT_REST = 0.1
"""Cores that a task manager uses of which no task works: heartbeats, metrics, collection of garbage."""

_MOST = 0.5
"""From this share on of what busy tasks would use if all of it took a core, most of it does."""

HARDLY = 0.25
"""Below this share the work waits; and tasks whose part would be less tell nothing by what all use."""

_DIGITS = 2
"""Decimals of a busy share that count for what other tasks leave of the cores."""

Place = tuple[str, int]
"""A subtask: its vertex's id and its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A subtask as far as its use of a core is concerned."""

    place: Place
    busy: float | None
    """Share of the time watched in which it was busy; None: it does not tell."""
    most: float = 1.0
    """Share of that time in which it can have been busy, by what else it tells."""
    reads: bool
    """Whether it has inputs; what a source takes of a core is no service of records."""
    mode: str | None
    """The service mode that the user gives; None: none."""

    @property
    def may_burn(self) -> bool:
        """Whether its work may take a core."""
        return self.mode in (None, BURN)


class HostLoad:
    """What the tasks on one machine can have used of its cores, and what they did."""

    def __init__(self, host: Host, tasks: Sequence[Task], strays: int, cores: float | None) -> None:
        """`tasks` are those on the machine, `cores` is how many the user says that it has.

        `strays` is how many more tasks may run there, since their place is not known.
        """
        self.host = host
        self.tasks = tasks
        self.cores_given = cores
        self.cores = cores or host.cores or inf
        candidates = [task for task in tasks if task.may_burn]
        self.busy = [task.busy for task in candidates if task.busy is not None]
        """How busy the tasks are, sources too, that may have used what was used."""
        self.untold = [task.most for task in candidates if task.busy is None] + [1.0] * strays
        """How busy the others of these can have been, which do not tell."""
        self.if_all_burn = cores_in_use(self.busy, self.cores)
        """Cores that those which tell would keep in use if all of their busy time took one."""

    @property
    def undecided(self) -> dict[Place, float]:
        """How busy the tasks are of which the user does not say whether their work takes a core."""
        of_operators = (task for task in self.tasks if task.reads and task.mode is None)
        return {task.place: task.busy for task in of_operators if task.busy is not None}

    @property
    def used_by_tasks(self) -> float | None:
        """Cores that tasks may have used; None: it is not told, or of other jobs as well."""
        if self.host.cores_in_use is None or self.host.other_jobs:
            return None
        return max(0.0, self.host.cores_in_use - _AT_REST * len(self.host.managers))

    @property
    def burns(self) -> bool:
        """Whether what was used is most of what the busy tasks would use if they burnt.

        That is beyond what tasks that do not tell how busy they are get of the cores if all of them want
        one. Where these would have had nearly everything, what is in use says nothing of the others.
        """
        used = self.used_by_tasks
        if used is None or not self.busy:
            return False
        of_untold = self._most_of_untold()
        of_busy = cores_in_use([*self.busy, *self.untold], self.cores) - of_untold
        tells = of_busy > 0 and of_busy >= HARDLY * (of_busy + of_untold)
        return tells and used - of_untold >= _MOST * of_busy

    def _most_of_untold(self) -> float:
        """Cores that tasks which do not tell how busy they are use at most while the others want theirs."""
        if not self.untold:
            return 0.0
        untold = [round(share, _DIGITS) for share in self.untold]
        shares = shares_of_core([round(share, _DIGITS) for share in self.busy] + untold, self.cores)
        return sum(share * shares[share] for share in untold)

    def burning(self, vertices: Collection[str]) -> list[Task]:
        """Return the tasks of those vertices, whose work takes a core."""
        return [task for task in self.tasks if task.reads and task.place[0] in vertices]

    def shares(self, vertices: Collection[str]) -> dict[Place, float]:
        """Return what the tasks of those vertices had of a core while they were busy, by place.

        Not of those that do not tell how busy they were.
        """
        busy = {
            task.place: round(task.busy, _DIGITS) for task in self.burning(vertices) if task.busy is not None
        }
        shares = shares_of_core(list(busy.values()), self.cores)
        return {place: shares[share] for place, share in busy.items()}
