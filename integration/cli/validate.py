"""The command ``netstack validate``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..base.extras import require
from ..base.writing import prepare_folder
from ..flink import validate as judge
from ..runs.seeds import run_seeds
from ..show.terminal.comparison import print_validation
from ..show.terminal.console import PAGE, to_stderr
from ..show.terminal.documents import encoded, present, write_files
from ..show.terminal.progress import progress
from .arguments import Flag, Whole, command_line, require_some
from .cluster_access import ANYBODY, AccessOptions
from .exit_status import FAILED
from .past_options import NOW, PastOptions
from .running_job_options import AS_READ, ReadingOptions, read_flink, say_assumptions

SEEDS = 5

DOCUMENT = "validation.json"


def validate(
    *,
    from_flink: str,
    job: str | None = None,
    seeds: Whole = SEEDS,
    access: AccessOptions = ANYBODY,
    options: ReadingOptions = AS_READ,
    past: PastOptions = NOW,
    json: Flag = False,
    out: Path | None = None,
) -> int:
    """Compare the figures of a running Flink job with predicted ones. Exit status 1: one differs too much.

    Args:
        from_flink: Address of Flink's web interface, such as http://localhost:8081, or a file that
            --recording wrote earlier.
        job: Id of the job; required if several jobs run.
        seeds: Number of runs of the scenario.
        json: Print the prediction and the measurement as one JSON document.
        out: Folder for report.html and validation.json.
    """
    require_some("validate", "--seeds", seeds)
    if out is not None:
        require("report", "netstack validate --out")
    options.overrides()  # reports mistakes before any file is written
    prepare_folder(out, PAGE, DOCUMENT)
    imported = read_flink(past.of(partial(access.cluster, from_flink), watch=options.watch), job, options)
    with progress("predicting", seeds, "runs", to_stderr()) as report:
        results = run_seeds([imported.scenario], seeds, done=report)[0]
    validation = judge(imported, results)
    if out is not None:
        from ..show.page.pages import render_validation  # imported here, because altair takes a while

        page = render_validation(validation, imported, results, command_line())
        write_files(out, {DOCUMENT: encoded(validation), PAGE: page.encode()})
    present(validation, print_validation, json=json)
    say_assumptions(imported.notes)
    return 0 if validation.ok else FAILED
