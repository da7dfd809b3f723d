"""The tables of rules, and the diagnosis that they give: findings, problems first, and unknown figures.

A rule that needs an unmeasured figure finds nothing. A diagnosis lists these figures, so that a missing
finding is not mistaken for "no problem".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from netstack import VertexSteady

from ...base.optional_figures import complete
from ...runs.checkpoint_times import PHASES, UNREPORTED
from . import back_pressure_rules, checkpoint_rules, debloating_rules
from .findings import Finding
from .observation import Observation
from .words import subtasks_text

RULES = back_pressure_rules.RULES + checkpoint_rules.RULES + debloating_rules.RULES
"""The rules of `diagnose`. Findings of one severity are in the order of their rules."""

_ORDER = ("problem", "notice", "fine")

_VERDICTS = {
    "operator-bound": "operator bound, at {}",
    "network-bound": "network bound, at {}",
    "source-bound": "source bound, at {}",
    "alternating": "operator bound in bursts, at {}",
    "at-its-limit": "at its limit: {}; whether other tasks wait for it is not reported",
    "near-its-limit": "nearly operator bound, at {}",
    "input-bound": "input bound",
}
"""Phrases for the verdict, by rule: what limits the job's throughput. Earlier rules take precedence."""

_UNSTEADY = "; the job is not steady"
"""End of the verdict on a job that changed while its figures were measured."""

UNDECIDED = "undecided: none of the findings limits the throughput"


class WindowDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one window; times in seconds."""

    from_s: float
    to_s: float
    checkpoints: int
    """Number of completed checkpoints."""
    verdict: str
    """The limit of the throughput, and the vertex or exchange that causes it."""
    findings: list[Finding]
    changes: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Costs, rates and queues that changed while the figures were measured, a sentence each; unset: none."""
    not_known: list[str] = []
    """Unknown figures, each with the question that stays open without it."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The findings about a job, by window, and the figures that they are based on."""

    schema: str = "netstack.diagnosis/1"
    name: str
    of: str
    """Origin of the figures: seed, versions and clock of a run, or the address of a Flink cluster."""
    notes: list[str] = []
    """Notes on figures of a Flink job that could not be read."""
    windows: list[WindowDiagnosis]
    headroom: str | None = None
    """How much more load the job can take, in a sentence; None: it is at its limit, or this is unknown."""


def diagnose(view: Observation) -> WindowDiagnosis:
    """Return the findings of all rules of `diagnose` for one observation, problems first."""
    findings = [finding for find in RULES for finding in find(view)]
    findings.sort(key=lambda finding: _ORDER.index(finding.severity))
    return WindowDiagnosis(
        from_s=view.steady.from_s,
        to_s=view.steady.to_s,
        checkpoints=view.steady.checkpoints,
        verdict=_verdict(findings) + (_UNSTEADY if view.changes else ""),
        findings=findings,
        changes=list(view.changes) or msgspec.UNSET,
        not_known=list(_gaps(view)),
    )


_NO_TIMES = ("back-to-back", "data-in-flight-stored")
"""Rules on checkpoints whose findings say nothing about durations; `headline` leaves them out."""


def headline(window: WindowDiagnosis) -> list[str]:
    """Return sentences on what limits the throughput in a window, on its checkpoints, and on what changed."""
    limits = [finding.says for rule in _VERDICTS for finding in window.findings if finding.rule == rule]
    checkpoints = [
        finding.says
        for finding in window.findings
        if finding.where.startswith("checkpoints") and finding.rule not in _NO_TIMES
    ]
    unknown = " Some figures are not reported." if window.not_known else ""
    if not checkpoints and not window.checkpoints:
        checkpoints = ["No checkpoint was completed."]
    changed = [f"The job is not steady. {' '.join(window.changes)}"] if window.changes else []
    return [*(limits[:2] or [f"None of the findings limits the job.{unknown}"]), *checkpoints[:1], *changed]


def _verdict(findings: list[Finding]) -> str:
    for rule, words in _VERDICTS.items():
        places = [finding.where for finding in findings if finding.rule == rule]
        if places:
            return words.format(", ".join(places))
    return UNDECIDED


class _Figure(NamedTuple):
    """A figure that rules need: its name in messages, its field of `VertexSteady`, and its purpose."""

    name: str
    field: str
    of: Callable[[Observation, VertexSteady], object]
    """Whether any rule needs this figure for a vertex."""
    question: str
    """The question that stays open without the figure."""


def _any(view: Observation, vertex: VertexSteady) -> bool:
    return True


def _debloats(view: Observation, vertex: VertexSteady) -> bool:
    return view.config.debloat_enabled and bool(view.inputs(vertex))


_ESTIMATE = "estimatedTimeToConsumeBuffersMs"
_READS, _WRITES = Observation.inputs, Observation.outputs

_FIGURES = (
    _Figure("back-pressured time", "backpressured_ms_per_s", _any, "which vertex has to wait"),
    _Figure("busy time", "busy_ms_per_s", _any, "which vertex makes others wait"),
    _Figure("idle time", "idle_ms_per_s", _READS, "which vertex waits for data"),
    _Figure(
        "records per second", "records_in_per_s", _READS, "how uneven the load is, and what a record costs"
    ),
    _Figure("bytes per second", "bytes_in_per_s", _READS, "how long it takes to consume queued data"),
    _Figure("inPoolUsage", "inPoolUsage", _READS, "on which side data waits"),
    _Figure("outPoolUsage", "outPoolUsage", _WRITES, "on which side data waits"),
    _Figure("inputQueueSize", "inputQueueSize", _READS, "how much data waits"),
    _Figure("outputQueueSize", "outputQueueSize", _WRITES, "how much data waits"),
    _Figure("debloatedBufferSize", "debloatedBufferSize", _debloats, "what debloating does"),
    _Figure(_ESTIMATE, _ESTIMATE, _debloats, "whether debloating keeps to its target"),
)


def _gaps(view: Observation) -> Iterator[str]:
    """Yield a line for each unknown figure: where it is missing, and which question stays open."""
    for figure in _FIGURES:
        concerned = [vertex for vertex in view.vertices if figure.of(view, vertex)]
        values = [(vertex, getattr(vertex, figure.field)) for vertex in concerned]
        gaps = [_where(vertex, each) for vertex, each in values if complete(each) is None]
        if gaps:
            yield f"{figure.name} of {', '.join(gaps)}; so it is unknown {figure.question}"
    times = checkpoint_rules.phases(view)
    if times is not None and UNREPORTED in times.phases:
        names = [name for name in PHASES if name not in times.phases]
        yield (
            f"duration of these checkpoint phases: {', '.join(names)}; so it is unknown which phase takes "
            "longest"
        )


def _where(vertex: VertexSteady, values: Sequence[float | None]) -> str:
    missing = [subtask for subtask, value in enumerate(values) if value is None]
    return vertex.name if len(missing) == len(values) else subtasks_text(vertex, missing)
