"""Why an action of Spark's has failed, in one line, for whoever has called `shuffle`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .own_files import own_files_problem
from .spark_errors import BEGUN_AGAIN, one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GIVEN_UP = re.compile(r"Job aborted due to stage failure: ShuffleMapStage (\d+) ")


def failure_cause(error: BaseException, session: SparkSession) -> str:
    """Return in one line why an action on a DataFrame has failed: the first cause, without Spark's traces.

    Of a stage whose tasks fail one after the other it is what the first of them has said, such as the address
    of a peer that is gone; of Spark's own files, the folder that has no room.

    Args:
        error: What the action has raised.
        session: That of the DataFrame; it still runs.
    """
    error = before_begun_again(error, session)
    return own_files_problem(error, session) or one_line(error)


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
