"""Findings on a terminal: the diagnosis of a job, and the check of Flink configuration files."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..number_text import counted

if TYPE_CHECKING:
    from ..diagnosis.observation import Finding
    from ..diagnosis.rule_table import Diagnosis
    from ..lint.check import LintReport

_INDENT = 2

_FINDING_STYLES = {"problem": "bold red", "notice": "bold yellow", "fine": "bold green"}
_LINT_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print the origin of a diagnosis, and for each window the verdict and all findings."""
    console.print(Text(diagnosis.name, style="bold"))
    console.print(Text(diagnosis.of), soft_wrap=True)
    for note in diagnosis.notes:
        _print_item("note", note, console)
    for window in diagnosis.windows:
        console.print()
        checkpoints = counted(window.checkpoints, "checkpoint")
        head = (f"{window.from_s:g}-{window.to_s:g} s", "bold")
        console.print(Text.assemble(head, f", {checkpoints}: ", (window.verdict, "bold")))
        if not window.findings:
            console.print("No rule has anything to say.")
        for finding in window.findings:
            console.print()
            _print_finding(finding, console)
        if window.not_known:
            console.print()
        for line in window.not_known:
            _print_item("not known", line, console)


def _print_finding(finding: Finding, console: Console) -> None:
    severity = (finding.severity, _FINDING_STYLES[finding.severity])
    console.print(Text.assemble(severity, f"  {finding.where}  ", (f"[{finding.rule}]", "dim")))
    _print_item("", finding.says, console)
    for line in finding.evidence:
        _print_item("by", line, console)
    for line in finding.next:
        _print_item("do", line, console)


def _print_item(mark: str, line: str, console: Console) -> None:
    """Print a wrapped text with a mark before its first line."""
    lead = f"{mark}: " if mark else ""
    for part in wrap(line, console.width - _INDENT - len(lead), break_on_hyphens=False):
        console.print(Text.assemble(" " * _INDENT, (lead, "dim"), part))
        lead = " " * len(lead)


def print_lint(reports: Sequence[LintReport], console: Console) -> None:
    """Print for each file the findings with their lines, and the number of findings."""
    for report in reports:
        for each in report.findings:
            where = "" if each.line is None else f"line {each.line}: "
            severity = (each.severity, _LINT_STYLES[each.severity])
            console.print(Text.assemble((where, "bold"), severity, f" [{each.rule}]"), highlight=False)
            sentence = f"{each.option}: {each.message}" + (f"; {each.advice}" if each.advice else "")
            console.print(Padding(Text(sentence), (0, 0, 0, _INDENT)), highlight=False)
        console.print(Text(lint_summary(report), style="bold"), highlight=False)


def lint_summary(report: LintReport) -> str:
    """Return the number of options and findings of a file, as a sentence."""
    if not report.options and not report.findings:
        return f"{report.file}: nothing of Flink's network layer or checkpoints here, so nothing was checked."
    checked = f"{report.file}: {counted(report.options, 'option')} of the network layer and checkpoints"
    counts = [
        counted(number, severity)
        for severity in _LINT_STYLES
        if (number := sum(each.severity == severity for each in report.findings))
    ]
    return f"{checked}, checked by Flink {report.flink}: {', '.join(counts) or 'nothing to say'}."
