"""Whether the work of tasks takes a core, and how much of one each had: processor time beside busy time.

A task is busy while it works, while it waits within its work (sleeps, asks a database), and while it wants a
core and others have them all. Flink does not tell these apart, and of processor time knows only what a whole
task manager used. What can be told is for all tasks of a machine together. If all of their busy time was work
that takes a core, as many cores were in use as tasks were busy at a time, but no more than there are::

    2 cores; tasks that are busy for 0.8, 0.8, 0.8 and 1.0 of their time: 2 cores in use nearly always
    used 1.8: their work takes a core, and each had one for about half of its busy time
    used 0.2: their work waits

Who is busy when is taken to be independent of the others, and cores to be shared equally, as they are in the
emulation (`netstack/engine/cores.py`). Of a busy second, the share in which a task really had a core is what
its records cost; the emulation, in which the same tasks share the same cores, makes busy time of it again.
So whatever else took cores meanwhile, as garbage collection or another process, is in these costs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from netstack import Machine

from .cluster_job import FlinkJob, FlinkVertex
from .job_options import Overrides, of_vertex
from .processors import Host
from .sampling import Samples, SubtaskSamples

BURN = "burn"

_AT_REST = 0.1
"""Cores that a task manager uses of which no task works: heartbeats, metrics, collection of garbage."""

_MOST = 0.5
"""From this share on of what busy tasks would use if all of it took a core, most of it does."""

_HARDLY = 0.25
"""Below this share the work waits."""

_NOTICEABLE = 0.1
"""Share of busy time, spent waiting for a core, from which on it matters whether work takes one."""

_DIGITS = 2
"""Decimals of a busy share that count for what other tasks leave of the cores."""

Place = tuple[str, int]
"""A subtask: its vertex's id and its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burning:
    """What of a job's work takes a core."""

    modes: Mapping[str, str] = field(default_factory=dict)
    """The service mode of vertices, by their ids; of those that are not here the usual one."""
    shares: Mapping[Place, float] = field(default_factory=dict)
    """What a task that burns had of a core while it was busy; 1 where that is not here."""
    machines: tuple[Machine, ...] = ()

    def core_shares(self, vertex: FlinkVertex) -> list[float | None]:
        """The processor time in a busy second of each subtask of a vertex; None where its work takes none."""
        burns = self.modes.get(vertex.id) == BURN
        places = ((vertex.id, subtask) for subtask in range(vertex.parallelism))
        return [self.shares.get(place, 1.0) if burns else None for place in places]


NOTHING_BURNS = Burning()


def burning_of(
    job: FlinkJob,
    names: Mapping[str, str],
    samples: Samples,
    hosts: Sequence[Host],
    given: Overrides,
    notes: list[str],
) -> Burning:
    """Return what of a job's work takes a core, by what its machines tell and what the user says.

    `notes` gets a line for each machine on which that makes a difference.
    """
    modes = {
        vertex.id: mode
        for vertex in job.vertices
        if job.inputs(vertex) and (mode := of_vertex(given.service_mode, names[vertex.id])) is not None
    }
    loads = [_HostLoad(job, samples, host, modes, given.cores) for host in hosts]
    verdicts = [load.burns for load in loads]
    burnt: dict[str, float] = {}
    for load, burns in zip(loads, verdicts, strict=True):
        for (vertex_id, _), busy in load.open.items():
            burnt[vertex_id] = burnt.get(vertex_id, 0.0) + (busy if burns else -busy)
    modes |= {vertex_id: BURN for vertex_id, more in burnt.items() if more > 0}
    shares: dict[Place, float] = {}
    machines = []
    for load in loads:
        burning = load.shares({vertex_id for vertex_id, mode in modes.items() if mode == BURN})
        shares |= burning
        if burning and load.cores < inf:
            machines.append(Machine(cores=load.cores, task_managers=load.host.managers))
        notes += load.said(burning)
    return Burning(modes=modes, shares=shares, machines=tuple(machines))


class _HostLoad:
    """The tasks of one machine: how busy they were, and what that says together with what was used."""

    def __init__(
        self, job: FlinkJob, samples: Samples, host: Host, modes: Mapping[str, str], cores: float | None
    ) -> None:
        self.host = host
        self.cores = cores or host.cores or inf
        here = [
            (vertex, number)
            for vertex in job.vertices
            for number, manager in enumerate(vertex.managers)
            if manager in host.managers and number < len(samples[vertex.id])
        ]
        told = {(vertex.id, number): _busy_share(samples[vertex.id][number]) for vertex, number in here}
        self._busy = {place: busy for place, busy in told.items() if busy is not None}
        self._untold = len(told) - len(self._busy)
        self._fixed = modes
        read = {vertex.id for vertex in job.vertices if job.inputs(vertex)}
        self._of_operators = {place: busy for place, busy in self._busy.items() if place[0] in read}
        self.open = {place: busy for place, busy in self._of_operators.items() if place[0] not in modes}
        """How busy the tasks are of which the user does not say whether their work takes a core."""

    @property
    def _candidates(self) -> list[float]:
        """How busy the tasks are, sources too, that may have used what was used."""
        return [busy for place, busy in self._busy.items() if self._fixed.get(place[0], BURN) == BURN]

    @property
    def _tasks_used(self) -> float | None:
        """Cores that tasks may have used; None: it is not told, or of other jobs as well."""
        if self.host.used is None or self.host.other_jobs:
            return None
        return max(0.0, self.host.used - _AT_REST * len(self.host.managers))

    @property
    def burns(self) -> bool:
        """Whether what was used is most of what the busy tasks would use if they burnt.

        Each task that does not tell how busy it is may have used a core.
        """
        used, busy = self._tasks_used, _in_use(self._candidates, self.cores)
        return used is not None and busy > 0 and used - self._untold >= _MOST * busy

    def shares(self, burning: Collection[str]) -> dict[Place, float]:
        """What each task of those vertices had of a core while it was busy, by its place."""
        busy = {
            place: round(share, _DIGITS) for place, share in self._of_operators.items() if place[0] in burning
        }
        left = {value: _left(list(busy.values()), value, self.cores) for value in set(busy.values())}
        return {place: left[share] for place, share in busy.items()}

    def said(self, burning: Mapping[Place, float]) -> list[str]:
        """What is to be said: what was taken for what, and what the user can say instead."""
        where = ", ".join(self.host.managers)
        if burning:
            return [self._about_burning(where, burning)]
        busy = list(self.open.values())
        waits = sum(busy) - _in_use(busy, self.cores)
        used, all_of_it = self._tasks_used, _in_use(self._candidates, self.cores)
        if waits <= _NOTICEABLE * sum(busy) or (used is not None and used < _HARDLY * all_of_it):
            return []
        return [
            f"{where}: {self._in_doubt(all_of_it)}; here it waits; give --service-mode burn if it takes one"
        ]

    def _about_burning(self, where: str, burning: Mapping[Place, float]) -> str:
        busy = [self._busy[place] for place in burning]
        had = _in_use(busy, self.cores) / sum(busy) if sum(busy) else 1.0
        used = "" if self.host.used is None else f" ({self._figures(_in_use(self._candidates, self.cores))})"
        return (
            f"{where}: the work of tasks takes a core{used}, which they had for {100 * had:.0f} % of "
            "their busy time, so costs are processor time; what else takes cores there is not told, and in "
            "the costs; give --service-mode VERTEX:throttle for work that waits, --cores for others"
        )

    def _in_doubt(self, all_of_it: float) -> str:
        if self.host.used is None:
            return "whether the work of tasks takes a core is not told, and there are fewer than tasks"
        if self.host.other_jobs:
            return "other jobs run there too, so whether the work of this one takes a core cannot be told"
        return f"some of the work may take a core, or others did ({self._figures(all_of_it)})"

    def _figures(self, all_of_it: float) -> str:
        of = "" if self.cores == inf else f" of {self.cores:g}"
        return f"{self.host.used:.2f}{of} cores in use, {all_of_it:.2f} if all busy time took one"


def _busy_share(subtask: SubtaskSamples) -> float | None:
    """Share of the time watched in which a task was busy; None: it does not tell."""
    busy, seconds = subtask.increase("busy_ms"), subtask.accounted_s
    return None if busy is None or not seconds else min(1.0, max(0.0, busy / 1e3 / seconds))


def _in_use(busy: Sequence[float], cores: float) -> float:
    """Cores in use on average if tasks that are busy for these shares of their time take one each."""
    if cores >= len(busy):
        return sum(busy)
    at_once = _how_many_at_once(busy)
    return float(at_once @ np.minimum(np.arange(len(at_once)), cores))


def _left(busy: Sequence[float], own: float, cores: float) -> float:
    """What a task has of a core while it is busy, `own` being its share among the `busy` ones."""
    if cores >= len(busy):
        return 1.0
    others = list(busy)
    others.remove(own)
    at_once = _how_many_at_once(others)
    return float(at_once @ np.minimum(1.0, cores / (1 + np.arange(len(at_once)))))


def _how_many_at_once(busy: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How likely 0, 1, 2 ... tasks are busy at a time."""
    likely = np.ones(1)
    for share in busy:
        likely = np.convolve(likely, [1 - share, share])
    return likely
