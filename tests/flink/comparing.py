"""A scenario in a real Flink and in the emulator, side by side."""

from __future__ import annotations

import dataclasses
from typing import Any

from integration.comparison.with_flink import Comparison
from integration.comparison.with_flink import compare as compare_results
from integration.seed_runs import run_seeds
from netstack import Scenario

SEEDS = 5


def compared(scenario: Scenario, document: dict[str, Any], seeds: int = SEEDS) -> Comparison:
    """Run a scenario, placed as it was in Flink, in the emulator, and compare it with what was measured."""
    named = dataclasses.replace(scenario, name=title(scenario))
    return compare_results(run_seeds([named], seeds)[0], document)


def title(scenario: Scenario) -> str:
    policy = scenario.config.debloat_policy
    return scenario.name if policy == "flink" else f"{scenario.name}, {policy}"
