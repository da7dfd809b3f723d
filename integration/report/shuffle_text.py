"""A shuffle as people read it: a row for each task, for an 80-column terminal; and as one document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..analysis.wording import digits, milliseconds, size
from ..spark.shuffling.api import Partitioner, Ship


class ShuffleDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What was shuffled, and what each task counted."""

    schema: str = "netstack.shuffle/1"
    input: str
    output: str
    keys: list[str]
    partitions: int
    ship: Ship
    partitioner: Partitioner
    wall_seconds: float = 0.0
    """Of the Spark job that read, shuffled and wrote."""
    tasks: list[dict[str, Any]] = []
    """By partition: the columns of `integration.spark.shuffle_statistics`."""


LEGEND = (
    "sent, received: on the wire. stalls: how often a channel with data had no credit. blocked: how long, "
    "added up over channels. buffers: most network memory in use. worker: most memory of the Python process."
)

MILLION = 1_000_000
"""From here on a cell has three digits and M: with all digits a row would not fit."""


def _count(number: float) -> str:
    return f"{number:,}" if number < MILLION else f"{digits(number / MILLION)} M"


_Total = Callable[[Sequence[float]], float]

_COLUMNS: tuple[tuple[str, str, Callable[[float], str], _Total], ...] = (
    ("rows in", "rows_read", _count, sum),
    ("rows out", "rows", _count, sum),
    ("sent", "bytes_sent", size, sum),
    ("received", "bytes_received", size, sum),
    ("stalls", "credit_stalls", _count, sum),
    ("blocked", "credit_blocked_s", lambda seconds: milliseconds(1000 * seconds), sum),
    ("buffers", "peak_network_memory_bytes", size, max),
    ("worker", "worker_memory_bytes", size, max),
)
"""Heading, statistic, how it is written, and what all tasks come to."""


def print_shuffle(document: ShuffleDocument, console: Console) -> None:
    """Print what was done, and a row for each task; the last one is their sum, of memory the most."""
    console.print(Text(document.output, "bold"), soft_wrap=True)
    console.print(_line(document), highlight=False)
    console.print()
    table = _table(document.tasks)
    unlimited = console.options.update(max_width=2 * console.width)
    if console.measure(table, options=unlimited).maximum > console.width:
        table.padding = (0, 0)
    console.print(table)
    console.print(LEGEND, style="dim", highlight=False)


def _line(document: ShuffleDocument) -> str:
    rows = sum(task["rows_read"] for task in document.tasks)
    how = f"{document.ship} by {', '.join(document.keys)}" if document.keys else document.ship
    rule = f", {document.partitioner.capitalize()}'s placement" if document.ship == "hash" else ""
    seconds = document.wall_seconds
    return f"{rows:,} rows into {document.partitions} partitions in {seconds:.2f} s: {how}{rule}"


def _table(tasks: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for heading in ("", *(heading for heading, *_ in _COLUMNS)):
        table.add_column(heading, justify="right")
    for task in tasks:
        cells = [written(task[name]) for _, name, written, _ in _COLUMNS]
        table.add_row(str(task["partition"]), *cells)
    if len(tasks) > 1:
        table.add_section()
        totals = [written(total([task[name] for task in tasks])) for _, name, written, total in _COLUMNS]
        table.add_row("all", *totals)
    return table
