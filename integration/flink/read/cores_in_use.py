"""Cores that the task managers of a job use, by host.

A task manager reports how many cores its process may use (``hardware.cpuCores`` of ``/taskmanagers/ID``)
and, in ``path``, its host. Task managers of one host share its cores. ``Status.JVM.CPU.Time`` is the
processor time of the process in nanoseconds, and ``Status.JVM.CPU.Load`` its recent share of all
cores. Answers have no timestamp. The time between two answers is the growth of the times (busy, idle,
back-pressured) that the task manager's tasks report, because Flink collects these at the same moments::

    CPU.Time  40.1 s   40.1 s   49.0 s   57.8 s        in use: (57.8 - 40.1) / 20 = 0.89 cores
    tasks     61.0 s   61.0 s   71.0 s   81.0 s

Task managers of one process (a MiniCluster) all report the same processor time, which counts once. Flink has
no metric of other processes on a host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...base.optional_figures import complete, highest, known, middle, pair_slopes, total
from ..http.answers import number
from ..http.client import RestClient
from .job import LOCAL_PATH, FlinkJob, host_of, is_local, runs_other_jobs
from .samples import Sample, Samples, SubtaskSamples, account_s

CPU_TIME = "Status.JVM.CPU.Time"
CPU_LOAD = "Status.JVM.CPU.Load"

MOST_POLLED = 50
"""Maximum number of task managers that are polled. The others count as using the median of their cores."""

_MIN_SPAN = 0.5
"""Two answers are used as a pair for the cores in use if at least this share of the time watched lies between
them.
"""


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
    """Polls task managers of a job for their use of cores: all, or some that are evenly chosen.

    `details` are the answers of ``/taskmanagers/ID``.
    """

    def __init__(
        self, client: RestClient, job: FlinkJob, details: Mapping[str, Mapping[str, object]]
    ) -> None:
        self._client = client
        self._job = job
        self._details = details
        ordered = sorted(details, key=_order)
        polled = min(len(ordered), MOST_POLLED)
        chosen = {ordered[place * len(ordered) // polled] for place in range(polled)}
        self._polls: dict[str, list[Sample]] = {manager: [] for manager in details if manager in chosen}
        self._silent: set[str] = set()

    @property
    def polled(self) -> int:
        """The number of task managers that are polled."""
        return len(self._polls)

    def poll(self) -> None:
        """Poll the task managers once more, except those that refused to answer."""
        asked = [manager for manager in self._polls if manager not in self._silent]
        paths = [f"/taskmanagers/{manager}/metrics?get={CPU_LOAD},{CPU_TIME}" for manager in asked]
        answers = self._client.find_lists(paths, may_be_gone=True, may_be_denied=True)
        for manager, entries in zip(asked, answers, strict=True):
            if entries is None:
                self._silent.add(manager)
            values = {str(entry["id"]): number(entry.get("value")) for entry in entries or ()}
            self.add(manager, values)

    def add(self, manager: str, values: Mapping[str, float | None]) -> None:
        """Add the answer of a task manager. A virtual machine that does not know a value reports -1."""
        known_values = {name: value for name, value in values.items() if value is not None and value >= 0}
        self._polls.setdefault(manager, []).append(known_values)

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
        in_use = {manager: self._cores_in_use(manager, tasks.get(manager, ())) for manager in self._polls}
        typical = middle(in_use.values())
        in_use = {manager: in_use.get(manager, typical) for manager in self._details}
        return [self._host(processes, in_use) for processes in hosts.values()]

    def _processes(self) -> list[list[str]]:
        """Return the task managers of each process.

        Task managers without a host in their address are in the job manager's process. Others are in one
        process if their processor times are equal at every poll, because these count ticks of 10 ms or less.
        """
        processes: dict[object, list[str]] = {}
        for manager in sorted(self._details, key=_order):
            path, polls = self._path(manager), self._polls.get(manager, ())
            times = tuple(each.get(CPU_TIME) for each in polls)
            process: object = manager
            if is_local(path):
                process = LOCAL_PATH
            elif any(times):
                process = (host_of(path), times)
            processes.setdefault(process, []).append(manager)
        return list(processes.values())

    def _host(self, processes: Sequence[Sequence[str]], in_use: Mapping[str, float | None]) -> Host:
        managers = sorted((manager for process in processes for manager in process), key=_order)
        of_processes = [middle(map(in_use.get, process)) for process in processes]
        return Host(
            managers=tuple(managers),
            cores=highest(self._cores(manager) for manager in managers),
            cores_in_use=total(complete(of_processes) or ()),
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
    return middle(pair_slopes(points, least))
