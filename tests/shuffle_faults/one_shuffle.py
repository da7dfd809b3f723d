"""One shuffle of a case: run, checked with the causes that explain a failure, and what it leaves behind."""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from integration.spark import failure_cause, shuffle

from .case import LIMIT_S, SILENCE_S, Case, Fault, Moment, problem_with, schema_of
from .processes import STOPPED, connections, open_files, process
from .troubles import Troubles, announcing, making, slow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DIED = "Python worker exited unexpectedly"
_EXECUTOR_LOST = (
    "ExecutorLostFailure|Executor heartbeat timed out|[Cc]ommand exited with code 137"
    "|lost, for example with an executor"
)
_FULL = "Spark cannot store the data between two stages in .*: File too large"


def has_to_be_right(case: Case) -> bool:
    """Tell whether a shuffle has no reason to fail: nothing is lost, and nobody silent for too long."""
    if case.fault is Fault.PAUSED_WORKER:
        return case.of_input or case.pause_s < SILENCE_S
    return case.fault in (Fault.NONE, Fault.SLOW_READER, Fault.STRANGERS)


def problem_with_failure(case: Case, said: str, tasks: set[int], after_s: float | None) -> str:
    """Say what is wrong with a failure; empty: it is as it should be.

    Args:
        case: The case.
        said: What the user sees.
        tasks: Those whose workers were struck.
        after_s: Seconds since the fault; None: there has been none.
    """
    if has_to_be_right(case):
        return f"failed for no reason: {said}"
    if after_s is None:
        return f"failed before the fault: {said}"
    if not any(re.search(cause, said) for cause in _causes(case, tasks)):
        return f"names another cause: {said}"
    return f"failed after {after_s:.1f} s: {said}" if after_s > LIMIT_S else ""


def _causes(case: Case, tasks: set[int]) -> Iterator[str]:
    """Patterns of what may be said: what has happened itself, or to whom, as the peers have seen it."""
    whom = f"task ({'|'.join(map(str, sorted(tasks)))})"
    lost = rf"{whom} at \S+: the connection (ended|broke)"
    if case.fault is Fault.FULL_DISK:
        yield _FULL
    elif case.fault is Fault.KILLED_WORKER:
        yield _DIED
        if not case.of_input:
            yield lost
    elif case.fault in (Fault.STOPPED_WORKER, Fault.PAUSED_WORKER):
        yield rf"{whom} at \S+: no message arrived for {SILENCE_S:g} s"
        if case.moment is Moment.MEETING:
            yield rf" before {whom} had arrived"
    else:
        yield _EXECUTOR_LOST
        if case.fault is Fault.KILLED_EXECUTOR:
            yield lost


HANG_S = 60.0
"""What takes longer has no end."""

_CLEAN_S = 15.0
_MOST_TRACE = 8000
_POLL_S, _COLLECT_S = 0.05, 0.3
_OF_BLOCKS = ("shuffle_*", "temp_shuffle_*")
RIGHT, FAILED, WRONG = "right", "failed", "wrong"


class Outcome(msgspec.Struct, frozen=True):
    """What became of a case; times in seconds."""

    seed: int
    fault: str
    verdict: str
    """`RIGHT`; `FAILED` with its cause, in time; or `WRONG`."""
    said: str
    """What is wrong, or the cause."""
    struck: bool
    """Whether the fault came before all was over."""
    after_s: float | None
    """From the fault to the failure."""
    seconds: float
    came: int = 0
    """Strangers that came."""
    whole: bool = True
    """Whether the session can be used again."""
    trace: str = ""
    """All that Spark says of a failure that is wrong."""


def run_case(session: SparkSession, case: Case) -> Outcome:
    """Run the shuffle of a case, and say what became of it.

    The session has `SLOTS` free slots, and executors if the case wants them. Nothing else runs on it.
    """
    java = session._jvm.ProcessHandle.current().pid()  # type: ignore[union-attr]
    watch = _Watch(session, case)
    folder = Path(tempfile.mkdtemp(prefix="case-"))
    started = monotonic()
    by_spark = _places_by_spark(session, case, folder) if case.partitioner == "spark" else None
    troubles = Troubles(case, folder, java)
    with troubles:
        table, error = _Attempt(session, case, folder).wait()
        ended = monotonic()
    after_s = None if troubles.struck_at is None or table is not None else ended - troubles.struck_at
    shutil.rmtree(folder, ignore_errors=True)
    if table is not None:
        verdict, said = RIGHT, ""
        problem, trace = problem_with(case, table, by_spark), ""
    elif error is not None:
        verdict, said = FAILED, failure_cause(error, session)
        problem, trace = problem_with_failure(case, said, troubles.struck_tasks, after_s), str(error)
    else:
        verdict, said, trace, problem = WRONG, "", "", f"has had not ended within {HANG_S:g} s"
    hangs, error = verdict == WRONG, None
    left = [] if hangs else watch.left(troubles.workers, table is None)
    troubles.recover()
    if problem or left:
        verdict, said = WRONG, problem or f"left behind: {'; '.join(left)}"
    return Outcome(
        case.seed,
        case.fault,
        verdict,
        said,
        troubles.struck_at is not None or case.fault is Fault.SLOW_READER,
        after_s,
        monotonic() - started,
        troubles.came,
        whole=not hangs and not left,
        trace=trace[:_MOST_TRACE] if problem else "",
    )


def _input(session: SparkSession, case: Case, folder: Path) -> DataFrame:
    frame = session.range(case.tasks, numPartitions=case.tasks)
    return frame.mapInArrow(making(case, folder), schema_of(case))


def _places_by_spark(session: SparkSession, case: Case, folder: Path) -> dict[int, int]:
    """Where Spark's own shuffle puts each row, of an input that nobody holds up."""
    from pyspark.sql import functions as sf

    frame = (
        _input(session, replace(case, fault=Fault.NONE), folder)
        .select("id", "key")
        .repartition(case.partitions, "key")
    )
    table = frame.select("id", sf.spark_partition_id().alias("place")).toArrow()
    for file in folder.iterdir():
        file.unlink()
    return dict(zip(table["id"].to_pylist(), table["place"].to_pylist(), strict=True))


class _Attempt:
    """The action on the shuffled rows, in a thread of its own, so that one that hangs can be left."""

    def __init__(self, session: SparkSession, case: Case, folder: Path) -> None:
        self._session, self._case, self._folder = session, case, folder
        self._table: pa.Table | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> tuple[pa.Table | None, BaseException | None]:
        """Return the rows, or why there are none; neither if it hangs."""
        self._thread.join(HANG_S)
        if self._thread.is_alive():
            self._session.sparkContext.cancelAllJobs()
            return None, None
        return self._table, self._error

    def _run(self) -> None:
        try:
            self._table = _shuffled(self._session, self._case, self._folder).toArrow()
        except BaseException as error:
            self._error = error


def _shuffled(session: SparkSession, case: Case, folder: Path) -> DataFrame:
    from pyspark.sql import functions as sf

    how: dict[str, Any] = {"ship": case.ship, "partitioner": case.partitioner, "bounds": case.bounds}
    if case.several:
        how["max_memory"] = "1 mb"
    keys = ["key"] if case.ship in ("hash", "range") else []
    shuffled = shuffle(
        _input(session, case, folder),
        *keys,
        num_partitions=case.partitions,
        config=announcing(case, folder),
        compression=case.compression,  # type: ignore[arg-type]
        **how,
    )
    if case.fault is Fault.SLOW_READER:
        shuffled = shuffled.mapInArrow(slow(case), shuffled.schema)
    placed = shuffled.select("*", sf.spark_partition_id().alias("place"))
    return placed.repartition(2) if case.stage_behind else placed


class _Watch:
    """What there was before a case, so that what it leaves can be told."""

    def __init__(self, session: SparkSession, case: Case) -> None:
        self._session, self._case = session, case
        self._temporary = set(os.listdir(tempfile.gettempdir()))
        self._blocks = self._blocks_now()

    def left(self, workers: set[int], failed: bool) -> list[str]:
        """Say what is left of a case that has ended, once it had time to go."""
        ends_at = monotonic() + _CLEAN_S
        while (left := self._left_now(workers, failed)) and monotonic() < ends_at:
            if set(left) & self._blocks_left():  # kept for frames that nobody has any more
                gc.collect()
                self._session._jvm.System.gc()  # type: ignore[union-attr]
                sleep(_COLLECT_S)
            sleep(_POLL_S)
        return left

    def _left_now(self, workers: set[int], failed: bool) -> list[str]:
        files = set(os.listdir(tempfile.gettempdir())) - self._temporary
        left = [f"{name} among temporary files" for name in sorted(files)]
        left += sorted(self._blocks_left())
        return left + [text for pid in sorted(workers) for text in self._left_of(pid, failed)]

    def _blocks_left(self) -> set[str]:
        return {f"a file of blocks, {path.name}" for path in self._blocks_now() - self._blocks}

    def _left_of(self, pid: int, failed: bool) -> Iterator[str]:
        """A worker that has not ended waits for its next task, with no more than its connection to Spark."""
        found = process(pid)
        if found is None:
            return
        if found.state == STOPPED:
            if failed:  # else it had done its work before
                yield f"worker {pid} is stopped"
            return
        files = set(open_files(pid))
        sockets = sum(file.startswith("socket:") for file in files)
        if sockets > 1 or any("eventpoll" in file for file in files):
            threads = len(os.listdir(f"/proc/{pid}/task"))
            yield f"worker {pid} has {sockets} sockets open, {threads} threads: {', '.join(connections(pid))}"

    def _blocks_now(self) -> set[Path]:
        if self._case.executors:  # one that is killed leaves its files to the end of the session
            return set()
        folder = Path(self._session.conf.get("spark.local.dir", None) or tempfile.gettempdir())
        return {path for pattern in _OF_BLOCKS for path in folder.glob(f"*/*/{pattern}")}
