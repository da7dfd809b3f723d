"""Headroom of a job: the factor of today's load at which its first vertex reaches its limit.

At its limit, a subtask has no time left. Its input queues fill, its producers wait for buffers, and the
sources emit fewer records than arrive. So a run of the emulator at some load tells on which side of the limit
it is, and how far away:

- Below the limit, the busiest subtask is busy for a share of the time, and the limit is about the load
  divided by this share.
- Above the limit, the busiest vertex processes as many records as it can, and compared with a run below the
  limit, its rate tells which load that is.

The first estimate is exact only if the busy time is proportional to the load, which fuller buffers and work
on a shared core prevent. So the search ends when the job has kept up with a load just below the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from netstack import GeneratorSpec, Result, Scenario, Steady, from_json

from ...base.optional_figures import complete, highest, known, quotient, total
from ...runs.emulating import emulate
from ...runs.job_load import Rates, at_load, burst_s, course_s, has_unlimited_source, rates_of
from ...runs.measures import load_phases
from ..sweeps.end_of_run import EndOnceSettled
from ..sweeps.point_rows import PointRow
from ..sweeps.point_runs import run_point
from ..sweeps.points import Labels, Point, point_of
from ..sweeps.waves import Wave, Waves, run_side_by_side
from .conditions import BACK_PRESSURED

MOST_RUNS = 9
"""Maximum number of runs of the search."""
MOST_LOAD = 64.0
"""Highest load that is tried, as a multiple of today's."""

_BRIEF_WARMUP_S = 10.0
_BRIEF_WINDOW_S = 20.0
_BRIEF_CHECKPOINTS = 5
"""Warm-up and window, in seconds, and checkpoints of a run clearly below the limit, where nothing queues."""

_BURSTS = 5
"""Minimum number of bursts of a source in the window of a run."""

_ALWAYS_BUSY = 0.995
"""A subtask that is busy for at least this share of the time has no time left."""
_CLEARLY_FREE = 0.85
"""A job whose busiest subtask is busy for less than this share of the time is clearly below its limit."""

_KEPT = 0.985
"""The sources keep up with a load if they emit at least this share of the records that arrive."""
_PRECISION = 0.05
"""The limit is known once the job kept up with a load that is lower by at most this share."""
_BELOW, _ABOVE = 0.97, 1.3
"""Loads to run next to an estimate of the limit, relative to it.

At the higher one the queues fill during the warm-up, so that the measured window shows what the job can take.
"""


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True):
    """The subtask with the least time left."""

    vertex: str
    subtask: int
    busy_share: float
    """Share of the time for which it is busy, 0 to 1."""

    def __str__(self) -> str:
        return f"{self.vertex}[{self.subtask}]"


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """Load that a job can take, with the subtask that limits it."""

    limit: float
    """Highest load that the job can take, as a multiple of today's."""
    at_least: float
    """Highest load at which a run of the emulator kept up."""
    bottleneck: Bottleneck
    """The subtask that reaches its limit first."""
    is_bounded: bool = True
    """False: no limit was found up to `limit`."""
    beyond: float = 1.0
    """Load at which the job is measured at its limit: clearly more than it can take, so that queues fill."""

    def is_below(self, load: float) -> bool:
        """Return whether a load is clearly below the limit."""
        return load <= 0.9 * self.limit

    @property
    def has_room(self) -> bool:
        """Whether the job can clearly take more than today's load."""
        return self.limit > 1 + _PRECISION

    @property
    def keeps_up(self) -> bool:
        """Whether the job can take today's load, within the precision of the limit."""
        return self.limit >= 1 - _PRECISION

    def differs(self, other: Headroom) -> bool:
        """Return whether the limit differs from another one by more than its precision."""
        return abs(other.limit / self.limit - 1) > _PRECISION


class LoadRun(NamedTuple):
    """A run of a job at some load."""

    load: float
    """Multiple of today's load."""
    result: Result
    """The result, without its series."""

    @property
    def window(self) -> Steady:
        """The measured window."""
        return self.result.steady[-1]

    @property
    def kept_share(self) -> float:
        """Share of the arriving records that the slowest source subtask emits; 1: all."""
        shares = [out / rate for out, rate in self._rates()]
        return min([1.0, *shares])

    @property
    def keeps_up(self) -> bool:
        """Whether the sources emit all records that arrive, and no subtask is always busy.

        Large queues take minutes to fill, and until then the sources emit more than is processed. A window
        may lack one burst of its share.
        """
        scenario, window = self.result.scenario, self.window
        least = _KEPT - burst_s(scenario) / (window.to_s - window.from_s)
        has_time = self.bottleneck.busy_share < _ALWAYS_BUSY
        return has_time and self.kept_share >= least and not has_unlimited_source(scenario)

    def rate(self, vertex: str) -> float:
        """Return the records per second that a vertex reads, or that a source emits; 0: unknown."""
        steady = next(each for each in self.window.vertices if each.name == vertex)
        return total(steady.records_in_per_s) or total(steady.records_out_per_s) or 0.0

    def _rates(self) -> Iterator[tuple[float, float]]:
        """Yield the emitted and the arriving records per second of each source subtask, if both are known."""
        for vertex, steady in zip(self.result.scenario.vertices, self.window.vertices, strict=True):
            if vertex.source is not None:
                for out, rate in zip(steady.records_out_per_s, rates_of(vertex), strict=True):
                    if out is not None and rate:
                        yield out, rate

    @property
    def bottleneck(self) -> Bottleneck:
        """The busiest subtask, among those that do not wait for others to read."""
        return bottleneck_of(self.window)


def busy_shares(window: Steady) -> dict[str, float]:
    """Return the share of the time for which the busiest subtask of each vertex is busy, if it is known."""
    shares = {vertex.name: highest(vertex.busy_ms_per_s) for vertex in window.vertices}
    return {name: round(min(1.0, busy / 1e3), 4) for name, busy in shares.items() if busy is not None}


def is_clearly_below_limit(run: LoadRun) -> bool:
    """Return whether a brief run shows enough: the job keeps up, and its busiest subtask has time left."""
    return run.keeps_up and run.bottleneck.busy_share < _CLEARLY_FREE


def bottleneck_of(window: Steady) -> Bottleneck:
    """Return the busiest subtask in a window, among those that do not wait for buffers to write to."""
    places = [
        (min(1.0, busy / 1e3), (waits or 0.0) < 1e3 * BACK_PRESSURED, vertex.name, subtask)
        for vertex in window.vertices
        for subtask, (busy, waits) in enumerate(
            zip(vertex.busy_ms_per_s, vertex.backpressured_ms_per_s, strict=True)
        )
        if busy is not None
    ]
    if not places:
        return Bottleneck(vertex=window.vertices[0].name, subtask=0, busy_share=0.0)
    share, _, name, subtask = max(places, key=lambda place: (place[1], place[0]))
    return Bottleneck(vertex=name, subtask=subtask, busy_share=round(share, 4))


def emitted_rates(result: Result) -> Rates:
    """Return the records per second that each subtask of a source emits in the last window of a run."""
    names = {vertex.name for vertex in result.scenario.vertices if vertex.source is not None}
    rates = {
        steady.name: complete(steady.records_out_per_s)
        for steady in result.steady[-1].vertices
        if steady.name in names
    }
    return {name: listed for name, listed in rates.items() if listed is not None}


LOAD = "load"
"""Name of the label with the load of a point; a point of a contest at the job's limit has none."""

BEYOND = 2.0
"""Load at which a job is measured at its limit, relative to the limit.

Then queues fill during the warm-up, also with settings that raise the limit.
"""


def varies(scenario: Scenario) -> bool:
    """Return whether the load of a job changes with time, so that it has no single headroom."""
    sources = [vertex.source for vertex in scenario.vertices]
    waves = any(isinstance(each, GeneratorSpec) and each.wave_s is not None for each in sources)
    return bool(waves or load_phases(scenario) or scenario.faults)


def load_point(scenario: Scenario, load: float, emitted: Rates, labels: Labels | None = None) -> Point:
    """Return the point that runs a job at some load."""
    loaded = at_load(scenario, load, emitted)
    least_s = scenario.warmup_s + _BURSTS * burst_s(scenario)
    if loaded.duration_s < least_s:
        loaded = loaded.ending_at(least_s)
    return point_of(loaded, {LOAD: f"{load:.4g}", **(labels or {})})


def brief_point(scenario: Scenario, load: float, emitted: Rates, labels: Labels | None = None) -> Point:
    """Return the point that runs a job briefly at a load that it clearly keeps up with."""
    warmup_s = min(scenario.warmup_s, _BRIEF_WARMUP_S)
    interval_s = scenario.config.checkpoint_interval_s or 0.0
    window_s = max(_BRIEF_WINDOW_S, _BRIEF_CHECKPOINTS * interval_s, _BURSTS * burst_s(scenario))
    end_s = min(max(scenario.duration_s, window_s), warmup_s + window_s)
    if period_s := course_s(scenario):
        end_s = warmup_s + math.ceil(window_s / period_s) * period_s
    loaded = at_load(replace(scenario, phases=(), warmup_s=warmup_s), load, emitted).ending_at(end_s)
    return point_of(loaded, {LOAD: f"{load:.4g}", **(labels or {})}, probe="brief")


def load_run(row: PointRow, load: float) -> LoadRun | None:
    """Return the run of a point; None: it failed."""
    if row.measures is None or row.result is None:
        return None
    result = from_json(row.result)
    return LoadRun(load, result) if result.steady else None


def capacity_of(run: LoadRun, reference: LoadRun) -> Headroom:
    """Return the headroom that a single run shows, in which clearly more arrived than the job can take.

    `reference` is a run at a load that its job takes.
    """
    return Headroom(
        limit=float(f"{_capacity(run, reference):.4g}"),
        at_least=0.0,
        bottleneck=run.bottleneck,
        is_bounded=not run.keeps_up,
        beyond=run.load,
    )


def with_load(scenario: Scenario, load: float) -> Scenario:
    """Return a scenario at a multiple of its load.

    If a source emits as fast as possible, a run shows first at which rate it does so.

    Raises:
        UsageError: the load is not a number above 0.
        JobFailedError: the run failed.
    """
    emitted: Rates = {}
    if load < 1 and has_unlimited_source(scenario):
        emitted = emitted_rates(emulate(scenario, end_of_run=EndOnceSettled(scenario)))
    return at_load(scenario, load, emitted)


def find_headroom(scenario: Scenario, today: LoadRun, labels: Labels | None = None) -> Waves[Headroom | None]:
    """Search the limit of a job, given its run at today's load; None: a run failed before it was known.

    A job that does not keep up with today's load has a limit below 1. Its sources have rates. `labels` are
    those of all points.
    """
    runs = [today]
    while len(runs) < MOST_RUNS and (loads := _next_loads(runs)):
        points = [load_point(scenario, load, {}, labels) for load in loads]
        rows = yield Wave("looking for the limit", points)
        found = known(load_run(row, load) for row, load in zip(rows, loads, strict=True))
        if len(found) < len(loads):
            return None
        runs += found
    kept, lost = _sides(runs)
    if lost is None:
        assert kept is not None
        return Headroom(limit=kept.load, at_least=kept.load, bottleneck=kept.bottleneck, is_bounded=False)
    limit = _capacity(lost, kept)
    return Headroom(
        limit=float(f"{limit:.4g}"),
        at_least=kept.load if kept else 0.0,
        bottleneck=lost.bottleneck,
        beyond=float(f"{BEYOND * limit:.4g}"),
    )


def headroom_of(scenario: Scenario, today: Result | None = None) -> Headroom | None:
    """Run a job at a few loads in this process, and return its headroom.

    None: its load changes with time, its sources emit as fast as possible, or a run failed. `today` is the
    result of a run at today's load; None: the job runs once more.

    Raises:
        UsageError: a part of the scenario is a Python object, which no document can hold.
    """
    if varies(scenario) or has_unlimited_source(scenario):
        return None
    run = load_run(run_point(load_point(scenario, 1.0, {})), 1.0) if today is None else LoadRun(1.0, today)
    if run is None or not run.result.steady:
        return None
    (found,) = run_side_by_side(
        [find_headroom(scenario, run)], lambda points, why: [run_point(point) for point in points]
    )
    return found


def _sides(runs: Sequence[LoadRun]) -> tuple[LoadRun | None, LoadRun | None]:
    """Return the run at the highest load that the job kept up with, and that at the lowest of the others."""
    kept = max((run for run in runs if run.keeps_up), key=_load, default=None)
    lost = min((run for run in runs if not run.keeps_up), key=_load, default=None)
    return kept, lost


def _load(run: LoadRun) -> float:
    return run.load


def _capacity(lost: LoadRun, kept: LoadRun | None) -> float:
    """Return the load that a job took in a run in which more arrived.

    Its busiest vertex then processes as much as it can. The rate of this vertex in a run that the job kept up
    with tells for which load that is. Without such a run, the slowest source subtask tells it.
    """
    if kept is None:
        return lost.load * lost.kept_share
    vertex = lost.bottleneck.vertex
    share = quotient(lost.rate(vertex), kept.rate(vertex))
    return kept.load if share is None else max(kept.load, kept.load * share)


def _when_busy(kept: LoadRun) -> float:
    """Return the load at which the busiest subtask of a run would be always busy."""
    return kept.load / max(1 / MOST_LOAD, kept.bottleneck.busy_share)


def _next_loads(runs: Sequence[LoadRun]) -> list[float]:
    """Return the loads to run next; empty: the limit is known."""
    kept, lost = _sides(runs)
    if lost is None:
        assert kept is not None
        loads = [_BELOW * _when_busy(kept), _ABOVE * _when_busy(kept)]
    elif kept is None or kept.load < (1 - _PRECISION) * _capacity(lost, kept):
        loads = [_BELOW * _capacity(lost, kept)]
    else:
        loads = []
    least = 0.0 if kept is None else (1 + _PRECISION / 2) * kept.load
    most = float("inf") if lost is None else (1 - _PRECISION / 4) * lost.load
    within = {round(min(load, MOST_LOAD), 4) for load in loads}
    return sorted(load for load in within if least <= load <= most)
