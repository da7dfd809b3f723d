"""Watch over the stages of shuffles, so that Spark does not repeat one after an error of the user.

Spark repeats a barrier stage three times after any failure of a task. An error in the user's data or code
returns each time. So a thread in the driver looks every `PERIOD_S` at the running stages::

    attempt 0 of a stage fails ---> Spark submits attempt 1 ---> the thread reads why attempt 0 failed
                                                                 the user's error: it cancels the stage
                                                                 another failure:  Spark goes on

The reason of the cancellation is the error, so it is the first line of Spark's exception. Only stages of
queries that contain a shuffle are cancelled.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING, Any

from ..failure_causes import errors_of_stage, java_exit_status, users_error

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

PERIOD_S = 0.5
"""Seconds between two looks at the running stages."""

_lock = threading.Lock()
_watched: weakref.WeakSet[SparkContext] = weakref.WeakSet()


def watch_retries(session: SparkSession, prefix: str) -> None:
    """Cancel, until the Spark context stops, each stage of a shuffle that repeats an error of the user.

    `prefix` begins the names of the functions of shuffles, which are in the plans of queries. Further calls
    for the same context do nothing.
    """
    with _lock:
        if session.sparkContext in _watched:
            return
        _watched.add(session.sparkContext)
    arguments = (session, prefix)
    threading.Thread(target=_watch, args=arguments, name="netstack-retries", daemon=True).start()


def _watch(session: SparkSession, prefix: str) -> None:
    from py4j.protocol import Py4JError

    context, judged = session.sparkContext, set[tuple[int, int]]()
    with suppress(ConnectionError, Py4JError, AttributeError):  # Spark has ended, or PySpark's objects have
        while context._jsc is not None and java_exit_status(wait_s=0) is None:
            tracker = context.statusTracker()
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                attempt = (stage, info.currentAttemptId) if info is not None else (stage, 0)
                if attempt[1] and attempt not in judged:
                    judged.add(attempt)
                    _judge(session, stage, prefix)
            sleep(PERIOD_S)


def _judge(session: SparkSession, stage: int, prefix: str) -> None:
    """Cancel a stage that Spark repeats, if the user's data or code has failed in it."""
    error = next(filter(None, map(users_error, errors_of_stage(stage, session))), None)
    if error is not None and _is_of_shuffle(session, stage, prefix):
        session.sparkContext._jsc.sc().cancelStage(stage, error)


def _is_of_shuffle(session: SparkSession, stage: int, prefix: str) -> bool:
    """Return whether a stage belongs to a query whose plan contains a shuffle."""
    store: Any = session._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    latest_first = (executions.apply(place) for place in reversed(range(executions.size())))
    execution = next((each for each in latest_first if each.stages().contains(stage)), None)
    return execution is not None and prefix in execution.physicalPlanDescription()
