"""The command ``netstack validate``."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from netstack import ScenarioError

from ..flink.rest import Imported, Validation
from ..flink.rest import validate as judge
from ..report.comparison_text import comparison_table, verdict
from ..report.output import prepare_folder, to_stderr, to_stdout, write_files, write_json
from ..runs.seeds import run_seeds
from .arguments import Flag, Settings, Several, Whole
from .exit_status import FAILED
from .flink_options import overrides_of, read_flink
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
    record_bytes: Several = (),
    service: Several = (),
    rate: Several = (),
    settings: Settings = (),
    latency: str | None = None,
    watch: str | None = None,
    json: Flag = False,
    out: Path | None = None,
) -> int:
    """Predict what a running Flink job shows, and compare; exit status 1 where a number is outside.

    Args:
        from_flink: Address of Flink's web interface, such as http://localhost:8081.
        job: Id of the job; needed where several run.
        seeds: Runs of the scenario.
        record_bytes: Bytes of a record, in place of those measured: VERTEX:BYTES, or BYTES for all sources.
        service: What a record costs, in place of what was measured: VERTEX:TIME, or TIME for all.
        rate: Records per second of each subtask of a source, 0 for as fast as possible: VERTEX:RATE, or RATE.
        settings: An option of Flink, OPTION=VALUE, in place of the cluster's.
        latency: Of the network between task managers.
        watch: How long to watch the metrics; by default until they have changed three times.
        json: Print prediction and measurement as one JSON document.
        out: Folder for validation.json.
    """
    if seeds < 1:
        raise ScenarioError([f"netstack validate: --seeds is {seeds}; at least 1 is needed"])
    given = overrides_of(
        record_bytes=record_bytes, service=service, rate=rate, settings=settings, latency=latency
    )
    prepare_folder(out, DOCUMENT)
    imported = read_flink(from_flink, job, given, watch)
    found = _predict(imported, seeds)
    encoded = msgspec.json.encode(found)
    if out is not None:
        write_files(out, {DOCUMENT: encoded})
    if json:
        write_json(encoded)
    else:
        print_validation(found, to_stdout())
    return 0 if found.ok else FAILED


def _predict(imported: Imported, seeds: int) -> Validation:
    with progress("predicting", seeds, "runs", to_stderr()) as report:
        results = run_seeds([imported.scenario], seeds, done=report)[0]
    return judge(imported, results)


def print_validation(found: Validation, console: Console) -> None:
    """Print prediction, measurement and ratio, and what they come to."""
    console.print(Text(f"job {found.job}, Flink {found.flink}, {found.url}", style="dim"))
    console.print(comparison_table(found.comparison))
    console.print()
    console.print(Text(LEGEND, style="dim"))
    console.print(verdict([found.comparison]))
