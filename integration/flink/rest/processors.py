"""The cores that the task managers of a job run on, and how many of them their processes keep in use.

A task manager tells how many cores its process may use (``hardware.cpuCores`` of ``/taskmanagers/ID``)
and, in ``path``, its host; those of one host share its cores. Its metric ``Status.JVM.CPU.Time`` adds up the
processor time of the process, all of its threads, in nanoseconds; ``Status.JVM.CPU.Load`` is the recent share
of all cores. Answers bear no time, and Flink collects values only now and then, so the time between two of
them is what the tasks in that task manager have added up as busy, idle and back-pressured, which is collected
together with it::

    CPU.Time  40.1 s   40.1 s   49.0 s   57.8 s        in use: (57.8 - 40.1) / 20 = 0.89 of its cores
    tasks     61.0 s   61.0 s   71.0 s   81.0 s

Several task managers may be in one process (a MiniCluster), all of which tell what it used; it counts once.
What else runs on a host is in no metric of Flink's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ...analysis.known_values import complete, highest, known, middle, total
from .answers import number
from .client import RestClient
from .cluster_job import FlinkJob
from .network_memory import other_jobs
from .sampling import Samples, SubtaskSamples
from .steady_tasks import Sample

CPU_TIME = "Status.JVM.CPU.Time"
CPU_LOAD = "Status.JVM.CPU.Load"

_HOST = re.compile(r"@(\[[^\]]+\]|[^@:/]+)")
"""Within a path such as "pekko.tcp://flink@10.0.0.1:6122/user/rpc/taskmanager_0"."""

LOCAL_PATH = "pekko://flink/user/rpc"
"""The path, without a host, of a task manager in the process of the job manager, as in a MiniCluster."""

_FAR_APART = 0.5
"""Share of the time watched from which on two answers tell how many cores were in use meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine, or a container, and the task managers of a job on it."""

    managers: tuple[str, ...]
    cores: float | None
    """How many it has; None: it is not told."""
    cores_in_use: float | None
    """How many of them the processes of these task managers kept in use; None: it is not told."""
    other_jobs: bool = False
    """Whether tasks of other jobs run in them, which have a part in that."""


class Processors:
    """Asks the task managers of a job for their use of processors while its tasks are watched."""

    def __init__(self, client: RestClient, job: FlinkJob, details: Mapping[str, Mapping[str, Any]]) -> None:
        """`details` are what ``/taskmanagers/ID`` says of each task manager that the job runs in."""
        self._client = client
        self._job = job
        self._details = details
        self._looks: dict[str, list[Sample]] = {manager: [] for manager in details}
        self._silent: set[str] = set()

    def look(self) -> None:
        """Ask each once more; not those that have refused."""
        for manager in [manager for manager in self._looks if manager not in self._silent]:
            path = f"/taskmanagers/{manager}/metrics?get={CPU_LOAD},{CPU_TIME}"
            entries = self._client.find_list(path, may_be_gone=True, may_be_denied=True)
            if entries is None:
                self._silent.add(manager)
            values = {str(entry["id"]): number(entry.get("value")) for entry in entries or ()}
            # A virtual machine that cannot tell says -1.
            told = {name: value for name, value in values.items() if value is not None and value >= 0}
            self._looks[manager].append(told)

    def hosts(self, samples: Samples) -> list[Host]:
        """Return the machines of the job; `samples` are of its tasks, taken at the same times."""
        tasks: dict[str | None, list[SubtaskSamples]] = {}
        for vertex in self._job.vertices:
            for manager, subtask in zip(vertex.managers, samples[vertex.id], strict=False):
                tasks.setdefault(manager, []).append(subtask)
        together: dict[str, list[list[str]]] = {}
        for process in self._processes():
            host = host_of(self._path(process[0]))
            together.setdefault(host or f"of {process[0]}", []).append(process)
        return [self._host(processes, tasks) for processes in together.values()]

    def _processes(self) -> list[list[str]]:
        """The task managers of each process.

        Those without a host in their address are all in the job manager's. Otherwise it is one process if
        the time of its processor is the same at every look, which counts ticks of 10 ms or less.
        """
        together: dict[object, list[str]] = {}
        for manager in sorted(self._details, key=_in_order):
            path, times = self._path(manager), tuple(look.get(CPU_TIME) for look in self._looks[manager])
            process = (host_of(path), times) if any(times) else manager
            together.setdefault(LOCAL_PATH if is_local(path) else process, []).append(manager)
        return list(together.values())

    def _host(
        self, processes: Sequence[Sequence[str]], tasks: Mapping[str | None, Sequence[SubtaskSamples]]
    ) -> Host:
        managers = sorted((manager for process in processes for manager in process), key=_in_order)
        in_use = [
            middle(self._cores_in_use(manager, tasks.get(manager, ())) for manager in process)
            for process in processes
        ]
        return Host(
            managers=tuple(managers),
            cores=highest(self._cores(manager) for manager in managers),
            cores_in_use=total(complete(in_use) or ()),
            other_jobs=any(self._has_other_jobs(manager) for manager in managers),
        )

    def _path(self, manager: str) -> object:
        return self._details[manager].get("path")

    def _cores(self, manager: str) -> float | None:
        hardware = self._details[manager].get("hardware")
        cores = number(hardware.get("cpuCores")) if isinstance(hardware, Mapping) else None
        return cores if cores is not None and cores > 0 else None

    def _has_other_jobs(self, manager: str) -> bool:
        return other_jobs(self._job, self._details[manager])

    def _cores_in_use(self, manager: str, tasks: Sequence[SubtaskSamples]) -> float | None:
        """Cores that its process kept in use, by the time of its processor, or else by its load."""
        looks = self._looks[manager]
        times_s = _scaled(looks, CPU_TIME, 1e-9)
        accounts_s = _accounts_s(tasks, len(looks))
        in_use = None if accounts_s is None else _slope(accounts_s, times_s)
        if in_use is not None:
            return in_use
        load, cores = middle(look.get(CPU_LOAD) for look in looks), self._cores(manager)
        return None if load is None or cores is None else load * cores


def _in_order(manager: str) -> tuple[int, str]:
    """By the length of its name first, so that tm10 comes after tm9."""
    return len(manager), manager


def host_of(path: object) -> str | None:
    """Return the host within a task manager's path; None where there is none."""
    found = _HOST.search(path) if isinstance(path, str) else None
    return found[1] if found else None


def is_local(path: object) -> bool:
    """Return whether a task manager's path is an address that holds within one process only."""
    return isinstance(path, str) and "://" in path and host_of(path) is None


def _accounts_s(tasks: Sequence[SubtaskSamples], looks: int) -> list[float] | None:
    """How long a task manager's tasks have been watched at each look, by their account; None: none tells."""
    accounts = known(_account_s(subtask) for subtask in tasks if len(subtask.samples) == looks)
    return [middle(at_once) or 0.0 for at_once in zip(*accounts, strict=True)] if accounts else None


def _account_s(subtask: SubtaskSamples) -> list[float] | None:
    """Seconds that a task has accounted for up to each answer, from the first one on."""
    totals = [
        complete(sample.get(field) for field in ("busy_ms", "idle_ms", "backpressured_ms"))
        for sample in subtask.samples
    ]
    sums = complete(None if parts is None else sum(parts) / 1e3 for parts in totals)
    return None if sums is None else [seconds - sums[0] for seconds in sums]


def _scaled(looks: Sequence[Sample], name: str, factor: float) -> list[float | None]:
    return [look[name] * factor if name in look else None for look in looks]


def _slope(times_s: Sequence[float], used_s: Sequence[float | None]) -> float | None:
    """How fast processor time grew: the median over all pairs of answers that are far apart.

    Values of tasks and of task managers may be asked for just before and after they are collected anew, so
    a single pair could be a whole update interval off.
    """
    told = [(time, used) for time, used in zip(times_s, used_s, strict=True) if used is not None]
    if not told or told[-1][0] <= told[0][0]:
        return None
    least = _FAR_APART * (told[-1][0] - told[0][0])
    return middle(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in combinations(told, 2)
        if later[0] - earlier[0] >= least
    )
