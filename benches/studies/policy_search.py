"""Searches for a better debloating rule than FLIP-183; prints the tables of docs/studies/POLICIES.md.

Run it with ``python -m benches.studies.policy_search``; it takes some hours on two cores, half of that with
``make fast``. A rule is FLIP-183 with another choice in some of these six places::

    buffers in use of each channel
      -> counting   their sum, or channels with data * the longest
      -> blocked    while a channel is blocked: counted as it is, count frozen, or no step at all ("held")
      -> peak       the count falls from its peak by half in so many seconds; 0: at once
    target * throughput / count
      -> jump       a size that is too large by so many percent is corrected at once; 0: never
      -> mean       samples of the moving average
    size
      -> tell       percent by which it must have changed to be announced

1. All 288 rules run on those scenarios of `benches.policy_scenarios` that have no operator in Python, with
   one seed.
2. Of the rules that keep the throughput, ``--chosen`` rules are chosen. Half of them have the shortest times
   among the rules that no other rule beats in all figures. The other half are worse than FLIP-183 in the
   fewest scenarios. The chosen rules and the known policies run on all scenarios with three seeds.
3. The chosen rules run on scenarios that were not used for the choice: `tests/flink/scenarios`, and the files
   in the arguments.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import geometric_mean, median
from typing import ClassVar, NamedTuple

from flowcontrol import (
    Announcement,
    BufferSizeEMA,
    DebloatedChannel,
    DebloatPolicy,
    DebloatSettings,
    to_all,
)
from integration import load_scenario
from integration.tuning import measure
from netstack import Scenario, emulate

from ..policy_scenarios import CASES

HELD_BACK = sorted(
    str(path)
    for path in (Path(__file__).parents[2] / "tests/flink/scenarios").glob("*.toml")
    if path.stem != "proof"
)
SEEDS = (1, 2, 3)
LEAST_THROUGHPUT = 0.995
"""Minimum throughput of a rule in every scenario, as a share of the throughput with FLIP-183."""

SHARE, LEAST_MS = 0.02, 3.0
"""A time is worse than with FLIP-183 if it is longer by more than this share plus this many ms."""

ANNOUNCEMENTS_SHARE, ANNOUNCEMENTS_PER_S = 0.1, 0.05


HEAD = (
    "| rule | end to end | longest checkpoint | record delay | lowest throughput | announcements "
    "| not worse in scenarios |\n|---|---:|---:|---:|---:|---:|---:|"
)


class Rule(NamedTuple):
    """A debloating rule. The defaults are the choices of FLIP-183."""

    counting: str = "sum"
    blocked: str = "counted"
    peak: int = 0
    jump: int = 0
    mean: int = 20
    tell: int = 25

    @property
    def name(self) -> str:
        """Name of the rule in the tables, and of its policy in this module."""
        counts = f"{self.counting}_{self.blocked}_peak{self.peak}"
        return f"{counts}_jump{self.jump}_mean{self.mean}_tell{self.tell}"


FLINK = Rule()
KNOWN = {
    "flink": FLINK,
    "frozen-while-blocked": Rule(blocked="frozen"),
    "longest-channel": Rule(counting="longest", blocked="frozen"),
    "burst": Rule(blocked="frozen", peak=30, jump=25),
    "longest-when-unblocked": Rule(counting="longest", blocked="held"),
}
"""Policies of docs/studies/POLICIES.md, as rules."""

VALUES = (("sum", "longest"), ("counted", "frozen", "held"), (0, 5, 30), (0, 10, 25, 50), (10, 20), (10, 25))
RULES = {rule.name: rule for rule in itertools.starmap(Rule, itertools.product(*VALUES))}


class JumpingEMA(BufferSizeEMA):
    """Moving average that drops at once if the size is too large by more than the share `jump`."""

    __slots__ = ("_usual",)
    jump: ClassVar[float]

    def __init__(self, starting_size: int, max_size: int, min_size: int, samples: int) -> None:
        super().__init__(starting_size, max_size, min_size, samples)
        self._usual = self.alpha

    def calculate(self, total_bytes: int, buffers: int) -> int:
        """Return the next size."""
        too_large = buffers > 0 and total_bytes / buffers < self._size * (1 - self.jump)
        self.alpha = 1.0 if too_large else self._usual
        return super().calculate(total_bytes, buffers)


class RulePolicy(DebloatPolicy):
    """The calculation of FLIP-183 with the choices of `rule`."""

    rule: ClassVar[Rule] = FLINK
    announced: ClassVar[int] = 0
    """Number of sizes that all gates of this process have announced."""

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        chosen = replace(settings, samples=self.rule.mean, threshold_percent=self.rule.tell)
        jumping = type("Jumping", (JumpingEMA,), {"__slots__": (), "jump": self.rule.jump / 100})
        self._debloater = chosen.debloater(jumping if self.rule.jump else BufferSizeEMA)
        self._kept = 0.5 ** (settings.period_s / self.rule.peak) if self.rule.peak else 0.0
        self._in_use_before = 0
        self._before: dict[int, int] = {}
        self._peak = 0.0

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take a step, unless a channel is blocked and the rule takes no steps then ("held")."""
        if self.rule.blocked == "held" and any(channel.blocked for channel in channels):
            return ()
        self._peak = max(float(self._count(channels)), self._peak * self._kept)
        size = self._debloater.recalculate(throughput, round(self._peak))
        self.last_announced = self._debloater.last_announced
        self.estimated_time_s = self._debloater.estimated_time_s
        if size is None:
            return ()
        RulePolicy.announced += len(channels)
        return to_all(size, channels)

    def _count(self, channels: Sequence[DebloatedChannel]) -> int:
        counts = [channel.buffers_in_use for channel in channels]
        frozen = self.rule.blocked == "frozen"
        if self.rule.counting == "longest":
            for place, channel in enumerate(channels):
                if channel.blocked and frozen:
                    counts[place] = max(counts[place], self._before.get(place, 0))
                else:
                    self._before[place] = counts[place]
            return sum(count > 0 for count in counts) * max(counts, default=0)
        if frozen and any(channel.blocked for channel in channels):
            return max(sum(counts), self._in_use_before)
        self._in_use_before = sum(counts)
        return self._in_use_before


def __getattr__(name: str) -> type[RulePolicy]:
    """Create the policy class for the name of a rule, so that ``debloat_policy`` can refer to it."""
    if name not in RULES:
        raise AttributeError(f"no rule has the name {name!r}")
    return type(name, (RulePolicy,), {"rule": RULES[name]})


class Trial(NamedTuple):
    """A run: a scenario (by its name in `policy_scenarios`, or its file), a rule, and a seed."""

    scenario: str
    rule: Rule
    seed: int


class SearchFigures(NamedTuple):
    """The figures of a trial after its warm-up."""

    end_to_end_ms: float
    worst_ms: float
    delay_ms: float
    records_per_s: float
    announcements_per_s: float


@cache
def scenario_of(name: str) -> Scenario:
    """Return the scenario of a trial."""
    named = [case.scenario for case in CASES if case.scenario.name == name]
    return named[0] if named else load_scenario(name)


def run(trial: Trial) -> SearchFigures:
    """Emulate a trial."""
    scenario = scenario_of(trial.scenario)
    config = replace(scenario.config, debloat_policy=f"{RulePolicy.__module__}:{trial.rule.name}")
    RulePolicy.announced = 0
    result = emulate(replace(scenario, config=config), seed=trial.seed)
    times = [one.duration_ms for one in result.checkpoints if one.t >= scenario.warmup_s and one.duration_ms]
    measures = measure(result)
    if not times or measures.record_delay_ms is None or measures.throughput_per_s is None:
        return SearchFigures(math.inf, math.inf, math.inf, 0.0, math.inf)  # worse than any other rule
    announcements = RulePolicy.announced / result.emulated_seconds
    return SearchFigures(
        end_to_end_ms=median(times),
        worst_ms=max(times),
        delay_ms=measures.record_delay_ms,
        records_per_s=measures.throughput_per_s,
        announcements_per_s=announcements,
    )


class Summary(NamedTuple):
    """Comparison of a rule with FLIP-183 over scenarios.

    Figures are geometric means of ratios; the throughput is the minimum of its ratios.
    """

    end_to_end: float
    worst: float
    delay: float
    announcements: float
    throughput: float
    not_worse: int
    """Number of scenarios in which no figure of the rule is worse."""

    @property
    def score(self) -> float:
        """Product of the time ratios; lower is better."""
        return self.end_to_end * self.worst * self.delay

    def beats(self, other: Summary) -> bool:
        """Return whether no time and no number of announcements is worse, and at least one is better."""
        return self != other and all(a <= b for a, b in zip(self[:4], other[:4], strict=True))


def middle(runs: Sequence[SearchFigures]) -> SearchFigures:
    """Return the medians over the seeds, and the longest checkpoint of all seeds."""
    values = [median(column) for column in zip(*runs, strict=True)]
    return SearchFigures(*values)._replace(worst_ms=max(one.worst_ms for one in runs))


def ratios(mine: SearchFigures, flink: SearchFigures) -> tuple[list[float], bool]:
    """Return the ratios of times, announcements and throughput, and whether any of them counts as worse."""
    times = [
        (mine.end_to_end_ms, flink.end_to_end_ms),
        (mine.worst_ms, flink.worst_ms),
        (mine.delay_ms, flink.delay_ms),
    ]
    allowed = flink.announcements_per_s * (1 + ANNOUNCEMENTS_SHARE) + ANNOUNCEMENTS_PER_S
    throughput = mine.records_per_s / flink.records_per_s
    worse = (
        any(own > its * (1 + SHARE) + LEAST_MS for own, its in times)
        or throughput < LEAST_THROUGHPUT
        or mine.announcements_per_s > allowed
    )
    announced, its_announced = (one.announcements_per_s + ANNOUNCEMENTS_PER_S for one in (mine, flink))
    of_times = [(own + 1) / (its + 1) for own, its in times]
    return [*of_times, announced / its_announced, throughput], worse


def summaries(
    pool: Executor, rules: Sequence[Rule], scenarios: Sequence[str], seeds: Sequence[int]
) -> dict[Rule, Summary]:
    """Run all rules on all scenarios and compare them with FLIP-183."""
    trials = [Trial(name, rule, seed) for rule in rules for name in scenarios for seed in seeds]
    found = dict(zip(trials, pool.map(run, trials), strict=True))

    def over_seeds(scenario: str, rule: Rule) -> SearchFigures:
        return middle([found[Trial(scenario, rule, seed)] for seed in seeds])

    made = {}
    for rule in rules:
        compared = [ratios(over_seeds(name, rule), over_seeds(name, FLINK)) for name in scenarios]
        *columns, throughputs = zip(*(values for values, _ in compared), strict=True)
        end_to_end, worst, delay, announcements = map(geometric_mean, columns)
        not_worse = sum(not is_worse for _, is_worse in compared)
        made[rule] = Summary(end_to_end, worst, delay, announcements, min(throughputs), not_worse)
    return made


def choose(found: dict[Rule, Summary], number: int) -> list[Rule]:
    """Return the known policies, and `number` rules that keep the throughput."""
    fit = {rule: one for rule, one in found.items() if one.throughput >= LEAST_THROUGHPUT}
    new = [rule for rule in fit if rule not in KNOWN.values()]
    best = [rule for rule in new if not any(other.beats(fit[rule]) for other in fit.values())]
    shortest = sorted(best, key=lambda rule: fit[rule].score)
    safest = sorted(new, key=lambda rule: (-fit[rule].not_worse, fit[rule].score))
    return list(dict.fromkeys([*KNOWN.values(), *shortest[: number // 2], *safest[: number - number // 2]]))


def main() -> None:
    """Search, choose rules, and print their comparison with FLIP-183."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("held_back", nargs="*", type=Path, help="more scenario files for step 3")
    parser.add_argument("--chosen", type=int, default=12, help="number of rules to choose (%(default)s)")
    options = parser.parse_args()
    everything = [case.scenario for case in CASES]
    searched = [one.name for one in everything if all(vertex.operator is None for vertex in one.vertices)]
    held_back = [*HELD_BACK, *(str(path.resolve()) for path in options.held_back)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        found = summaries(pool, list(RULES.values()), searched, SEEDS[:1])
        chosen = choose(found, options.chosen)
        for title, names in (
            ("scenarios used for the choice", [one.name for one in everything]),
            ("held-back scenarios, which were not used for the choice", held_back),
        ):
            rows = summaries(pool, chosen, names, SEEDS)
            print(f"\nThe {len(names)} {title}; ratios to FLIP-183:\n")
            print(HEAD)
            for rule, one in sorted(rows.items(), key=lambda row: (-row[1].not_worse, row[1].score)):
                known = [f"**{name}**" for name, same in KNOWN.items() if same == rule]
                times = " | ".join(f"{ratio:.2f}" for ratio in one[:3])
                rest = f"{one.throughput:.1%} | {one.announcements:.2f} | {one.not_worse} of {len(names)}"
                print(f"| {known[0] if known else f'`{rule.name}`'} | {times} | {rest} |", flush=True)


if __name__ == "__main__":
    from . import policy_search  # scenarios find the policies of rules under this name, not in __main__

    policy_search.main()
