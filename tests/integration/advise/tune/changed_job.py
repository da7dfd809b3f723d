"""A recorded job before and after a change, and the package of the change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from integration.advise.diagnose.flink_job import NOT_JUDGED
from integration.advise.tune.change_package import ChangePackage, package_of
from integration.flink import Imported, import_scenario
from tests.integration.advise.tune.made_up import measures, recommendation
from tests.integration.flink.flink_cluster import NAMES, ReplayedCluster, Unserved, recording

ENABLED = "taskmanager.network.memory.buffer-debloat.enabled"
TARGET = "taskmanager.network.memory.buffer-debloat.target"

RATE = 398.3
"""Records per second that the recorded job reads."""

PROMISED_MS = 350.0


def cluster(
    options: dict[str, str | None],
    *,
    durations_ms: float | None = None,
    failed: int = 0,
    name: str = NAMES[0],
) -> ReplayedCluster:
    """The recorded cluster with other options, checkpoint times, and failed ones among the last ten."""
    made = ReplayedCluster(recording(name))
    path = "/jobmanager/config"
    kept = [entry for entry in made.answers[path] if entry["key"] not in options]
    given = [{"key": key, "value": value} for key, value in options.items() if value is not None]
    made.answers[path] = kept + given
    history = made.answers[f"/jobs/{made.job}/checkpoints"]["history"]
    for entry in history:
        if durations_ms is not None:
            entry["end_to_end_duration"] = durations_ms
    for entry in sorted(history, key=lambda entry: entry["id"])[len(history) - failed :]:
        entry["status"] = "FAILED"
    return made


def read(made: ReplayedCluster) -> Imported:
    """The job of a cluster."""
    return import_scenario(Unserved(made), overrides=NOT_JUDGED, watch_s=7.5)


BEFORE: dict[str, str | None] = {ENABLED: "false", TARGET: None}
AFTER: dict[str, str | None] = {ENABLED: "true", TARGET: "300 ms"}


def figures(name: str, seed: int) -> Any:
    """Made-up figures: the target of 300 ms is the only one that gains."""
    times = {"now": 6000.0, "target 300 ms": PROMISED_MS}
    rate = 398.0 if name == "target 300 ms" else 400.0
    return measures(times.get(name, 6000.0) + seed, rate)


def package(imported: Imported | None = None, **limits: float) -> ChangePackage:
    """The package of the change of the recorded job."""
    before = read(cluster(BEFORE)) if imported is None else imported
    found = package_of(recommendation(figures, before.scenario, **limits), ["stage1"], before)
    assert found is not None
    return found


def write_change(package_file: Path, recording_file: Path, made: ReplayedCluster | None = None) -> None:
    """Write the package, and a recording of the job after the change, by default of a kept promise."""
    package_file.write_bytes(msgspec.json.encode(package()))
    after = cluster(AFTER, durations_ms=350.0) if made is None else made
    document = {"job": after.job, "metrics_every_s": 1.5, "answers": after.answers}
    recording_file.write_text(json.dumps(document), "utf-8")
