"""Advice for a job: run its settings against each other, and recommend one.

1. The present setting runs at today's load and at higher ones, until the job's limit is known. If it is above
   today's load, the settings are compared at the limit. Each also runs once at today's load, where it must
   cost nothing.
2. Every setting runs with one seed, the longer debloat targets first. Once a target clearly costs more
   throughput than allowed, no shorter target is run, because it has smaller buffers and cannot cost less.
3. Settings that depend on these runs follow: a longer interval, and the combination of the best two.
4. Further seeds are run for the present setting, the chosen one and those that may still win. This ends when
   each seed alone chooses the same setting, or an equally good one. Then the present and the chosen setting
   get more seeds until their figures are precise.
5. The chosen setting is run with a step of the load, if it debloats.
6. If it is unknown whether the work is CPU-bound, the chosen setting runs against the present one with such
   work. If it does not win there, all settings run so.

For a large job (`is_large`), fewer targets are tried, each setting runs with one seed, and step 5 is left
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from math import inf, sqrt
from typing import NamedTuple

import msgspec

from netstack import Scenario

from ...base.errors import UsageError
from ...base.optional_figures import known
from ...runs.job_load import at_load, has_unlimited_source
from ..diagnose.headroom import (
    LOAD,
    Headroom,
    brief_point,
    find_headroom,
    is_clearly_below_limit,
    load_point,
    load_run,
    varies,
)
from ..sweeps.axes import Axis, AxisValue, problems_after
from ..sweeps.point_rows import PointRow
from ..sweeps.points import Grid, Point, point_of, with_step
from ..sweeps.waves import RunPoints, Wave, Waves, run_side_by_side
from .choice import Outcome
from .race import OWN, Race
from .recommend import Recommendation, recommend
from .settings import (
    NOW,
    SETTING,
    USUAL,
    Mechanism,
    Question,
    Setting,
    first_settings,
    is_large,
    later_settings,
)
from .words import cpu_bound_text

MOST_SEEDS = 8
"""Default maximum number of seeds for a setting. A large job has one seed, because its figures are already
means over many subtasks.
"""
CLEARLY = 0.02
"""A throughput is clearly too low if it is below the limit by more than this share. Then one run is enough to
reject a setting.
"""

_LONG_TARGET_S = 0.3
"""Minimum debloat target, in seconds, of the settings that run first."""
_LUCK = 0.10
"""Share by which the times of one run may be too long by chance. For the mean of n runs, it is divided by the
square root of n."""
_LUCK_OF_THROUGHPUT = 0.01

WORK = "work"
"""Name of the label of runs with CPU-bound work, where this is unknown."""


class Advice(NamedTuple):
    """All rows of a sweep over settings, and a recommendation for each combination of other axes."""

    rows: list[PointRow]
    recommendations: list[Recommendation]
    chosen: list[Setting]
    """The recommended setting of each recommendation."""


def advise(
    scenario: Scenario,
    run: RunPoints,
    question: Question = USUAL,
    axes: Sequence[Axis] = (),
    *,
    most_seeds: int | None = None,
    if_cpu_bound: Scenario | None = None,
    measured_ms: Sequence[float] = (),
    is_brief: bool = False,
) -> Advice:
    """Run the settings that may help a job, and recommend one for each combination of the values of `axes`.

    Args:
        scenario: The job.
        run: Runs points.
        question: The settings to compare, and their limits.
        axes: Conditions under which advice is given.
        most_seeds: Maximum number of seeds for a setting; by default `MOST_SEEDS`, or 1 for a large job.
        if_cpu_bound: The job if its work is CPU-bound, where this is unknown. The words of a recommendation
            then say whether it is the same for this job, or give the other one. Its runs are not in the rows.
        measured_ms: Times of the checkpoints in a real Flink today; empty: unknown. The advice is less
            certain if the emulation differs from them.
        is_brief: Run each setting with one seed only, and at today's load only the present one and the
            recommended one, without a step of the load.

    Raises:
        UsageError: the scenario makes no sense with some value of an axis, a target or a policy.
    """
    scenario = at_any_phase(scenario)
    if_cpu_bound = None if if_cpu_bound is None else at_any_phase(if_cpu_bound)
    grid = Grid(tuple(axes), 1)
    others = [] if if_cpu_bound is None else [varied for _, varied in grid.combinations(if_cpu_bound)]
    contests = [
        _contest(
            Race(varied, question.limits, labels, measured_ms=() if axes else measured_ms),
            question,
            most_seeds,
            other,
            is_brief=is_brief,
        )
        for (labels, varied), other in zip_longest(grid.combinations(scenario), others)
    ]
    rows: list[PointRow] = []

    def run_and_keep(points: Sequence[Point], why: str) -> list[PointRow]:
        new = run(points, why)
        rows.extend(row for row in new if not {WORK, LOAD} & {*row.labels})
        return new

    ended = run_side_by_side(contests, run_and_keep)
    return Advice(rows, [each for each, _ in ended], [setting for _, setting in ended])


def at_any_phase(scenario: Scenario) -> Scenario:
    """Return the scenario with checkpoints at any times within its windows, as after a restart, without which
    Flink applies no setting.
    """
    return replace(scenario, checkpoints_from_s=None)


def _contest(
    race: Race,
    question: Question,
    most_seeds: int | None,
    if_cpu_bound: Scenario | None,
    *,
    is_brief: bool,
) -> Waves[tuple[Recommendation, Setting]]:
    """Yield the points to run, wave by wave. Return the recommendation and its setting at the end."""
    scenario = race.scenario
    is_brief = is_brief or is_large(scenario)
    yield from _find_limit(race)
    table = _valid(scenario, first_settings(scenario, question))
    first = race.add_settings(each for each in table if is_brief or each.target_s >= _LONG_TARGET_S)
    yield from _run(race, first, scenario.seed, "trying settings")
    if has_unlimited_source(scenario):
        race.headroom = _headroom_at_limit(race)
    short = [each for each in table if each.target_s < _LONG_TARGET_S]
    race.left_out = [each.name for each in short if _is_beyond(each, race)]
    further = race.add_settings(each for each in short if each.name not in race.left_out)
    yield from _run(race, further, scenario.seed, "trying shorter targets")
    now = next((each for each in race.outcomes() if each.name == NOW), None)
    later = later_settings(
        scenario, question.only, None if now is None else now.checkpoint_ms, _best_of_each(race)
    )
    combined = race.add_settings(_valid(scenario, later))
    yield from _run(race, combined, scenario.seed, "trying combinations")
    yield from _run_today(race, is_brief=is_brief)
    if most_seeds is None:
        most_seeds = 1 if is_brief else MOST_SEEDS
    for number in range(1, most_seeds):
        if race.is_decided():
            break
        names = _contenders(race, number)
        settings = [each for name, each in race.settings.items() if name in names]
        why = f"seed {number + 1} of settings that may win"
        yield from _run(race, settings, scenario.seed + number, why)
    chosen = race.choice().chosen or NOW
    stepping = None if is_brief else with_step(race.settings[chosen].apply(race.loaded))
    if stepping is not None:
        labels = {**race.conditions, SETTING: chosen}
        race.add_rows((yield Wave("a step of the load", [point_of(stepping, labels, probe="step")])))
    found = recommend(race)
    if if_cpu_bound is None:
        return found, race.settings[found.chosen]
    conditions = {**race.conditions, WORK: "CPU-bound"}
    other = Race(if_cpu_bound, race.constraints, conditions, measured_ms=race.measured_ms)
    yield from _find_limit(other)
    verdict, *details = found.words
    words = [verdict, (yield from _if_cpu_bound(other, race, found)), *details]
    return msgspec.structs.replace(found, words=words), race.settings[found.chosen]


def _if_cpu_bound(other: Race, race: Race, found: Recommendation) -> Waves[str]:
    """Return a sentence on the recommendation if the work is CPU-bound. `other` has no settings yet.

    The chosen setting runs against the present one. If it does not win again, or is the present one, all
    settings run, with one seed each.
    """
    settings = list(race.settings.values())
    first = [each for each in settings if each.name in (NOW, found.chosen)]
    for tried in (first, settings) if len(first) > 1 else (settings,):
        added = other.add_settings(tried)
        yield from _run(other, added, other.scenario.seed, "the advice if the work is CPU-bound")
        again = recommend(other)
        if (again.verdict, again.chosen) == (found.verdict, found.chosen):
            return cpu_bound_text(None)
    return cpu_bound_text(again)


def _find_limit(race: Race) -> Waves[None]:
    """Run the present setting at today's load and at others, until the job's limit is known.

    A load that changes with time, and a job whose sources emit as fast as possible, stay as they are.
    """
    scenario, labels = race.scenario, {**race.conditions, SETTING: NOW}
    if varies(scenario) or has_unlimited_source(scenario):
        return
    (row,) = yield Wave("today's load", [brief_point(scenario, 1.0, {}, labels)])
    today = load_run(row, 1.0)
    if today is not None and not is_clearly_below_limit(today):
        (row,) = yield Wave("today's load", [load_point(scenario, 1.0, {}, labels)])
        today = load_run(row, 1.0)
    if today is None:
        return
    race.headroom = yield from find_headroom(scenario, today, labels)
    if race.headroom is not None and race.headroom.has_room:
        race.at_limit = at_load(scenario, race.headroom.beyond)


def _headroom_at_limit(race: Race) -> Headroom | None:
    """Return the headroom of a job whose sources emit as fast as possible; None: it varies."""
    rows = (row for row in race.rows if row.labels.get(SETTING) == NOW)
    now = next((run for row in rows if (run := load_run(row, 1.0)) is not None), None)
    if now is None or varies(race.scenario):
        return None
    return Headroom(limit=1.0, at_least=1.0, bottleneck=now.bottleneck)


def _run_today(race: Race, *, is_brief: bool) -> Waves[None]:
    """Run the settings that keep to the limits at today's load, if they were compared at the job's limit."""
    if race.at_limit is None or race.headroom is None:
        return
    names = [each.name for each in race.outcomes() if each.name == NOW or not race.broken(each)]
    if is_brief:
        names = list(dict.fromkeys([NOW, race.choice().chosen or NOW]))
    point = brief_point if race.headroom.is_below(1.0) else load_point
    points = [
        point(race.settings[name].apply(race.scenario), 1.0, {}, {**race.conditions, SETTING: name})
        for name in names
    ]
    rows = yield Wave("today's load", points)
    race.today = {row.labels[SETTING]: row.measures for row in rows if row.measures is not None}
    runs = zip(names, (load_run(row, 1.0) for row in rows), strict=True)
    race.behind_today = {name for name, found in runs if found is not None and not found.keeps_up}


def _valid(scenario: Scenario, settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings that the job can have.

    Raises:
        UsageError: a debloat target or a policy that the user has named is invalid.
    """
    problems: list[str] = []
    valid = []
    for setting in settings:
        found = problems_after(scenario, [AxisValue(setting.name, setting.apply)])
        if not found:
            valid.append(setting)
        elif setting.name == NOW or Mechanism.DEBLOATING in setting.mechanisms:
            problems += found
    if problems:
        raise UsageError(list(dict.fromkeys(problems)))
    return valid


def _run(race: Race, settings: Sequence[Setting], seed: int, why: str) -> Waves[None]:
    """Run the settings that have not run with this seed, the shortest target first."""
    points = [
        point_of(setting.apply(race.loaded), {**race.conditions, SETTING: setting.name}, seed)
        for setting in sorted(settings, key=lambda each: each.target_s)
        if seed not in race.seeds_of(setting.name)
    ]
    if points:
        race.add_rows((yield Wave(why, points)))


def _is_beyond(setting: Setting, race: Race) -> bool:
    """Whether a longer target of the same policy already costs clearly too much throughput."""
    least = race.constraints.min_throughput - CLEARLY
    longer = {
        each.name
        for each in race.settings.values()
        if each.policy == setting.policy and setting.target_s < each.target_s < inf
    }
    return any(
        each.name in longer and each.throughput is not None and each.throughput < least
        for each in race.outcomes()
    )


def _best_of_each(race: Race) -> list[Setting]:
    """Return the best setting, then the fastest one of each other set of mechanisms that improves a figure.

    Better sets come first. Settings with other policies are left out.
    """
    outcomes = race.outcomes(among=race.finalists())
    best: list[Setting] = []
    while (name := race.choose(outcomes).chosen) not in (None, NOW):
        chosen = race.settings[str(name)]
        alike = [each for each in outcomes if race.settings[each.name].mechanisms == chosen.mechanisms]
        fastest = min(alike, key=lambda each: inf if each.checkpoint_ms is None else each.checkpoint_ms)
        best.append(race.settings[fastest.name] if best else chosen)
        outcomes = [each for each in outcomes if each not in alike]
    return best


def _contenders(race: Race, runs: int) -> set[str]:
    """Return the settings that may still win by chance: the present one, the chosen one, and close ones.

    Once the choice is known, return only the present and the chosen one, to make their figures more precise,
    and settings of other policies that may be better.
    """
    choice = race.choice()
    names = {NOW, *known([choice.chosen])}
    if runs > 1 and not race.undecided():
        return names | race.unclear()
    names |= {*race.votes(), *(name for _, name in choice.alternatives)}
    others = {each.policy for each in race.settings.values()} - {*OWN}
    groups = [race.finalists(), *([race.settings[NOW], *race.finalists([other])] for other in others)]
    for group in groups:
        outcomes = race.outcomes(among=group)
        names |= {*known([race.choose(outcomes).chosen])}
        for outcome in outcomes:
            lucky = [_lucky(each, 1.0 / sqrt(runs)) if each is outcome else each for each in outcomes]
            if race.choose(lucky).chosen == outcome.name:
                names.add(outcome.name)
    return names


def _lucky(outcome: Outcome, luck: float) -> Outcome:
    """Return the best figures that a setting may have if its runs were slow by chance."""

    def shorter(time: float | None) -> float | None:
        return None if time is None else time * (1 - luck * _LUCK)

    return outcome._replace(
        throughput=None if outcome.throughput is None else outcome.throughput + luck * _LUCK_OF_THROUGHPUT,
        checkpoint_ms=shorter(outcome.checkpoint_ms),
        checkpoint_p95_ms=shorter(outcome.checkpoint_p95_ms),
        delay_ms=shorter(outcome.delay_ms),
        delay_p95_ms=shorter(outcome.delay_p95_ms),
    )
