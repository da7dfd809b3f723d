"""Where Spark runs its tasks, and how many at once: by the master's URL before it starts, then by itself."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from netstack import SourceError

from ..emulating import heard_by_trio

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

PROBE_S = 3.0
"""How long a master has to accept a connection; Spark itself would try for a minute."""

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:, *\d+)?\])?")
_STANDALONE = "spark://"

_REGISTRATION = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_PERIOD_S = 0.1


def local_slots(master: str) -> int | None:
    """Return how many tasks run at once under a master on this machine; None for another."""
    parts = _LOCAL.fullmatch(master)
    if parts is None:
        return None
    return (os.cpu_count() or 1) if parts[1] == "*" else int(parts[1] or 1)


def is_on_this_machine(master: str) -> bool:
    """Tell whether all executors under a master are on this machine, in the driver or beside it."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def require_master(master: str) -> None:
    """Check that a master of Spark's own kind (``spark://``) accepts connections; of others nothing is known.

    Raises:
        SourceError: None of its addresses does, within `PROBE_S`.
    """
    if not master.startswith(_STANDALONE):
        return
    addresses = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            return  # Spark says what is wrong with it
        addresses.append((host.strip("[]"), int(port)))
    if not heard_by_trio(trio.run)(_any_answers, addresses):
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


def is_local(session: SparkSession) -> bool:
    """Tell whether all tasks run in Spark's driver, on this machine."""
    return bool(_context(session).isLocal())


def allows_barriers(session: SparkSession) -> bool:
    """Tell whether Spark runs barrier stages at all; with dynamic allocation it does not."""
    spark: Any = session.sparkContext._jvm
    conf = _context(session).conf()
    return not spark.org.apache.spark.util.Utils.isDynamicAllocationEnabled(conf)


def count_slots(session: SparkSession, wanted: int = 1) -> int:
    """Return how many tasks Spark can run at once: the cores of all executors by ``spark.task.cpus``.

    Spark refuses a barrier stage that does not fit when a job reaches it, and only after it has looked again
    every fifteen seconds for ten minutes. So this is asked before.

    Of an application that has just begun the executors may be on their way: if there are fewer slots than
    `wanted`, they are waited for until it is ``spark.scheduler.maxRegisteredResourcesWaitingTime`` old.
    """
    context = _context(session)
    profile = context.resourceProfileManager().defaultResourceProfile()
    deadline_ms = context.startTime() + (0 if context.isLocal() else _registration_ms(context))
    while True:
        slots = int(context.maxNumConcurrentTasks(profile))
        if slots >= wanted or time.time() * 1000 >= deadline_ms:
            return slots
        time.sleep(_PERIOD_S)


def no_executor(session: SparkSession) -> str:
    """Say that a cluster has given Spark no slot at all, and what to do about it."""
    wait_s = _registration_ms(_context(session)) / 1000
    return (
        f"no executor of Spark has registered within {wait_s:g} s; see on the master's page whether workers"
        f" have cores and memory free for one, or let Spark wait longer with {_REGISTRATION}"
    )


def _registration_ms(context: Any) -> int:
    return int(context.conf().getTimeAsMs(_REGISTRATION, "30s"))


def _context(session: SparkSession) -> Any:
    """The SparkContext of the Java process."""
    return session.sparkContext._jsc.sc()
