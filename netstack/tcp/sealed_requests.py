"""Sealed requests and replies between processes. Each request opens its own TCP connection, which closes
after the reply.

::

    ask_letterbox:  dial, seal the question, half-close  -->  Letterbox: read, unseal, `answer`
                    read, unseal                         <--  seal the answer, close

The seal of an answer covers the question, so that no other message can replace the answer. A question that
arrives again, after a lost answer or because a stranger replays it, is answered again, but counts only once.
Strangers are handled as in `Listener`: they are dropped after a while, or when there is no room, and each
causes one line in the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

import trio

from flowcontrol import SEAL_BYTES, HandshakeRefused, Secret, seal, unseal

from ..errors import UnprovenError
from .listener import Listener
from .pipe import ConnectionLimits

__all__ = ["Letterbox", "ask_letterbox"]

_STRANGERS = 16
_TIMEOUT_S = 60.0
_QUESTION = b"question"

Answer = Callable[[bytes], Awaitable[bytes]]


class Letterbox(trio.abc.AsyncResource):
    """Listens at `host` for `count` different questions of at most `max_bytes` bytes; `answer` computes the
    answer to each.
    """

    def __init__(self, host: str, secret: Secret, count: int, max_bytes: int, answer: Answer) -> None:
        self._secret = secret
        self._count = count
        self._asked: set[bytes] = set()
        self._answered: set[bytes] = set()
        self._max_bytes = max_bytes
        self._answer = answer
        limits = ConnectionLimits(max_connections=count + _STRANGERS, handshake_timeout_s=_TIMEOUT_S)
        self._listener = Listener(host, limits, self._admit)
        self._done = trio.CancelScope()

    async def open(self, port: int) -> None:
        """Begin to listen.

        Raises:
            OSError: if it cannot listen at this host and port.
        """
        await self._listener.open(port)

    async def serve(self) -> None:
        """Accept questions until all have been answered."""
        if self._count:
            with self._done:
                await self._listener.serve()

    async def aclose(self) -> None:
        """Stop listening."""
        self._listener.close()
        await trio.lowlevel.checkpoint()

    async def _admit(self, stream: trio.SocketStream) -> None:
        question = await _receive(stream, self._secret, _QUESTION, self._max_bytes)
        name = hashlib.sha256(question).digest()
        if name not in self._asked:  # a replay of an overheard question stays a stranger
            self._asked.add(name)
            self._listener.proven(stream)
        answer = await self._answer(question)
        await _send(stream, seal(self._secret, _answer_to(question), answer))
        await trio.aclose_forcefully(stream)
        self._listener.left(stream)
        self._answered.add(name)
        if len(self._answered) == self._count:
            self._done.cancel()


async def ask_letterbox(
    address: tuple[str, int], secret: Secret, question: bytes, max_bytes: int
) -> bytes | None:
    """Send a question, and return the answer, of at most `max_bytes` bytes; None if no peer that knows the
    secret answers."""
    try:
        async with await trio.open_tcp_stream(*address) as stream:
            await _send(stream, seal(secret, _QUESTION, question))
            return await _receive(stream, secret, _answer_to(question), max_bytes)
    except (OSError, UnprovenError):
        return None


def _answer_to(question: bytes) -> bytes:
    return b"answer to " + hashlib.sha256(question).digest()


async def _send(stream: trio.SocketStream, sealed: bytes) -> None:
    try:
        await stream.send_all(sealed)
        await stream.send_eof()
    except trio.BrokenResourceError:
        raise UnprovenError("the peer has disconnected") from None


async def _receive(stream: trio.SocketStream, secret: Secret, purpose: bytes, max_bytes: int) -> bytes:
    sealed = bytearray()
    try:
        async for piece in stream:
            sealed += piece
            if len(sealed) > max_bytes + SEAL_BYTES:
                raise UnprovenError(f"the message has more than the {max_bytes} bytes that are allowed")
        return unseal(secret, purpose, bytes(sealed))
    except trio.BrokenResourceError:
        raise UnprovenError("the peer disconnected before the end of its message") from None
    except HandshakeRefused as refusal:
        raise UnprovenError(str(refusal)) from None
