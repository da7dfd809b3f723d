"""A plan for network memory: from emulated figures to curves, and from a split to what is told of it.

A place's curve is the sum of the barrier delays of all vertices, over its size, while all other places have
their base size; so the sum that a plan comes to is that of all at their base, and what each place changes of
it. Delays are means over checkpoints, so each counts as often as it occurs. A size counts only if the job
does as much with it as it does now. What lies above the lower convex hull is the `lift`: by so much emulated
figures are not convex.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from netstack import CheckpointResult, Result, Scenario, VertexCheckpoint

from ..checkpoint_times import COMPLETED
from ..known_values import known
from ..wording import SAME_THROUGHPUT
from .allocation import ConvexHull
from .places import Place

_SAME_DELAY, _SAME_DELAY_MS = 0.01, 1.0
"""Share of the sum of delays, and milliseconds, below which a difference is chance, and so none."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What emulations of one setting came to: means over seeds, and over the checkpoints of their windows."""

    delay_ms: float
    """The sum over vertices of the time from the barrier's way out of those before to the last arrival."""
    checkpoint_ms: float
    """From trigger to completion."""
    records_per_s: float
    """What all sources emit."""
    checkpoints: int
    """How many were completed."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A place at one size, all others at their base."""

    buffers: int
    figures: Figures | None
    """None: no checkpoint was completed."""
    counts: bool
    """Whether the job does as much as now."""


class PlannedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """All gates, or all partitions, of an exchange; sizes are in buffers of one of them."""

    edge: int
    """The number of the exchange."""
    source: str
    target: str
    kind: str
    """gate or partition."""
    parts: int
    """Channels of a gate over the network, or subpartitions of a partition."""
    needed: int
    """For bandwidth times round trip; of a partition to start."""
    least: int
    """The least size with which the job does as much as now."""
    enough: int
    """The size from which on more brings nothing."""
    planned: int
    exclusive: int | None
    """Of each channel; None: it is a partition. So is the next one."""
    floating: int | None
    max_per_channel: int | None
    """None: it is a gate."""
    lift_ms: float
    """By how much an emulated sum of delays is above the convex curve, at most."""
    points: list[Point]


class PlannedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The network memory of task managers that have the same places, in bytes of each."""

    task_managers: list[str]
    least_bytes: int
    planned_bytes: int
    enough_bytes: int
    """From which on more brings nothing."""
    saved_ms_per_mib: float
    """What a little more in each of them would take off the sum of delays, by the MiB: the multiplier."""
    saved_at: list[str]
    """Where it would go."""
    left_ms: float
    """What all up to `enough_bytes` would take off."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The job under one split of memory."""

    name: str
    memory_bytes: int | None
    """Of the task manager that has most; None: as much as its pools can use."""
    figures: Figures | None
    """None: it does not start, or completes no checkpoint."""


class OneSetting(msgspec.Struct, frozen=True, kw_only=True):
    """The greatest of a plan's numbers, as options of Flink 1.x, which hold for all exchanges."""

    exclusive_buffers_per_channel: int
    floating_buffers_per_gate: int
    max_buffers_per_channel: int


class BudgetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the network memory of each task manager is split, and what that comes to."""

    budget_bytes: int
    seeds: list[int]
    runs: int
    emulated_seconds: float
    """Of each run."""
    places: list[PlannedPlace]
    task_managers: list[PlannedMemory]
    records_per_s_now: float | None
    """What the job does with its options as they are and as much memory as these can use; the plan's target.

    None: it completes no checkpoint.
    """
    one_setting: OneSetting
    expected_delay_ms: float
    """The sum of barrier delays that the curves say; the emulated one is in the first of `trials`."""
    trials: list[Trial]
    """The plan, and what is emulated beside it."""


def one_setting(places: Sequence[PlannedPlace]) -> OneSetting:
    """Return what a job can be set to where all its exchanges have the same."""
    return OneSetting(
        exclusive_buffers_per_channel=max(known(place.exclusive for place in places)),
        floating_buffers_per_gate=max(known(place.floating for place in places)),
        max_buffers_per_channel=max(known(place.max_per_channel for place in places)),
    )


def figures_of(results: Sequence[Result]) -> Figures | None:
    """Return what runs of one setting came to; None: no checkpoint was completed, or nothing was measured."""
    each = [_figures(result) for result in results]
    there = known(each)
    if not there or len(there) < len(each):
        return None
    return Figures(
        delay_ms=fmean(figures.delay_ms for figures in there),
        checkpoint_ms=fmean(figures.checkpoint_ms for figures in there),
        records_per_s=fmean(figures.records_per_s for figures in there),
        checkpoints=sum(figures.checkpoints for figures in there),
    )


def curve_of(
    points: Mapping[int, Figures | None], place: Place, asked_per_s: float, base_ms: float
) -> ConvexHull:
    """Return the curve of a place: what its size changes of the sum of delays, in milliseconds.

    `asked_per_s` is the least throughput in records; `base_ms` the sum of delays at the base.
    """
    delays = {
        size: figures.delay_ms
        for size, figures in points.items()
        if figures is not None and counts(size, points, place, asked_per_s)
    }
    least = min(delays.values())
    same = least + _chance_ms(base_ms)
    return ConvexHull.of(
        [(size, (least if delay <= same else delay) - base_ms) for size, delay in delays.items()]
    )


def counts(size: int, points: Mapping[int, Figures | None], place: Place, asked_per_s: float) -> bool:
    """Whether the job does with a size what is asked, or else what it does with the best, up to the base too.

    What it does at the base, which is emulated with all others at theirs, counts in any case.
    """
    best = max(figures.records_per_s for figures in points.values() if figures is not None)
    enough = min(asked_per_s, best * (1 - SAME_THROUGHPUT))
    return size == place.base or all(
        figures is not None and figures.records_per_s >= enough
        for other, figures in points.items()
        if other == size or size < other <= place.base
    )


def may_gain(ends: Mapping[int, Figures | None], place: Place, asked_per_s: float, base_ms: float) -> bool:
    """Whether a place may gain from more than its least size, by its figures there, at its base and its end.

    If not, its cost, which is convex, is least at its least size, and no size between matters.
    """
    least, *others = (ends[size] for size in sorted(ends))
    if least is None or not counts(place.steps[0], ends, place, asked_per_s):
        return True
    return any(
        other is not None and least.delay_ms > other.delay_ms + _chance_ms(base_ms) for other in others
    )


def _chance_ms(base_ms: float) -> float:
    return max(_SAME_DELAY_MS, _SAME_DELAY * base_ms)


def bytes_per_s(scenario: Scenario, results: Sequence[Result]) -> dict[int, float]:
    """Return what the busiest consumer of each edge reads over it, the greatest of all runs."""
    return {
        number: max(_edge_rate(result, edge.source, edge.target) for result in results)
        for number, edge in enumerate(scenario.edges)
    }


def _edge_rate(result: Result, source: str, target: str) -> float:
    """What its vertices tell: all that the consumer reads, and no more than the producer writes."""
    vertices = {vertex.name: vertex for vertex in result.steady[-1].vertices}
    read, written = known(vertices[target].bytes_in_per_s), known(vertices[source].bytes_out_per_s)
    if not read or not sum(read):
        return 0.0
    return max(read) * min(1.0, sum(written) / sum(read)) if written else max(read)


def _figures(result: Result) -> Figures | None:
    steady = result.steady[-1]
    done = [each for each in result.checkpoints if each.status == COMPLETED and each.t >= steady.from_s]
    delays = [_delay_ms(result.scenario, checkpoint) for checkpoint in done]
    durations = known(checkpoint.duration_ms for checkpoint in done)
    sources = {vertex.name for vertex in result.scenario.vertices if vertex.source is not None}
    rates = [
        rate for vertex in steady.vertices if vertex.name in sources for rate in vertex.records_out_per_s
    ]
    if not known(delays) or not durations or not known(rates):
        return None
    return Figures(
        delay_ms=fmean(known(delays)),
        checkpoint_ms=fmean(durations),
        records_per_s=sum(known(rates)),
        checkpoints=len(done),
    )


def _delay_ms(scenario: Scenario, checkpoint: CheckpointResult) -> float | None:
    """The sum over vertices of the time that barriers take to them; None: one has not told."""
    arrivals = {vertex.name: _last_arrival_ms(vertex) for vertex in checkpoint.vertices}
    total = 0.0
    for vertex in scenario.vertices:
        before = [arrivals.get(edge.source) for edge in scenario.inputs(vertex)]
        here, sent = arrivals.get(vertex.name), known(before)
        if here is None or len(sent) < len(before):
            return None
        total += here - max(sent) if sent else 0.0
    return total


def _last_arrival_ms(vertex: VertexCheckpoint) -> float | None:
    """When the last subtask had its last barrier, from the trigger on; those that had ended had none."""
    arrivals = [
        start + (alignment or 0.0)  # a source has none
        for start, alignment in zip(vertex.start_delay_ms, vertex.alignment_ms, strict=True)
        if start is not None
    ]
    return max(arrivals, default=None)
