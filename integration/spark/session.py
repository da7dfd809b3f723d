"""A quiet Spark session: the active one, or a new one.

PySpark starts Java and the session in a thread of its own. An interrupt of the main thread inside a call to
Java would leave half an answer on the connection. The thread keeps running after an interrupt. When this
process ends, Java reads the end of its standard input, and ends as well.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from netstack import SourceError

from ..base.signals import held_interrupts
from .driver import LOOPBACK, is_on_this_machine, local_slots, require_master
from .failure_causes import one_line, own_folder_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_FILE_PARTITIONS = 4
"""Minimum number of partitions into which Spark cuts a file, if the file is large enough.

Spark's default depends on the number of cores. A constant gives the same partitions on every machine.
"""

SETTINGS = {
    "spark.app.name": "netstack",
    "spark.log.level": "ERROR",
    "spark.sql.files.minPartitionNum": str(MIN_FILE_PARTITIONS),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(MIN_FILE_PARTITIONS),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a session that `spark_session` starts."""

LOCAL_SETTINGS = {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
"""Further settings of a session whose executors are all on this machine."""

SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options for a driver that lives for seconds, too short for Java's optimising compiler to help."""

_NOISE = re.compile(r"WARNING|Using Spark's|\S+ \S+ WARN ")
_THROWN = re.compile(r"^Exception in thread \S+ \S+: ")
_KILLED = "Application has been killed. Reason: "

_JAVA_HINT = "Spark needs Java 17 or newer (apt install openjdk-17-jre-headless, brew install openjdk@17)"


def spark_session(
    master: str | None = None, options: Mapping[str, str] | None = None, *, small: bool = False
) -> SparkSession:
    """Return the active Spark session, or start one that prints nothing.

    Args:
        master: Spark's master URL for a session that has to be started, by default ``local[*]``; an active
            session is returned unchanged.
        options: Spark's own options for a session that has to be started, for example
            ``{"spark.executor.memory": "2g"}``.
        small: Start Java for a session of a few seconds, with work only in its Python workers.

    Raises:
        SourceError: There is no Java, the master does not answer, or Spark does not start.

    The session's Python workers run this interpreter, or the one that ``PYSPARK_PYTHON`` names if they run on
    other machines. A local session has its addresses on the loopback interface. Spark's handler of Ctrl-C
    does not replace Python's. The caller that started the session has to stop it.
    """
    from pyspark.sql import SparkSession

    with held_interrupts():
        active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if starts_spark():
        _start(master or "local[*]", options or {}, small=small)
    with held_interrupts():
        return SparkSession.builder.getOrCreate()


def is_running() -> bool:
    """Return whether this process already has a Spark application."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def starts_spark() -> bool:
    """Return whether `spark_session` would start Spark, and so use the master in its arguments.

    Spark is not started if this process has a Spark application, or was itself started by ``spark-submit``.
    """
    return not is_running() and "PYSPARK_GATEWAY_PORT" not in os.environ


def _start(master: str, options: Mapping[str, str], *, small: bool) -> None:
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    require_master(master)
    _require_java()
    # The exception already contains the text that these loggers would print.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    settings = dict(SETTINGS)
    if is_on_this_machine(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        settings |= LOCAL_SETTINGS
    else:  # other machines may have Python at another path
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if local_slots(master) is not None:
        settings |= _settings_of_local_workers()
    if small:
        settings["spark.driver.defaultJavaOptions"] = SMALL_JAVA
    builder = SparkSession.builder.master(master).config(map={**settings, **options})
    with tempfile.TemporaryFile() as log:
        outcome = Future[object]()
        with _stderr_to(log):
            threading.Thread(
                target=_fulfil, args=(outcome, builder.getOrCreate), name="netstack-spark", daemon=True
            ).start()
            error = outcome.exception()
        if error is not None:
            raise SourceError(f"Spark does not start: {_reason(error, log)}") from error


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not Path(home, "bin", "java").exists():
        raise SourceError(f"JAVA_HOME is {home}, where there is no bin/java. {_JAVA_HINT}")
    if not home and shutil.which("java") is None:
        raise SourceError(f"There is no java on the PATH. {_JAVA_HINT}")


def _settings_of_local_workers() -> dict[str, str]:
    """Return settings with which workers begin with imports done.

    Our packages come after those that the user puts first.
    """
    path = filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[2])])
    return {
        "spark.python.daemon.module": f"{__package__}.worker_daemon",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path),
    }


@contextmanager
def _stderr_to(log: IO[bytes]) -> Iterator[None]:
    """Redirect standard error in the block. A process that starts in it writes to `log` until its end."""
    with held_interrupts():
        before = os.dup(2)
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _fulfil(outcome: Future[object], work: Callable[[], object]) -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:
        outcome.set_exception(error)


def _reason(error: BaseException, log: IO[bytes]) -> str:
    from pyspark.errors import PySparkException

    log.seek(0)
    logged = log.read().decode("utf-8", "replace")
    lines = logged.split("\n")
    no_folder = own_folder_problem(logged)
    if no_folder is not None:  # the error only says that Java has ended
        return no_folder
    if any("UnsupportedClassVersionError" in line for line in lines):
        return f"this Java is too old. {_JAVA_HINT}"
    if "stopped SparkContext" in str(error):  # Spark has stopped by itself, and says why in the log only
        killed = [line.partition(_KILLED)[2] for line in lines if _KILLED in line]
        return killed[-1] if killed else one_line(error)
    messages = [line.strip() for line in lines if line.strip() and not _NOISE.match(line)]
    if isinstance(error, PySparkException) and error.getCondition() == "JAVA_GATEWAY_EXITED":
        return f"Java has ended ({_THROWN.sub('', messages[0])})" if messages else "Java has ended"
    return one_line(error)
