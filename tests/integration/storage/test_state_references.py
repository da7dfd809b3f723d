"""Checkpoints of one keyed job, as a real Flink stored them under each state backend, and as we do.

Two sources of 1,000 records a second, keys drawn from 20,000, and two subtasks that replace the 200 bytes of
a key by others that do not compress; a checkpoint every two seconds. `tests/data/flink-state/` has the size
of each checkpoint, what of it was stored anew, and how long it took.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest
from msgspec import UNSET

from integration.runs.emulating import emulate
from netstack import CheckpointResult, Scenario, StateBackendType
from tests.integration.storage.state_job import RECORDINGS, state_job

pytestmark = pytest.mark.long

SETTLED = 3
"""The first checkpoints, in which Flink's code is not compiled yet."""

HASHMAP = {"state_backend": StateBackendType.HASHMAP}
ROCKSDB = {"state_backend": StateBackendType.ROCKSDB}


@dataclass(frozen=True)
class Case:
    """A backend, and when in its recording the first checkpoint was: by the changes that it has."""

    first_s: float
    options: dict[str, Any]
    falls: list[int]
    """The checkpoints that stored less than the one before."""


CASES = {
    "hashmap": Case(1.274, HASHMAP, []),
    "rocksdb_full": Case(1.41, ROCKSDB, list(range(9, 51, 4))),
    "rocksdb_incremental": Case(2.13, ROCKSDB | {"incremental_checkpoints": True}, list(range(6, 51, 4))),
    "changelog": Case(
        1.721,
        {
            "state_backend": StateBackendType.HASHMAP,
            "changelog_enabled": True,
            "materialize_interval_s": 20.0,
        },
        list(range(8, 51, 10)),
    ),
}


def recorded(name: str) -> list[dict[str, Any]]:
    document = json.loads((RECORDINGS / f"state_{name}.json").read_text("utf-8"))
    checkpoints: list[dict[str, Any]] = document["checkpoints"]
    return checkpoints


def job(name: str, seed: int) -> Scenario:
    case, theirs = CASES[name], recorded(name)
    times = [case.first_s + each["t"] - theirs[0]["t"] for each in theirs]
    return state_job(times, seed=seed, **case.options)


def stored(checkpoint: CheckpointResult) -> int:
    given = checkpoint.checkpointed_bytes
    return checkpoint.state_bytes if given is UNSET else given


def errors(ours: list[CheckpointResult], theirs: list[dict[str, Any]]) -> Iterator[tuple[int, float, float]]:
    """By how much the size of each checkpoint, and what of it was stored, differ from Flink's."""
    for each, flink in zip(ours, theirs, strict=True):
        size = each.state_bytes / flink["state_bytes"] - 1
        yield flink["id"], size, stored(each) / flink["checkpointed_bytes"] - 1


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_checkpoints_have_the_sizes_and_times_that_flinks_have(name: str, seed: int) -> None:
    theirs = recorded(name)
    ours = emulate(job(name, seed)).checkpoints
    off = [each for each in errors(ours, theirs) if each[0] > SETTLED and max(map(abs, each[1:])) > 0.1]
    assert off == []
    sizes, flinks = list(map(stored, ours)), [each["checkpointed_bytes"] for each in theirs]
    assert falls(sizes) == falls(flinks) == CASES[name].falls
    took = [each.duration_ms for each in ours[12:] if each.duration_ms is not None]
    assert 0.5 < median(took) / median(each["duration_ms"] for each in theirs[12:]) < 2.0


def falls(values: list[int]) -> list[int]:
    """The checkpoints, numbered from 1, that stored at least a tenth less than the one before."""
    return [number + 1 for number in range(SETTLED, len(values)) if values[number] < 0.9 * values[number - 1]]
