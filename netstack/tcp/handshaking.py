"""Makes a new TCP connection ready for use, on either side.

After optional TLS comes the handshake, in which both ends prove that they know the job's secret (see
`flowcontrol.handshake`). All failures raise `UnprovenError` with a short reason, which contains no text of
the peer. The error also states whether the dialling side should retry. A peer that is not running yet, or
that has dropped this connection for lack of room, may accept the next one. A peer that sends invalid data, or
that rejects our proof, would do the same next time.
"""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import trio

from flowcontrol import NONCE_BYTES, ClientHandshake, Handshake, HandshakeRefused, Identity, Secret

from ..errors import UnprovenError
from .pipe import Stream

__all__ = ["TlsContexts", "fresh_secret"]

_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsContexts:
    """Encryption of connections, as contexts of Python's `ssl`."""

    server: ssl.SSLContext
    """Context of incoming connections; needs a certificate."""
    client: ssl.SSLContext
    """Context of outgoing connections; must verify certificates, to prevent man-in-the-middle attacks."""
    server_name: str | None = None
    """Host name in the certificates; None: the dialled host."""


def fresh_secret() -> Secret:
    """Return a new random secret for one job."""
    return Secret(secrets.token_bytes(_SECRET_BYTES))


def fresh_nonce() -> bytes:
    """Return a new random number for one handshake."""
    return secrets.token_bytes(NONCE_BYTES)


async def answer(transport: trio.SocketStream, tls: TlsContexts | None) -> Stream:
    """Return the stream over an accepted connection, encrypted if `tls` is given.

    Raises:
        UnprovenError: if the TLS handshake fails.
    """
    if tls is None:
        return transport
    return await _encrypted(trio.SSLStream(transport, tls.server, server_side=True))


async def dial(
    address: tuple[str, int], secret: Secret, identity: Identity, tls: TlsContexts | None
) -> Stream:
    """Return a stream to a listener, after both ends have proven that they know the secret.

    Raises:
        UnprovenError: if nothing listens at the address, the peer did not prove itself, or it refused this
            end.
    """
    with _as_unproven():
        transport = await trio.open_tcp_stream(*address)
    try:
        if is_own_end(transport):
            raise UnprovenError("no process listens there")
        stream: Stream = transport
        if tls is not None:
            name = tls.server_name or address[0]
            stream = await _encrypted(trio.SSLStream(transport, tls.client, server_hostname=name))
        await converse(stream, ClientHandshake(secret, identity, fresh_nonce()))
    except BaseException:
        await trio.aclose_forcefully(transport)
        raise
    return stream


async def converse(stream: Stream, handshake: Handshake) -> bytes:
    """Exchange the messages of `handshake` until the peer has proven itself; returns the bytes to send next.

    Data after the handshake is not read.

    Raises:
        UnprovenError: if the peer sent invalid data, or closed the connection.
    """
    said = handshake.begin()
    while not handshake.proven:
        await say(stream, said)
        with _as_unproven():
            data = await stream.receive_some(handshake.wanted)
            if not data:
                raise UnprovenError(handshake.left)
            try:
                said = handshake.receive(bytes(data))
            except HandshakeRefused:
                await refuse(stream, handshake)
                raise
    return said


async def refuse(stream: Stream, handshake: Handshake) -> None:
    """Send the refusal to a peer, if it is still connected."""
    with suppress(UnprovenError):
        await say(stream, handshake.refusal)


async def say(stream: Stream, data: bytes) -> None:
    """Send `data`, if it is not empty.

    Raises:
        UnprovenError: if the peer has closed the connection.
    """
    if data:
        with _as_unproven():
            await stream.send_all(data)


def is_own_end(stream: trio.SocketStream) -> bool:
    """Whether a connection leads back to itself.

    TCP can create such a connection if a free port is dialled and the dialling end happens to get the same
    port.
    """
    try:
        return bool(stream.socket.getsockname() == stream.socket.getpeername())
    except OSError:  # the connection is already broken
        return False


async def _encrypted(stream: trio.SSLStream[trio.SocketStream]) -> Stream:
    with _as_unproven():
        await stream.do_handshake()
    return stream


@contextmanager
def _as_unproven() -> Iterator[None]:
    """Convert errors of a connection into an `UnprovenError`."""
    try:
        yield
    except HandshakeRefused as refusal:
        raise UnprovenError(str(refusal), final=True) from None
    except (OSError, trio.BrokenResourceError) as error:
        raise UnprovenError(_problem(error), final=_is_final(error)) from None


def _is_final(error: BaseException) -> bool:
    """Whether TLS failed on data that the peer sent; a connection that merely ended does not count."""
    cause = error.__cause__
    return isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError)


def _problem(error: BaseException) -> str:
    """Return a short reason why there is no connection."""
    cause = error.__cause__ or error
    if isinstance(cause, ExceptionGroup):  # one error for each address of a name
        return ", ".join(dict.fromkeys(map(_problem, cause.exceptions)))
    if isinstance(cause, ssl.SSLError):
        return f"the TLS handshake failed ({cause.reason or 'the peer left'})"
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)  # without the text that trio adds
    return str(cause) or "the connection broke"
