"""A run: facts about the job, tables of its figures, and both on a terminal.

Facts and tables are texts. Pages, notebooks and the demo show the same texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from netstack import (
    FROM_SOURCE,
    PRESETS,
    CheckpointResult,
    GeneratorSpec,
    NetworkConfig,
    Result,
    Scenario,
    SourceObject,
    SourceSpec,
    Steady,
    TraceEvent,
    Vertex,
    format_duration,
    object_name,
)

from ...base.number_text import (
    NOTHING,
    counted,
    figure,
    ratio,
    size,
    with_micro_sign,
)
from ...base.optional_figures import highest, known, quotient
from ...runs.checkpoint_times import (
    ACKNOWLEDGEMENT,
    ALIGNMENT,
    START_DELAY,
    UNREPORTED,
    completed_within,
    mean_times,
)
from ...runs.quantities import (
    CHECKPOINTS,
    COUNT,
    JOB,
    SUBTASK,
    SUBTASKS,
    VERTEX,
    VERTICES,
    WINDOWS,
    Quantity,
    SubtaskWindow,
    VertexWindow,
    in_view,
    vertex_windows,
)
from ...runs.window_figures import figures_of_runs
from .sentences import are_plain, checkpoints_by_end, fell_behind, incidents, never_fired, price
from .table_style import figures, fits, grid, number

Fact = tuple[str, str]
"""A line of a report: subject and text."""


def job_facts(result: Result, *, origins: bool = True) -> list[Fact]:
    """Return lines on the topology, the sources, service times, checkpoints and windows of a job.

    Without `origins`, the lines on sources contain only their rates.
    """
    scenario = result.scenario
    facts = [("Job", _topology(scenario))]
    sources = [(vertex, vertex.source) for vertex in scenario.vertices if vertex.source is not None]
    served = [vertex for vertex in scenario.vertices if vertex.service]
    for vertex, source in sources:
        name = f"{vertex.name}: " if len(sources) > 1 else ""
        origin = f"{_origin(source)}; " if origins else ""
        facts.append(("Sources", f"{name}{origin}{_pace(vertex)}"))
    for vertex in served:
        name = f"{vertex.name}: " if len(served) > 1 else ""
        facts.append(("Service", f"{name}{_service(vertex)}"))
    windows = ", ".join(f"{steady.from_s:g} to {steady.to_s:g} s" for steady in result.steady)
    clock = "emulated time" if result.clock == "virtual" else "real time"
    over = ", over TCP" if result.link == "tcp" else ""
    return [
        *facts,
        ("Checkpoints", _checkpoints(scenario.config)),
        ("Measured", f"{windows} of {clock}{over}"),
    ]


def how_obtained(results: Mapping[str, Result], command: str) -> list[Fact]:
    """Return the facts that are needed to reproduce results, given by the name of the run.

    A fact that differs between runs has a line for each run, which begins with the run's name.
    """
    facts = [
        *_by_run("Clock", results, _clock),
        *_by_run("Emulated", results, _emulated),
        *_by_run("Moved", results, _moved),
        *_by_run("Versions", results, lambda result: versions_text(result.versions)),
        ("Command", command),
    ]
    return [(name, text) for name, text in facts if text]


def _by_run(name: str, results: Mapping[str, Result], text: Callable[[Result], str]) -> list[Fact]:
    texts = {run: text(result) for run, result in results.items()}
    if len(set(texts.values())) == 1:
        return [(name, next(iter(texts.values())))]
    return [(name, f"{run}: {each}") for run, each in texts.items()]


def _clock(result: Result) -> str:
    return f"{result.clock} time, {result.link} links, preset {result.preset}, seed {result.seed}"


def _emulated(result: Result) -> str:
    return f"{result.emulated_seconds:g} s in {result.wall_seconds:.1f} s of real time"


def _moved(result: Result) -> str:
    return f"{result.work.buffers:,} buffers with {result.work.records:,} records"


def versions_text(versions: Mapping[str, str]) -> str:
    """Return the versions that made a result, as "netstack 0.1.0, python 3.11.7"."""
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


def _topology(scenario: Scenario) -> str:
    subtasks = {vertex.name: _subtasks(vertex) for vertex in scenario.vertices}
    if not scenario.edges:
        return ", ".join(f"{name} ×{count}" for name, count in subtasks.items())
    return "; ".join(
        f"{edge.source} ×{subtasks[edge.source]} → {edge.ship} → {edge.target} ×{subtasks[edge.target]}"
        for edge in scenario.edges
    )


def _subtasks(vertex: Vertex) -> int:
    return 1 if vertex.parallelism == FROM_SOURCE else vertex.parallelism


def _origin(source: SourceSpec) -> str:
    if isinstance(source, GeneratorSpec):
        return f"generated records of {source.record_bytes:,} bytes"
    if isinstance(source, SourceObject):
        return object_name(source.source) if source.spec is None else _origin(source.spec)
    keyed = f", keyed by {', '.join(source.key)}" if source.key else ""
    return f"{PurePath(source.path).name}{keyed}{', over and over' if source.repeat else ''}"


def _pace(source: Vertex) -> str:
    texts = []
    rates = Counter(source.rate(subtask) for subtask in range(_subtasks(source)))
    for rate, count in rates.items():
        pace = f"at {rate:,.4g} records/s" if rate else "as fast as possible"
        texts.append(f"{counted(count, 'subtask')} {pace}")
    return ", ".join([*texts, *_course(source)])


def _service(vertex: Vertex) -> str:
    costs = [(format_duration(at), with_micro_sign(format_duration(cost))) for at, cost in vertex.service]
    if len(costs) == 1:
        text = f"{costs[0][1]} a record"
    else:
        text = ", ".join(f"{cost} a record from {at} on" for at, cost in costs)
    if vertex.service_spread:
        text += f" (known within {100 * vertex.service_spread:.2g} %)"
    if vertex.service_skew != (1.0,):
        text += f", times {':'.join(f'{factor:g}' for factor in vertex.service_skew)} by subtask"
    return ", ".join([text, *_course(vertex)])


def _course(vertex: Vertex) -> list[str]:
    """Return the range of the factors over time and their period; empty: none."""
    if not vertex.course:
        return []
    factors = [factor for _, factor in vertex.course]
    period = format_duration(sum(seconds for seconds, _ in vertex.course))
    return [f"times {min(factors):.3g} to {max(factors):.3g} over {period}"]


def _checkpoints(config: NetworkConfig) -> str:
    if config.checkpoint_interval_s is None:
        return "none"
    every = f"every {format_duration(config.checkpoint_interval_s)}"
    timeout = format_duration(config.aligned_checkpoint_timeout_s)
    return f"{every}, {config.barrier_mode.text.format(timeout=timeout)}"


MAX_ROWS = 64
"""Maximum number of subtasks of a vertex in `subtask_rows`. The first ones are listed."""

_SUBTASK_QUANTITIES = in_view(SUBTASK, SUBTASKS)
SUBTASK_COLUMNS = ("Subtask", *(quantity.head(SUBTASKS) for quantity in _SUBTASK_QUANTITIES))
"""Columns of `subtask_rows`. Queues are in buffers."""


class TableRow(NamedTuple):
    """A quantity and its value in every column."""

    name: str
    meaning: str
    texts: tuple[str, ...]


class RunTable(NamedTuple):
    """Quantities by run, or by window of a run."""

    columns: tuple[str, ...]
    rows: Sequence[TableRow]


def summary_table(results: Mapping[str, Result]) -> RunTable:
    """Return the figures of runs with a column for each window. For two runs, add their ratio."""
    columns = figures_of_runs(results)
    windows = list(columns.values())
    with_ratio = len(results) == len(windows) == 2
    rows = []
    for quantity in in_view(JOB, WINDOWS):
        values = [quantity.of(window) for window in windows]
        if quantity.optional and not any(values):
            continue
        texts = list(map(quantity.unit.text, values))
        if with_ratio:
            texts.append(NOTHING if quantity.unit is COUNT else ratio(quotient(values[1], values[0])))
        rows.append(TableRow(quantity.head(WINDOWS), quantity.meaning, tuple(texts)))
    return RunTable((*columns, "ratio") if with_ratio else tuple(columns), rows)


def subtask_rows(result: Result) -> list[tuple[str, ...]]:
    """Return a row of texts for each subtask, over the last window."""
    rows = []
    for vertex in vertex_windows(result.scenario, result.steady[-1]):
        for index in range(min(vertex.steady.parallelism, MAX_ROWS)):
            subtask = SubtaskWindow(vertex.steady, index)
            texts = (
                each.unit.text(each.of(subtask)) if vertex.has(each) else "" for each in _SUBTASK_QUANTITIES
            )
            rows.append((f"{vertex.steady.name} {index}", *texts))
    return rows


MOST_INCIDENTS = 20
"""Maximum number of faults and failures that are printed. The first ones are printed."""

_VERTEX_QUANTITIES = in_view(VERTEX, VERTICES)

LEGEND = (
    "Times of checkpoints are in ms, as means over the completed ones. They are of the subtask that "
    "acknowledged last, in the table for each vertex. rec/s: records of all subtasks. buffer: smallest "
    "debloated size. in, out: queued buffers of a subtask. blocked: share of time with back-pressure."
)


def print_result(result: Result, console: Console) -> None:
    """Print the run, its cost, and a table for each window."""
    print_head(result, console)
    print_incidents(result, console)
    for steady in result.steady:
        console.print()
        completed = completed_within(result.checkpoints, steady)
        console.print(_window_line(steady, completed, result.emulated_seconds), highlight=False)
        vertices = vertex_windows(result.scenario, steady, completed)
        table = _window_table(vertices, _VERTEX_QUANTITIES)
        if fits(table, console):
            console.print(table)
        else:  # split into two tables
            for of_checkpoints in (True, False):
                columns = [
                    each for each in _VERTEX_QUANTITIES if (each.topic == CHECKPOINTS) == of_checkpoints
                ]
                console.print(_window_table(vertices, columns))
        lags = {vertex.name: highest(vertex.watermark_lag_ms or ()) for vertex in steady.vertices}
        behind = [f"{name} {figure(lag)}" for name, lag in lags.items() if lag is not None]
        if behind:
            console.print(f"watermarks behind the clock, ms: {', '.join(behind)}", highlight=False)
    paid = price(result)
    if paid is not None:
        console.print(paid, highlight=False)
    console.print(LEGEND, style="dim", highlight=False)


def print_head(result: Result, console: Console) -> None:
    """Print the scenario, the clock and the cost of a run.

    If its checkpoints are not all ordinary (`are_plain`), print their outcome too.
    """
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
    """Print the events of a run, and the number of faults that did not fire."""
    listed = incidents(result)
    if listed:
        columns = [Column(justify="right", no_wrap=True), Column(no_wrap=True), Column(overflow="fold")]
        rows = [(f"{each.t:.1f} s", each.what, Text(each.text)) for each in listed[:MOST_INCIDENTS]]
        console.print()
        console.print(grid(columns, rows), highlight=False)
    if len(listed) > MOST_INCIDENTS:
        console.print(f"... and {len(listed) - MOST_INCIDENTS} more events", highlight=False)
    unfired = never_fired(result)
    if unfired is not None:
        console.print(unfired, highlight=False)


def _window_line(steady: Steady, completed: Sequence[CheckpointResult], end_s: float) -> Text:
    """Return a line for a window (at most until the job ended) with its mean checkpoint time by phase."""
    if steady.from_s >= end_s:
        missed = (f"{steady.from_s:g}-{steady.to_s:g} s", "bold")
        return Text.assemble(missed, f": the job ended before this window, after {end_s:.4g} s")
    window = (f"{steady.from_s:g}-{min(steady.to_s, end_s):.4g} s", "bold")
    times = mean_times(completed)
    if times is None:
        return Text.assemble(window, ": no checkpoint completed")
    took = known(checkpoint.duration_ms for checkpoint in completed)
    # The phases add up to the duration; sync and async are combined as snapshot.
    parts = (
        (START_DELAY, times.start_delay_ms),
        (ALIGNMENT, times.alignment_ms),
        ("snapshot", times.snapshot_ms),
        (ACKNOWLEDGEMENT, times.acknowledgement_ms),
    )
    texts = [f"{name} {figure(time)}" for name, time in parts if time is not None]
    rest = times.end_to_end_ms - sum(time for _, time in parts if time is not None)
    if len(texts) < len(parts):
        texts.append(f"{UNREPORTED} {figure(rest)}")
    return Text.assemble(
        window,
        f": {counted(len(completed), 'checkpoint')}, end to end {figure(times.end_to_end_ms)} ms "
        f"({figure(min(took))}-{figure(max(took))}):\n  {' + '.join(texts)}",
    )


def _window_table(vertices: Sequence[VertexWindow], quantities: Sequence[Quantity[VertexWindow]]) -> Table:
    heads: list[str | Column] = ["", *(number(quantity.head(VERTICES)) for quantity in quantities)]
    table = figures(heads)
    for vertex in vertices:
        texts = (quantity.unit.bare(quantity.of(vertex)) for quantity in quantities)
        table.add_row(Text(vertex.steady.name), *texts)
    return table


class TracePrinter:
    """Prints each step of a checkpoint as it happens; for the argument `trace` of `emulate`."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        """Print one step, on one line."""
        self._console.print(Text(str(TraceEvent(at, place, text, checkpoint_id))), soft_wrap=True)
