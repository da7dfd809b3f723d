"""Rendezvous of the tasks of a barrier stage: each task reports its address and receives those of all.

::

    task 0    allGather({host, port, token}) --.
    task 1    allGather({host, port, token}) --+--> all greetings: addresses, and a secret
    task 2    allGather({host, port, token}) --'

    task 1    ask({host, port, token}) --> task 0 at an agreed port, the same answer but sooner
    task 2    ask({host, port, token}) -->

Spark checks only once a second whether an `allGather` is complete, so meanwhile the tasks exchange their
greetings themselves. Task 0 collects them at a port that all tasks can compute, on the host that Spark
reports. The answers are the same. If the port cannot be reached, or the tasks compute different ports, only a
second is lost.

The driver makes a secret for each shuffle and sends it with the function that the tasks run. All values for
an attempt of the stage are derived from the secret. The port and the signature of questions also depend on
the number of the attempt's first task. The secret of the connections also depends on all greetings, each of
which contains a random token. So no connection of an earlier attempt is accepted. The secret can be read in
Spark's RPC, so on an untrusted network ``spark.network.crypto.enabled`` or ``spark.ssl.rpc.enabled`` has to
be on, as for Spark itself.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from flowcontrol import Secret
from netstack import Letterbox, ask_letterbox

from ..base.errors import MeetingError
from .driver import LOOPBACK

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext

_TOKEN_BYTES = 16
_NAME_DIGITS = 16
_MAX_GREETING_BYTES = 512
"""Maximum size of a greeting. The host has at most 253 characters."""

_PORTS = range(20_000, 32_000)
"""Ports for task 0, below the ephemeral ports of operating systems."""
_PORT_TRIES = 3
_GRACE_S = 0.2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.1

_FIRST_REPORTS_S = 1.0
"""Seconds for which other tasks wait, so that task 0 reports the missing tasks first."""

LONG_S = 60.0
"""Seconds until the log names the tasks for which a task waits."""

_log = logging.getLogger("netstack.spark")

_ATTEMPT_LABEL, _CONNECTIONS_LABEL = b"netstack attempt of a stage: ", b"netstack connections of an attempt: "


class Meeting(msgspec.Struct, frozen=True):
    """Outcome of a rendezvous, the same for all tasks of an attempt."""

    addresses: list[tuple[str, int]]
    """Addresses of all tasks, by index."""
    secret: Secret
    attempt: str
    """Name of this attempt of the stage."""


class _Greeting(msgspec.Struct, frozen=True):
    """Message of a task to the others."""

    index: int
    host: str
    port: int
    token: bytes
    """Random bytes, so that no two attempts have the same greetings."""


class Rendezvous:
    """Connects one task of a barrier stage with its peers. Each instance is used once.

    All tasks of the stage know `secret`. `loopback`: they all run on one machine.
    """

    def __init__(self, context: BarrierTaskContext, secret: Secret, *, loopback: bool) -> None:
        self._context = context
        self._index = context.partitionId()
        # An address from Spark may have a port and brackets.
        hosts = [
            info.address.rpartition(":")[0].strip("[]") or info.address for info in context.getTaskInfos()
        ]
        self._hosts = [LOOPBACK] * len(hosts) if loopback else hosts
        self._size = len(self._hosts)
        self._secret = secret
        self._attempt_secret = _attempt_secret(context, secret)
        self._collected: dict[int, _Greeting] = {}
        self._all_collected = trio.Event()
        self._greetings: list[_Greeting] = []
        self._answered = trio.Event()
        self._by_spark: list[_Greeting] | BaseException = []
        self._answered_by_spark = trio.Event()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def host(self) -> str:
        """Address at which this task has to listen: the one at which Spark reaches its executor."""
        return self._hosts[self._index]

    async def meet(self, port: int) -> Meeting:
        """Report to the other tasks of the stage that this task listens at `port`, and wait for all of them.

        Spark waits for ``spark.barrier.sync.timeout``, a year by default.

        Raises:
            MeetingError: Spark has stopped waiting for tasks.
            Exception: Any other error of Spark's `allGather`.
        """
        greeting = _Greeting(self._index, self.host, port, secrets.token_bytes(_TOKEN_BYTES))
        self._ask_spark(msgspec.json.encode(greeting))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._collect_greetings if self._index == 0 else self._ask_first, greeting)
            nursery.start_soon(self._wait_for_spark)
            nursery.start_soon(self._log_missing)
            await self._answered.wait()
            nursery.cancel_scope.cancel()
        if self._failure is not None and not self._greetings:
            raise self._failure
        greetings = msgspec.json.encode(self._greetings)
        addresses = [(greeting.host, greeting.port) for greeting in self._greetings]
        name = hashlib.sha256(greetings).hexdigest()[:_NAME_DIGITS]
        return Meeting(addresses, Secret(self._secret.sign(_CONNECTIONS_LABEL + greetings)), name)

    def finish(self) -> None:
        """Wait for Spark's answer if this process could end before the answer arrives.

        A worker that Spark reuses does not end, and receives the answer within a second.
        """
        if self._thread is not None and not os.environ.get("SPARK_REUSE_WORKER"):
            self._thread.join()

    def _answer(self, greetings: list[_Greeting]) -> None:
        self._greetings = greetings
        self._answered.set()

    # Greetings exchanged by Spark.

    def _ask_spark(self, message: bytes) -> None:
        run_soon = trio.lowlevel.current_trio_token().run_sync_soon

        def take(answer: list[_Greeting] | BaseException) -> None:
            self._by_spark = answer
            self._answered_by_spark.set()

        def ask_spark() -> None:
            answer: list[_Greeting] | BaseException
            try:
                texts = self._context.allGather(message.decode())
                answer = [msgspec.json.decode(text, type=_Greeting) for text in texts]
            except BaseException as error:
                # Its frames refer to a socket of PySpark, which a cycle with this frame would keep open.
                answer = error.with_traceback(None)
            with suppress(trio.RunFinishedError):  # the other answer arrived first
                run_soon(take, answer)

        # A call to Spark cannot be interrupted: if the stage fails, this thread ends with the process.
        self._thread = threading.Thread(target=ask_spark, name="netstack-rendezvous", daemon=True)
        self._thread.start()

    async def _wait_for_spark(self) -> None:
        """Wait for Spark's answer, and use it if the tasks' own exchange has not given one a moment later.

        Spark sometimes answers one task first. The pause lets that task still answer the others.
        """
        await self._answered_by_spark.wait()
        if not isinstance(self._by_spark, BaseException):
            await trio.sleep(_GRACE_S)
            self._answer(self._by_spark)
            return
        ended = isinstance(self._by_spark, EOFError)  # PySpark drops Spark's message
        self._failure = await self._missing_tasks() if ended else self._by_spark
        self._answered.set()

    async def _missing_tasks(self) -> MeetingError:
        """Return the error that names the missing tasks. Task 0 knows all of them and reports first."""
        if self._index:
            await trio.sleep(_FIRST_REPORTS_S)
        absent = self._absent()
        who = f" before {absent} had arrived" if absent else ""
        return MeetingError(
            f"Spark timed out at the barrier where the tasks meet{who} (spark.barrier.sync.timeout)"
        )

    def _absent(self) -> str:
        """Return the missing tasks as text, as far as this task knows them. Task 0 knows all."""
        known = range(self._size if self._index == 0 else 1)
        absent = [index for index in known if index not in self._collected]
        return f"task{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}" if absent else ""

    async def _log_missing(self) -> None:
        """Log the missing tasks after a while, as Spark also waits for tasks that it will never start."""
        await trio.sleep(LONG_S)
        _log.warning(
            "task %d of stage %d waits for %s; if an executor was lost with some of the cached rows, the "
            "task will wait forever: then stop the query and unpersist() the DataFrame",
            self._index,
            self._context.stageId(),
            "others" if self._index else self._absent(),
        )

    # Greetings exchanged by the tasks themselves.

    async def _collect_greetings(self, greeting: _Greeting) -> None:
        """Collect all greetings and send them to all tasks; for task 0 only."""
        others = self._size - 1
        self._collect(greeting)
        async with Letterbox(
            self.host, self._attempt_secret, others, _MAX_GREETING_BYTES, self._reply
        ) as letterbox:
            for port in self.agreed_ports():
                with suppress(OSError):
                    await letterbox.open(port)
                    await letterbox.serve()
                    self._answer(self._all())
                    return

    async def _reply(self, question: bytes) -> bytes:
        self._collect(msgspec.json.decode(question, type=_Greeting))
        await self._all_collected.wait()
        return msgspec.json.encode(self._all())

    def _collect(self, greeting: _Greeting) -> None:
        self._collected[greeting.index] = greeting
        if len(self._collected) == self._size:
            self._all_collected.set()

    def _all(self) -> list[_Greeting]:
        return [self._collected[index] for index in range(self._size)]

    async def _ask_first(self, greeting: _Greeting) -> None:
        """Ask task 0 for all greetings, at each port at which it may listen."""
        async with trio.open_nursery() as nursery:
            for port in self.agreed_ports():
                nursery.start_soon(self._ask_at, (self._hosts[0], port), msgspec.json.encode(greeting))

    async def _ask_at(self, address: tuple[str, int], question: bytes) -> None:
        longest = _MAX_GREETING_BYTES * self._size
        pause = _FIRST_PAUSE_S
        while True:
            answer = await ask_letterbox(address, self._attempt_secret, question, longest)
            if answer is not None:
                self._answer(msgspec.json.decode(answer, type=list[_Greeting]))
                return
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def agreed_ports(self) -> list[int]:
        """Return the ports at which task 0 may listen. All tasks compute the same ports."""
        signed = self._attempt_secret.sign(b"ports")
        numbers = struct.unpack_from(f">{_PORT_TRIES}I", signed)
        return list(dict.fromkeys(_PORTS[number % len(_PORTS)] for number in numbers))


def _attempt_secret(context: BarrierTaskContext, secret: Secret) -> Secret:
    """Return the secret that only the tasks of this attempt can derive.

    Spark numbers all tasks of an application consecutively. Tasks of a barrier stage are launched together
    and usually in order, so each can compute the number of the first one.
    """
    first = context.taskAttemptId() - context.partitionId()
    return Secret(secret.sign(_ATTEMPT_LABEL + struct.pack(">qq", context.stageId(), first)))
