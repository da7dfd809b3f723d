"""Plan the network memory of a job: buffers of each gate and partition, for the shortest barrier delays.

A *place* is all gates, or all partitions, of an exchange. They share one size, in buffers. The job is
emulated as it is, then with sizes of one place at a time while the others stay at a base. The curve of a
place is the sum of the barrier delays of all vertices over its size, made convex. A size counts only if the
job does as much as now. The smallest size is measured first, and others only if that one costs something.

`allocation.split` minimises the sum of the curves within the budget, and the plan is emulated in that
memory. If the job does less in it than now, because sizes depend on each other, all places get at least
their next larger size and the budget is split again, up to three times. If a measured setting is better than
these plans, it is taken instead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

import msgspec
from numpy import interp

from buffers import InsufficientBuffers
from netstack import (
    CheckpointResult,
    EdgeBuffers,
    GeneratorSpec,
    Result,
    Scenario,
    consumers_of_producers,
    format_size,
    producers_of_consumers,
)

from ..comparison.checkpoint_times import COMPLETED
from ..errors import UsageError
from ..extras import require
from ..known_values import known
from ..number_text import SAME_THROUGHPUT
from ..seed_runs import PROCESSES, Done, run_seeds
from .allocation import Curve, Worth, buffers_of, split
from .job_size import size_job

PLAN, ONE_SETTING, AS_IT_IS = "the plan", "one setting for all", "options as they are"
IN_AS_LITTLE, NOW = "the same, in as little", "now, with all it can use"
"""Names of trials. `IN_AS_LITTLE` has the options as they are and no more memory than the plan takes."""

_STEPS = 6
"""Most sizes of a place that are emulated."""
_TRIES = 3
"""Most plans that are emulated."""
_SAME_DELAY, _SAME_DELAY_MS = 0.01, 1.0
"""Part of the sum of delays, and milliseconds, below which a difference counts as chance."""
_LEAST_WINDOW_S, _MOST_WINDOW_S, _CHECKPOINTS = 22.0, 60.0, 3
"""Length of a measured window. It may be longer, to hold so many checkpoints that wait for full queues."""
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


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A place at one size, all others at their base; it `counts` if the job does as much as now."""

    buffers: int
    figures: Figures | None
    """None: no checkpoint completed."""
    counts: bool


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
    lift_ms: float
    """Greatest distance of a measured sum of delays above the convex curve."""
    points: list[Point]


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


class OneSetting(msgspec.Struct, frozen=True, kw_only=True):
    """Greatest numbers of a plan, as options of Flink 1.x, which hold for all exchanges."""

    exclusive_buffers_per_channel: int
    floating_buffers_per_gate: int
    max_buffers_per_channel: int


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
    one_setting: OneSetting
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
    at_least: int = 0
    """Smallest size of a plan."""

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
        good = {size: figures.delay_ms for size, figures in sorted(self.counting(asked_per_s).items())}
        least = max(min(good), min(self.at_least, max(good)))
        good[least] = float(interp(least, list(good), list(good.values())))
        delays = {size: delay - base.delay_ms for size, delay in good.items() if size >= least}
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
        config = replace(scenario.config, checkpoint_dir=None, checkpoint_storage=None)
        config = replace(config, network_memory_max_bytes=None, checkpoint_interval_s=round(interval_s, 2))
        self.scenario = replace(scenario, config=config, phases=(), manual_checkpoints_s=(), faults=())

    def results(self, scenarios: Iterable[Scenario]) -> list[list[Result]]:
        """Return the results of all seeds of each scenario."""
        timed, before = [self._timed(each) for each in scenarios], self.count
        self.count += len(timed) * self._seeds
        self.longest_s = max(self.longest_s, *(each.duration_s for each in timed))
        # To start processes takes as long as a short run.
        processes = PROCESSES if self.count > before + 1 else 1
        done = lambda count: self._done(before + count)  # noqa: E731
        return run_seeds(timed, self._seeds, processes=processes, done=done)

    def trial(self, name: str, scenario: Scenario, memory_bytes: int) -> Trial:
        """Run a scenario with so much network memory in each task manager, unlimited if it cannot use it."""
        most = max(each.most_bytes for each in size_job(scenario, self._record_bytes).task_managers)
        limit = memory_bytes if memory_bytes < most else None
        limited = replace(scenario, config=replace(scenario.config, network_memory_max_bytes=limit))
        try:
            figures = figures_of(self.results([limited])[0])
        except InsufficientBuffers:
            figures = None
        return Trial(name=name, memory_bytes=memory_bytes, figures=figures)

    def _timed(self, scenario: Scenario) -> Scenario:
        """Return the scenario with a warm-up that fills its queues, and several checkpoints.

        If the cost of a record changes over time, the window stays as it is.
        """
        if self._changes:
            return scenario
        drain_s = self._drain_s(scenario)
        period_s = max(scenario.config.checkpoint_interval_s or 0.0, 1.2 * drain_s)
        sources = [each.source for each in scenario.vertices if isinstance(each.source, GeneratorSpec)]
        window = max(min(scenario.duration_s - scenario.warmup_s, _MOST_WINDOW_S), _LEAST_WINDOW_S)
        window = max(window, _CHECKPOINTS * period_s)
        for wave_s in (each.wave_s for each in sources if each.wave_s):
            window = math.ceil(window / wave_s) * wave_s
        settling = 1.0 + 1.2 * drain_s + _SETTLING_S * scenario.config.debloat_enabled
        warmup = round(max(scenario.warmup_s, settling), 2)
        return replace(scenario, warmup_s=warmup, duration_s=round(warmup + window, 2))

    def _drain_s(self, scenario: Scenario) -> float:
        """Return the time in which barriers pass all full queues by arithmetic, at least a second."""
        full = [each for each in size_job(scenario, self._record_bytes).consumers if each.is_held_back]
        times = [each.debloated_drain_ms or each.expected_drain_ms or 0.0 for each in full]
        return max(1.0, sum(times) / 1000)


def figures_of(results: Sequence[Result]) -> Figures | None:
    """Return mean figures over the runs of a setting; None if a run has no checkpoint or no rate."""
    each = []
    for result in results:
        steady = result.steady[-1]
        done = [one for one in result.checkpoints if one.status == COMPLETED and one.t >= steady.from_s]
        delays = known(_delay_ms(result.scenario, checkpoint) for checkpoint in done)
        durations = known(checkpoint.duration_ms for checkpoint in done)
        sources = {vertex.name for vertex in result.scenario.vertices if vertex.source is not None}
        emitted = [vertex.records_out_per_s for vertex in steady.vertices if vertex.name in sources]
        rates = known(rate for subtasks in emitted for rate in subtasks)
        if not delays or not durations or not rates:
            return None
        each.append((fmean(delays), fmean(durations), sum(rates), len(done)))
    delay_ms, checkpoint_ms, records_per_s, counts = map(list, zip(*each, strict=True))
    return Figures(
        delay_ms=fmean(delay_ms),
        checkpoint_ms=fmean(checkpoint_ms),
        records_per_s=fmean(records_per_s),
        checkpoints=sum(counts),
    )


def _delay_ms(scenario: Scenario, checkpoint: CheckpointResult) -> float | None:
    """Return the sum over vertices of the time that barriers take to them; None: one did not report."""
    arrivals = {}
    for part in checkpoint.vertices:
        subtasks = zip(part.start_delay_ms, part.alignment_ms, strict=True)
        # A subtask that had ended has no start delay, and a source no alignment.
        times = [start + (alignment or 0.0) for start, alignment in subtasks if start is not None]
        arrivals[part.name] = max(times, default=None)
    total = 0.0
    for vertex in scenario.vertices:
        before = [arrivals.get(edge.source) for edge in scenario.inputs(vertex)]
        here, sent = arrivals.get(vertex.name), known(before)
        if here is None or len(sent) < len(before):
            return None
        total += here - max(sent) if sent else 0.0
    return total


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
    plan = _best_plan(runs, places_of(scenario, read_per_s(scenario, as_it_is[0])), now, budget_bytes)
    places, curves, sizes = plan.places, plan.curves, plan.sizes
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
            lift_ms=curve.lift,
            points=[
                Point(buffers=step, figures=figures, counts=step in place.counting(plan.asked_per_s))
                for step, figures in sorted(place.points.items())
            ],
        )
        for place, size, curve, buffers in zip(places, sizes, curves, own, strict=True)
    ]
    pools = [place.pools for place in places]
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
        for names, saved, gaining in plan.worth
    ]
    one = OneSetting(
        exclusive_buffers_per_channel=max(known(place.exclusive for place in planned_places)),
        floating_buffers_per_gate=max(known(place.floating for place in planned_places)),
        max_buffers_per_channel=max(known(place.max_per_channel for place in planned_places)),
    )
    most = max(used.values()) * segment
    trials = [Trial(name=PLAN, memory_bytes=most, figures=plan.figures)]
    if check:
        config = replace(runs.scenario.config, **msgspec.structs.asdict(one))
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
        expected_delay_ms=plan.expected_ms,
        trials=trials,
    )


def planned_scenario(scenario: Scenario, plan: BudgetPlan) -> Scenario:
    """Return the job with the buffers of a plan."""
    return with_sizes(scenario, plan.places, [place.planned for place in plan.places])


def most_runs(scenario: Scenario, seeds: int, *, check: bool) -> int:
    """Return how many runs a plan takes at most."""
    return seeds * (2 + _TRIES + 2 * len(scenario.edges) * (_STEPS - 1) + 3 * check)


class _Split(NamedTuple):
    """One split of the budget, and its emulation."""

    places: Sequence[Place]
    curves: list[Curve]
    sizes: list[int]
    worth: list[Worth]
    expected_ms: float
    """Sum of delays by the curves."""
    asked_per_s: float
    figures: Figures | None

    def merit(self, asked_per_s: float) -> tuple[float, float]:
        """Return the records/s as far as they are asked, and the negative delays; greater is better."""
        if self.figures is None:
            return 0.0, -math.inf
        return min(self.figures.records_per_s, asked_per_s), -self.figures.delay_ms


def _best_plan(runs: Emulations, places: Sequence[Place], now: Figures | None, budget_bytes: int) -> _Split:
    """Measure sizes, split the budget and emulate the plan, with larger sizes if it does less than asked."""
    base, asked_per_s = _measure(runs, places, now)
    pools, segment = [place.pools for place in places], runs.scenario.config.segment_bytes
    plans = list[_Split]()

    def fits(used: dict[str, int]) -> bool:
        return max(used.values()) * segment <= budget_bytes

    while len(plans) < _TRIES:
        curves = [place.curve(base, asked_per_s) for place in places]
        used = buffers_of([curve.least for curve in curves], pools)
        if not fits(used):
            smaller = [place.next_below(curve.least) for place, curve in zip(places, curves, strict=True)]
            if any(smaller):
                _emulate(runs, places, smaller)
                continue
            largest = max(used, key=lambda name: used[name])
            needs = [curve.least * place.pools[largest] for curve, place in zip(curves, places, strict=True)]
            most = max(range(len(places)), key=lambda number: needs[number])
            whole, part = format_size(used[largest] * segment), format_size(needs[most] * segment)
            text = f"budget: {format_size(budget_bytes)} is too little: task manager {largest} needs "
            text += f"at least {whole}, of which {part} are for {_name(runs.scenario, places[most])}"
            raise UsageError([text])
        sizes, worth = split(curves, pools, budget_bytes // segment)
        trial = runs.trial(PLAN, with_sizes(runs.scenario, places, sizes), budget_bytes)
        expected_ms = base.delay_ms + sum(map(Curve.at, curves, sizes))
        plans.append(_Split(places, curves, sizes, worth, expected_ms, asked_per_s, trial.figures))
        if plans[-1].merit(asked_per_s)[0] >= asked_per_s:
            break
        least = list(sizes)
        for number, (place, size) in enumerate(zip(places, sizes, strict=True)):
            least[number] = min((step for step in place.steps if step > size), default=size)
            if not fits(buffers_of(least, pools)):
                least[number] = size
            place.at_least = least[number]
        if least == sizes:
            break
    best = max(plans, key=lambda plan: plan.merit(asked_per_s))
    sizes_of = [place.base for place in places]
    measured = [
        best._replace(sizes=[*sizes_of[:number], size, *sizes_of[number + 1 :]], figures=figures)
        for number, place in enumerate(places)
        for size, figures in place.counting(asked_per_s).items()
    ]
    fitting = [plan for plan in measured if fits(buffers_of(plan.sizes, pools))]
    other = max(fitting, key=lambda plan: plan.merit(asked_per_s), default=best)
    throughput, delay = other.merit(asked_per_s)
    if (throughput, delay - _chance_ms(base)) <= best.merit(asked_per_s):
        return best
    trial = runs.trial(PLAN, with_sizes(runs.scenario, places, other.sizes), budget_bytes)
    expected_ms = base.delay_ms + sum(map(Curve.at, best.curves, other.sizes))
    other = other._replace(figures=trial.figures, expected_ms=expected_ms)
    return max(best, other, key=lambda plan: plan.merit(asked_per_s))


def _measure(runs: Emulations, places: Sequence[Place], now: Figures | None) -> tuple[Figures, float]:
    """Emulate sizes of each place while more are wanted; return the figures at the base, and records/s asked.

    A plan has to emit as much as now, except for chance, or as much as the base if that emits less.
    """
    wanted: list[list[int]] = [[place.base, place.steps[0]] for place in places]
    while True:
        _emulate(runs, places, wanted)
        base = places[0].points[places[0].base]
        if base is None:
            name = runs.scenario.name
            raise UsageError([f"budget: {name} completes no checkpoint, so there is no delay to shorten"])
        asked_per_s = min((now or base).records_per_s, base.records_per_s) * (1 - SAME_THROUGHPUT)
        wanted = [place.next_sizes(base, asked_per_s) for place in places]
        if not any(wanted):
            return base, asked_per_s


def _emulate(runs: Emulations, places: Sequence[Place], wanted: Sequence[Sequence[int]]) -> None:
    """Measure sizes of each place, all others at their base."""
    base = [place.base for place in places]
    settings = {
        (number, size): (*base[:number], size, *base[number + 1 :])
        for number, sizes in enumerate(wanted)
        for size in sizes
    }
    different = list(dict.fromkeys(settings.values()))
    results = runs.results(with_sizes(runs.scenario, places, sizes) for sizes in different)
    figures = dict(zip(different, map(figures_of, results), strict=True))
    for (number, size), sizes in settings.items():
        places[number].points[size] = figures[sizes]


def _name(scenario: Scenario, place: Place) -> str:
    edge = scenario.edges[place.edge]
    if place.kind == "gate":
        return f"the gates of {edge.target} that read {edge.source}"
    return f"the partitions of {edge.source} for {edge.target}"
