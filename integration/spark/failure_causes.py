"""Explanations of Spark's failures, one line each.

An action fails with the traces of Java, of Spark and of a Python worker. The useful line is the first cause:
the error of the first failed task, a folder that Spark cannot use, or too little memory for Java.
"""

from __future__ import annotations

import builtins
import logging
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from ..base.errors import ShuffleError, ShuffleFailedError
from .driver import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_MESSAGE = 300
"""Maximum number of characters of Spark's own message that are repeated."""

_PASSING = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, OSError | MemoryError | EOFError)
)
"""Names of Python's errors whose cause may be gone at the next attempt."""

STAGE_RESTARTED = "Spark has restarted the stage without the tasks that had finished"
"""Part of a task's error if Spark may have restarted its stage because of another failure."""

WORKER_DIED = "a Python worker of Spark has died"
"""Result of `first_cause` if a worker process was killed or crashed."""

ROW_FACTOR = 10
"""Memory that Java needs for a large row, as a multiple of the row's size."""

_ABORTED = "Job aborted due to stage failure: "
_CANCELLED_FOR = " cancelled because "
_REFUSED = "[SPARK-24820]"
_NOT_ON_BARRIERS = (
    "Spark cannot run this on the barrier stage of a shuffle; call the method of the shuffled DataFrame "
    "(shuffled.union(other), not other.union(shuffled)), or put repartition(n) after the shuffle"
)
_CALL = re.compile(r"^An error occurred while calling \S+\n: ")
_JAVA_CLASS = re.compile(r"^(?:[a-zA-Z_]\w*\.)+[A-Z][\w$]*: ")
_AWAITED = re.compile(r"^Exception thrown in awaitResult:.*?^Caused by: ", re.DOTALL | re.MULTILINE)
_TRACE = re.compile(r"\n\s*at |\n== SQL|\s*JVM stacktrace|\s*SQLSTATE: ")
_BARRIER = re.compile(r"^Job aborted due to stage failure: .*? barrier task .*? finished unsuccessfully\.\s*")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*?(\w[^\n]*)")
_NO_ROLLBACK = "A shuffle map stage with indeterminate output was failed and retried"
_BLOCKS_LOST = (
    "data between two stages was lost, for example with an executor, after part of it had been read; "
    "run the query again: Spark does not retry it, since the rows may come in another order"
)
_WORKER = "thrown from the Python worker"
_WORKER_DIED = "Python worker exited unexpectedly"
_QUERY_LOG = "DataFrameQueryContextLogger"
"""PySpark's logger that prints errors of queries with their whole stack, before they are raised."""

_CANCELLED = re.compile(r"^\[SPARK_JOB_CANCELLED\] Job \d+ cancelled because ")
"""Beginning of Spark's message if a stage was cancelled with a reason, as `shuffling.retries` does."""

_NAME = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
"""Name of an error at the beginning of the last line of Python's traceback."""
_OURS = ("buffers.", "flowcontrol.", "integration.", "netstack.")
_OF_EXPRESSION = re.compile(r"org\.apache\.spark\.Spark(?!Exception|File|OutOfMemory|Security)\w+Exception: ")
"""Beginning of the text of an error in an expression of SQL, such as a division by zero."""

_ABORTED_STAGE = re.compile(r"Job aborted due to stage failure: ShuffleMapStage (\d+) ")

_JAVA_END_S = 10.0
"""Maximum seconds for Java to end after it has closed its connections."""

_OUT_OF_MEMORY_STATUS = 52
"""Exit status of Spark's Java processes after an OutOfMemoryError (SparkExitCode.OOM)."""
_EXECUTOR_ENDED = f"exited with code {_OUT_OF_MEMORY_STATUS}"
_DRIVER_ENDING = "SparkContext was shut down"

_FOLDERS = "spark.local.dir"
_THROWN = re.compile(r"java\.(?:io|nio\.file)\.(\w+): ([^\n]+)((?:\n\s+at [^\n]+)+)")
_OWN_CODE = re.compile(r"\s+at org\.apache\.spark\.(?:storage|shuffle|io|broadcast|util\.collection)\.")
_SPARKS = "at org.apache.spark."
_HELPER = re.compile(r"\s+at org\.apache\.spark\.util\.(?!collection\.)")
"""Line of a stack trace in Spark's helper code, such as code that copies files. The line of its caller
follows.
"""
_REASONS = {"NoSuchFileException": "no such file or folder", "AccessDeniedException": "may not be written"}
"""Reasons for Java exceptions whose message is only a path."""
_NOT_MADE = re.compile(r"Failed to create directory (\S+)/blockmgr-\S+")
_NONE_MADE = "Failed to create any local dir"


def one_line(error: BaseException) -> str:
    """Return the message of a Spark error on one line, without class names and stack traces."""
    error = _of_spark(error)
    if _REFUSED in str(error):
        return _NOT_ON_BARRIERS
    if _NO_ROLLBACK in str(error):  # the rest explains limits of Spark, and is no help
        return _BLOCKS_LOST
    text = _JAVA_CLASS.sub("", _CALL.sub("", str(error)))
    text = _JAVA_CLASS.sub("", _AWAITED.sub("", text))  # toArrow() and toPandas() wait for their rows
    _, python, traceback = text.partition(_WORKER)
    if python:
        text = _TRACE.split(traceback)[0].strip().splitlines()[-1]
    if _CANCELLED.match(text):
        text = _CANCELLED.sub("", text).splitlines()[0]  # the other lines are Python's traceback
    text = _BARRIER.sub("", text)
    message = " ".join(_JAVA_CLASS.sub("", _TRACE.split(text)[0]).split())
    if len(message) > MAX_MESSAGE:
        message = message[:MAX_MESSAGE].rstrip() + " ..."
    return message or type(error).__name__


def _of_spark(error: BaseException) -> BaseException:
    """Return Spark's error, of which a ShuffleFailedError reports."""
    return error.__cause__ or error if isinstance(error, ShuffleFailedError) else error


def first_cause(error: BaseException) -> str:
    """Return in one line why a stage failed: the error of its first failed task."""
    error = _of_spark(error)
    text = str(error)
    if _WORKER_DIED in text:
        return WORKER_DIED
    traceback = _TRACEBACK.search(text)
    return traceback[1].strip() if traceback else one_line(error)


def users_error(text: str) -> str | None:
    """Return the error of a task if the user's data or code has raised it: a line, then Python's traceback.

    None: the cause may be gone at the next attempt. This is so for our own errors, a lost process, and
    Python's errors of the operating system and of memory.

    Args:
        text: Spark's message for the failed task.
    """
    if _OF_EXPRESSION.match(text):
        return one_line(RuntimeError(text))
    traceback = _TRACEBACK.search(text)
    if traceback is None or _WORKER_DIED in text:
        return None
    name = _NAME.match(traceback[1])
    if name is None or name[1].startswith(_OURS) or name[1].rpartition(".")[2] in _PASSING:
        return None
    return f"{traceback[1].strip()}\n{traceback[0].strip()}"


def was_raised_in_task(error: BaseException) -> bool:
    """Return whether Python code of a task raised an error. If not, Spark lost the task."""
    return _TRACEBACK.search(str(error)) is not None


def is_from_spark(error: BaseException) -> bool:
    """Return whether an error comes from Spark or Arrow, and so concerns data, files or the cluster."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(_of_spark(error), PySparkException | Py4JError | pa.ArrowException)


def is_failure_of_job(error: BaseException) -> bool:
    """Return whether an error of Spark is the failure of a job, and not of its analysis."""
    if isinstance(error, ShuffleFailedError) or not is_from_spark(error):
        return False
    text = str(_readable(error))
    return any(sign in text for sign in (_ABORTED, _CANCELLED_FOR, _REFUSED))


@contextmanager
def spark_errors(problem: str) -> Iterator[None]:
    """Turn Spark's error about a query into a ShuffleError that begins with `problem`. Log nothing."""
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    log = PySparkLogger.getLogger(_QUERY_LOG)
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except PySparkException as error:
        raise ShuffleError(f"{problem}: {one_line(error)}") from None
    finally:
        log.setLevel(level)


def failure_cause(error: BaseException, session: SparkSession) -> str:
    """Return in one line why an action on a DataFrame failed: the first cause, without Spark's traces.

    If several tasks of a stage failed, the cause is the error of the first, such as the address of a lost
    peer. If a folder of Spark's own files is full, the cause names the folder. If Java ended, the cause is
    its lack of memory.

    Args:
        error: The error that the action has raised.
        session: The session of the DataFrame; it still runs, unless its Java has run out of memory.
    """
    error = _readable(error)
    return resource_problem(error, session) or one_line(_before_restart(error, session))


def resource_problem(error: BaseException, session: SparkSession) -> str | None:
    """If Spark's Java had too little memory or a folder too little space, return a line that says so and
    names the option to set; else None.
    """
    error = _readable(error)
    return _memory_problem(error, session) or own_files_problem(_before_restart(error, session), session)


def _readable(error: BaseException) -> BaseException:
    """Return a copy of an error with its text. The original requests its text from Java at each use, and Java
    may have ended by then.
    """
    from py4j.protocol import Py4JJavaError, Py4JNetworkError

    error = _of_spark(error)
    try:
        with _without_logs():
            text = str(error)
    except (ConnectionError, Py4JNetworkError) as gone:
        return ConnectionError(f"Spark's Java has ended: {one_line(gone)}")
    return RuntimeError(text) if isinstance(error, Py4JJavaError) else error


@contextmanager
def _without_logs() -> Iterator[None]:
    """Log nothing in the block, because py4j logs a stack trace if Java does not answer any more."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _memory_problem(error: BaseException, session: SparkSession) -> str | None:
    """Return a line that Spark's Java ran out of memory, with the option to set; None: it did not."""
    setting = _exhausted(error, session)
    if setting is None:
        return None
    return (
        f"Spark's Java ran out of memory; a large row needs about {ROW_FACTOR} times its size there. Set"
        f" {setting} (1g by default) to more"
    )


def _exhausted(error: BaseException, session: SparkSession) -> str | None:
    """Return Spark's option for the memory of the Java process that ran out of it; None: none did.

    Java ends when it runs out of memory, so `error` may only report a lost connection. In a local session,
    this Java process is the driver's.
    """
    from py4j.protocol import Py4JNetworkError

    of_driver, of_executor = "spark.driver.memory", "spark.executor.memory"
    text = str(error)
    if isinstance(error, ConnectionError | Py4JNetworkError) or _DRIVER_ENDING in text:
        return of_driver if java_exit_status(_JAVA_END_S) == _OUT_OF_MEMORY_STATUS else None
    if _EXECUTOR_ENDED not in text and "OutOfMemory" not in text:
        return None
    try:
        with _without_logs():
            return of_driver if is_local(session) else of_executor
    except (ConnectionError, Py4JNetworkError):  # the driver's Java has ended since
        return of_driver


def java_exit_status(wait_s: float) -> int | None:
    """Return the exit status of Spark's Java, if it has ended or ends within `wait_s` seconds; else None."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    try:
        return None if process is None else int(process.wait(wait_s))
    except subprocess.TimeoutExpired:
        return None


def _before_restart(error: BaseException, session: SparkSession) -> BaseException:
    """Return the failure after which Spark restarted some tasks of a stage, or `error` itself.

    Spark raises the last failure of a stage, in which the restarted tasks only report that other tasks are
    missing.
    """
    from py4j.protocol import Py4JError

    stage = _ABORTED_STAGE.search(str(error))
    if stage is None or STAGE_RESTARTED not in str(error):
        return error
    try:
        reasons = errors_of_stage(int(stage[1]), session)
    except (ConnectionError, Py4JError):  # Spark has ended since
        return error
    before = next((reason for reason in reasons if STAGE_RESTARTED not in reason), None)
    return error if before is None else RuntimeError(before)


def errors_of_stage(stage: int, session: SparkSession) -> list[str]:
    """Return the errors of a stage's failed tasks, attempt by attempt, without tasks that Spark killed."""
    jvm, gateway = session._jvm, session.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    nothing, no_numbers = jvm.java.util.ArrayList(), gateway.new_array(jvm.double, 0)
    store = session.sparkContext._jsc.sc().statusStore()
    found = store.stageData(stage, True, nothing, False, no_numbers)
    attempts = sorted((found.apply(i) for i in range(found.size())), key=lambda each: int(each.attemptId()))
    messages = []
    for attempt in attempts:
        tasks = attempt.tasks().get().values().iterator()
        while tasks.hasNext():
            task = tasks.next()
            if task.status() == "FAILED" and task.errorMessage().isDefined():
                messages.append(str(task.errorMessage().get()))
    return messages


def own_files_problem(error: BaseException, session: SparkSession) -> str | None:
    """If Spark could not write or find its own files, return a line that says so and names the place; None
    for other errors. The session is still running.
    """
    for kind, message, frames in _THROWN.findall(str(error)):
        sparks = [frame for frame in frames.splitlines() if _SPARKS in frame and not _HELPER.match(frame)]
        if not sparks or not _OWN_CODE.match(sparks[0]):
            continue
        reason = f"{message}: {_REASONS[kind]}" if kind in _REASONS else message.strip()
        folders = f"{_FOLDERS} of an executor"  # the executor, which knows the folders of its machine
        if is_local(session):
            assert session._jvm is not None
            conf = session.sparkContext._jsc.sc().conf()
            folders = ", ".join(session._jvm.org.apache.spark.util.Utils.getConfiguredLocalDirs(conf))
        return (
            f"Spark cannot store the data between two stages in {folders}: {reason}; set {_FOLDERS} to "
            "a folder with room for all rows"
        )
    return None


def own_folder_problem(log: str) -> str | None:
    """If Spark's log says that it could not create its folders, return a line that says so; else None."""
    if _NONE_MADE not in log:
        return None
    folders = ", ".join(dict.fromkeys(_NOT_MADE.findall(log)))  # Spark tries each folder several times
    return f"no folder can be created in {folders}; set {_FOLDERS} to a folder that can be written"
