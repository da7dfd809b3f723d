"""Runs of many storms, in this process, in several or on Spark; their log and their summary."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from integration.errors import WorkerError
from integration.held_signals import starting_processes
from integration.seed_runs import worker_pool
from integration.spark.driver import run_cancellable
from integration.spark.failure_causes import one_line
from netstack import ScenarioError

from .draw import draw_case
from .one_storm import Outcome, run_storm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS_A_TASK = 16
"""Storms that another process is sent at once: enough that the way there does not count."""

TASKS_A_SLOT = 8
"""Tasks of a Spark job for each core; the next job begins when all are done."""


def run_storms(seeds: range, *, processes: int | None = None, paranoid: bool = False) -> Iterator[Outcome]:
    """Run the storms of `seeds` in that many processes, by default one for each core.

    `paranoid`: as of `run_storm`.

    Raises:
        WorkerError: a process was ended from outside, as happens when memory is short.
    """
    wanted = min(processes or os.cpu_count() or 1, len(seeds) // SEEDS_A_TASK)
    if wanted < 2:
        yield from (run_storm(seed, paranoid=paranoid) for seed in seeds)
        return
    with worker_pool(wanted) as pool:
        with starting_processes():
            pending: list[Future[list[Outcome]]] = [
                pool.submit(run_each, part, paranoid=paranoid) for part in _parts(seeds, SEEDS_A_TASK)
            ]
        for future in pending:
            yield from future.result()


def run_on_spark(seeds: range, session: SparkSession, *, paranoid: bool = False) -> Iterator[Outcome]:
    """Run the storms of `seeds` in the workers of a Spark session, which can import this package.

    Raises:
        WorkerError: Spark could not run them.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context = session.sparkContext
    tasks, each = context.defaultParallelism * TASKS_A_SLOT, partial(run_each, paranoid=paranoid)
    for wave in _parts(seeds, tasks * SEEDS_A_TASK):
        parts = _parts(wave, SEEDS_A_TASK)

        def run(parts: Sequence[range] = parts) -> list[list[Outcome]]:
            return context.parallelize(parts, len(parts)).map(each).collect()

        try:
            outcomes = run_cancellable(session, run)
        except (Py4JError, PySparkException) as error:
            raise WorkerError(one_line(error)) from error
        for part in outcomes:
            yield from part


def run_each(seeds: range, *, paranoid: bool = False) -> list[Outcome]:
    """Run storms one after the other; what other processes are sent."""
    return [run_storm(seed, paranoid=paranoid) for seed in seeds]


def _parts(seeds: range, size: int) -> list[range]:
    return [seeds[start : start + size] for start in range(0, len(seeds), size)]


SEEDS_A_LINE = 256
"""Maximum number of seeds in a line."""

_DRAWN = 64
"""Number of cases whose contents identify the meaning of seeds."""


class _Head(msgspec.Struct, frozen=True):
    storms: str
    """Equal if the same seeds are the same cases."""


class _Done(msgspec.Struct, frozen=True):
    first: int
    seeds: int
    wrong: dict[int, tuple[str, ...]] = {}


def meaning_of_seeds() -> str:
    """Return a text that is another one when seeds mean other cases."""
    cases = repr([draw_case(seed) for seed in range(_DRAWN)])
    return hashlib.sha256(cases.encode()).hexdigest()[:16]


class StormLog:
    """The storms of a file, which is made if there is none; `wrong` has what failed, by seed.

    Raises:
        ScenarioError: it is no log of storms, or one of others than these; or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.wrong: dict[int, tuple[str, ...]] = {}
        self._path = path
        self._done: list[range] = []
        self._outcomes: list[Outcome] = []
        try:
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
            if not lines:
                self._append(_Head(meaning_of_seeds()))
                return
            if not lines[-1].endswith(b"\n"):
                path.write_bytes(b"".join(lines[:-1]))
                del lines[-1]
            self._read(lines)
        except (OSError, msgspec.DecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no log of storms; name another file"
            raise ScenarioError([f"{path}: {reason}"]) from error

    def _read(self, lines: Sequence[bytes]) -> None:
        head = msgspec.json.decode(lines[0], type=_Head)
        if head.storms != meaning_of_seeds():
            text = "its seeds were other storms than those of this version; name another file"
            raise ScenarioError([f"{self._path}: {text}"])
        for line in lines[1:]:
            done = msgspec.json.decode(line, type=_Done)
            self._done.append(range(done.first, done.first + done.seeds))
            self.wrong.update(done.wrong)

    def left(self, seeds: range) -> list[range]:
        """Return those of some seeds that are not done, in ranges as long as can be."""
        left = [seeds]
        for done in sorted(self._done, key=lambda each: each.start):
            parts = [
                part
                for each in left
                for part in (
                    range(each.start, min(each.stop, done.start)),
                    range(max(each.start, done.stop), each.stop),
                )
            ]
            left = [part for part in parts if part]
        return left

    def wrong_among(self, seeds: range) -> dict[int, tuple[str, ...]]:
        """What has failed before of some seeds."""
        return {seed: self.wrong[seed] for seed in sorted(self.wrong) if seed in seeds}

    def note(self, outcome: Outcome) -> None:
        """Take note of a storm; they come in the order of their seeds, each once.

        Raises:
            OSError: the file cannot be written.
        """
        if self._outcomes and outcome.seed != self._outcomes[-1].seed + 1:
            self.close()
        self._outcomes.append(outcome)
        if len(self._outcomes) == SEEDS_A_LINE:
            self.close()

    def close(self) -> None:
        """Write down what is not written yet."""
        outcomes, self._outcomes = self._outcomes, []
        if outcomes:
            wrong = {each.seed: each.problems for each in outcomes if each.problems}
            self._append(_Done(outcomes[0].seed, len(outcomes), wrong))

    def _append(self, line: _Head | _Done) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")


_ANOTHER_HASH_SEED = "20011"
_PROGRAM = "from tests.storms.many import print_digests; print_digests()"


def print_digests() -> None:
    """Run the storms whose seeds are the arguments, and print what tells their runs apart."""
    for seed in map(int, sys.argv[1:]):
        print(run_storm(seed).digest, flush=True)


def digests_elsewhere(seeds: Sequence[int]) -> list[str]:
    """Return what tells the runs of some storms apart, as another process has it.

    Raises:
        OSError: it cannot be started.
        subprocess.CalledProcessError: it has failed.
    """
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONHASHSEED": _ANOTHER_HASH_SEED, "PYTHONPATH": path}
    command = [sys.executable, "-c", _PROGRAM, *map(str, seeds)]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.split()


def check_elsewhere(digests: dict[int, str]) -> Iterator[tuple[int, str]]:
    """Yield each seed whose run another process does not repeat, with what is to be said of it.

    `digests` are those of the runs here, by seed.
    """
    for (seed, here), there in zip(digests.items(), digests_elsewhere(list(digests)), strict=True):
        if here != there:
            yield seed, "another process gives another result"


class Tally:
    """What many storms come to; `done_before` of them were run before, which `failed` counts too."""

    def __init__(self) -> None:
        self.storms = 0
        self.done_before = 0
        self.failed: list[int] = []
        self._ends: Counter[str] = Counter()
        self._restarts = 0
        self._restored = 0
        self._completed = 0
        self._aborted = 0
        self._faults = 0

    def add(self, outcome: Outcome) -> None:
        """Count one storm."""
        self.storms += 1
        if outcome.problems:
            self.failed.append(outcome.seed)
        completed = outcome.checkpoints["COMPLETED"]
        self._ends[outcome.end] += 1
        self._restarts += outcome.restarts
        self._restored += outcome.restored_bytes > 0
        self._completed += completed
        self._aborted += outcome.checkpoints.total() - completed
        self._faults += len(outcome.fired)

    def failed_before(self, seed: int) -> None:
        """Count a storm that has failed before."""
        self.failed.append(seed)

    def print(self, console: Console) -> None:
        """Print what was run and how many failed."""
        ends = ", ".join(f"{number} {end}" for end, number in sorted(self._ends.items()))
        lines = [
            f"{self.storms} storms: {ends or 'none was left'}",
            f"{self._faults} faults, {self._restarts} restarts; data in flight restored: {self._restored}",
            f"{self._completed} checkpoints completed, {self._aborted} did not",
            f"wrong: {', '.join(map(str, sorted(self.failed))) or 'none'}",
        ]
        if self.done_before:
            lines[0] += f"; {self.done_before} were done before"
        console.print(Text("\n".join(lines)), soft_wrap=True)
