"""The race of a job's settings: the figures of their runs so far, and the choice among them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING

from netstack import Scenario

from ...base.optional_figures import known, mean_of_known, quotient
from ...runs.window_figures import Measures
from ..diagnose.headroom import Headroom
from ..sweeps.axes import FLINK
from ..sweeps.confidence import Estimate, estimate, is_surely_positive, standard_error
from .choice import (
    SAME_MS,
    SAME_SHARE,
    SAME_THROUGHPUT,
    WORTH_MS,
    Broken,
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
from .model_error import ModelError, model_error, with_measured
from .settings import NOW, SETTING, Setting

if TYPE_CHECKING:
    from ..sweeps.point_rows import PointRow

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
    measured_ms: Sequence[float] = ()
    """Times of the checkpoints of the present setting in a real Flink; empty: unknown."""

    @property
    def loaded(self) -> Scenario:
        """The job under the load at which settings are compared."""
        return self.at_limit or self.scenario

    @property
    def error(self) -> ModelError:
        """The known error of the emulation for this job.

        It includes the error of the present setting once that has run at today's load.
        """
        runs = [*self.finished(NOW).values()] if self.at_limit is None else known([self.today.get(NOW)])
        error = model_error(self.scenario)
        if not runs:
            return error
        return with_measured(error, self.measured_ms, mean_of_known(run.end_to_end_ms for run in runs))

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
        return choose(
            outcomes,
            NOW,
            self.constraints,
            takes_checkpoints=self.scenario.takes_checkpoints,
            error=self.error,
        )

    def is_well(self, now: Outcome) -> bool:
        """Return whether nothing has to change, given the outcome of the present setting."""
        interval_s = self.scenario.config.checkpoint_interval_s
        return is_fast_enough(now, self.constraints, interval_s) and not self.broken(now)

    def broken(self, outcome: Outcome) -> list[Broken]:
        """Return the limits that a setting violates."""
        takes_checkpoints = self.scenario.takes_checkpoints
        return broken_limits(outcome, self.constraints, takes_checkpoints=takes_checkpoints)

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

    def _costs_today(self, name: str) -> Broken | None:
        """Return what a setting costs at today's load; None: nothing, or it is not known."""
        now, setting = self.today.get(NOW), self.today.get(name)
        if now is None or setting is None or name == NOW:
            return None
        if name in self.behind_today and NOW not in self.behind_today:
            return Broken("today")
        for what, name_of in (("checkpoints", "end_to_end_ms"), ("records", "record_delay_ms")):
            before, after = getattr(now, name_of), getattr(setting, name_of)
            slower = before is not None and after is not None and after - before >= WORTH_MS
            if slower and not is_same_time(before, after):
                return Broken(what, after, before)
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
