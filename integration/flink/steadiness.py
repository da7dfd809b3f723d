"""Whether the load of a job changed while it was read, so that predictions hold only for that moment.

Rates and waits of barriers vary in every job, so a change counts only if it stands out from this variation::

    rate    first half     second half
            . .  .   .                       steady: the halves overlap
                        .  .   .  .          changed: nearly all values of one half are above the other,
                                             and the means differ by much more than neighbours do

The values are the rates between two updates of a task's metrics, or the start delays of the last checkpoints,
which show how long the queues are. With too few values, no change is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise, product
from math import sqrt
from statistics import fmean, median
from typing import NamedTuple

from netstack import CheckpointResult, GeneratorSpec, Scenario

from ..figures.optional_figures import complete
from .job import FlinkJob, FlinkVertex
from .sampling import Samples, account_s, passed_s
from .subtask_loads import aligned_start_delays

_MOVES = 0.1
"""Relative change over the whole time, above which a value is not steady."""

_LEAST_VALUES = 6
"""Minimum number of values that show whether a change stands out."""

_SEPARATED = 0.9
"""Minimum share of the pairs, one value of each half, that differ in the direction of the change."""

_SIGMAS = 4.0
"""Minimum difference between the means of the halves, in standard errors."""

_LEAST_UPDATE_S = 0.5
"""Minimum time between two updates of a task's metrics."""

_LEAST_WAIT_MS = 50.0
"""A change does not matter if barriers wait less than this."""


class Movement(NamedTuple):
    """A change of a value over some seconds, as a share of its first level."""

    share: float
    seconds: float

    def __str__(self) -> str:
        done = "rose" if self.share > 0 else "fell"
        per_s = 100 * abs(self.share) / self.seconds
        return f"{done} by {100 * abs(self.share):.0f} % in {self.seconds:.0f} s ({per_s:.2g} % per second)"


def movement(points: Sequence[tuple[float, float]]) -> Movement | None:
    """Return the change of a value, given as (seconds, value) in order; None: it is steady, or unknown.

    The change is that of a line with the median slope over all pairs (Theil and Sen). The noise follows from
    second differences, which a trend does not affect.
    """
    if len(points) < _LEAST_VALUES:
        return None
    times, values = zip(*points, strict=True)
    half = len(values) // 2
    first, last = values[:half], values[-half:]
    slope = median(
        (late - early) / (later - earlier) for (earlier, early), (later, late) in combinations(points, 2)
    )
    seconds = times[-1] - times[0]
    begin = median(values) - slope * seconds / 2
    neighbours = zip(values, values[1:], values[2:], strict=False)
    bends = [before - 2 * here + after for before, here, after in neighbours]
    noise = sqrt(fmean(bend**2 for bend in bends) / 6)
    separation = fmean((late - early) * slope > 0 for early, late in product(first, last))
    if (
        begin <= 0
        or abs(slope) * seconds <= _MOVES * begin
        or separation < _SEPARATED
        or abs(fmean(last) - fmean(first)) < _SIGMAS * noise * sqrt(2 / half)
    ):
        return None
    return Movement(slope * seconds / begin, seconds)


def unsteady(
    job: FlinkJob, samples: Samples, checkpoints: Sequence[CheckpointResult], scenario: Scenario
) -> list[str]:
    """Return a line about rates and one about queues, if they changed while the job was read.

    Vertices behind windows or bursts that come only a few times in the time watched are not judged.
    """
    uneven = _uneven(job, samples, scenario)
    judged = [vertex for vertex in job.vertices if vertex.id not in uneven]
    rates: dict[str, Movement] = {}
    waits: dict[str, Movement] = {}
    for vertex in judged:
        name = job.names[vertex.id]
        if (found := movement(_rates(job, vertex, samples))) is not None:
            rates[name] = found
        if job.inputs(vertex) and (found := movement(_waits_ms(job, vertex, checkpoints))) is not None:
            waits[name] = found
    lines = []
    if rates:
        name, found = next(iter(rates.items()))
        lines.append(f"The rate of {name} {found}{_with_it(rates)}; predictions hold for this moment.")
    if waits:
        name, found = next(iter(waits.items()))
        done = "grew" if found.share > 0 else "shrank"
        lines.append(
            f"The queue before {name} {done}: the wait of its barriers {found}{_with_it(waits)}; predictions "
            "hold for this moment."
        )
    return lines


def _with_it(moving: Mapping[str, Movement]) -> str:
    others = list(moving)[1:]
    return f", and that of {', '.join(others)} changed with it" if others else ""


def _uneven(job: FlinkJob, samples: Samples, scenario: Scenario) -> set[str]:
    """Return the ids of the vertices whose records come in a few bursts during the time watched."""
    watched_s = passed_s(samples) or 0.0
    uneven: set[str] = set()
    for vertex, fitted in zip(job.vertices, scenario.vertices, strict=True):
        source = fitted.source
        burst_s = source.burst_s if isinstance(source, GeneratorSpec) else None
        period_s = max(fitted.emit_every_s or 0.0, burst_s or 0.0)
        if period_s * _LEAST_VALUES > watched_s:
            uneven |= {each.id for each in job.reachable(vertex)}
            if burst_s:
                uneven.add(vertex.id)
    return uneven


def _rates(job: FlinkJob, vertex: FlinkVertex, samples: Samples) -> list[tuple[float, float]]:
    """Return the records per second of a vertex between updates of its metrics, each with its time."""
    field = "records_in" if job.inputs(vertex) else "records_out"
    counts: list[tuple[float, float]] = []
    for polled in zip(*(subtask.samples for subtask in samples[vertex.id]), strict=False):
        accounts = complete(map(account_s, polled))
        records = complete(sample.get(field) for sample in polled)
        if accounts is None or records is None:
            return []
        at_s = fmean(accounts)
        if not counts or at_s - counts[-1][0] >= _LEAST_UPDATE_S:
            counts.append((at_s, sum(records)))
    return [
        ((begin + end) / 2, (later - earlier) / (end - begin))
        for (begin, earlier), (end, later) in pairwise(counts)
    ]


def _waits_ms(
    job: FlinkJob, vertex: FlinkVertex, checkpoints: Sequence[CheckpointResult]
) -> list[tuple[float, float]]:
    """Return, for each of the last aligned checkpoints, its time and its mean start delay at a vertex.

    Empty if the delays are too short to matter, or one is unknown.
    """
    rows = [
        (at_s, complete(delays))
        for at_s, delays in aligned_start_delays(checkpoints, job.names[vertex.id], vertex.parallelism)
    ]
    waits = [(at_s, fmean(delays)) for at_s, delays in rows if delays is not None]
    if len(waits) < len(rows) or max((wait for _, wait in waits), default=0.0) < _LEAST_WAIT_MS:
        return []
    return waits
