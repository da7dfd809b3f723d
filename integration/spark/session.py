"""A quiet Spark session, or the one that is already there; and the Java process behind it.

PySpark starts Java too, but gives nobody a hold of the process until it is ready: whoever waits for it and is
interrupted leaves a process behind that nobody ends. So it is started here, in the same way, and handed to
PySpark as ``spark-submit`` hands over its own::

    spark-submit ... pyspark-shell  -->  a file with port and secret  -->  PYSPARK_GATEWAY_PORT, ..._SECRET
"""

from __future__ import annotations

import atexit
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
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from netstack import SourceError

from ..errors import JavaError
from .class_archive import make_at_exit, of_this_user
from .interrupts import held_interrupts
from .masters import LOOPBACK, is_on_this_machine, local_slots, require_master
from .own_files import own_folder_problem
from .spark_errors import one_line

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

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
"""What a session whose executors are all on this machine is set to, beside that."""

_DAEMON_MODULE, _WORKERS_PATH = "spark.python.daemon.module", "spark.executorEnv.PYTHONPATH"

_NOISE = re.compile(r"WARNING|Using Spark's|\S+ \S+ WARN ")
_THROWN = re.compile(r"^Exception in thread \S+ \S+: ")
_GIVEN_UP = "Application has been killed. Reason: "

_JAVA_HINT = "Spark needs Java 17 or newer (apt install openjdk-17-jre-headless, brew install openjdk@17)"

_POLL_S = 0.05
_INTS = struct.Struct(">i")

_begun: Future[None] | None = None
"""Of a session that was begun and that nobody has taken yet."""


def spark_session(
    master: str | None = None, options: Mapping[str, str] | None = None, *, small: bool = False
) -> SparkSession:
    """Return the active Spark session, or start one that writes nothing to the terminal.

    Args:
        master: Spark's master URL for a session that has to be started, by default ``local[*]``; an active
            session is returned as it is.
        options: Spark's own options for such a session, such as ``{"spark.executor.memory": "2g"}``.
        small: Start Java as for a session of seconds, whose work is done by its Python workers.

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
    _take_begun()
    if starts_spark():
        _start(master or "local[*]", options or {}, small=small)
    with held_interrupts():
        return SparkSession.builder.getOrCreate()


def begin_session() -> None:
    """Begin to start a small session on this machine, in a thread; `spark_session` then waits for it.

    Why it cannot start is raised there. Where there is a session already nothing is done.
    """
    global _begun
    if _begun is None and starts_spark():
        begun = _begun = Future()

        def end_with_process(java: JavaProcess) -> None:
            # It may end while the session still starts.
            atexit.register(lambda: None if begun.done() else java.end())

        work = partial(_start, "local[*]", {}, small=True, told_of=end_with_process)
        threading.Thread(target=_fulfil, args=(begun, work), name="netstack-begin", daemon=True).start()


def _take_begun() -> None:
    """Wait for a session that was begun, if there is one; an interrupt leaves it as it is."""
    global _begun
    if (begun := _begun) is not None:
        try:
            begun.result()
        finally:
            if begun.done():
                _begun = None


def is_running() -> bool:
    """Tell whether this process has a Spark application already."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def starts_spark() -> bool:
    """Return whether `spark_session` would start Spark, with the master that it is given.

    It would not where this process has a Spark application, or was itself started by ``spark-submit``.
    """
    return not is_running() and "PYSPARK_GATEWAY_PORT" not in os.environ


def _start(
    master: str,
    options: Mapping[str, str],
    *,
    small: bool,
    told_of: Callable[[JavaProcess], None] = lambda java: None,
) -> None:
    from pyspark import SparkConf
    from pyspark.logger import PySparkLogger

    require_master(master)
    _require_java()
    # What it would print is in the exception too.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings, workers, archive = dict(SETTINGS), dict[str, str](), None
    if is_on_this_machine(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        settings |= LOCAL_SETTINGS
        if local_slots(master) is not None:
            workers, archive = _worker_settings(), of_this_user()
    else:  # its machines may have another path to Python
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(master).setAll(list({**settings, **options}.items()))
    with tempfile.TemporaryFile() as log:
        java = JavaProcess(conf, log, {} if archive is None else archive.variables_of(small=small))
        told_of(java)
        try:
            _start_session(conf, java, workers)
        except BaseException as error:
            java.end()
            if isinstance(error, Exception):
                raise SourceError(f"Spark does not start: {_reason(error, log)}") from error
            raise
    if archive is not None:
        make_at_exit(archive)


def _worker_settings() -> dict[str, str]:
    """What a session whose tasks run in the driver is set to: workers begin with imports done.

    Our packages come last, behind those that the user has put first.
    """
    path = [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[2])]
    return {
        _DAEMON_MODULE: "integration.spark.worker_daemon",
        _WORKERS_PATH: os.pathsep.join(filter(None, path)),
    }


def _start_session(conf: SparkConf, java: JavaProcess, workers: Mapping[str, str]) -> None:
    """Start a session; it gets the settings of `workers` unless the user has given one of them, anywhere."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    reached = java.start() if SparkContext._gateway is None else None

    def start() -> None:
        if reached is not None:
            java.connect(reached)
        given = SparkConf(_jvm=SparkContext._jvm)  # of spark-defaults.conf and PYSPARK_SUBMIT_ARGS too
        if not any(given.contains(name) for name in workers):
            conf.setAll(list(workers.items()))
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
    logged = log.read().decode("utf-8", "replace")
    chatter = logged.split("\n")
    no_folder = own_folder_problem(logged)
    if no_folder is not None:  # Java has ended, which is all that the error says
        return no_folder
    if any("UnsupportedClassVersionError" in line for line in chatter):
        return f"this Java is too old. {_JAVA_HINT}"
    if "stopped SparkContext" in str(error):  # Spark has given up of itself, and said why in the log only
        given_up = [line.partition(_GIVEN_UP)[2] for line in chatter if _GIVEN_UP in line]
        return given_up[-1] if given_up else one_line(error)
    said = [line.strip() for line in chatter if line.strip() and not _NOISE.match(line)]
    if said and isinstance(error, JavaError):
        return f"{one_line(error)} ({_THROWN.sub('', said[0])})"
    return one_line(error)


def java_exit_status(wait_s: float) -> int | None:
    """Return the exit status of Spark's Java if it has ended, or does within `wait_s` seconds; else None."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    try:
        return None if process is None else int(process.wait(wait_s))
    except subprocess.TimeoutExpired:
        return None


class JavaProcess:
    """The Java process of Spark's driver; not there before `start`.

    Args:
        conf: What Spark is set to.
        log: A file for its standard error.
        variables: What it has in its environment beside what this process has.
    """

    def __init__(self, conf: SparkConf, log: IO[bytes], variables: Mapping[str, str]) -> None:
        self._conf = conf
        self._log = log
        self._variables = variables
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def started(self) -> bool:
        """Whether there has been a process."""
        return self._process is not None

    def start(self) -> bytes:
        """Start the process and return how to reach it, for `connect`; after an error, `end` it.

        Raises:
            JavaError: It ends at once.
        """
        with held_interrupts():
            self._folder = tempfile.TemporaryDirectory(prefix="netstack-java-", ignore_cleanup_errors=True)
            reached = Path(self._folder.name, "connection")
            # It ends when its standard input does. In a group of its own it gets no Ctrl-C from the terminal.
            process = self._process = subprocess.Popen(
                _command(self._conf),
                stdin=subprocess.PIPE,
                stderr=self._log,
                env={
                    **os.environ,
                    **self._variables,
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
        """Have PySpark use the process, in place of one that it would start."""
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
        """End the process, if there is one, without waiting for it; PySpark forgets it, and says nothing."""
        from pyspark import SparkContext

        process = self._process
        if self._folder is not None:
            self._folder.cleanup()
        if process is None:
            return
        _silence_py4j()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(RuntimeError):  # at the very end there are no new threads, and none is needed
            threading.Thread(target=process.wait, name="netstack-java-end", daemon=True).start()
        if getattr(SparkContext._gateway, "proc", None) is process:
            SparkContext._gateway = SparkContext._jvm = None


def _command(conf: SparkConf) -> list[str]:
    from pyspark.find_spark_home import _find_spark_home

    program = str(Path(_find_spark_home(), "bin", "spark-submit"))
    options = [text for name, value in conf.getAll() for text in ("--conf", f"{name}={value}")]
    return [program, *options, *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))]


def _silence_py4j() -> None:
    """Keep Py4J from logging that its process is gone; some it logs as nobody in particular."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"
