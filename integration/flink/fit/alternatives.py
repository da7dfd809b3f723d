"""Decisions between two scenarios of a job that Flink's REST API describes in the same way.

Both are emulated for a few checkpoints. The import takes the alternative if its figures are nearer to the
measured ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from buffers import InsufficientBuffers
from netstack import InputError, JobFailedError, Scenario

from ...base.optional_figures import total
from ...runs.emulating import emulate
from ...runs.reference_comparison import ComparedFigure, compare
from ..read.measurements import Measured, reference_of
from .noted import Noted, Remark

_CHECKPOINTS = 5
"""Number of checkpoints that are emulated after the warm-up."""

_LEAST_S = 10.0
"""Minimum time in seconds of the warm-up, and of the time that is emulated after it."""

_DRAINS = 3
"""Warm-up as a multiple of the longest checkpoint. Queues have filled by then."""

_MOST_RECORDS = 3_000_000
"""Maximum number of records, counted at each vertex, in all emulations together."""

_MOST_OFF = 10.0
"""A figure that is off by more tolerances than this counts as off by this many."""

_NEARER, _NEARER_SHARE = 1.0, 0.15
"""An alternative is taken if it is nearer than the scenario by at least this many tolerances, and by at least
this share of the scenario's distance: if both are far off, a small difference says nothing.
"""


class Alternative(NamedTuple):
    """Another description of a vertex.

    `kinds` are the kinds of the remarks if the scenario stays as it is, and if the alternative is taken.
    `change` returns the scenario with the alternative. `known` has the values of both remarks.
    """

    vertex: str
    kinds: tuple[str, str]
    change: Callable[[Scenario], Scenario]
    known: Mapping[str, object] = {}


def changed(scenario: Scenario, taken: Iterable[Alternative]) -> Scenario:
    """Return the scenario with these alternatives."""
    for alternative in taken:
        scenario = alternative.change(scenario)
    return scenario


def nearest(
    scenario: Scenario,
    alternatives: Sequence[Alternative],
    shown: Measured,
    emulating: Callable[[float, float], None] = lambda done, total: None,
) -> Noted[list[Alternative]]:
    """Return the alternatives that are nearer to the figures that Flink reports than the scenario is.

    The same scenario and figures give the same result.

    Args:
        scenario: Scenario that is kept unless an alternative is clearly nearer.
        alternatives: Tried one after the other, each with those taken before.
        shown: Figures of the job.
        emulating: Called with the seconds emulated so far, and all seconds.
    """
    short = _shortened(scenario, shown)
    affordable = int(_MOST_RECORDS / max(1.0, _records(short, shown)))
    number = min(len(alternatives), max(0, affordable - 1))  # one emulation is of the scenario as it is
    done_s, all_s = 0.0, (1 + number) * short.duration_s

    def rows_of(tried: Scenario) -> Sequence[ComparedFigure] | None:
        nonlocal done_s
        rows = _rows(tried, shown, lambda at_s: emulating(done_s + at_s, all_s))
        done_s += short.duration_s
        return rows

    present = rows_of(short) if number else None
    taken: list[Alternative] = []
    remarks: list[Remark] = []
    for place, alternative in enumerate(alternatives):
        other, kind = alternative.change(short), alternative.kinds[0]
        known = dict(alternative.known)
        rows = rows_of(other) if present is not None and place < number else None
        if present is None or rows is None:
            known["why"] = "not_comparable" if place < number else "too_long"
        else:
            off_present, off_other = sum(map(_off, present)), sum(map(_off, rows))
            nearer, clearly = off_present - off_other, max(_NEARER, _NEARER_SHARE * off_present)
            is_taken = nearer >= clearly
            known["why"] = "alike"
            if abs(nearer) >= clearly:
                known |= {"why": "nearer", "rows": _evidence(present, rows, is_taken)}
            if is_taken:
                kind, short, present = alternative.kinds[1], other, rows
                taken.append(alternative)
        remarks.append(Remark(kind, alternative.vertex, known))
    return Noted(taken, tuple(remarks))


def _shortened(scenario: Scenario, shown: Measured) -> Scenario:
    """Return the scenario with a shorter warm-up, and only a few checkpoints after it."""
    longest_s = (shown.steady.end_to_end_ms_max or 0.0) / 1e3
    warmup_s = min(scenario.warmup_s, max(_LEAST_S, _DRAINS * longest_s))
    window_s = max(_LEAST_S, _CHECKPOINTS * (scenario.config.checkpoint_interval_s or 0.0))
    end_s = min(scenario.duration_s, warmup_s + window_s)
    return replace(scenario.ending_at(end_s), warmup_s=warmup_s)


def _records(scenario: Scenario, shown: Measured) -> float:
    """Return the number of records of an emulation, counted at each vertex, by the rates of the job."""
    rates = (vertex.records_in_per_s + vertex.records_out_per_s for vertex in shown.steady.vertices)
    return scenario.duration_s * sum(total(of_vertex) or 0.0 for of_vertex in rates)


def _rows(
    scenario: Scenario, shown: Measured, progress: Callable[[float], None]
) -> Sequence[ComparedFigure] | None:
    """Return the emulated figures beside those of the job; None: there are none to compare."""
    try:
        result = emulate(scenario, progress=progress)
        return compare([result], reference_of(shown, *scenario.windows[0])).rows
    except (InsufficientBuffers, InputError, JobFailedError):
        return None


def _off(row: ComparedFigure) -> float:
    """Return the distance of an emulated figure from the job's, in tolerances."""
    if row.ours is None:
        return _MOST_OFF
    difference = abs(row.ours.median - row.flink.median)
    return min(_MOST_OFF, difference / row.tolerance) if row.tolerance else 0.0


def _evidence(
    present: Sequence[ComparedFigure], other: Sequence[ComparedFigure], is_taken: bool
) -> tuple[ComparedFigure, ComparedFigure]:
    """Return the figure that speaks most for the decision, as in the scenario and in the alternative."""
    sign = 1.0 if is_taken else -1.0
    return max(zip(present, other, strict=True), key=lambda pair: sign * (_off(pair[0]) - _off(pair[1])))
