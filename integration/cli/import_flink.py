"""The command ``netstack import-flink``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from netstack import scenario_document, scenario_toml

from ..base.writing import prepare_folder
from ..show.terminal.documents import ImportedJob, encoded, print_document, print_text, write_files
from .arguments import Flag
from .cluster_access import ANYBODY, AccessOptions
from .past_options import NOW, PastOptions
from .running_job_options import AS_READ, ReadingOptions, read_flink, say_assumptions


def import_flink(
    url: str,
    /,
    *,
    job: str | None = None,
    access: AccessOptions = ANYBODY,
    options: ReadingOptions = AS_READ,
    past: PastOptions = NOW,
    json: Flag = False,
    out: Path | None = None,
) -> int:
    """Print a running Flink job as a scenario file. Assumptions are listed on stderr and in the file.

    Args:
        url: Address of Flink's web interface, such as http://localhost:8081, or a file that --recording wrote
            earlier.
        job: Id of the job; required if several jobs run.
        json: Print the scenario, the notes and the job's figures as one JSON document.
        out: Folder for NAME.toml and NAME.json.
    """
    options.overrides()  # reports mistakes before any file is written
    prepare_folder(out)
    imported = read_flink(past.of(partial(access.cluster, url), watch=options.watch), job, options)
    scenario = imported.scenario
    measured = imported.measured
    comments = [
        f"Read from {measured.url}, Flink {measured.flink}, job {measured.job} ({measured.job_name})."
    ]
    if imported.notes:
        comments += ["Assumptions:", *(f"- {note}" for note in imported.notes)]
    text = scenario_toml(scenario, comments)
    document = encoded(
        ImportedJob(scenario=scenario_document(scenario), notes=imported.notes, measured=measured)
    )
    if out is not None:
        write_files(out, {f"{scenario.name}.toml": text.encode(), f"{scenario.name}.json": document})
    if json:
        print_document(document)
    elif out is None:
        print_text(text)
    say_assumptions(imported.notes)
    return 0
