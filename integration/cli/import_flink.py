"""The command ``netstack import-flink``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from netstack import scenario_document, scenario_toml

from ..flink.rest import Imported, Measured
from ..report.output import prepare_folder, write_files, write_json
from .arguments import Flag, Settings, Several
from .flink_options import overrides_of, read_flink


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints."""

    schema: str = "netstack.import/1"
    scenario: dict[str, Any]
    notes: list[str]
    measured: Measured


def import_flink(
    url: str,
    /,
    *,
    job: str | None = None,
    record_bytes: Several = (),
    service: Several = (),
    rate: Several = (),
    settings: Settings = (),
    latency: str | None = None,
    watch: str | None = None,
    json: Flag = False,
    out: Path | None = None,
) -> int:
    """Print a running Flink job as a scenario file; what could not be read is said on stderr and in it.

    Args:
        url: Address of Flink's web interface, such as http://localhost:8081.
        job: Id of the job; needed where several run.
        record_bytes: Bytes of a record, in place of those measured: VERTEX:BYTES, or BYTES for all sources.
        service: What a record costs, in place of what was measured: VERTEX:TIME, or TIME for all.
        rate: Records per second of each subtask of a source, 0 for as fast as possible: VERTEX:RATE, or RATE.
        settings: An option of Flink, OPTION=VALUE, in place of the cluster's.
        latency: Of the network between task managers.
        watch: How long to watch the metrics; by default until they have changed three times.
        json: Print scenario, notes and what the job shows as one JSON document.
        out: Folder for NAME.toml and NAME.json.
    """
    given = overrides_of(
        record_bytes=record_bytes, service=service, rate=rate, settings=settings, latency=latency
    )
    prepare_folder(out)
    imported = read_flink(url, job, given, watch)
    text = scenario_toml(imported.scenario, _comments(imported))
    document = Document(
        scenario=scenario_document(imported.scenario), notes=imported.notes, measured=imported.measured
    )
    encoded = msgspec.json.encode(document)
    if out is not None:
        name = imported.scenario.name
        write_files(out, {f"{name}.toml": text.encode(), f"{name}.json": encoded})
    if json:
        write_json(encoded)
    elif out is None:
        sys.stdout.write(text)
    return 0


def _comments(imported: Imported) -> list[str]:
    told = imported.measured
    return [
        f"Read from {told.url}, Flink {told.flink}, job {told.job} ({told.job_name}).",
        *(f"- {note}" for note in imported.notes),
    ]
