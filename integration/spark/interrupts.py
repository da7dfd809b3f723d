"""Interrupts and calls to Spark: what a signal does that comes meanwhile.

A signal's handler, such as that of Ctrl-C, may raise at any point of the main thread. In the middle of a call
to Java it has Py4J print a traceback, or leaves half an answer on the connection; between the making of a
folder and the note that it is to be deleted, it leaves the folder. So signals are held while a short call
lasts, and a long call runs in a thread of its own, where it is cancelled.
"""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HELD = (signal.SIGINT, signal.SIGTERM)

CANCEL_PERIOD_S = 0.2
"""Time in seconds between two attempts to cancel the jobs of interrupted work."""

MEANWHILE_S = 0.5
"""Time in seconds between two calls of what is done while work on Spark lasts."""

_T = TypeVar("_T")


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Hold signals that Python handles until the block, which is short, has ended.

    Other threads than the main one are never interrupted, so there it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    handlers = {number: handler for number in _HELD if callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, lambda *signalled: came.append(signalled))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for signalled in came:
            handlers[signal.Signals(signalled[0])](*signalled)


def run_cancellable(
    session: SparkSession, work: Callable[[], _T], meanwhile: Callable[[], None] | None = None
) -> _T:
    """Run work on Spark in a thread of its own, and cancel its jobs if the wait is interrupted by Ctrl-C.

    Waiting in this thread for Spark's answer would leave half an answer on the connection. `meanwhile` is
    called here every `MEANWHILE_S`.

    Raises:
        BaseException: Whatever ``work`` raises, or whatever interrupts the wait.
    """
    from pyspark import InheritableThread

    context = session.sparkContext  # the session's own tags do not find its jobs
    tag = f"netstack-{uuid.uuid4().hex}"
    outcome: list[Any] = [None, None]
    done = threading.Event()  # an interrupted Thread.join would take the thread for dead

    def run() -> None:
        try:
            context.addJobTag(tag)
            outcome[0] = work()
        except BaseException as error:
            outcome[1] = error
        finally:
            done.set()

    thread = InheritableThread(target=run, session=session, daemon=True)
    try:
        with held_interrupts():
            thread.start()
        while not done.wait(None if meanwhile is None else MEANWHILE_S):
            if meanwhile is not None:
                meanwhile()
    except BaseException:
        while True:  # one job may follow another
            with held_interrupts():
                context.cancelJobsWithTag(tag)
            if done.wait(CANCEL_PERIOD_S):
                raise
    if outcome[1] is not None:
        raise outcome[1]
    result: _T = outcome[0]
    return result
