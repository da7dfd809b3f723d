"""What was found in a configuration file, for an 80-column terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..flink.lint.findings import Finding, LintReport

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def print_lint(report: LintReport, console: Console) -> None:
    """Print each finding with its line, and how many there are."""
    for finding in report.findings:
        _print_finding(finding, console)
    console.print(Text(summary(report), style="bold"), highlight=False)


def summary(report: LintReport) -> str:
    """Return the one sentence that says how it went."""
    if not report.options and not report.findings:
        return f"{report.file}: nothing of Flink's network layer or checkpoints here, so nothing was checked."
    looked = f"{report.file}: {_count(report.options, 'option')} of the network layer and checkpoints"
    found = [
        _count(number, severity)
        for severity in _STYLES
        if (number := sum(each.severity == severity for each in report.findings))
    ]
    return f"{looked}, checked by Flink {report.flink}: {', '.join(found) or 'nothing to say'}."


def _print_finding(finding: Finding, console: Console) -> None:
    where = "" if finding.line is None else f"line {finding.line}: "
    head = Text.assemble((where, "bold"), (finding.severity, _STYLES[finding.severity]), f" [{finding.rule}]")
    console.print(head, highlight=False)
    sentence = f"{finding.option}: {finding.message}" + (f"; {finding.advice}" if finding.advice else "")
    console.print(Padding(Text(sentence), (0, 0, 0, 2)), highlight=False)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
