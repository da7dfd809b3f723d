"""HTML pages for runs, two results, a validation, a sweep and a forecast, with their charts as PNG files.

Templates, style and script are in ``templates``. A page contains everything that it needs, Vega included, and
opens without a network. Its content security policy allows only its own scripts.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from netstack import InputError, Result, Scenario, Steady, read_scenario, scenario_document, to_json

from ...advise.tune.charted_runs import settings_to_show
from ...advise.tune.option_changes import restart_sentences
from ...advise.tune.recommend import Recommendation
from ...advise.tune.settings import NOW
from ...base.cache_files import cached_text
from ...base.number_text import NOTHING, milliseconds, per_second
from ...base.optional_figures import known
from ...base.writing import prepare_folder, write_outputs
from ...runs.job_load import rates_of
from ...runs.quantities import SETTING
from ...runs.result_differences import ResultDifferences, document_of
from ...runs.window_figures import figures_of_runs
from ..charts.chart_style import VEGA_LITE, Chart, to_png
from ..charts.forecast_charts import drill_charts, forecast_charts
from ..charts.run_charts import CHOSEN, DETAIL, charts, checkpoint_detail, checkpoint_details
from ..charts.tuning_charts import tuning_charts
from ..terminal.comparison import DIFFERENCES_LEGEND, UNITS, cells_of, figure_cells, legend, verdict
from ..terminal.console import PAGE
from ..terminal.forecast import (
    DRILL_COLUMNS,
    KEYS,
    LOAD_COLUMNS,
    autoscaler_text,
    curve_name,
    drill_cells,
    forecast_words,
    load_rows,
    scaling_table,
)
from ..terminal.run import (
    SUBTASK_COLUMNS,
    Fact,
    how_obtained,
    job_facts,
    subtask_rows,
    summary_table,
    versions_text,
)
from ..terminal.sentences import describe, fell_behind, incidents, price, what_went_wrong
from ..terminal.tuning import (
    DETAILS,
    LEGEND,
    RULE,
    conditions_of,
    failures_of,
    interval_text,
    mark,
    settings_of,
    throughput_text,
)
from .job_graph import NOTE, JobGraph, job_graph

if TYPE_CHECKING:
    from ...advise.forecast.forecast import Forecast
    from ...advise.tune.pitfalls import Pitfall
    from ...flink.importing import Imported
    from ...flink.validation import Validation
    from ..terminal.documents import Tuning

FLINK, OURS = "Flink", "ours"
"""Names of the two sides of a validation."""


def write_report(
    directory: Path,
    results: Mapping[str, Result],
    *,
    title: str | None = None,
    finding: str | None = None,
    facts: Sequence[Fact] | None = None,
    command: str = "",
) -> list[Path]:
    """Write the page of one or two runs of a job, and return all files, the page first.

    Beside the page lie a PNG for each chart, and the result of each run as ``NAME.json``. Files of the same
    names are replaced, others stay.

    Args:
        directory: Folder for the files; made if it does not exist.
        results: One or two results, by the name of the run.
        title: Title of the page; by default the names of the scenarios.
        finding: Conclusion in a sentence; by default a sentence for each run and window.
        facts: Description of the job, line by line; by default that of the first scenario.
        command: Command that made the results.

    Raises:
        OutputError: A file cannot be written.
    """
    pictures = charts(results)
    runs = list(results.values())
    names = dict.fromkeys(result.scenario.name for result in runs)
    went_wrong = [
        sentence if len(runs) == 1 else f"{run}: {sentence}"
        for run, result in results.items()
        for sentence in [*fell_behind(result), *what_went_wrong(result)]
    ]
    page = render_page(
        "report.html.jinja",
        title=title or ", ".join(names),
        findings=[*([finding] if finding else _described(results)), *went_wrong],
        facts=job_facts(runs[0]) if facts is None else facts,
        table=summary_table(results),
        incidents={run: incidents(result) for run, result in results.items()},
        checkpoint_charts=[chart for chart in pictures if chart.of_checkpoints],
        charts=[chart for chart in pictures if not chart.of_checkpoints],
        subtasks={run: subtask_rows(result) for run, result in results.items()},
        subtask_columns=SUBTASK_COLUMNS,
        several_windows=any(len(result.steady) > 1 for result in runs),
        obtained=how_obtained(results, command),
        scenarios={run: _pretty(scenario_document(result.scenario)) for run, result in results.items()},
        specs=_drawings(pictures),
        detail={
            "name": DETAIL,
            "signal": CHOSEN,
            "spec": checkpoint_detail(results),
            "runs": checkpoint_details(results),
        },
    )
    files = {run: re.sub(r"[^\w.-]+", "-", run).strip("-.") or "result" for run in results}
    documents = {f"{files[run]}.json": to_json(result) + b"\n" for run, result in results.items()}
    return _write(directory, page, pictures, documents)


def _described(results: Mapping[str, Result]) -> list[str]:
    windows = figures_of_runs(results)
    prices = {run: text for run, result in results.items() if (text := price(result)) is not None}
    if len(windows) == 1:
        return [*map(describe, windows.values()), *prices.values()]
    described = [f"{label}: {describe(window)}" for label, window in windows.items()]
    return described + [text if len(results) == 1 else f"{run}: {text}" for run, text in prices.items()]


def write_differences(
    directory: Path, differences: ResultDifferences, results: Mapping[str, Result], command: str
) -> list[Path]:
    """Write the page of two results, given by name, with its charts; return all files, the page first.

    Raises:
        OutputError: A file cannot be written.
    """
    pictures = charts(results)
    page = render_page(
        "two_runs.html.jinja",
        title=" beside ".join(results),
        names=list(results),
        rows=[(figure.quantity, figure.meaning, figure_cells(figure)) for figure in differences.figures],
        legend=DIFFERENCES_LEGEND,
        settings=differences.settings,
        nothing=NOTHING,
        graphs={name: _graph(name, result) for name, result in results.items()},
        graph_note=NOTE,
        charts=pictures,
        facts={name: job_facts(result) for name, result in results.items()},
        obtained=how_obtained(results, command),
        scenarios={name: _pretty(document_of(result)) for name, result in results.items()},
        specs=_drawings(pictures),
    )
    return _write(directory, page, pictures)


def _graph(name: str, result: Result) -> JobGraph | None:
    """Return the graph of a result; None if the scenario did not come from a file."""
    try:
        return job_graph(read_scenario(document_of(result)), {name: result.steady[-1:]})
    except InputError:
        return None


def render_validation(
    validation: Validation, imported: Imported, results: Sequence[Result], command: str
) -> str:
    """Return the page of a validation as HTML; `results` are those of the imported scenario, one per seed."""
    runs = {FLINK: [imported.measured.steady], OURS: [result.steady[-1] for result in results]}
    first = results[0]
    return render_page(
        "validation.html.jinja",
        title=f"{imported.scenario.name}: predicted, and measured",
        verdict=verdict([validation.comparison]),
        facts=[("Job", validation.job), ("Flink", f"{validation.flink} at {validation.url}")],
        graph=job_graph(imported.scenario, runs),
        graph_note=f"{FLINK}: what the job shows now; {OURS}: median over seeds. {NOTE}",
        rows=[
            {
                "quantity": row.quantity,
                "about": f"{row.vertex or 'the whole job'}, {row.unit}, {row.window}",
                "cells": list(cells_of(row)),
                "ok": row.ok,
            }
            for row in validation.comparison.rows
        ],
        legend=UNITS + legend(),
        notes=validation.notes,
        obtained=[
            ("Seeds", ", ".join(map(str, validation.comparison.seeds))),
            ("Emulated", f"{first.emulated_seconds:g} s of {first.clock} time, each"),
            ("Versions", versions_text(first.versions)),
            ("Command", command),
        ],
        scenario=_pretty(validation.scenario),
    )


def write_tuning(
    directory: Path, tuning: Tuning, scenario: Scenario, results: Mapping[str, Result]
) -> list[Path]:
    """Write the page of a sweep over a scenario and its charts, and return all files, the page first.

    `results` are runs with series, by the names of `settings_to_show`, for the charts over time.

    Raises:
        OutputError: A file cannot be written.
    """
    first = tuning.recommendations[0]
    of_sweep = tuning_charts(tuning.recommendations)
    run_charts = charts(results) if results else []
    over_time = [_of_all_seeds(chart, first) for chart in run_charts if chart.in_tuning]
    steady = {name: result.steady[-1:] for name, result in results.items() if result.steady}
    obtained = [
        ("Scenario", f"{tuning.scenario['name']}, preset {tuning.scenario['preset']}"),
        ("Seeds", ", ".join(map(str, first.seeds))),
        ("Clock", f"{first.clock} time"),
        ("Points", f"{len(tuning.points)} emulations"),
        ("Versions", versions_text(first.versions)),
        ("Command", tuning.command),
        *(("Note", note) for note in tuning.notes),
    ]
    said = {name for name, _ in obtained}
    obtained += [fact for fact in how_obtained(results, tuning.command) if fact[0] not in said]
    scenarios = {run: _pretty(scenario_document(result.scenario)) for run, result in results.items()}
    page = render_page(
        "tuning.html.jinja",
        title=f"What to set for {tuning.scenario['name']}",
        parts=[_part(recommendation) for recommendation in tuning.recommendations],
        columns=["Setting", "Throughput", *(figure.head(SETTING) for figure in DETAILS)],
        legend=f"{RULE} {LEGEND}",
        charts=of_sweep,
        graph=job_graph(scenario, column_names(first, steady)) if steady else None,
        graph_note=f"{' beside '.join(results)}; of the first seed. {NOTE}" if results else "",
        pitfalls=[_pitfall(pitfall) for pitfall in tuning.pitfalls],
        runs=list(results),
        run_charts=over_time,
        obtained=[(name, text) for name, text in obtained if text],
        scenarios=scenarios or {"as it is": _pretty(tuning.scenario)},
        specs=_drawings([*of_sweep, *over_time]),
    )
    return _write(directory, page, [*of_sweep, *over_time])


def write_forecast(
    directory: Path, forecast: Forecast, scenario: Scenario, drills: Mapping[str, Result], *, command: str
) -> list[Path]:
    """Write the page of a forecast and its charts, and return all files, the page first.

    Args:
        directory: Folder for the files; made if it does not exist.
        forecast: The forecast.
        scenario: The job at today's load.
        drills: Results of the restart drills with their series, by the name of the setting.
        command: Command that made the forecast.

    Raises:
        OutputError: A file cannot be written.
    """
    over_load = forecast_charts(forecast)
    over_time = drill_charts(forecast, drills)
    recommendation, scaling = forecast.recommendation, forecast.scaling
    heads, scaling_figures = scaling_table(forecast)
    scaling_notes = []
    if scaling is not None:
        scaling_notes = known([autoscaler_text(scaling), KEYS if scaling.has_shares else None])
    obtained = [
        ("Scenario", f"{forecast.scenario}, preset {scenario.preset}"),
        ("Today's load", _rates_text(scenario)),
        ("Seeds", ", ".join(map(str, recommendation.seeds))),
        ("Clock", f"{recommendation.clock} time"),
        ("Restart drill", "The input of the sources arrives at today's rate." if drills else ""),
        ("Versions", versions_text(recommendation.versions)),
        ("Command", command),
    ]
    page = render_page(
        "forecast.html.jinja",
        title=f"How much more can {forecast.scenario} take?",
        findings=forecast_words(forecast),
        configuration=recommendation.configuration,
        recommended=recommendation.words,
        charts=over_load,
        load_columns=LOAD_COLUMNS,
        curves=[(curve_name(curve, forecast), load_rows(curve)) for curve in forecast.curves],
        run_charts=over_time,
        drill_columns=DRILL_COLUMNS,
        drills=[(drill.setting, drill_cells(drill), drill.failure) for drill in forecast.restarts],
        scaled="" if scaling is None else f"One more subtask of {scaling.vertex}",
        scaling_heads=heads,
        scaling=scaling_figures,
        scaling_notes=scaling_notes,
        failures=forecast.failures,
        obtained=[(name, text) for name, text in obtained if text],
        scenario=_pretty(scenario_document(scenario)),
        specs=_drawings([*over_load, *over_time]),
    )
    return _write(directory, page, [*over_load, *over_time])


def _rates_text(scenario: Scenario) -> str:
    """Return the records per second that the sources emit, by source."""
    texts = []
    for vertex in scenario.vertices:
        if vertex.source is not None:
            rates = rates_of(vertex)
            rate = per_second(sum(rates)) if all(rates) else "as fast as possible"
            texts.append(f"{vertex.name}: {rate}")
    return ", ".join(texts)


def _of_all_seeds(chart: Chart, recommendation: Recommendation) -> Chart:
    """Put the recommendation's times into the checkpoint chart's title, in place of the drawn run's times."""
    if chart.name != "checkpoint-history":
        return chart
    texts = [
        f"{milliseconds(time)} ({shown})"
        for shown, name in settings_to_show(recommendation).items()
        if (time := recommendation.at(name).mean("end_to_end_ms")) is not None
    ]
    title = f"A checkpoint takes: {', '.join(texts)}" if texts else "Every checkpoint"
    seed = f"Drawn: seed {recommendation.seeds[0]}. " if recommendation.seeds else ""
    return replace(chart, title=title, note=f"The title has means over seeds. {seed}{chart.note}")


def column_names(
    recommendation: Recommendation, runs: Mapping[str, Sequence[Steady]]
) -> dict[str, Sequence[Steady]]:
    """Return runs by names short enough for a vertex, in place of the names of `settings_to_show`."""
    settings = settings_to_show(recommendation)
    short = {recommendation.chosen: "recommended", NOW: "now"}  # the present setting may be the chosen one
    return {short.get(settings[name], "other"): steady for name, steady in runs.items()}


def _part(recommendation: Recommendation) -> dict[str, Any]:
    rows = [
        {
            "name": f"now: {recommendation.present}" if setting.name == NOW else setting.name,
            "said": "; ".join(setting.broken) if setting.broken else mark(recommendation, setting),
            "chosen": setting.name == recommendation.chosen,
            "cells": [
                (throughput_text(setting), per_second(setting.mean("throughput_per_s"))),
                *(
                    (figure.unit.text(setting.mean(figure.name)), interval_text(setting, figure))
                    for figure in DETAILS
                ),
            ],
        }
        for setting in recommendation.settings
    ]
    return {
        "conditions": conditions_of(recommendation),
        "words": recommendation.words,
        "configuration": recommendation.configuration,
        "restarts": restart_sentences(recommendation.changes),
        "failures": failures_of(recommendation),
        "rows": rows,
    }


def _pitfall(pitfall: Pitfall) -> dict[str, Any]:
    evidence = f"{pitfall.evidence} ({pitfall.point or 'as it is'}, seed {pitfall.seed})"
    return {
        "name": pitfall.name,
        "vertex": pitfall.vertex,
        "what": pitfall.what,
        "facts": [
            ("Shows at", settings_of(pitfall)),
            ("Evidence", evidence),
            ("What to do", pitfall.remedy),
            ("Shown by", pitfall.shown_by),
        ],
    }


def _write(
    directory: Path, page: str, pictures: Sequence[Chart], others: Mapping[str, bytes] = MappingProxyType({})
) -> list[Path]:
    drawn = {f"{chart.name}.png": to_png(chart) for chart in pictures}
    prepare_folder(directory)
    files = {PAGE: page.encode(), **drawn, **others}
    return write_outputs({directory / name: content for name, content in files.items()})


def render_page(template: str, **values: Any) -> str:
    """Return a page as HTML, with style, script and Vega inside.

    `template` is the name of a file in ``templates``; `values` are its variables, beside those of every page.
    """
    css, script, vega = (
        _inline(code) for code in (_page_file("report.css"), _page_file("report.js"), _vega())
    )
    policy = Markup(
        f"default-src 'none'; script-src {_source(vega)} {_source(script)}; style-src {_source(css)}; "
        "img-src 'self' file:; base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(css=css, script=script, vega=vega, policy=policy, **values)


def _drawings(pictures: Sequence[Chart]) -> list[dict[str, Any]]:
    """Return the charts in the form that the page's script reads."""
    return [
        {
            "name": chart.name,
            "panels": max(1, len(chart.spec.get("facet", {}).get("column", {}).get("sort", []))),
            "spec": chart.spec,
        }
        for chart in pictures
    ]


def _pretty(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or "integration", "templates"),
        autoescape=select_autoescape(["html", "jinja"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = _unbroken
    return environment


def _unbroken(text: str) -> str:
    """Keep numbers and their units on the same line."""
    return re.sub(r"(?<=\d) (?=[^\W\d]|%)", "\N{NO-BREAK SPACE}", text)


def _inline(code: str) -> Markup:
    """Escape code so that it cannot end its own element early, and mark it as safe."""
    return Markup(re.sub(r"</(?=script|style)", r"<\\/", code, flags=re.IGNORECASE))


def _source(content: str) -> str:
    """Return the source expression for an element with this content, for the content security policy."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _page_file(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")


_SNIPPET = "window.vegaEmbed = vegaEmbed;"


@cache
def _vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, cached on disk because bundling takes a second."""
    return cached_text(
        f"vl-convert {version('vl-convert-python')}, Vega-Lite {VEGA_LITE}: {_SNIPPET}",
        lambda: vl_convert.javascript_bundle(_SNIPPET, vl_version=VEGA_LITE),
    )
