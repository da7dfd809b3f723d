"""Plan the network memory of a job: buffers of each gate and partition, for the shortest barrier delays.

A *place* is all gates, or all partitions, of an exchange. They share one size, in buffers. The job is
emulated as it is, then with sizes of one place at a time while the others stay at a base. The curve of a
place is the sum of the barrier delays of all vertices over its size, made convex. A size counts only if the
job does as much as now. The smallest size is measured first, and others only if that one costs something.

`allocation.split` minimises the sum of the curves within the budget, and the plan is emulated in that
memory. Sizes depend on each other, so if a setting that was measured for a curve is better, it is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

import msgspec

from buffers import InsufficientBuffers
from netstack import (
    EdgeBuffers,
    Result,
    Scenario,
    consumers_of_producers,
    format_size,
    producers_of_consumers,
    with_options,
)

from ..comparison.checkpoint_times import barrier_delay_ms, completed_within
from ..errors import UsageError
from ..extras import require
from ..number_text import SAME_THROUGHPUT
from ..optional_figures import known
from ..seed_runs import PROCESSES, Done, run_seeds
from .allocation import Curve, buffers_of, split
from .emulated_check import periods_s, undisturbed
from .job_size import size_job

PLAN, ONE_SETTING, AS_IT_IS = "the plan", "one setting for all", "options as they are"
IN_AS_LITTLE, NOW = "the same, in as little", "now, with all it can use"
"""Names of trials. `IN_AS_LITTLE` has the options as they are and no more memory than the plan takes."""

_STEPS = 6
"""Most sizes of a place that are emulated."""
_SAME_DELAY, _SAME_DELAY_MS = 0.01, 1.0
"""Part of the sum of delays, and milliseconds, below which a difference counts as chance."""
_WINDOW_S, _CHECKPOINTS = 20.0, 2
"""Least length of a measured window, in seconds, and least number of checkpoints that it has time for."""
_MOST_PERIOD_S = 60.0
"""Longest period of the load that a window contains whole."""
_SETTLING_S = 15.0
"""Time in which debloated sizes settle, with the default 20 samples of 200 ms."""
_OFF_BEAT_S = 0.37
"""Keeps checkpoints from coinciding with what happens each second."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one setting: means over seeds, and over the checkpoints completed in their windows."""

    delay_ms: float
    """Sum over vertices of the time from the barrier's way out of those before to its last arrival."""
    checkpoint_ms: float
    records_per_s: float
    """Sum over all sources."""
    checkpoints: int


class PlannedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """All gates, or all partitions, of an exchange. Sizes are in buffers of one of them.

    `needed` is for bandwidth times round trip, of a partition to start, `least` the smallest measured size
    with which the job does as much as now. Beyond `enough` more brings nothing. `exclusive` is per channel.
    """

    edge: int
    source: str
    target: str
    kind: str
    """gate or partition."""
    parts: int
    """Channels of a gate over the network, or subpartitions of a partition; of the one with most."""
    needed: int
    least: int
    enough: int
    planned: int
    exclusive: int | None
    floating: int | None
    max_per_channel: int | None
    """None for a gate, as `exclusive` and `floating` are for a partition."""


class PlannedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Network memory of each of some task managers that have the same places."""

    task_managers: list[str]
    least_bytes: int
    planned_bytes: int
    enough_bytes: int
    """Beyond which more brings nothing."""
    saved_ms_per_mib: float
    """The multiplier: reduction of the sum of delays by a little more memory in each."""
    saved_at: list[str]
    """The places that would get it."""
    left_ms: float
    """Reduction by all memory up to `enough_bytes`."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The job under one split of memory."""

    name: str
    memory_bytes: int | None
    """Memory of the task manager with most; None: as much as its pools can use."""
    figures: Figures | None
    """None: it does not start, or completes no checkpoint."""


class BudgetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Split of the network memory of each task manager, and its measured effect."""

    budget_bytes: int
    seeds: list[int]
    runs: int
    emulated_seconds: float
    """Duration of the longest run."""
    places: list[PlannedPlace]
    task_managers: list[PlannedMemory]
    records_per_s_now: float | None
    """Target of the plan: with all memory that the options can use. None: no checkpoint completes."""
    one_setting: dict[str, int]
    """Greatest numbers of the plan, as options of Flink 1.x, which hold for all exchanges."""
    expected_delay_ms: float
    """Sum of delays by the curves; the emulated one is in the first of `trials`."""
    trials: list[Trial]


@dataclass
class Place:
    """All gates, or all partitions, of an exchange; fields as of `PlannedPlace`."""

    edge: int
    kind: str
    parts: int
    pools: Counter[str]
    """Number of them in each task manager."""
    needed: int
    steps: Sequence[int]
    """Sizes that may be emulated."""
    base: int
    """Size while others change."""
    points: dict[int, Figures | None] = field(default_factory=dict)
    """Figures of the sizes that were emulated."""

    def counting(self, asked_per_s: float) -> dict[int, Figures]:
        """Return the sizes with which, and with all up to the base, the job emits as much as asked."""
        good: dict[int, Figures] = {}
        for size, figures in sorted(self.points.items(), reverse=True):
            if figures is not None and (size == self.base or figures.records_per_s >= asked_per_s):
                good[size] = figures
            elif size < self.base:
                break
        return good

    def curve(self, base: Figures, asked_per_s: float) -> Curve:
        """Return by how many milliseconds sizes change the delays at the base, except by chance."""
        good = {size: figures.delay_ms for size, figures in self.counting(asked_per_s).items()}
        delays = {size: delay - base.delay_ms for size, delay in good.items()}
        best = min(delays.values())
        same = best + _chance_ms(base)
        return Curve.below({size: best if delay <= same else delay for size, delay in delays.items()})

    def next_sizes(self, base: Figures, asked_per_s: float) -> list[int]:
        """Return sizes to measure: if the smallest costs something those up to the base, then larger ones."""
        enough = self.curve(base, asked_per_s).enough
        between = [step for step in self.steps if step < self.base and step not in self.points]
        if enough > self.steps[0] and between:
            return between
        return [step for step in self.steps if step > enough][: enough == max(self.points)]

    def next_below(self, least: int) -> list[int]:
        """Return the size halfway from the smallest that counts to the next smaller one, which does not."""
        below = max((size for size in self.points if size < least), default=least)
        middle = (below + least) // 2
        return [middle] if below < middle else []


def _chance_ms(base: Figures) -> float:
    return max(_SAME_DELAY_MS, _SAME_DELAY * base.delay_ms)


def places_of(scenario: Scenario, bytes_per_s: Sequence[float]) -> list[Place]:
    """Return the partitions and gates of each edge, whose busiest consumer reads so much over it.

    A gate that reads within its task manager only needs no memory; Flink gives it one floating buffer.
    """
    config, places = scenario.config, list[Place]()
    for number, (edge, rate) in enumerate(zip(scenario.edges, bytes_per_s, strict=True)):
        sender, receiver = scenario.vertex(edge.source), scenario.vertex(edge.target)
        reached = consumers_of_producers(edge.ship, sender.parallelism, receiver.parallelism)
        parts = max(map(len, reached))
        least, most = edge.buffers.pool(config, parts)
        steps = _steps(least, max(most, 2 * least), _STEPS)
        pools = Counter(map(sender.manager_of, range(sender.parallelism)))
        places.append(Place(number, "partition", parts, pools, least, steps, steps[1]))
        channels = max(
            sum(sender.manager_of(source) != receiver.manager_of(consumer) for source, _ in sources)
            for consumer, sources in enumerate(producers_of_consumers(reached, receiver.parallelism))
        )
        needed = max(1, math.ceil(rate * 2 * scenario.link.latency_s / config.segment_bytes))
        base = max(3 * needed, channels + 1) if channels else 1
        given = channels * edge.buffers.per_channel(config) + edge.buffers.per_gate(config)
        larger = _steps(base, max(base, given, 4 * needed), 3) if channels else [1]
        steps = sorted({*_steps(min(needed, base), base, _STEPS - 2), *larger})
        pools = Counter(map(receiver.manager_of, range(receiver.parallelism)))
        places.append(Place(number, "gate", channels, pools, needed, steps, base))
    return places


def _steps(least: int, most: int, number: int) -> list[int]:
    """Return at most `number` sizes, each greater than the one before by about the same factor."""
    return sorted({round(least * (most / least) ** (step / (number - 1))) for step in range(number)})


def with_sizes(scenario: Scenario, places: Sequence[Place | PlannedPlace], sizes: Sequence[int]) -> Scenario:
    """Return the job with pools of these sizes.

    As many buffers of a gate as possible are exclusive: these are credit for data that is yet to come, while
    data that waits asks for floating ones. A subpartition may hold what others with one buffer each leave.
    """
    buffers = {place.edge: EdgeBuffers() for place in places}
    for place, size in zip(places, sizes, strict=True):
        own = buffers[place.edge]
        if place.kind == "gate":
            exclusive = (size - 1) // place.parts if place.parts else 0
            own = replace(own, exclusive=exclusive, floating=size - exclusive * place.parts)
        else:
            quota = min(scenario.config.max_buffers_per_channel, max(2, size - place.parts + 1))
            own = replace(own, partition=size, max_per_channel=quota)
        buffers[place.edge] = own
    edges = (replace(edge, buffers=buffers[number]) for number, edge in enumerate(scenario.edges))
    return replace(scenario, edges=tuple(edges))


class Emulations:
    """Runs of a job in several settings, with the same checkpoint interval and without faults."""

    def __init__(self, scenario: Scenario, record_bytes: int | None, seeds: int, done: Done) -> None:
        self._record_bytes, self._seeds, self._done = record_bytes, seeds, done
        self.count, self.longest_s = 0, 0.0
        costs = [each.service for each in scenario.vertices] + [each.service for each in scenario.edges]
        self._changes = any(steps and len(steps) > 1 for steps in costs)
        window_s = scenario.duration_s - scenario.warmup_s
        calm_s = window_s / 16 if self._changes else 1.2 * self._drain_s(scenario) + _OFF_BEAT_S
        interval_s = min(calm_s, scenario.config.checkpoint_interval_s or math.inf)
        self.scenario = undisturbed(scenario, checkpoint_interval_s=round(interval_s, 2))

    def results(self, scenarios: Iterable[Scenario]) -> list[list[Result]]:
        """Return the results of all seeds of each scenario."""
        timed, before = [self._timed(each) for each in scenarios], self.count
        self.count += len(timed) * self._seeds
        self.longest_s = max(self.longest_s, *(each.duration_s for each in timed))
        # To start processes takes as long as a short run.
        processes = PROCESSES if self.count > before + 1 else 1
        return run_seeds(
            timed, self._seeds, processes=processes, done=lambda count: self._done(before + count)
        )

    def trial(self, name: str, scenario: Scenario, memory_bytes: int) -> Trial:
        """Run a scenario with so much network memory in each task manager, unlimited if it cannot use it."""
        most = max(each.most_bytes for each in size_job(scenario, self._record_bytes).task_managers)
        limit = memory_bytes if memory_bytes < most else None
        try:
            (results,) = self.results([undisturbed(scenario, network_memory_max_bytes=limit)])
        except InsufficientBuffers:
            return Trial(name=name, memory_bytes=memory_bytes, figures=None)
        return Trial(name=name, memory_bytes=memory_bytes, figures=figures_of(results))

    def _timed(self, scenario: Scenario) -> Scenario:
        """Return the scenario with a warm-up that fills its queues, and a window of whole periods of load.

        If the cost of a record changes over time, both stay as they are.
        """
        if self._changes:
            return scenario
        drain_s = self._drain_s(scenario)
        period_s = max(scenario.config.checkpoint_interval_s or 0.0, 1.2 * drain_s)
        warmup = 1.0 + 1.2 * drain_s + _SETTLING_S * scenario.config.debloat_enabled
        window = max(_WINDOW_S, _CHECKPOINTS * period_s)
        for period in sorted(periods_s(scenario)):  # the longest last, as not all can be whole
            if period <= _MOST_PERIOD_S:
                warmup, window = (math.ceil(length / period) * period for length in (warmup, window))
        return replace(scenario, warmup_s=round(warmup, 2), duration_s=round(warmup + window, 2))

    def _drain_s(self, scenario: Scenario) -> float:
        """Return the time in which barriers pass all full queues by arithmetic, at least a second."""
        full = [each for each in size_job(scenario, self._record_bytes).consumers if each.is_held_back]
        times = [each.debloated_drain_ms or each.expected_drain_ms or 0.0 for each in full]
        return max(1.0, sum(times) / 1000)


def figures_of(results: Sequence[Result]) -> Figures | None:
    """Return mean figures over the runs of a setting; None if a run has no checkpoint or no rate."""
    each = []
    for result in results:
        steady, scenario = result.steady[-1], result.scenario
        done = completed_within(result.checkpoints, steady)
        delays = known(barrier_delay_ms(scenario, checkpoint) for checkpoint in done)
        sources = {vertex.name for vertex in scenario.vertices if vertex.source is not None}
        emitted = [vertex.records_out_per_s for vertex in steady.vertices if vertex.name in sources]
        rates = known(rate for subtasks in emitted for rate in subtasks)
        if not delays or not rates:
            return None
        durations = known(checkpoint.duration_ms for checkpoint in done)
        each.append((fmean(delays), fmean(durations), sum(rates), len(done)))
    *means, counts = zip(*each, strict=True)
    delay_ms, checkpoint_ms, records_per_s = map(fmean, means)
    return Figures(
        delay_ms=delay_ms, checkpoint_ms=checkpoint_ms, records_per_s=records_per_s, checkpoints=sum(counts)
    )


def read_per_s(scenario: Scenario, result: Result) -> list[float]:
    """Return the bytes that the busiest consumer of each edge reads over it in a second, at most."""
    vertices = {vertex.name: vertex for vertex in result.steady[-1].vertices}
    rates = []
    for edge in scenario.edges:
        read = known(vertices[edge.target].bytes_in_per_s)
        written = known(vertices[edge.source].bytes_out_per_s)
        share = min(1.0, sum(written) / sum(read)) if written and sum(read) else 1.0
        rates.append(max(read, default=0.0) * share)
    return rates


def plan_budget(
    scenario: Scenario,
    budget_bytes: int,
    seeds: int = 1,
    *,
    record_bytes: int | None = None,
    check: bool = False,
    done: Done = lambda count: None,
) -> BudgetPlan:
    """Return the split of `budget_bytes` of network memory in each task manager with the shortest delays.

    `check` also emulates other settings in that memory. `done` is called with the number of ended runs.

    Raises:
        UsageError: the budget is too small, there is no exchange, or no checkpoint completes.
        MissingExtraError: SciPy is not installed.
        ScenarioError, SourceError, WorkerError: as `run_seeds`.
    """
    require("statistics", "a plan for network memory")
    if not scenario.edges:
        raise UsageError([f"budget: {scenario.name} has no exchange, so there is no memory to split"])
    runs, segment = Emulations(scenario, record_bytes, seeds, done), scenario.config.segment_bytes
    (as_it_is,) = runs.results([runs.scenario])
    now = figures_of(as_it_is)
    places = places_of(scenario, read_per_s(scenario, as_it_is[0]))
    search = _Search(runs, places, now, budget_bytes // segment)
    curves = search.curves()
    pools = [place.pools for place in places]
    plan, worth = split(curves, pools, search.budget)
    sizes, emulated = search.best(plan)
    planned = with_sizes(runs.scenario, places, sizes)
    own = [planned.edges[place.edge].buffers for place in places]
    planned_places = [
        PlannedPlace(
            edge=place.edge,
            source=planned.edges[place.edge].source,
            target=planned.edges[place.edge].target,
            kind=place.kind,
            parts=place.parts,
            needed=place.needed,
            least=curve.least,
            enough=max(curve.enough, size),
            planned=size,
            exclusive=buffers.exclusive if place.kind == "gate" else None,
            floating=buffers.floating if place.kind == "gate" else None,
            max_per_channel=buffers.max_per_channel if place.kind == "partition" else None,
        )
        for place, size, curve, buffers in zip(places, sizes, curves, own, strict=True)
    ]
    least = buffers_of([curve.least for curve in curves], pools)
    used, enough = buffers_of(sizes, pools), buffers_of([place.enough for place in planned_places], pools)
    left = [curve.at(size) - curve.at(curve.enough) for curve, size in zip(curves, sizes, strict=True)]
    memory = [
        PlannedMemory(
            task_managers=list(names),
            least_bytes=least[names[0]] * segment,
            planned_bytes=used[names[0]] * segment,
            enough_bytes=enough[names[0]] * segment,
            saved_ms_per_mib=saved * (1 << 20) / segment,
            saved_at=[_name(scenario, places[number]) for number in gaining],
            left_ms=sum(ms for ms, place in zip(left, places, strict=True) if names[0] in place.pools),
        )
        for names, saved, gaining in worth
    ]
    one = {
        "exclusive_buffers_per_channel": max(known(place.exclusive for place in planned_places)),
        "floating_buffers_per_gate": max(known(place.floating for place in planned_places)),
        "max_buffers_per_channel": max(known(place.max_per_channel for place in planned_places)),
    }
    most = max(used.values()) * segment
    trials = [Trial(name=PLAN, memory_bytes=most, figures=emulated)]
    if check:
        config = with_options(runs.scenario.config, one)
        edges = tuple(replace(edge, buffers=EdgeBuffers()) for edge in scenario.edges)
        alike = replace(runs.scenario, config=config, edges=edges)
        trials.append(runs.trial(ONE_SETTING, alike, budget_bytes))
        trials.append(runs.trial(AS_IT_IS, runs.scenario, budget_bytes))
        trials.append(runs.trial(IN_AS_LITTLE, runs.scenario, most))
    else:
        trials.append(Trial(name=NOW, memory_bytes=None, figures=now))
    return BudgetPlan(
        budget_bytes=budget_bytes,
        seeds=[scenario.seed + number for number in range(seeds)],
        runs=runs.count,
        emulated_seconds=runs.longest_s,
        places=planned_places,
        task_managers=memory,
        records_per_s_now=None if now is None else now.records_per_s,
        one_setting=one,
        expected_delay_ms=search.base.delay_ms + sum(map(Curve.at, curves, sizes)),
        trials=trials,
    )


def planned_scenario(scenario: Scenario, plan: BudgetPlan) -> Scenario:
    """Return the job with the buffers of a plan."""
    return with_sizes(scenario, plan.places, [place.planned for place in plan.places])


def most_runs(scenario: Scenario, seeds: int, *, check: bool) -> int:
    """Return how many runs a plan takes at most."""
    return seeds * (4 + 2 * len(scenario.edges) * (_STEPS - 1) + 3 * check)


class _Split(NamedTuple):
    """One split of the budget, and its emulation."""

    sizes: Sequence[int]
    figures: Figures | None


class _Search:
    """Sizes of places that are emulated until a split of `budget` buffers in each task manager is known.

    The job has to emit as much as `now`, except for chance, or as much as the base if that emits less.
    """

    def __init__(self, runs: Emulations, places: Sequence[Place], now: Figures | None, budget: int) -> None:
        """Emulate sizes of each place while more are wanted."""
        self.runs, self.places, self.budget = runs, places, budget
        self.pools = [place.pools for place in places]
        wanted: list[list[int]] = [[place.base, place.steps[0]] for place in places]
        while any(wanted):
            self._emulate(wanted)
            base = places[0].points[places[0].base]
            if base is None:
                text = f"budget: {runs.scenario.name} completes no checkpoint"
                raise UsageError([f"{text}, so there is no delay to shorten"])
            self.base = base
            rate = min((now or base).records_per_s, base.records_per_s)
            self.asked_per_s = rate * (1 - SAME_THROUGHPUT)
            wanted = [place.next_sizes(base, self.asked_per_s) for place in places]

    def curves(self) -> list[Curve]:
        """Return the curves of all places; smaller sizes are measured until the smallest fit."""
        while True:
            curves = [place.curve(self.base, self.asked_per_s) for place in self.places]
            used = buffers_of([curve.least for curve in curves], self.pools)
            largest = max(used, key=lambda name: used[name])
            if used[largest] <= self.budget:
                return curves
            pairs = zip(self.places, curves, strict=True)
            smaller = [place.next_below(curve.least) for place, curve in pairs]
            if not any(smaller):
                break
            self._emulate(smaller)
        needs = [curve.least * pools[largest] for curve, pools in zip(curves, self.pools, strict=True)]
        most = max(range(len(needs)), key=lambda number: needs[number])
        segment = self.runs.scenario.config.segment_bytes
        given, whole, part = (
            format_size(buffers * segment) for buffers in (self.budget, used[largest], needs[most])
        )
        text = f"budget: {given} is too little: task manager {largest} needs at least {whole}, of which "
        raise UsageError([f"{text}{part} are for {_name(self.runs.scenario, self.places[most])}"])

    def best(self, plan: Sequence[int]) -> _Split:
        """Emulate a plan; return it, or a measured setting that fits and is better by more than chance."""
        best, base = self._run(plan), [place.base for place in self.places]
        fitting = [
            _Split(sizes, figures)
            for number, place in enumerate(self.places)
            for size, figures in place.counting(self.asked_per_s).items()
            if max(buffers_of(sizes := _with_one(base, number, size), self.pools).values()) <= self.budget
        ]
        other = max(fitting, key=self._merit, default=best)
        throughput, delay = self._merit(other)
        if (throughput, delay - _chance_ms(self.base)) <= self._merit(best):
            return best
        return max(best, self._run(other.sizes), key=self._merit)

    def _merit(self, split: _Split) -> tuple[float, float]:
        """Return the records/s as far as they are asked, and the negative delays; greater is better."""
        if split.figures is None:
            return 0.0, -math.inf
        return min(split.figures.records_per_s, self.asked_per_s), -split.figures.delay_ms

    def _run(self, sizes: Sequence[int]) -> _Split:
        scenario = self.runs.scenario
        memory_bytes = self.budget * scenario.config.segment_bytes
        return _Split(
            sizes, self.runs.trial(PLAN, with_sizes(scenario, self.places, sizes), memory_bytes).figures
        )

    def _emulate(self, wanted: Sequence[Sequence[int]]) -> None:
        """Measure sizes of each place, all others at their base."""
        base = [place.base for place in self.places]
        settings = {
            (number, size): _with_one(base, number, size)
            for number, sizes in enumerate(wanted)
            for size in sizes
        }
        different = list(dict.fromkeys(settings.values()))
        scenario = self.runs.scenario
        results = self.runs.results(with_sizes(scenario, self.places, sizes) for sizes in different)
        figures = dict(zip(different, map(figures_of, results), strict=True))
        for (number, size), sizes in settings.items():
            self.places[number].points[size] = figures[sizes]


def _with_one(base: Sequence[int], number: int, size: int) -> tuple[int, ...]:
    return (*base[:number], size, *base[number + 1 :])


def _name(scenario: Scenario, place: Place) -> str:
    edge = scenario.edges[place.edge]
    if place.kind == "gate":
        return f"the gates of {edge.target} that read {edge.source}"
    return f"the partitions of {edge.source} for {edge.target}"
