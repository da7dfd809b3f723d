"""Inputs and outputs of Flink's own unit tests: the files of ``tests/data/vectors``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data" / "vectors"


def flink_vectors(*files: str) -> dict[str, dict[str, Any]]:
    """Return the scenarios of some files, by their id."""
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        document = json.loads((FOLDER / f"{file}.json").read_text())
        scenarios = {scenario["id"]: scenario for scenario in document["scenarios"]}
        assert len(scenarios) == document["scenario_count"]
        found |= scenarios
    return found
