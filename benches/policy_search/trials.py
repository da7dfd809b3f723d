"""One rule on one scenario, in a worker of Spark's, and the figures by which rules are compared."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import median
from typing import NamedTuple

import msgspec

from integration import load_scenario
from integration.spark import measure
from netstack import Scenario, emulate

from ..policy_scenarios import CASES
from .rule_policy import Announced, RulePolicy
from .rules import Rule

MODULE = RulePolicy.__module__


class Trial(NamedTuple):
    """What is to be run: a scenario of `policy_scenarios` by its name, or a file of one."""

    scenario: str
    rule: Rule
    seed: int

    @property
    def key(self) -> str:
        """What tells it from others in a log."""
        return f"{self.scenario} {self.rule.name} {self.seed}"


class Figures(msgspec.Struct, frozen=True):
    """What a trial comes to, behind the warm-up."""

    end_to_end_ms: float
    """Of checkpoints, median."""
    worst_ms: float
    """The longest checkpoint."""
    delay_ms: float
    """Of records from a source to the last vertex, median over samples."""
    records_per_s: float
    """Into the last vertices."""
    announcements_per_s: float
    """Sizes that were announced to channels, from the beginning on."""


def run(trial: Trial) -> Figures:
    """Emulate it.

    Raises:
        ScenarioError: there is no such scenario, or it makes no sense.
        ValueError: no checkpoint was completed behind the warm-up, or no record came through.
    """
    scenario = scenario_of(trial.scenario)
    config = replace(scenario.config, debloat_policy=f"{MODULE}:{trial.rule.name}")
    Announced.total = 0
    result = emulate(replace(scenario, config=config), seed=trial.seed)
    times = [one.duration_ms for one in result.checkpoints if one.t >= scenario.warmup_s and one.duration_ms]
    measures = measure(result)
    if not times or measures.record_delay_ms is None or measures.throughput_per_s is None:
        raise ValueError(f"{trial.key}: nothing to measure behind the warm-up of {scenario.warmup_s:g} s")
    return Figures(
        median(times),
        max(times),
        measures.record_delay_ms,
        measures.throughput_per_s,
        Announced.total / result.emulated_seconds,
    )


@cache
def scenario_of(name: str) -> Scenario:
    """Return the scenario of a trial."""
    for case in CASES:
        if case.scenario.name == name:
            return case.scenario
    return load_scenario(name)
