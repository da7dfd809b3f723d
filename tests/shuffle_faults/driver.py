"""The process that has Spark: runs case after case, and is replaced where a fault leaves it in pieces."""

from __future__ import annotations

import multiprocessing as mp
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from .case import EXECUTOR_SILENCE_S, SILENCE_S, SLOTS, Case
from .one_shuffle import HANG_S, WRONG, Outcome, run_case
from .processes import processes_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
LOCAL, EXECUTORS = f"local[{SLOTS}]", f"local-cluster[2,{SLOTS // 2},1024]"

OPTIONS = {"spark.barrier.sync.timeout": f"{SILENCE_S:g}s"}
"""By which Spark gives up tasks that do not meet."""

EXECUTOR_OPTIONS = {
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": f"{EXECUTOR_SILENCE_S:g}s",
    "spark.network.timeoutInterval": "1s",
    "spark.rpc.askTimeout": "60s",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "1s",
}
"""By which it gives up executors."""

_START_S = 120.0
_END_S = 30.0
_POLL_S = 0.05


class Driver:
    """A process with a Spark session, until `end`.

    All that it and its children write lies in a folder of its own, by which its processes are known, too.
    """

    def __init__(self, *, executors: bool) -> None:
        self.executors = executors
        self._folder = Path(tempfile.mkdtemp(prefix="shuffle-faults-"))
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._folder, executors), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, case: Case) -> Outcome:
        """Run a case; where the process does not answer, or ends, that is what is wrong."""
        started = monotonic()
        try:
            self._pipe.send(case)
            if self._pipe.poll(_START_S + 2 * HANG_S):
                outcome: Outcome = self._pipe.recv()
                return outcome
            said = "the driver does not answer"
        except (EOFError, OSError):
            said = "the driver has ended"
        return Outcome(case.seed, case.fault, WRONG, said, True, None, monotonic() - started, whole=False)

    def end(self, *, now: bool = False) -> list[str]:
        """Stop Spark, or `now` the process as it is; return what is left behind a moment later."""
        if not now:
            try:
                self._pipe.send(None)
                now = not self._pipe.poll(_END_S)
            except OSError:
                now = True
        if now:
            self._process.kill()
        self._pipe.close()
        self._process.join(_END_S)
        variable, ends_at = f"TMPDIR={self._folder / 'temporary'}", monotonic() + _END_S
        while (processes := processes_with(variable)) and monotonic() < ends_at:
            sleep(_POLL_S)
        left = [f"process {pid}" for pid in sorted(processes)]
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        if not now:
            kept = [self._folder / "local", self._folder / "temporary"]
            left += [str(path.relative_to(self._folder)) for each in kept for path in each.glob("*")]
        shutil.rmtree(self._folder, ignore_errors=True)
        return left


def _serve(pipe: Connection, folder: Path, executors: bool) -> None:
    """Start Spark and run what comes over the pipe; None is the end."""
    os.setsid()  # Ctrl-C is for whoever has started this
    _settle_in(folder)
    session: SparkSession | None = None
    while (case := pipe.recv()) is not None:
        if session is None:
            session = _session(folder, executors)
        _wait_for_slots(session)
        pipe.send(run_case(session, case))
    if session is not None:
        session.stop()
    pipe.send(None)


def _settle_in(folder: Path) -> None:
    """Have everything written below a folder: executors of a driver write to the home of Spark itself."""
    from pyspark.find_spark_home import _find_spark_home

    home, temporary = folder / "home", folder / "temporary"
    for each in (home, temporary, folder / "local"):
        each.mkdir()
    for entry in Path(_find_spark_home()).iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    os.environ |= {"SPARK_HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    tempfile.tempdir = None


def _session(folder: Path, executors: bool) -> SparkSession:
    from integration.spark import spark_session

    options: Mapping[str, str] = {"spark.local.dir": str(folder / "local"), **OPTIONS}
    return spark_session(
        EXECUTORS if executors else LOCAL, {**options, **EXECUTOR_OPTIONS} if executors else options
    )


def _wait_for_slots(session: SparkSession) -> None:
    """Wait until executors that were lost have been replaced."""
    context = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    ends_at = monotonic() + _START_S
    while context.maxNumConcurrentTasks(profile) < SLOTS and monotonic() < ends_at:
        sleep(_POLL_S)
