"""Plans the network memory of a job by its own emulations.

Once as it is, and once with gates so large that no link waits for credit: what flows then says what each
link needs. Then for sizes of each place, all others at their base, under the load and the options of the
scenario. The curves of these are split under the budget, and the plan is emulated in that memory. If the job
does less in it than as it is, which the sizes of two places may do together where neither does alone, one of
them gets its next size at least, whichever costs least; if none alone is enough, all do, and so on. If its
delays are not those that the curves say, sizes of each place are emulated once more around the plan, that is
with all others as planned, and it is split again; the better of the two plans is the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from netstack import EdgeBuffers, InputError, Scenario, ScenarioError, format_size

from ..analysis.sizing.allocation import ConvexHull
from ..analysis.sizing.budget_plan import (
    BudgetPlan,
    Figures,
    OneSetting,
    PlannedMemory,
    PlannedPlace,
    Point,
    Trial,
    bytes_per_s,
    counts,
    curve_of,
    figures_of,
    may_gain,
    one_setting,
)
from ..analysis.sizing.job_size import JobSize
from ..analysis.sizing.places import STEPS, Place, places_of, wide, with_sizes
from ..analysis.sizing.splitting import Counts, Split, TaskManagerTooSmall, buffers_of, least_buffers, split
from ..analysis.wording import SAME_THROUGHPUT
from ..errors import UsageError
from .budget_runs import BudgetRuns, Done

PLAN, ONE_SETTING = "the plan", "one setting for all"
AS_IT_IS, IN_AS_LITTLE = "options as they are", "the same, in as little"
NOW = "now, with all it can use"
"""The trials; `IN_AS_LITTLE` is the options as they are with no more memory than the plan takes."""

_AS_EXPECTED = 0.05
"""Share by which the emulated delays of a plan may differ from what its curves say."""

_MIB = 1 << 20


def most_runs(scenario: Scenario, seeds: int, *, check: bool) -> int:
    """Return how many runs a plan takes at most if the curves hold."""
    return seeds * (4 + 2 * len(scenario.edges) * (STEPS - 1) + (3 if check else 0))


def plan_budget(
    scenario: Scenario,
    size: JobSize,
    budget_bytes: int,
    seeds: int,
    *,
    check: bool = False,
    done: Done = lambda count: None,
) -> BudgetPlan:
    """Return how `budget_bytes` of network memory in each task manager are best split.

    With `check` the job is also emulated with one setting for all exchanges, and with its options as they
    are, in the same memory and in as little as the plan takes. `done` is told how many runs have ended.

    Raises:
        ScenarioError: it cannot be run, completes no checkpoint, or needs more memory; one line.
        SourceError, WorkerError: as `run_seeds`.
    """
    if not scenario.edges:
        text = f"netstack size: --budget: {scenario.name} has no exchange, so there is no memory to split"
        raise ScenarioError([text])
    runs = BudgetRuns(scenario, size, seeds, done)
    seen, held = _planned(runs, budget_bytes)
    memory = max(held.buffers.values()) * scenario.config.segment_bytes
    trials = [Trial(name=PLAN, memory_bytes=memory, figures=held.figures)]
    places = _places(seen, held)
    one = one_setting(places)
    if not check:  # else what is emulated in the same memory says more
        trials.append(Trial(name=NOW, memory_bytes=None, figures=seen.now))
    if check:
        trials.append(runs.trial(ONE_SETTING, _with_one_setting(runs.scenario, one), budget_bytes))
        trials.append(runs.trial(AS_IT_IS, runs.scenario, budget_bytes))
        trials.append(runs.trial(IN_AS_LITTLE, runs.scenario, memory))
    return BudgetPlan(
        budget_bytes=budget_bytes,
        seeds=[scenario.seed + number for number in range(seeds)],
        runs=runs.count,
        emulated_seconds=runs.scenario.duration_s,
        places=places,
        task_managers=_memory(seen, held),
        records_per_s_now=None if seen.now is None else seen.now.records_per_s,
        one_setting=one,
        expected_delay_ms=seen.expected_ms(held),
        trials=trials,
    )


def planned_scenario(scenario: Scenario, plan: BudgetPlan) -> Scenario:
    """Return the job with the buffers of a plan."""
    edges = list(scenario.edges)
    for place in plan.places:
        own = edges[place.edge].buffers
        if place.kind == "gate":
            own = replace(own, exclusive=place.exclusive, floating=place.floating)
        else:
            own = replace(own, partition=place.planned, max_per_channel=place.max_per_channel)
        edges[place.edge] = replace(edges[place.edge], buffers=own)
    return replace(scenario, edges=tuple(edges))


def _with_one_setting(scenario: Scenario, one: OneSetting) -> Scenario:
    config = replace(scenario.config, **msgspec.structs.asdict(one))
    edges = tuple(replace(edge, buffers=EdgeBuffers()) for edge in scenario.edges)
    return replace(scenario, config=config, edges=edges)


class _Seen(NamedTuple):
    """What emulations showed of all places."""

    scenario: Scenario
    places: tuple[Place, ...]
    points: list[dict[int, Figures | None]]
    """Of each place, by its size."""
    base: Figures
    now: Figures | None
    """With the options as they are, and as much memory as these can use."""
    asked_per_s: float
    """Records per second that a plan may not fall below: what the job does now, but for chance."""

    def suffices(self, held: _Held) -> bool:
        """Whether the job does what is asked with a split."""
        return held.figures.records_per_s >= self.asked_per_s

    def expected_ms(self, held: _Held) -> float:
        """Return the sum of delays that the curves of a split say."""
        saved = zip(held.curves, held.split.sizes, strict=True)
        return self.base.delay_ms + sum(curve.at(size) for curve, size in saved)


class _Held(NamedTuple):
    """A split with which the job does as much as it can."""

    curves: list[ConvexHull]
    split: Split
    buffers: dict[str, int]
    """Of each task manager."""
    figures: Figures


def _planned(runs: BudgetRuns, budget_bytes: int) -> tuple[_Seen, _Held]:
    """Look at all places and split; where sizes do together what they do not alone, once more around that."""
    scenario = runs.scenario
    ample, as_it_is = runs.results([wide(scenario), scenario])
    now = figures_of(as_it_is)
    places = places_of(scenario, bytes_per_s(scenario, ample))
    seen = _looked_at(runs, places, now)
    held = _held(runs, seen, budget_bytes)
    if abs(held.figures.delay_ms - seen.expected_ms(held)) <= _AS_EXPECTED * held.figures.delay_ms:
        return seen, held
    around = tuple(
        replace(place, base=size, steps=tuple(sorted({*place.steps, size})))
        for place, size in zip(places, held.split.sizes, strict=True)
    )
    closer = _looked_at(runs, around, now)
    both = [(seen, held), (closer, _held(runs, closer, budget_bytes))]
    return min(both, key=lambda each: (not each[0].suffices(each[1]), each[1].figures.delay_ms))


def _looked_at(runs: BudgetRuns, places: tuple[Place, ...], now: Figures | None) -> _Seen:
    """Emulate every place at its ends, and at the sizes between where less memory costs something."""
    scenario = runs.scenario
    (at_base,) = runs.results([with_sizes(scenario, places, tuple(place.base for place in places))])
    base = figures_of(at_base)
    if base is None:
        raise ScenarioError([_nothing_done(scenario)])
    asked = (base if now is None else now).records_per_s * (1 - SAME_THROUGHPUT)
    points: list[dict[int, Figures | None]] = [{place.base: base} for place in places]
    _emulate(runs, places, points, [{place.steps[0], place.steps[-1]} for place in places])
    between = [
        set(place.steps) if may_gain(each, place, asked, base.delay_ms) else set[int]()
        for place, each in zip(places, points, strict=True)
    ]
    _emulate(runs, places, points, between)
    return _Seen(scenario, places, points, base, now, asked)


def _emulate(
    runs: BudgetRuns,
    places: tuple[Place, ...],
    points: list[dict[int, Figures | None]],
    wanted: Sequence[set[int]],
) -> None:
    """Emulate sizes of each place that have no figures yet, and put these into its points."""
    base = tuple(place.base for place in places)
    missing = [
        (number, size)
        for number, sizes in enumerate(wanted)
        for size in sorted(sizes - points[number].keys())
    ]
    scenarios = [
        with_sizes(runs.scenario, places, (*base[:number], size, *base[number + 1 :]))
        for number, size in missing
    ]
    for (number, size), results in zip(missing, runs.results(scenarios), strict=True):
        points[number][size] = figures_of(results)


def _held(runs: BudgetRuns, seen: _Seen, budget_bytes: int) -> _Held:
    """Split, emulate, and have places take more where that costs throughput, until it does not."""
    asked = [place.steps[0] for place in seen.places]
    tried = _tried(runs, seen, [asked], budget_bytes)
    while not any(map(seen.suffices, tried)):
        above = [_next(points, size) for points, size in zip(seen.points, tried[-1].split.sizes, strict=True)]
        more = [max(pair) for pair in zip(asked, above, strict=True)]
        if more == asked:
            break
        one_more = [
            [*asked[:number], size, *asked[number + 1 :]]
            for number, size in enumerate(more)
            if size > asked[number]
        ]
        # The last is what is gone on from if none of the others suffices.
        tried = _tried(runs, seen, [*one_more, more], budget_bytes)
        asked = more
    done = [held for held in tried if seen.suffices(held)] or tried[-1:]
    return min(done, key=lambda held: held.figures.delay_ms)


def _next(points: Mapping[int, Figures | None], size: int) -> int:
    """The size after one that was emulated; the greatest has none."""
    return min((other for other in points if other > size), default=size)


def _tried(runs: BudgetRuns, seen: _Seen, asked: Sequence[Sequence[int]], budget_bytes: int) -> list[_Held]:
    """The splits of least delay with at least these sizes, emulated; without those that do not fit.

    Raises:
        ScenarioError: none of them fits, or completes a checkpoint; what the last one needs.
    """
    splits: dict[tuple[int, ...], tuple[list[ConvexHull], Split]] = {}
    for least in asked:
        curves = [
            _curve(seen, place, {size: each for size, each in points.items() if size >= low})
            for place, points, low in zip(seen.places, seen.points, least, strict=True)
        ]
        try:
            found = _split(seen, curves, budget_bytes)
        except InputError as error:
            refused = error
        else:
            splits[found.sizes] = curves, found
    if not splits:
        raise refused
    scenarios = [with_sizes(seen.scenario, seen.places, sizes) for sizes in splits]
    trials = runs.trials(PLAN, scenarios, budget_bytes)
    counts_of = [place.counts for place in seen.places]
    held = [
        _Held(curves, found, buffers_of(found.sizes, counts_of), trial.figures)
        for (curves, found), trial in zip(splits.values(), trials, strict=True)
        if trial.figures is not None
    ]
    if not held:
        raise ScenarioError([_nothing_done(seen.scenario)])
    return held


def _curve(seen: _Seen, place: Place, points: Mapping[int, Figures | None]) -> ConvexHull:
    return curve_of(points, place, seen.asked_per_s, seen.base.delay_ms)


def _nothing_done(scenario: Scenario) -> str:
    return f"netstack size: --budget: {scenario.name} completes no checkpoint, so there is no delay to lessen"


def _split(seen: _Seen, curves: list[ConvexHull], budget_bytes: int) -> Split:
    segment = seen.scenario.config.segment_bytes
    counts_of = [place.counts for place in seen.places]
    try:
        return split(curves, counts_of, budget_bytes // segment)
    except TaskManagerTooSmall as error:
        places = range(len(seen.places))
        needs = {
            number: curves[number].floor * seen.places[number].counts.get(error.task_manager, 0)
            for number in places
        }
        most = max(places, key=lambda number: needs[number])
        needed, part = format_size(error.least * segment), format_size(round(needs[most]) * segment)
        text = (
            f"--budget: {format_size(budget_bytes)} is too little: task manager {error.task_manager} needs "
        )
        text += f"at least {needed}, of which {part} are for {_where(seen, most)}"
        raise UsageError([f"netstack size: {text}"]) from None


def _where(seen: _Seen, number: int) -> str:
    """What a place is called."""
    place = seen.places[number]
    edge = seen.scenario.edges[place.edge]
    if place.kind == "gate":
        return f"the gates of {edge.target} that read {edge.source}"
    return f"the partitions of {edge.source} for {edge.target}"


def _enough(curve: ConvexHull) -> int:
    return round(curve.where(0.0))


def _left_ms(held: _Held, counts_of: Counts, task_manager: str) -> float:
    """What more for the places of a task manager could take off the sum of delays."""
    return sum(
        curve.at(size) - curve.at(curve.where(0.0))
        for curve, size, each in zip(held.curves, held.split.sizes, counts_of, strict=True)
        if task_manager in each
    )


def _places(seen: _Seen, held: _Held) -> list[PlannedPlace]:
    planned = with_sizes(seen.scenario, seen.places, held.split.sizes)
    return [
        _place(planned, place, size, curve, points, seen.asked_per_s)
        for place, size, curve, points in zip(
            seen.places, held.split.sizes, held.curves, seen.points, strict=True
        )
    ]


def _place(
    planned: Scenario,
    place: Place,
    size: int,
    curve: ConvexHull,
    points: Mapping[int, Figures | None],
    asked: float,
) -> PlannedPlace:
    edge = planned.edges[place.edge]
    is_gate = place.kind == "gate"
    return PlannedPlace(
        edge=place.edge,
        source=edge.source,
        target=edge.target,
        kind=place.kind,
        parts=place.parts,
        needed=place.needed,
        least=round(curve.floor),
        enough=_enough(curve),
        planned=size,
        exclusive=edge.buffers.exclusive if is_gate else None,
        floating=edge.buffers.floating if is_gate else None,
        max_per_channel=None if is_gate else edge.buffers.max_per_channel,
        lift_ms=curve.lift,
        points=[
            Point(buffers=step, figures=figures, counts=counts(step, points, place, asked))
            for step, figures in sorted(points.items())
        ],
    )


def _memory(seen: _Seen, held: _Held) -> list[PlannedMemory]:
    counts_of, segment = [place.counts for place in seen.places], seen.scenario.config.segment_bytes
    least = least_buffers(held.curves, counts_of)
    enough = buffers_of([_enough(curve) for curve in held.curves], counts_of)
    return [
        PlannedMemory(
            task_managers=list(worth.task_managers),
            least_bytes=least[worth.task_managers[0]] * segment,
            planned_bytes=held.buffers[worth.task_managers[0]] * segment,
            enough_bytes=enough[worth.task_managers[0]] * segment,
            saved_ms_per_mib=worth.price * _MIB / segment,
            saved_at=[_where(seen, number) for number in worth.gaining],
            left_ms=_left_ms(held, counts_of, worth.task_managers[0]),
        )
        for worth in held.split.worth
    ]
