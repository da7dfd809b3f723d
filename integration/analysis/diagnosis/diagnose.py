"""All rules, applied: what is wrong with a job, the most important first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from .checkpoint_rules import CHECKPOINT_RULES
from .debloat_rules import DEBLOAT_RULES
from .finding import Finding
from .gaps import gaps
from .network_rules import NETWORK_RULES
from .observation import Observation
from .pool_rules import POOL_RULES
from .pressure_rules import PRESSURE_RULES
from .skew_rules import SKEW_RULES

Rule = Callable[[Observation], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *PRESSURE_RULES,
    *SKEW_RULES,
    *NETWORK_RULES,
    *POOL_RULES,
    *CHECKPOINT_RULES,
    *DEBLOAT_RULES,
)
"""Every rule; of findings of one severity, those of an earlier rule come first."""

_ORDER = ("problem", "notice", "fine")

_VERDICTS = {
    "operator-bound": "operator bound",
    "network-bound": "network bound",
    "source-bound": "source bound",
    "alternating": "bound by turns",
    "near-its-limit": "operator bound, nearly",
    "input-bound": "input bound",
}
"""What limits the throughput of a job, by the rule that says so; earlier ones count first."""

UNDECIDED = "undecided: no rule says what limits the throughput"


class WindowDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one window; times in seconds."""

    from_s: float
    to_s: float
    checkpoints: int
    """How many were completed."""
    verdict: str
    """What limits the throughput, and where."""
    findings: list[Finding]
    not_known: list[str] = []
    """What could not be judged, and for want of which figure."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints: of which job, by which figures, and what was found."""

    schema: str = "netstack.diagnosis/1"
    name: str
    of: str
    """How the figures came about: seed, versions and clock, or the address of a Flink job."""
    notes: list[str] = []
    """What could not be read of a Flink job, or not be said."""
    windows: list[WindowDiagnosis]


def diagnose(seen: Observation) -> WindowDiagnosis:
    """Return what all rules find in one view, problems first."""
    findings = [finding for rule in RULES for finding in rule(seen)]
    findings.sort(key=lambda finding: _ORDER.index(finding.severity))
    return WindowDiagnosis(
        from_s=seen.steady.from_s,
        to_s=seen.steady.to_s,
        checkpoints=seen.steady.checkpoints,
        verdict=_verdict(findings),
        findings=findings,
        not_known=gaps(seen),
    )


def _verdict(findings: list[Finding]) -> str:
    for rule, words in _VERDICTS.items():
        places = [finding.where for finding in findings if finding.rule == rule]
        if places:
            return words if rule == "input-bound" else f"{words}, at {', '.join(places)}"
    return UNDECIDED
