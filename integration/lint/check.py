"""Checks a Flink configuration file: all rules, in the order of its lines."""

from __future__ import annotations

import re
from pathlib import Path

from netstack import PRESETS, ScenarioError

from .checkpoints import about_checkpoints
from .config_file import read_config_file
from .debloating import about_debloating
from .findings import Finding, LintReport
from .memory import about_memory
from .names import about_format, about_names, about_repeated, concerns
from .values import about_ranges, read_settings

DEFAULT_VERSION = "2.2"

_SEVERITIES = ("error", "warning", "note")
_COMBINATIONS = (about_debloating, about_checkpoints, about_memory)


def lint(path: Path, version: str = DEFAULT_VERSION) -> LintReport:
    """Check a configuration file for the network layer and checkpoints, by the rules of a version of Flink.

    Any 1.x is checked as 1.20, and any 2.x as 2.2. Combinations are looked at once each value is in its
    range: what is made of a wrong value says nothing.

    Raises:
        ScenarioError: the file cannot be read, or there are no rules for that version.
    """
    preset = preset_of(version)
    is_flink_1 = preset.startswith("flink-1")
    file = read_config_file(path)
    settings, wrong = read_settings(file.entries, PRESETS[preset], is_flink_1)
    findings = [
        *about_format(file, is_flink_1),
        *about_names(file.entries, is_flink_1),
        *about_repeated(file),
        *wrong,
    ]
    ranges = list(about_ranges(settings))
    findings += ranges
    if not ranges:
        findings += [finding for rule in _COMBINATIONS for finding in rule(settings)]
    return LintReport(
        file=str(path),
        flink=version,
        options=len({entry.name for entry in file.entries if concerns(entry.name)}),
        ok=all(finding.severity == "note" for finding in findings),
        findings=sorted(findings, key=_place),
    )


def preset_of(version: str) -> str:
    """Return the preset whose rules hold for a version such as "2.2", "1.20" or "2".

    Raises:
        ScenarioError: there is none.
    """
    major = re.fullmatch(r"([12])(\.[0-9]+){0,2}", version)
    if major is None:
        known = " or ".join(preset.removeprefix("flink-") for preset in PRESETS)
        raise ScenarioError(
            [f"netstack lint: --flink is {version!r}; it must be {known}, or another 1.x or 2.x"]
        )
    return "flink-1.20" if major[1] == "1" else "flink-2.2"


def _place(finding: Finding) -> tuple[int, int]:
    return finding.line or 0, _SEVERITIES.index(finding.severity)
