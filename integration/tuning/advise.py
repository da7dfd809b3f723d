"""The whole way from a scenario to advice: windows that are long enough, the sweep, more seeds where needed.

1. What is set now, no debloating and the shortest target are tried with one seed, until their windows hold
   enough checkpoints; that also tells how long the rest will take.
2. Every setting is run with the first seeds, and the choice is made (`recommend`).
3. What is chosen and the present setting get as many seeds again, since the first may have been luck.
4. Where the intervals leave open whether a setting should have been chosen, it and the present one get as
   many seeds again, at most `MOST_GROWTH` times as many as at first. What is open then is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from netstack import Scenario

from .axes import Axis, with_present_target
from .constraints import Constraints
from .durations import with_enough_checkpoints
from .point_rows import PointRow
from .points import Grid, Point, Probe, probes_of
from .recommend import Recommendation, conditions_of, current_target, recommendations
from .summaries import OFF, setting_of, target_s

SEEDS = 5
"""Seeds of each setting to begin with, unless told otherwise."""
PROBE_SEEDS = 3
"""Seeds of the probes, which nothing is chosen by."""
MOST_GROWTH = 4
"""How many times as many seeds a setting gets at most."""

_MAIN: tuple[Probe, ...] = ("main", "baseline")


class RunPoints(Protocol):
    """Runs points and returns their rows in the same order; `known` are rows that are there already."""

    def __call__(self, points: Sequence[Point], known: Sequence[PointRow], why: str) -> list[PointRow]:
        """Run them, `why` being what a person is told meanwhile."""
        ...


class Advice(NamedTuple):
    """What a sweep was made of and what it says."""

    scenario: Scenario
    """The scenario with the windows that were run."""
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
    planned: Callable[[Scenario, Sequence[Point], Sequence[PointRow]], None] = lambda *_: None,
) -> Advice:
    """Run a scenario at its present setting, without debloating and at every target, and say which to take.

    `most_seeds` is how many a setting gets at most, by default `MOST_GROWTH` times `seeds`.
    `planned` is told of the points before they are run, and of the rows that were tried, by which the time
    can be reckoned.

    Raises:
        ScenarioError: the scenario makes no sense with some value of an axis.
    """
    axes = with_present_target(axes, scenario)
    Grid(axes, seeds).points(scenario, _main_probes)  # mistakes first
    tried = with_enough_checkpoints(
        scenario, lambda longer: _first_points(axes, longer), lambda points: run(points, (), "trying")
    )
    points = [
        *Grid(axes, seeds).points(tried.scenario, _main_probes),
        *Grid(axes, min(seeds, PROBE_SEEDS)).points(scenario, _other_probes),
    ]
    scenario = tried.scenario
    planned(scenario, points, tried.rows)
    rows = run(points, tried.rows, "tuning")
    recommended = recommendations(rows, scenario, constraints)
    most = most_seeds or MOST_GROWTH * seeds
    total = min(2 * seeds, most)
    confirmed = total
    while more := _more_points(axes, scenario, total, recommended, rows, confirmed):
        rows = [*rows, *run(more, (), f"seeds {min(point.seed for point in more)} on, to decide")]
        recommended = recommendations(rows, scenario, constraints)
        total = min(total + seeds, most)
    return Advice(scenario, rows, recommended)


def _first_points(axes: Sequence[Axis], scenario: Scenario) -> list[Point]:
    """What is set now, no debloating and the shortest target, which takes longest to emulate.

    With the first seed, and the first value of each other axis.
    """
    points = Grid(tuple(axes), 1).points(scenario, _main_probes)
    first = conditions_of(points[0])
    shortest = min(map(setting_of, points), key=target_s)
    wanted = {current_target(scenario), OFF, shortest}
    return [point for point in points if setting_of(point) in wanted and conditions_of(point) == first]


def _more_points(
    axes: Sequence[Axis],
    scenario: Scenario,
    seeds: int,
    recommended: Sequence[Recommendation],
    rows: Sequence[PointRow],
    confirmed: int,
) -> list[Point]:
    """The points with further seeds of what is not decided, and of what it is compared with.

    Also of what is chosen by fewer than `confirmed` seeds: they may have favoured it by luck.
    """
    wanted = {
        (target, tuple(sorted(recommendation.conditions.items())))
        for recommendation in recommended
        if recommendation.undecided
        or (recommendation.configuration and len(recommendation.advised.seeds) < confirmed)
        for target in {*recommendation.undecided, recommendation.current, recommendation.advised.target}
    }
    if not wanted:
        return []
    have_run = {(_place(row), row.seed) for row in rows if row.probe in _MAIN}
    points = Grid(tuple(axes), seeds).points(scenario, _main_probes)
    return [
        point for point in points if _place(point) in wanted and (_place(point), point.seed) not in have_run
    ]


def _place(point: Point | PointRow) -> tuple[str, tuple[tuple[str, str], ...]]:
    return setting_of(point), tuple(sorted(conditions_of(point).items()))


def _main_probes(scenario: Scenario) -> list[tuple[Probe, Scenario]]:
    return probes_of(scenario, _MAIN)


def _other_probes(scenario: Scenario) -> list[tuple[Probe, Scenario]]:
    """Those that no choice rests on; their checkpoints are fast, or there are none."""
    return probes_of(scenario, ("unaligned", "step"))
