"""The main job in every checkpoint mode, side by side: what each is good for, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netstack import CheckpointMode, Result, Scenario, format_duration, with_options

from ..analysis.window_figures import figures_of
from ..analysis.wording import SAME_THROUGHPUT, milliseconds, per_second, ratio, size
from ..report.incidents import restore_ms
from ..report.tables import AFTER_BARRIERS, MODE_COLUMNS, MODES_LEGEND, Fact, modes_table
from ..spark.spark_source import SparkSource
from .main_job import CHECKPOINT_INTERVAL_S, OFF, Data, DemoSettings, demo_facts, demo_scenarios

MODES_SCHEMA = "netstack.demo-modes/1"
"""Names the layout of what ``--modes --json`` prints."""

MODES_TITLE = "One job, five ways to take a checkpoint"

ALIGNED, DEBLOATED, UNALIGNED = "aligned", "aligned, debloating", "unaligned"
TIMED_OUT, AT_LEAST_ONCE = "aligned, timeout", "at least once"

TIMEOUT_S = 1.0
"""How long a checkpoint of the mode `TIMED_OUT` stays aligned."""

MODES: Mapping[str, Mapping[str, Any]] = {
    ALIGNED: {},
    DEBLOATED: {"debloat_enabled": True},
    UNALIGNED: {"unaligned_enabled": True},
    TIMED_OUT: {"unaligned_enabled": True, "aligned_checkpoint_timeout_s": TIMEOUT_S},
    AT_LEAST_ONCE: {"checkpoint_mode": CheckpointMode.AT_LEAST_ONCE},
}
"""The options of each mode."""

# There is no room on a terminal for what comes after the barriers.
_HEADS = (
    "start\ndelay",
    "align-\nment",
    "end to\nend",
    "pro-\ncessed",
    "stored",
    "rate",
    "exactly\nonce",
)


class ModesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The runs in all modes, by name, and what they showed."""

    schema: str = MODES_SCHEMA
    finding: str
    modes: dict[str, msgspec.Raw]
    """Each as ``netstack run --json`` writes it."""


def mode_scenarios(source: SparkSource, data: Data, settings: DemoSettings) -> dict[str, Scenario]:
    """Return the job in each mode, all else equal."""
    plain = demo_scenarios(source, data, settings)[OFF]
    scenarios = {}
    for mode, options in MODES.items():
        given = dict(options)
        if mode == DEBLOATED:
            given["debloat_target_s"] = settings.target_s
        scenarios[mode] = replace(plain, config=with_options(plain.config, given))
    return scenarios


def modes_facts(settings: DemoSettings, data: Data, results: Mapping[str, Result]) -> list[Fact]:
    """Return what the job is, line by line, with all modes in place of one."""
    modes = (
        f"every {format_duration(CHECKPOINT_INTERVAL_S)}; debloating aims at "
        f"{format_duration(settings.target_s)}; the timeout is {format_duration(TIMEOUT_S)}, then unaligned"
    )
    facts = demo_facts(settings, data, results[ALIGNED])
    return [(name, modes if name == "Checkpoints" else text) for name, text in facts]


def compare_modes(results: Mapping[str, Result]) -> str:
    """Return how to read the numbers of all modes, in sentences that hold for these numbers."""
    took = {
        mode: ms for mode, result in results.items() if (ms := figures_of(result).end_to_end_ms) is not None
    }
    exact = {mode: ms for mode, ms in took.items() if mode != AT_LEAST_ONCE}
    free = {mode: ms for mode, ms in exact.items() if not figures_of(results[mode]).persisted_bytes}
    parts = [_fastest(exact, results), _without_storing(exact, free), _at_least_once(took, results)]
    return " ".join(part for part in [*parts, _throughput(results)] if part)


def print_modes(results: Mapping[str, Result], console: Console) -> None:
    """Print a table with a row for each mode."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column()
    for heading in _HEADS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in modes_table(results).rows:
        shown = zip(MODE_COLUMNS, row.texts, strict=True)
        table.add_row(row.name, *(text for column, text in shown if column != AFTER_BARRIERS))
    console.print(table, highlight=False)
    console.print(Text(MODES_LEGEND, style="dim"))


def _fastest(exact: Mapping[str, float], results: Mapping[str, Result]) -> str:
    """The fastest exactly-once mode beside the plain one, and its price."""
    if not exact:
        return "No checkpoint was completed in any exactly-once mode."
    best = _quickest(exact)
    if best == ALIGNED:
        return f"No exactly-once mode was faster than aligned: {milliseconds(exact[ALIGNED])} a checkpoint."
    text = f"The fastest was {best}: a checkpoint took {milliseconds(exact[best])}"
    if ALIGNED in exact:
        factor = ratio(exact[ALIGNED] / max(exact[best], 0.01))
        text += f" instead of {milliseconds(exact[ALIGNED])}, {factor} times as fast as aligned"
    stored = figures_of(results[best]).persisted_bytes
    return f"{text}{_price(results[best], stored)}." if stored else f"{text}."


def _price(result: Result, stored: float) -> str:
    ms, measured = restore_ms(result)
    reading = f"{'which took up to' if measured else 'an estimated'} {milliseconds(ms)} to read back"
    return (
        f"; its price is {size(stored)} of data in flight stored with each, {reading} after a failure, and "
        "longer to work off"
    )


def _without_storing(exact: Mapping[str, float], free: Mapping[str, float]) -> str:
    """The fastest exactly-once mode that stores nothing in flight, if that is not said already."""
    if not free or _quickest(free) == _quickest(exact):
        return ""
    best = _quickest(free)
    return f"Of those that store no data in flight, {best} was the fastest: {milliseconds(free[best])}."


def _at_least_once(took: Mapping[str, float], results: Mapping[str, Result]) -> str:
    read = figures_of(results[AT_LEAST_ONCE]).processed_bytes
    if AT_LEAST_ONCE not in took or not read:
        return ""
    return (
        f"At least once took {milliseconds(took[AT_LEAST_ONCE])}, and part of the {size(read)} that it read "
        "between first and last barrier would be processed again after a failure."
    )


def _throughput(results: Mapping[str, Result]) -> str:
    """How throughput differs; nothing where it does not."""
    rates = [rate for result in results.values() if (rate := figures_of(result).records_per_s)]
    if not rates or max(rates) - min(rates) < SAME_THROUGHPUT * max(rates):
        return ""
    return f"Throughput was between {per_second(min(rates))} and {per_second(max(rates))}."


def _quickest(took: Mapping[str, float]) -> str:
    return min(took, key=lambda mode: took[mode])
