"""Estimates from processor time whether the work of tasks is CPU-bound, and their share of a core.

A task is busy while it works, while it waits within its work (sleeps, queries a database), and while it waits
for a core. Flink does not distinguish these three, and reports processor time only for whole task managers.
So the estimate is for all tasks of a machine together. It compares the cores in use (`cores_in_use.py`) with
those that would be in use if all work were CPU-bound::

    2 cores; tasks that are busy for 0.8, 0.8, 0.8 and 1.0 of their time: together 3.4, so 2 cores in use
    used 1.8: their work is CPU-bound, and they had a core for 2 / 3.4 = 0.59 of their busy time
    used 0.2: their work waits

A task that does not report its busy time, such as a legacy source, may have used cores as well: at most its
equal share while it was neither idle nor back-pressured. Only the use beyond that is attributed to the other
tasks.

The cost of a task's records is its busy time multiplied by its share of a core. In the emulation the same
tasks share the same cores, which turns this cost into busy time again. Network threads take a part of the
cores, in the emulation as well, so tasks share the rest. Other use of the cores, such as garbage collection,
makes tasks wait longer for a core. That time counts as busy, so it is part of the cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf, sqrt
from operator import mul
from statistics import NormalDist, fmean

from netstack import CostModel, Machine

from ...base.optional_figures import known, middle, quotient, total
from ..read.cores_in_use import Host
from ..read.job import FlinkJob, FlinkVertex
from ..read.samples import Samples, SubtaskSamples
from .noted import MOST_NAMED, Remark, Remarks, some
from .overrides import Overrides, of_vertex

BURN = "burn"
"""The service mode for CPU-bound work."""

_AT_REST = 0.1
"""Cores that an idle task manager uses: heartbeats, metrics, garbage collection."""

_MOST = 0.5
"""Work counts as CPU-bound if tasks use at least this share of the cores that CPU-bound work would use."""

_HARDLY = 0.25
"""Work counts as waiting if tasks use less than this share of the cores that CPU-bound work would use.

The use by tasks that report their busy time must also be at least this share of all use. Otherwise the case
is not decided.
"""

_NOTICEABLE = 0.1
"""The service mode matters if CPU-bound tasks would wait for a core for more than this share of busy time."""

_MUCH = 0.5
"""If the number of cores is not reported, fewer cores in use than this are not all that there are. Waiting
tasks used 0.26 in a real job.
"""

_DIGITS = 2
"""Decimals of a task's busy share in its share of a core."""

_QUANTILES = 100
"""Number of equally likely ranges of the count of busy tasks."""

_ALMOST_0 = 1e-12

_LEAST_LEFT = 0.1
"""Minimum number of cores that remain for tasks, whatever network threads are estimated to use."""

_COSTS = CostModel()

_NO_ANSWER = SubtaskSamples(())

Place = tuple[str, int]
"""A subtask: the id of its vertex, and its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A subtask, with the figures that show whether it uses a core."""

    place: Place
    busy: float
    """Share of busy time; if not reported, the maximum that the other parts of the task's time allow."""
    reports: bool
    """Whether the task reports its busy time."""
    reads: bool
    """Whether the task has inputs. A source's use of a core is not service of records."""
    mode: str | None
    """The service mode that the user sets; None: not set."""
    network: float = 0.0
    """Cores that network threads use for the task's buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreUse:
    """Use of cores on one machine: as measured, and as it would be if all work of tasks were CPU-bound."""

    host: Host
    tasks: Sequence[Task]
    cores: float
    """Number of cores; infinite: not reported."""
    used: float | None
    """Cores that tasks may have used, without network threads; None: not reported, or used by other tasks as
    well.
    """
    would_use: float
    """Cores in use by the tasks that report their busy time if all work were CPU-bound."""
    unreported: int
    """Number of tasks that may have used cores, but do not report their busy time."""
    unreported_use: float
    """Cores in use by these tasks if all work were CPU-bound."""
    would_wait: float
    """Share of busy time for which the undecided tasks would wait for a core if their work were CPU-bound."""

    @property
    def left_to_tasks(self) -> float:
        """The cores without those that network threads use."""
        left = self.cores - sum(task.network for task in self.tasks)
        return max(left, min(self.cores, _LEAST_LEFT))

    @property
    def undecided(self) -> list[Task]:
        """The tasks that read input, and whose service mode the user does not set."""
        return _undecided(self.tasks)

    @property
    def burns(self) -> bool | None:
        """Whether the work is CPU-bound; None: unknown. It is False if that makes no difference."""
        all_use = self.would_use + self.unreported_use
        if not self.undecided or not all_use:
            return False
        if self.used is not None:
            is_clear = self.would_use > 0 and self.would_use >= _HARDLY * all_use
            if is_clear and self.used - self.unreported_use >= _MOST * self.would_use:
                return True
            if self.cores < inf and self.used < _HARDLY * all_use:
                return False
        matters = self.would_wait > _NOTICEABLE
        if self.cores == inf:  # all that there are may be in use
            matters = self.used is not None and min(self.used, all_use) >= _MUCH
        return None if matters else False

    def burning(self, vertices: Collection[str]) -> list[Task]:
        """Return the tasks that read input and belong to `vertices`, the vertices with CPU-bound work."""
        return [task for task in self.tasks if task.reads and task.place[0] in vertices]


def use_of_cores(host: Host, tasks: Sequence[Task], cores: float, *, is_alone: bool = True) -> CoreUse:
    """Return the use of cores on a machine. `is_alone` is whether no other task of the job may run there."""
    candidates = [task for task in tasks if task.mode in (None, BURN)]
    would_use = dict.fromkeys((True, False), 0.0)
    for task, share in zip(candidates, shares_of_core(candidates, cores), strict=True):
        would_use[task.reports] += task.busy * share
    used = None
    if host.cores_in_use is not None and is_alone and not host.other_jobs:
        network = sum(task.network for task in tasks)
        used = max(0.0, host.cores_in_use - _AT_REST * len(host.managers) - network)
    return CoreUse(
        host=host,
        tasks=tasks,
        cores=cores,
        used=used,
        would_use=would_use[True],
        unreported=sum(not task.reports for task in candidates),
        unreported_use=would_use[False],
        would_wait=1.0 - share_with_core(_undecided(tasks), cores),
    )


def _undecided(tasks: Iterable[Task]) -> list[Task]:
    return [task for task in tasks if task.reads and task.mode is None]


def shares_of_core(tasks: Sequence[Task], cores: float) -> list[float]:
    """Return the mean share of a core that each task gets while it is busy, if they all are CPU-bound.

    Tasks are assumed to be busy independently, so the number of other busy tasks is about normally
    distributed. Busy tasks share the cores equally, as in the emulation.
    """
    if cores >= len(tasks):
        return [1.0] * len(tasks)
    mean = sum(task.busy for task in tasks)
    variance = sum(task.busy * (1 - task.busy) for task in tasks)

    @cache
    def share(busy: float) -> float:
        others = NormalDist(mean - busy, sqrt(max(_ALMOST_0, variance - busy * (1 - busy))))
        return fmean(min(1.0, cores / (1 + max(0, round(count)))) for count in others.quantiles(_QUANTILES))

    return [share(round(task.busy, _DIGITS)) for task in tasks]


def share_with_core(tasks: Sequence[Task], cores: float) -> float:
    """Return the share of the busy time of all tasks in which they have a core, if they all are CPU-bound."""
    busy = [task.busy for task in tasks]
    used = sum(map(mul, busy, shares_of_core(tasks, cores)))
    return used / sum(busy) if used else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Burning:
    """The CPU-bound work of a job: service modes and shares of a core."""

    modes: Mapping[str, str] = field(default_factory=dict)
    """The service mode of vertices, by id. Other vertices have the default."""
    shares: Mapping[Place, float] = field(default_factory=dict)
    """The share of a core that a task had while busy; 1 if the task is absent."""
    machines: tuple[Machine, ...] = ()
    uses: Sequence[CoreUse] = field(default=(), repr=False, compare=False)
    """The use of cores on each machine."""

    @property
    def in_doubt(self) -> list[CoreUse]:
        """The machines on which it is unknown whether work is CPU-bound, and may matter."""
        return [use for use in self.uses if use.burns is None and not use.burning(self.vertices)]

    @property
    def vertices(self) -> set[str]:
        """The ids of the vertices with CPU-bound work."""
        return {vertex_id for vertex_id, mode in self.modes.items() if mode == BURN}

    def core_shares(self, vertex: FlinkVertex) -> list[float | None]:
        """Return the share of a core that each subtask of a vertex had while busy; None if its work waits."""
        burns = self.modes.get(vertex.id) == BURN
        places = ((vertex.id, subtask) for subtask in range(vertex.parallelism))
        return [self.shares.get(place, 1.0) if burns else None for place in places]


NOTHING_BURNS = Burning()


def burning_of(job: FlinkJob, samples: Samples, hosts: Iterable[Host], given: Overrides) -> Burning:
    """Determine the vertices with CPU-bound work, from the machines and the overrides."""
    modes = {
        vertex.id: mode
        for vertex in job.vertices
        if job.inputs(vertex) and (mode := of_vertex(given.service_mode, job.names[vertex.id])) is not None
    }
    tasks = _tasks_by_manager(job, samples, modes)
    # A task manager of the scenario that is on no known host becomes a machine of its own.
    on_hosts = {manager for host in hosts for manager in host.managers}
    alone = [Host(managers=(each,), cores=None, cores_in_use=None) for each in tasks if each not in on_hosts]
    has_places = all(each.placed is not None for each in job.vertices if modes.get(each.id, BURN) == BURN)
    uses = []
    for host in [*hosts, *alone]:
        here = [task for manager in host.managers for task in tasks.get(manager, ())]
        uses.append(use_of_cores(host, here, given.cores or host.cores or inf, is_alone=has_places))
    # A vertex on several machines is decided by the machines on which it is busiest.
    burnt: dict[str, float] = {}
    for use in uses:
        for task in use.undecided:
            if task.reports:
                more = task.busy if use.burns else -task.busy
                burnt[task.place[0]] = burnt.get(task.place[0], 0.0) + more
    modes |= {vertex_id: BURN for vertex_id, more in burnt.items() if more > 0}
    found = Burning(modes=modes, uses=uses)
    shares: dict[Place, float] = {}
    machines = []
    for use in uses:
        burning = use.burning(found.vertices)
        reporting = [task for task in burning if task.reports]
        places = (task.place for task in reporting)
        shares |= zip(places, shares_of_core(reporting, use.left_to_tasks), strict=True)
        if burning and use.cores < inf:
            managers = tuple(manager for manager in use.host.managers if manager in tasks)
            machines.append(Machine(cores=use.cores, task_managers=managers))
    return Burning(modes=modes, shares=shares, machines=tuple(machines), uses=uses)


def _tasks_by_manager(job: FlinkJob, samples: Samples, modes: Mapping[str, str]) -> dict[str, list[Task]]:
    """Return the tasks by task manager of the scenario. A vertex on an unknown machine gets a task manager of
    its own.
    """
    # Values of all tasks are collected together. So the time watched also holds for tasks that do not report
    # their times.
    watched_s = middle(subtask.accounted_s for subtasks in samples.values() for subtask in subtasks)
    tasks: dict[str, list[Task]] = {}
    remote = _remote_share(samples)
    for vertex in job.vertices:
        managers = vertex.managers
        if vertex.placed is None:
            managers = (job.names[vertex.id],) * vertex.parallelism
        reads = bool(job.inputs(vertex))
        for subtask, manager in enumerate(managers):
            answers = samples[vertex.id][subtask] if subtask < len(samples[vertex.id]) else _NO_ANSWER
            busy = quotient(quotient(answers.increase("busy_ms"), 1e3), answers.accounted_s)
            elsewhere_ms = total(answers.increase(part) for part in ("idle_ms", "backpressured_ms"))
            most = 1.0 if not watched_s or elsewhere_ms is None else 1.0 - elsewhere_ms / 1e3 / watched_s
            task = Task(
                place=(vertex.id, subtask),
                busy=min(1.0, max(0.0, most if busy is None else busy)),
                reports=busy is not None,
                reads=reads,
                mode=modes.get(vertex.id),
                network=_network_cores(answers, remote),
            )
            tasks.setdefault(str(manager), []).append(task)
    return tasks


def _remote_share(samples: Samples) -> float:
    """Return the share of all buffers of the job that are sent to another task manager."""
    subtasks = [subtask for of_vertex in samples.values() for subtask in of_vertex]
    remote, local = (
        sum(known(subtask.increase(f"buffers_in_{where}") for subtask in subtasks))
        for where in ("remote", "local")
    )
    return remote / (remote + local) if remote else 0.0


def _network_cores(subtask: SubtaskSamples, remote: float) -> float:
    """Return the cores that network threads use for a subtask, of whose buffers a share is `remote`."""
    received, sent = subtask.increase("buffers_in_remote") or 0.0, subtask.increase("buffers_out") or 0.0
    used_s = received * _COSTS.network_receive_s + sent * remote * _COSTS.network_send_s
    return quotient(used_s, subtask.seconds) or 0.0


def core_remarks(burning: Burning) -> Remarks:
    """Return the assumptions about the work of tasks, for each machine on which the service mode matters.

    Many remarks of one kind become one, with the values of all these machines.
    """
    in_doubt = burning.in_doubt
    found: dict[str, list[tuple[CoreUse, Remark]]] = {}
    for use in burning.uses:
        remarks: Remarks = ()
        if tasks := use.burning(burning.vertices):
            remarks = _on_burning(use, tasks)
        elif use in in_doubt:
            remarks = (Remark(_doubt(use), some(use.host.managers), {"uses": [use]}),)
        for remark in remarks:
            found.setdefault(remark.kind, []).append((use, remark))
    return tuple(remark for alike in found.values() for remark in _together(alike))


def _together(alike: Sequence[tuple[CoreUse, Remark]]) -> Remarks:
    """Return the remarks of one kind; one for all machines if there are many."""
    uses, remarks = zip(*alike, strict=True)
    if len(alike) <= MOST_NAMED:
        return remarks
    first, *others = (remark.values for remark in remarks)
    values = {name: sum((each[name] for each in others), first[name]) for name in first}
    managers = sum(len(use.host.managers) for use in uses)
    return (Remark(remarks[0].kind, f"{managers:,} task managers", values),)


def _on_burning(use: CoreUse, tasks: Sequence[Task]) -> Remarks:
    where, reporting = some(use.host.managers), [task for task in tasks if task.reports]
    elsewhere = "cpu_bound_by_override" if all(task.mode == BURN for task in tasks) else "cpu_bound_elsewhere"
    share = share_with_core(reporting, use.left_to_tasks) if reporting else None
    kind = "cpu_bound" if use.burns else elsewhere
    remarks = [Remark(kind, where, {"uses": [use], "core_shares": [share]})]
    if len(reporting) < len(tasks):
        counts = {"silent": len(tasks) - len(reporting), "tasks": len(tasks)}
        remarks.append(Remark("whole_core_assumed", where, counts))
    if use.cores == inf:
        remarks.append(Remark("cores_unreported", where))
    return tuple(remarks)


def _doubt(use: CoreUse) -> str:
    """Return the kind of the remark on a machine where it is unknown whether work is CPU-bound."""
    if use.host.cores_in_use is None:
        return "use_of_cores_unreported"
    if use.used is None:
        return "cores_used_by_others"
    return "waits_for_cores_unknown" if use.cores == inf else "user_of_cores_unknown"
