"""Decisions between two scenarios of a job that Flink's REST API describes in the same way.

Both are emulated for a few checkpoints. The import takes the alternative if its figures are nearer to the
measured ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from operator import itemgetter
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

    `kinds` are the kinds of the remarks if the scenario stays as it is, and if the alternative is taken. With
    None as the first one, it is tried only if a figure of the scenario is outside its tolerance.
    `forms` each return the scenario with one form of the alternative; the nearest form counts. `known` has
    the values of both remarks.
    """

    vertex: str
    kinds: tuple[str | None, str]
    forms: Sequence[Callable[[Scenario], Scenario]]
    known: Mapping[str, object] = {}


def changed(scenario: Scenario, taken: Iterable[Alternative]) -> Scenario:
    """Return the scenario with these alternatives, each in its first form."""
    for alternative in taken:
        scenario = alternative.forms[0](scenario)
    return scenario


def nearest(
    scenario: Scenario,
    alternatives: Sequence[Alternative],
    shown: Measured,
    emulating: Callable[[float, float], None] = lambda done, total: None,
) -> Noted[list[Alternative]]:
    """Return the alternatives that are nearer to the figures that Flink reports than the scenario is, each
    with its nearest form only.

    The same scenario and figures give the same result.

    Args:
        scenario: Scenario that is kept unless an alternative is clearly nearer.
        alternatives: Tried one after the other, each with those taken before.
        shown: Figures of the job.
        emulating: Called with the seconds emulated so far, and all seconds.
    """
    short = _shortened(scenario, shown)
    affordable = int(_MOST_RECORDS / max(1.0, _records(short, shown))) - 1  # one is of the scenario as it is
    number = min(sum(len(alternative.forms) for alternative in alternatives), max(0, affordable))
    done_s, all_s = 0.0, (1 + number) * short.duration_s

    def distance(tried: Scenario) -> tuple[float, Sequence[ComparedFigure]]:
        nonlocal done_s
        rows = _rows(tried, shown, lambda at_s: emulating(done_s + at_s, all_s))
        done_s += short.duration_s
        return (inf, ()) if rows is None else (sum(map(_off, rows)), rows)

    present, present_rows = distance(short) if number else (inf, ())
    taken: list[Alternative] = []
    remarks: list[Remark] = []
    for alternative in alternatives:
        kind, if_taken = alternative.kinds
        if kind is None and all(_off(row) <= 1 for row in present_rows):
            continue
        forms = alternative.forms[:number]
        number -= len(forms)
        tried = [distance(form(short)) for form in forms] if present < inf else []
        off, rows = min(tried, key=itemgetter(0), default=(inf, ()))
        nearer, clearly = present - off, max(_NEARER, _NEARER_SHARE * present)
        is_taken = off < inf and nearer >= clearly
        known = dict(alternative.known)
        if off == inf:
            known["why"] = "not_comparable" if forms else "too_long"
        elif abs(nearer) < clearly:
            known["why"] = "alike"
        else:
            known |= {"why": "nearer", "rows": _evidence(present_rows, rows, is_taken)}
        if is_taken:
            kind = if_taken
            form = forms[[each for each, _ in tried].index(off)]
            short, present, present_rows = form(short), off, rows
            taken.append(alternative._replace(forms=(form,)))
        if kind is not None:
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
