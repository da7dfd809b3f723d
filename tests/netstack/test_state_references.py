"""Checkpoints of one keyed job, as a real Flink stored them under each state backend, and as we do.

Two sources of 1,000 records a second, keys drawn from 20,000, and two subtasks that replace the 200 bytes of
a key by others that do not compress; a checkpoint every two seconds. `tests/data/flink-state/` has the size
of each checkpoint, what of it was stored anew, and how long it took.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from msgspec import UNSET

from netstack import (
    CheckpointResult,
    Edge,
    GeneratorSpec,
    KeyedOperator,
    Keys,
    NetworkConfig,
    Scenario,
    Vertex,
    emulate,
    with_options,
)

RECORDINGS = Path(__file__).parents[1] / "data" / "flink-state"
OPERATOR = "20ba6b65f97481d5570070de90e4e791"
"""What Flink calls the operator, by which it tells when its state is first materialised."""

UPDATES_PER_S = 2000
SETTLED = 3
"""The first checkpoints, in which Flink's code is not compiled yet."""


class Replace(KeyedOperator):
    """Puts 200 new bytes in place of those of a record's key."""

    def __init__(self, index: int) -> None:
        self._bytes = random.Random(index)

    def key_of(self, record: bytes | memoryview) -> int:
        return int.from_bytes(record[:8], "big")

    def declare(self, state: Any) -> None:
        self._value = state.value("value")

    def process_record(self, record: bytes | memoryview) -> Iterable[bytes]:
        self._value.update(self._bytes.randbytes(200))
        return []


@dataclass(frozen=True)
class Case:
    """A backend, and when in its recording the first checkpoint was: by the changes that it has."""

    first_s: float
    options: dict[str, Any]


CASES = {
    "hashmap": Case(1.274, {}),
    "changelog": Case(1.721, {"changelog_enabled": True, "materialize_interval_s": 20.0}),
}


def recorded(name: str) -> list[dict[str, Any]]:
    checkpoints: list[dict[str, Any]] = json.loads((RECORDINGS / f"{name}.json").read_text())["checkpoints"]
    return checkpoints


def job(name: str, seed: int) -> Scenario:
    case, theirs = CASES[name], recorded(name)
    times = tuple(case.first_s + each["t"] - theirs[0]["t"] for each in theirs)
    generator = GeneratorSpec(record_bytes=221, rates=(UPDATES_PER_S / 2,), keys=Keys(number=20_000))
    return Scenario(
        name=name,
        seed=seed,
        duration_s=times[-1] + 1.0,
        config=with_options(NetworkConfig(), case.options),
        manual_checkpoints_s=times,
        vertices=(
            Vertex(name="source", parallelism=2, task_manager="tm", source=generator),
            Vertex(name=OPERATOR, parallelism=2, task_manager="tm", operator=Replace),
        ),
        edges=(Edge(source="source", target=OPERATOR, ship="hash"),),
    )


def stored(checkpoint: CheckpointResult) -> int:
    given = checkpoint.checkpointed_bytes
    return checkpoint.state_bytes if given is UNSET else given


def errors(ours: list[CheckpointResult], theirs: list[dict[str, Any]]) -> Iterator[tuple[int, float, float]]:
    """By how much the size of each checkpoint, and what of it was stored, differ from Flink's."""
    for each, flink in zip(ours, theirs, strict=True):
        size = each.state_bytes / flink["state_bytes"] - 1
        yield flink["id"], size, stored(each) / flink["checkpointed_bytes"] - 1


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_checkpoints_have_the_sizes_and_times_that_flinks_have(name: str, seed: int) -> None:
    theirs = recorded(name)
    ours = emulate(job(name, seed)).checkpoints
    off = [each for each in errors(ours, theirs) if each[0] > SETTLED and max(map(abs, each[1:])) > 0.1]
    assert off == []
    took = [each.duration_ms for each in ours[12:] if each.duration_ms is not None]
    assert 0.5 < median(took) / median(each["duration_ms"] for each in theirs[12:]) < 2.0


def test_a_changelog_begins_anew_after_each_materialisation() -> None:
    sizes = [stored(each) for each in emulate(job("changelog", 1)).checkpoints]
    theirs = [each["checkpointed_bytes"] for each in recorded("changelog")]

    def falls(values: list[int]) -> list[int]:
        return [number for number in range(1, len(values)) if values[number] < values[number - 1]]

    assert falls(sizes) == falls(theirs) == [7, 17, 27, 37, 47]
