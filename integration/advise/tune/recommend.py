"""Recommendation of a setting for a job, from the points of all its settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from flowcontrol import readable
from netstack import CheckpointResult, Scenario, Viewed, format_duration

from ...base.errors import UsageError
from ...base.number_text import milliseconds, size
from ...base.optional_figures import known, mean_of_known, quotient
from ...runs.quantities import END_TO_END
from ...runs.reference_comparison import tolerance
from ...runs.window_figures import COUNTS, FIGURES, Measures
from ..diagnose.headroom import Headroom
from ..diagnose.words import headroom_text
from ..sweeps.axes import FLINK
from ..sweeps.confidence import Estimate, estimate, is_surely_positive, standard_error
from ..sweeps.end_of_run import SETTLED_CHECKPOINTS
from .choice import (
    SAME_MS,
    SAME_SHARE,
    SAME_THROUGHPUT,
    WORTH_MS,
    WORTH_SHARE,
    Choice,
    Constraints,
    Outcome,
    broken_limits,
    choose,
    is_fast_enough,
    is_matched,
    is_same,
    is_same_time,
)
from .option_changes import OptionChange, deployment_patch
from .settings import NOW, SETTING, Mechanism, Setting, is_large

if TYPE_CHECKING:
    from ..sweeps.point_rows import PointRow

SCHEMA = "netstack.tuning/3"
"""Name and version of the document's schema."""


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
    """How much load the job can take with its present setting; None: its load changes with time.

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
    """At most two alternatives."""
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


PRICES = {
    Mechanism.ADAPTIVE: "Records of one producer may then be processed in another order; state by key is not "
    "affected.",
    Mechanism.INTERVAL: "After a failure, a longer interval means that more records are processed again.",
}
"""Costs of a mechanism that no figure shows, each as a sentence."""

OWN = (None, FLINK)
"""Policies that the recommendation may choose: the job's own (None), and Flink's."""

SINGLE_SHARE = 0.05
"""Share of a figure, beyond what counts as equal, that a combination must gain with a single seed."""


@dataclass(slots=True)
class Race:
    """The settings of one job with the figures of their runs so far."""

    scenario: Scenario
    constraints: Constraints
    conditions: Mapping[str, str]
    settings: dict[str, Setting] = field(default_factory=dict)
    runs: dict[str, dict[int, Measures | None]] = field(default_factory=dict)
    """Figures by setting and seed; None: the run failed."""
    steps: dict[str, list[Measures | None]] = field(default_factory=dict)
    """Figures of runs with a step of the load, by setting."""
    rows: list[PointRow] = field(default_factory=list)
    headroom: Headroom | None = None
    """Headroom of the job with its present setting; None: its load changes with time, or is not known."""
    at_limit: Scenario | None = None
    """The job with more load than it can take; None: today's load is the one that counts."""
    today: dict[str, Measures] = field(default_factory=dict)
    """Figures at today's load by setting, if the contest is at the limit."""
    behind_today: set[str] = field(default_factory=set)
    """Settings with which the job does not keep up with today's load."""
    left_out: list[str] = field(default_factory=list)

    @property
    def loaded(self) -> Scenario:
        """The job under the load at which settings are compared."""
        return self.at_limit or self.scenario

    def add_settings(self, settings: Iterable[Setting]) -> list[Setting]:
        """Add settings that are not there yet, and return them."""
        added = [each for each in settings if each.name not in self.settings]
        self.settings |= {each.name: each for each in added}
        return added

    def add_rows(self, rows: Iterable[PointRow]) -> None:
        """Add the rows of points."""
        for row in rows:
            name = row.labels.get(SETTING, NOW)
            if row.probe == "step":
                self.steps.setdefault(name, []).append(row.measures)
            else:
                self.runs.setdefault(name, {})[row.seed] = row.measures
            self.rows.append(row)

    def choose(self, outcomes: Sequence[Outcome]) -> Choice:
        """Return the choice among some outcomes, which include that of the present setting.

        The present setting stays if it violates no limit and its checkpoints are fast enough.
        """
        if self.is_well(next(each for each in outcomes if each.name == NOW)):
            return Choice(NOW, close=frozenset([NOW]))
        return choose(outcomes, NOW, self.constraints, takes_checkpoints=self.scenario.takes_checkpoints)

    def is_well(self, now: Outcome) -> bool:
        """Return whether nothing has to change, given the outcome of the present setting."""
        interval_s = self.scenario.config.checkpoint_interval_s
        return is_fast_enough(now, self.constraints, interval_s) and not broken_limits(
            now, self.constraints, takes_checkpoints=True
        )

    def seeds_of(self, name: str) -> set[int]:
        """Return the seeds of all runs of a setting, including failed runs."""
        return set(self.runs.get(name, ()))

    def finished(self, name: str, seed: int | None = None) -> dict[int, Measures]:
        """Return the figures of a setting by seed, without failed runs: of all seeds, or of one."""
        runs = self.runs.get(name, {}).items()
        return {at: run for at, run in runs if run is not None and seed in (None, at)}

    def outcomes(self, seed: int | None = None, among: Iterable[Setting] | None = None) -> list[Outcome]:
        """Return the outcome of each setting that has run, over all seeds or for one seed."""
        settings = self.settings.values() if among is None else among
        return known(self._outcome(setting, seed) for setting in settings)

    def _outcome(self, setting: Setting, seed: int | None) -> Outcome | None:
        ran = self.seeds_of(setting.name)
        if not ran or (seed is not None and seed not in ran):
            return None
        runs = self.finished(setting.name, seed)

        def mean(name: str) -> float | None:
            return mean_of_known(getattr(run, name) for run in runs.values())

        ended = sum(run.checkpoints_completed + run.checkpoints_expired for run in runs.values())
        expired = sum(run.checkpoints_expired for run in runs.values())
        return Outcome(
            name=setting.name,
            mechanisms=len(setting.mechanisms),
            target_s=setting.target_s,
            checkpoint_ms=mean("end_to_end_ms"),
            checkpoint_p95_ms=mean("end_to_end_p95_ms"),
            throughput=mean_of_known(self.shares(runs)),
            delay_ms=mean("record_delay_ms"),
            delay_p95_ms=mean("record_delay_p95_ms"),
            stored_bytes=mean("persisted_bytes"),
            worst_phase_ms=mean("worst_phase_ms"),
            expired=expired / ended if ended else None,
            failed=len(ran) - len(runs) if seed is None else int(seed not in runs),
            costs_today=self._costs_today(setting.name),
        )

    def _costs_today(self, name: str) -> str | None:
        """Return what a setting costs at today's load; None: nothing, or it is not known."""
        now, setting = self.today.get(NOW), self.today.get(name)
        if now is None or setting is None or name == NOW:
            return None
        if name in self.behind_today and NOW not in self.behind_today:
            return "the job does not keep up"
        for what, name_of in (("checkpoints", "end_to_end_ms"), ("records", "record_delay_ms")):
            before, after = getattr(now, name_of), getattr(setting, name_of)
            slower = before is not None and after is not None and after - before >= WORTH_MS
            if slower and not is_same_time(before, after):
                return f"{what} take {milliseconds(after)} instead of {milliseconds(before)}"
        return None

    def shares(self, runs: Mapping[int, Measures]) -> list[float | None]:
        """Return the throughput of runs of a setting, as shares of the present one with the same seeds."""
        now = self.finished(NOW)
        return [
            quotient(run.throughput_per_s, now[seed].throughput_per_s)
            for seed, run in runs.items()
            if seed in now
        ]

    def choice(self, seed: int | None = None) -> Choice:
        """Return the choice among the finalists of the job's own policy and of Flink's.

        It uses the means over all seeds, or the runs with one seed.
        """
        return self.choose(self.outcomes(seed, self._worthwhile(self.finalists())))

    def _worthwhile(self, settings: Sequence[Setting]) -> list[Setting]:
        """Return the settings without combinations whose gain over fewer mechanisms may be chance."""
        left = list(settings)
        while True:
            outcomes = self.outcomes(among=left)
            chosen = self.settings[self.choose(outcomes).chosen or NOW]
            if len(chosen.mechanisms) < 2:
                return left
            left.remove(chosen)
            simpler = self.choose([each for each in outcomes if each.name != chosen.name]).chosen
            if simpler is None or self.shown_gain(chosen.name, simpler, SINGLE_SHARE):
                return [*left, chosen]

    def finalists(self, policies: Collection[str | None] = OWN) -> list[Setting]:
        """Return the settings of some policies that ran with every seed. None is the job's own policy.

        Other settings were dropped because they could not win. Their figures, from fewer seeds, are not
        comparable.
        """
        seeds = self.seeds_of(NOW)
        return [
            each
            for each in self.settings.values()
            if each.policy in policies and self.seeds_of(each.name) >= seeds
        ]

    def votes(self) -> set[str]:
        """Return the setting that each seed alone would choose."""
        seeds = self.seeds_of(NOW)
        return set(known(self.choice(seed).chosen for seed in sorted(seeds)))

    def undecided(self) -> list[str]:
        """Return settings that some seeds alone would choose, but that are clearly worse over all seeds."""
        choice = self.choice()
        means = {each.name: each for each in self.outcomes()}
        return sorted(
            name
            for name in self.votes() - choice.close
            if choice.chosen is not None and not is_same(means[name], means[choice.chosen])
        )

    def is_decided(self) -> bool:
        """Return whether more seeds would hardly change the choice or the chosen setting's figures."""
        runs = self.finished(self.choice().chosen or NOW)
        shares = known(self.shares(runs))
        times = known(run.end_to_end_ms for run in runs.values())
        allowed_ms = max(SAME_MS, SAME_SHARE * fmean(times)) if times else 0.0
        precise = _is_close(shares, SAME_THROUGHPUT) and _is_close(times, allowed_ms)
        return len(self.seeds_of(NOW)) > 1 and precise and not self.undecided() and not self.unclear()

    def rivals(self) -> dict[str, str | None]:
        """Return, for each other policy, its best setting that by means no setting of `OWN` matches."""
        own = self.outcomes(among=[each for each in self.settings.values() if each.policy in OWN])
        now = [each for each in own if each.name == NOW]
        found: dict[str, str | None] = {}
        for policy in known(each.policy for each in self.settings.values() if each.policy not in OWN):
            if policy not in found:
                theirs = self.outcomes(among=self.finalists([policy]))
                best = self.choose([*now, *(each for each in theirs if not is_matched(each, own))]).chosen
                found[policy] = None if best == NOW else best
        return found

    def unclear(self) -> set[str]:
        """Return the settings of `rivals` whose runs do not show yet that they are better."""
        own = self.choice().chosen or NOW
        return {rival for rival in known(self.rivals().values()) if self.shown_gain(rival, own) is None}

    def difference(self, name: str, other: str, figure: str) -> Estimate | None:
        """Return the difference of a figure between two settings, from runs with the same seeds.

        The figure is a field of `Measures`; "throughput_per_s" counts as a share of the present throughput.
        """
        now, others = self.finished(NOW), self.finished(other)

        def value(run: Measures, seed: int) -> float | None:
            found: float | None = getattr(run, figure)
            if figure != "throughput_per_s":
                return found
            return quotient(found, now[seed].throughput_per_s) if seed in now else None

        pairs = (
            (value(run, seed), value(others[seed], seed))
            for seed, run in self.finished(name).items()
            if seed in others
        )
        return estimate((a - b for a, b in pairs if a is not None and b is not None), 4)

    def shown_gain(self, name: str, other: str, single_share: float = inf) -> str | None:
        """Return the first figure in which a setting is better than another one; None: no difference shows.

        The mean `difference` must be more than what counts as equal, and its interval must exclude 0. A
        single seed has no interval: its difference must be more by `single_share` of the figure.
        """
        for figure in ("end_to_end_ms", "record_delay_ms"):
            runs = self.finished(other).values()
            before_ms = mean_of_known(getattr(run, figure) for run in runs)
            if before_ms is None:
                continue
            equal_ms = max(SAME_SHARE * before_ms, SAME_MS)
            gained = self.difference(other, name, figure)
            if is_surely_positive(gained, equal_ms, equal_ms + single_share * before_ms):
                return figure
        throughput = "throughput_per_s"
        gained = self.difference(name, other, throughput)
        shown = is_surely_positive(gained, SAME_THROUGHPUT, SAME_THROUGHPUT + single_share)
        return throughput if shown else None

    def loses_throughput(self, name: str, other: str) -> bool:
        """Return whether a setting has a lower throughput than another one, by more than chance."""
        lost = self.difference(other, name, "throughput_per_s")
        return is_surely_positive(lost, SAME_THROUGHPUT, single=SAME_THROUGHPUT)


def _is_close(values: Sequence[float], error: float) -> bool:
    """Return whether the standard error of values is at most `error`; True for fewer than two values."""
    return len(values) < 2 or standard_error(values) <= error


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
    other, said = _about_policies(race, by_name, choice.chosen or NOW)
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
        undecided=race.undecided(),
        configuration=by_name[chosen or NOW].configuration,
        changes=changes,
        flink_deployment=deployment_patch(changes),
        left_out=race.left_out,
        failures=[_failure(row) for row in race.rows if row.measures is None],
        words=[*said, *_words(race, by_name, choice)],
    )


def present_text(scenario: Scenario) -> str:
    """Return the present setting as text, such as "debloating off" or "target 1 s, unaligned"."""
    config = scenario.config
    aligned = ", unaligned" if config.takes_unaligned_checkpoints else ""
    if not config.debloat_enabled:
        return f"debloating off{aligned}"
    return f"target {format_duration(config.debloat_target_s)}{aligned}"


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
        broken=broken_limits(outcome, race.constraints, takes_checkpoints=race.scenario.takes_checkpoints),
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


def _words(race: Race, settings: Mapping[str, SettingSummary], choice: Choice) -> list[str]:
    """Return the recommendation in sentences: the verdict, the alternatives, and the open questions."""
    now = settings[NOW]
    if choice.chosen is None:
        return [_nothing_fits(settings, race)]
    chosen = settings[choice.chosen]
    action = chosen.action[0].upper() + chosen.action[1:]
    at_limit = "at the limit, " if race.at_limit is not None else ""
    words = [_keep(settings, race) if chosen is now else f"{action}: {at_limit}{effect(chosen, now)}."]
    words += known([_about_the_limit(race, now, chosen), _about_the_peak(now, chosen)])
    words += known(PRICES.get(each) for each in race.settings[choice.chosen].mechanisms)
    words += [alternative_text(kind, settings[name], now) for kind, name in choice.alternatives]
    if undecided := race.undecided():
        words.append(
            f"In some of the runs with {len(chosen.seeds)} seeds, {' or '.join(undecided)} is better; the "
            "mean over all seeds decides."
        )
    if race.left_out:
        words.append(
            f"Not run: {', '.join(race.left_out)}. A longer target already costs too much throughput, and "
            "a shorter one costs at least as much."
        )
    if is_large(race.scenario) and len(chosen.seeds) == 1:
        words.append(
            f"The job has {race.scenario.channels:,} channels, so a run takes long: each setting ran only "
            "once."
        )
    return [*words, *_few_checkpoints(now, chosen)]


def _about_the_limit(race: Race, now: SettingSummary, chosen: SettingSummary) -> str | None:
    """Return a sentence on the job's limit, and on today's load; None: its load changes with time."""
    if race.headroom is None:
        return None
    sentence = headroom_text(race.headroom)
    before, after = now.today.get("end_to_end_ms"), chosen.today.get("end_to_end_ms")
    if before is None or after is None:
        return sentence
    today = f"At today's load, checkpoints take {milliseconds(after.mean)}"
    if chosen is not now:
        today += f" instead of {milliseconds(before.mean)}"
    return f"{sentence} {today}."


def _about_the_peak(now: SettingSummary, chosen: SettingSummary) -> str | None:
    """Return a sentence on the phase of the load with the slowest checkpoints; None: there is one phase."""
    before, after = now.mean("worst_phase_ms"), chosen.mean("worst_phase_ms")
    if now.worst_phase is None or before is None:
        return None
    sentence = f"The slowest checkpoints now are those {now.worst_phase}: they take {milliseconds(before)}"
    if chosen is now or after is None:
        return f"{sentence}."
    return (
        f"{sentence}. With {chosen.name}, the slowest are those {chosen.worst_phase}: {milliseconds(after)}."
    )


def effect(chosen: SettingSummary, now: SettingSummary, than: str = "") -> str:
    """Return as text how `chosen` compares with `now`: times, throughput, and what else `chosen` costs."""
    takes_checkpoints = chosen.mean("end_to_end_ms") is not None
    what, time = ("checkpoints", "end_to_end_ms") if takes_checkpoints else ("records", "record_delay_ms")
    before = now.mean(time)
    instead = ", and none completes now" if before is None else f" instead of {milliseconds(before)}{than}"
    parts = [f"{what} take {milliseconds(chosen.mean(time))}{instead}", throughput_text(chosen, now)]
    if stored := chosen.mean("persisted_bytes"):
        parts.append(f"each stores {size(stored)} of data in flight")
    delay, before = chosen.mean("record_delay_ms"), now.mean("record_delay_ms")
    if stored and delay is not None and before is not None and delay > 0.8 * before:
        parts.append(f"records still take {milliseconds(delay)}")
    return ", ".join(parts)


def throughput_text(setting: SettingSummary, now: SettingSummary) -> str:
    """Return the throughput of a setting relative to another one, in words."""
    shares = (setting.throughput_share, now.throughput_share)
    if shares[0] is None or shares[1] is None or not shares[1].mean:
        return "throughput unknown"
    share = shares[0].mean / shares[1].mean
    if abs(share - 1) < SAME_THROUGHPUT:
        return "throughput unchanged"
    if share >= 1.5:
        return f"throughput {share:.1f} times as high"
    return f"throughput {100 * abs(share - 1):.1f} % {'lower' if share < 1 else 'higher'}"


def measured_text(now: SettingSummary, checkpoints: Sequence[CheckpointResult]) -> str | None:
    """Return a sentence on the times of a real job's checkpoints beside those of the emulation.

    It warns if they differ by more than the tolerance of a comparison with Flink, and the emulated time is
    outside the range of Flink's checkpoints. Return None if Flink reports no completed checkpoint.
    """
    times = known(each.duration_ms for each in checkpoints if each.completed)
    figure = (now.today or now.figures).get("end_to_end_ms")
    emulated = None if figure is None else figure.mean
    if not times:
        return None
    mean, least, most = fmean(times), min(times), max(times)
    spread = "" if len(times) == 1 else f" on average ({milliseconds(least)} to {milliseconds(most)})"
    sentence = f"Flink reports that checkpoints take {milliseconds(mean)}{spread}"
    if emulated is None:
        return f"{sentence}; in the emulation of the present setting, none completes."
    if abs(emulated - mean) <= tolerance(END_TO_END, mean, 0.0) or least <= emulated <= most:
        return f"{sentence}; the emulation agrees ({milliseconds(emulated)})."
    return (
        f"Warning: {sentence}, and the emulation says {milliseconds(emulated)}. Figures of other settings "
        "may differ as much from a real job; `netstack validate` shows which quantities differ."
    )


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


def alternative_text(kind: str, setting: SettingSummary, now: SettingSummary) -> str:
    """Return an alternative in one sentence."""
    return f"{kind[0].upper()}{kind[1:]}: {setting.action}; {effect(setting, now)}."


def _keep(settings: Mapping[str, SettingSummary], race: Race) -> str:
    now = settings[NOW]
    (outcome,) = race.outcomes(among=[race.settings[NOW]])
    if race.is_well(outcome):
        return _nothing_to_change(outcome, race)
    time = now.mean("end_to_end_ms")
    where = "at the limit, " if race.at_limit is not None else ""
    take = f"{where}checkpoints take {milliseconds(time)}"
    if time is None:
        take = f"records take {milliseconds(now.mean('record_delay_ms'))}"
    faster = [
        each
        for each in settings.values()
        if each.broken and each.policy in OWN and time_of(each) < (1 - WORTH_SHARE) * time_of(now)
    ]
    reason = "no other setting is clearly better"
    if faster:
        best = min(faster, key=lambda each: (len(each.broken), time_of(each)))
        reason = f"{best.name} takes {milliseconds(time_of(best))}, but {best.broken[0]}"
    return f"Keep the present setting ({present_text(race.scenario)}): {take}, and {reason}."


def _nothing_to_change(now: Outcome, race: Race) -> str:
    limits, interval_s = race.constraints, race.scenario.config.checkpoint_interval_s
    share = f"{100 * limits.fast_enough_share:g} % of the interval of {format_duration(interval_s or 0.0)}"
    where = "at the limit, " if race.at_limit is not None else ""
    longest = milliseconds(now.checkpoint_p95_ms)
    return (
        f"Nothing to change: {where}95 % of the checkpoints take at most {longest}, which is less "
        f"than {milliseconds(limits.fast_enough_ms)} and less than {share}. To find faster settings, give a "
        "limit or `only`."
    )


def time_of(setting: SettingSummary) -> float:
    """Return the mean checkpoint duration, or without checkpoints the record delay; infinite if unknown."""
    time = setting.mean("end_to_end_ms")
    time = setting.mean("record_delay_ms") if time is None else time
    return float("inf") if time is None else time


def _nothing_fits(settings: Mapping[str, SettingSummary], race: Race) -> str:
    """Return a sentence that no setting meets the limits, with the setting that violates the fewest."""
    if not settings[NOW].seeds:
        return "No advice: all runs of the present setting failed, so there is nothing to compare with."
    nearest = min(settings.values(), key=lambda each: (len(each.broken), time_of(each)))
    name = "the present setting" if nearest.name == NOW else nearest.name
    return f"No setting keeps to all limits. The nearest is {name}: {'; '.join(nearest.broken)}."


def _few_checkpoints(now: SettingSummary, chosen: SettingSummary) -> list[str]:
    """Return a sentence for each setting with too few checkpoints for reliable times."""
    said = []
    for setting in [now] if chosen is now else [now, chosen]:
        completed, runs = setting.checkpoints_completed, len(setting.seeds)
        if 0 < completed < SETTLED_CHECKPOINTS * runs:
            who, count = "Now" if setting is now else f"With {setting.name}", f"{completed / runs:.0f}"
            said.append(f"{who}, only {count} checkpoints complete in a run, so their times are rough.")
    return said


def _about_policies(
    race: Race, settings: Mapping[str, SettingSummary], own: str
) -> tuple[str | None, list[str]]:
    """Compare the settings of each other policy with the setting chosen for the job's own policy.

    Return the best setting of another policy, if it is better than the chosen one, and a sentence for each
    policy.
    """
    before, than = settings[own], f" with {'the present setting' if own == NOW else own}"
    better, said = [race.settings[NOW]], []
    for policy, rival in race.rivals().items():
        theirs = [settings[each.name] for each in race.finalists([policy]) if each.name in settings]
        best = settings[rival] if rival is not None else min(theirs, key=time_of, default=None)
        figures = "" if best is None else f": with {best.name}, {effect(best, before, than)}"
        if best is None or rival is None:
            said.append(f"{policy} is not clearly better{figures}.")
        elif (gain := race.shown_gain(rival, own)) is None:
            said.append(f"{policy}: no difference that {_seeds(best)}{figures}{_times(race, rival, own)}.")
        elif race.loses_throughput(rival, own):
            said.append(f"{policy} is not better at an equal throughput{figures}.")
        else:
            better.append(race.settings[rival])
            delays = (best.mean("record_delay_ms"), before.mean("record_delay_ms"))
            if gain == "record_delay_ms" and best.mean("end_to_end_ms") is not None:
                figures += f", records take {milliseconds(delays[0])} instead of {milliseconds(delays[1])}"
            said.append(f"{policy} is better{figures}.")
    return race.choose(race.outcomes(among=better)).chosen if len(better) > 1 else None, said


def _seeds(setting: SettingSummary) -> str:
    return "1 seed shows" if len(setting.seeds) == 1 else f"{len(setting.seeds)} seeds show"


def _times(race: Race, rival: str, own: str) -> str:
    """Return the interval of the difference of two settings' times as text; empty for a single seed."""
    checkpoints = race.difference(rival, own, "end_to_end_ms")
    found = checkpoints or race.difference(rival, own, "record_delay_ms")
    if found is None or found.low is None:
        return ""
    return f" (95 % interval of the difference with the same seeds: {found.low:.0f} to {found.high:.0f} ms)"
