"""Whether a run in real time kept up with the clock on the wall, in words; nothing where it did."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from netstack import Result

from .comparison_text import figure

TOO_LATE = 0.01
"""Share of its time from which on a run in real time that was late at its end has not kept up."""

_SO = (
    "so times may be too long and rates too low; give it less to do, or run in virtual time, where the speed "
    "of a machine does not matter."
)


def fell_behind(result: Result) -> Iterator[str]:
    """Yield what fell behind the clock, by how much, what that does to the figures, and what helps."""
    parts = result.task_managers_behind_s
    if parts is UNSET:
        parts = {} if result.behind_s is UNSET else {"": result.behind_s}
    late = {
        name: behind_s
        for name, behind_s in parts.items()
        if behind_s is not None and behind_s > TOO_LATE * result.emulated_seconds
    }
    if late:
        by = f"by {'up to ' if len(late) > 1 else ''}{max(late.values()):.2g} s of"
        share = f"{by} {figure(result.emulated_seconds)} s"
        told = f"{_named(list(late))} fell behind the clock {share}"
        yield f"{told}, {_SO}"
    unknown = [name for name, behind_s in parts.items() if behind_s is None]
    if unknown:
        it_was = "it was" if len(unknown) == 1 else "they were"
        told = f"{_named(unknown)} ended without telling how far {it_was} behind the clock"
        yield f"{told}, {_SO}"


def _named(task_managers: list[str]) -> str:
    """The task managers; the one of a run in one process has no name."""
    if task_managers == [""]:
        return "This machine"
    plural = "s" if len(task_managers) > 1 else ""
    return f"The process{'es' if plural else ''} of task manager{plural} {', '.join(task_managers)}"
