"""Where a real Flink was measured with and without a remedy, the emulation foretells what that changes.

For each pair of measurements the quotient of the two, with the remedy by without it, is compared: ours, the
median over five seeds, with Flink's, the median over its repetitions. Nothing is fitted to them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from integration.analysis.checkpoint_times import CheckpointTimes, mean_times
from integration.analysis.comparison import checkpoints_in, reference_runs, windows
from integration.files.reading import load_scenario
from integration.runs.scenario_runs import run_seeds
from integration.tuning.measures import Measures, measure
from netstack import CheckpointResult, VertexCheckpoint

REFERENCE = Path(__file__).parents[1] / "data" / "flink-reference"
SEEDS = 5
SIZE = 0.20
"""By how much the quotients may differ."""

PAIRS = [
    ("2x2_200KBs_off", "2x2_200KBs_on1s"),
    ("2x2_1MBs_off", "2x2_1MBs_on100ms"),
    ("2x2_200KBs_off", "2x2_200KBs_unaligned"),
    ("2x2_200KBs_off", "2x2_200KBs_timeout500ms"),
    ("2x2_200KBs_off", "2x2_200KBs_off_interval10s"),
]
"""Two runs of one job: what was set, and what was set instead."""


@pytest.fixture(scope="module")
def ours() -> dict[str, list[Measures]]:
    """Our figures of each scenario, by seed."""
    names = sorted({name for pair in PAIRS for name in pair})
    runs = run_seeds([load_scenario(REFERENCE / f"{name}.toml") for name in names], SEEDS)
    return {name: [measure(one) for one in results] for name, results in zip(names, runs, strict=True)}


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=[after for _, after in PAIRS])
def test_the_change_of_end_to_end_time_has_the_right_size(
    before: str, after: str, ours: dict[str, list[Measures]]
) -> None:
    changes = [median(_known(one.end_to_end_ms for one in ours[name])) for name in (before, after)]
    flinks = [median(times.end_to_end_ms for times in _flink(name)) for name in (before, after)]
    assert changes[1] / changes[0] == pytest.approx(flinks[1] / flinks[0], rel=SIZE)


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=[after for _, after in PAIRS])
def test_the_change_of_start_delay_has_the_right_size(
    before: str, after: str, ours: dict[str, list[Measures]]
) -> None:
    changes = [median(_known(one.start_delay_ms for one in ours[name])) for name in (before, after)]
    flinks = [median(_known_delay(times) for times in _flink(name)) for name in (before, after)]
    assert changes[1] / changes[0] == pytest.approx(flinks[1] / flinks[0], rel=SIZE)


def _flink(name: str) -> list[CheckpointTimes]:
    """What Flink's checkpoints took in the last window of each repetition."""
    runs = reference_runs(json.loads((REFERENCE / f"{name}.json").read_text()))
    windowed = [checkpoints_in(run, windows(run)[-1]) for run in runs]
    found = [mean_times(map(_checkpoint, entries)) for entries in windowed]
    return [times for times in found if times is not None]


def _checkpoint(entry: Mapping[str, Any]) -> CheckpointResult:
    vertices = [VertexCheckpoint(name=str(place), **part) for place, part in enumerate(entry["vertices"])]
    return CheckpointResult(
        id=entry["id"],
        t=entry["t"],
        duration_ms=entry["duration_ms"],
        checkpoint_type=entry["type"],
        vertices=vertices,
    )


def _known_delay(times: CheckpointTimes) -> float:
    assert times.start_delay_ms is not None
    return times.start_delay_ms


def _known(values: Any) -> list[float]:
    found = [value for value in values if value is not None]
    assert len(found) == SEEDS
    return found
