"""The command ``netstack validate``."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from ..flink.rest import Imported, Validation
from ..flink.rest import validate as judge
from ..report.comparison_text import comparison_table, verdict
from ..report.output import prepare_folder, to_stderr, to_stdout, write_files, write_json
from ..runs.seeds import run_seeds
from .access_options import ANYBODY, AccessOptions
from .arguments import Flag, Whole, require_some
from .exit_status import FAILED
from .flink_options import AS_READ, ReadingOptions, read_flink
from .progress import progress

SEEDS = 5

DOCUMENT = "validation.json"

LEGEND = (
    "Flink: what the job shows now. ours: median and range over seeds, predicted from its load and options. "
    "ratio: ours by Flink's. allowed: how far apart they may be. "
    "Times in ms, throughput in records/s, buffers in bytes."
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
        out: Folder for validation.json.
    """
    require_some("validate", "--seeds", seeds)
    given = options.overrides()
    prepare_folder(out, DOCUMENT)
    cluster = access.cluster(from_flink)
    validation = _predict(read_flink(cluster, job, given, options.watch, options.recording), seeds)
    encoded = msgspec.json.encode(validation)
    if out is not None:
        write_files(out, {DOCUMENT: encoded})
    if json:
        write_json(encoded)
    else:
        print_validation(validation, to_stdout())
    return 0 if validation.ok else FAILED


def _predict(imported: Imported, seeds: int) -> Validation:
    with progress("predicting", seeds, "runs", to_stderr()) as report:
        results = run_seeds([imported.scenario], seeds, done=report)[0]
    return judge(imported, results)


def print_validation(validation: Validation, console: Console) -> None:
    """Print prediction, measurement and ratio, and what they come to."""
    console.print(Text(f"job {validation.job}, Flink {validation.flink}, {validation.url}", style="dim"))
    console.print(comparison_table(validation.comparison))
    console.print()
    console.print(Text(LEGEND, style="dim"))
    console.print(verdict([validation.comparison]))
