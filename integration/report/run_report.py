"""Reports: a page that opens without a network, its pictures as PNGs, and the results it was made from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from netstack import Result, scenario_document, to_json

from ..analysis.window_figures import figures_of_runs
from ..analysis.wording import describe
from .charts import charts, to_png
from .checkpoint_charts import CHOSEN, DETAIL, checkpoint_detail
from .checkpoint_rows import details
from .incidents import incidents, price, what_went_wrong
from .keeping_up import fell_behind
from .output import PAGE, prepare_folder, write_outputs
from .pages import drawing, pretty, render_page
from .panels import MOST_COLUMNS, Chart
from .tables import (
    MODES_LEGEND,
    SUBTASK_COLUMNS,
    Fact,
    how_obtained,
    job_facts,
    modes_table,
    subtask_rows,
    summary_table,
)

__all__ = ["PAGE", "render", "write_report"]

_OF_CHECKPOINTS = ("checkpoint-phases", "checkpoint-history", "checkpoint-bytes")


def write_report(
    directory: Path,
    results: Mapping[str, Result],
    *,
    title: str | None = None,
    finding: str | None = None,
    facts: Sequence[Fact] | None = None,
    command: str = "",
) -> list[Path]:
    """Write the report on one run, or on several runs of one job, and return the files, the page first.

    Beside the page lie a PNG for each picture, and for each run its result as ``NAME.json``.
    The directory is made if it is not there; files of the same names are replaced, others are left alone.

    Args:
        directory: Where to write.
        results: At least one result, by the name of the run.
        title: Heads the page; by default the names of the scenarios.
        finding: What happened, in a sentence; by default one for each run and window.
        facts: What the job is, line by line; by default what the first scenario says.
        command: What made the results, for whoever wants to repeat it.

    Raises:
        OutputError: A file cannot be written.
    """
    pictures = charts(results)
    page = render(results, pictures, title, finding, facts, command)
    files = {PAGE: page.encode()} | {f"{chart.name}.png": to_png(chart) for chart in pictures}
    for run, result in results.items():
        files[f"{_file_name(run)}.json"] = to_json(result) + b"\n"
    prepare_folder(directory)
    return write_outputs({directory / name: content for name, content in files.items()})


def render(
    results: Mapping[str, Result],
    pictures: Sequence[Chart],
    title: str | None = None,
    finding: str | None = None,
    facts: Sequence[Fact] | None = None,
    command: str = "",
) -> str:
    """Return the page as HTML, with all that it needs inside; arguments as for `write_report`."""
    runs, few, checkpoints = list(results.values()), len(results) <= MOST_COLUMNS, details(results)
    names = dict.fromkeys(result.scenario.name for result in results.values())
    return render_page(
        "report.html.jinja",
        title=title or ", ".join(names),
        findings=[*([finding] if finding else _described(results)), *_went_wrong(results)],
        facts=job_facts(runs[0]) if facts is None else facts,
        table=asdict(summary_table(results) if few else modes_table(results)),
        table_legend="" if few else MODES_LEGEND,
        incidents={run: incidents(result) for run, result in results.items()},
        checkpoint_charts=[chart for chart in pictures if chart.name in _OF_CHECKPOINTS],
        charts=[chart for chart in pictures if chart.name not in _OF_CHECKPOINTS],
        few=few,
        subtasks={run: subtask_rows(result) for run, result in results.items()},
        subtask_columns=SUBTASK_COLUMNS,
        several_windows=any(len(result.steady) > 1 for result in runs),
        obtained={run: how_obtained(result, command) for run, result in results.items()},
        scenarios={run: pretty(scenario_document(result.scenario)) for run, result in results.items()},
        specs=[drawing(chart) for chart in pictures],
        detail={"name": DETAIL, "signal": CHOSEN, "spec": checkpoint_detail(results), "runs": checkpoints},
    )


def _described(results: Mapping[str, Result]) -> list[str]:
    findings = figures_of_runs(results)
    prices = {run: text for run, result in results.items() if (text := price(result)) is not None}
    if len(findings) == 1:
        return [*(describe(window) for window in findings.values()), *prices.values()]
    described = [f"{label}: {describe(window)}" for label, window in findings.items()]
    return described + [text if len(results) == 1 else f"{run}: {text}" for run, text in prices.items()]


def _went_wrong(results: Mapping[str, Result]) -> list[str]:
    return [
        sentence if len(results) == 1 else f"{run}: {sentence}"
        for run, result in results.items()
        for sentence in [*fell_behind(result), *what_went_wrong(result)]
    ]


def _file_name(run: str) -> str:
    return re.sub(r"[^\w.-]+", "-", run).strip("-.") or "result"
