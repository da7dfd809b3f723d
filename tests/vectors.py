"""The vectors: inputs and expected outputs of Flink's own unit tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "data" / "vectors"


def scenarios(name: str) -> dict[str, dict[str, Any]]:
    """Return the scenarios of a file of vectors, by their ids."""
    document = json.loads((VECTORS / f"{name}.json").read_text())
    assert len(document["scenarios"]) == document["scenario_count"]
    return {scenario["id"]: scenario for scenario in document["scenarios"]}
