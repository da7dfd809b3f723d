"""From the points of a sweep to a target: the table, the choice, its price and how sure it is.

`choice` has the rule, `constraints` what is asked, `remedies` what to do where no target will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from netstack import OPTIONS, Scenario, ScenarioError, format_duration, from_json

from ..scenarios.scenario_reader import read_scenario
from .axes import TARGET
from .choice import END_TO_END, OBJECTIVES, RECORD_DELAY, RULE, choose, equals, knee, value
from .constraints import Constraints, binding, nearest, violations
from .measures import Measures
from .remedies import remedies
from .remedy_case import Remedy
from .summaries import OFF, Setting, TargetSummary, settings_of, summarise
from .verdicts import Verdict, binding_text, words

if TYPE_CHECKING:
    from .rows import PointRow

SCHEMA = "netstack.tuning/1"
"""Names the layout of the document."""


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """What to set for a job, and what that is based on."""

    schema: str = SCHEMA
    scenario: str
    """Its name."""
    conditions: dict[str, str] = {}
    """Values of the axes other than the target, for which this holds."""
    constraints: Constraints
    objective: str
    """The field of `TargetSummary` that is to be small."""
    rule: str
    seeds: list[int]
    clock: str = "virtual"
    versions: dict[str, str] = {}
    baseline: TargetSummary | None
    """Without debloating; None where no such run ended well."""
    targets: list[TargetSummary]
    """The shortest first."""
    current: str
    """What the scenario has set: a target, or "off"."""
    verdict: Literal["set", "leave off", "none"]
    """Set the chosen target; debloating brings nothing here; no target keeps to the constraints."""
    chosen: str | None = None
    """A target; None unless the verdict is "set"."""
    by_seed: dict[int, str] = {}
    """What the rule picks from the runs of each seed alone: a target, "off" or "none"."""
    knee: str | None = None
    knee_why: str
    binding: list[str] = []
    """Where no target fits: the constraints that rule them out."""
    nearest: str | None = None
    """Where no target fits: the one that misses by least."""
    remedies: list[Remedy] = []
    """Where no target fits, or debloating brings nothing: what would help instead."""
    configuration: list[str] = []
    """Lines for Flink's configuration file."""
    failures: list[str] = []
    """Points that failed, a line each."""
    words: list[str]
    """The recommendation in sentences."""


def recommendations(
    rows: Sequence[PointRow], scenario: Scenario, constraints: Constraints | None = None
) -> list[Recommendation]:
    """Return one recommendation for each combination of the axes other than the target, in their order."""
    groups: dict[tuple[tuple[str, str], ...], list[PointRow]] = {}
    for row in rows:
        groups.setdefault(tuple(sorted(_conditions(row).items())), []).append(row)
    return [recommend(group, scenario, constraints) for group in groups.values()]


def recommend(
    rows: Sequence[PointRow], scenario: Scenario, constraints: Constraints | None = None
) -> Recommendation:
    """Return what to set, by points that differ in nothing but target, seed and probe.

    `scenario` is what the sweep was made from; what an axis has changed of it is read off the points. Points
    that failed are named and otherwise left out.

    Raises:
        ScenarioError: there are no points, or they differ in more than that.
    """
    conditions = _only_conditions(rows)
    asked = constraints or Constraints()
    varied = _scenario_of(rows, scenario)
    off, settings = settings_of(rows)
    baseline, *targets = _summaries([off, *settings], off.main, asked, varied.takes_checkpoints)
    objective = _objective(rows, varied)
    verdict = _decide(baseline, targets, objective)
    found = {one.target: one.violations for one in targets if one.seeds}
    binds = binding(list(found.values())) if verdict.kind == "none" else []
    closest = nearest(found) if binds else None
    by_seed = _by_seed([off, *settings], asked, varied.takes_checkpoints, objective)
    said = words(verdict, baseline, targets, objective, by_seed)
    if closest is not None:
        said.append(binding_text(binds, targets, closest))
    bends_at, why = knee(targets, objective)
    return Recommendation(
        scenario=scenario.name,
        conditions=conditions,
        constraints=asked,
        objective=objective,
        rule=RULE.format(objective=OBJECTIVES[objective]),
        seeds=sorted({row.seed for row in rows}),
        versions=next((dict(row.versions) for row in rows if row.versions), {}),
        baseline=baseline if baseline.seeds else None,
        targets=targets,
        current=_current(scenario),
        verdict=verdict.kind,
        chosen=verdict.target,
        by_seed=by_seed,
        knee=bends_at,
        knee_why=why,
        binding=binds,
        nearest=closest,
        remedies=[] if verdict.kind == "set" else remedies(varied, rows, baseline, targets, asked, binds),
        configuration=configuration(verdict, conditions),
        failures=[_failure(row) for row in rows if row.measures is None],
        words=said,
    )


def configuration(verdict: Verdict, conditions: Mapping[str, str]) -> list[str]:
    """Return the lines to paste into a configuration file of Flink; empty where there is no target to set."""
    if verdict.kind == "none":
        return []
    enabled, target = OPTIONS["debloat_enabled"].name, OPTIONS["debloat_target_s"].name
    names = {option.name for option in OPTIONS.values()}
    lines = [f"{name}: {text}" for name, text in conditions.items() if name in names]
    if verdict.target is None:
        return [f"{enabled}: false", *lines]
    return [f"{enabled}: true", f"{target}: {verdict.target}", *lines]


def _conditions(row: PointRow) -> dict[str, str]:
    return {name: text for name, text in row.labels.items() if name != TARGET}


def _only_conditions(rows: Sequence[PointRow]) -> dict[str, str]:
    if not rows:
        raise ScenarioError(["there is no point to recommend from"])
    conditions = _conditions(rows[0])
    others = next((_conditions(row) for row in rows if _conditions(row) != conditions), None)
    if others is not None:
        raise ScenarioError([f"points differ in more than the target: {conditions} and {others}"])
    return conditions


def _summaries(
    settings: Iterable[Setting], reference: Mapping[int, Measures], asked: Constraints, checkpoints: bool
) -> list[TargetSummary]:
    return [
        summarise(
            setting,
            reference,
            violations(setting.main, setting.shares(reference), asked, takes_checkpoints=checkpoints),
        )
        for setting in settings
    ]


def _decide(baseline: TargetSummary, targets: Sequence[TargetSummary], objective: str) -> Verdict:
    """Apply the rule; where no debloating is as good as the best target, that is the choice."""
    best = choose(targets, objective)
    if best is None:
        return Verdict("leave off" if baseline.fits else "none", None)
    without, with_it = value(baseline, objective), value(best, objective)
    if baseline.fits and without is not None and with_it is not None and equals(without, with_it):
        return Verdict("leave off", None)
    return Verdict("set", best.target)


def _by_seed(
    settings: Sequence[Setting], asked: Constraints, checkpoints: bool, objective: str
) -> dict[int, str]:
    """Apply the rule to the runs of each seed alone."""
    found = {}
    for seed in sorted({seed for setting in settings for seed in setting.main}):
        alone = [
            Setting(setting.target, {seed: setting.main[seed]} if seed in setting.main else {})
            for setting in settings
        ]
        baseline, *targets = _summaries(alone, alone[0].main, asked, checkpoints)
        verdict = _decide(baseline, targets, objective)
        found[seed] = verdict.target or (OFF if verdict.kind == "leave off" else "none")
    return found


def _objective(rows: Iterable[PointRow], scenario: Scenario) -> str:
    """End-to-end time, unless there are no checkpoints or they overtake what waits anyway."""
    completed = any(row.measures and row.measures.checkpoints_completed for row in rows)
    overtake = (
        scenario.config.takes_unaligned_checkpoints and not scenario.config.aligned_checkpoint_timeout_s
    )
    return END_TO_END if completed and not overtake else RECORD_DELAY


def _scenario_of(rows: Iterable[PointRow], scenario: Scenario) -> Scenario:
    """The scenario with the values of all axes but the target; the given one where that is not known."""
    for row in rows:
        if row.probe == "main" and row.result is not None:
            try:
                return read_scenario(from_json(row.result).scenario)
            except ScenarioError:
                return scenario
    return scenario


def _current(scenario: Scenario) -> str:
    config = scenario.config
    return format_duration(config.debloat_target_s) if config.debloat_enabled else OFF


def _failure(row: PointRow) -> str:
    where = ", ".join(f"{name} {text}" for name, text in row.labels.items()) or OFF
    return f"{where}, seed {row.seed} ({row.probe}): {row.error or 'no measures'}"
