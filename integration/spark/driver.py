"""The driver's calls to Spark: location of tasks, number of slots, and handling of interrupts.

The handler of a signal, such as Ctrl-C, may raise an exception at any point of the main thread. During a call
to Java, the exception makes Py4J print a traceback, or leaves half an answer on the connection. If the
exception is raised when a folder has been created, but its deletion is not registered yet, the folder is left
behind. So signals are delayed during a short call. A long call runs in its own thread, and is cancelled
there.
"""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from netstack import SourceError

from ..base.signals import ctrl_c_to_trio, held_interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

PROBE_S = 3.0
"""Seconds within which a master has to accept a connection. Spark itself would try for a minute."""

CANCEL_PERIOD_S = 0.2
"""Seconds between two attempts to cancel the jobs of interrupted work."""

MEANWHILE_S = 0.5
"""Seconds between two calls of `meanwhile` while work on Spark is running."""

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:, *\d+)?\])?")
_STANDALONE = "spark://"
_REGISTRATION = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_SLOTS_PERIOD_S = 0.1

_T = TypeVar("_T")

# Masters, by their URL.


def local_slots(master: str) -> int | None:
    """Return the number of slots of a local master; None for another master."""
    parts = _LOCAL.fullmatch(master)
    if parts is None:
        return None
    return (os.cpu_count() or 1) if parts[1] == "*" else int(parts[1] or 1)


def is_on_this_machine(master: str) -> bool:
    """Return whether all executors under a master run on this machine, in the driver or beside it."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def require_master(master: str) -> None:
    """Check that a standalone master (``spark://``) accepts connections. Other masters are not checked.

    Raises:
        SourceError: No address accepts a connection within `PROBE_S`.
    """
    if not master.startswith(_STANDALONE):
        return
    addresses = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            return  # Spark reports the problem
        addresses.append((host.strip("[]"), int(port)))
    if not ctrl_c_to_trio(trio.run)(_any_answers, addresses):
        raise SourceError(f"Spark does not start: nothing answers at {master} within {PROBE_S:g} s")


async def _any_answers(addresses: list[tuple[str, int]]) -> bool:
    answered = False

    async def ask(host: str, port: int) -> None:
        nonlocal answered
        with suppress(OSError):
            async with await trio.open_tcp_stream(host, port):
                answered = True
                nursery.cancel_scope.cancel()

    with trio.move_on_after(PROBE_S):
        async with trio.open_nursery() as nursery:
            for host, port in addresses:
                nursery.start_soon(ask, host, port)
    return answered


# Tasks of a running session.


def is_local(session: SparkSession) -> bool:
    """Return whether all tasks run in Spark's driver, on this machine."""
    return bool(_context(session).isLocal())


def allows_barriers(session: SparkSession) -> bool:
    """Return whether Spark can run barrier stages. With dynamic allocation it cannot."""
    spark: Any = session.sparkContext._jvm
    conf = _context(session).conf()
    return not spark.org.apache.spark.util.Utils.isDynamicAllocationEnabled(conf)


def count_slots(session: SparkSession, wanted: int = 1) -> int:
    """Return how many tasks Spark can run at once: the cores of all executors over ``spark.task.cpus``.

    If a barrier stage needs more slots than there are, Spark rejects it late: when a job has reached the
    stage, and Spark has checked every fifteen seconds for ten minutes. So callers check first. The executors
    of a new application may not have registered yet. If there are fewer slots than `wanted`, this function
    waits for executors until the application is ``spark.scheduler.maxRegisteredResourcesWaitingTime`` old.
    """
    context = _context(session)
    profile = context.resourceProfileManager().defaultResourceProfile()
    deadline_ms = context.startTime() + (0 if context.isLocal() else _registration_ms(context))
    while True:
        slots = int(context.maxNumConcurrentTasks(profile))
        if slots >= wanted or time.time() * 1000 >= deadline_ms:
            return slots
        time.sleep(_SLOTS_PERIOD_S)


def no_executor(session: SparkSession) -> str:
    """Return the message for a cluster that has given Spark no slot."""
    wait_s = _registration_ms(_context(session)) / 1000
    return (
        f"no executor of Spark has registered within {wait_s:g} s; check on the master's page whether "
        f"workers have free cores and memory for one, or let Spark wait longer with {_REGISTRATION}"
    )


def _registration_ms(context: Any) -> int:
    return int(context.conf().getTimeAsMs(_REGISTRATION, "30s"))


def _context(session: SparkSession) -> Any:
    """Return the SparkContext of the Java process."""
    return session.sparkContext._jsc.sc()


# Calls that can be cancelled.


def run_cancellable(
    session: SparkSession, work: Callable[[], _T], meanwhile: Callable[[], None] | None = None
) -> _T:
    """Run work on Spark in its own thread, and cancel its jobs if Ctrl-C interrupts the wait.

    If this thread itself waited for Spark, an interrupt would leave half an answer on the connection.
    `meanwhile` is called in this thread every `MEANWHILE_S`.

    Raises:
        BaseException: Whatever ``work`` raises, or whatever interrupts the wait.
    """
    from pyspark import InheritableThread

    context = session.sparkContext  # the session's own tags do not select its jobs
    tag = f"netstack-{uuid.uuid4().hex}"
    outcome: Future[_T] = Future()
    done = threading.Event()  # an interrupted Thread.join marks a running thread as ended

    def run() -> None:
        try:
            context.addJobTag(tag)
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)
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
        while True:  # another job may follow
            with held_interrupts():
                context.cancelJobsWithTag(tag)
            if done.wait(CANCEL_PERIOD_S):
                raise
    return outcome.result()
