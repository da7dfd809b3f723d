"""What goes wrong with Spark, in one line each; and what a shuffle refuses, or does at a cost."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from ..errors import ShuffleError

MAX_MESSAGE = 300
"""Characters of Spark's own message that are passed on."""

_CALL = re.compile(r"^An error occurred while calling \S+\n: ")
_JAVA_CLASS = re.compile(r"^(?:[a-zA-Z_]\w*\.)+[A-Z][\w$]*: ")
_AWAITED = re.compile(r"^Exception thrown in awaitResult:.*?^Caused by: ", re.DOTALL | re.MULTILINE)
_TRACE = re.compile(r"\n\s*at |\n== SQL|\s*JVM stacktrace|\s*SQLSTATE: ")
_BARRIER = re.compile(r"^Job aborted due to stage failure: .*? barrier task .*? finished unsuccessfully\.\s*")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*?(\w[^\n]*)")
_NO_ROLLBACK = "A shuffle map stage with indeterminate output was failed and retried"
_BLOCKS_LOST = (
    "what lay between two stages was lost, as happens with an executor, when some of it had been read; run"
    " the query again, as Spark does not where rows may come in another order"
)
_WORKER = "thrown from the Python worker"
_WORKER_DIED = "Python worker exited unexpectedly"

BEGUN_AGAIN = "Spark has begun it again without tasks that were done"
"""Stands in what a task says of its stage if Spark may have begun that again after another failure."""

WORKER_DIED = "a Python worker of Spark has died"
"""What `first_cause` says of a process that was ended from outside, or has crashed."""

_QUERY_LOG = "DataFrameQueryContextLogger"
"""Where PySpark logs errors of queries, with all of their stack, before it raises them."""


def one_line(error: BaseException) -> str:
    """Return in one line what an error of Spark says: the message, without class names and stack traces."""
    if _NO_ROLLBACK in str(error):  # says what Spark cannot do, and nothing of why it would have to
        return _BLOCKS_LOST
    text = _JAVA_CLASS.sub("", _CALL.sub("", str(error)))
    text = _JAVA_CLASS.sub("", _AWAITED.sub("", text))  # toArrow() and toPandas() wait for their rows
    _, python, traceback = text.partition(_WORKER)
    if python:
        text = _TRACE.split(traceback)[0].strip().splitlines()[-1]
    message = " ".join(_JAVA_CLASS.sub("", _TRACE.split(_BARRIER.sub("", text))[0]).split())
    if len(message) > MAX_MESSAGE:
        message = message[:MAX_MESSAGE].rstrip() + " ..."
    return message or type(error).__name__


def first_cause(error: BaseException) -> str:
    """Return in one line why a stage has failed: what its first task to fail said."""
    text = str(error)
    if _WORKER_DIED in text:
        return WORKER_DIED
    traceback = _TRACEBACK.search(text)
    return traceback[1].strip() if traceback else one_line(error)


def was_raised_in_task(error: BaseException) -> bool:
    """Tell whether Python code of a task has raised an error, rather than that Spark has lost the task."""
    return _TRACEBACK.search(str(error)) is not None


def is_from_spark(error: BaseException) -> bool:
    """Tell whether an error is Spark's or Arrow's, and so about data, files or the cluster."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JError | pa.ArrowException)


@contextmanager
def spark_errors(problem: str) -> Iterator[None]:
    """Turn what Spark says of a query into a `ShuffleError`, which begins with `problem`; nothing is logged.

    Raises:
        ShuffleError: The block has raised an error of Spark's.
    """
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
