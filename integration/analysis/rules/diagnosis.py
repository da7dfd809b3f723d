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
from . import checkpoints, debloat_pitfalls, debloating, pools, pressure, unaligned
from .finding import Finding
from .observation import Observation

Rule = Callable[[Observation], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    pressure.operator_bound,
    pressure.at_its_limit,
    pressure.not_bound,
    pressure.alternating,
    pressure.skewed_records,
    pressure.skewed_cost,
    pressure.unequal_writers,
    pools.network_bound,
    pools.some_readers_full,
    pools.input_full,
    pools.output_full_input_free,
    unaligned.stands_still,
    checkpoints.uneven,
    checkpoints.slow_phase,
    checkpoints.late_source,
    checkpoints.back_to_back,
    checkpoints.failed,
    checkpoints.stores_data_in_flight,
    debloating.at_the_minimum,
    debloating.off_target,
    debloating.smaller_than_a_record,
    debloating.at_the_maximum,
)
"""What `netstack diagnose` asks; of findings of one severity, those of an earlier rule come first."""

PITFALLS: tuple[Rule, ...] = (
    debloat_pitfalls.slow_input,
    debloat_pitfalls.large_records,
    debloat_pitfalls.minimum_size,
    debloat_pitfalls.high_parallelism,
    debloat_pitfalls.window_bursts,
    debloat_pitfalls.moving_load,
    debloat_pitfalls.skewed_consumers,
    debloat_pitfalls.back_to_back,
)
"""What `netstack tune` asks of each point with debloating: the documented ways in which it fails."""

_ORDER = ("problem", "notice", "fine")

_VERDICTS = {
    "operator-bound": "operator bound, at {}",
    "network-bound": "network bound, at {}",
    "source-bound": "source bound, at {}",
    "alternating": "bound by turns, at {}",
    "at-its-limit": "at its limit: {}; whether others wait for it is not told",
    "near-its-limit": "operator bound, nearly, at {}",
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
    """The findings about a job, by window, and the figures that they are based on."""

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
        not_known=list(_gaps(view)),
    )


def _verdict(findings: list[Finding]) -> str:
    for rule, words in _VERDICTS.items():
        places = [finding.where for finding in findings if finding.rule == rule]
        if places:
            return words.format(", ".join(places))
    return UNDECIDED


class _Figure(NamedTuple):
    """A figure that rules go by: its name to users and in `VertexSteady`, and what it is for."""

    name: str
    field: str
    of: Callable[[Observation, VertexSteady], object]
    """Whether a rule needs it of a vertex."""
    question: str
    """What cannot be said without it."""


def _any(view: Observation, vertex: VertexSteady) -> bool:
    return True


def _debloats(view: Observation, vertex: VertexSteady) -> bool:
    return view.config.debloat_enabled and bool(view.inputs(vertex))


_ESTIMATE = "estimatedTimeToConsumeBuffersMs"
_READS, _WRITES = Observation.inputs, Observation.outputs

_FIGURES = (
    _Figure("back-pressured time", "backpressured_ms_per_s", _any, "who waits"),
    _Figure("busy time", "busy_ms_per_s", _any, "who makes others wait"),
    _Figure("idle time", "idle_ms_per_s", _READS, "who waits for data"),
    _Figure("records per second", "records_in_per_s", _READS, "skew, what a record costs"),
    _Figure("bytes per second", "bytes_in_per_s", _READS, "how long it takes to drain what waits"),
    _Figure("inPoolUsage", "inPoolUsage", _READS, "on which side data wait"),
    _Figure("outPoolUsage", "outPoolUsage", _WRITES, "on which side data wait"),
    _Figure("inputQueueSize", "inputQueueSize", _READS, "how much data wait"),
    _Figure("outputQueueSize", "outputQueueSize", _WRITES, "how much data wait"),
    _Figure("debloatedBufferSize", "debloatedBufferSize", _debloats, "what debloating does"),
    _Figure(_ESTIMATE, _ESTIMATE, _debloats, "whether debloating keeps to its target"),
)


def _gaps(view: Observation) -> Iterator[str]:
    """Yield what is not known, a line for each figure: where, and what cannot be judged without it."""
    for figure in _FIGURES:
        concerned = [vertex for vertex in view.vertices if figure.of(view, vertex)]
        values = [(vertex, getattr(vertex, figure.field)) for vertex in concerned]
        gaps = [_where(vertex, each) for vertex, each in values if complete(each) is None]
        if gaps:
            yield f"{figure.name} of {', '.join(gaps)}, and so {figure.question}"
    times = checkpoints.phases(view)
    if times is not None and NOT_TOLD in times.phases:
        names = [name for name in PHASES if name not in times.phases]
        yield f"{', '.join(names)} of checkpoints, and so which phase takes longest"


def _where(vertex: VertexSteady, values: Sequence[float | None]) -> str:
    missing = [subtask for subtask, value in enumerate(values) if value is None]
    return vertex.name if len(missing) == len(values) else pools.subtasks_text(vertex, missing)
