"""How the tasks of a shuffle find each other: in one `allGather`, each says where it listens.

::

    task 0    listens,  allGather({host, port, secret, attempt})  --.
    task 1    listens,  allGather({host, port})  -------------------+--> addresses of all, secret, attempt
    task 2    listens,  allGather({host, port})  --'

The secret is new for each attempt of the stage. Task 0 makes it, and it is nowhere but in the memory of the
tasks and in this one message, which goes to Spark's driver and from there to the tasks, as Spark's own
secrets do. Whoever can read Spark's RPC can read it, so on a network that is not trusted
``spark.network.crypto.enabled`` or ``spark.ssl.rpc.enabled`` has to be on, as it has to be for Spark itself.

Spark takes a whole second for an `allGather`, because it looks only once a second whether the answer is
there. So there is one and not two, and a task gets on with its input meanwhile.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec

from flowcontrol import Secret

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext

_SECRET_BYTES = 32
_ATTEMPT_BYTES = 8


class SecretToCome(Secret):
    """The secret of somebody who listens before it is known; until it is, nobody can prove to know it."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        super().__init__(secrets.token_bytes(_SECRET_BYTES))
        self._known: Secret | None = None

    def reveal(self, secret: Secret) -> None:
        """Be this secret from now on."""
        self._known = secret

    def sign(self, message: bytes) -> bytes:
        """The HMAC-SHA256 of `message`, 32 bytes."""
        return self._known.sign(message) if self._known is not None else super().sign(message)


class Meeting(msgspec.Struct, frozen=True):
    """What the tasks have agreed on."""

    addresses: list[tuple[str, int]]
    """Where each listens, by index."""
    secret: Secret
    attempt: str
    """A name of this attempt of the stage."""


class _Greeting(msgspec.Struct):
    """What a task says; task 0 says more."""

    host: str
    port: int
    secret: bytes = b""
    attempt: str = ""


def meet(context: BarrierTaskContext, address: tuple[str, int]) -> Meeting:
    """Tell the other tasks of the stage where this one listens, and wait until all have done so."""
    greeting = _Greeting(*address)
    if context.partitionId() == 0:
        greeting.secret = secrets.token_bytes(_SECRET_BYTES)
        greeting.attempt = secrets.token_hex(_ATTEMPT_BYTES)
    told = context.allGather(msgspec.json.encode(greeting).decode())
    greetings = [msgspec.json.decode(text, type=_Greeting) for text in told]
    addresses = [(greeting.host, greeting.port) for greeting in greetings]
    return Meeting(addresses, Secret(greetings[0].secret), greetings[0].attempt)


def own_host(context: BarrierTaskContext) -> str:
    """Return the host of the executor that this task runs in, by which Spark's other executors reach it."""
    address = context.getTaskInfos()[context.partitionId()].address
    return address.rpartition(":")[0].strip("[]") or address
