"""What a job is, in a few lines, and tables of results: what every run comes to, what each subtask did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from pathlib import PurePath

from netstack import (
    FROM_SOURCE,
    CheckpointMode,
    GeneratorSpec,
    NetworkConfig,
    Result,
    Scenario,
    SourceObject,
    SourceSpec,
    Vertex,
    VertexSteady,
    format_duration,
    object_name,
)

from ..analysis.known_values import quotient
from ..analysis.window_figures import WindowFigures, edge_ends, figures_of, figures_of_runs
from ..analysis.wording import (
    NOTHING,
    QUANTITIES,
    Quantity,
    counted,
    milliseconds,
    per_second,
    percent,
    ratio,
    size,
    with_micro_sign,
)

Fact = tuple[str, str]
"""What it is about, and what there is to say; a line of a report."""


def job_facts(result: Result, *, origins: bool = True) -> list[Fact]:
    """Return the topology, the sources, the service times and what was measured, one line each.

    `origins` is whether to say what the sources read, beside how fast they are.
    """
    scenario = result.scenario
    facts = [("Job", _topology(scenario))]
    sources = [(vertex, vertex.source) for vertex in scenario.vertices if vertex.source is not None]
    facts += [
        ("Sources", f"{_prefix(vertex, sources)}{_source(vertex, source, origins)}")
        for vertex, source in sources
    ]
    served = [vertex for vertex in scenario.vertices if vertex.service]
    facts += [("Service", f"{_prefix(vertex, served)}{_service(vertex)}") for vertex in served]
    facts.append(("Checkpoints", _checkpoints(scenario.config)))
    facts.append(("Measured", _measured(result)))
    return facts


def is_exactly_once(result: Result) -> bool:
    """Whether the state after a restart is as if each record had been processed once."""
    return result.scenario.config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE


def how_obtained(result: Result, command: str) -> list[Fact]:
    """Return how a result came about, so that somebody can get it again."""
    facts = [
        ("Clock", f"{result.clock} time, {result.link} links, preset {result.preset}, seed {result.seed}"),
        ("Emulated", f"{result.emulated_seconds:g} s in {result.wall_seconds:.1f} s of real time"),
        ("Moved", f"{result.work.buffers:,} buffers with {result.work.records:,} records"),
        ("Versions", versions_text(result.versions)),
        ("Command", command),
    ]
    return [(name, text) for name, text in facts if text]


def versions_text(versions: Mapping[str, str]) -> str:
    """Return which versions of what made a result, as "netstack 0.1.0, python 3.11.7"."""
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


def _prefix(vertex: Vertex, all_of_them: Sized) -> str:
    return f"{vertex.name}: " if len(all_of_them) > 1 else ""


def _source(vertex: Vertex, source: SourceSpec, origins: bool) -> str:
    paces = Counter(vertex.rate(subtask) for subtask in range(_subtasks(vertex)))
    pace = ", ".join(_pace(rate, count) for rate, count in paces.items())
    return f"{_origin(source)}; {pace}" if origins else pace


def _origin(source: SourceSpec) -> str:
    if isinstance(source, GeneratorSpec):
        return f"generated records of {source.record_bytes:,} bytes"
    if isinstance(source, SourceObject):
        return object_name(source.source) if source.spec is None else _origin(source.spec)
    keyed = f", keyed by {', '.join(source.key)}" if source.key else ""
    return f"{PurePath(source.path).name}{keyed}{', over and over' if source.repeat else ''}"


def _pace(rate: float, count: int) -> str:
    return f"{counted(count, 'subtask')} {f'at {rate:,.4g} records/s' if rate else 'as fast as possible'}"


def _service(vertex: Vertex) -> str:
    costs = [(format_duration(at), with_micro_sign(format_duration(cost))) for at, cost in vertex.service]
    if len(costs) == 1:
        text = f"{costs[0][1]} a record"
    else:
        text = ", ".join(f"{cost} a record from {at} on" for at, cost in costs)
    if vertex.service_spread:
        text += f" (known within {100 * vertex.service_spread:.2g} %)"
    skew = vertex.service_skew
    skewed = f"{text}, times {', '.join(f'{factor:g}' for factor in skew)} by subtask"
    return text if skew == (1.0,) else skewed


def _checkpoints(config: NetworkConfig) -> str:
    if config.checkpoint_interval_s is None:
        return "none"
    every = f"every {format_duration(config.checkpoint_interval_s)}"
    if config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        return f"{every}, at least once, without alignment"
    if not config.unaligned_enabled:
        return f"{every}, exactly once, aligned"
    if not config.aligned_checkpoint_timeout_s:
        return f"{every}, exactly once, unaligned"
    timeout = format_duration(config.aligned_checkpoint_timeout_s)
    return f"{every}, exactly once, aligned for {timeout} and then unaligned"


def _measured(result: Result) -> str:
    windows = [f"{steady.from_s:g} to {steady.to_s:g} s" for steady in result.steady]
    clock = "emulated time" if result.clock == "virtual" else "real time"
    return f"{', '.join(windows)} of {clock}{', over TCP' if result.link == 'tcp' else ''}"


MAX_ROWS = 64
"""Subtasks of a vertex that are listed; the first ones of more."""

SUBTASK_COLUMNS = (
    "Subtask",
    "Records in",
    "Records out",
    "Busy",
    "Back-pressured",
    "Buffer size",
    "Input queue",
    "Output queue",
)
"""The columns of `subtask_rows`; queues in buffers."""

AFTER_BARRIERS = "After them"

MODE_COLUMNS = (
    "Start delay",
    "Alignment",
    AFTER_BARRIERS,
    "End to end",
    "Bytes processed",
    "Bytes stored",
    "Rate",
    "Exactly once",
)
"""The columns of `modes_table`."""

MODES_LEGEND = (
    "Start delay: to the first barrier, alignment: to the last one, of the subtask that acknowledged last. "
    "With its snapshot and acknowledgement after them they add up to end to end. Means of checkpoints. "
    "Processed: bytes read during alignment, stored: data in flight, of all subtasks; medians. "
    "Rate: records of all consumers."
)
"""What its columns are."""


@dataclass(frozen=True, slots=True)
class Row:
    """A quantity and its value in every column."""

    name: str
    meaning: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Quantities by run, or by window of a run."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def summary_table(results: Mapping[str, Result]) -> Table:
    """Return what each run comes to, a column for each of its windows, and of two runs the ratio."""
    columns = figures_of_runs(results)
    findings = list(columns.values())
    pair = (findings[0], findings[1]) if len(results) == len(findings) == 2 else None
    rows = [
        _row(quantity, findings, pair)
        for quantity in QUANTITIES
        if not quantity.optional or any(quantity.value(window) for window in findings)
    ]
    ends = [f"{window.checkpoints}" for window in findings] + ([NOTHING] if pair else [])
    rows.append(Row("Checkpoints", "completed", tuple(ends)))
    return Table((*columns, *(("ratio",) if pair else ())), tuple(rows))


def modes_table(results: Mapping[str, Result]) -> Table:
    """Return what each run comes to in its last window, a row for each: how checkpoint modes differ."""
    rows = []
    for run, result in results.items():
        findings = figures_of(result)
        times = (
            findings.start_delay_ms,
            findings.alignment_ms,
            findings.after_barriers_ms,
            findings.end_to_end_ms,
        )
        texts = [milliseconds(time) for time in times]
        texts += [
            size(findings.processed_bytes),
            size(findings.persisted_bytes),
            per_second(findings.records_per_s),
        ]
        rows.append(Row(run, "", (*texts, "yes" if is_exactly_once(result) else "no")))
    return Table(MODE_COLUMNS, tuple(rows))


def subtask_rows(result: Result) -> list[tuple[str, ...]]:
    """Return one row of texts for each subtask, over the last window."""
    readers, writers = edge_ends(result)
    return [
        _subtask(vertex, index, vertex.name in readers, vertex.name in writers)
        for vertex in result.steady[-1].vertices
        for index in range(min(vertex.parallelism, MAX_ROWS))
    ]


def _row(
    quantity: Quantity, findings: list[WindowFigures], pair: tuple[WindowFigures, WindowFigures] | None
) -> Row:
    texts = [quantity.text(quantity.value(window)) for window in findings]
    if pair:
        texts.append(ratio(quotient(quantity.value(pair[1]), quantity.value(pair[0]))))
    return Row(quantity.name, quantity.meaning, tuple(texts))


def _subtask(vertex: VertexSteady, index: int, reads: bool, writes: bool) -> tuple[str, ...]:
    return (
        f"{vertex.name} {index}",
        per_second(_at(vertex.records_in_per_s, index)) if reads else "",
        per_second(_at(vertex.records_out_per_s, index)) if writes else "",
        _share(_at(vertex.busy_ms_per_s, index)),
        _share(_at(vertex.backpressured_ms_per_s, index)),
        size(_at(vertex.debloatedBufferSize, index)) if reads else "",
        _queue(_at(vertex.inputQueueLength, index)) if reads else "",
        _queue(_at(vertex.outputQueueLength, index)) if writes else "",
    )


def _at(values: list[float | None], index: int) -> float | None:
    return values[index] if index < len(values) else None


def _share(ms_per_s: float | None) -> str:
    return NOTHING if ms_per_s is None else percent(ms_per_s / 1000)


def _queue(length: float | None) -> str:
    return NOTHING if length is None else f"{length:g}"
