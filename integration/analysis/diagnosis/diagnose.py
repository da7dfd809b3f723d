"""All rules, applied: what is wrong with a job, the most important first, and what could not be judged.

A rule fires by what is known. One that needs a figure which nobody measured says nothing, and that is told
beside the findings, so that its silence is not read as "all is well".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from netstack import VertexSteady

from ..checkpoint_times import NOT_TOLD, PHASES
from ..known_values import complete
from .checkpoint_rules import CHECKPOINT_RULES, phases
from .debloat_rules import DEBLOAT_RULES
from .finding import Finding
from .observation import Observation
from .pool_rules import POOL_RULES, subtasks_text
from .pressure_rules import PRESSURE_RULES
from .skew_rules import SKEW_RULES

Rule = Callable[[Observation], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *PRESSURE_RULES,
    *SKEW_RULES,
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


def diagnose(view: Observation) -> WindowDiagnosis:
    """Return what all rules find in one view, problems first."""
    findings = [finding for rule in RULES for finding in rule(view)]
    findings.sort(key=lambda finding: _ORDER.index(finding.severity))
    return WindowDiagnosis(
        from_s=view.steady.from_s,
        to_s=view.steady.to_s,
        checkpoints=view.steady.checkpoints,
        verdict=_verdict(findings),
        findings=findings,
        not_known=_gaps(view),
    )


def _verdict(findings: list[Finding]) -> str:
    for rule, words in _VERDICTS.items():
        places = [finding.where for finding in findings if finding.rule == rule]
        if places:
            return words if rule == "input-bound" else f"{words}, at {', '.join(places)}"
    return UNDECIDED


class _Figure(NamedTuple):
    """A figure that rules go by: of which vertices, and what cannot be said without it."""

    name: str
    values: Callable[[VertexSteady], Sequence[float | None]]
    of: Callable[[Observation, VertexSteady], bool]
    question: str


def _reads(view: Observation, vertex: VertexSteady) -> bool:
    return bool(view.inputs(vertex))


def _writes(view: Observation, vertex: VertexSteady) -> bool:
    return bool(view.outputs(vertex))


def _any(view: Observation, vertex: VertexSteady) -> bool:
    return True


def _debloats(view: Observation, vertex: VertexSteady) -> bool:
    return _reads(view, vertex) and view.config.debloat_enabled


_FIGURES = (
    _Figure("back-pressured time", lambda v: v.backpressured_ms_per_s, _any, "who waits"),
    _Figure("busy time", lambda v: v.busy_ms_per_s, _any, "who makes others wait"),
    _Figure("idle time", lambda v: v.idle_ms_per_s, _reads, "who waits for data"),
    _Figure("records per second", lambda v: v.records_in_per_s, _reads, "skew, what a record costs"),
    _Figure("bytes per second", lambda v: v.bytes_in_per_s, _reads, "how long it takes to drain what waits"),
    _Figure("inPoolUsage", lambda v: v.inPoolUsage, _reads, "on which side data wait"),
    _Figure("outPoolUsage", lambda v: v.outPoolUsage, _writes, "on which side data wait"),
    _Figure("inputQueueSize", lambda v: v.inputQueueSize, _reads, "how much data wait"),
    _Figure("outputQueueSize", lambda v: v.outputQueueSize, _writes, "how much data wait"),
    _Figure("debloatedBufferSize", lambda v: v.debloatedBufferSize, _debloats, "what debloating does"),
    _Figure(
        "estimatedTimeToConsumeBuffersMs",
        lambda v: v.estimatedTimeToConsumeBuffersMs,
        _debloats,
        "whether debloating keeps to its target",
    ),
)


def _gaps(view: Observation) -> list[str]:
    """Return what is not known, a line for each figure: where, and what cannot be judged without it."""
    return [*_of_vertices(view), *_of_checkpoints(view)]


def _of_vertices(view: Observation) -> Iterator[str]:
    for figure in _FIGURES:
        concerned = [vertex for vertex in view.vertices if figure.of(view, vertex)]
        unknown = [vertex for vertex in concerned if complete(figure.values(vertex)) is None]
        if unknown:
            where = ", ".join(_where(vertex, figure.values(vertex)) for vertex in unknown)
            yield f"{figure.name} of {where}, and so {figure.question}"


def _where(vertex: VertexSteady, values: Sequence[float | None]) -> str:
    missing = [subtask for subtask, value in enumerate(values) if value is None]
    return vertex.name if len(missing) == len(values) else subtasks_text(vertex, missing)


def _of_checkpoints(view: Observation) -> Iterator[str]:
    times = phases(view)
    if times is not None and NOT_TOLD in times.phases:
        names = [name for name in PHASES if name not in times.phases]
        yield f"{', '.join(names)} of checkpoints, and so which phase takes longest"
