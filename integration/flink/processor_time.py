"""Estimates from processor time whether the work of tasks is CPU-bound, and their share of a core.

A task is busy while it works, while it waits within its work (sleeps, queries a database), and while it waits
for a core. Flink does not distinguish these three. It reports processor time only for whole task managers, so
the estimate is for all tasks of a machine together.

**Cores in use.** A task manager reports how many cores its process may use (``hardware.cpuCores`` of
``/taskmanagers/ID``) and, in ``path``, its host. Task managers of one host share its cores.
``Status.JVM.CPU.Time`` is the processor time of the process in nanoseconds. ``Status.JVM.CPU.Load`` is the
recent share of all cores. Answers have no timestamp. The time between two answers is the growth of the times
(busy, idle, back-pressured) that the task manager's tasks report, because Flink collects these at the same
moments::

    CPU.Time  40.1 s   40.1 s   49.0 s   57.8 s        in use: (57.8 - 40.1) / 20 = 0.89 cores
    tasks     61.0 s   61.0 s   71.0 s   81.0 s

Task managers of one process (a MiniCluster) all report the same processor time, which counts once. Flink has
no metric of other processes on a host.

**Cores that tasks would use.** The estimate assumes that tasks are busy independently of each other, and that
tasks that are busy at the same time share the cores equally, as in the emulation
(``netstack/engine/cores.py``). For three tasks that are busy for half of their time::

    busy tasks              0     1     2     3
    probability           1/8   3/8   3/8   1/8     cores in use, of 2: 3/8 + 2 * 3/8 + 2 * 1/8 = 1.375
    share of each busy task       1     1   2/3     of a core
    probability while one task is busy
                                1/4   2/4   1/4     its mean share: 1 * 1/4 + 1 * 2/4 + 2/3 * 1/4 = 0.917

**The rule.** The cores in use are compared with those that would be in use if all work were CPU-bound::

    2 cores; tasks that are busy for 0.8, 0.8, 0.8 and 1.0 of their time: 2 cores in use nearly always
    used 1.8: their work is CPU-bound, and each had a core for about half of its busy time
    used 0.2: their work waits

A task that does not report its busy time, such as a legacy source, may have used cores as well: at most its
equal share while it was neither idle nor back-pressured. Only the use beyond that is attributed to the other
tasks.

The cost of a task's records is its busy time multiplied by its share of a core. In the emulation the same
tasks share the same cores, which turns this cost into busy time again. Other use of the cores, such as
garbage collection, makes tasks wait longer for a core. That time counts as busy, so it is part of the cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import ceil, inf

import numpy as np

from netstack import Machine

from ..errors import Note, Parameter
from ..figures.optional_figures import complete, highest, known, middle, quotient, total
from .client import RestClient, number
from .job import LOCAL_PATH, FlinkJob, FlinkVertex, host_of, is_local, runs_other_jobs
from .options import EVERYWHERE, Overrides, of_vertex
from .sampling import Sample, Samples, SubtaskSamples, account_s

CPU_TIME = "Status.JVM.CPU.Time"
CPU_LOAD = "Status.JVM.CPU.Load"

BURN = "burn"
"""The service mode for CPU-bound work."""

_MIN_SPAN = 0.5
"""Two answers are used as a pair for the cores in use if at least this share of the time watched lies between
them.
"""

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
"""A note reports unexplained use of at least this many cores. Waiting tasks used 0.26 in a real job."""

_DIGITS = 2
"""Decimals of busy shares in the distribution of cores."""

_NO_ANSWER = SubtaskSamples(())

_MODE_OF_ONE = Parameter("service_mode", "throttle", of="VERTEX")
_BURNS = Parameter("service_mode", BURN, of=EVERYWHERE)
_CORES = Parameter("cores")

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

Place = tuple[str, int]
"""A subtask: the id of its vertex, and its number."""


# Sharing of cores


def cores_in_use(busy: Sequence[float], cores: float) -> float:
    """Return the mean number of cores in use if each task uses a core for its busy share of time."""
    if cores >= len(busy):
        return sum(busy)
    free = cores - np.arange(ceil(cores))
    chances = _chances(busy, len(free))
    return cores - float(chances @ free[: len(chances)])


def shares_of_core(busy: Sequence[float], cores: float) -> dict[float, float]:
    """Return the mean share of a core that a busy task gets, by its busy share of time.

    `busy` has the busy shares of all tasks; the keys are its distinct values.
    """
    seldom = sorted({share for share in busy if share <= 0.5})
    often = sorted({share for share in busy if share > 0.5})
    if cores >= len(busy):
        return dict.fromkeys([*seldom, *often], 1.0)
    chances = _chances(busy)
    of_one = np.minimum(1.0, cores / np.arange(1, len(busy) + 1))
    # If tasks are busy most of the time, count the idle tasks instead.
    for_seldom = of_one @ _without_one(chances, np.array(seldom))
    for_often = of_one[::-1] @ _without_one(chances[::-1], 1 - np.array(often))
    return dict(zip([*seldom, *often], [*for_seldom.tolist(), *for_often.tolist()], strict=True))


def _chances(busy: Sequence[float], counts: int | None = None) -> Floats:
    """Return the probabilities that 0, 1, 2, ... tasks are busy at the same time: the first `counts` of them,
    or all.
    """
    chances = np.ones(1)
    for share in busy:
        # The probability of a small number of tasks does not depend on those of larger numbers.
        chances = np.convolve(chances, [1 - share, share])[:counts]
    return chances


def _without_one(chances: Floats, shares: Floats) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the probabilities of `_chances` for all tasks but one. There is a column for each of `shares`,
    the possible busy shares of that task.

    This reverses the convolution with the task. An error propagates from one count to the next, multiplied by
    ``share / (1 - share)``, so shares must be 0.5 at most.
    """
    others = np.outer(chances[:-1], 1 / (1 - shares))
    odds = shares / (1 - shares)
    for count in range(1, len(others)):
        others[count] -= odds * others[count - 1]
    return others


# Machines and their use


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine or container, and the job's task managers on it."""

    managers: tuple[str, ...]
    cores: float | None
    """Number of cores; None: not reported."""
    cores_in_use: float | None
    """Cores that the processes of these task managers used; None: not reported."""
    other_jobs: bool = False
    """Whether tasks of other jobs also run in these task managers, and so may have used some of the cores."""


class Processors:
    """Polls the task managers of a job for their use of cores.

    `details` are the answers of ``/taskmanagers/ID``.
    """

    def __init__(
        self, client: RestClient, job: FlinkJob, details: Mapping[str, Mapping[str, object]]
    ) -> None:
        self._client = client
        self._job = job
        self._details = details
        self._polls: dict[str, list[Sample]] = {manager: [] for manager in details}
        self._silent: set[str] = set()

    def poll(self) -> None:
        """Poll all task managers once more, except those that refused to answer."""
        for manager in self._polls:
            if manager in self._silent:
                continue
            path = f"/taskmanagers/{manager}/metrics?get={CPU_LOAD},{CPU_TIME}"
            entries = self._client.find_list(path, may_be_gone=True, may_be_denied=True)
            if entries is None:
                self._silent.add(manager)
            values = {str(entry["id"]): number(entry.get("value")) for entry in entries or ()}
            # A virtual machine that does not know a value reports -1.
            known_values = {name: value for name, value in values.items() if value is not None and value >= 0}
            self._polls[manager].append(known_values)

    def hosts(self, samples: Samples) -> list[Host]:
        """Return the machines of the job. `samples` are the answers of its tasks in the same polls."""
        tasks: dict[str | None, list[SubtaskSamples]] = {}
        for vertex in self._job.vertices:
            for manager, subtask in zip(vertex.managers, samples[vertex.id], strict=False):
                tasks.setdefault(manager, []).append(subtask)
        hosts: dict[str, list[list[str]]] = {}
        for managers in self._processes():
            host = host_of(self._path(managers[0]))
            hosts.setdefault(host or f"of {managers[0]}", []).append(managers)
        return [self._host(processes, tasks) for processes in hosts.values()]

    def _processes(self) -> list[list[str]]:
        """Return the task managers of each process.

        Task managers without a host in their address are in the job manager's process. Others are in one
        process if their processor times are equal at every poll, because these count ticks of 10 ms or less.
        """
        processes: dict[object, list[str]] = {}
        for manager in sorted(self._details, key=_order):
            path, times = self._path(manager), tuple(each.get(CPU_TIME) for each in self._polls[manager])
            process: object = manager
            if is_local(path):
                process = LOCAL_PATH
            elif any(times):
                process = (host_of(path), times)
            processes.setdefault(process, []).append(manager)
        return list(processes.values())

    def _host(
        self, processes: Sequence[Sequence[str]], tasks: Mapping[str | None, Sequence[SubtaskSamples]]
    ) -> Host:
        managers = sorted((manager for process in processes for manager in process), key=_order)
        in_use = [
            middle(self._cores_in_use(manager, tasks.get(manager, ())) for manager in process)
            for process in processes
        ]
        return Host(
            managers=tuple(managers),
            cores=highest(self._cores(manager) for manager in managers),
            cores_in_use=total(complete(in_use) or ()),
            other_jobs=any(runs_other_jobs(self._details[manager], self._job) for manager in managers),
        )

    def _path(self, manager: str) -> object:
        return self._details[manager].get("path")

    def _cores(self, manager: str) -> float | None:
        hardware = self._details[manager].get("hardware")
        cores = number(hardware.get("cpuCores")) if isinstance(hardware, Mapping) else None
        return cores if cores is not None and cores > 0 else None

    def _cores_in_use(self, manager: str, tasks: Sequence[SubtaskSamples]) -> float | None:
        """Return the cores that a task manager used, by processor time, or else by load."""
        polls = self._polls[manager]
        accounts = known(_account(subtask) for subtask in tasks if len(subtask.samples) == len(polls))
        if accounts:
            times = [middle(at_once) or 0.0 for at_once in zip(*accounts, strict=True)]
            used = [each[CPU_TIME] * 1e-9 if CPU_TIME in each else None for each in polls]
            if (in_use := _slope(times, used)) is not None:
                return in_use
        load, cores = middle(each.get(CPU_LOAD) for each in polls), self._cores(manager)
        return None if load is None or cores is None else load * cores


def _order(manager: str) -> tuple[int, str]:
    """Sort by length first, so that tm10 follows tm9."""
    return len(manager), manager


def _account(subtask: SubtaskSamples) -> list[float] | None:
    """Return the time of each answer of a task, in seconds since the first answer, by the task's account of
    time.
    """
    sums = complete(map(account_s, subtask.samples))
    return None if sums is None else [seconds - sums[0] for seconds in sums]


def _slope(times_s: Sequence[float], used_s: Sequence[float | None]) -> float | None:
    """Return the cores in use: the median slope of processor time over all pairs of answers that are far
    enough apart. Flink may update its metrics between polling the tasks and polling the task managers. So
    a single pair may be wrong by a whole update interval.
    """
    points = [(time, used) for time, used in zip(times_s, used_s, strict=True) if used is not None]
    if not points or points[-1][0] <= points[0][0]:
        return None
    least = _MIN_SPAN * (points[-1][0] - points[0][0])
    return middle(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in combinations(points, 2)
        if later[0] - earlier[0] >= least
    )


# Tasks on a machine


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A subtask, with the figures that show whether it uses a core."""

    place: Place
    busy: float | None
    """Share of busy time; None: not reported."""
    most: float
    """Maximum possible busy share, given the other parts of the task's time."""
    reads: bool
    """Whether the task has inputs. A source's use of a core is not service of records."""
    mode: str | None
    """The service mode that the user sets; None: not set."""


class _HostLoad:
    """Use of cores on one machine: as measured, and as it would be if all work of tasks were CPU-bound.

    `strays` is the number of tasks on unknown machines, which may run here. `cores` is the user's override.
    """

    def __init__(self, host: Host, tasks: Sequence[_Task], strays: int, cores: float | None) -> None:
        self.host = host
        self.tasks = tasks
        self.cores_given = cores
        self.cores = cores or host.cores or inf
        candidates = [task for task in tasks if task.mode in (None, BURN)]
        self.busy = [task.busy for task in candidates if task.busy is not None]
        """Busy shares of the tasks, including sources, that may have used cores."""
        self.unreported = [task.most for task in candidates if task.busy is None] + [1.0] * strays
        """Maximum possible busy shares of tasks that may have used cores, but do not report their busy share.
        """
        self.if_all_burn = cores_in_use(self.busy, self.cores)
        """Cores in use if the work of all tasks that report busy time were CPU-bound."""
        of_operators = [task for task in tasks if task.reads and task.mode is None]
        self.has_undecided = bool(of_operators)
        self.undecided = {task.place: task.busy for task in of_operators if task.busy is not None}
        """Busy shares of the tasks whose service mode the user does not set."""
        self.used_by_tasks: float | None = None
        """Cores that tasks may have used; None: not reported, or used by other jobs as well."""
        if host.cores_in_use is not None and not host.other_jobs:
            self.used_by_tasks = max(0.0, host.cores_in_use - _AT_REST * len(host.managers))
        self.burns = self._burns()

    def _burns(self) -> bool:
        """Return whether tasks used most of the cores that they would use if all their work were CPU-bound.

        The possible use by tasks that do not report busy time is subtracted first. If hardly anything is
        left, the result is False.
        """
        if self.used_by_tasks is None or not self.busy:
            return False
        of_unreported = 0.0
        if self.unreported:
            unreported = [round(share, _DIGITS) for share in self.unreported]
            busy = [round(share, _DIGITS) for share in self.busy]
            shares = shares_of_core(busy + unreported, self.cores)
            of_unreported = sum(share * shares[share] for share in unreported)
        of_busy = cores_in_use([*self.busy, *self.unreported], self.cores) - of_unreported
        is_clear = of_busy > 0 and of_busy >= _HARDLY * (of_busy + of_unreported)
        return is_clear and self.used_by_tasks - of_unreported >= _MOST * of_busy

    def burning(self, vertices: Collection[str]) -> list[_Task]:
        """Return the tasks that read input and belong to `vertices`, the vertices with CPU-bound work."""
        return [task for task in self.tasks if task.reads and task.place[0] in vertices]

    def shares(self, vertices: Collection[str]) -> dict[Place, float]:
        """Return the share of a core that each task of `vertices` had while busy, if known."""
        busy = {
            task.place: round(task.busy, _DIGITS) for task in self.burning(vertices) if task.busy is not None
        }
        shares = shares_of_core(list(busy.values()), self.cores)
        return {place: shares[share] for place, share in busy.items()}

    def notes(self, vertices: Collection[str]) -> Iterator[Note]:
        """Yield the assumptions about the work of tasks. The work of `vertices` is CPU-bound."""
        tasks = self.burning(vertices)
        if tasks:
            yield from self._notes_on_burning(tasks)
        elif (note := self._note_on_waiting()) is not None:
            yield note

    def _note_on_waiting(self) -> Note | None:
        """Return the note that work is assumed to wait; None: this is clear, or it makes no difference."""
        busy, used = list(self.undecided.values()), self.used_by_tasks
        if not busy:
            if not self.has_undecided or used is None or used < _MUCH:
                return None
            text = "the busy time of tasks is not reported, so it is unknown whether their work is CPU-bound"
            return Note(f"{text} ({self._figures()}); {_ASSUMED}.", _BURNS, advice=_IF_IT_BURNS)
        if self.cores == inf:
            if used is None or min(used, sum(busy)) < _MUCH:
                return None
            text = "the number of cores is not reported, so it is unknown whether tasks wait for one"
            return Note(f"{text} ({self._figures()}); {_ASSUMED}.", _CORES)
        would_wait = sum(busy) - cores_in_use(busy, self.cores)
        hardly_used = used is not None and used < _HARDLY * self.if_all_burn
        if would_wait <= _NOTICEABLE * sum(busy) or hardly_used:
            return None
        return Note(f"{self._doubt()}; {_ASSUMED}.", _BURNS, advice=_IF_IT_BURNS)

    def _notes_on_burning(self, tasks: Sequence[_Task]) -> Iterator[Note]:
        by = "as on the other machines, "
        if self.burns:
            by = ""
        elif all(task.mode == BURN for task in tasks):
            by = "as overridden, "
        figures = "" if self.host.cores_in_use is None else f" ({self._figures()})"
        text = f"{by}the work of tasks is CPU-bound{figures}"
        busy = [task.busy for task in tasks if task.busy is not None]
        if busy:
            had = cores_in_use(busy, self.cores) / sum(busy) if sum(busy) else 1.0
            text += f". They had a core for {100 * had:.0f} % of their busy time"
        yield Note(
            f"{text}. The costs are processor time, including any other use of the cores.",
            _MODE_OF_ONE,
            _CORES,
            advice="If the work of a vertex waits and is not CPU-bound, set {}. To override the number of "
            "cores, set {}.",
        )
        if len(busy) < len(tasks):
            yield Note(
                f"{len(tasks) - len(busy)} of {len(tasks)} tasks with CPU-bound work do not report "
                "their busy time; assuming that each had a whole core."
            )
        if self.cores == inf:
            yield Note("the number of cores is not reported; assuming as many as the tasks need.", _CORES)

    def _doubt(self) -> str:
        if self.host.cores_in_use is None:
            return (
                "there are fewer cores than tasks, and it is not reported whether the work of tasks is "
                "CPU-bound"
            )
        if self.host.other_jobs:
            return "other jobs run there, too, so it is unknown whether the work of this job is CPU-bound"
        others = ""
        if self.unreported:
            others = f", such as that of {len(self.unreported)} tasks that do not report their busy time"
        return f"this work may have used the cores, or other work may have{others} ({self._figures()})"

    def _figures(self) -> str:
        """Return, as text, the cores in use, their number, and the use by tasks with known busy time."""
        used = round(self.host.cores_in_use or 0.0, 2)
        if self.cores == inf:
            in_use = f"{used:.2f} cores in use"
        elif used <= self.cores:
            in_use = f"{used:.2f} of {self.cores:g} cores in use"
        else:
            source = "reported" if self.cores_given is None else "set"
            in_use = f"{used:.2f} cores in use, more than the {self.cores:g} {source}"
        if not self.busy:
            return in_use
        if used <= self.if_all_burn:
            return f"{in_use}; it would be {self.if_all_burn:.2f} if all work were CPU-bound"
        who = "tasks that report their busy time" if self.unreported else "busy tasks"
        return f"{in_use}; at most {self.if_all_burn:.2f} by {who}"


_ASSUMED = "assuming that the work of tasks is not CPU-bound, but waits (for example for I/O)"
_IF_IT_BURNS = "Set {} if the work is CPU-bound."


# The work of a job


@dataclass(frozen=True, slots=True, kw_only=True)
class Burning:
    """The CPU-bound work of a job: service modes and shares of a core."""

    modes: Mapping[str, str] = field(default_factory=dict)
    """The service mode of vertices, by id. Other vertices have the default."""
    shares: Mapping[Place, float] = field(default_factory=dict)
    """The share of a core that a task had while busy; 1 if the task is absent."""
    machines: tuple[Machine, ...] = ()

    def core_shares(self, vertex: FlinkVertex) -> list[float | None]:
        """Return the share of a core that each subtask of a vertex had while busy; None if its work waits."""
        burns = self.modes.get(vertex.id) == BURN
        places = ((vertex.id, subtask) for subtask in range(vertex.parallelism))
        return [self.shares.get(place, 1.0) if burns else None for place in places]


NOTHING_BURNS = Burning()


def burning_of(
    job: FlinkJob, samples: Samples, hosts: Sequence[Host], given: Overrides, notes: list[str]
) -> Burning:
    """Determine the vertices with CPU-bound work, from the machines and the overrides.

    `notes` gets lines for each machine on which the service mode matters.
    """
    modes = {
        vertex.id: mode
        for vertex in job.vertices
        if job.inputs(vertex) and (mode := of_vertex(given.service_mode, job.names[vertex.id])) is not None
    }
    tasks = _tasks_by_manager(job, samples, modes)
    # A task manager of the scenario that is on no known host becomes a machine of its own.
    on_hosts = {manager for host in hosts for manager in host.managers}
    alone = [Host(managers=(each,), cores=None, cores_in_use=None) for each in tasks if each not in on_hosts]
    unplaced = [each for each in job.vertices if each.placed is None and modes.get(each.id, BURN) == BURN]
    loads = []
    for host in [*hosts, *alone]:
        here = [task for manager in host.managers for task in tasks.get(manager, ())]
        loads.append(_HostLoad(host, here, _strays(unplaced, host), given.cores))
    # A vertex on several machines is decided by the machines on which it is busiest.
    burnt: dict[str, float] = {}
    for load in loads:
        for (vertex_id, _), busy in load.undecided.items():
            burnt[vertex_id] = burnt.get(vertex_id, 0.0) + (busy if load.burns else -busy)
    modes |= {vertex_id: BURN for vertex_id, more in burnt.items() if more > 0}
    vertices = {vertex_id for vertex_id, mode in modes.items() if mode == BURN}
    shares: dict[Place, float] = {}
    machines = []
    for load in loads:
        shares |= load.shares(vertices)
        if load.burning(vertices) and load.cores < inf:
            managers = tuple(manager for manager in load.host.managers if manager in tasks)
            machines.append(Machine(cores=load.cores, task_managers=managers))
        notes += [note.after(f"{', '.join(load.host.managers)}: ") for note in load.notes(vertices)]
    return Burning(modes=modes, shares=shares, machines=tuple(machines))


def _strays(unplaced: Iterable[FlinkVertex], host: Host) -> int:
    """Return the number of tasks that may run on a host, of vertices whose machines are not all known."""
    strays = 0
    for vertex in unplaced:
        strays += sum(manager is None or manager in host.managers for manager in vertex.managers)
        strays += max(0, vertex.parallelism - len(vertex.managers))
    return strays


def _tasks_by_manager(job: FlinkJob, samples: Samples, modes: Mapping[str, str]) -> dict[str, list[_Task]]:
    """Return the tasks by task manager of the scenario. A vertex on an unknown machine gets a task manager of
    its own.
    """
    # Values of all tasks are collected together. So the time watched also holds for tasks that do not report
    # their times.
    watched_s = middle(subtask.accounted_s for subtasks in samples.values() for subtask in subtasks)
    tasks: dict[str, list[_Task]] = {}
    for vertex in job.vertices:
        managers = vertex.managers
        if vertex.placed is None:
            managers = (job.names[vertex.id],) * vertex.parallelism
        reads = bool(job.inputs(vertex))
        for subtask, manager in enumerate(managers):
            answers = samples[vertex.id][subtask] if subtask < len(samples[vertex.id]) else _NO_ANSWER
            busy_s = quotient(answers.increase("busy_ms"), 1e3)
            busy = quotient(busy_s, answers.accounted_s)
            elsewhere_ms = total(answers.increase(part) for part in ("idle_ms", "backpressured_ms"))
            most = 1.0
            if elsewhere_ms is not None and watched_s:
                most = min(1.0, max(0.0, 1.0 - elsewhere_ms / 1e3 / watched_s))
            task = _Task(
                place=(vertex.id, subtask),
                busy=None if busy is None else min(1.0, max(0.0, busy)),
                most=most,
                reads=reads,
                mode=modes.get(vertex.id),
            )
            tasks.setdefault(str(manager), []).append(task)
    return tasks
