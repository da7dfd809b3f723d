"""A quiet Spark session, the active one or a new one, and the Java process behind it.

PySpark could start Java, but does not expose the process until Java is ready. An interrupt while a caller
waits would leave a process behind that nothing ends. So this module starts Java in the same way, and passes
it to PySpark as ``spark-submit`` does::

    spark-submit ... pyspark-shell  -->  a file with port and secret  -->  PYSPARK_GATEWAY_PORT, ..._SECRET
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from netstack import SourceError

from ..errors import JavaError
from ..held_signals import held_interrupts
from .driver import LOOPBACK, is_on_this_machine, local_slots, require_master
from .failure_causes import one_line, own_folder_problem

if TYPE_CHECKING:
    from pyspark import SparkConf
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

SMALL_JAVA = dict.fromkeys(
    ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"), "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
)
"""Java options for a driver that lives for seconds, too short for Java's optimising compiler to help.

They are in Spark's variables, because Java prints a line on stderr if its own ones are set.
"""

_DAEMON_MODULE, _WORKERS_PATH = "spark.python.daemon.module", "spark.executorEnv.PYTHONPATH"

_NOISE = re.compile(r"WARNING|Using Spark's|\S+ \S+ WARN ")
_THROWN = re.compile(r"^Exception in thread \S+ \S+: ")
_KILLED = "Application has been killed. Reason: "

_JAVA_HINT = "Spark needs Java 17 or newer (apt install openjdk-17-jre-headless, brew install openjdk@17)"

_POLL_S = 0.05
_INTS = struct.Struct(">i")


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
    from pyspark import SparkConf
    from pyspark.logger import PySparkLogger

    require_master(master)
    _require_java()
    # The exception already contains the text that these loggers would print.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = SETTINGS
    if is_on_this_machine(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        settings = {**SETTINGS, **LOCAL_SETTINGS}
    else:  # other machines may have Python at another path
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    workers = {} if local_slots(master) is None else _settings_of_local_workers()
    conf = SparkConf().setMaster(master).setAll(list({**settings, **options}.items()))
    with tempfile.TemporaryFile() as log:
        java = JavaProcess(conf, log, SMALL_JAVA if small else {})
        try:
            _start_session(conf, java, workers)
        except BaseException as error:
            java.end()
            if isinstance(error, Exception):
                raise SourceError(f"Spark does not start: {_reason(error, log)}") from error
            raise


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
    return {_DAEMON_MODULE: f"{__package__}.worker_daemon", _WORKERS_PATH: os.pathsep.join(path)}


def _start_session(conf: SparkConf, java: JavaProcess, workers: Mapping[str, str]) -> None:
    """Start a session. Apply the settings in `workers`, or none of them if the user has set one of them."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    reached = java.start() if SparkContext._gateway is None else None

    def start() -> None:
        if reached is not None:
            java.connect(reached)
        given = SparkConf(_jvm=SparkContext._jvm)  # includes spark-defaults.conf and PYSPARK_SUBMIT_ARGS
        if not any(given.contains(name) for name in workers):
            conf.setAll(list(workers.items()))
        SparkContext(conf=conf)
        SparkSession.builder.getOrCreate()

    # A thread, because an interrupt of this one would leave half an answer on its connection. Also, Spark
    # replaces Python's handler of Ctrl-C in the main thread only.
    outcome = Future[None]()
    threading.Thread(target=_fulfil, args=(outcome, start), name="netstack-spark", daemon=True).start()
    try:
        outcome.result()
    finally:
        if not java.started:  # Java ran before and continues, so there is nothing to end
            wait([outcome])


def _fulfil(outcome: Future[None], work: Callable[[], None]) -> None:
    try:
        work()
        outcome.set_result(None)
    except BaseException as error:
        outcome.set_exception(error)


def _reason(error: Exception, log: IO[bytes]) -> str:
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
    if messages and isinstance(error, JavaError):
        return f"{one_line(error)} ({_THROWN.sub('', messages[0])})"
    return one_line(error)


class JavaProcess:
    """The Java process of Spark's driver, which runs from `start` on.

    `log` gets its standard error. `variables` are set if the environment of this process lacks them.
    """

    def __init__(self, conf: SparkConf, log: IO[bytes], variables: Mapping[str, str]) -> None:
        self._conf = conf
        self._log = log
        self._variables = variables
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def started(self) -> bool:
        """Whether the process has been started."""
        return self._process is not None

    def start(self) -> bytes:
        """Start the process and return its connection data, for `connect`. After an error, call `end`.

        Raises:
            JavaError: The process ends at once.
        """
        from pyspark.find_spark_home import _find_spark_home

        with held_interrupts():
            self._folder = tempfile.TemporaryDirectory(prefix="netstack-java-", ignore_cleanup_errors=True)
            reached = Path(self._folder.name, "connection")
            options = [text for name, value in self._conf.getAll() for text in ("--conf", f"{name}={value}")]
            options += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
            # Java ends when its standard input ends. In its own process group it gets no Ctrl-C from the
            # terminal.
            process = self._process = subprocess.Popen(
                [str(Path(_find_spark_home(), "bin", "spark-submit")), *options],
                stdin=subprocess.PIPE,
                stderr=self._log,
                env={
                    **self._variables,
                    **os.environ,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(reached),
                },
                process_group=0,
            )
        while (ended := process.poll()) is None and not reached.exists():
            time.sleep(_POLL_S)
        if not reached.exists():
            raise JavaError(f"Java has ended with exit status {ended}")
        content = reached.read_bytes()
        self._folder.cleanup()
        return content

    def connect(self, reached: bytes) -> None:
        """Make PySpark use the process, in place of starting one."""
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway

        (port,) = _INTS.unpack_from(reached)
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = reached[2 * _INTS.size :].decode()
        try:
            gateway = launch_gateway(self._conf)  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self._process
        SparkContext._ensure_initialized(gateway=gateway)

    def end(self) -> None:
        """End the process, if any, without waiting. Make PySpark forget it without a log entry."""
        from pyspark import SparkContext

        process = self._process
        if self._folder is not None:
            self._folder.cleanup()
        if process is None:
            return
        # Py4J would log that its process has ended, partly by the root logger.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_is_not_py4j)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(RuntimeError):  # no thread can start while Python ends, and none is needed
            threading.Thread(target=process.wait, name="netstack-java-end", daemon=True).start()
        if getattr(SparkContext._gateway, "proc", None) is process:
            SparkContext._gateway = SparkContext._jvm = None


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"
