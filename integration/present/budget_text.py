"""A plan for network memory, for an 80-column terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netstack import OPTIONS

from ..analysis.wording import NOTHING, SAME_THROUGHPUT, counted, digits, milliseconds, size
from ..sizing.budget import BudgetPlan, PlannedMemory
from ..sizing.job_size import JobSize

_LEGEND = (
    "at least: for bandwidth times round trip, and as much as it takes for the job to do no less. enough: "
    "more brings nothing, or makes barriers wait longer. Delays: the times that barriers take from vertex to "
    "vertex, in all, the mean over checkpoints. Overdraft buffers come on top, from what is left."
)
_WITH_OPTIONS = ("flink-1.20",)
"""Presets of versions that obey options for the number of buffers."""


def print_plan(job: JobSize, plan: BudgetPlan, console: Console) -> None:
    """Print the split of a budget, the effect of more memory, and the other settings that were emulated."""
    head = f"  {job.preset}, buffers of {size(job.segment_bytes)}; "
    head += f"{size(plan.budget_bytes)} for each task manager"
    console.print(Text.assemble((job.name, "bold"), head))
    first, last = plan.seeds[0], plan.seeds[-1]
    seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
    runs = f"{counted(plan.runs, 'run')} of up to {digits(plan.emulated_seconds)} s"
    console.print(Text(f"emulated in {runs}, virtual clock, {seeds}\n"))
    console.print(_places(job, plan))
    console.print()
    table = _table("Network memory of", "at least", "enough", "plan", "saved by the MiB")
    for memory in plan.task_managers:
        sizes = map(size, (memory.least_bytes, memory.enough_bytes, memory.planned_bytes))
        saved = milliseconds(memory.saved_ms_per_mib) if memory.saved_ms_per_mib else NOTHING
        table.add_row(f"  {_names(memory)}", *sizes, saved)
    console.print(table)
    for line in _more(plan):
        console.print(Text(line))
    console.print()
    table = _table("Emulated", "memory", "delays", "checkpoint", "records/s")
    for trial in plan.trials:
        cells = ["does not start"]
        if (figures := trial.figures) is not None:
            cells = [milliseconds(figures.delay_ms), milliseconds(figures.checkpoint_ms)]
            cells.append(_rate(figures.records_per_s))
        table.add_row(f"  {trial.name}", size(trial.memory_bytes), *cells)
    console.print(table)
    for line in (*_expected(plan), *_keys(plan), *_one_setting(job, plan)):
        console.print(Text(line))
    console.print(Text(f"\n{_LEGEND}", style="dim"))


def _places(job: JobSize, plan: BudgetPlan) -> Table:
    table = _table("Buffers of each subtask", "at least", "enough", "plan", "memory")
    for place in plan.places:
        name = f"consumer, {counted(place.parts, 'channel')}"
        if place.kind == "partition":
            table.add_row(Text(f"{place.source} -> {place.target}", style="bold"))
            name = f"producer, {counted(place.parts, 'subpartition')}"
        elif not place.parts:
            name = "consumer, in the same process"
        numbers = map(str, (place.least, place.enough, place.planned))
        table.add_row(f"  {name}", *numbers, size(place.planned * job.segment_bytes))
    return table


def _names(memory: PlannedMemory) -> str:
    first, last = memory.task_managers[0], memory.task_managers[-1]
    return first if first == last else f"{first} to {last} ({len(memory.task_managers)})"


def _more(plan: BudgetPlan) -> Iterator[str]:
    """Yield the effect of more memory, and its place: the multipliers in words."""
    for memory in plan.task_managers:
        if memory.saved_ms_per_mib:
            more = size(memory.enough_bytes - memory.planned_bytes)
            yield (
                f"{_names(memory)}: more would go to {' and '.join(memory.saved_at)}. At first it takes "
                f"{milliseconds(memory.saved_ms_per_mib)} by the MiB off the delays; {more} take "
                f"{milliseconds(memory.left_ms)} off, and beyond that it brings nothing."
            )
        elif memory.planned_bytes < memory.enough_bytes:
            yield f"{_names(memory)}: more brings nothing while other task managers have no more."
    done = [memory for memory in plan.task_managers if memory.planned_bytes >= memory.enough_bytes]
    if done:
        yield f"{', '.join(map(_names, done))}: more brings nothing."


def _rate(records_per_s: float) -> str:
    return f"{records_per_s:,.0f}" if records_per_s >= 100 else digits(records_per_s)


def _expected(plan: BudgetPlan) -> Iterator[str]:
    """Yield the delays by the curves, and the loss of throughput if every split that was tried has one."""
    lift = max(place.lift_ms for place in plan.places)
    yield (
        f"By the curves, the plan's delays are {milliseconds(plan.expected_delay_ms)}. They are convex; the "
        f"emulated figures that they run below are at most {milliseconds(lift)} above them."
    )
    figures, now = plan.trials[0].figures, plan.records_per_s_now
    if figures is not None and now is not None and figures.records_per_s < now * (1 - SAME_THROUGHPUT):
        lost = 100 * (1 - figures.records_per_s / now)
        yield (
            f"Throughput is lost: now the job does {_rate(now)} records/s, with this plan "
            f"{_rate(figures.records_per_s)}, {lost:.1f} % less. No split that was tried loses less than "
            f"{100 * SAME_THROUGHPUT:g} %."
        )


def _keys(plan: BudgetPlan) -> Iterator[str]:
    yield "\nA scenario has the plan by these keys of its edges (--out writes it):"
    for _, (partition, gate) in groupby(plan.places, key=lambda place: place.edge):
        yield f"{gate.source} -> {gate.target}"
        yield (
            f"  buffers = {{ exclusive = {gate.exclusive}, floating = {gate.floating}, "
            f"partition = {partition.planned}, max_per_channel = {partition.max_per_channel} }}"
        )


def _one_setting(job: JobSize, plan: BudgetPlan) -> Iterator[str]:
    """Yield the options of a real Flink by which the plan can be set, or why there are none."""
    settings = {
        OPTIONS[field].name: number for field, number in msgspec.structs.asdict(plan.one_setting).items()
    }
    if job.preset in _WITH_OPTIONS:
        yield "\nFlink has one setting for all exchanges; by options in 1.x, with the plan's greatest:"
        yield from (f"  {name}: {number}" for name, number in settings.items())
        return
    yield (
        f"\nFlink {job.preset.removeprefix('flink-')} has no options for this: its numbers of buffers are "
        f"fixed, and it ignores {', '.join(settings)}. What it obeys is "
        f"{OPTIONS['network_memory_max_bytes'].name} for all of a task manager, and "
        f"{OPTIONS['debloat_enabled'].name} with its target, which makes buffers smaller."
    )


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(first)
    for head in others:
        table.add_column(head, justify="right")
    return table
