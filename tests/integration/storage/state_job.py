"""The job whose checkpoints were recorded (tests/data/flink-state/README.md), emulated and looked at."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.runs.emulating import emulate
from netstack import (
    Edge,
    GeneratorSpec,
    KeyedOperator,
    KeyedStateBackend,
    Keys,
    MemoryStorage,
    NetworkConfig,
    Result,
    Scenario,
    StateBackendType,
    StoredFile,
    ValueState,
    Vertex,
    to_json,
)

RECORDINGS = Path(__file__).parents[2] / "data" / "flink-state"


class Replace(KeyedOperator):
    """Puts 200 random bytes for each record in the place of those that its key had."""

    _value: ValueState[bytes]

    def __init__(self, index: int) -> None:
        self._random = random.Random(index)

    def key_of(self, record: bytes) -> int:
        return int.from_bytes(record[:8], "big")

    def declare(self, state: KeyedStateBackend) -> None:
        self._value = state.value("value")

    def process_record(self, record: bytes) -> list[bytes]:
        self._value.update(self._random.randbytes(200))
        return []


@dataclass(frozen=True)
class Sizes:
    """Bytes of a checkpoint: of all its state, and of what was stored for it."""

    state: int
    stored: int


class CountingStorage(MemoryStorage):
    """Counts the files that are written for each checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.written: Counter[int] = Counter()

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        file = super().write(checkpoint_id, name, data, shared=shared)
        self.written[checkpoint_id] += 1
        return file

    def sizes(self) -> list[Sizes]:
        found = []
        for number in self.checkpoints():
            metadata = self.load(number)
            stored = sum(snapshot.checkpointed_bytes for snapshot in metadata.subtasks)
            found.append(Sizes(metadata.size, stored))
        return found


OPERATOR = "20ba6b65f97481d5570070de90e4e791"
"""What Flink calls the operator, by which it tells when its state is first materialised."""


def every_2s(first_s: float, checkpoints: int) -> list[float]:
    """The times of so many checkpoints."""
    return [first_s + 2 * number for number in range(checkpoints)]


def state_job(at: Sequence[float], *, seed: int = 1, **settings: Any) -> Scenario:
    """The job with checkpoints at these times."""
    config: dict[str, Any] = {
        "state_backend": StateBackendType.ROCKSDB,
        "retained_checkpoints": len(at),
        **settings,
    }
    source = GeneratorSpec(record_bytes=221, rates=(1000.0,), keys=Keys(number=20_000))
    return Scenario(
        name="state",
        duration_s=at[-1] + 1,
        seed=seed,
        config=NetworkConfig(**config),
        manual_checkpoints_s=tuple(at),
        vertices=(
            Vertex(name="source", parallelism=2, task_manager="tm", source=source),
            Vertex(name=OPERATOR, parallelism=2, task_manager="tm", operator=Replace),
        ),
        edges=(Edge(source="source", target=OPERATOR, ship="hash"),),
    )


def run(scenario: Scenario) -> tuple[CountingStorage, Result]:
    storage = CountingStorage()
    return storage, emulate(scenario, storage=storage)


def fingerprint(seed: int, incremental: bool) -> str:
    """Return a digest of the result of a short run, without its wall-clock time, and of the stored sizes."""
    storage, result = run(state_job(every_2s(0.5, 6), seed=seed, incremental_checkpoints=incremental))
    document = json.loads(to_json(result)) | {"wall_seconds": 0}
    return f"{storage.sizes()} {hashlib.sha256(json.dumps(document).encode()).hexdigest()}"
