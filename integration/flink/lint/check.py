"""Checks a Flink configuration file: all rules, in the order of its lines."""

from __future__ import annotations

from pathlib import Path

from netstack import PRESETS

from .catalogue import LATEST, Version, read_version
from .combinations import about_combinations
from .config_file import ConfigPart, read_config_file
from .file_settings import LintReport, Remark
from .single_options import (
    about_format,
    about_names,
    about_ranges,
    about_repeated,
    about_usual,
    concerns,
    read_settings,
)

_SEVERITIES = ("error", "warning", "note")


def lint(path: Path, flink: str | None = None) -> LintReport:
    """Check a configuration file for the network layer and checkpoints, by the rules of a version of Flink.

    A version is named as "2.2", "1.18.1" or "2"; None: the one that the file names, as a FlinkDeployment
    does, else the latest one. A file may have several parts, which have nothing to do with each other.

    Raises:
        ScenarioError: the file cannot be read, or there are no rules for that version.
    """
    given = None if flink is None else read_version(flink, "netstack lint: --flink")
    parts = read_config_file(path)
    checked = [(part, given or _version_of(part, path)) for part in parts]
    findings = [finding for part, version in checked for finding in _findings(part, version, path.name)]
    entries = [entry for part in parts for entry in part.entries]
    versions = dict.fromkeys(str(version) for _, version in checked) or [str(given or LATEST)]
    return LintReport(
        file=str(path),
        flink=flink or ", ".join(versions),
        options=len({(entry.name, entry.line) for entry in entries if concerns(entry.name)}),
        ok=all(finding.severity == "note" for finding in findings),
        findings=sorted(findings, key=_place),
    )


def _version_of(part: ConfigPart, path: Path) -> Version:
    return LATEST if part.version is None else read_version(part.version, f"{path}: flinkVersion")


def _findings(part: ConfigPart, version: Version, name: str) -> list[Remark]:
    """Look at combinations once each value is in its range: what is made of a wrong one says nothing."""
    settings, wrong = read_settings(part.entries, PRESETS[version.preset], version)
    ranges = list(about_ranges(settings))
    findings = [
        *about_format(part, version, name),
        *about_names(part.entries, version),
        *about_repeated(part, version),
        *wrong,
        *ranges,
    ]
    if not ranges:
        findings += about_usual(part.entries, settings)
        findings += about_combinations(settings)
    return findings


def _place(finding: Remark) -> tuple[int, int]:
    return finding.line or 0, _SEVERITIES.index(finding.severity)
