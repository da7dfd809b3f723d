"""Tables of results: what every run comes to, and what each subtask did; texts only, ready to be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from netstack import Result, VertexSteady

from ..analysis.known_values import quotient
from ..analysis.window_figures import WindowFigures, edge_ends, figures_of, figures_of_runs
from ..analysis.wording import NOTHING, QUANTITIES, Quantity, milliseconds, per_second, percent, ratio, size
from .job_facts import is_exactly_once

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
