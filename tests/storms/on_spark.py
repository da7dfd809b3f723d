"""Storms over several processes inside Spark tasks, in real time, as ``netstack run --on-spark`` runs jobs.

A case is that of a storm over TCP, with at most one task manager for each slot. Each task manager is a
process, and some cases kill one with SIGKILL: Spark then fails the whole attempt, and the next one
continues from the last checkpoint. Sinks commit to a folder, one file for each transaction, as they are in
other processes.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from integration.spark.failure_causes import WORKER_DIED
from integration.spark.job_on_spark import BarrierStage, require_slots
from integration.spark.workers import send_packages
from integration.storage.directory import DirectoryStorage
from netstack import (
    Assignment,
    JobFailedError,
    KillTaskManager,
    Report,
    Transaction,
    run_distributed,
    task_managers,
)

from .case import StormCase, StormVertex, Work
from .one_storm import Outcome, not_run, with_possible_faults
from .output_rules import CommitLog
from .over_tcp import LATEST_FAULT_S, case_over_tcp, outcome_of, problems_of
from .scenario import scenario_of
from .storage import StateWitness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRANSACTION, _CHANGED, _PROCESS = "transaction", "changed", "process"


class CommitFolder:
    """A folder of transactions, which goes along with the operators of a job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[Callable[[Path], CommitFolder], tuple[Path]]:
        """Be noted as what has come to another process."""
        return _come_to_a_process, (self._folder,)

    def commit(self, transaction: Transaction) -> None:
        """Make a transaction visible, once; if it comes again with other records, that is noted."""
        content = msgspec.msgpack.encode(transaction)
        path = self._folder / f"{_TRANSACTION} {'-'.join(map(str, transaction[:3]))}"
        written = _write_new(self._folder, content)
        try:
            with suppress(FileExistsError):
                os.link(written, path)  # whole, or not at all
                return
            if path.read_bytes() != content:
                os.link(written, self._folder / f"{_CHANGED} {written.name}")
        finally:
            written.unlink()

    def log(self) -> CommitLog:
        """All that was committed."""
        log = CommitLog()
        for kind in (_TRANSACTION, _CHANGED):  # what has changed comes second
            for path in sorted(self._folder.glob(f"{kind} *")):
                log.commit(msgspec.msgpack.decode(path.read_bytes(), type=Transaction))
        return log

    def processes(self) -> list[int]:
        """The processes that it has come to, in the order in which it did."""
        notes = self._folder.glob(f"{_PROCESS} *")
        return [int(note.name.split()[1]) for note in sorted(notes, key=lambda note: note.stat().st_mtime_ns)]

    def note_process(self) -> None:
        """Note that it has come to this process."""
        (self._folder / f"{_PROCESS} {os.getpid()}").touch()


def _come_to_a_process(folder: Path) -> CommitFolder:
    commits = CommitFolder(folder)
    commits.note_process()
    return commits


def _write_new(folder: Path, content: bytes) -> Path:
    handle, name = tempfile.mkstemp(prefix="new-", dir=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return Path(name)


SLOTS = 4
"""Most task managers of a case."""

MASTER = f"local[{SLOTS}]"

_STRUCK = 0.4
"""Share of the cases in which a process is ended from outside."""

_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """That a process of a job is ended: which of those that were there first, and how long after all were."""

    process: int
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCase:
    """The case of a seed as it can be run on Spark."""

    case: StormCase
    strike: Strike | None

    def lines(self) -> Iterator[str]:
        """The case as text."""
        yield from self.case.lines()
        if self.strike is not None:
            yield f"  process {self.strike.process} is ended after {self.strike.after_s:.4f} s"


def case_on_spark(seed: int) -> SparkCase:
    """Return the case of a seed as it can be run in so many slots, over two processes at least."""
    case = case_over_tcp(seed)
    names = list(dict.fromkeys(vertex.managers[0] for vertex in case.vertices))
    places = {name: f"tm{1 + number % SLOTS}" for number, name in enumerate(names)}
    vertices = tuple(replace(each, task_manager=places[each.managers[0]]) for each in case.vertices)
    if len(names) == 1:
        vertices = tuple(_elsewhere(each) if each.work is Work.SINK else each for each in vertices)
    faults = tuple(
        replace(fault, task_manager=places.get(fault.task_manager, fault.task_manager))
        if isinstance(fault, KillTaskManager)
        else fault
        for fault in case.faults
    )
    chance = random.Random(f"{seed} on Spark")
    strike = None
    if chance.random() < _STRUCK:
        processes = len({vertex.task_manager for vertex in vertices})
        strike = Strike(process=chance.randrange(processes), after_s=chance.uniform(0.0, LATEST_FAULT_S))
    return SparkCase(case=replace(case, vertices=vertices, faults=faults), strike=strike)


def _elsewhere(vertex: StormVertex) -> StormVertex:
    return replace(vertex, task_manager="tm2")


def run_on_spark(seed: int, session: SparkSession) -> Outcome:
    """Run the storm of a seed in the tasks of a session, and check it; what that raises is a problem.

    `session` is one of this machine, with `SLOTS` slots.
    """
    try:
        return run_case_on_spark(case_on_spark(seed), session)
    except Exception as error:
        return not_run(seed, f"{type(error).__name__}: {error}")


def run_case_on_spark(spark_case: SparkCase, session: SparkSession) -> Outcome:
    """Run a case in the tasks of a session, and check it.

    Raises:
        ScenarioError, SourceError: it cannot be run there.
    """
    from pyspark import SparkFiles

    started, case, reports = perf_counter(), spark_case.case, list[Report]()
    # In a directory that Spark deletes when it stops: a task that is cancelled may write there once more.
    with tempfile.TemporaryDirectory(
        prefix="netstack-storm-", dir=SparkFiles.getRootDirectory(), ignore_cleanup_errors=True
    ) as root:
        folders = [Path(root, name) for name in ("checkpoints", "commits", "sources")]
        for folder in folders:
            folder.mkdir()
        storage, commits = DirectoryStorage(folders[0]), CommitFolder(folders[1])
        witness = StateWitness(_no_time, storage, None)
        scenario = with_possible_faults(scenario_of(case, commits.commit, witness, folders[2]))
        require_slots(session, len(task_managers(scenario)))
        send_packages(session)
        with closing(BarrierStage(session, scenario, {}, str(folders[0]))) as stage:

            def launch(assignment: Assignment) -> list[Report]:
                new = stage.launch(assignment)
                reports.extend(new)
                return new

            with _striking(spark_case.strike, commits, len(task_managers(scenario))) as struck:
                try:
                    result = run_distributed(scenario, launch, storage)
                except JobFailedError as error:
                    result = error.result
        log = commits.log()
        explained = [WORKER_DIED] if struck.is_set() else []
        problems = list(problems_of(case, log, result, storage, reports, explained=explained))
    outcome = outcome_of(case, log, result, tuple(problems), perf_counter() - started)
    return replace(outcome, fired=(*outcome.fired, *(["a process is ended"] if struck.is_set() else [])))


def _no_time() -> float:
    """What goes by the clock of a run it does not do."""
    return 0.0


@contextmanager
def _striking(strike: Strike | None, commits: CommitFolder, processes: int) -> Iterator[threading.Event]:
    """End one of the processes that `commits` come to meanwhile; the event is set once that is done."""
    struck, over = threading.Event(), threading.Event()

    def run(strike: Strike) -> None:
        while len(there := commits.processes()) < processes:
            if over.wait(_POLL_S):
                return
        if over.wait(strike.after_s):
            return
        with suppress(ProcessLookupError):
            os.kill(there[strike.process], signal.SIGKILL)
            struck.set()

    thread = None if strike is None else threading.Thread(target=run, args=(strike,), name="netstack-strike")
    if thread is not None:
        thread.start()
    try:
        yield struck
    finally:
        over.set()
        if thread is not None:
            thread.join()
