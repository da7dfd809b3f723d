"""A diagnosis as people read it, on an 80-column terminal."""

from __future__ import annotations

from textwrap import wrap

from rich.console import Console
from rich.text import Text

from ..analysis.diagnosis.diagnose import Diagnosis, WindowDiagnosis
from ..analysis.diagnosis.finding import Finding

_STYLES = {"problem": "bold red", "notice": "bold yellow", "fine": "bold green"}

_INDENT = 2


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print what was looked at, and for each window the verdict and every finding."""
    console.print(Text(diagnosis.name, style="bold"))
    console.print(Text(diagnosis.of), soft_wrap=True)
    for note in diagnosis.notes:
        _print_item("note", note, console)
    for window in diagnosis.windows:
        _print_window(window, console)


def _print_window(window: WindowDiagnosis, console: Console) -> None:
    console.print()
    checkpoints = f"{window.checkpoints} checkpoint{'' if window.checkpoints == 1 else 's'}"
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
    style = _STYLES[finding.severity]
    console.print(
        Text.assemble((finding.severity, style), f"  {finding.where}  ", (f"[{finding.rule}]", "dim"))
    )
    _print_item("", finding.says, console)
    for line in finding.evidence:
        _print_item("by", line, console)
    for line in finding.next:
        _print_item("do", line, console)


def _print_item(mark: str, line: str, console: Console) -> None:
    """Print a text with a mark before its first line, and its other lines below that."""
    lead = f"{mark}: " if mark else ""
    for part in wrap(line, console.width - _INDENT - len(lead), break_on_hyphens=False):
        console.print(Text.assemble(" " * _INDENT, (lead, "dim"), part))
        lead = " " * len(lead)
