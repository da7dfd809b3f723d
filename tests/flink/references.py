"""Scenarios by name or file, measurements as files beside them, and both compared with the emulator."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from integration import load_scenario, write_whole
from integration.runs.reference_comparison import Comparison
from integration.runs.reference_comparison import compare as compare_results
from integration.runs.seeds import run_seeds
from netstack import Scenario, ScenarioError, preset_for, read_scenario, scenario_document, scenario_toml

from .cluster import RELEASES


def whole(text: str) -> int:
    """Read a number from 1 on.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "tests/data/flink-reference"
OURS = Path(__file__).parent / "scenarios"


def scenario_named(name: str, policy: str | None = None, release: str | None = None) -> Scenario:
    """Return the scenario of a file, or the one of that name in a folder of ours.

    A scenario without a preset gets that of the `release` of Flink that it runs in; None: the default one.

    Raises:
        ScenarioError: there is none, it makes no sense, or its preset is that of another release.
    """
    file = scenario_file(name)
    scenario = load_scenario(file, policy=policy)
    if release is None or RELEASES.get(scenario.preset) == release:
        return scenario
    preset = preset_for(release)
    if "preset" in tomllib.loads(file.read_text("utf-8")):
        own = RELEASES.get(scenario.preset)
        other = f"use --flink {own}" if own else "drop it"
        text = f"preset: is {scenario.preset}, but Flink {release} has the defaults of {preset}; {other}, or"
        raise ScenarioError([f"{file}: {text} change the preset"])
    return read_scenario({**scenario_document(scenario), "preset": preset})


def scenario_file(name: str) -> Path:
    """The file that a scenario's name stands for."""
    if name.endswith(".toml"):
        return Path(name)
    files = [folder / f"{name}.toml" for folder in (OURS, REFERENCES)]
    file = next((file for file in files if file.exists()), None)
    if file is None:
        folders = " or ".join(str(folder.relative_to(ROOT)) for folder in (OURS, REFERENCES))
        raise ScenarioError([f"{name}: is no scenario of {folders}; name one of these, or a file .toml"])
    return file


def write_reference(folder: Path, scenario: Scenario, document: Mapping[str, Any]) -> Path:
    """Write a measurement and its scenario beside it; returns the file of the measurement."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = file_stem(scenario)
    phased = scenario if scenario.phases else dataclasses.replace(scenario, phases=scenario.windows)
    file = folder / f"{stem}.json"
    text = json.dumps(document, separators=(",", ":")) + "\n"
    write_whole({file: text.encode(), folder / f"{stem}.toml": scenario_toml(phased).encode()})
    return file


def file_stem(scenario: Scenario) -> str:
    """The name of a scenario's files: with its policy, where that is not Flink's."""
    policy = scenario.config.debloat_policy
    return scenario.name if policy == "flink" else f"{scenario.name}.{policy}"


SEEDS = 5


def compared(scenario: Scenario, document: dict[str, Any], seeds: int = SEEDS) -> Comparison:
    """Run a scenario, placed as it was in Flink, in the emulator, and compare it with what was measured."""
    named = dataclasses.replace(scenario, name=title(scenario))
    return compare_results(run_seeds([named], seeds)[0], document)


def title(scenario: Scenario) -> str:
    policy = scenario.config.debloat_policy
    return scenario.name if policy == "flink" else f"{scenario.name}, {policy}"
