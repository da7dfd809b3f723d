"""The command ``netstack lint``, and its report in the terminal."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..analysis.wording import counted
from ..errors import UsageError
from ..lint.catalogue import read_version
from ..lint.check import LintReport
from ..lint.check import lint as lint_file
from ..lint.rules import Remark
from ..report.output import indented, prepare_folder, to_stdout, write_files, write_json
from .arguments import Flag
from .exit_status import FAILED

DOCUMENT = "lint.json"

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


class LintReports(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON document of several files."""

    schema: str = "netstack.lint-reports/1"
    ok: bool
    reports: list[LintReport]


def lint(*configs: Path, flink: str | None = None, json: Flag = False, out: Path | None = None) -> int:
    """Check Flink configuration files for the network layer; exit status 1 where something is wrong.

    Args:
        configs: A config.yaml, a flink-conf.yaml of Flink 1.x, a FlinkDeployment or a ConfigMap; or several.
        flink: Version whose rules are applied, 1.12 to 2.2; by default that of a FlinkDeployment.
        json: Print the findings as one JSON document.
        out: Folder for lint.json.
    """
    if not configs:
        raise UsageError(["netstack lint: name a configuration file, such as config.yaml"])
    if flink is not None:
        read_version(flink, "netstack lint: --flink")
    prepare_folder(out, DOCUMENT)
    reports = [lint_file(config, flink) for config in configs]
    ok = all(report.ok for report in reports)
    document = msgspec.json.encode(reports[0] if len(reports) == 1 else LintReports(ok=ok, reports=reports))
    if out is not None:
        write_files(out, {DOCUMENT: indented(document)})
    if json:
        write_json(document)
    else:
        console = to_stdout()
        for report in reports:
            print_lint(report, console)
    return 0 if ok else FAILED


def print_lint(report: LintReport, console: Console) -> None:
    """Print each finding with its line, and their number."""
    for finding in report.findings:
        _print_finding(finding, console)
    console.print(Text(summary(report), style="bold"), highlight=False)


def summary(report: LintReport) -> str:
    """Return the result in one sentence."""
    if not report.options and not report.findings:
        return f"{report.file}: nothing of Flink's network layer or checkpoints here, so nothing was checked."
    looked = f"{report.file}: {counted(report.options, 'option')} of the network layer and checkpoints"
    counts = [
        counted(number, severity)
        for severity in _STYLES
        if (number := sum(each.severity == severity for each in report.findings))
    ]
    return f"{looked}, checked by Flink {report.flink}: {', '.join(counts) or 'nothing to say'}."


def _print_finding(finding: Remark, console: Console) -> None:
    where = "" if finding.line is None else f"line {finding.line}: "
    head = Text.assemble((where, "bold"), (finding.severity, _STYLES[finding.severity]), f" [{finding.rule}]")
    console.print(head, highlight=False)
    sentence = f"{finding.option}: {finding.message}" + (f"; {finding.advice}" if finding.advice else "")
    console.print(Padding(Text(sentence), (0, 0, 0, 2)), highlight=False)
