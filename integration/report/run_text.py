"""A result, and the trace of a run, as people read them on an 80-column terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netstack import PRESETS, CheckpointResult, Result, Steady, TraceEvent, VertexSteady

from ..analysis.checkpoint_times import (
    ACKNOWLEDGEMENT,
    ALIGNMENT,
    NOT_TOLD,
    START_DELAY,
    CheckpointTimes,
    completed_within,
    mean_times,
)
from ..analysis.known_values import highest, known, lowest, mean_of_known
from ..analysis.wording import counted, size
from .comparison_text import figure
from .incidents import Incident, are_plain, checkpoints_by_end, incidents, never_fired, price
from .keeping_up import fell_behind
from .output import fits

MOST_INCIDENTS = 20
"""Faults and failures that are printed; the first ones of more."""

_HEAD = ("", "start\ndelay", "align-\nment", "end to\nend", "rec/s", "buffer", "in", "out", "busy", "blocked")
_OF_CHECKPOINTS = 4
"""Columns of a vertex and its checkpoints; behind them are those of its load."""

LEGEND = (
    "Checkpoints: ms, means of those completed, of the subtask that acknowledged last; in the table, of each "
    "vertex. rec/s: records of all subtasks. buffer: smallest debloated size. in, out: queued buffers "
    "of a subtask. blocked: back-pressured."
)


def print_result(result: Result, console: Console) -> None:
    """Print what was run, its cost, and a table for each window."""
    print_head(result, console)
    print_incidents(result, console)
    for steady in result.steady:
        console.print()
        completed = completed_within(result.checkpoints, steady)
        console.print(_window_line(steady, completed, result.emulated_seconds), highlight=False)
        for columns in _columns_at_once(steady, completed, console):
            console.print(_table(steady, completed, columns))
        behind = _watermarks_text(steady)
        if behind is not None:
            console.print(behind, highlight=False)
    paid = price(result)
    if paid is not None:
        console.print(paid, highlight=False)
    console.print(LEGEND, style="dim", highlight=False)


def print_head(result: Result, console: Console) -> None:
    """Print what was run, how, what it cost, and what became of its checkpoints where that is not plain."""
    work, wall = result.work, max(result.wall_seconds, 1e-9)
    name, named = result.scenario.name, result.scenario.config.debloat_policy
    over = ", over TCP" if result.link == "tcp" else ""
    policy = "" if named == PRESETS[result.preset].debloat_policy else f", policy {named}"
    how = f"  {result.preset}{policy}, seed {result.seed}, {result.clock} clock{over}"
    console.print(Text.assemble((name, "bold"), how))
    checkpoints = counted(len(result.checkpoints), "checkpoint")
    ran = f"{figure(result.emulated_seconds)} s in {wall:.2f} s, {checkpoints}"
    moved = f"{work.records:,} records, {size(work.bytes)}, {work.messages:,} messages"
    console.print(ran, highlight=False)
    console.print(f"{work.buffers:,} buffers ({work.buffers / wall:,.0f}/s), {moved}", highlight=False)
    for sentence in fell_behind(result):
        console.print(Text(sentence))
    if not are_plain(result):
        console.print(f"checkpoints: {checkpoints_by_end(result)}", highlight=False)


def print_incidents(result: Result, console: Console) -> None:
    """Print the faults that fired, how many did not, and the restarts; nothing where all went well."""
    _print_incident_rows(incidents(result), console)
    unfired = never_fired(result)
    if unfired is not None:
        console.print(unfired, highlight=False)


def _print_incident_rows(listed: Sequence[Incident], console: Console) -> None:
    if not listed:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # a path may be long
    for incident in listed[:MOST_INCIDENTS]:
        table.add_row(f"{incident.t:.1f} s", incident.what, Text(incident.text))
    console.print()
    console.print(table, highlight=False)
    if len(listed) > MOST_INCIDENTS:
        console.print(f"... and {len(listed) - MOST_INCIDENTS} more of such events", highlight=False)


def _window_line(steady: Steady, completed: Sequence[CheckpointResult], end_s: float) -> Text:
    """The window, as far as the job came, and its checkpoints with the phases of their time."""
    if steady.from_s >= end_s:
        window = f"{steady.from_s:g}-{steady.to_s:g} s"
        return Text.assemble((window, "bold"), f": the job ended before, after {end_s:.4g} s")
    window = f"{steady.from_s:g}-{min(steady.to_s, end_s):.4g} s"
    return Text.assemble((window, "bold"), f": {_checkpoints_line(completed)}")


def _checkpoints_line(completed: Sequence[CheckpointResult]) -> str:
    times = mean_times(completed)
    if times is None:
        return "no checkpoint"
    took = known(checkpoint.duration_ms for checkpoint in completed)
    return (
        f"{counted(len(completed), 'checkpoint')}, end to end {figure(times.end_to_end_ms)} ms "
        f"({figure(min(took))}-{figure(max(took))}):\n  {_phases_text(times)}"
    )


def _phases_text(times: CheckpointTimes) -> str:
    """The phases, which add up; sync and async as the snapshot that they are."""
    parts = (
        (START_DELAY, times.start_delay_ms),
        (ALIGNMENT, times.alignment_ms),
        ("snapshot", times.snapshot_ms),
        (ACKNOWLEDGEMENT, times.acknowledgement_ms),
    )
    texts = [f"{name} {figure(time)}" for name, time in parts if time is not None]
    rest = times.end_to_end_ms - sum(time for _, time in parts if time is not None)
    if len(texts) < len(parts):
        texts.append(f"{NOT_TOLD} {figure(rest)}")
    return " + ".join(texts)


def _columns_at_once(
    steady: Steady, completed: Sequence[CheckpointResult], console: Console
) -> Sequence[Sequence[int]]:
    """The columns of one table, or of two where a terminal is too narrow for one."""
    every = range(len(_HEAD))
    if fits(_table(steady, completed, every), console):
        return [every]
    return [every[:_OF_CHECKPOINTS], [0, *every[_OF_CHECKPOINTS:]]]


def _table(steady: Steady, completed: Sequence[CheckpointResult], columns: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        head = _HEAD[column]
        table.add_column(head, justify="right" if head else "left", no_wrap=bool(head))
    for vertex in steady.vertices:
        cells = _cells(vertex, mean_times(completed, vertex.name))
        table.add_row(*(cells[column] for column in columns))
    return table


def _watermarks_text(steady: Steady) -> str | None:
    """How far the watermarks of each vertex are behind, at the subtask that is last; None: there are none."""
    lags = {vertex.name: highest(vertex.watermark_lag_ms or ()) for vertex in steady.vertices}
    shown = [f"{name} {figure(lag)}" for name, lag in lags.items() if lag is not None]
    return f"watermarks behind the clock, ms: {', '.join(shown)}" if shown else None


def _cells(vertex: VertexSteady, times: CheckpointTimes | None) -> Sequence[str | Text]:
    reads = any(vertex.records_in_per_s)
    return (
        Text(vertex.name),
        _known(times.start_delay_ms if times else None),
        _known(times.alignment_ms if times else None),
        _known(times.end_to_end_ms if times else None),
        figure(sum(rate or 0 for rate in (vertex.records_in_per_s if reads else vertex.records_out_per_s))),
        size(lowest(vertex.debloatedBufferSize)),
        _mean(vertex.inputQueueLength),
        _mean(vertex.outputQueueLength),
        _share(vertex.busy_ms_per_s),
        _share(vertex.backpressured_ms_per_s),
    )


def _known(value: float | None) -> str:
    return "-" if value is None else figure(value)


def _mean(values: Sequence[float | None]) -> str:
    return _known(mean_of_known(values))


def _share(values: Sequence[float | None]) -> str:
    mean = mean_of_known(values)
    return "-" if mean is None else f"{mean / 10:.0f} %"


class TracePrinter:
    """Prints each step of a checkpoint as it happens; to be given to `emulate` as `trace`."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        """Print one step, on one line."""
        self._console.print(Text(str(TraceEvent(at, place, text, checkpoint_id))), soft_wrap=True)
