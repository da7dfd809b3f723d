"""Sizes of a job on a terminal: buffers, memory and data in flight, and the plan for a budget of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

import msgspec
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from netstack import OPTIONS

from ..comparison.with_flink import Spread
from ..number_text import NOTHING, SAME_THROUGHPUT, bytes_per_second, counted, digits, milliseconds
from ..number_text import size as bytes_text
from ..sizing.budget import BudgetPlan, PlannedMemory
from ..sizing.emulated_check import ConsumerCheck, JobCheck
from ..sizing.job_size import ConsumerSize, ExchangeSize, JobSize, LinkSize, MemorySize
from .table_style import figures


class SizeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The document of ``netstack size``."""

    size: JobSize
    check: JobCheck | None
    plan: BudgetPlan | None = None
    """Split of a budget; None: none was given."""


_LEGEND = (
    "full: once the vertex, or one behind it, takes no more, half of each open buffer included. at worst: "
    "all senders hold as much for one subtask as they may. least: a shorter debloat target gains nothing, "
    "since a buffer holds a record and has to last for the round trip. Drain: bytes over the throughput of "
    "a subtask, the time that an aligned barrier waits."
)

_CHECKED = (
    "emulated: median of the seeds, and their range; drain is the time of a barrier from the vertices "
    "before, least that with a target of 1 ms. To start: tried, and with one buffer less."
)

_NO_TRIP = "With a round trip given, this says how many of these buffers a link needs, and its least target."


def print_sizing(report: SizeReport, console: Console) -> None:
    """Print the plan for a budget, or else the computed figures with the emulated ones beside them."""
    if report.plan is not None:
        print_plan(report.size, report.plan, console)
    else:
        _print_size(report.size, report.check, console)


def _print_size(job: JobSize, check: JobCheck | None, console: Console) -> None:
    head = f"  {job.preset}, buffers of {bytes_text(job.segment_bytes)}"
    console.print(Text.assemble((job.name, "bold"), head + _seeds(check)))
    console.print()
    console.print(_exchanges(job))
    console.print()
    console.print(_memory(job, check))
    for line in _about_memory(job):
        console.print(Text(line))
    checked = {} if check is None else {each.name: each for each in check.consumers}
    for consumer in job.consumers:
        console.print()
        _print_consumer(consumer, checked.get(consumer.name), console)
    console.print()
    if not any(consumer.link and consumer.link.round_trip_ms for consumer in job.consumers):
        console.print(Text(_NO_TRIP))
    console.print(Text(_LEGEND if check is None else f"{_LEGEND} {_CHECKED}", style="dim"))


def _seeds(check: JobCheck | None) -> str:
    if check is None:
        return ""
    seeds = f"{check.seeds[0]}" if len(check.seeds) == 1 else f"{check.seeds[0]} to {check.seeds[-1]}"
    return f"; emulated for {digits(check.emulated_seconds)} s, virtual clock, seed {seeds}"


def _exchanges(job: JobSize) -> Table:
    table = figures(["Buffers of each subtask", "to start", "at most", "memory"])
    for exchange in job.exchanges:
        title = f"{exchange.source} -> {exchange.target}, {exchange.ship}"
        table.add_row(Text(title, style="bold"))
        for name, required, most in _ends(exchange):
            start = "" if required is None else f"{required}"
            table.add_row(f"  {name}", start, f"{most}", bytes_text(most * job.segment_bytes))
    return table


def _ends(exchange: ExchangeSize) -> Iterator[tuple[str, int | None, int]]:
    parts, channels = exchange.subpartitions, exchange.channels
    start, most = exchange.partition_required, exchange.partition_most
    yield f"producer, {counted(parts, 'subpartition')}", start, most
    yield "  overdraft, to finish a record", None, exchange.overdraft
    if exchange.is_local:
        yield "consumer, in the same task manager", 0, 0
        return
    yield f"consumer, exclusive, {counted(channels, 'channel')}", exchange.exclusive, exchange.exclusive
    yield "  floating", exchange.floating_required, exchange.floating_most


def _memory(job: JobSize, check: JobCheck | None) -> Table:
    columns = ["Network memory of", "to start", "at most", "memory"]
    table = figures([*columns, *([] if check is None else [Column("emulated")])])
    most = max((each.required_buffers for each in job.task_managers), default=0)
    for each in job.task_managers:
        cells = [f"  {each.task_manager}", f"{each.required_buffers}", f"{each.most_buffers}"]
        cells.append(f"{bytes_text(each.required_bytes)} - {bytes_text(each.most_bytes)}")
        table.add_row(*cells, _started(check) if each.required_buffers == most else "")
    return table


def _started(check: JobCheck | None) -> str:
    if check is None or check.memory is None:
        return ""
    memory = check.memory
    first = "starts" if memory.starts else "does not start"
    second = "do too" if memory.starts_with_less else "do not"
    return f"{first}; {memory.buffers - 1} {second}"


def _about_memory(job: JobSize) -> Iterator[str]:
    """Lines on task managers with too little network memory."""
    for each in job.task_managers:
        verdict = _verdict(each)
        if verdict:
            given = f"taskmanager.memory.network.max is {bytes_text(each.given_bytes)}"
            yield f"{each.task_manager}: {given}: {verdict}"


def _verdict(memory: MemorySize) -> str:
    if memory.given_bytes is None or memory.given_bytes >= memory.most_bytes:
        return ""
    if memory.given_bytes < memory.required_bytes:
        return f"it does not start; give at least {bytes_text(memory.required_bytes)}"
    return f"it starts, but its pools could use {bytes_text(memory.most_bytes)}"


def _print_consumer(consumer: ConsumerSize, check: ConsumerCheck | None, console: Console) -> None:
    head = Text.assemble((consumer.name, "bold"), f", {counted(consumer.parallelism, 'subtask')}")
    head.append(
        f" of {digits(consumer.records_per_s)} records/s, {bytes_per_second(consumer.bytes_per_s)} each"
    )
    if check is not None and check.bytes_per_s is not None:
        head.append(f" (emulated {bytes_per_second(check.bytes_per_s.median)})")
    console.print(head)
    columns = ["Waits for a subtask", "buffers", "bytes", "drain"]
    table = figures([*columns, *([] if check is None else [Column("emulated")])])
    for row in _rows(consumer, check):
        table.add_row(*row[: len(table.columns)])
    console.print(table)
    if not consumer.is_held_back:
        console.print("Nothing holds it back: all this waits only if it, or a vertex behind it, slows down.")
    if consumer.link is not None and consumer.link.most_bytes_per_s is not None:
        console.print(Text(_link(consumer, consumer.link, consumer.link.most_bytes_per_s)))


def _rows(consumer: ConsumerSize, check: ConsumerCheck | None) -> Iterator[tuple[str, ...]]:
    emulated: Mapping[str, Spread | None] = {} if check is None else _spreads(check)
    buffers = f"{round(consumer.expected_buffers, 1):g}"
    drain = None if consumer.target_ms is not None else emulated.get("drain_ms")
    flight = None if consumer.target_ms is not None else emulated.get("in_flight_bytes")
    yield _row("full", buffers, consumer.expected_bytes, consumer.expected_drain_ms, _both(flight, drain))
    worst = consumer.worst_buffers
    yield _row("at worst", f"{worst}", consumer.worst_bytes, consumer.worst_drain_ms, "")
    if consumer.target_ms is not None and consumer.debloated_bytes is not None:
        each = consumer.debloated_bytes
        name = f"debloated to {milliseconds(consumer.target_ms)}"
        beside = _both(emulated.get("in_flight_bytes"), emulated.get("drain_ms"))
        total = each * consumer.expected_buffers
        yield _row(name, f"{buffers} x {bytes_text(each)}", total, consumer.debloated_drain_ms, beside)
    least = consumer.least_buffer_bytes
    total, beside = least * consumer.expected_buffers, _both(None, emulated.get("least_drain_ms"))
    yield _row(
        "least by debloating", f"{buffers} x {bytes_text(least)}", total, consumer.least_drain_ms, beside
    )


def _spreads(check: ConsumerCheck) -> dict[str, Spread | None]:
    names = ("drain_ms", "in_flight_bytes", "least_drain_ms")
    return {name: getattr(check, name) for name in names}


def _row(name: str, buffers: str, total: float, drain_ms: float | None, emulated: str) -> tuple[str, ...]:
    return f"  {name}", buffers, bytes_text(total), milliseconds(drain_ms), emulated


def _both(total: Spread | None, drain: Spread | None) -> str:
    parts = [] if total is None else [bytes_text(total.median)]
    if drain is not None:
        parts.append(_with_range(drain))
    return ", ".join(parts)


def _with_range(drain: Spread) -> str:
    """A median, and the range in its unit."""
    scale = 1000 if drain.median >= 999.5 else 1
    low, high = (digits(ms / scale) if scale > 1 else f"{ms:.0f}" for ms in (drain.least, drain.most))
    return milliseconds(drain.median) + ("" if low == high else f" ({low}-{high})")


def _link(consumer: ConsumerSize, link: LinkSize, most_bytes_per_s: float) -> str:
    needed, trip = counted(link.needed_buffers, "buffer"), _short(link.round_trip_ms)
    need = f"Link: a round trip of {trip} needs {needed} in the receiver, which has {link.credit_buffers}"
    if most_bytes_per_s < consumer.bytes_per_s:
        most = bytes_per_second(most_bytes_per_s)
        return f"{need}: too few, only {most} come through, and the vertex is never full."
    least = _short(link.least_target_ms)
    return (
        f"{need}: enough for up to {bytes_per_second(most_bytes_per_s)}. "
        f"With a debloat target below {least} they become too small for that."
    )


def _short(ms: float) -> str:
    return milliseconds(ms) if ms >= 10 else f"{ms:.2g} ms"


_PLAN_LEGEND = (
    "at least: for bandwidth times round trip, and as much as it takes for the job to do no less. enough: "
    "more brings nothing, or makes barriers wait longer. Delays: the times that barriers take from vertex to "
    "vertex, in all, the mean over checkpoints. Overdraft buffers come on top, from what is left."
)
_WITH_OPTIONS = ("flink-1.20",)
"""Presets of versions that obey options for the number of buffers."""


def print_plan(job: JobSize, plan: BudgetPlan, console: Console) -> None:
    """Print the split of a budget, the effect of more memory, and the other settings that were emulated."""
    head = f"  {job.preset}, buffers of {bytes_text(job.segment_bytes)}; "
    head += f"{bytes_text(plan.budget_bytes)} for each task manager"
    console.print(Text.assemble((job.name, "bold"), head))
    first, last = plan.seeds[0], plan.seeds[-1]
    seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
    runs = f"{counted(plan.runs, 'run')} of up to {digits(plan.emulated_seconds)} s"
    console.print(Text(f"emulated in {runs}, virtual clock, {seeds}\n"))
    console.print(_places(job, plan))
    console.print()
    table = figures(["Network memory of", "at least", "enough", "plan", "saved by the MiB"])
    for memory in plan.task_managers:
        sizes = map(bytes_text, (memory.least_bytes, memory.enough_bytes, memory.planned_bytes))
        saved = milliseconds(memory.saved_ms_per_mib) if memory.saved_ms_per_mib else NOTHING
        table.add_row(f"  {_names(memory)}", *sizes, saved)
    console.print(table)
    for line in _more(plan):
        console.print(Text(line))
    console.print()
    table = figures(["Emulated", "memory", "delays", "checkpoint", "records/s"])
    for trial in plan.trials:
        cells = ["does not start"]
        if (found := trial.figures) is not None:
            cells = [milliseconds(found.delay_ms), milliseconds(found.checkpoint_ms)]
            cells.append(_rate(found.records_per_s))
        table.add_row(f"  {trial.name}", bytes_text(trial.memory_bytes), *cells)
    console.print(table)
    for line in (*_expected(plan), *_keys(plan), *_one_setting(job, plan)):
        console.print(Text(line))
    console.print(Text(f"\n{_PLAN_LEGEND}", style="dim"))


def _places(job: JobSize, plan: BudgetPlan) -> Table:
    table = figures(["Buffers of each subtask", "at least", "enough", "plan", "memory"])
    for place in plan.places:
        name = f"consumer, {counted(place.parts, 'channel')}"
        if place.kind == "partition":
            table.add_row(Text(f"{place.source} -> {place.target}", style="bold"))
            name = f"producer, {counted(place.parts, 'subpartition')}"
        elif not place.parts:
            name = "consumer, in the same process"
        numbers = map(str, (place.least, place.enough, place.planned))
        table.add_row(f"  {name}", *numbers, bytes_text(place.planned * job.segment_bytes))
    return table


def _names(memory: PlannedMemory) -> str:
    first, last = memory.task_managers[0], memory.task_managers[-1]
    return first if first == last else f"{first} to {last} ({len(memory.task_managers)})"


def _more(plan: BudgetPlan) -> Iterator[str]:
    """Yield the effect of more memory, and its place: the multipliers in words."""
    for memory in plan.task_managers:
        if memory.saved_ms_per_mib:
            more = bytes_text(memory.enough_bytes - memory.planned_bytes)
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
    yield f"By the curves, the plan's delays are {milliseconds(plan.expected_delay_ms)}."
    planned, now = plan.trials[0].figures, plan.records_per_s_now
    if planned is not None and now is not None and planned.records_per_s < now * (1 - SAME_THROUGHPUT):
        lost = 100 * (1 - planned.records_per_s / now)
        yield (
            f"Throughput is lost: now the job does {_rate(now)} records/s, with this plan "
            f"{_rate(planned.records_per_s)}, {lost:.1f} % less. No split that was tried loses less than "
            f"{100 * SAME_THROUGHPUT:g} %."
        )


def _keys(plan: BudgetPlan) -> Iterator[str]:
    yield "\nA scenario has the plan by these keys of its edges:"
    for _, (partition, gate) in groupby(plan.places, key=lambda place: place.edge):
        yield f"{gate.source} -> {gate.target}"
        yield (
            f"  buffers = {{ exclusive = {gate.exclusive}, floating = {gate.floating}, "
            f"partition = {partition.planned}, max_per_channel = {partition.max_per_channel} }}"
        )


def _one_setting(job: JobSize, plan: BudgetPlan) -> Iterator[str]:
    """Yield the options of a real Flink by which the plan can be set, or why there are none."""
    settings = {OPTIONS[field].name: number for field, number in plan.one_setting.items()}
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
