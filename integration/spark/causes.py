"""Why an action of Spark's has failed, in one line, for the caller of `shuffle`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .masters import is_local
from .own_files import own_files_problem
from .session import java_exit_status
from .spark_errors import BEGUN_AGAIN, one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW_FACTOR = 10
"""Memory that Java needs for a large row, by the size of the row."""

_GIVEN_UP = re.compile(r"Job aborted due to stage failure: ShuffleMapStage (\d+) ")

_END_S = 10.0
"""Time in seconds in which Java ends after it has closed its connections."""

_OUT_OF_MEMORY_STATUS = 52
"""Exit status of Spark's Java processes after an OutOfMemoryError (SparkExitCode.OOM)."""
_EXECUTOR_ENDED = f"exited with code {_OUT_OF_MEMORY_STATUS}"
_DRIVER_ENDING = "SparkContext was shut down"


def failure_cause(error: BaseException, session: SparkSession) -> str:
    """Return in one line why an action on a DataFrame has failed: the first cause, without Spark's traces.

    Of a stage whose tasks fail one after the other it is what the first of them has said, such as the address
    of a peer that is gone; of Spark's own files, the folder that has no room; of Java, that it had too little
    memory.

    Args:
        error: What the action has raised.
        session: That of the DataFrame; it still runs, unless its Java has run out of memory.
    """
    error = _readable(error)
    return resource_problem(error, session) or one_line(before_begun_again(error, session))


def resource_problem(error: BaseException, session: SparkSession) -> str | None:
    """Return in one line that Spark's Java or its folders had no room, and the option to set; else None."""
    error = _readable(error)
    return _memory_problem(error, session) or own_files_problem(before_begun_again(error, session), session)


def _readable(error: BaseException) -> BaseException:
    """Return `error`, or another error where its text cannot be read, since py4j asks Java for it."""
    from py4j.protocol import Py4JNetworkError

    try:
        str(error)
    except (ConnectionError, Py4JNetworkError) as gone:
        return ConnectionError(f"Spark's Java has ended: {one_line(gone)}")
    return error


def _memory_problem(error: BaseException, session: SparkSession) -> str | None:
    """Return in one line that Spark's Java ran out of memory, and the option to set; None if it did not.

    Java then ends, that of the driver if the session is local. All that `error` says of it may be that a
    connection is gone.
    """
    from py4j.protocol import Py4JNetworkError

    text = str(error)
    if isinstance(error, ConnectionError | Py4JNetworkError) or _DRIVER_ENDING in text:
        setting = "spark.driver.memory" if java_exit_status(_END_S) == _OUT_OF_MEMORY_STATUS else None
    elif _EXECUTOR_ENDED in text or "OutOfMemory" in text:
        setting = "spark.driver.memory" if is_local(session) else "spark.executor.memory"
    else:
        setting = None
    if setting is None:
        return None
    return (
        f"Spark's Java ran out of memory; a large row needs about {ROW_FACTOR} times its size there. Set"
        f" {setting} (1g by default) to more"
    )


def before_begun_again(error: BaseException, session: SparkSession) -> BaseException:
    """Return the failure after which Spark has begun a stage again with some of its tasks, or `error` itself.

    Spark raises the last failure of a stage, and what these tasks say is that they are not all.
    """
    from py4j.protocol import Py4JError

    stage = _GIVEN_UP.search(str(error))
    if stage is None or BEGUN_AGAIN not in str(error):
        return error
    try:
        reasons = _failures_of(int(stage[1]), session)
    except Py4JError:  # Spark has ended meanwhile
        return error
    before = next((reason for reason in reasons if BEGUN_AGAIN not in reason), None)
    return error if before is None else RuntimeError(before)


def _failures_of(stage: int, session: SparkSession) -> list[str]:
    """What the tasks of a stage have failed with, attempt by attempt; those ended for others have not."""
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
