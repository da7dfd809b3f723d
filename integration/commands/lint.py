"""The command ``netstack lint``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..lint.check import DEFAULT_VERSION
from ..lint.check import lint as lint_file
from ..lint.text import print_lint
from .compare import Flag
from .output import prepare_folder, to_stdout, write_files, write_json

FOUND = 1
DOCUMENT = "lint.json"


def lint(
    config: Path, /, *, flink: str = DEFAULT_VERSION, json: Flag = False, out: Path | None = None
) -> int:
    """Check a Flink configuration file for the network layer; exit status 1 where something is wrong.

    Args:
        config: A config.yaml, or a flink-conf.yaml of Flink 1.x.
        flink: Version by whose rules it is checked, as 2.2 or 1.20.
        json: Print what is found as one JSON document.
        out: Folder for lint.json.
    """
    prepare_folder(out, DOCUMENT)
    report = lint_file(config, flink)
    document = msgspec.json.encode(report)
    if out is not None:
        write_files(out, {DOCUMENT: msgspec.json.format(document, indent=1) + b"\n"})
    if json:
        write_json(document)
    else:
        print_lint(report, to_stdout())
    return 0 if report.ok else FOUND
