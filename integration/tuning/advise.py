"""Advice for a scenario: run a sweep, with more seeds where they are needed, and recommend a setting.

1. Each setting is tried with one seed, the longest targets first, a few at a time. A target that clearly
   costs more throughput than it may is the last: a shorter one has smaller buffers, and cannot cost less
   (`too_costly`). What was tried tells how long the rest will take, and which settings are expensive
   (`durations.EXPENSIVE_BUFFERS`).
2. Settings that are still in question are run with `FIRST_SEEDS`, and those whose figures do not agree within
   `AGREEING_SHARE` with as many as were asked for; then the choice is made (`recommend`).
3. What is chosen and the present setting get more seeds, since the first may have been luck: as many as were
   asked for, and as many again where their figures do not agree.
4. Where the intervals leave open whether a setting should have been chosen, it and the present one get more,
   at most `MOST_GROWTH` times as many as were asked for; none where they say that these are plainly too few.
   What is open then is said.
5. What is run beside each setting, and nothing is chosen by, has one seed; of the chosen and the present
   setting it has `PROBE_SEEDS`.

Of an expensive setting a run says more, since the chance of many channels evens out: it has `FEWEST_SEEDS` at
first, and more only where the intervals do not decide; `FIRST_SEEDS` where it is chosen, or set now. What
nothing is chosen by is run of the chosen and the present setting alone, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple, Protocol

import msgspec

from netstack import Scenario

from ..optional_figures import known, quotient
from .axes import Axis, with_present
from .choice import may_be_decided
from .constraints import Constraints, too_costly
from .durations import is_expensive, longest_first
from .measures import Measures
from .point_rows import PointRow
from .points import Grid, Point, Probe, Probes, probes_of
from .recommend import (
    Conditions,
    Place,
    Recommendation,
    current_target,
    own_policy,
    place_of,
    recommendations,
    without,
)
from .summaries import OFF, setting_of, target_s

FIRST_SEEDS = 3
"""Seeds with which each setting begins."""
FEWEST_SEEDS = 2
"""Seeds with which each expensive setting begins: the fewest that have a confidence interval."""
AGREEING_SHARE = 0.02
"""Greatest difference of figures of different seeds, as a share of their mean, at which they agree."""
SEEDS = 5
"""Default number of seeds for settings whose first ones do not agree."""
PROBE_SEEDS = 3
"""Seeds of the probes of the chosen and the present setting."""
MOST_GROWTH = 4
"""Greatest factor by which a setting gets more seeds."""

AT_ONCE = 2
"""Default number of targets that are tried at once, before shorter ones."""

_MAIN: tuple[Probe, ...] = ("main", "baseline")

SeedsOf = Callable[[Place], int]
"""Function that returns the wanted number of seeds of a setting."""


Planned = Callable[[Scenario, Sequence[Point], Sequence[Point], Sequence[PointRow]], None]
"""Callback with the points that certainly follow, those that may, and rows to estimate their time from."""


class RunPoints(Protocol):
    """Function that runs points and returns their rows in the same order;

    `known` are rows of earlier points.
    """

    def __call__(self, points: Sequence[Point], known: Sequence[PointRow], why: str) -> list[PointRow]:
        """Run them; `why` is shown to the user meanwhile."""
        ...


class Advice(NamedTuple):
    """Results of a sweep, with its scenario."""

    scenario: Scenario
    """The scenario, with the longest run that a setting needed."""
    rows: list[PointRow]
    recommendations: list[Recommendation]
    """One for each combination of the axes other than the target."""


def advise(
    scenario: Scenario,
    axes: Sequence[Axis],
    constraints: Constraints,
    run: RunPoints,
    *,
    seeds: int = SEEDS,
    most_seeds: int | None = None,
    at_once: int = AT_ONCE,
    planned: Planned = lambda *_: None,
) -> Advice:
    """Run a scenario as it is, without debloating and at every target, and recommend one of these settings.

    A setting whose first seeds disagree gets `seeds` seeds, and at most `most_seeds`, by default
    `MOST_GROWTH` times as many. `at_once` is how many targets are tried before shorter ones: a larger number
    keeps more cores busy, but some runs may be wasted. `planned` is called when each setting has been tried.

    Raises:
        ScenarioError: the scenario makes no sense with some value of an axis.
    """
    axes = with_present(axes, scenario)
    rows = _tried(axes, scenario, constraints, run, seeds, at_once)
    costly, expensive = _too_costly(rows, scenario, constraints), _expensive(rows)
    left_out = _left_out(axes, scenario, rows)
    wanted = {place_of(row) for row in rows} - costly
    points = [
        *_further(axes, scenario, _first_seeds(expensive, seeds), rows, wanted),
        *_further(axes, scenario, _as_many(1), rows, wanted - expensive, _other_probes),
    ]
    most = _totals(seeds, most_seeds)[-1]
    if points:
        planned(scenario, points, _possible(axes, scenario, most, rows, wanted), rows)
        rows += run(longest_first(points, rows), (), "tuning")
    if more := _further(axes, scenario, _as_many(seeds), rows, _disagreeing(rows) - costly - expensive):
        why = f"seeds {min(FIRST_SEEDS, seeds) + 1} on, where the first differ"
        rows += run(longest_first(more, rows), (), why)
    recommended = recommendations(rows, scenario, constraints)
    for total in _totals(seeds, most_seeds):
        wanted = _open(recommended, scenario, rows, seeds, total, most, expensive)
        if more := _further(axes, scenario, _as_many(total), rows, wanted):
            rows += run(longest_first(more, rows), (), f"up to {total} seeds, to decide")
            recommended = recommendations(rows, scenario, constraints)
    probes = _probe_seeds(expensive, seeds)
    if more := _further(axes, scenario, probes, rows, _compared(recommended, scenario), _other_probes):
        rows += run(
            longest_first(more, rows), (), "unaligned checkpoints and a step of the load, for the advice"
        )
        recommended = recommendations(rows, scenario, constraints)
    told = [without(each, left_out.get(_conditions(each), ())) for each in recommended]
    return Advice(_as_long_as_it_ran(scenario, rows), rows, told)


def _tried(
    axes: Sequence[Axis],
    scenario: Scenario,
    constraints: Constraints,
    run: RunPoints,
    seeds: int,
    at_once: int,
) -> list[PointRow]:
    """Run each setting once, with its series, except those that are too costly.

    The first are the present setting, no debloating, and the `at_once` longest targets; the others follow,
    `at_once` at a time. Expensive settings run one at a time, while more of their seeds keep the other cores
    busy.
    """
    points = [
        msgspec.structs.replace(point, with_series=True)
        for point in Grid(tuple(axes), 1).points(scenario, _main_probes)
    ]
    known_first = {current_target(scenario), OFF}
    targets = sorted({*map(setting_of, points)} - known_first, key=target_s, reverse=True)
    settings, targets = {*targets[:at_once], *known_first}, targets[at_once:]
    rows: list[PointRow] = []
    while settings:
        costly, expensive = _too_costly(rows, scenario, constraints), _expensive(rows)
        wave = [
            point
            for point in points
            if setting_of(point) in settings and not _is_beyond(place_of(point), costly)
        ]
        if not wave:
            break
        wave += _further(axes, scenario, _first_seeds(expensive, seeds), rows, expensive - costly)
        rows += run(longest_first(wave, rows), (), "trying")
        count = 1 if _expensive(rows) else at_once
        settings, targets = {*targets[:count]}, targets[count:]
    return rows


def _expensive(rows: Sequence[PointRow]) -> set[Place]:
    """Return the settings whose first run was expensive."""
    first = {place_of(row): row for row in reversed(rows) if row.probe in _MAIN}
    return {place for place, row in first.items() if is_expensive(row)}


def _as_many(seeds: int) -> SeedsOf:
    return lambda place: seeds


def _first_seeds(expensive: set[Place], seeds: int) -> SeedsOf:
    return lambda place: min(FEWEST_SEEDS if place in expensive else FIRST_SEEDS, seeds)


def _probe_seeds(expensive: set[Place], seeds: int) -> SeedsOf:
    return lambda place: 1 if place in expensive else min(PROBE_SEEDS, seeds)


def _too_costly(rows: Sequence[PointRow], scenario: Scenario, constraints: Constraints) -> set[Place]:
    """Return the settings whose single run is clearly below the required share of the present throughput."""
    first = {place_of(row): row.measures for row in rows if row.probe in _MAIN and row.measures is not None}
    return {
        place
        for place, measures in first.items()
        if (now := first.get((current_target(scenario), place[1]))) is not None
        and too_costly(quotient(measures.throughput_per_s, now.throughput_per_s), constraints)
    }


def _is_beyond(place: Place, costly: set[Place]) -> bool:
    """Whether a target is shorter than one that costs too much throughput."""
    target, conditions = place
    return any(
        conditions == others and target_s(target) < target_s(longer) < inf for longer, others in costly
    )


def _left_out(
    axes: Sequence[Axis], scenario: Scenario, rows: Sequence[PointRow]
) -> dict[tuple[tuple[str, str], ...], list[str]]:
    """Return the targets that were not run, shortest first, by the values of the other axes."""
    have_run = {place_of(row) for row in rows}
    left_out: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for point in Grid(tuple(axes), 1).points(scenario, _main_probes):
        target, conditions = place_of(point)
        if (target, conditions) not in have_run:
            left_out.setdefault(conditions, []).append(target)
    return {conditions: sorted(targets, key=target_s) for conditions, targets in left_out.items()}


def _totals(seeds: int, most: int | None) -> list[int]:
    """Return the number of seeds that settings may have in each round."""
    most = most or MOST_GROWTH * seeds
    grown = {seeds * growth for growth in range(1, MOST_GROWTH + 1)}
    return sorted({min(total, most) for total in (min(FIRST_SEEDS, seeds), *grown, most)})


def _disagreeing(rows: Sequence[PointRow]) -> set[Place]:
    """Return the settings whose times or throughput differ between seeds by more than `AGREEING_SHARE`."""
    runs: dict[Place, list[Measures]] = {}
    for row in rows:
        if row.probe in _MAIN and row.measures is not None:
            runs.setdefault(place_of(row), []).append(row.measures)
    return {place for place, measures in runs.items() if not _agree(measures)}


def _agree(runs: Sequence[Measures]) -> bool:
    return all(
        max(values) - min(values) <= AGREEING_SHARE * abs(sum(values)) / len(values)
        for field in ("throughput_per_s", "end_to_end_ms")
        if (values := known(getattr(run, field) for run in runs))
    )


def _open(
    recommended: Sequence[Recommendation],
    scenario: Scenario,
    rows: Sequence[PointRow],
    seeds: int,
    total: int,
    most: int,
    expensive: set[Place],
) -> set[Place]:
    """Return the undecided settings and those they are compared with; each may have `total` seeds.

    Settings that `most` seeds, the final limit, would not decide either are left out. A setting chosen by too
    few seeds is included, since chance may have favoured it.
    """
    disagreeing = _disagreeing(rows)
    places: set[Place] = set()
    for each in recommended:
        conditions = _conditions(each)
        compared_with, place = _places(each, scenario)
        enough = 2 * seeds if place in disagreeing else seeds
        enough = min(FIRST_SEEDS, seeds) if place in expensive else enough
        unconfirmed = place != compared_with and len(each.advised.seeds) < min(enough, total)
        decidable = [target for target in each.undecided if _may_be_decided(each, target, most)]
        if decidable or unconfirmed:
            places |= {*((target, conditions) for target in decidable), compared_with, place}
    return places


def _may_be_decided(recommended: Recommendation, target: str, most: int) -> bool:
    summaries = {setting.target: setting for setting in recommended.settings}
    return may_be_decided(summaries[target], recommended.now, recommended.objective, most)


def _places(recommended: Recommendation, scenario: Scenario) -> tuple[Place, Place]:
    """Return the setting that others are compared with, and the recommended one."""
    conditions = _conditions(recommended)
    has_reference = recommended.reference is not msgspec.UNSET
    compared_with = (
        recommended.now.target,
        own_policy(conditions, scenario) if has_reference else conditions,
    )
    if recommended.advised is recommended.now:
        return compared_with, compared_with
    return compared_with, (recommended.advised.target, conditions)


def _compared(recommended: Sequence[Recommendation], scenario: Scenario) -> set[Place]:
    """Return the settings that others are compared with, and the recommended ones."""
    return {place for each in recommended for place in _places(each, scenario)}


def _further(
    axes: Sequence[Axis],
    scenario: Scenario,
    seeds_of: SeedsOf,
    rows: Sequence[PointRow],
    wanted: set[Place],
    probes: Probes | None = None,
) -> list[Point]:
    """Return the points of some settings that have not run: of their main runs, or of `probes`."""
    if not wanted:
        return []
    seeds = {place: seeds_of(place) for place in wanted}
    have_run = {(row.probe, place_of(row), row.seed) for row in rows}
    points = Grid(tuple(axes), max(seeds.values())).points(scenario, probes or _main_probes)
    return [
        point
        for point in points
        if (place := place_of(point)) in wanted
        and point.seed < scenario.seed + seeds[place]
        and (point.probe, place, point.seed) not in have_run
    ]


def _possible(
    axes: Sequence[Axis], scenario: Scenario, most: int, rows: Sequence[PointRow], wanted: set[Place]
) -> list[Point]:
    """Return the points that follow if every setting gets all the seeds that it may have."""
    return [
        *_further(axes, scenario, _as_many(most), rows, wanted),
        *_further(axes, scenario, _as_many(PROBE_SEEDS), rows, wanted, _other_probes),
    ]


def _as_long_as_it_ran(scenario: Scenario, rows: Sequence[PointRow]) -> Scenario:
    """Return the scenario, extended to the longest run that one of its settings needed."""
    longest_s = max(known(row.emulated_seconds for row in rows if row.probe in _MAIN), default=0.0)
    return scenario.ending_at(max(scenario.duration_s, longest_s))


def _conditions(recommendation: Recommendation) -> Conditions:
    return tuple(sorted(recommendation.conditions.items()))


def _main_probes(scenario: Scenario) -> list[tuple[Probe, Scenario]]:
    return probes_of(scenario, _MAIN)


def _other_probes(scenario: Scenario) -> list[tuple[Probe, Scenario]]:
    """Return the probes that do not decide the choice; they have fast checkpoints, or none."""
    return probes_of(scenario, ("unaligned", "step"))
