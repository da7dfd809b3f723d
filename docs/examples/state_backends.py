"""Cost of checkpoints of one job over an hour, by how its state is stored: for docs/CHECKPOINTS.md.

``python docs/examples/state_backends.py docs/images`` writes the picture there and prints the table. It takes
a few minutes, and RocksDB: ``pip install 'netstack[rocksdb]'``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import altair as alt
from msgspec import UNSET

from integration.storage import table_stores
from netstack import (
    AtTime,
    ChangelogStorage,
    CheckpointResult,
    Edge,
    GeneratorSpec,
    KeyedOperator,
    Keys,
    KillSubtask,
    MemoryStorage,
    NetworkConfig,
    Result,
    Scenario,
    StateBackendType,
    StoredFile,
    SubtaskName,
    Vertex,
    emulate,
)

HOUR_S = 3600.0
INTERVAL_S = 15.0
COMMAND = "python docs/examples/state_backends.py docs/images"

ROCKSDB = StateBackendType.ROCKSDB
WAYS: dict[str, dict[str, Any]] = {
    "full": {"state_backend": ROCKSDB},
    "incremental": {"state_backend": ROCKSDB, "incremental_checkpoints": True},
    "changelog": {"changelog_enabled": True, "changelog_storage": ChangelogStorage.FILESYSTEM},
}
COLOURS = ("#0072b2", "#e69f00", "#009e73")


class Replace(KeyedOperator):
    """Puts 200 new bytes in place of those of a record's key."""

    def __init__(self, index: int) -> None:
        self._random = random.Random(index)

    def key_of(self, record: bytes | memoryview) -> int:
        """The first eight bytes."""
        return int.from_bytes(record[:8], "big")

    def declare(self, state: Any) -> None:
        """Keep one value for each key."""
        self._value = state.value("value")

    def process_record(self, record: bytes | memoryview) -> Iterable[bytes]:
        """Replace the value; nothing is emitted."""
        self._value.update(self._random.randbytes(200))
        return []


class Counted(MemoryStorage):
    """A storage that counts what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file."""
        self.written += len(data)
        return super().write(checkpoint_id, name, data, shared=shared)


def job(duration_s: float = HOUR_S, **options: Any) -> Scenario:
    """Two subtasks keep 50,000 keys, of which 200 change a second; one of them is killed at the end."""
    generator = GeneratorSpec(record_bytes=221, rates=(100.0,), keys=Keys(number=50_000))
    killed = KillSubtask(when=AtTime(duration_s - 20.0), subtask=SubtaskName("replace", 0))
    return Scenario(
        name="state",
        duration_s=duration_s,
        config=NetworkConfig(checkpoint_interval_s=INTERVAL_S, **options),
        vertices=(
            Vertex(name="source", parallelism=2, task_manager="tm", source=generator),
            Vertex(name="replace", parallelism=2, task_manager="tm", operator=Replace),
        ),
        edges=(Edge(source="source", target="replace", ship="hash"),),
        faults=(killed,),
    )


def stored(checkpoint: CheckpointResult) -> int:
    """Bytes that were stored for a checkpoint."""
    given = checkpoint.checkpointed_bytes
    return checkpoint.state_bytes if given is UNSET else given


def completed(result: Result) -> list[CheckpointResult]:
    """The checkpoints that completed, but the first."""
    return [each for each in result.checkpoints if each.duration_ms is not None][1:]


def known(checkpoints: list[CheckpointResult]) -> list[float]:
    """Their durations, in ms."""
    return [each.duration_ms for each in checkpoints if each.duration_ms is not None]


def row(way: str, result: Result, storage: Counted) -> str:
    """A line of the table."""
    checkpoints = completed(result)
    sizes, times = [stored(each) / 1e6 for each in checkpoints], known(checkpoints)
    (restart,) = result.restarts
    assert restart.running_at is not None
    assert restart.restarted_at is not None
    restored_ms = 1e3 * (restart.running_at - restart.restarted_at)
    figures = [
        f"{median(sizes):.2f} MB",
        f"{max(sizes):.2f} MB",
        f"{median(times):.0f} ms",
        f"{max(times):.0f} ms",
        f"{storage.written / 1e6:,.0f} MB",
        f"{restored_ms:.0f} ms",
    ]
    return f"| {way} | {' | '.join(figures)} |"


def picture(results: dict[str, Result]) -> alt.VConcatChart:
    """Size and duration of all checkpoints."""
    rows = [
        {"way": way, "t": each.t / 60, "stored": stored(each) / 1e6, "took": each.duration_ms}
        for way, result in results.items()
        for each in completed(result)
    ]
    base = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=1.2, interpolate="step-after")
    colour = alt.Color("way:N", scale=alt.Scale(domain=list(WAYS), range=COLOURS), title=None)
    time = alt.X("t:Q", title="time, minutes", scale=alt.Scale(domain=[0, HOUR_S / 60]))
    panels = [
        base.encode(time, alt.Y(f"{field}:Q", title=title), colour).properties(width=760, height=170)
        for field, title in (("stored", "stored, MB"), ("took", "duration, ms"))
    ]
    title = alt.TitleParams("Checkpoints over an hour, by how state is stored", subtitle=COMMAND)
    return alt.vconcat(*panels).properties(title=title)


def main(folder: Path) -> None:
    """Write the picture and print the table."""
    results = {}
    print("| | stored, median | largest | duration, median | longest | written in all | restored in |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for way, options in WAYS.items():
        storage = Counted()
        scenario = job(**options)
        with table_stores(scenario) as tables:
            results[way] = emulate(scenario, storage=storage, tables=tables)
        print(row(way, results[way], storage), flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    chart = picture(results).configure_view(stroke="#ccc")
    chart = chart.configure_axis(gridColor="#e6e6e6", titleFontWeight="normal")
    chart.properties(padding=14, background="white").save(str(folder / "state-backends.png"), scale_factor=2)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
