"""How the tasks of a barrier stage find each other: each says where it listens, and is told what all say.

::

    task 0    allGather({host, port, token}) --.
    task 1    allGather({host, port, token}) --+--> what all have said: addresses, and a secret
    task 2    allGather({host, port, token}) --'

    task 1    ask({host, port, token}) --> task 0 at an agreed port, the same answer but sooner
    task 2    ask({host, port, token}) -->

Spark looks only once a second whether the answer to an `allGather` is there, so the tasks tell it to each
other meanwhile: task 0 collects what they say at a port that all can compute, on the host that Spark names.
The answers are the same. If that port cannot be reached, or the tasks compute different ones, a second is
lost and nothing else.

The driver makes a secret for each shuffle and sends it along with the function that the tasks run. What
belongs to an attempt of the stage is derived from it: the port and the seal of what the tasks ask, from the
number of the attempt's first task; and the secret of their connections, from all that has been said, in which
each has put a random token. So nobody gets in from an earlier attempt. Whoever can read Spark's RPC can read
the secret, so on a network that is not trusted ``spark.network.crypto.enabled`` or ``spark.ssl.rpc.enabled``
has to be on, as it has to be for Spark itself.
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

from ..errors import MeetingError
from .masters import LOOPBACK

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext

_TOKEN_BYTES = 16
_NAME_DIGITS = 16
_MAX_GREETING_BYTES = 512
"""A host has at most 253 characters."""

_PORTS = range(20_000, 32_000)
"""Below those that systems give to whoever wants any."""
_PORT_TRIES = 3
_GRACE_S = 0.2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.1

_WORD_OF_THE_FIRST_S = 1.0
"""How long the others leave it to task 0 to say who has not come."""

LONG_S = 60.0
"""After so long the log says whom a task waits for."""

_log = logging.getLogger("netstack.spark")

_ATTEMPT_LABEL, _CONNECTIONS_LABEL = b"netstack attempt of a stage: ", b"netstack connections of an attempt: "


class Meeting(msgspec.Struct, frozen=True):
    """What the tasks of an attempt have agreed on."""

    addresses: list[tuple[str, int]]
    """Where each task listens, by its index."""
    secret: Secret
    attempt: str
    """A name of this attempt of the stage."""


class _Greeting(msgspec.Struct, frozen=True):
    """What a task says of itself."""

    index: int
    host: str
    port: int
    token: bytes
    """Random, so that what all have said is never said again."""


class Rendezvous:
    """Brings one task of a barrier stage to its peers; to be used once.

    Args:
        context: Spark's.
        secret: The secret that all tasks of the stage have been given.
        loopback: Whether all tasks run on one machine, so that none has to be reached from another.
    """

    def __init__(self, context: BarrierTaskContext, secret: Secret, *, loopback: bool) -> None:
        self._context = context
        self._index = context.partitionId()
        self._hosts = [LOOPBACK if loopback else _host(info.address) for info in context.getTaskInfos()]
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
        """Where this task has to listen: where Spark reaches its executor."""
        return self._hosts[self._index]

    async def meet(self, port: int) -> Meeting:
        """Tell the other tasks of the stage that this one listens at `port`, and wait until all have done so.

        Spark waits for ``spark.barrier.sync.timeout``, a year by default.

        Raises:
            MeetingError: Spark has given up.
            Exception: Whatever else Spark's `allGather` raises.
        """
        greeting = _Greeting(self._index, self.host, port, secrets.token_bytes(_TOKEN_BYTES))
        self._ask_spark(msgspec.json.encode(greeting))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_others if self._index == 0 else self._ask_first, greeting)
            nursery.start_soon(self._wait_for_spark)
            nursery.start_soon(self._say_who_is_awaited)
            await self._answered.wait()
            nursery.cancel_scope.cancel()
        if self._failure is not None and not self._greetings:
            raise self._failure
        return self._meeting()

    def finish(self) -> None:
        """Wait for Spark's answer if this process could end before it is there.

        A worker that Spark uses again takes it, within a second, beside whatever it does then.
        """
        if self._thread is not None and not os.environ.get("SPARK_REUSE_WORKER"):
            self._thread.join()

    def _answer(self, greetings: list[_Greeting]) -> None:
        self._greetings = greetings
        self._answered.set()

    def _meeting(self) -> Meeting:
        said = msgspec.json.encode(self._greetings)
        addresses = [(greeting.host, greeting.port) for greeting in self._greetings]
        name = hashlib.sha256(said).hexdigest()[:_NAME_DIGITS]
        return Meeting(addresses, Secret(self._secret.sign(_CONNECTIONS_LABEL + said)), name)

    # By Spark.

    def _ask_spark(self, message: bytes) -> None:
        answer_soon = trio.lowlevel.current_trio_token().run_sync_soon

        def ask_spark() -> None:
            answer: list[_Greeting] | BaseException
            try:
                texts = self._context.allGather(message.decode())
                answer = [msgspec.json.decode(text, type=_Greeting) for text in texts]
            except BaseException as error:
                # Its frames have a socket of PySpark's, which a cycle with this one would keep open.
                answer = error.with_traceback(None)
            with suppress(trio.RunFinishedError):  # the other answer was there long ago
                answer_soon(self._hear_spark, answer)

        # A call of Spark's cannot be interrupted: if the stage fails, such a thread ends with the process.
        self._thread = threading.Thread(target=ask_spark, name="netstack-rendezvous", daemon=True)
        self._thread.start()

    def _hear_spark(self, answer: list[_Greeting] | BaseException) -> None:
        self._by_spark = answer
        self._answered_by_spark.set()

    async def _wait_for_spark(self) -> None:
        """Take Spark's answer if it is still wanted a moment later.

        Now and then Spark answers one task at once, and no other: that one has still to tell them.
        """
        await self._answered_by_spark.wait()
        if not isinstance(self._by_spark, BaseException):
            await trio.sleep(_GRACE_S)
            self._answer(self._by_spark)
            return
        ended = isinstance(self._by_spark, EOFError)  # all that PySpark leaves of Spark's words
        self._failure = await self._not_all_there() if ended else self._by_spark
        self._answered.set()

    async def _not_all_there(self) -> MeetingError:
        """Say who has not come. Task 0 knows it and has the first word; the others know of task 0 only."""
        if self._index:
            await trio.sleep(_WORD_OF_THE_FIRST_S)
        absent = self._absent()
        who = f" before {absent} had come" if absent else ""
        return MeetingError(
            f"Spark has ended the barrier at which tasks meet{who} (spark.barrier.sync.timeout)"
        )

    def _absent(self) -> str:
        """The tasks that have not come, in words, as far as this one knows: task 0 knows of all."""
        known = range(self._size if self._index == 0 else 1)
        absent = [index for index in known if index not in self._collected]
        return f"task{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}" if absent else ""

    async def _say_who_is_awaited(self) -> None:
        """Say after a while who has not come: Spark waits on, also for those that it will never begin."""
        await trio.sleep(LONG_S)
        _log.warning(
            "task %d of stage %d waits for %s; if some of its rows are cached and others were lost, as"
            " happens with an executor, it waits in vain: stop the query and unpersist() the DataFrame",
            self._index,
            self._context.stageId(),
            "others" if self._index else self._absent(),
        )

    # By each other.

    async def _tell_others(self, greeting: _Greeting) -> None:
        """Be task 0: collect what all say, and tell them."""
        others = self._size - 1
        self._collect(greeting)
        async with Letterbox(
            self.host, self._attempt_secret, others, _MAX_GREETING_BYTES, self._tell
        ) as letterbox:
            for port in self.agreed_ports():
                with suppress(OSError):
                    await letterbox.open(port)
                    await letterbox.serve()
                    self._answer(self._all())
                    return

    async def _tell(self, question: bytes) -> bytes:
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
        """Ask task 0, at all ports at which it may be."""
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
        """Return the ports at which task 0 may listen for the others; all compute the same."""
        signed = self._attempt_secret.sign(b"ports")
        numbers = struct.unpack_from(f">{_PORT_TRIES}I", signed)
        return list(dict.fromkeys(_PORTS[number % len(_PORTS)] for number in numbers))


def _host(address: str) -> str:
    """The host of an address of Spark's, which may have a port and brackets."""
    return address.rpartition(":")[0].strip("[]") or address


def _attempt_secret(context: BarrierTaskContext, secret: Secret) -> Secret:
    """What only the tasks of this attempt have in common.

    Spark numbers all tasks of an application in one row. Those of a barrier stage are launched together and
    as a rule in order, so the number of the first one is known to all.
    """
    first = context.taskAttemptId() - context.partitionId()
    return Secret(secret.sign(_ATTEMPT_LABEL + struct.pack(">qq", context.stageId(), first)))
