"""The command ``netstack lint``."""

from __future__ import annotations

from pathlib import Path

from ..advise.lint.check import lint as lint_file
from ..advise.lint.flink_options import read_version
from ..base.file_kinds import FileKind
from ..base.writing import prepare_folder
from ..show.terminal.documents import LintReports, indented, present, write_files
from ..show.terminal.findings import print_lint
from .accepted_kinds import require_kind
from .arguments import Flag, usage_error
from .exit_status import FAILED

DOCUMENT = "lint.json"


def lint(*configs: Path, flink: str | None = None, json: Flag = False, out: Path | None = None) -> int:
    """Check the options of the network layer and of checkpoints in Flink configuration files.

    The exit status is 1 if there is an error or a warning, otherwise 0.

    Args:
        configs: One or more files: config.yaml, flink-conf.yaml of Flink 1.x, a FlinkDeployment or a
            ConfigMap.
        flink: Version of Flink whose rules apply, 1.12 to 2.3; by default the flinkVersion in the file if it
            is a FlinkDeployment, otherwise 2.3.
        json: Print the findings as one JSON document.
        out: Folder for lint.json.
    """
    if not configs:
        raise usage_error("lint", "give a configuration file, such as config.yaml")
    if flink is not None:
        read_version(flink, "netstack lint: --flink")
    for config in configs:
        require_kind(config, FileKind.CONFIGURATION)
    prepare_folder(out, DOCUMENT)
    reports = [lint_file(config, flink) for config in configs]
    ok = all(report.ok for report in reports)
    document = reports[0] if len(reports) == 1 else LintReports(ok=ok, reports=reports)
    if out is not None:
        write_files(out, {DOCUMENT: indented(document)})
    present(document, lambda _, console: print_lint(reports, console), json=json)
    return 0 if ok else FAILED
