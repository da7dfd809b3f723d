"""Figures of one run, for comparing targets.

A job has one figure of each kind. If its vertices differ, the worst one counts, because a checkpoint waits
for the last barrier and a record for the slowest path. All figures are for the whole run after the warm-up,
since a job that suffers at its peak suffers although it is well again at the end (`as_one_window`). The worst
phase of the load has figures of its own.

The delay of records is derived from the samples of a run. Records leave a queue in the order of their
arrival. So two curves over time show how long they were queued: the number of records that producers had
emitted, and the number that consumers had read.

    records |        emitted  .'      .' read
            |               .'      .'
            |             .'------.'   <- horizontally: the delay of the record that is read now
            |           .'      .' |
            |         .'      .'   | <- vertically: how many are in flight
            +-------------------------- time

For a vertex with several inputs or subtasks, the curves are sums over them, and the delay is the mean over
all records (Little's law). A single slow channel shows in the alignment, not in this delay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import pairwise
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from netstack import CheckpointResult, Result, Scenario, format_duration

from ..base.optional_figures import complete, known, middle
from .checkpoint_times import completed_within
from .window_figures import COUNTS, Measures, figures_of, is_debloated, last_consumers, percentile

FloatArray = NDArray[np.float64]

SETTLED_SHARE = 0.25
"""A drain time has settled if it differs from its final value by at most this share."""

_SETTLED_PART = 1 / 3
"""The settled drain time is the median over this last share of the time after a step."""

_LATEST_PART = 0.75
"""Share of the time after a step within which the drain time has to settle."""


def as_one_window(scenario: Scenario) -> Scenario:
    """Return a scenario with one window, from the begin of its first phase to the end of its last."""
    (begin, _), (_, end) = scenario.windows[0], scenario.windows[-1]
    return replace(scenario.ending_at(end), phases=(), warmup_s=begin)


def load_phases(scenario: Scenario) -> list[tuple[float, float]]:
    """Return the phases of a job's load, each with begin and end in seconds; empty: the load has one phase.

    They are the declared phases, if there are several. Otherwise each change of the load begins a phase: a
    step of a service time, or one of `changes`.
    """
    if len(scenario.phases) > 1:
        return list(scenario.phases)
    begin, end = scenario.windows[0][0], scenario.windows[-1][1]
    inside = sorted({at for at in _changes_at(scenario) if begin < at < end})
    return list(pairwise([begin, *inside, end])) if inside else []


def _changes_at(scenario: Scenario) -> Iterator[float]:
    services = [*(each.service for each in scenario.vertices), *(each.service for each in scenario.edges)]
    yield from (at for service in services for at, _ in service or ())
    yield from (change.at_s for change in scenario.changes)


def measure(
    result: Result, *, phases: Sequence[tuple[float, float]] = (), step_at_s: float | None = None
) -> Measures:
    """Return the figures of a run's last window, and of the worst of the given phases of its load.

    `step_at_s` is the time of a step of the load, in seconds since opening; None: no step. Without its series
    a result has no record delay, no bytes in flight and no adaptation time.
    """
    if not result.steady:
        return Measures()
    figures, delays = figures_of(result), record_delays_ms(result)
    completed = completed_within(result.checkpoints, result.steady[-1])
    worst_ms, worst = max(_phase_times(completed, phases), default=(None, None))
    whole = msgspec.structs.replace(
        figures,
        worst_phase_ms=worst_ms,
        worst_phase=worst,
        record_delay_ms=fmean(delays) if phases and delays else middle(delays),
        record_delay_p95_ms=percentile(delays, 95),
        adaptation_ms=None if step_at_s is None else adaptation_ms(result, step_at_s),
    )
    return Measures(**{name: _rounded(name, getattr(whole, name)) for name in Measures.__struct_fields__})


def _phase_times(
    completed: Sequence[CheckpointResult], phases: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, str]]:
    """Yield the mean checkpoint time, in ms, and the text of each phase in which one completed."""
    for begin, end in phases:
        times = known(each.duration_ms for each in completed if begin <= each.t < end)
        if times:
            yield fmean(times), f"from {format_duration(begin)} to {format_duration(end)}"


def _rounded(name: str, value: Any) -> Any:
    return value if value is None or name in (*COUNTS, "worst_phase") else round(float(value), 2)


def record_delays_ms(result: Result) -> list[float]:
    """Return the delay of the records that are read at each sample of the last window, in ms.

    A delay lasts from emission by a source until a last vertex reads the record, along the longest path.
    Times between two samples are interpolated. The result is empty if the job restarted (records are then
    read twice) or if there are no samples. No delay exceeds the elapsed time of the run, so delays are too
    low while queues are still filling.
    """
    flow = _flow(result)
    if flow is None:
        return []
    window = result.steady[-1]
    inside = flow.times[(flow.times >= window.from_s) & (flow.times <= window.to_s)]
    last = sorted(vertex.name for vertex in last_consumers(result, window))
    ways = [inside - flow.emitted_at(name, inside) for name in last]
    return [float(delay) for delay in np.max(ways, axis=0) * 1e3] if ways else []


def adaptation_ms(result: Result, step_at_s: float) -> float | None:
    """Return the time in ms from a step of the load until the drain time has settled.

    The drain time is the data in flight to the vertex whose service time steps, divided by this vertex's rate
    after the step. It has settled when all later samples are within `SETTLED_SHARE` and one buffer's time of
    the median over the last third. The resolution is one second, as samples are a second apart. The settled
    drain time may differ from the debloat target, which debloating misses during aligned checkpoints. Return
    None if debloating is off, nothing steps at that time, or the drain time does not settle.
    """
    flow = _flow(result)
    if flow is None:
        return None
    debloated = {series.vertex for series in result.series if is_debloated(series)}
    stepping = [
        vertex.name
        for vertex in result.scenario.vertices
        if vertex.name in debloated and any(abs(at - step_at_s) < 1e-6 for at, _ in vertex.service)
    ]
    times = complete(_settled_ms(result, flow, name, step_at_s) for name in stepping)
    return None if times is None else max(times)


class _Flow:
    """Curves of a run over its samples: records that each vertex had read, and records sent to it."""

    def __init__(self, result: Result) -> None:
        edges = result.scenario.edges
        parallelism = {vertex.name: vertex.parallelism for vertex in result.steady[-1].vertices}
        series = {each.vertex: each for each in result.series}
        outputs = {name: sum(edge.source == name for edge in edges) for name in parallelism}
        self.times: FloatArray = np.array(result.series[0].t, dtype=np.float64)
        self.producers = {
            name: sorted({edge.source for edge in edges if edge.target == name}) for name in parallelism
        }
        self.consumers_first = tuple(TopologicalSorter(self.producers).static_order())[::-1]
        self.read = {name: _summed(series[name].numRecordsIn) for name in parallelism}
        self.sent: dict[str, FloatArray] = {}
        for edge in edges:
            # A record sent on several edges counts on each edge. A broadcast record counts once.
            copies = parallelism[edge.target] if edge.strategy.copies else 1
            curve = _summed(series[edge.source].numRecordsOut) / outputs[edge.source] * copies
            self.sent[edge.target] = self.sent.get(edge.target, 0.0) + curve

    def emitted_at(self, vertex: str, times: FloatArray) -> FloatArray:
        """Return when a source emitted the records that a vertex reads at `times`, along the longest path."""
        read_at = {vertex: times}
        """Times at which each vertex had read the records; the earliest over its outputs."""
        emitted: list[FloatArray] = []
        for name in self.consumers_first:
            if name not in read_at:
                continue
            at = read_at[name]
            if not self.producers[name]:
                emitted.append(at)
                continue
            read = np.interp(at, self.times, self.read[name])
            sent = np.minimum(at, reached(self.times, self.sent[name], read))
            for producer in self.producers[name]:
                read_at[producer] = np.minimum(read_at.get(producer, sent), sent)
        earliest: FloatArray = np.min(emitted, axis=0)
        return earliest


def _flow(result: Result) -> _Flow | None:
    if not result.series or len(result.series[0].t) < 2 or result.restarts or not result.scenario.edges:
        return None
    return _Flow(result)


def _summed(counters: Sequence[Sequence[int]]) -> FloatArray:
    summed: FloatArray = np.sum(np.array(counters, dtype=np.float64), axis=0)
    return summed


def reached(times: FloatArray, curve: FloatArray, values: FloatArray) -> FloatArray:
    """Return the time at which a rising curve first reached each value; for others, the curve's last time."""
    after = np.clip(np.searchsorted(curve, values, side="left"), 1, len(curve) - 1)
    before = after - 1
    rise = curve[after] - curve[before]
    share = np.divide(
        values - curve[before], rise, out=np.zeros_like(values, dtype=np.float64), where=rise > 0
    )
    reached: FloatArray = times[before] + np.clip(share, 0.0, 1.0) * (times[after] - times[before])
    return reached


def _settled_ms(result: Result, flow: _Flow, vertex: str, step_at_s: float) -> float | None:
    after = flow.times > step_at_s
    times = flow.times[after]
    if len(times) < 6:
        return None
    read = flow.read[vertex][after]
    late = times >= times[-1] - _SETTLED_PART * (times[-1] - step_at_s)
    rate = (read[-1] - read[late][0]) / (times[-1] - times[late][0])
    if rate <= 0:
        return None
    drain = (flow.sent[vertex][after] - read) / rate
    level = float(np.median(drain[late]))
    allowed = SETTLED_SHARE * level + _buffer_time_s(result, vertex)
    outside = np.flatnonzero(np.abs(drain - level) > allowed)
    settled = outside[-1] + 1 if outside.size else 0  # the first sample after which all are near the level
    if settled == len(times):
        return None
    settled_s = float(times[settled] - step_at_s)
    if settled and settled_s > _LATEST_PART * (times[-1] - step_at_s):
        return None
    return round(settled_s * 1e3, 1)


def _buffer_time_s(result: Result, vertex: str) -> float:
    """Return the time that a subtask takes for one buffer, median over subtasks."""
    steady = next(each for each in result.steady[-1].vertices if each.name == vertex)
    rates = [rate for rate in steady.buffers_in_per_s if rate]
    return 1.0 / float(np.median(rates)) if rates else 0.0
