"""A plan for network memory as people read it, on an 80-column terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netstack import OPTIONS

from ..analysis.sizing.budget_plan import BudgetPlan, PlannedMemory, PlannedPlace, Trial
from ..analysis.sizing.job_size import JobSize
from ..analysis.wording import NOTHING, SAME_THROUGHPUT, counted, digits, milliseconds, size

_LEGEND = (
    "at least: for bandwidth times round trip, and as much as it takes for the job to do no less. enough: "
    "more brings nothing, or makes barriers wait longer. Delays: the times that barriers take from vertex to "
    "vertex, in all, the mean over checkpoints. Overdraft buffers come on top, from what is left."
)
_WITH_OPTIONS = ("flink-1.20",)
"""Presets of versions that obey options for the number of buffers."""

_KEYS = "A scenario has the plan by these keys of its edges (--out writes it):"


def print_plan(job: JobSize, plan: BudgetPlan, console: Console) -> None:
    """Print how a budget is split, what more would bring, and what is emulated beside the plan."""
    head = f"  {job.preset}, buffers of {size(job.segment_bytes)}; "
    head += f"{size(plan.budget_bytes)} for each task manager"
    console.print(Text.assemble((job.name, "bold"), head))
    runs = f"{counted(plan.runs, 'run')} of {digits(plan.emulated_seconds)} s, virtual clock, {_seeds(plan)}"
    console.print(Text(f"emulated in {runs}"))
    for table in (_places(job, plan), _memory(plan)):
        console.print()
        console.print(table)
    for line in _more(plan):
        console.print(Text(line))
    console.print()
    console.print(_trials(plan))
    console.print(Text(_expected(plan)))
    for line in _loss(plan):
        console.print(Text(line))
    console.print()
    console.print(Text(_KEYS))
    for line in _keys(plan):
        console.print(Text(line))
    console.print()
    for line in _one_setting(job, plan):
        console.print(Text(line))
    console.print()
    console.print(Text(_LEGEND, style="dim"))


def _seeds(plan: BudgetPlan) -> str:
    return f"seed {plan.seeds[0]}" if len(plan.seeds) == 1 else f"seeds {plan.seeds[0]} to {plan.seeds[-1]}"


def _places(job: JobSize, plan: BudgetPlan) -> Table:
    table = _table("Buffers of each subtask", "at least", "enough", "plan", "memory")
    for _, places in groupby(plan.places, key=lambda place: place.edge):
        both = list(places)
        table.add_row(Text(f"{both[0].source} -> {both[0].target}", style="bold"))
        for place in both:
            numbers = (place.least, place.enough, place.planned)
            memory = size(place.planned * job.segment_bytes)
            table.add_row(f"  {_name(place)}", *map(str, numbers), memory)
    return table


def _name(place: PlannedPlace) -> str:
    if place.kind == "partition":
        return f"producer, {counted(place.parts, 'subpartition')}"
    return f"consumer, {counted(place.parts, 'channel')}" if place.parts else "consumer, in the same process"


def _memory(plan: BudgetPlan) -> Table:
    table = _table("Network memory of", "at least", "enough", "plan", "saved by the MiB")
    for memory in plan.task_managers:
        sizes = map(size, (memory.least_bytes, memory.enough_bytes, memory.planned_bytes))
        saved = milliseconds(memory.saved_ms_per_mib) if memory.saved_ms_per_mib else NOTHING
        table.add_row(f"  {_names(memory)}", *sizes, saved)
    return table


def _names(memory: PlannedMemory) -> str:
    first, last = memory.task_managers[0], memory.task_managers[-1]
    return first if first == last else f"{first} to {last} ({len(memory.task_managers)})"


def _more(plan: BudgetPlan) -> Iterator[str]:
    """What more memory would bring, and where: the multipliers in words."""
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


def _trials(plan: BudgetPlan) -> Table:
    table = _table("Emulated", "memory", "delays", "checkpoint", "records/s")
    for trial in plan.trials:
        table.add_row(f"  {trial.name}", size(trial.memory_bytes), *_figures(trial))
    return table


def _figures(trial: Trial) -> tuple[str, str, str]:
    figures = trial.figures
    if figures is None:
        return "does not start", "", ""
    return (
        milliseconds(figures.delay_ms),
        milliseconds(figures.checkpoint_ms),
        _rate(figures.records_per_s),
    )


def _rate(records_per_s: float) -> str:
    return f"{records_per_s:,.0f}" if records_per_s >= 100 else digits(records_per_s)


def _expected(plan: BudgetPlan) -> str:
    lift = max(place.lift_ms for place in plan.places)
    return (
        f"By the curves, the plan's delays are {milliseconds(plan.expected_delay_ms)}. They are convex; the "
        f"emulated figures that they run below are at most {milliseconds(lift)} above them."
    )


def _loss(plan: BudgetPlan) -> Iterator[str]:
    """What the plan costs, if no size that was tried costs nothing."""
    figures, now = plan.trials[0].figures, plan.records_per_s_now
    if figures is not None and now is not None and figures.records_per_s < now * (1 - SAME_THROUGHPUT):
        lost = 100 * (1 - figures.records_per_s / now)
        yield (
            f"Throughput is lost: now the job does {_rate(now)} records/s, with this plan "
            f"{_rate(figures.records_per_s)}, {lost:.1f} % less. No split that was tried loses less than "
            f"{100 * SAME_THROUGHPUT:g} %."
        )


def _one_setting(job: JobSize, plan: BudgetPlan) -> Iterator[str]:
    """What a real Flink can be told of the plan."""
    if job.preset not in _WITH_OPTIONS:
        names = ", ".join(OPTIONS[field].name for field in msgspec.structs.asdict(plan.one_setting))
        memory, debloating = (
            OPTIONS[field].name for field in ("network_memory_max_bytes", "debloat_enabled")
        )
        version = job.preset.removeprefix("flink-")
        yield (
            f"Flink {version} cannot be told any of this: its numbers of buffers are fixed, and it "
            f"ignores {names}. What it obeys is {memory} for all of a task manager, and "
            f"{debloating} with its target, which makes buffers smaller."
        )
        return
    yield "Flink has one setting for all exchanges; by options in 1.x, with the plan's greatest:"
    for field, number in msgspec.structs.asdict(plan.one_setting).items():
        yield f"  {OPTIONS[field].name}: {number}"


def _keys(plan: BudgetPlan) -> Iterator[str]:
    for _, places in groupby(plan.places, key=lambda place: place.edge):
        partition, gate = places
        yield f"{gate.source} -> {gate.target}"
        yield (
            f"  buffers = {{ exclusive = {gate.exclusive}, floating = {gate.floating}, "
            f"partition = {partition.planned}, max_per_channel = {partition.max_per_channel} }}"
        )


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(first)
    for head in others:
        table.add_column(head, justify="right")
    return table
