"""Output of ``size`` on a terminal: buffers, memory and data in flight, and the plan for a memory budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import msgspec
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from netstack import OPTIONS, version_of

from ...advise.size.budget import BudgetPlan, PlannedMemory, chance_ms, one_setting
from ...advise.size.emulated_check import ConsumerCheck, JobCheck
from ...advise.size.job_size import ConsumerSize, ExchangeSize, JobSize
from ...base.number_text import NOTABLE_CHANGE, NOTHING, bytes_per_second, counted, digits, milliseconds
from ...base.number_text import size as bytes_text
from ...runs.reference_comparison import Spread
from .table_style import figures


class SizeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The document of ``netstack size``."""

    size: JobSize
    check: JobCheck | None
    plan: BudgetPlan | None = None
    """Split of a memory budget; None: no budget was given."""


_LEGEND = (
    "full: data that waits if the vertex, or one after it, reads no more; a buffer that is being filled "
    "counts as half full. at worst: all senders hold as much data for one subtask as they may. least by "
    "debloating: a shorter target has no effect, since a buffer must hold a record, and the buffers must "
    "last for a round trip. drain: time that an aligned barrier waits: the bytes divided by the "
    "throughput of a subtask."
)

_CHECKED = (
    "emulated: median and range over the seeds. The emulated drain is the time of a barrier from the "
    "previous vertex; for the least by debloating, the debloat target is 1 ms. To start: the job was "
    "started with this many buffers, and with one buffer less."
)

_NO_TRIP = (
    "If you give a round trip, this table also says how many of these buffers a link needs, and its "
    "smallest useful target."
)


def print_sizing(report: SizeReport, console: Console) -> None:
    """Print the plan for a budget.

    Without a budget, print the computed figures with the emulated ones beside them.
    """
    job, check = report.size, report.check
    if report.plan is not None:
        print_plan(job, report.plan, console)
        return
    head = f"  {job.preset}, buffers of {bytes_text(job.segment_bytes)}"
    if check is not None:
        head += f"; emulated for {digits(check.emulated_seconds)} s, virtual clock, {_seeds(check.seeds)}"
    console.print(Text.assemble((job.name, "bold"), head))
    console.print()
    table = figures(["Buffers of each subtask", "to start", "at most", "memory"])
    for exchange in job.exchanges:
        title = f"{exchange.source} -> {exchange.target}, {exchange.ship}"
        table.add_row(Text(title, style="bold"))
        for name, required, most in _ends(exchange):
            start = "" if required is None else f"{required}"
            table.add_row(f"  {name}", start, f"{most}", bytes_text(most * job.segment_bytes))
    console.print(table)
    console.print()
    _print_memory(job, check, console)
    checked = {} if check is None else {each.name: each for each in check.consumers}
    for consumer in job.consumers:
        console.print()
        _print_consumer(consumer, checked.get(consumer.name), console)
    console.print()
    if not any(consumer.link and consumer.link.round_trip_ms for consumer in job.consumers):
        console.print(Text(_NO_TRIP))
    console.print(Text(_LEGEND if check is None else f"{_LEGEND} {_CHECKED}", style="dim"))


def _seeds(seeds: list[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


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


def _print_memory(job: JobSize, check: JobCheck | None, console: Console) -> None:
    """Print the network memory of each task manager, and a line for each that has too little."""
    started = ""
    if check is not None and check.memory is not None:
        memory = check.memory
        first = "starts" if memory.starts else "does not start"
        second = "do too" if memory.starts_with_less else "do not"
        started = f"{first}; {memory.buffers - 1} {second}"
    columns = ["Network memory of", "to start", "at most", "memory"]
    table = figures([*columns, *([] if check is None else [Column("emulated")])])
    most = max((each.required_buffers for each in job.task_managers), default=0)
    for each in job.task_managers:
        cells = [f"  {each.task_manager}", f"{each.required_buffers}", f"{each.most_buffers}"]
        cells.append(f"{bytes_text(each.required_bytes)} - {bytes_text(each.most_bytes)}")
        table.add_row(*cells, started if each.required_buffers == most else "")
    console.print(table)
    for each in job.task_managers:
        if each.given_bytes is None or each.given_bytes >= each.most_bytes:
            continue
        verdict = f"it starts, but its pools could use {bytes_text(each.most_bytes)}"
        if each.given_bytes < each.required_bytes:
            verdict = f"it does not start; give at least {bytes_text(each.required_bytes)}"
        given = f"taskmanager.memory.network.max is {bytes_text(each.given_bytes)}"
        console.print(Text(f"{each.task_manager}: {given}: {verdict}"))


def _print_consumer(consumer: ConsumerSize, check: ConsumerCheck | None, console: Console) -> None:
    head = Text.assemble((consumer.name, "bold"), f", {counted(consumer.parallelism, 'subtask')}")
    rates = f"{digits(consumer.records_per_s)} records/s, {bytes_per_second(consumer.bytes_per_s)}"
    head.append(f"; the slowest reads {rates}" if consumer.by_load else f" of {rates} each")
    if check is not None and check.bytes_per_s is not None:
        head.append(f" (emulated {bytes_per_second(check.bytes_per_s.median)})")
    console.print(head)
    columns = ["Waits for a subtask", "buffers", "bytes", "drain"]
    table = figures([*columns, *([] if check is None else [Column("emulated")])])
    for row in _rows(consumer, check):
        table.add_row(*row[: len(table.columns)])
    console.print(table)
    if not consumer.is_held_back:
        console.print(
            "This vertex is not saturated, so its queues are nearly empty now. The table shows what they "
            "hold if this vertex, or one downstream of it, becomes saturated."
        )
    link = consumer.link
    if link is None or link.most_bytes_per_s is None:
        return
    needed, trip = counted(link.needed_buffers, "buffer"), _short(link.round_trip_ms)
    need = f"Link: a round trip of {trip} needs {needed} at the receiver, which has {link.credit_buffers}"
    most = bytes_per_second(link.most_bytes_per_s)
    if link.most_bytes_per_s < consumer.bytes_per_s:
        need += f". This is too few: only {most} reach the vertex, which could read more."
    else:
        need += (
            f". This is enough for up to {most}. With a debloat target below {_short(link.least_target_ms)}, "
            "buffers become too small for this rate."
        )
    console.print(Text(need))


def _rows(consumer: ConsumerSize, check: ConsumerCheck | None) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a consumer. Emulated figures are in the row of the buffer size that the job has."""
    count, size, least = consumer.expected_buffers, consumer.debloated_bytes, consumer.least_buffer_bytes
    buffers = f"{round(count, 1):g}"
    emulated = "" if check is None else _both(check.in_flight_bytes, check.drain_ms)
    emulated_full, emulated_debloated = ("", emulated) if size else (emulated, "")
    yield _row("full", buffers, consumer.expected_bytes, consumer.expected_drain_ms, emulated_full)
    yield _row("at worst", f"{consumer.worst_buffers}", consumer.worst_bytes, consumer.worst_drain_ms, "")
    if size:
        name, sizes = f"debloated to {milliseconds(consumer.target_ms)}", f"{buffers} x {bytes_text(size)}"
        yield _row(name, sizes, size * count, consumer.debloated_drain_ms, emulated_debloated)
    sizes = f"{buffers} x {bytes_text(least)}"
    emulated_least = "" if check is None else _both(None, check.least_drain_ms)
    yield _row("least by debloating", sizes, least * count, consumer.least_drain_ms, emulated_least)


def _row(name: str, buffers: str, total: float, drain_ms: float | None, emulated: str) -> tuple[str, ...]:
    return f"  {name}", buffers, bytes_text(total), milliseconds(drain_ms), emulated


def _both(total: Spread | None, drain: Spread | None) -> str:
    parts = [] if total is None else [bytes_text(total.median)]
    if drain is not None:
        scale = 1000 if drain.median >= 999.5 else 1
        low, high = (digits(ms / scale) if scale > 1 else f"{ms:.0f}" for ms in (drain.least, drain.most))
        parts.append(milliseconds(drain.median) + ("" if low == high else f" ({low}-{high})"))
    return ", ".join(parts)


def _short(ms: float) -> str:
    return milliseconds(ms) if ms >= 10 else f"{ms:.2g} ms"


_PLAN_LEGEND = (
    "barriers: the time until a vertex has the last barrier of a checkpoint, counted from when all "
    "previous vertices have sent theirs; the sum over all vertices, and the mean over checkpoints. at "
    "least: the smallest size with which the job keeps its throughput. enough: with more memory, barriers "
    "are not faster. Overdraft buffers are not included; they take memory that is left."
)


def print_plan(job: JobSize, plan: BudgetPlan, console: Console) -> None:
    """Print the effect of a plan, then the split of the memory and the options to set."""
    head = f"  {job.preset}, buffers of {bytes_text(job.segment_bytes)}; "
    head += f"{bytes_text(plan.budget_bytes)} for each task manager"
    console.print(Text.assemble((job.name, "bold"), head))
    for line in _answer(plan):
        console.print(Text(line))
    runs = f"Emulated in {counted(plan.runs, 'run')}, virtual clock, {_seeds(plan.seeds)}."
    console.print(Text(f"{runs}\n", style="dim"))
    console.print(_trials_table(plan))
    console.print()
    _print_planned_memory(plan, console)
    console.print()
    console.print(_planned_buffers_table(plan, job.segment_bytes))
    console.print("\nTo use this plan in a scenario file, add to its edges:")
    for exchange in plan.exchanges:
        console.print(Text(f"{exchange.source} -> {exchange.target}"))
        keys = (f"{key} = {number}" for key, number in asdict(exchange.buffers).items())
        console.print(Text(f"  buffers = {{ {', '.join(keys)} }}"))
    for line in _one_setting(job, plan):
        console.print(Text(line))
    console.print(Text(f"\n{_PLAN_LEGEND}", style="dim"))


def _answer(plan: BudgetPlan) -> Iterator[str]:
    """Yield the memory that the plan needs, and its effect on delays and throughput."""
    of_plan, present = plan.trials[:2]
    memory, planned, now = bytes_text(of_plan.memory_bytes), of_plan.figures, present.figures
    if any(each.saved_ms_per_mib for each in plan.task_managers):
        yield f"The plan uses {memory} of network memory in a task manager. More would help."
    else:
        yield f"{memory} of network memory is enough for a task manager, split as below."
    if planned is None or now is None:
        yield f"No checkpoint completes {'now' if planned else 'with it'}."
        return
    yield (
        f"Barriers take {milliseconds(planned.delay_ms)} (now {milliseconds(now.delay_ms)}), "
        f"and checkpoints {milliseconds(planned.checkpoint_ms)} (now {milliseconds(now.checkpoint_ms)})."
    )
    if abs(planned.delay_ms - now.delay_ms) <= chance_ms(now.delay_ms):
        yield "Barriers do not wait for buffers here: none of the sizes that were tried makes them faster."
    lost = 1 - planned.records_per_s / now.records_per_s
    if lost <= NOTABLE_CHANGE:
        yield f"The throughput stays as it is now: {_rate(planned.records_per_s)} records/s."
    else:
        yield (
            f"The plan costs throughput: now the job processes {_rate(now.records_per_s)} records/s, "
            f"with this plan {_rate(planned.records_per_s)}, which is {100 * lost:.1f} % less. None of "
            f"the splits that were tried loses less than {100 * NOTABLE_CHANGE:g} %."
        )


def _trials_table(plan: BudgetPlan) -> Table:
    table = figures(["Emulated", "memory", "barriers", "checkpoint", "records/s"])
    for trial in plan.trials:
        cells = ["does not start"]
        if (found := trial.figures) is not None:
            cells = [milliseconds(found.delay_ms), milliseconds(found.checkpoint_ms)]
            cells.append(_rate(found.records_per_s))
        table.add_row(f"  {trial.name}", bytes_text(trial.memory_bytes), *cells)
    return table


def _print_planned_memory(plan: BudgetPlan, console: Console) -> None:
    """Print the network memory of task managers, and the effect of more memory."""
    table = figures(["Network memory of", "at least", "enough", "plan", "gain per MiB"])
    names_by_effect: dict[str, list[str]] = {}
    for memory in plan.task_managers:
        sizes = map(bytes_text, (memory.least_bytes, memory.enough_bytes, memory.planned_bytes))
        gain = milliseconds(memory.saved_ms_per_mib) if memory.saved_ms_per_mib else NOTHING
        table.add_row(f"  {_names(memory)}", *sizes, gain)
        names_by_effect.setdefault(_more(memory), []).append(_names(memory))
    console.print(table)
    for effect, names in names_by_effect.items():
        console.print(Text(f"{', '.join(names)}: {effect}"))


def _planned_buffers_table(plan: BudgetPlan, segment_bytes: int) -> Table:
    table = figures(["Buffers of each subtask", "at least", "enough", "plan", "memory"])
    for exchange in plan.exchanges:
        table.add_row(Text(f"{exchange.source} -> {exchange.target}", style="bold"))
        consumer = "consumer, in the same process"
        if exchange.gate.parts:
            consumer = f"consumer, {counted(exchange.gate.parts, 'channel')}"
        producer = f"producer, {counted(exchange.partition.parts, 'subpartition')}"
        for name, place in ((producer, exchange.partition), (consumer, exchange.gate)):
            numbers = map(str, (place.least, place.enough, place.planned))
            table.add_row(f"  {name}", *numbers, bytes_text(place.planned * segment_bytes))
    return table


def _names(memory: PlannedMemory) -> str:
    first, last = memory.task_managers[0], memory.task_managers[-1]
    return first if first == last else f"{first} to {last} ({len(memory.task_managers)})"


def _more(memory: PlannedMemory) -> str:
    """Return a sentence on how much faster barriers are with more memory, and which places get it."""
    more = bytes_text(memory.enough_bytes - memory.planned_bytes)
    if memory.saved_ms_per_mib:
        rate, most = milliseconds(memory.saved_ms_per_mib), milliseconds(memory.left_ms)
        text = f"{more} more would shorten the time of barriers by {most}, at first by {rate} per MiB."
        return f"{text} It would go to {' and '.join(memory.saved_at)}."
    if memory.planned_bytes < memory.enough_bytes:
        return "more has no effect unless other task managers get more, too."
    return "more has no effect."


def _rate(records_per_s: float) -> str:
    return f"{records_per_s:,.0f}" if records_per_s >= 100 else digits(records_per_s)


def _one_setting(job: JobSize, plan: BudgetPlan) -> Iterator[str]:
    """Yield the options with which a real Flink can approximate the plan, or why this is impossible."""
    one = one_setting([exchange.buffers for exchange in plan.exchanges])
    settings = {
        OPTIONS["exclusive_buffers_per_channel"].name: one.exclusive,
        OPTIONS["floating_buffers_per_gate"].name: one.floating,
        OPTIONS["max_buffers_per_channel"].name: one.max_per_channel,
    }
    if version_of(job.preset).major == 1:
        yield "\nFlink 1.x has options for all exchanges at once. The greatest numbers of the plan:"
        yield from (f"  {name}: {number}" for name, number in settings.items())
        return
    yield (
        f"\nFlink {job.preset.removeprefix('flink-')} cannot be set to this plan: its numbers of "
        f"buffers are fixed, and it ignores {', '.join(settings)}. It does obey "
        f"{OPTIONS['network_memory_max_bytes'].name}, which limits all buffers of a task manager, and "
        f"{OPTIONS['debloat_enabled'].name} with its target, which makes buffers smaller."
    )
