"""What an import says of a machine's cores: what work on it was taken for, what the user can say instead."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf

from .core_sharing import cores_in_use
from .host_load import BURN, HARDLY, HostLoad, Task

_NOTICEABLE = 0.1
"""Share of busy time, spent waiting for a core, from which on it matters whether work takes one."""

_MUCH = 0.5
"""Cores in use by tasks, or wanted, that are more than those of work that waits take: 0.26 of a real job."""


def notes_on(load: HostLoad, burning: Collection[str]) -> list[str]:
    """Return a line for each thing to say; `burning` are the vertices whose work is taken to take a core."""
    where = ", ".join(load.host.managers)
    tasks = load.burning(burning)
    lines = _about_burning(load, tasks) if tasks else _about_waiting(load)
    return [f"{where}: {line}" for line in lines]


def _about_burning(load: HostLoad, tasks: Sequence[Task]) -> list[str]:
    figures = "" if load.host.cores_in_use is None else f" ({_figures(load)})"
    takes = f"{_by_what(load, tasks)}the work of tasks takes a core{figures}"
    busy = [task.busy for task in tasks if task.busy is not None]
    if busy:
        had = cores_in_use(busy, load.cores) / sum(busy) if sum(busy) else 1.0
        takes += f", which they had for {100 * had:.0f} % of their busy time"
    notes = [
        f"{takes}, so costs are processor time; what else takes cores there is not told, and in the costs; "
        "give --service-mode VERTEX:throttle for work that waits, --cores for others"
    ]
    if len(busy) < len(tasks):
        notes.append(
            f"{len(tasks) - len(busy)} of {len(tasks)} tasks whose work takes a core do not tell how busy "
            "they are, nor so what they had of one; here they had a whole one while they were"
        )
    if load.cores == inf:
        notes.append("how many cores there are is not told; here as many as tasks want; give --cores")
    return notes


def _by_what(load: HostLoad, tasks: Sequence[Task]) -> str:
    """Why that is so, if not for the cores in use there."""
    if load.burns:
        return ""
    if all(task.mode == BURN for task in tasks):
        return "as --service-mode says, "
    return "as on other machines, "


def _about_waiting(load: HostLoad) -> list[str]:
    used, busy = load.used_by_tasks, list(load.undecided.values())
    if not busy:
        return _about_untold(load)
    if load.cores == inf:
        return _about_unknown_cores(load, sum(busy))
    waits = sum(busy) - cores_in_use(busy, load.cores)
    if waits <= _NOTICEABLE * sum(busy) or (used is not None and used < HARDLY * load.if_all_burn):
        return []
    return [f"{_in_doubt(load)}; here it waits; give --service-mode burn if it takes one"]


def _about_untold(load: HostLoad) -> list[str]:
    """Where no task tells how busy it is, but something took cores."""
    undecided = any(task.reads and task.mode is None for task in load.tasks)
    if not undecided or load.used_by_tasks is None or load.used_by_tasks < _MUCH:
        return []
    return [
        "how busy tasks are is not told, so whether their work takes a core is not known "
        f"({_figures(load)}); here it waits; give --service-mode burn if it takes one"
    ]


def _about_unknown_cores(load: HostLoad, busy: float) -> list[str]:
    """Where cores are in use, and tasks, busy for that many of them in all, may have waited for more."""
    if load.used_by_tasks is None or min(load.used_by_tasks, busy) < _MUCH:
        return []
    return [
        "how many cores there are is not told, so whether tasks wait for one is not known "
        f"({_figures(load)}); here their work waits; give --cores"
    ]


def _in_doubt(load: HostLoad) -> str:
    if load.host.cores_in_use is None:
        return "whether the work of tasks takes a core is not told, and there are fewer than tasks"
    if load.host.other_jobs:
        return "other jobs run there too, so whether the work of this one takes a core cannot be told"
    others = f", such as {len(load.untold)} tasks that do not tell how busy they are" if load.untold else ""
    return f"some of the work may take a core, or others did{others} ({_figures(load)})"


def _figures(load: HostLoad) -> str:
    """Cores in use beside how many there are, and beside what tasks would use that tell how busy they are."""
    used = round(load.host.cores_in_use or 0.0, 2)
    if load.cores == inf:
        in_use = f"{used:.2f} cores in use"
    elif used <= load.cores:
        in_use = f"{used:.2f} of {load.cores:g} cores in use"
    else:
        of_whom = "that are told" if load.cores_given is None else "of --cores"
        in_use = f"{used:.2f} cores in use, more than the {load.cores:g} {of_whom}"
    if not load.busy:
        return in_use
    if used <= load.if_all_burn:
        return f"{in_use}, {load.if_all_burn:.2f} if all busy time took one"
    who = "tasks that tell how busy they are" if load.untold else "busy tasks"
    return f"{in_use}; {load.if_all_burn:.2f} at most by {who}"
