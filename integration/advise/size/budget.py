"""Plan the network memory of a job: the sizes of its gates and partitions for the shortest barrier delays.

A *place* is all gates, or all partitions, of an exchange. They share one size, in buffers. The planner takes
four steps:

1. Emulate the job as it is, and then with a base size for each place.
2. Change the size of one place at a time, starting with its smallest size. If a larger size is better,
   emulate all sizes of a list below the best one. While the best size is the largest so far, emulate the next
   larger size of the list.
3. Fit a convex curve of barrier delay over size to each place, and minimise the sum of the curves.
4. Emulate the plan. Places depend on each other, so a setting of step 2 may be better than the plan; then
   return that setting.

The third step is a linear program, because a curve is straight between its corners::

    minimise    sum over places  curve(size)
    subject to  sum over places  pools * size  <=  budget     for each task manager
                least <= size <= enough,  size whole

``scipy.optimize.linprog`` solves it exactly. The plan needs whole sizes; the multipliers come from a second
solution without that constraint. The multiplier of a task manager is the delay that one more buffer saves.
By the Karush-Kuhn-Tucker conditions it is 0 if the budget is not used up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from buffers import InsufficientBuffers
from netstack import EdgeBuffers, Result, Scenario, format_size, gates_of, partitions_of

from ...base.errors import UsageError
from ...base.extras import require
from ...base.number_text import NOTABLE_CHANGE
from ...base.optional_figures import known
from ...runs.checkpoint_times import barrier_delay_ms, completed_within
from ...runs.run_lengths import calm_interval_s, filled, undisturbed
from ...runs.seeds import Done, run_seeds
from .job_size import size_job, to_drain_s

_T = TypeVar("_T")

PLAN, NOW, ONE_SETTING = "the plan", "now, memory unlimited", "one setting for all"
IN_BUDGET, IN_AS_LITTLE = "now, in the budget", "now, in as little as the plan"
"""Names of trials that keep the present options, as `NOW` does, but limit the memory."""

_STEPS = 6
"""Maximum number of emulated sizes of a place, without further sizes that `Place.next_below` adds."""
_SAME_DELAY, _SAME_DELAY_MS = 0.01, 1.0
"""Delays count as equal if they differ by less than this share, or by less than this many milliseconds."""
_TINY = 1e-6
"""Allowance for rounding errors of the solver."""

Curve = dict[int, float]
"""Costs by size at the corners of a convex, falling curve. Sizes above the last do not cost less."""


class PlanFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one setting: means over seeds and over the completed checkpoints of their windows."""

    delay_ms: float
    """Barrier delay: the time that barriers take from vertex to vertex, summed over all vertices."""
    checkpoint_ms: float
    records_per_s: float
    """Records per second, summed over all sources."""


class PlannedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """All gates, or all partitions, of an exchange.

    Sizes are in buffers, for one gate or partition. `parts` is the largest number of remote channels of a
    gate, or of subpartitions of a partition. `least` buffers suffice for the present throughput. More than
    `enough` buffers do not shorten the delay.
    """

    parts: int
    least: int
    enough: int
    planned: int


class PlannedExchange(msgspec.Struct, frozen=True):
    """The plan for both ends of an exchange."""

    source: str
    target: str
    partition: PlannedPlace
    gate: PlannedPlace
    buffers: EdgeBuffers


class PlannedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Network memory of one task manager in a group with the same pools; bytes are sums over its places."""

    task_managers: list[str]
    least_bytes: int
    planned_bytes: int
    enough_bytes: int
    saved_ms_per_mib: float
    """Reduction of the barrier delay per MiB of additional memory in each task manager."""
    saved_at: list[str]
    """The places that would get the additional memory."""
    left_ms: float
    """Milliseconds by which `enough_bytes` of memory would shorten the barrier delay of this plan."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the job with one split of memory."""

    name: str
    memory_bytes: int | None
    """Largest network memory of a task manager; None: as much as its pools can use."""
    figures: PlanFigures | None
    """Measurements; None: the job does not start, or completes no checkpoint."""


class BudgetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Split of the network memory of each task manager, and its measured effect."""

    budget_bytes: int
    seeds: list[int]
    runs: int
    exchanges: list[PlannedExchange]
    task_managers: list[PlannedMemory]
    trials: list[Trial]
    """The plan, the job as it is now, and settings emulated at the caller's request."""


def convex(points: Mapping[int, float]) -> Curve:
    """Return the lower convex hull of `points`, costs by size, up to the lowest cost; at least one point."""
    last = min(points)
    corners = {last: points[last]}
    while lower := [size for size in points if size > last and points[size] < points[last]]:
        # The steepest straight line leads to the next corner; of several points on this line, the farthest.
        slopes = {size: (points[size] - points[last]) / (size - last) for size in lower}
        last = min(lower, key=lambda size: (slopes[size], -size))
        corners[last] = points[last]
    return corners


class MoreMemory(NamedTuple):
    """The effect of one more buffer for a task manager."""

    saved_ms: float
    """Reduction of the barrier delay: the multiplier of the task manager."""
    places: list[int]
    """The places that would get the buffer, by their index."""


def split(
    curves: Sequence[Curve], pools: NDArray[np.int64], budget: int
) -> tuple[list[int], list[MoreMemory]]:
    """Return the sizes with the lowest total cost such that no task manager exceeds the budget.

    `pools` has a row for each task manager: its number of pools of each place. The smallest sizes must fit.
    The result also contains the effect of more memory for each task manager.
    """
    from scipy.optimize import linprog

    sizes = np.array([min(curve) for curve in curves])
    lengths = np.concatenate([np.diff(list(curve)) for curve in curves])
    if not len(lengths):
        return sizes.tolist(), [MoreMemory(0.0, []) for _ in pools]
    # A size is its minimum plus the amount taken from each straight piece of its curve.
    costs = np.concatenate([np.diff(list(curve.values())) for curve in curves]) / lengths
    place_of = np.repeat(np.arange(len(curves)), [len(curve) - 1 for curve in curves])
    bounds = [(0, length) for length in lengths]
    needs, room = pools[:, place_of], budget - pools @ sizes
    whole = linprog(costs, needs, room, bounds=bounds, integrality=1, options={"mip_rel_gap": 0.0})
    sizes += np.bincount(place_of, np.rint(whole.x), len(curves)).astype(int)
    # At a corner of a curve, the multiplier is not unique. Half a buffer more selects its value for a larger
    # budget.
    relaxed = linprog(costs, needs, room + 0.5, bounds=bounds)
    least = _TINY * -min(costs)
    gaining = set(place_of[(relaxed.x < lengths - _TINY) & (relaxed.lower.marginals <= least)].tolist())
    more = []
    for row, saved in zip(pools, -relaxed.ineqlin.marginals, strict=True):
        places = [place for place in sorted(gaining) if row[place] and saved > least]
        more.append(MoreMemory(float(saved) if places else 0.0, places))
    return sizes.tolist(), more


@dataclass
class Place:
    """All gates, or all partitions, of an exchange.

    `pools` is the number of these gates or partitions in each task manager. `base` is the size while other
    places change. `steps` are the sizes that may be emulated, in ascending order. `points` has the figures of
    the emulated sizes.
    """

    name: str
    parts: int
    pools: Counter[str]
    steps: Sequence[int]
    base: int
    points: dict[int, PlanFigures | None] = field(default_factory=dict)

    def curve(self, asked_per_s: float) -> Curve:
        """Return the delay by size, for sizes with which the sources emit at least `asked_per_s`.

        A delay that exceeds the shortest one only by noise counts as the shortest.
        """
        good = {
            size: each.delay_ms
            for size, each in self.points.items()
            if each is not None and each.records_per_s >= asked_per_s
        }
        best = min(good.values())
        same = best + chance_ms(good[self.base])
        return convex({size: best if delay <= same else delay for size, delay in good.items()})

    def next_sizes(self, asked_per_s: float) -> list[int]:
        """Return all new steps below the best size. If there are none, and the best size is the largest so
        far, return the next step above.
        """
        best = max(self.curve(asked_per_s))
        new = [step for step in self.steps if step not in self.points]
        return [step for step in new if step < best] or [step for step in new if best == max(self.points)][:1]

    def next_below(self, asked_per_s: float) -> list[int]:
        """Return the size halfway between the smallest fast enough size and the emulated size below it.

        The list is empty if no size lies between these two.
        """
        least = min(self.curve(asked_per_s))
        below = max((size for size in self.points if size < least), default=least)
        return [(below + least) // 2] if below < least - 1 else []


class Ends(NamedTuple, Generic[_T]):
    """Values of both ends of an exchange."""

    partition: _T
    gate: _T


def by_edge(values: Sequence[_T]) -> list[Ends[_T]]:
    """Return values of all places, in the order of `places_of`, by exchange."""
    return [Ends(*pair) for pair in zip(values[::2], values[1::2], strict=True)]


def chance_ms(delay_ms: float) -> float:
    """Return the maximum difference of delays that counts as noise."""
    return max(_SAME_DELAY_MS, _SAME_DELAY * delay_ms)


def places_of(scenario: Scenario, bytes_per_s: Sequence[float]) -> list[Place]:
    """Return the partitions and the gates of each edge; `bytes_per_s` has the rate into its busiest consumer.

    The smallest size of a gate is the need of its link: rate times round trip. A gate that only reads within
    its task manager needs no memory; Flink gives it one floating buffer.
    """
    config, places = scenario.config, list[Place]()
    for edge, rate in zip(scenario.edges, bytes_per_s, strict=True):
        partitions, gates = list(partitions_of(scenario, edge)), list(gates_of(scenario, edge))
        parts = max(subpartitions for _, subpartitions in partitions)
        least, most = edge.buffers.pool(config, parts)
        steps = _steps(least, max(most, 2 * least), _STEPS)
        pools = Counter(manager for manager, _ in partitions)
        name = f"the partitions of {edge.source} for {edge.target}"
        places.append(Place(name, parts, pools, steps, steps[1]))
        channels = max(remote for _, _, remote in gates)
        base, steps = 1, [1]
        if channels:
            needed = max(1, math.ceil(rate * 2 * scenario.link.latency_s / config.segment_bytes))
            base = max(3 * needed, channels + 1)
            given = channels * edge.buffers.per_channel(config) + edge.buffers.per_gate(config)
            larger = _steps(base, max(base, given, 4 * needed), 3)
            steps = sorted({*_steps(needed, base, _STEPS - 2), *larger})
        pools = Counter(manager for manager, _, _ in gates)
        name = f"the gates of {edge.target} that read {edge.source}"
        places.append(Place(name, channels, pools, steps, base))
    return places


def _steps(least: int, most: int, number: int) -> list[int]:
    """Return at most `number` sizes from `least` to `most`, each larger by about the same factor."""
    return sorted(set(np.geomspace(least, most, number).round().astype(int).tolist()))


def with_sizes(scenario: Scenario, places: Sequence[Place], sizes: Sequence[int]) -> Scenario:
    """Return the job with these sizes of its pools.

    As many buffers of a gate as possible are exclusive, because a sender has credit for exclusive buffers
    before it has data, and gets floating buffers only for a backlog. A subpartition may hold all buffers of
    its partition, except one for each other subpartition.
    """
    edges, most = [], scenario.config.max_buffers_per_channel
    for edge, place, size in zip(scenario.edges, by_edge(places), by_edge(sizes), strict=True):
        channels = place.gate.parts
        own = (size.gate - 1) // channels if channels else 0
        buffers = EdgeBuffers(
            exclusive=own,
            floating=size.gate - own * channels,
            partition=size.partition,
            max_per_channel=min(most, max(2, size.partition - place.partition.parts + 1)),
        )
        edges.append(replace(edge, buffers=buffers))
    return replace(scenario, edges=tuple(edges))


class Planner:
    """Search for the buffer sizes with the shortest barrier delay, by emulations of a job.

    All emulations have the same checkpoint interval, and no faults. `job` is the scenario with its present
    options. `managers` are groups of task managers with the same pools. `pools` has a row for each group,
    with the number of pools of each place.
    """

    def __init__(self, job: Scenario, budget_bytes: int, record_bytes: int | None, seeds: int, done: Done):
        self._seeds, self._record_bytes, self._done = seeds, record_bytes, done
        self.budget_bytes, self.budget = budget_bytes, budget_bytes // job.config.segment_bytes
        self.runs = 0
        interval_s = calm_interval_s(job, to_drain_s(job, record_bytes))
        self.job = undisturbed(job, checkpoint_interval_s=interval_s, network_memory_max_bytes=None)
        (results,) = self._emulate([self.job])
        self.now = figures_of(results)
        self._known = {(self.job.edges, self.job.config): self.now}
        self.places = places_of(job, read_per_s(job, results[0]))
        managers: dict[tuple[int, ...], list[str]] = {}
        for name in dict.fromkeys(name for place in self.places for name in place.pools):
            managers.setdefault(tuple(place.pools[name] for place in self.places), []).append(name)
        self.pools, self.managers = np.array(list(managers)), list(managers.values())

    def curves(self) -> list[Curve]:
        """Emulate sizes until the best size of each place is known, and the smallest sizes fit the budget.

        Return the curve of each place. A size counts only if the sources emit at least `asked_per_s` records.
        This is the lower of the present rate and the rate with the base sizes, minus `NOTABLE_CHANGE`.
        """
        wanted = [(place, size) for place in self.places for size in (place.base, place.steps[0])]
        while wanted:
            settings = [with_sizes(self.job, self.places, self._with_one(*each)) for each in wanted]
            for (place, size), figures in zip(wanted, self.figures(settings), strict=True):
                place.points[size] = figures
            base = self.places[0].points[self.places[0].base]
            if base is None:
                problem = f"budget: no checkpoint of {self.job.name} completes, so none can be shortened"
                raise UsageError([problem])
            rates = [each.records_per_s for each in (self.now, base) if each is not None]
            self.asked_per_s = asked_per_s = min(rates) * (1 - NOTABLE_CHANGE)
            curves = [place.curve(asked_per_s) for place in self.places]
            least = self.pools * [min(curve) for curve in curves]
            largest = least.sum(axis=1).argmax()  # the task managers that need most
            fits = least[largest].sum() <= self.budget
            wanted = [(place, size) for place in self.places for size in place.next_sizes(asked_per_s)]
            if not fits and not wanted:
                wanted = [(place, size) for place in self.places for size in place.next_below(asked_per_s)]
        if not fits:
            raise UsageError([self._too_little(self.managers[largest][0], least[largest])])
        return curves

    def _too_little(self, manager: str, needed: NDArray[np.int64]) -> str:
        counts = self.budget, int(needed.sum()), int(needed.max())
        given, whole, part = (format_size(count * self.job.config.segment_bytes) for count in counts)
        text = f"budget: {given} is too little: task manager {manager} needs at least {whole}"
        return f"{text}, of which {part} are for {self.places[needed.argmax()].name}"

    def best(self, plan: list[int]) -> tuple[list[int], PlanFigures | None]:
        """Emulate a plan. Return it, or an emulated setting that fits and is better by more than noise."""

        def merit(setting: tuple[list[int], PlanFigures | None]) -> tuple[float, float]:
            sizes, figures = setting
            if figures is None:
                return 0.0, -math.inf
            chance = 0.0 if sizes == plan else chance_ms(figures.delay_ms)
            return min(figures.records_per_s, self.asked_per_s), -figures.delay_ms - chance

        def emulated(sizes: list[int]) -> tuple[list[int], PlanFigures | None]:
            return sizes, self.within(with_sizes(self.job, self.places, sizes), self.budget_bytes)

        best = emulated(plan)
        points = [(place, *point) for place in self.places for point in place.points.items()]
        settings = [(self._with_one(place, size), figures) for place, size, figures in points]
        fitting = [each for each in settings if (self.pools @ each[0]).max() <= self.budget]
        sizes, _ = max([best, *fitting], key=merit)
        return max(best, emulated(sizes), key=merit)

    def _with_one(self, place: Place, size: int) -> list[int]:
        """Return this size for one place, and the base sizes of all others."""
        return [size if each is place else each.base for each in self.places]

    def figures(self, settings: Sequence[Scenario]) -> list[PlanFigures | None]:
        """Return the figures of settings that differ only in edges and options. Each is emulated once."""
        by_key = {(each.edges, each.config): each for each in settings}
        new = {key: each for key, each in by_key.items() if key not in self._known}
        self._known.update(zip(new, map(figures_of, self._emulate(new.values())), strict=True))
        return [self._known[each.edges, each.config] for each in settings]

    def within(self, setting: Scenario, memory_bytes: int) -> PlanFigures | None:
        """Return the figures with this memory in each task manager; None: the job does not start."""
        most = max(each.most_bytes for each in size_job(setting, self._record_bytes).task_managers)
        limit = memory_bytes if memory_bytes < most else None
        try:
            return self.figures([undisturbed(setting, network_memory_max_bytes=limit)])[0]
        except InsufficientBuffers:
            return None

    def _emulate(self, settings: Iterable[Scenario]) -> list[list[Result]]:
        timed = [filled(each, to_drain_s(each, self._record_bytes)) for each in settings]
        before = self.runs
        self.runs += len(timed) * self._seeds
        return run_seeds(timed, self._seeds, done=lambda count: self._done(before + count))


def figures_of(results: Sequence[Result]) -> PlanFigures | None:
    """Return mean figures over the runs of a setting; None: a run completed no checkpoint or has no rate."""
    means = []
    for result in results:
        done = completed_within(result.checkpoints, result.steady[-1])
        delays = known(barrier_delay_ms(result.scenario, checkpoint) for checkpoint in done)
        sources = {vertex.name for vertex in result.scenario.vertices if vertex.source is not None}
        emitted = [each.records_out_per_s for each in result.steady[-1].vertices if each.name in sources]
        rates = known(rate for subtasks in emitted for rate in subtasks)
        if not delays or not rates:
            return None
        means.append((fmean(delays), fmean(known(each.duration_ms for each in done)), sum(rates)))
    delay_ms, checkpoint_ms, records_per_s = map(fmean, zip(*means, strict=True))
    return PlanFigures(delay_ms=delay_ms, checkpoint_ms=checkpoint_ms, records_per_s=records_per_s)


def read_per_s(scenario: Scenario, result: Result) -> list[float]:
    """Return, for each edge, the maximum rate in bytes per second at which one consumer reads from it."""
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
    """Split `budget_bytes` of network memory of each task manager for the shortest barrier delay.

    With `check`, other settings are emulated for comparison. `done` is called with the number of ended runs.

    Raises:
        UsageError: the budget is too small, there is no exchange, or no checkpoint completes.
        MissingExtraError: SciPy is not installed.
        ScenarioError, SourceError, WorkerError: as `run_seeds`.
    """
    require("statistics", "a plan for network memory")
    if not scenario.edges:
        raise UsageError([f"budget: {scenario.name} has no exchange, so there is no network memory to split"])
    planner = Planner(scenario, budget_bytes, record_bytes, seeds, done)
    places, curves, segment = planner.places, planner.curves(), scenario.config.segment_bytes
    plan, more = split(curves, planner.pools, planner.budget)
    sizes, figures = planner.best(plan)
    job = planner.job
    edges = with_sizes(job, places, sizes).edges
    ends, left_ms = [], []
    for place, curve, size in zip(places, curves, sizes, strict=True):
        ends.append(PlannedPlace(parts=place.parts, least=min(curve), enough=max(*curve, size), planned=size))
        left_ms.append(np.interp(size, list(curve), list(curve.values())) - min(curve.values()))
    memory = []
    for names, counts, gain in zip(planner.managers, planner.pools, more, strict=True):
        least, planned, enough = segment * counts @ [(end.least, end.planned, end.enough) for end in ends]
        memory.append(
            PlannedMemory(
                task_managers=names,
                least_bytes=int(least),
                planned_bytes=int(planned),
                enough_bytes=int(enough),
                saved_ms_per_mib=gain.saved_ms * (1 << 20) / segment,
                saved_at=[places[number].name for number in gain.places],
                left_ms=float(np.sign(counts) @ left_ms),
            )
        )
    most = max(each.planned_bytes for each in memory)
    trials = [
        Trial(name=PLAN, memory_bytes=most, figures=figures),
        Trial(name=NOW, memory_bytes=None, figures=planner.now),
    ]
    if check:
        one = one_setting([edge.buffers for edge in edges])
        alike = replace(job, edges=tuple(replace(edge, buffers=one) for edge in edges))
        others = (ONE_SETTING, alike, budget_bytes), (IN_BUDGET, job, budget_bytes), (IN_AS_LITTLE, job, most)
        for name, setting, given in others:
            trials.append(Trial(name=name, memory_bytes=given, figures=planner.within(setting, given)))
    return BudgetPlan(
        budget_bytes=budget_bytes,
        seeds=[scenario.seed + number for number in range(seeds)],
        runs=planner.runs,
        exchanges=[
            PlannedExchange(edge.source, edge.target, planned.partition, planned.gate, edge.buffers)
            for edge, planned in zip(edges, by_edge(ends), strict=True)
        ],
        task_managers=memory,
        trials=trials,
    )


def one_setting(planned: Sequence[EdgeBuffers]) -> EdgeBuffers:
    """Return one setting for all exchanges, as Flink 1.x options need it: the maximum of each number."""
    names = ("exclusive", "floating", "max_per_channel")
    return EdgeBuffers(**{name: max(getattr(each, name) for each in planned) for name in names})


def planned_scenario(scenario: Scenario, plan: BudgetPlan) -> Scenario:
    """Return the job with the buffers of a plan."""
    pairs = zip(scenario.edges, plan.exchanges, strict=True)
    return replace(scenario, edges=tuple(replace(edge, buffers=each.buffers) for edge, each in pairs))


def most_runs(scenario: Scenario, seeds: int, *, check: bool) -> int:
    """Return the maximum number of runs for a plan."""
    return seeds * (4 + 2 * len(scenario.edges) * (_STEPS - 1) + 3 * check)
