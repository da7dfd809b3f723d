"""Measures how fast a job writes, stores and restores state larger than memory; prints a table in Markdown.

Run it with ``python -m benches.large_state [--state "10 gb"] [--folder DIR]``. A job of one subtask keeps a
value of 1,000 random bytes for each key, in RocksDB; keys come in random order, each once. It takes an
incremental checkpoint into a directory after each tenth of the keys, and a second job continues from the last
checkpoint. The tables show, for each checkpoint, the real seconds since the previous one, the peak resident
memory so far, and the bytes stored. The yardstick is a copy of a file of 1 GiB on the same disk.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from integration.storage import DirectoryStorage, find_checkpoint, table_stores
from netstack import (
    Edge,
    KeyedOperator,
    KeyedStateBackend,
    NetworkConfig,
    Result,
    Scenario,
    SourceObject,
    StateBackendType,
    Trace,
    Vertex,
    emulate,
    format_size,
    parse_flink_size,
)

VALUE_BYTES = 1000
CHECKPOINTS = 10
RATE = 20_000.0
"""Keys per emulated second."""


class Keys:
    """`Source` that returns each number below `count` once, in pseudo-random order."""

    parallelism_hint = 1

    def __init__(self, count: int) -> None:
        self._count = count
        self._step = next(step for step in range(int(count * 0.618), count) if np.gcd(step, count) == 1)
        self._given = 0

    def open(self, subtask: int, parallelism: int) -> Keys:
        """Return the reader of the only subtask."""
        return Keys(self._count)

    def read(self, max_records: int) -> RecordBlock | None:
        """Return the next numbers, as 8 bytes each."""
        places = np.arange(self._given, min(self._given + max_records, self._count), dtype=np.int64)
        self._given += len(places)
        numbers = (places * self._step % self._count).astype(">i8")
        return RecordBlock.from_matrix(numbers.view(np.uint8).reshape(-1, 8)) if len(places) else None

    def seek(self, position: int) -> None:
        """Continue after the first `position` numbers."""
        self._given = position

    def close(self) -> None:
        """Do nothing: the reader holds no resources."""

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return the numbers as their hash codes."""
        numbers = [int.from_bytes(payload[-4:], "big", signed=True) for payload in block.payloads()]
        return np.array(numbers, dtype=np.int32)


class Fill(KeyedOperator):
    """Operator that stores random bytes for each key."""

    def __init__(self) -> None:
        self._chance = random.Random(1)

    def declare(self, state: KeyedStateBackend) -> None:
        """Declare the state: one value for each key."""
        self._value = state.value("value")

    def key_of(self, record: bytes) -> object:
        """Return the number in the record."""
        return int.from_bytes(record, "big")

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Set the value of the record's key; returns no records."""
        self._value.update(self._chance.randbytes(VALUE_BYTES))
        return ()


def job(state_bytes: int) -> Scenario:
    """Return a job that has processed all keys shortly before its end."""
    count = state_bytes // VALUE_BYTES
    duration_s = count / RATE
    at = tuple(duration_s * part / CHECKPOINTS for part in range(1, CHECKPOINTS + 1))
    return Scenario(
        name="large-state",
        duration_s=duration_s * 1.1 + 1.0,
        config=NetworkConfig(
            state_backend=StateBackendType.ROCKSDB, incremental_checkpoints=True, checkpoint_timeout_s=1e6
        ),
        vertices=(
            Vertex(name="keys", source=SourceObject(source=Keys(count), rates=(RATE,))),
            Vertex(name="fill", operator=lambda subtask: Fill()),
        ),
        edges=(Edge(source="keys", target="fill", ship="hash"),),
        manual_checkpoints_s=at,
    )


class Table:
    """Trace callback that prints a row for each completed checkpoint."""

    def __init__(self) -> None:
        self._begun = perf_counter()
        row("checkpoint at", "s since the previous", "resident GB")
        row(*["---:"] * 3)

    def __call__(self, at: float, place: str, text: str, checkpoint_id: int | None = None) -> None:
        """Process a line of the trace."""
        if place == "coordinator" and "is complete" in text:
            now = perf_counter()
            row(f"{at:.0f} s", f"{now - self._begun:.0f}", f"{resident_gb():.2f}")
            self._begun = now


def row(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def resident_gb() -> float:
    """Return the peak resident memory of this process, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def copied_s(folder: Path) -> float:
    """Return the seconds to copy a file of 1 GiB in `folder`."""
    source = folder / "yardstick"
    with source.open("wb") as file:
        for _ in range(64):
            file.write(random.randbytes(1 << 24))
    begun = perf_counter()
    shutil.copyfile(source, folder / "copy")
    taken = perf_counter() - begun
    source.unlink()
    (folder / "copy").unlink()
    return taken


def run(scenario: Scenario, folder: Path, trace: Trace | None = None) -> Result:
    """Run the job, from its last checkpoint if there is one."""
    checkpoints = folder / "checkpoints"
    begin = find_checkpoint(checkpoints) if checkpoints.exists() else None
    with table_stores(scenario) as tables:
        storage = DirectoryStorage(checkpoints)
        return emulate(scenario, storage=storage, tables=tables, from_checkpoint=begin, trace=trace)


def measure(state_bytes: int, folder: Path) -> None:
    """Write `state_bytes` bytes of state, store them, and restore them."""
    print(f"a copy of 1 GiB: {copied_s(folder):.1f} s\n")
    scenario = job(state_bytes)
    config = replace(scenario.config, rocksdb_localdir=str(folder / "tables"))
    scenario = replace(scenario, config=config)
    result, begun = run(scenario, folder, Table()), perf_counter()
    print()
    row("checkpoint", "stored GB", "state GB", "took, emulated s")
    row(*["---:"] * 4)
    for each in result.checkpoints:
        if each.duration_ms is None:
            continue
        stored = each.checkpointed_bytes or each.state_bytes
        took = each.duration_ms / 1e3
        row(each.id, f"{stored / 1e9:.2f}", f"{each.state_bytes / 1e9:.2f}", f"{took:.1f}")
    run(replace(scenario, duration_s=1.0, manual_checkpoints_s=()), folder)
    print(f"\nrestored in {perf_counter() - begun:.0f} s; peak resident memory {resident_gb():.2f} GB")


def main(arguments: list[str] | None = None) -> int:
    """Measure in a folder that is deleted afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--state", default="10 gb", type=parse_flink_size, help="size of the state (%(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="folder with room for about four times the state")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="netstack-large-", dir=options.folder) as folder:
        print(f"{format_size(options.state)} of state, values of {VALUE_BYTES} bytes\n")
        measure(options.state, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
