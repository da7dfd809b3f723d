"""Recommendation from the points of a sweep: the table, the choice, and its certainty.

`choice` has the rule, `constraints` the limits, `remedies` the alternatives if no target fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from flowcontrol import readable
from netstack import OPTIONS, Scenario, Viewed, format_duration, from_json

from ..errors import UsageError
from .axes import FLINK, POLICY, TARGET
from .choice import END_TO_END, OBJECTIVES, RECORD_DELAY, RULE, Choice, choose, knee
from .constraints import Constraints, binding, judge, nearest
from .measures import Measures
from .pitfalls import find_pitfalls
from .recommendation_text import left_out_text, policy_words, words
from .remedies import Case, Remedy, remedies, remedies_beside
from .summaries import OFF, TargetSummary, setting_of, settings_of, summarise

if TYPE_CHECKING:
    from .point_rows import PointRow
    from .points import Point

Conditions = tuple[tuple[str, str], ...]
"""The names and values of the axes other than the target, in the order of their names."""

SCHEMA = "netstack.tuning/2"
"""Name and version of the document's schema."""


class Recommendation(msgspec.Struct, Viewed, frozen=True, kw_only=True):
    """Recommended setting of a job, and its basis.

    `to_pandas` and `to_arrow` have the table "settings", `plot` has the pictures "trade-off" and
    "times-by-target".
    """

    schema: str = SCHEMA
    scenario: str
    """Name of the scenario."""
    conditions: dict[str, str] = {}
    """Values of the axes other than the target, under which the recommendation holds."""
    constraints: Constraints
    objective: str
    """The minimised quantity: a field of `TargetSummary`."""
    rule: str
    seeds: list[int]
    """Seeds of the sweep; a setting that needed fewer lists its own."""
    clock: str = "virtual"
    versions: dict[str, str] = {}
    current: str
    """Setting of the scenario: a target, or "off"."""
    baseline: TargetSummary | None
    """Figures without debloating; None if that was not run."""
    targets: list[TargetSummary]
    """The shortest first; the present one is among them, or is the baseline."""
    reference: TargetSummary | msgspec.UnsetType = msgspec.UNSET
    """The advised setting of the scenario's own policy, where another policy is compared with it."""
    verdict: Literal["set", "turn off", "keep", "none"]
    """Advice: "set" the chosen target, "turn off" debloating, or "keep" the present setting.

    "keep": no setting is shown to be better; "none": no setting, the present one included, keeps to the
    constraints.
    """
    chosen: str | None = None
    """The recommended target; None unless the verdict is "set"."""
    undecided: list[str] = []
    """Settings that more runs may show to be better."""
    knee: str | None = None
    knee_why: str
    binding: list[str] = []
    """The constraints that rule out all settings, if none fits."""
    nearest: str | None = None
    """The setting that misses the constraints by least, if none fits."""
    remedies: list[Remedy] = []
    """Alternatives to a target, if no setting fits or none is better than now."""
    configuration: list[str] = []
    """Lines for Flink's configuration file; empty if nothing changes."""
    left_out: list[str] = []
    """Targets that were not run, as a longer one already costs too much throughput; shortest first."""
    failures: list[str] = []
    """Points that failed, a line each."""
    words: list[str]
    """The recommendation in sentences."""

    @property
    def now(self) -> TargetSummary:
        """The setting that the others are compared with: the present one, or that of another policy."""
        return self._at(self.current) if self.reference is msgspec.UNSET else self.reference

    @property
    def advised(self) -> TargetSummary:
        """The recommended setting; if nothing changes, the one that the others are compared with."""
        target = {"set": self.chosen, "turn off": OFF}.get(self.verdict)
        return self.now if target is None else self._at(target)

    def is_present(self, target: str) -> bool:
        """Whether a setting is the one that the scenario has."""
        return target == self.current and (self.reference is msgspec.UNSET or target == OFF)

    def _at(self, target: str) -> TargetSummary:
        return next(setting for setting in self.settings if setting.target == target)

    @property
    def settings(self) -> list[TargetSummary]:
        """All settings: no debloating, if it was run, and then the targets."""
        return [*([self.baseline] if self.baseline is not None else []), *self.targets]

    def __repr__(self) -> str:
        """Return the verdict in one line."""
        now = f"now {self.current}, {len(self.settings)} settings tried"
        return f"<Recommendation for {readable(self.scenario)}, {now}: {self.words[0]}>"


def recommendations(
    rows: Sequence[PointRow], scenario: Scenario, constraints: Constraints | None = None
) -> list[Recommendation]:
    """Return one recommendation for each combination of the axes other than the target, in their order.

    Settings of another policy are compared with the advised setting of the scenario's own policy, if that was
    run.
    """
    groups: dict[Conditions, list[PointRow]] = {}
    for row in rows:
        groups.setdefault(place_of(row)[1], []).append(row)
    own = {conditions: own_policy(conditions, scenario) for conditions in groups}
    found: dict[Conditions, Recommendation] = {}
    for conditions in sorted(groups, key=lambda each: own[each] != each):
        reference = None
        if own[conditions] != conditions and own[conditions] in found:
            advised = found[own[conditions]].advised
            reference = Reference(advised, _runs_at(advised.target, groups[own[conditions]]))
        found[conditions] = recommend(groups[conditions], scenario, constraints, reference)
    return [found[conditions] for conditions in groups]


def own_policy(conditions: Conditions, scenario: Scenario) -> Conditions:
    """Return conditions with the scenario's policy in place of another; unchanged if they name none."""
    policy = scenario.config.debloat_policy
    return tuple((name, policy if name == POLICY else text) for name, text in conditions)


def _runs_at(target: str, rows: Sequence[PointRow]) -> Mapping[int, Measures]:
    return next((setting.main for setting in settings_of(rows) if setting.target == target), {})


class Reference(NamedTuple):
    """A setting to compare with, in place of the present one."""

    summary: TargetSummary
    runs: Mapping[int, Measures]
    """Figures of its runs, by seed."""


def recommend(
    rows: Sequence[PointRow],
    scenario: Scenario,
    constraints: Constraints | None = None,
    reference: Reference | None = None,
) -> Recommendation:
    """Return the recommendation from points that differ only in target, seed and probe.

    `scenario` is the sweep's; changes by other axes are read from the points. Points
    that failed are named, and count as runs without figures. Settings are compared with `reference` if there
    is one, else with the present setting.

    Raises:
        UsageError: there are no points, they differ in more than that, or none is of the present setting.
    """
    sweep = _compared(rows, scenario, constraints or Constraints(), reference)
    choice = choose(sweep.now, sweep.others, sweep.objective)
    binds, closest = _ruled_out(sweep, choice)
    knee_target, knee_why = knee(sweep.targets, sweep.objective)
    policy = sweep.conditions.get(POLICY, scenario.config.debloat_policy)
    return Recommendation(
        scenario=scenario.name,
        conditions=sweep.conditions,
        constraints=sweep.asked,
        objective=sweep.objective,
        rule=RULE.format(objective=OBJECTIVES[sweep.objective]),
        seeds=sorted({row.seed for row in rows}),
        versions=next((dict(row.versions) for row in rows if row.versions), {}),
        current=current_target(scenario),
        baseline=sweep.baseline,
        targets=sweep.targets,
        reference=msgspec.UNSET if reference is None else reference.summary,
        verdict=choice.kind,
        chosen=choice.setting.target if choice.kind == "set" else None,
        undecided=[setting.target for setting in choice.undecided],
        knee=knee_target,
        knee_why=knee_why,
        binding=binds,
        nearest=closest,
        remedies=[] if reference is not None else _remedies(sweep, choice, binds),
        configuration=configuration(choice, sweep.conditions) if policy == FLINK else [],
        failures=[_failure(row) for row in rows if row.measures is None],
        words=_sentences(sweep, choice, policy, None if reference is None else scenario),
    )


def without(recommendation: Recommendation, left_out: Sequence[str]) -> Recommendation:
    """Return the recommendation with the targets that were not run, and a sentence that says why."""
    if not left_out:
        return recommendation
    words = [*recommendation.words, left_out_text(left_out, recommendation.targets)]
    return msgspec.structs.replace(recommendation, left_out=list(left_out), words=words)


def configuration(choice: Choice, conditions: Mapping[str, str]) -> list[str]:
    """Return the lines to paste into a configuration file of Flink; empty where nothing is to be changed."""
    if choice.kind not in ("set", "turn off"):
        return []
    enabled, target = OPTIONS["debloat_enabled"].name, OPTIONS["debloat_target_s"].name
    names = {option.name for option in OPTIONS.values()}
    lines = [f"{name}: {text}" for name, text in conditions.items() if name in names]
    if choice.kind == "turn off":
        return [f"{enabled}: false", *lines]
    return [f"{enabled}: true", f"{target}: {choice.setting.target}", *lines]


def conditions_of(row: PointRow | Point) -> dict[str, str]:
    """Return the values of a point's axes other than the target."""
    return {name: text for name, text in row.labels.items() if name != TARGET}


Place = tuple[str, Conditions]
"""A setting: its target, or `OFF`, and the values of the other axes."""


def place_of(point: PointRow | Point) -> Place:
    """Return the setting that a point runs or probes."""
    return setting_of(point), tuple(sorted(conditions_of(point).items()))


@dataclass(frozen=True, slots=True)
class _Compared:
    """All settings of a sweep, to be compared with the present one."""

    rows: Sequence[PointRow]
    conditions: dict[str, str]
    scenario: Scenario
    """The job, with the changes by axes other than the target."""
    asked: Constraints
    objective: str
    now: TargetSummary
    others: list[TargetSummary]
    baseline: TargetSummary | None
    targets: list[TargetSummary]


def _compared(
    rows: Sequence[PointRow], scenario: Scenario, asked: Constraints, reference: Reference | None
) -> _Compared:
    conditions = _only_conditions(rows)
    varied = scenario_of(rows, scenario)
    current = current_target(scenario)
    runs = _runs_at(current, rows) if reference is None else reference.runs
    summaries = _summaries(
        rows, runs, None if reference is not None else current, asked, varied.takes_checkpoints
    )
    now = _present(summaries, current) if reference is None else reference.summary
    return _Compared(
        rows=rows,
        conditions=conditions,
        scenario=varied,
        asked=asked,
        objective=_objective(rows, varied),
        now=now,
        others=[
            setting
            for setting in summaries
            if setting is not now and (reference is None or setting.target != OFF)
        ],
        baseline=next((setting for setting in summaries if setting.target == OFF), None),
        targets=[setting for setting in summaries if setting.target != OFF],
    )


def _only_conditions(rows: Sequence[PointRow]) -> dict[str, str]:
    if not rows:
        raise UsageError(["there is no point to recommend from"])
    conditions = conditions_of(rows[0])
    others = next((conditions_of(row) for row in rows if conditions_of(row) != conditions), None)
    if others is not None:
        raise UsageError([f"points differ in more than the target: {conditions} and {others}"])
    return conditions


def _summaries(
    rows: Sequence[PointRow],
    now: Mapping[int, Measures],
    current: str | None,
    asked: Constraints,
    checkpoints: bool,
) -> list[TargetSummary]:
    """Return the summary of each setting, compared with the runs `now`.

    No debloating comes first, then the targets, the shortest first.

    `current` is the setting of these runs, if it is among them: its throughput is not judged.
    """
    summaries = []
    for setting in settings_of(rows):
        shares = None if setting.target == current else setting.shares(now, "throughput_per_s")
        shortfalls = judge(setting.main, setting.failed, shares, asked, takes_checkpoints=checkpoints)
        summaries.append(summarise(setting, now, shortfalls))
    return summaries


def _present(summaries: Sequence[TargetSummary], current: str) -> TargetSummary:
    present = next((setting for setting in summaries if setting.target == current), None)
    if present is None:
        raise UsageError([f"there is no point of what is set now ({current}), to compare with"])
    return present


def _remedies(sweep: _Compared, choice: Choice, binds: Sequence[str]) -> list[Remedy]:
    if sweep.baseline is None:
        return []
    case = Case(sweep.scenario, sweep.rows, sweep.baseline, sweep.targets, sweep.asked, binds, sweep.now)
    if choice.kind == "set":
        return remedies_beside(case, choice.setting.target)
    return remedies_beside(case, None) if choice.kind == "turn off" else remedies(case)


def _ruled_out(sweep: _Compared, choice: Choice) -> tuple[list[str], str | None]:
    """Return the constraints that rule out all settings, and the nearest setting."""
    if choice.kind != "none":
        return [], None
    broken = {setting.target: setting.shortfalls for setting in sweep.others if setting.seeds}
    binds = binding(list(broken.values()))
    return binds, nearest(broken) if binds else None


def _sentences(sweep: _Compared, choice: Choice, policy: str, own: Scenario | None) -> list[str]:
    """Return the recommendation in words;

    `own`, if given, has the policy that the others are compared with.
    """
    if own is not None:
        policies = policy, own.config.debloat_policy
        return policy_words(choice, sweep.now, sweep.others, sweep.objective, policies)
    at_choice = [row for row in sweep.rows if row.labels.get(TARGET) == choice.setting.target]
    return words(choice, sweep.now, sweep.others, sweep.objective, find_pitfalls(at_choice))


def _objective(rows: Iterable[PointRow], scenario: Scenario) -> str:
    """Return the objective: end-to-end time, or record delay if checkpoints do not wait for data."""
    completed = any(row.measures and row.measures.checkpoints_completed for row in rows)
    overtake = (
        scenario.config.takes_unaligned_checkpoints and not scenario.config.aligned_checkpoint_timeout_s
    )
    return END_TO_END if completed and not overtake else RECORD_DELAY


def scenario_of(rows: Iterable[PointRow], scenario: Scenario) -> Scenario:
    """Return the scenario with the values of all axes but the target; without a result, the given one."""
    for row in rows:
        if row.probe == "main" and row.result is not None:
            return scenario_run(row.result, row.labels, scenario)
    return scenario


def scenario_run(result: str, labels: Mapping[str, str], scenario: Scenario) -> Scenario:
    """Return the scenario of a point from its result as JSON.

    Its policy is taken from the point's labels or the given scenario, since a policy may be code and a stored
    file must not choose it.
    """
    ran = from_json(result).scenario
    config = replace(ran.config, debloat_policy=labels.get(POLICY, scenario.config.debloat_policy))
    return replace(ran, config=config)


def current_target(scenario: Scenario) -> str:
    """Return the debloat target that a scenario has set, or `OFF` without debloating."""
    config = scenario.config
    return format_duration(config.debloat_target_s) if config.debloat_enabled else OFF


def _failure(row: PointRow) -> str:
    where = ", ".join(f"{name} {text}" for name, text in row.labels.items()) or OFF
    return f"{where}, seed {row.seed} ({row.probe}): {row.error or 'no measures'}"
