"""Notes on whether the work of tasks is CPU-bound: the assumption for each machine, and its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from ...base.errors import Note, Parameter
from .job_options import EVERYWHERE
from .processor_time import BURN, Burning, CoreUse, Task, share_with_core

_MODE_OF_ONE = Parameter("service_mode", "throttle", of="VERTEX")
IF_CPU_BOUND = Parameter("service_mode", BURN, of=EVERYWHERE)
"""Override that a note advises if it is unknown whether work is CPU-bound."""

_CORES = Parameter("cores")

_ASSUMED = "assuming that the work of tasks is not CPU-bound, but waits (for example for I/O)"


def core_notes(burning: Burning) -> Iterator[Note]:
    """Yield the assumptions about the work of tasks, for each machine on which the service mode matters."""
    for use in burning.uses:
        on_host = f"{', '.join(use.host.managers)}: "
        if tasks := use.burning(burning.vertices):
            yield from (note.after(on_host) for note in _notes_on_burning(use, tasks))
        elif use in burning.in_doubt:
            yield _note_on_doubt(use).after(on_host)


def _notes_on_burning(use: CoreUse, tasks: Sequence[Task]) -> Iterator[Note]:
    by = "as on the other machines, "
    if use.burns:
        by = ""
    elif all(task.mode == BURN for task in tasks):
        by = "as overridden, "
    text = f"{by}the work of tasks is CPU-bound"
    if use.host.cores_in_use is not None:
        text += f" ({_figures(use, use.host.cores_in_use)})"
    reporting = [task for task in tasks if task.reports]
    if reporting:
        had = share_with_core(reporting, use.cores)
        text += f". They had a core for {100 * had:.0f} % of their busy time"
    yield Note(
        f"{text}. The costs are processor time, including any other use of the cores.",
        _MODE_OF_ONE,
        _CORES,
        advice="If the work of a vertex waits and is not CPU-bound, set {}. To override the number of "
        "cores, set {}.",
    )
    if len(reporting) < len(tasks):
        yield Note(
            f"{len(tasks) - len(reporting)} of {len(tasks)} tasks with CPU-bound work do not report "
            "their busy time; assuming that each had a whole core."
        )
    if use.cores == inf:
        yield Note("the number of cores is not reported; assuming as many as the tasks need.", _CORES)


def _note_on_doubt(use: CoreUse) -> Note:
    in_use = use.host.cores_in_use
    advised, advice = IF_CPU_BOUND, "Set {} if the work is CPU-bound."
    if in_use is None:
        doubt = (
            "there are fewer cores than tasks, and it is not reported whether the work of tasks is CPU-bound"
        )
    elif use.used is None:
        doubt = "other tasks may run there, too, so it is unknown whether the work of this job is CPU-bound"
    elif use.cores == inf:
        doubt = "the number of cores is not reported, so it is unknown whether tasks wait for one"
        advised, advice = _CORES, "Set {} to override."
    else:
        doubt = "this work may have used the cores, or other work may have"
        if use.unreported:
            doubt += f", such as that of {use.unreported} tasks that do not report their busy time"
    figures = "" if use.used is None or in_use is None else f" ({_figures(use, in_use)})"
    return Note(f"{doubt}{figures}; {_ASSUMED}.", advised, advice=advice)


def _figures(use: CoreUse, in_use: float) -> str:
    """Return, as text, the cores in use, their number, and the use by tasks with known busy time."""
    text = f"{in_use:.2f} cores in use" if use.cores == inf else f"{in_use:.2f} of {use.cores:g} cores in use"
    return f"{text}; tasks that report their busy time would use {use.would_use:.2f} if CPU-bound"
