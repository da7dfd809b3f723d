"""The demo on a terminal: the job, a table of its runs or of its checkpoint modes, and the conclusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Column
from rich.text import Text

from netstack import Result, format_duration

from ..demo_job import ALIGNED, AT_LEAST_ONCE, CHECKPOINT_INTERVAL_S, TIMEOUT_S, Data, DemoSettings
from ..figures.window_figures import figures_of
from ..number_text import NOTABLE_CHANGE, milliseconds, per_second, percent, ratio, size
from .run import AFTER_BARRIERS, MODE_COLUMNS, MODES_LEGEND, Fact, job_facts, modes_table, summary_table
from .sentences import restore_ms
from .table_style import figures, grid, number

TITLE = "How long a checkpoint barrier waits, with debloating off and on"
MODES_TITLE = "One job, five ways to take a checkpoint"

# A terminal of 80 columns is too narrow for the column `AFTER_BARRIERS`.
_MODE_HEADS = (
    "start\ndelay",
    "align-\nment",
    "end to\nend",
    "pro-\ncessed",
    "stored",
    "rate",
    "exactly\nonce",
)


def print_demo(
    facts: Sequence[Fact],
    results: Mapping[str, Result],
    finding: str,
    console: Console,
    *,
    modes: bool = False,
    page: Path | None = None,
) -> None:
    """Print the job, a table of its runs or of its modes, the conclusion, and the path of the page."""
    rows = [(name, Text(text)) for name, text in facts]
    console.print(grid([Column(style="dim"), Column()], rows), highlight=False)
    console.print()
    if modes:
        print_modes(results, console)
    else:
        heads = [Column("", no_wrap=True), Column("", style="dim"), *map(number, ("off", "on", "on/off"))]
        table = summary_table(results)
        runs = figures(heads, ((row.name, row.meaning, *row.texts) for row in table.rows))
        console.print(runs, highlight=False)
    console.print()
    console.print(Text(finding))
    console.print()
    if page is not None:
        console.print(Text(f"Report: {page}"), soft_wrap=True)


def print_modes(results: Mapping[str, Result], console: Console) -> None:
    """Print a table with a row for each mode."""
    table = figures(["", *map(number, _MODE_HEADS)], edge=False)
    for row in modes_table(results).rows:
        cells = zip(MODE_COLUMNS, row.texts, strict=True)
        table.add_row(row.name, *(text for column, text in cells if column != AFTER_BARRIERS))
    console.print(table, highlight=False)
    console.print(Text(MODES_LEGEND, style="dim"))


def demo_facts(settings: DemoSettings, data: Data, result: Result, *, modes: bool) -> list[Fact]:
    """Return the facts about the demo's job: the data, its skew, and facts about one of its runs.

    With `modes`, all checkpoint modes are named instead of that run's mode.
    """
    spread = f"{data.rows:,} rows of {data.record_bytes:.0f} bytes in {data.partitions} Spark partitions"
    skew = (
        f"{settings.key} has {data.keys:,} values; {percent(data.top_share)} of the rows have {data.top_key}"
    )
    rates = [rate or 0.0 for rate in result.steady[-1].vertices[-1].records_in_per_s]
    if any(rates):
        skew += f"; the busiest consumer gets {percent(max(rates) / sum(rates))} of the records"
    facts = [("Data", f"{settings.name}, {spread}"), ("Key", skew), *job_facts(result, origins=False)]
    if not modes:
        return facts
    checkpoints = (
        f"every {format_duration(CHECKPOINT_INTERVAL_S)}; the debloat target is "
        f"{format_duration(settings.target_s)}; with a timeout, checkpoints become unaligned after "
        f"{format_duration(TIMEOUT_S)}"
    )
    return [(name, checkpoints if name == "Checkpoints" else text) for name, text in facts]


def compare_modes(results: Mapping[str, Result]) -> str:
    """Return the conclusion from the runs in all modes, in sentences."""
    took = {
        mode: ms for mode, result in results.items() if (ms := figures_of(result).end_to_end_ms) is not None
    }
    exact = {mode: ms for mode, ms in took.items() if mode != AT_LEAST_ONCE}
    sentences = [_compare_with_aligned(exact, results)]
    storing_nothing = {
        mode: ms for mode, ms in exact.items() if not figures_of(results[mode]).persisted_bytes
    }
    if storing_nothing and _fastest(storing_nothing) != _fastest(exact):
        mode = _fastest(storing_nothing)
        sentences.append(
            f"Of the modes that store no data in flight, {mode} was the fastest: a checkpoint took "
            f"{milliseconds(exact[mode])}."
        )
    read = figures_of(results[AT_LEAST_ONCE]).processed_bytes
    if AT_LEAST_ONCE in took and read:
        sentences.append(
            f"An at-least-once checkpoint took {milliseconds(took[AT_LEAST_ONCE])}. Between its first and "
            f"its last barrier, tasks read {size(read)}; after a failure, part of this would be processed "
            "again."
        )
    rates = [rate for result in results.values() if (rate := figures_of(result).records_per_s)]
    if rates and max(rates) - min(rates) >= NOTABLE_CHANGE * max(rates):
        sentences.append(f"Throughput was between {per_second(min(rates))} and {per_second(max(rates))}.")
    return " ".join(sentences)


def _fastest(times_ms: Mapping[str, float]) -> str:
    return min(times_ms, key=lambda mode: times_ms[mode])


def _compare_with_aligned(exact: Mapping[str, float], results: Mapping[str, Result]) -> str:
    """Compare the fastest exactly-once mode with aligned checkpoints, and state its cost."""
    if not exact:
        return "No checkpoint was completed in any exactly-once mode."
    best = _fastest(exact)
    if best == ALIGNED:
        return (
            "None of the exactly-once modes was faster than aligned: a checkpoint took "
            f"{milliseconds(exact[ALIGNED])}."
        )
    text = f"The fastest was {best}: a checkpoint took {milliseconds(exact[best])}"
    if ALIGNED in exact:
        factor = ratio(exact[ALIGNED] / max(exact[best], 0.01))
        text += f" instead of {milliseconds(exact[ALIGNED])}, {factor} times as fast as aligned"
    stored = figures_of(results[best]).persisted_bytes
    if not stored:
        return f"{text}."
    ms, measured = restore_ms(results[best])
    restoring = f"to read it back and to process it took up to {milliseconds(ms)}"
    if not measured:
        restoring = f"to read it back would take an estimated {milliseconds(ms)}; to process it takes longer"
    cost = f"each checkpoint stores {size(stored)} of data in flight. After a failure, {restoring}"
    return f"{text}. Its cost: {cost}."
