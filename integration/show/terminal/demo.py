"""The demo on a terminal: the job, a table of its runs, and the conclusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Column
from rich.text import Text

from netstack import Result

from ...base.number_text import percent
from ...spark.demo_job import Data, DemoSettings
from .run import Fact, job_facts, summary_table
from .table_style import figures, grid, number

TITLE = "How long a checkpoint barrier waits, with debloating off and on"


def print_demo(
    facts: Sequence[Fact],
    results: Mapping[str, Result],
    finding: str,
    console: Console,
    page: Path | None = None,
) -> None:
    """Print the job, a table of its runs, the conclusion, and the path of the page."""
    rows = [(name, Text(text)) for name, text in facts]
    console.print(grid([Column(style="dim"), Column()], rows), highlight=False)
    console.print()
    heads = [Column("", no_wrap=True), Column("", style="dim"), *map(number, ("off", "on", "on/off"))]
    table = summary_table(results)
    runs = figures(heads, ((row.name, row.meaning, *row.texts) for row in table.rows))
    console.print(runs, highlight=False)
    console.print()
    console.print(Text(finding))
    console.print()
    if page is not None:
        console.print(Text(f"Report: {page}"), soft_wrap=True)


def demo_facts(settings: DemoSettings, data: Data, result: Result) -> list[Fact]:
    """Return the facts about the demo's job: the data, its skew, and facts about one of its runs."""
    spread = f"{data.rows:,} rows of {data.record_bytes:.0f} bytes in {data.partitions} Spark partitions"
    skew = (
        f"{settings.key} has {data.keys:,} values; {percent(data.top_share)} of the rows have {data.top_key}"
    )
    rates = [rate or 0.0 for rate in result.steady[-1].vertices[-1].records_in_per_s]
    if any(rates):
        skew += f"; the busiest consumer gets {percent(max(rates) / sum(rates))} of the records"
    return [("Data", f"{settings.name}, {spread}"), ("Key", skew), *job_facts(result, origins=False)]
