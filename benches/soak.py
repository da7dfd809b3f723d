"""Emulates a job with failures for a day, and checks memory, files and output; prints a table in Markdown.

Run it with ``python -m benches.soak [--hours 24] [--folder DIR]``. The job counts numbers by key, and a
transactional sink commits them. Debloating is on, and unaligned checkpoints every 5 s are stored on disk. The
job restarts every 20 minutes, because a subtask is killed, a task manager is lost, or a link is cut for
longer than the heartbeat timeout. Each debloating policy runs for a part of the day, in the same process and
with the same directory. It continues from the last checkpoint of the policy before it.

Each emulated hour gives a row with the resident memory of the process and the number of files in the
directory. During the first hours of a run, the tables of its recorder (`netstack.results.recorder`) grow to
16 MiB each; they are freed at the end of the run. So memory is compared at the ends of the policies' runs,
from the second policy on. Memory may grow by 1 MiB per hour at most. No file may be left over, and each
number of each source must be committed once, in order within each key. Otherwise the program ends with status
1.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from flowcontrol import POLICIES
from integration.storage import DirectoryStorage, find_checkpoint
from netstack import (
    AtTime,
    ClaimMode,
    CutLink,
    Edge,
    Fault,
    InitialCheckpoint,
    KeyedOperator,
    KeyedStateBackend,
    KillSubtask,
    KillTaskManager,
    NetworkConfig,
    RestartStrategy,
    Result,
    Scenario,
    SourceObject,
    SubtaskName,
    Transaction,
    Vertex,
    emulate,
    transactional_sink,
)

HOUR_S = 3600.0
FAULT_EVERY_S = 1200.0
RETAINED = 3
FLAT_BYTES_AN_HOUR = 1 << 20
SOURCES, KEYS, RATE = 2, 20, 20.0
"""Number of subtasks of the source, keys of each subtask, and records per second of each subtask."""


class Numbers:
    """Endless `Source` of the numbers from 0 on, each with the number of its subtask."""

    parallelism_hint = SOURCES

    def __init__(self, subtask: int = 0) -> None:
        self._subtask = subtask
        self._given = 0

    def open(self, subtask: int, parallelism: int) -> Numbers:
        """Return the reader of a subtask."""
        return Numbers(subtask)

    def read(self, max_records: int) -> RecordBlock:
        """Return the next numbers, as 8 bytes each; the first byte is the number of the subtask."""
        numbers = np.arange(self._given, self._given + max_records, dtype=">i8")
        self._given += max_records
        matrix = numbers.view(np.uint8).reshape(-1, 8).copy()
        matrix[:, 0] = self._subtask
        return RecordBlock.from_matrix(matrix)

    def seek(self, position: int) -> None:
        """Continue after the first `position` numbers."""
        self._given = position

    def close(self) -> None:
        """Do nothing: the reader holds no resources."""

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return the key of each record as its hash code."""
        return np.array([parsed(payload)[1] % KEYS for payload in block.payloads()], dtype=np.int32)


def parsed(record: bytes | memoryview) -> tuple[int, int]:
    """Return the subtask and the number of a record."""
    return record[0], int.from_bytes(record[1:], "big")


class Count(KeyedOperator):
    """Counts records by key, and forwards each record."""

    def declare(self, state: KeyedStateBackend) -> None:
        """Declare the state: one number for each key."""
        self._count = state.value("count", 0)

    def key_of(self, record: bytes) -> object:
        """Return the key of a record, which follows from its number."""
        return parsed(record)[1] % KEYS

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Count the record, and return it unchanged."""
        self._count.update(self._count.get() + 1)
        return (record,)


class Committed:
    """Count of the committed records, and check of their order."""

    def __init__(self) -> None:
        self.records = 0
        self.problems: list[str] = []
        self._transactions: dict[tuple[str, int], int] = {}
        self._last: dict[tuple[int, int], int] = {}

    def commit(self, transaction: Transaction) -> None:
        """Check and count the records of a transaction, once.

        The transactions of a sink are committed in the order of their checkpoints.
        """
        sink = transaction.vertex, transaction.subtask
        if transaction.checkpoint_id <= self._transactions.get(sink, 0):
            return
        self._transactions[sink] = transaction.checkpoint_id
        for record in transaction.records:
            subtask, number = parsed(record)
            key = subtask, number % KEYS
            if number != self._last.get(key, key[1] - KEYS) + KEYS and len(self.problems) < 10:
                self.problems.append(f"{number} of source {subtask} follows {self._last.get(key)}")
            self._last[key] = number
            self.records += 1


def faults(duration_s: float) -> Iterator[Fault]:
    """Yield the faults of a run at regular intervals."""
    kinds = cycle(range(3))
    for number, kind in zip(range(1, int(duration_s / FAULT_EVERY_S)), kinds, strict=False):
        when = AtTime(number * FAULT_EVERY_S + 0.123 * number)
        if kind == 0:
            yield KillSubtask(when=when, subtask=SubtaskName("count", number % 2))
        elif kind == 1:
            yield KillTaskManager(when=when, task_manager="sinks")
        else:
            yield CutLink(when=when, from_task_manager="sources", to_task_manager="counts", for_s=60.0)


def settings(policy: str) -> NetworkConfig:
    """Return the settings of a policy, with checkpoints that may turn unaligned and unlimited restarts."""
    return NetworkConfig(
        checkpoint_interval_s=5.0,
        unaligned_enabled=True,
        aligned_checkpoint_timeout_s=0.2,
        retained_checkpoints=RETAINED,
        debloat_enabled=True,
        debloat_policy=policy,
        state_memory_threshold_bytes=0,
        restart_strategy=RestartStrategy.FIXED_DELAY,
        restart_attempts=10**6,
        restart_delay_s=1.0,
        heartbeat_timeout_s=50.0,
    )


def job(policy: str, duration_s: float, committed: Committed) -> Scenario:
    """Return the job: two sources, two subtasks that count by key, and two sinks."""
    source = SourceObject(source=Numbers(), rates=(RATE,))
    sinks = transactional_sink(committed.commit)
    return Scenario(
        name="soak",
        duration_s=duration_s,
        config=settings(policy),
        vertices=(
            Vertex(name="numbers", parallelism=SOURCES, source=source, task_manager="sources"),
            Vertex(
                name="count",
                parallelism=2,
                operator=lambda subtask: Count(),
                service=((0.0, 0.02),),
                task_manager="counts",
            ),
            Vertex(name="out", parallelism=2, operator=sinks, task_manager="sinks"),
        ),
        edges=(
            Edge(source="numbers", target="count", ship="hash"),
            Edge(source="count", target="out", ship="forward"),
        ),
        faults=tuple(faults(duration_s)),
    )


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes.

    Freed memory that glibc keeps for reuse is first returned to the system.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmRSS:")[1].split()[0]) << 10


class Hours:
    """Prints a row for each emulated hour of a policy, and keeps the resident memory at each hour."""

    def __init__(self, policy: str, begins_at_h: float, folder: Path, committed: Committed) -> None:
        self.resident: list[int] = []
        self._policy, self._begins_at_h = policy, begins_at_h
        self._folder, self._committed = folder, committed

    def __call__(self, now: float) -> None:
        """Print a row if another emulated hour has passed; `now` is the emulated time in seconds."""
        if now < (len(self.resident) + 1) * HOUR_S:
            return
        self.resident.append(resident_bytes())
        files = sum(path.is_file() for path in self._folder.rglob("*"))
        row(
            f"{self._begins_at_h + now / HOUR_S:.0f}",
            self._policy,
            f"{self.resident[-1] / (1 << 20):.1f}",
            str(files),
            f"{self._committed.records:,}",
        )


def row(*cells: str) -> None:
    """Print a row of a table."""
    print("|", " | ".join(cells), "|", flush=True)


def growth(resident: Sequence[Sequence[int]], hours_each: float) -> float | None:
    """Return the growth of memory in bytes per hour; None: there are fewer than three policies.

    It is measured between the ends of the runs of the second and the last policy. `resident` has the memory
    of each policy at each of its hours.
    """
    at_ends = [of_policy[-1] for of_policy in resident[1:] if of_policy]
    if len(at_ends) < 2:
        return None
    return (at_ends[-1] - at_ends[0]) / ((len(at_ends) - 1) * hours_each)


def problems_of(result: Result, wanted_restarts: int) -> Iterator[str]:
    """Yield the problems in the run of a policy."""
    if result.failure is not None:
        yield result.failure
    if len(result.restarts) != wanted_restarts:
        yield f"{len(result.restarts)} restarts, but there were {wanted_restarts} faults"


def soak(hours_each: float, names: Sequence[str], folder: Path) -> list[str]:
    """Run all policies, and return the problems."""
    storage, committed, problems = DirectoryStorage(folder), Committed(), list[str]()
    resident: list[list[int]] = []
    row("hour", "policy", "resident, MiB", "files", "records committed")
    row(*["---:", "---", *["---:"] * 3])
    for number, policy in enumerate(names):
        scenario = job(policy, hours_each * HOUR_S, committed)
        hours = Hours(policy, number * hours_each, folder, committed)
        begin = claimed(storage, folder) if number else None
        result = emulate(scenario, storage=storage, from_checkpoint=begin, progress=hours)
        of_run = problems_of(result, len(scenario.faults))
        problems += [f"{policy}: {problem}" for problem in of_run]
        resident.append(hours.resident)
        del result  # free its memory before the next run
    if (grown := growth(resident, hours_each)) is not None:
        print(f"\nmemory grows by {grown / (1 << 20):.2f} MiB per hour")
        if grown > FLAT_BYTES_AN_HOUR:
            problems.append("memory grows by more than 1 MiB per hour")
    return problems + committed.problems + left_over(storage)


def claimed(storage: DirectoryStorage, folder: Path) -> InitialCheckpoint:
    """Return the last checkpoint, which the next policy claims, and delete older checkpoints."""
    begin = find_checkpoint(folder)
    for older in storage.checkpoints()[:-1]:
        storage.discard(older)
    return begin._replace(claim_mode=ClaimMode.CLAIM, in_place=True)


def left_over(storage: DirectoryStorage) -> list[str]:
    """Return the files that belong to no retained checkpoint."""
    complete = storage.checkpoints()
    problems = [] if len(complete) <= RETAINED else [f"{len(complete)} checkpoints are stored"]
    problems += [
        f"checkpoint {number} is not complete" for number in storage.present() if number not in complete
    ]
    needed = {path for number in complete for path in storage.load(number).files}
    return problems + [f"{path} is left over" for path in storage.shared_files() if path not in needed]


def main() -> None:
    """Print the table and the problems."""
    parser = argparse.ArgumentParser(prog="python -m benches.soak", description=__doc__)
    parser.add_argument(
        "--hours", type=float, default=24.0, help="emulated hours of all policies together (%(default)g)"
    )
    parser.add_argument("--folder", type=Path, help="empty folder for checkpoints (default: a temporary one)")
    options = parser.parse_args()
    names = list(POLICIES)
    started = perf_counter()
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        problems = soak(options.hours / len(names), names, options.folder or Path(temporary))
    print(f"\n{options.hours:g} h of emulated time in {perf_counter() - started:.0f} s")
    for problem in problems:
        print(f"WRONG: {problem}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
