"""The command ``netstack validate``."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from ..extras import require
from ..flink import Validation
from ..flink import validate as judge
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
    "Flink: present figures of the job, times with their range over its checkpoints. "
    "ours: median and range over seeds, predicted from its load and options. "
    "ratio: ours by Flink's. allowed: the tolerance. "
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
    """Predict the figures of a running Flink job, and compare; exit status 1 where one is out of tolerance.

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
    options.overrides()  # reports mistakes before anything is written
    prepare_folder(out, PAGE, DOCUMENT)
    imported = read_flink(access.cluster(from_flink), job, options)
    with progress("predicting", seeds, "runs", to_stderr()) as report:
        results = run_seeds([imported.scenario], seeds, done=report)[0]
    validation = judge(imported, results)
    encoded = msgspec.json.encode(validation)
    if out is not None:
        # Here: the libraries for charts take a while to import.
        from ..report.validation_report import render_validation

        page = render_validation(validation, imported, results, command_line())
        write_files(out, {DOCUMENT: encoded, PAGE: page.encode()})
    if json:
        write_json(encoded)
    else:
        print_validation(validation, to_stdout())
    return 0 if validation.ok else FAILED


def print_validation(validation: Validation, console: Console) -> None:
    """Print prediction, measurement, ratio and verdict."""
    console.print(Text(f"job {validation.job}, Flink {validation.flink}, {validation.url}", style="dim"))
    console.print(comparison_table(validation.comparison))
    console.print()
    console.print(Text(LEGEND, style="dim"))
    console.print(verdict([validation.comparison]))
