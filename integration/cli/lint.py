"""The command ``netstack lint``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from netstack import ScenarioError

from ..flink.lint.check import lint as lint_file
from ..flink.lint.findings import LintReport
from ..report.lint_text import print_lint
from ..report.output import prepare_folder, to_stdout, write_files, write_json
from .arguments import Flag

FOUND = 1
DOCUMENT = "lint.json"


class LintReports(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints of several files."""

    schema: str = "netstack.lint-reports/1"
    ok: bool
    reports: list[LintReport]


def lint(*configs: Path, flink: str | None = None, json: Flag = False, out: Path | None = None) -> int:
    """Check Flink configuration files for the network layer; exit status 1 where something is wrong.

    Args:
        configs: A config.yaml, a flink-conf.yaml of Flink 1.x, a FlinkDeployment or a ConfigMap; or several.
        flink: Version by whose rules they are checked, 1.12 to 2.2; by default what a FlinkDeployment says.
        json: Print what is found as one JSON document.
        out: Folder for lint.json.
    """
    if not configs:
        raise ScenarioError(["netstack lint: name a configuration file, such as config.yaml"])
    prepare_folder(out, DOCUMENT)
    reports = [lint_file(config, flink) for config in configs]
    ok = all(report.ok for report in reports)
    document = msgspec.json.encode(reports[0] if len(reports) == 1 else LintReports(ok=ok, reports=reports))
    if out is not None:
        write_files(out, {DOCUMENT: msgspec.json.format(document, indent=1) + b"\n"})
    if json:
        write_json(document)
    else:
        console = to_stdout()
        for report in reports:
            print_lint(report, console)
    return 0 if ok else FOUND
