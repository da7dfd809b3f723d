"""Recommendation of a setting for a job, from the points of all its settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from flowcontrol import readable
from netstack import Viewed

from ...base.errors import UsageError
from ...base.optional_figures import known
from ...runs.window_figures import COUNTS, FIGURES, Measures
from ..diagnose.headroom import Headroom
from ..sweeps.confidence import Estimate, estimate
from .choice import SAME_THROUGHPUT, Constraints, is_same_time
from .model_error import ModelError
from .option_changes import OptionChange, deployment_patch
from .race import Race
from .settings import NOW, SETTING, Mechanism, Setting
from .words import broken_text, policy_text, present_text, recommendation_words

if TYPE_CHECKING:
    from ..sweeps.point_rows import PointRow

SCHEMA = "netstack.tuning/3"
"""Name and version of the document's schema."""


class PromisedFigures(NamedTuple):
    """Emulated figures of a setting at one load."""

    figures: Mapping[str, Estimate]
    """The figures, by field of `Measures`."""
    throughput_share: Estimate | None
    """Throughput as a share of that of the present setting."""


ALL_THAT_ARRIVES = Estimate(1.0, None, None, 1, 1)
"""Throughput of a job below its limit, as a share of that of the present setting."""


class SettingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a setting over its seeds."""

    name: str
    action: str
    """Action that applies the setting, as a clause."""
    configuration: list[str]
    """Lines for Flink's configuration. Empty for the present setting, and if Flink lacks the policy."""
    target_ms: float | None = None
    """The debloat target, if the setting changes only this; None otherwise."""
    policy: str | None = None
    """The debloat policy that replaces the job's own one; None: the job's own."""
    seeds: list[int]
    """Seeds whose run did not fail."""
    failed: int = 0
    """Number of seeds whose run failed."""
    figures: dict[str, Estimate]
    """The known figures, by field of `Measures`."""
    worst_phase: str | None = None
    """Phase of the load in which checkpoints take longest with most seeds; None: the load has one phase."""
    throughput_share: Estimate | None = None
    """Throughput as a share of that of the present setting with the same seeds."""
    today: dict[str, Estimate] = {}
    """The known figures at today's load, by field of `Measures`; empty if the job is at its limit today."""
    checkpoints_completed: int = 0
    """Completed checkpoints, summed over all seeds."""
    checkpoints_failed: int = 0
    """Failed checkpoints, summed over all seeds."""
    checkpoints_expired: int = 0
    """Expired checkpoints, summed over all seeds."""
    broken: list[str] = []
    """A sentence for each limit that the setting violates."""

    def mean(self, name: str) -> float | None:
        """Return the mean of a figure over seeds; None: not measured."""
        figure = self.figures.get(name)
        return None if figure is None else figure.mean

    @property
    def time_ms(self) -> float:
        """Mean checkpoint duration, or without checkpoints the record delay; infinite if unknown."""
        time = self.mean("end_to_end_ms")
        time = self.mean("record_delay_ms") if time is None else time
        return inf if time is None else time

    @property
    def promised(self) -> PromisedFigures:
        """The emulated figures that a user may expect: those at today's load.

        If there are only others, the job is at its limit today. Below the limit, a job reads all that arrives
        with any setting.
        """
        if self.today:
            return PromisedFigures(self.today, ALL_THAT_ARRIVES)
        return PromisedFigures(self.figures, self.throughput_share)


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that a user may prefer to the recommended one."""

    kind: str
    """Its advantage over the recommended one, such as "no loss of throughput"."""
    name: str
    """Name of the setting."""


class Recommendation(msgspec.Struct, Viewed, frozen=True, kw_only=True):
    """Recommended setting of a job, and its basis.

    `to_pandas` and `to_arrow` return the table "settings". `plot` draws "trade-off" and "times-by-target".
    """

    schema: str = SCHEMA
    scenario: str
    """Name of the scenario."""
    conditions: dict[str, str] = {}
    """Values of options of Flink under which the recommendation holds."""
    constraints: Constraints
    seeds: list[int]
    """All seeds. A setting that needed fewer seeds lists its own."""
    clock: str = "virtual"
    versions: dict[str, str] = {}
    headroom: Headroom | None = None
    """Load that the job can take with its present setting; None: its load changes with time.

    If this is more than today's load, the figures of settings are those at the limit.
    """
    present: str
    """The present setting as text, such as "debloating off" or "target 1 s, unaligned"."""
    settings: list[SettingSummary]
    """The present setting, then the debloat targets from the shortest, then all others."""
    verdict: Literal["set", "keep", "none"]
    """Advice: "set" the chosen setting, "keep" the present one, or "none" if no setting meets the limits."""
    chosen: str
    """Name of the recommended setting; the present one's if nothing changes."""
    alternatives: list[Alternative] = []
    """Up to two alternatives."""
    error: ModelError = ModelError()
    """The known error of the emulation for the job. It gives the bands of the promised figures."""
    undecided: list[str] = []
    """Settings that some seeds alone would choose, although over all seeds they are clearly worse."""
    configuration: list[str] = []
    """Lines for Flink's configuration; empty if nothing changes."""
    changes: list[OptionChange] = []
    """The changed options, with their values before and the restart that each one needs."""
    flink_deployment: dict[str, Any] = {}
    """JSON merge patch of a FlinkDeployment with these changes; empty if nothing changes."""
    left_out: list[str] = []
    """Targets that were not run because a longer one already costs too much throughput; shortest first."""
    failures: list[str] = []
    """A line for each failed point."""
    words: list[str]
    """The recommendation in sentences: first the verdict, then its details."""

    @property
    def now(self) -> SettingSummary:
        """The present setting."""
        return self.at(NOW)

    @property
    def advised(self) -> SettingSummary:
        """The recommended setting; the present one if nothing changes."""
        return self.at(self.chosen)

    def at(self, name: str) -> SettingSummary:
        """Return the setting of this name."""
        return next(setting for setting in self.settings if setting.name == name)

    def __repr__(self) -> str:
        """Return the verdict in one line."""
        tried = f"now {self.present}, {len(self.settings)} settings tried"
        return f"<Recommendation for {readable(self.scenario)}, {tried}: {self.words[0]}>"


def recommend(race: Race) -> Recommendation:
    """Return the recommendation from all runs of the settings of a job.

    Raises:
        UsageError: no point of the present setting was run.
    """
    if not race.seeds_of(NOW):
        raise UsageError(
            ["the job did not run with its present setting, so there is nothing to compare with"]
        )
    choice = race.choice()
    ran = [each for each in race.settings.values() if race.seeds_of(each.name)]
    ran.sort(key=lambda each: (each.name != NOW, each.policy or "", each.target_s))
    settings = [_summary(race, each) for each in ran]
    by_name = {each.name: each for each in settings}
    own = choice.chosen or NOW
    policies = list(_policy_results(race, by_name, own))
    better = [race.settings[each.best.name] for each in policies if each.best and each.verdict == "better"]
    among = race.outcomes(among=[race.settings[NOW], *better])
    other = race.choose(among).chosen if better else None
    alternatives = [Alternative(kind=kind, name=name) for kind, name in choice.alternatives]
    chosen = other or choice.chosen
    changes = race.settings[chosen or NOW].option_changes(race.scenario.config)
    return Recommendation(
        scenario=race.scenario.name,
        conditions=dict(race.conditions),
        constraints=race.constraints,
        seeds=sorted({row.seed for row in race.rows}),
        versions=next((dict(row.versions) for row in race.rows if row.versions), {}),
        headroom=race.headroom,
        present=present_text(race.scenario),
        settings=settings,
        verdict="none" if chosen is None else "keep" if chosen == NOW else "set",
        chosen=chosen or NOW,
        alternatives=alternatives if other is None else [],
        error=race.error,
        undecided=race.undecided(),
        configuration=by_name[chosen or NOW].configuration,
        changes=changes,
        flink_deployment=deployment_patch(changes),
        left_out=race.left_out,
        failures=[_failure(row) for row in race.rows if row.measures is None],
        words=[
            *(policy_text(each, by_name[own]) for each in policies),
            *recommendation_words(race, by_name, choice),
        ],
    )


def _summary(race: Race, setting: Setting) -> SettingSummary:
    by_seed = race.finished(setting.name)
    runs = list(by_seed.values())
    (outcome,) = race.outcomes(among=[setting])
    lost = [None] * outcome.failed
    figures = {name: estimate([*(getattr(run, name) for run in runs), *lost]) for name in FIGURES}
    steps = race.steps.get(setting.name, [])
    figures["adaptation_ms"] = estimate(None if run is None else run.adaptation_ms for run in steps)
    only_target = setting.mechanisms == (Mechanism.DEBLOATING,) and setting.policy is None
    config = setting.apply(race.scenario).config
    has_target = config.debloat_enabled and (only_target or setting.name == NOW)
    return SettingSummary(
        name=setting.name,
        action=setting.action,
        configuration=setting.lines(race.scenario.config),
        target_ms=1e3 * config.debloat_target_s if has_target else None,
        policy=setting.policy,
        seeds=sorted(by_seed),
        failed=outcome.failed,
        figures={name: figure for name, figure in figures.items() if figure is not None},
        worst_phase=_usual_phase(runs),
        throughput_share=estimate(race.shares(by_seed), 4),
        today=_today(race, setting),
        broken=[broken_text(each) for each in race.broken(outcome)],
        **{name: sum(getattr(run, name) for run in runs) for name in COUNTS},
    )


def _today(race: Race, setting: Setting) -> dict[str, Estimate]:
    """Return the figures of a setting at today's load."""
    measures = race.today.get(setting.name)
    figures = {name: estimate([getattr(measures, name, None)]) for name in FIGURES}
    return {name: figure for name, figure in figures.items() if figure is not None}


def _usual_phase(runs: Sequence[Measures]) -> str | None:
    """Return the phase that is the worst one in most runs."""
    phases = Counter(known(run.worst_phase for run in runs)).most_common(1)
    return phases[0][0] if phases else None


def _failure(row: PointRow) -> str:
    where = ", ".join(text if name == SETTING else f"{name} {text}" for name, text in row.labels.items())
    return f"{where or NOW}, seed {row.seed} ({row.probe}): {row.error or 'no measures'}"


def are_alike(one: SettingSummary, other: SettingSummary) -> bool:
    """Return whether two settings differ by noise only, and both or none of them keep to the limits."""
    names = ("end_to_end_ms", "end_to_end_p95_ms", "record_delay_ms")
    times = all(is_same_time(one.mean(name), other.mean(name)) for name in names)
    shares = [each.throughput_share.mean for each in (one, other) if each.throughput_share is not None]
    same_throughput = (
        len(shares) != 1 and max(shares, default=0.0) - min(shares, default=0.0) <= SAME_THROUGHPUT
    )
    same_stored = one.mean("persisted_bytes") == other.mean("persisted_bytes")
    return times and same_throughput and same_stored and bool(one.broken) == bool(other.broken)


class PolicyResult(NamedTuple):
    """Comparison of the settings of another policy with the one chosen for the job's own policy."""

    policy: str
    verdict: Literal["no rival", "no difference", "loses throughput", "better"]
    """"no rival": no setting of the policy is better by means; "no difference": chance may explain it."""
    best: SettingSummary | None
    """The best setting of the policy; None: none ran with every seed."""
    gain: str | None = None
    """The first figure in which it is better."""
    difference: Estimate | None = None
    """The difference of their times."""


def _policy_results(race: Race, settings: Mapping[str, SettingSummary], own: str) -> Iterator[PolicyResult]:
    for policy, rival in race.rivals().items():
        if rival is None:
            theirs = [settings[each.name] for each in race.finalists([policy]) if each.name in settings]
            best = min(theirs, key=lambda each: each.time_ms, default=None)
            yield PolicyResult(policy, "no rival", best)
        elif (gain := race.shown_gain(rival, own)) is None:
            found = race.difference(rival, own, "end_to_end_ms")
            found = found or race.difference(rival, own, "record_delay_ms")
            yield PolicyResult(policy, "no difference", settings[rival], difference=found)
        elif race.loses_throughput(rival, own):
            yield PolicyResult(policy, "loses throughput", settings[rival], gain)
        else:
            yield PolicyResult(policy, "better", settings[rival], gain)
