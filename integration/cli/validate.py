"""The command ``netstack validate``."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from netstack import Result

from ..extras import require
from ..flink.rest import Imported, Validation
from ..flink.rest import validate as judge
from ..report.comparison_text import comparison_table, verdict
from ..report.output import PAGE, prepare_folder, to_stderr, to_stdout, write_files, write_json
from ..report.progress import progress
from ..runs.scenario_runs import run_seeds
from .access_options import ANYBODY, AccessOptions
from .arguments import Flag, Whole, command_line, require_some
from .exit_status import FAILED
from .flink_options import AS_READ, ReadingOptions, read_flink

SEEDS = 5

DOCUMENT = "validation.json"

LEGEND = (
    "Flink: what the job shows now, times with their range over its checkpoints. "
    "ours: median and range over seeds, predicted from its load and options. "
    "ratio: ours by Flink's. allowed: how far apart they may be. "
    "Times in ms, throughput in records/s."
)


def validate(
    *,
    from_flink: str,
    job: str | None = None,
    seeds: Whole = SEEDS,
    access: AccessOptions = ANYBODY,
    options: ReadingOptions = AS_READ,
    json: Flag = False,
    out: Path | None = None,
) -> int:
    """Predict what a running Flink job shows, and compare; exit status 1 where a number is outside.

    Args:
        from_flink: Address of Flink's web interface, such as http://localhost:8081, or a file of --recording.
        job: Id of the job; needed where several run.
        seeds: Runs of the scenario.
        json: Print prediction and measurement as one JSON document.
        out: Folder for report.html and validation.json.
    """
    require_some("validate", "--seeds", seeds)
    if out is not None:
        require("report", "netstack validate --out")
    given = options.overrides()
    prepare_folder(out, PAGE, DOCUMENT)
    cluster = access.cluster(from_flink)
    imported = read_flink(cluster, job, given, options.watch, options.recording)
    results = _predict(imported, seeds)
    validation = judge(imported, results)
    encoded = msgspec.json.encode(validation)
    if out is not None:
        # Here, since what draws takes a while to import.
        from ..report.validation_report import render_validation

        page = render_validation(validation, imported, results, command_line())
        write_files(out, {DOCUMENT: encoded, PAGE: page.encode()})
    if json:
        write_json(encoded)
    else:
        print_validation(validation, to_stdout())
    return 0 if validation.ok else FAILED


def _predict(imported: Imported, seeds: int) -> list[Result]:
    with progress("predicting", seeds, "runs", to_stderr()) as report:
        return run_seeds([imported.scenario], seeds, done=report)[0]


def print_validation(validation: Validation, console: Console) -> None:
    """Print prediction, measurement and ratio, and what they come to."""
    console.print(Text(f"job {validation.job}, Flink {validation.flink}, {validation.url}", style="dim"))
    console.print(comparison_table(validation.comparison))
    console.print()
    console.print(Text(LEGEND, style="dim"))
    console.print(verdict([validation.comparison]))
