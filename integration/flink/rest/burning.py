"""Whether the work of tasks takes a core, and how much of one each had: processor time beside busy time.

A task is busy while it works, while it waits within its work (sleeps, asks a database), and while it wants a
core and others have them all. Flink does not tell these apart, and of processor time knows only what a whole
task manager used. What can be told is for all tasks of a machine together (`host_load.py`).

Of a busy second, the share in which a task really had a core is what its records cost (`core_sharing.py`);
the emulation, in which the same tasks share the same cores, makes busy time of it again. So whatever else
took cores meanwhile, as garbage collection or another process, is in these costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from netstack import Machine

from ...analysis.known_values import middle, total
from .cluster_job import FlinkJob, FlinkVertex
from .core_notes import notes_on
from .host_load import BURN, HostLoad, Place, Task
from .job_options import Overrides, of_vertex
from .processors import Host
from .sampling import Samples, SubtaskSamples
from .topology import placed


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

_NO_ANSWER = SubtaskSamples(())


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
    tasks = _by_manager(job, names, samples, modes)
    loads = list(_loads(job, hosts, tasks, modes, given.cores))
    modes |= dict.fromkeys(_burning_by_use(loads), BURN)
    vertices = {vertex_id for vertex_id, mode in modes.items() if mode == BURN}
    shares: dict[Place, float] = {}
    machines = []
    for load in loads:
        shares |= load.shares(vertices)
        if load.burning(vertices) and load.cores < inf:
            managers = tuple(manager for manager in load.host.managers if manager in tasks)
            machines.append(Machine(cores=load.cores, task_managers=managers))
        notes += notes_on(load, vertices)
    return Burning(modes=modes, shares=shares, machines=tuple(machines))


def _burning_by_use(loads: Sequence[HostLoad]) -> list[str]:
    """The vertices that burn by what is in use: one on several machines goes by those where it is busiest."""
    burnt: dict[str, float] = {}
    for load in loads:
        burns = load.burns
        for (vertex_id, _), busy in load.undecided.items():
            burnt[vertex_id] = burnt.get(vertex_id, 0.0) + (busy if burns else -busy)
    return [vertex_id for vertex_id, more in burnt.items() if more > 0]


def _loads(
    job: FlinkJob,
    hosts: Sequence[Host],
    tasks: Mapping[str, Sequence[Task]],
    modes: Mapping[str, str],
    cores: float | None,
) -> Iterator[HostLoad]:
    """Every machine with its tasks; a task manager of the scenario that is on none is one by itself."""
    known = {manager for host in hosts for manager in host.managers}
    alone = [Host(managers=(each,), cores=None, cores_in_use=None) for each in tasks if each not in known]
    lost = [
        vertex for vertex in job.vertices if placed(vertex) is None and modes.get(vertex.id, BURN) == BURN
    ]
    for host in [*hosts, *alone]:
        here = [task for manager in host.managers for task in tasks.get(manager, ())]
        yield HostLoad(host, here, sum(_may_run(vertex, host) for vertex in lost), cores)


def _may_run(vertex: FlinkVertex, host: Host) -> int:
    """How many tasks may run on a machine, of a vertex that does not tell the place of all of them."""
    there = sum(manager is None or manager in host.managers for manager in vertex.managers)
    return there + max(0, vertex.parallelism - len(vertex.managers))


def _by_manager(
    job: FlinkJob, names: Mapping[str, str], samples: Samples, modes: Mapping[str, str]
) -> dict[str, list[Task]]:
    """The tasks in each task manager of the scenario: a vertex whose places are not all told has its own."""
    # Values of all tasks are collected together, so those that keep no account were watched as long.
    watched_s = middle(subtask.accounted_s for subtasks in samples.values() for subtask in subtasks)
    tasks: dict[str, list[Task]] = {}
    for vertex in job.vertices:
        managers = (names[vertex.id],) * vertex.parallelism if placed(vertex) is None else vertex.managers
        reads = bool(job.inputs(vertex))
        for number, manager in enumerate(managers):
            answers = samples[vertex.id][number] if number < len(samples[vertex.id]) else _NO_ANSWER
            task = Task(
                place=(vertex.id, number),
                busy=_busy_share(answers),
                most=_most_busy(answers, watched_s),
                reads=reads,
                mode=modes.get(vertex.id),
            )
            tasks.setdefault(str(manager), []).append(task)
    return tasks


def _busy_share(subtask: SubtaskSamples) -> float | None:
    """Share of the time watched in which a task was busy; None: it does not tell."""
    busy, seconds = subtask.increase("busy_ms"), subtask.accounted_s
    return None if busy is None or not seconds else min(1.0, max(0.0, busy / 1e3 / seconds))


def _most_busy(subtask: SubtaskSamples, watched_s: float | None) -> float:
    """Share of that time in which a task was not idle nor held back, as far as it tells."""
    elsewhere_ms = total(subtask.increase(time) for time in ("idle_ms", "backpressured_ms"))
    if elsewhere_ms is None or not watched_s:
        return 1.0
    return min(1.0, max(0.0, 1.0 - elsewhere_ms / 1e3 / watched_s))
