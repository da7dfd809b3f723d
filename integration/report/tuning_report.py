"""The page of a sweep over debloat targets, its pictures, and two runs over time side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netstack import Result, Scenario, Steady, scenario_document

from ..analysis.wording import NOTHING, milliseconds, per_second, size
from ..tuning.estimates import Estimate
from ..tuning.pitfalls import Pitfall
from ..tuning.recommend import Recommendation
from ..tuning.reruns import settings_to_show
from ..tuning.summaries import OFF, TargetSummary
from .charts import charts, to_png
from .job_graph import NOTE, JobGraph, job_graph
from .output import PAGE, prepare_folder, write_outputs
from .pages import drawing, pretty, render_page
from .panels import Chart
from .tables import Fact, how_obtained, versions_text
from .tuning_charts import tuning_charts
from .tuning_text import (
    conditions_of,
    failures_of,
    mark_in_words,
    recommended,
    remedy_text,
    settings_of,
)

LEGEND = (
    "Means over seeds, with their 95 % intervals. Throughput: of what it is now, same seed, records per "
    "second below. "
    "Start delay: from the trigger to the first barrier; alignment: to the last one; of the subtask that "
    "acknowledged last, means of checkpoints, and part of the end to end. Stored if unaligned: data in "
    "flight that an unaligned checkpoint writes. Record delay: from a record's emission by a source to its "
    "processing by the last vertex, which unaligned checkpoints do not shorten. Adapts: until the queues "
    "have settled after the load has doubled."
)

_OVER_TIME = ("checkpoint-history", "buffer-size", "in-flight-time", "queue-length")

Text = Callable[[float | None], str]


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value / 1000:.0f} s"


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f} %"


_COLUMNS: Sequence[tuple[str, str, Text]] = (
    ("Throughput", "throughput_share", _percent),
    ("Start delay", "start_delay_ms", milliseconds),
    ("Alignment", "alignment_ms", milliseconds),
    ("End to end", "end_to_end_ms", milliseconds),
    ("p95", "end_to_end_p95_ms", milliseconds),
    ("Bytes in flight", "in_flight_bytes", size),
    ("Stored if unaligned", "persisted_bytes", size),
    ("Record delay", "record_delay_ms", milliseconds),
    ("Adapts", "adaptation_ms", _seconds),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a sweep came to, and how it was done."""

    scenario: dict[str, Any]
    """The document that it was made from."""
    recommendations: Sequence[Recommendation]
    pitfalls: Sequence[Pitfall]
    points: int
    """How many emulations there were."""
    command: str
    notes: Sequence[str] = ()
    """What is to be known of the scenario."""
    graph: JobGraph | None = None
    """The job at the settings that are shown over time; None where nothing of them is known."""


def write_tuning_report(directory: Path, sweep: Sweep, results: Mapping[str, Result]) -> list[Path]:
    """Write the page of a sweep and a PNG for each picture, and return the files, the page first.

    `results` are the runs that are shown over time, by name; with their series.

    Raises:
        OutputError: a file cannot be written.
    """
    of_sweep = tuning_charts(sweep.recommendations)
    over_time = [chart for chart in charts(results) if chart.name in _OVER_TIME] if results else []
    page = render_sweep(sweep, results, of_sweep, over_time)
    files = {PAGE: page.encode()} | {f"{chart.name}.png": to_png(chart) for chart in [*of_sweep, *over_time]}
    prepare_folder(directory)
    return write_outputs({directory / name: content for name, content in files.items()})


def render_sweep(
    sweep: Sweep, results: Mapping[str, Result], of_sweep: Sequence[Chart], over_time: Sequence[Chart]
) -> str:
    """Return the page as HTML, with all that it needs inside; `own` and `over_time` are its pictures."""
    return render_page(
        "tuning.html.jinja",
        title=f"Which debloat target for {sweep.scenario['name']}?",
        parts=[_part(recommendation) for recommendation in sweep.recommendations],
        columns=["Target", *(name for name, _, _ in _COLUMNS)],
        legend=LEGEND,
        charts=of_sweep,
        graph=sweep.graph,
        graph_note=_graph_note(results),
        pitfalls=[_pitfall(pitfall) for pitfall in sweep.pitfalls],
        runs=list(results),
        run_charts=over_time,
        obtained=_obtained(sweep),
        runs_obtained={run: how_obtained(result, sweep.command) for run, result in results.items()},
        scenarios={run: pretty(scenario_document(result.scenario)) for run, result in results.items()}
        or {"as it is": pretty(sweep.scenario)},
        specs=[drawing(chart) for chart in [*of_sweep, *over_time]],
    )


def settings_graph(
    scenario: Scenario, recommendation: Recommendation, results: Mapping[str, Result]
) -> JobGraph | None:
    """Return the job with what its vertices do at the settings of `results`, by their names."""
    runs = {name: result.steady[-1:] for name, result in results.items() if result.steady}
    return job_graph(scenario, column_names(recommendation, runs)) if runs else None


def column_names(
    recommendation: Recommendation, runs: Mapping[str, Sequence[Steady]]
) -> dict[str, Sequence[Steady]]:
    """Return runs by names short enough for a vertex; `runs` are by those of `settings_to_show`."""
    targets = dict(settings_to_show(recommendation))
    return {_column_name(recommendation, targets[name]): steady for name, steady in runs.items()}


def _column_name(recommendation: Recommendation, target: str) -> str:
    if target == recommendation.current:
        return "now"
    if recommendation.verdict in ("set", "turn off"):
        return "recommended"
    return "off" if target == OFF else "nearest"


def _graph_note(results: Mapping[str, Result]) -> str:
    """What the columns are, in the words of the pictures over time, and how the figures are read."""
    return f"{' beside '.join(results)}; of the first seed. {NOTE}" if results else ""


def _part(recommendation: Recommendation) -> dict[str, Any]:
    facts = [
        ("Now", f"debloating {OFF}" if recommendation.current == OFF else f"target {recommendation.current}")
    ]
    facts += [
        ("Knee", f"{recommendation.knee or 'none'}: {recommendation.knee_why}"),
        ("Rule", recommendation.rule),
    ]
    return {
        "conditions": conditions_of(recommendation),
        "words": recommendation.words,
        "configuration": recommendation.configuration,
        "facts": facts,
        "remedies": [(remedy_text(remedy), remedy.configuration) for remedy in recommendation.remedies],
        "failures": failures_of(recommendation),
        "rows": [_row(recommendation, summary) for summary in recommendation.settings],
    }


def _row(recommendation: Recommendation, summary: TargetSummary) -> dict[str, Any]:
    return {
        "name": "no debloating" if summary.target == OFF else summary.target,
        "said": mark_in_words(recommendation, summary),
        "chosen": summary.target == recommended(recommendation),
        "cells": [_throughput(summary), *(_figure(summary, field, text) for _, field, text in _COLUMNS[1:])],
    }


def _figure(summary: TargetSummary, field: str, text: Text) -> tuple[str, str]:
    value: Estimate | None = getattr(summary, field)
    if field == "adaptation_ms" and value is None and summary.step_runs:
        return "never", f"in {summary.step_runs} runs"
    return _cell(value, text)


def _throughput(summary: TargetSummary) -> tuple[str, str]:
    """The share of the throughput without debloating, with the rate itself below."""
    share, rate = summary.throughput_share, summary.throughput_per_s
    return _percent(share.mean if share else None), per_second(rate.mean) if rate else ""


def _cell(value: Estimate | None, text: Text) -> tuple[str, str]:
    if value is None:
        return NOTHING, ""
    below = [_range(text(value.least), text(value.greatest))]
    below += [f"in {value.runs} of {value.of} runs"] if value.runs < value.of else []
    return text(value.mean), ", ".join(part for part in below if part)


def _range(least: str, most: str) -> str:
    """Two texts as one, with a unit that they share once: "140–173 ms"; nothing where they are one."""
    if least == most:
        return ""
    number, _, unit = least.rpartition(" ")
    return f"{number}–{most}" if number and unit == most.rpartition(" ")[2] else f"{least}–{most}"


def _pitfall(pitfall: Pitfall) -> dict[str, Any]:
    facts: list[Fact] = [
        ("Shows at", settings_of(pitfall)),
        ("Evidence", f"{pitfall.evidence} ({pitfall.point or 'as it is'}, seed {pitfall.seed})"),
        ("What to do", pitfall.remedy),
        ("Shown by", pitfall.shown_by),
    ]
    return {"name": pitfall.name, "vertex": pitfall.vertex, "what": pitfall.what, "facts": facts}


def _obtained(sweep: Sweep) -> list[Fact]:
    first = sweep.recommendations[0]
    facts = [
        ("Scenario", f"{sweep.scenario['name']}, preset {sweep.scenario['preset']}"),
        ("Seeds", ", ".join(map(str, first.seeds))),
        ("Clock", f"{first.clock} time"),
        ("Points", f"{sweep.points} emulations"),
        ("Versions", versions_text(first.versions)),
        ("Command", sweep.command),
        *(("Note", note) for note in sweep.notes),
    ]
    return [(name, text) for name, text in facts if text]
