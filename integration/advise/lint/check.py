"""Check of a Flink configuration file by all rules."""

from __future__ import annotations

from pathlib import Path

import msgspec

from netstack import NEWEST_FLINK, PRESETS, FlinkVersion, preset_for

from .config_files import ConfigPart, read_config_file
from .flink_options import read_version
from .rules import (
    LintRemark,
    about_combinations,
    about_format,
    about_names,
    about_ranges,
    about_repeated,
    about_usual,
    concerns,
    read_settings,
)

_SEVERITIES = ("error", "warning", "note")


class LintReport(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of a file."""

    schema: str = "netstack.lint/1"
    file: str
    flink: str
    """The version of Flink whose rules were applied."""
    options: int
    """Number of the file's options that concern the network layer or checkpoints."""
    ok: bool
    """Whether there is neither an error nor a warning."""
    findings: list[LintRemark]


def lint(path: Path, flink: str | None = None) -> LintReport:
    """Check the options of a file for the network layer and checkpoints, by the rules of a Flink version.

    `flink` is a version such as "2.2", "1.18.1" or "2". None: the version in the file if it states one, as a
    FlinkDeployment does, or else the latest. A file may have several independent parts.

    Raises:
        ScenarioError: the file cannot be read, or there are no rules for that version.
    """
    given = None if flink is None else read_version(flink, "flink")
    parts = read_config_file(path)
    checked = [(part, given or _version_of(part, path)) for part in parts]
    findings = [finding for part, version in checked for finding in _findings(part, version, path.name)]
    entries = [entry for part in parts for entry in part.entries]
    versions = dict.fromkeys(str(version) for _, version in checked) or [str(given or NEWEST_FLINK)]
    return LintReport(
        file=str(path),
        flink=flink or ", ".join(versions),
        options=len({(entry.name, entry.line) for entry in entries if concerns(entry.name)}),
        ok=all(finding.severity == "note" for finding in findings),
        findings=sorted(findings, key=lambda each: (each.line or 0, _SEVERITIES.index(each.severity))),
    )


def _version_of(part: ConfigPart, path: Path) -> FlinkVersion:
    return NEWEST_FLINK if part.version is None else read_version(part.version, f"{path}: flinkVersion")


def _findings(part: ConfigPart, version: FlinkVersion, name: str) -> list[LintRemark]:
    """Check one part of a file. Combinations are checked only if each value is in its range."""
    settings, wrong = read_settings(part.entries, PRESETS[preset_for(str(version))], version)
    ranges = list(about_ranges(settings))
    findings = [
        *about_format(part, version, name),
        *about_names(part.entries, version),
        *about_repeated(part, version),
        *wrong,
        *ranges,
    ]
    if not ranges:
        findings += about_usual(settings)
        findings += about_combinations(settings)
    return findings
