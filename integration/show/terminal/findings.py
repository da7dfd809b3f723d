"""Findings on a terminal: the diagnosis of a job, and the check of Flink configuration files."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ...advise.diagnose.verdict import headline
from ...base.number_text import counted
from .console import print_assumptions, print_next

if TYPE_CHECKING:
    from ...advise.diagnose.findings import Finding
    from ...advise.diagnose.verdict import Diagnosis, WindowDiagnosis
    from ...advise.lint.check import LintReport

_INDENT = 2

_FINDING_STYLES = {"problem": "bold red", "notice": "bold yellow", "fine": "bold green"}
_LINT_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def print_diagnosis(diagnosis: Diagnosis, console: Console, *, following: str, verbose: bool = False) -> None:
    """Print for each window the verdict and the problems, and then the next command and the assumptions.

    With `verbose`, all findings and figures are printed, and the origin of the diagnosis. Otherwise each
    problem has its first evidence and its first action.
    """
    for window in diagnosis.windows:
        if len(diagnosis.windows) > 1:
            console.print(Text(f"{window.from_s:g}-{window.to_s:g} s", style="dim"))
        _print_window(window, console, verbose=verbose)
    if diagnosis.headroom is not None:
        console.print(Text(diagnosis.headroom))
        console.print()
    if verbose:
        console.print(Text(f"Source: {diagnosis.name}, {diagnosis.of}"), soft_wrap=True)
    print_next(following, console)
    print_assumptions(diagnosis.notes, console)


def _print_window(window: WindowDiagnosis, console: Console, *, verbose: bool) -> None:
    verdict = headline(window)
    for sentence in verdict:
        console.print(Text(sentence, style="bold"))
    console.print()
    for finding in window.findings:
        if verbose or finding.severity == "problem":
            _print_finding(finding, verdict, console, verbose=verbose)
            console.print()
    if verbose:
        for line in window.not_known:
            _print_item("not reported", line, console)
        checkpoints = counted(window.checkpoints, "checkpoint")
        console.print(Text(f"Window: {window.from_s:g}-{window.to_s:g} s, {checkpoints}."))


def _print_finding(finding: Finding, verdict: Sequence[str], console: Console, *, verbose: bool) -> None:
    """Print a finding. Its sentence is left out if the verdict already says it, unless `verbose`."""
    severity = (finding.severity, _FINDING_STYLES[finding.severity])
    rule = (f"  [{finding.rule}]" if verbose else "", "dim")
    console.print(Text.assemble(severity, f"  {finding.where}", rule))
    if verbose or finding.says not in verdict:
        _print_item("", finding.says, console)
    most = None if verbose else 1
    for mark, lines in (("evidence", finding.evidence), ("action", finding.next)):
        for line in lines[:most]:
            _print_item(mark, line, console)


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
        return (
            f"{report.file}: contains no options of Flink's network layer or of checkpoints, so nothing "
            "was checked."
        )
    checked = f"{report.file}: {counted(report.options, 'option')} of the network layer and checkpoints"
    counts = [
        counted(number, severity)
        for severity in _LINT_STYLES
        if (number := sum(each.severity == severity for each in report.findings))
    ]
    return f"{checked}, checked by the rules of Flink {report.flink}: {', '.join(counts) or 'no findings'}."
