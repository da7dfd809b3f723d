"""Whether the load of a job changed while it was read, so that predictions hold only for that moment.

Rates and waits of barriers vary in every job, so a change counts only if it stands out from this variation::

    rate    first half     second half
            . .  .   .                       steady: the halves overlap
                        .  .   .  .          changed: nearly all values of one half are above the other,
                                             and the means differ by much more than neighbours do

The values are the rates between two updates of a task's metrics, or the start delays of the last checkpoints,
which show how long the queues are. With too few values, no change is reported.

A load that goes up and down, and ends where it began, shows no such change. So costs of records, rates of
sources and waits are also divided into high and low ones::

    cost    . .         . .                  alternates: both levels differ by much more than their
                . . .         . .            sampling errors
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from math import hypot, sqrt
from statistics import fmean, median
from typing import NamedTuple

from netstack import CheckpointResult, GeneratorSpec, Scenario

from ...base.optional_figures import complete, pair_slopes
from ..read.job import FlinkJob, FlinkVertex
from ..read.samples import Samples, account_s, passed_s
from .noted import Remark, Remarks
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

_LEAST_INTERVALS = 3
"""Minimum number of intervals between updates of metrics that show an alternation."""

_LEVELS_DIFFER = 1.5
"""Minimum ratio of the high level of a rate or cost to its low one."""

_SHIFT_S = 0.25
"""Standard error, in seconds, of the times of one subtask, which accounts for a wait only at its end."""

_LEAST_BUSY = 0.1
"""The cost of a record does not matter if the subtasks are busy for a smaller share of the time."""

_LEAST_WAITS = 2
"""Minimum number of checkpoints of each level, so that a single slow checkpoint is no alternation."""

_WAITS_DIFFER = 2.0
"""Minimum ratio of the long waits of barriers to the short ones."""


class Movement(NamedTuple):
    """A change of a value over some seconds, as a share of its first level."""

    share: float
    seconds: float


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
    slope = median(pair_slopes(points))
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


class Interval(NamedTuple):
    """Counts of a vertex, summed over its subtasks, between two updates of its metrics."""

    at_s: float
    """Middle of the interval, by the accounts of the tasks."""
    seconds: float
    records: float
    busy_s: float

    @property
    def per_s(self) -> float:
        """Records per second."""
        return self.records / self.seconds


class Levels(NamedTuple):
    """The low and the high level of a value that goes up and down, and the number of its samples."""

    low: float
    high: float
    samples: int


def levels(amounts: Sequence[tuple[float, float, float]]) -> Levels | None:
    """Return the levels of the ratio of two amounts; None: it is steady, or unknown.

    Args:
        amounts: For each interval the numerator, the denominator, and the standard error of the numerator.
    """
    used = [each for each in amounts if each[1] > 0]
    if len(used) < _LEAST_INTERVALS:
        return None
    ratios = [amount / of for amount, of, _ in used]
    middle = (min(ratios) + max(ratios)) / 2
    means, errors = [], []
    for is_high in (False, True):
        group = [each for each, ratio in zip(used, ratios, strict=True) if (ratio > middle) is is_high]
        if not group:
            return None
        of = sum(each[1] for each in group)
        means.append(sum(each[0] for each in group) / of)
        errors.append(hypot(*(each[2] for each in group)) / of)
    low, high = means
    if low <= 0 or high < _LEVELS_DIFFER * low or high - low < _SIGMAS * hypot(*errors):
        return None
    return Levels(low, high, len(used))


def cost_levels(intervals: Sequence[Interval], parallelism: int) -> Levels | None:
    """Return the levels, in seconds, of the busy time per record; None: it is steady, unknown or small."""
    seconds = sum(each.seconds for each in intervals)
    if sum(each.busy_s for each in intervals) < _LEAST_BUSY * parallelism * seconds:
        return None
    shift_s = _SHIFT_S * sqrt(parallelism)
    return levels(
        [
            (each.busy_s, each.records, hypot(shift_s, each.busy_s / sqrt(each.records or 1.0)))
            for each in intervals
        ]
    )


def rate_levels(intervals: Sequence[Interval]) -> Levels | None:
    """Return the levels of the records per second; None: they are steady, or unknown."""
    return levels(
        [(each.records, each.seconds, hypot(each.per_s * _SHIFT_S, sqrt(each.records))) for each in intervals]
    )


def wait_levels(points: Sequence[tuple[float, float]]) -> Levels | None:
    """Return the levels of the waits of barriers, given as (seconds, ms); None: steady, or unknown."""
    waits = sorted(wait for _, wait in points)
    if len(waits) < 2 * _LEAST_WAITS:
        return None
    low, high = waits[_LEAST_WAITS - 1], waits[-_LEAST_WAITS]
    return Levels(waits[0], waits[-1], len(waits)) if high >= _WAITS_DIFFER * max(low, 1.0) else None


def unsteady(
    job: FlinkJob, samples: Samples, checkpoints: Sequence[CheckpointResult], scenario: Scenario
) -> Remarks:
    """Return remarks on costs, rates and queues that changed while the job was read.

    Vertices behind windows or bursts that come only a few times in the time watched are not judged. A firing
    window makes barriers wait, and the scenario has its firings, so waits of such a job may differ.
    """
    uneven = _uneven(job, samples, scenario)
    fires = {
        vertex.id
        for vertex, fitted in zip(job.vertices, scenario.vertices, strict=True)
        if fitted.emit_every_s
    }
    judged = [vertex for vertex in job.vertices if vertex.id not in uneven]
    costs: list[Remark] = []
    rates: dict[str, Movement] = {}
    waits: dict[str, Movement] = {}
    rate_alternates: dict[str, Levels] = {}
    wait_alternates: dict[str, Levels] = {}
    for vertex in judged:
        name = job.names[vertex.id]
        intervals = _intervals(job, vertex, samples)
        if (
            job.inputs(vertex)
            and vertex.id not in fires
            and (cost := cost_levels(intervals, vertex.parallelism)) is not None
        ):
            costs.append(Remark("cost_alternated", name, {"change": cost, "others": []}))
        if (found := movement([(each.at_s, each.per_s) for each in intervals])) is not None:
            rates[name] = found
        elif not job.inputs(vertex) and (between := rate_levels(intervals)) is not None:
            rate_alternates[name] = between
        if not job.inputs(vertex):
            continue
        delays = _waits_ms(job, vertex, checkpoints)
        if (found := movement(delays)) is not None:
            waits[name] = found
        elif not (uneven or fires) and (between := wait_levels(delays)) is not None:
            wait_alternates[name] = between
    remarks = costs
    if rates:
        remarks.append(_of_first("rate_changed", rates))
    elif rate_alternates and not costs:
        remarks.append(_of_first("rate_alternated", rate_alternates))
    if waits:
        grew = next(iter(waits.values())).share > 0
        remarks.append(_of_first("queue_grew" if grew else "queue_shrank", waits))
    elif wait_alternates:
        remarks.append(_of_first("queue_alternated", wait_alternates))
    return tuple(remarks)


def _of_first(kind: str, changes: Mapping[str, Movement | Levels]) -> Remark:
    """Return a remark on the first vertex that changed, with the names of the others."""
    (first, *others), change = changes, next(iter(changes.values()))
    return Remark(kind, first, {"change": change, "others": others})


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


def _intervals(job: FlinkJob, vertex: FlinkVertex, samples: Samples) -> list[Interval]:
    """Return the counts of a vertex between updates of its metrics; empty if a value is unknown."""
    field = "records_in" if job.inputs(vertex) else "records_out"
    counts: list[tuple[float, float, float]] = []
    for polled in zip(*(subtask.samples for subtask in samples[vertex.id]), strict=False):
        accounts = complete(map(account_s, polled))
        records = complete(sample.get(field) for sample in polled)
        busy_ms = complete(sample.get("busy_ms") for sample in polled)
        if accounts is None or records is None or busy_ms is None:
            return []
        at_s = fmean(accounts)
        if not counts or at_s - counts[-1][0] >= _LEAST_UPDATE_S:
            counts.append((at_s, sum(records), sum(busy_ms) / 1e3))
    return [
        Interval((begin + end) / 2, end - begin, later - earlier, busier - busy)
        for (begin, earlier, busy), (end, later, busier) in pairwise(counts)
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
