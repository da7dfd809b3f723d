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

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from math import hypot, inf, sqrt
from statistics import fmean, median
from typing import NamedTuple

from netstack import CheckpointResult, GeneratorSpec, Scenario, Vertex

from ...base.optional_figures import complete, known, pair_slopes
from ...runs.job_load import SATURATED
from ..read.checkpoints import EndedCheckpoints
from ..read.job import FlinkJob, FlinkVertex
from ..read.samples import Samples, passed_s
from .course import Course, Courses, Interval, cost_course, intervals_of, rate_course, wait_course
from .exchange_flows import window_s
from .noted import Noted, Remark, Remarks
from .overrides import Overrides, of_vertex
from .subtask_loads import aligned_start_delays

_MOVES = 0.1
"""Relative change over the whole time, above which a value is not steady."""

_LEAST_VALUES = 6
"""Minimum number of values that show whether a change stands out."""

_SEPARATED = 0.9
"""Minimum share of the pairs, one value of each half, that differ in the direction of the change."""

_SIGMAS = 4.0
"""Minimum difference between the means of the halves, in standard errors."""

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

_HARDLY_HELD = 0.05
"""A source with a back-pressured share below this emits all records that arrive."""

_LEAST_COMPLETED = 50
"""Minimum number of checkpoints that show how long they usually take."""

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
    if _share((each.busy_s for each in intervals), intervals) < _LEAST_BUSY * parallelism:
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


def _cost_change(counts: Sequence[Interval], parallelism: int) -> Movement | Levels | None:
    """Return the change of the busy time per record; None: it is steady, unknown or small."""
    if between := cost_levels(counts, parallelism):
        return between
    if _share((each.busy_s for each in counts), counts) < _LEAST_BUSY * parallelism:
        return None
    return movement([(each.at_s, each.busy_s / each.records) for each in counts if each.records > 0])


def wait_levels(points: Sequence[tuple[float, float]]) -> Levels | None:
    """Return the levels of the waits of barriers, given as (seconds, ms); None: steady, or unknown."""
    waits = sorted(wait for _, wait in points)
    if len(waits) < 2 * _LEAST_WAITS:
        return None
    low, high = waits[_LEAST_WAITS - 1], waits[-_LEAST_WAITS]
    return Levels(waits[0], waits[-1], len(waits)) if high >= _WAITS_DIFFER * max(low, 1.0) else None


def unsteady(
    job: FlinkJob,
    samples: Samples,
    checkpoints: Sequence[CheckpointResult],
    scenario: Scenario,
    given: Overrides | None = None,
) -> Noted[Courses]:
    """Return the courses of costs and rates that changed while the job was read, and remarks on all changes.

    Vertices behind windows or bursts that come only a few times in the time watched are not judged. A firing
    window makes barriers wait, and the scenario has its firings, so waits of such a job may differ. Its work
    may come when it fires, so its cost is not judged. A value that is overridden has no course.
    """
    uneven = _uneven(job, samples, scenario)
    fitted = dict(zip((vertex.id for vertex in job.vertices), scenario.vertices, strict=True))
    counts = {vertex.id: intervals_of(job, vertex, samples) for vertex in job.vertices}
    fires = any(vertex.emit_every_s for vertex in scenario.vertices)
    changes: dict[str, dict[str, Movement | Levels]] = {}
    courses: dict[str, Course] = {}
    for vertex in job.vertices:
        name, own = job.names[vertex.id], counts[vertex.id]
        follows = _can_follow(fitted[vertex.id], given or Overrides())
        if vertex.id in uneven:
            continue
        if (rate := movement([(each.at_s, each.per_s) for each in own])) is not None:
            changes.setdefault("rate_changed", {})[name] = rate
        if not job.inputs(vertex):
            between = rate_levels(own) if rate is None else None
            if between is not None:
                changes.setdefault("rate_alternated", {})[name] = between
            if (rate or between) and follows and not _is_held(own):
                courses[name] = rate_course(own)
            continue
        windowed = fitted[vertex.id].emit_every_s or window_s(vertex.description)
        if not windowed and (cost := _cost_change(own, vertex.parallelism)) is not None:
            kind = "cost_changed" if isinstance(cost, Movement) else "cost_alternated"
            changes.setdefault(kind, {})[name] = cost
            if follows:
                courses[name] = cost_course(own)
        delays = _waits_ms(job, vertex, checkpoints)
        if (wait := movement(delays)) is not None:
            changes.setdefault("queue_grew" if wait.share > 0 else "queue_shrank", {})[name] = wait
        elif not (uneven or fires) and (levels_ms := wait_levels(delays)) is not None:
            changes.setdefault("queue_alternated", {})[name] = levels_ms
            finer = follows and not scenario.config.debloat_enabled and _is_finer(delays, own)
            if finer and _keeps_full(job, vertex, counts):
                courses[name] = wait_course(delays)
    return Noted(courses, _remarks(changes, courses))


def calm_moment(ended: EndedCheckpoints, checkpoints: Sequence[CheckpointResult]) -> Remarks:
    """Return a remark if the last checkpoints took much less time than a tenth of all checkpoints of the job.

    The first checkpoints of a job may take long, so it must have completed many.
    """
    longest_ms = max(known(each.duration_ms for each in checkpoints), default=None)
    if longest_ms is None or ended.p90_ms is None or ended.completed < _LEAST_COMPLETED:
        return ()
    if ended.p90_ms < max(_LEVELS_DIFFER * longest_ms, longest_ms + _LEAST_WAIT_MS):
        return ()
    values = {"completed": ended.completed, "p90_ms": ended.p90_ms, "longest_ms": longest_ms}
    return (Remark("calm_moment", values=values | {"last": len(checkpoints)}),)


def _remarks(changes: Mapping[str, Mapping[str, Movement | Levels]], courses: Courses) -> Remarks:
    """Return remarks on changes, given by kind and vertex: each cost, and of rates and of queues one kind.

    A rate that alternates follows from a cost that does.
    """
    cost_kinds = ("cost_changed", "cost_alternated")
    remarks = [
        Remark(kind, name, {"change": change, "others": [], "repeated": list(courses)})
        for kind in cost_kinds
        for name, change in changes.get(kind, {}).items()
    ]
    rate_kinds = ["rate_changed"] if remarks else ["rate_changed", "rate_alternated"]
    for kinds in (rate_kinds, ["queue_grew", "queue_shrank", "queue_alternated"]):
        for kind in [each for each in kinds if each in changes][:1]:
            (first, *others), change = changes[kind], next(iter(changes[kind].values()))
            remarks.append(
                Remark(kind, first, {"change": change, "others": others, "repeated": list(courses)})
            )
    return tuple(remarks)


def _can_follow(fitted: Vertex, given: Overrides) -> bool:
    """Return whether a vertex of the scenario can have a course: its cost or rate is known and measured."""
    source = fitted.source
    if source is None:
        return bool(fitted.service) and of_vertex(given.service_s, fitted.name) is None
    if not isinstance(source, GeneratorSpec) or source.burst_s is not None or not source.catch_up_s:
        return False
    return all(source.rates) and of_vertex(given.rate, fitted.name) is None


def _share(parts: Iterable[float], counts: Sequence[Interval]) -> float:
    """Return a part of the time of all intervals, summed over subtasks, as a share of the time."""
    return sum(parts) / (sum(each.seconds for each in counts) or inf)


def _is_held(counts: Sequence[Interval]) -> bool:
    """Return whether back-pressure slows a source, so that its rate is not the one at which data arrives."""
    return _share((each.held_s for each in counts), counts) >= _HARDLY_HELD


def _keeps_full(job: FlinkJob, vertex: FlinkVertex, counts: Mapping[str, Sequence[Interval]]) -> bool:
    """Return whether the buffers before a vertex are always full: it is always busy, its producers held."""
    producers = [each for each in job.vertices if any(edge.source == each.id for edge in job.inputs(vertex))]
    own = counts[vertex.id]
    return _share((each.busy_s for each in own), own) >= SATURATED * vertex.parallelism and all(
        _share((each.held_s for each in counts[producer.id]), counts[producer.id])
        >= SATURATED * producer.parallelism
        for producer in producers
    )


def _is_finer(waits_ms: Sequence[tuple[float, float]], counts: Sequence[Interval]) -> bool:
    """Return whether checkpoints came at least twice as often as the metrics were renewed."""
    if len(waits_ms) < _LEAST_VALUES or not counts:
        return False
    between_s = median(later - at for (at, _), (later, _) in pairwise(waits_ms))
    return 2 * between_s <= median(each.seconds for each in counts)


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
