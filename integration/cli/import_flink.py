"""The command ``netstack import-flink``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from netstack import scenario_document, scenario_toml

from ..flink import Imported, Measured
from ..report.output import prepare_folder, write_files, write_json
from .access_options import ANYBODY, AccessOptions
from .arguments import Flag
from .flink_options import AS_READ, ReadingOptions, read_flink


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON document."""

    schema: str = "netstack.import/1"
    scenario: dict[str, Any]
    notes: list[str]
    measured: Measured


def import_flink(
    url: str,
    /,
    *,
    job: str | None = None,
    access: AccessOptions = ANYBODY,
    options: ReadingOptions = AS_READ,
    json: Flag = False,
    out: Path | None = None,
) -> int:
    """Print a running Flink job as a scenario file; assumptions are reported on stderr and in the file.

    Args:
        url: Address of Flink's web interface, such as http://localhost:8081, or a file of --recording.
        job: Id of the job; needed where several run.
        json: Print scenario, notes and the figures of the job as one JSON document.
        out: Folder for NAME.toml and NAME.json.
    """
    options.overrides()  # reports mistakes before anything is written
    prepare_folder(out)
    imported = read_flink(access.cluster(url), job, options)
    scenario = imported.scenario
    text = scenario_toml(scenario, _comments(imported))
    document = Document(
        scenario=scenario_document(scenario), notes=imported.notes, measured=imported.measured
    )
    encoded = msgspec.json.encode(document)
    if out is not None:
        write_files(out, {f"{scenario.name}.toml": text.encode(), f"{scenario.name}.json": encoded})
    if json:
        write_json(encoded)
    elif out is None:
        sys.stdout.write(text)
    return 0


def _comments(imported: Imported) -> list[str]:
    measured = imported.measured
    return [
        f"Read from {measured.url}, Flink {measured.flink}, job {measured.job} ({measured.job_name}).",
        *(f"- {note}" for note in imported.notes),
    ]
