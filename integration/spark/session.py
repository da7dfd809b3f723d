"""A quiet Spark session, or the one that is already there."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import IO, TYPE_CHECKING

from netstack import SourceError

from .files import one_line
from .interrupts import held_interrupts
from .java import JavaError, JavaProcess
from .masters import require_master

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

MIN_FILE_PARTITIONS = 4
"""Partitions into which Spark cuts a file, if it is large enough.

Spark's own choice follows the number of cores; a constant gives the same partitions on every machine.
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
"""What a session started here is set to."""

LOCAL_SETTINGS = {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
"""And one whose executors are all on this machine."""

_NOISE = re.compile(r"WARNING|Using Spark's|\S+ \S+ WARN ")
_THROWN = re.compile(r"^Exception in thread \S+ \S+: ")
_GIVEN_UP = "Application has been killed. Reason: "

_JAVA_HINT = "Spark needs Java 17 or newer (apt install openjdk-17-jre-headless, brew install openjdk@17)"


def spark_session(master: str | None = None, options: Mapping[str, str] | None = None) -> SparkSession:
    """Return the active Spark session, or start one that writes nothing to the terminal.

    Args:
        master: Spark's master URL for a session that has to be started, by default ``local[*]``; an active
            session is returned as it is.
        options: And Spark's own options for it, such as ``{"spark.executor.memory": "2g"}``.

    Raises:
        SourceError: There is no Java, nothing answers at the master, or Spark does not start.

    The session's Python workers run this interpreter, or the one that ``PYSPARK_PYTHON`` names if they run on
    other machines. A local session has its addresses on the loopback interface. Ctrl-C stays with the caller:
    the handler that Spark puts in place of Python's own is taken out again. Stopping the session is up to
    whoever started it.
    """
    from pyspark.sql import SparkSession

    with held_interrupts():
        active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if not is_running() and "PYSPARK_GATEWAY_PORT" not in os.environ:  # set by spark-submit
        _start(master or "local[*]", options or {})
    with held_interrupts():
        return SparkSession.builder.getOrCreate()


def is_running() -> bool:
    """Tell whether this process has a Spark application already."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _start(master: str, options: Mapping[str, str]) -> None:
    from pyspark import SparkConf
    from pyspark.logger import PySparkLogger

    require_master(master)
    _require_java()
    # What it would print is in the exception too.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = dict(SETTINGS)
    if master == "local" or master.startswith(("local[", "local-cluster[")):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        settings |= LOCAL_SETTINGS
    else:  # its machines may have another path to Python
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(master).setAll(list({**settings, **options}.items()))
    with tempfile.TemporaryFile() as log:
        java = JavaProcess(conf, log)
        try:
            _start_session(conf, java)
        except BaseException as error:
            java.end()
            if isinstance(error, Exception):
                raise SourceError(f"Spark does not start: {_reason(error, log)}") from error
            raise


def _start_session(conf: SparkConf, java: JavaProcess) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    reached = java.start() if SparkContext._gateway is None else None

    def start() -> None:
        if reached is not None:
            java.connect(reached)
        SparkContext(conf=conf)
        SparkSession.builder.getOrCreate()

    # In a thread: an interrupt of this one would leave half an answer on its connection. And Spark puts its
    # own handler of Ctrl-C in the place of Python's in the main thread only.
    outcome = Future[None]()
    threading.Thread(target=_fulfil, args=(outcome, start), name="netstack-spark", daemon=True).start()
    try:
        outcome.result()
    finally:
        if not java.started:  # what ran before goes on, so there is nothing that could be ended
            wait([outcome])


def _fulfil(outcome: Future[None], work: Callable[[], None]) -> None:
    try:
        work()
        outcome.set_result(None)
    except BaseException as error:
        outcome.set_exception(error)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not Path(home, "bin", "java").exists():
        raise SourceError(f"JAVA_HOME is {home}, where there is no bin/java. {_JAVA_HINT}")
    if not home and shutil.which("java") is None:
        raise SourceError(f"There is no java on the PATH. {_JAVA_HINT}")


def _reason(error: Exception, log: IO[bytes]) -> str:
    log.seek(0)
    chatter = log.read().decode("utf-8", "replace").split("\n")
    if any("UnsupportedClassVersionError" in line for line in chatter):
        return f"this Java is too old. {_JAVA_HINT}"
    if "stopped SparkContext" in str(error):  # Spark has given up of itself, and said why in the log only
        given_up = [line.partition(_GIVEN_UP)[2] for line in chatter if _GIVEN_UP in line]
        return given_up[-1] if given_up else one_line(error)
    said = [line.strip() for line in chatter if line.strip() and not _NOISE.match(line)]
    if said and isinstance(error, JavaError):
        return f"{one_line(error)} ({_THROWN.sub('', said[0])})"
    return one_line(error)
