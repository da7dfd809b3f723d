"""A connection on its way from accepted, or dialled, to proven: TLS if it is wanted, then the handshake.

Everything that can go wrong ends in `UnprovenError` with a reason in a few words, none of which a peer has
chosen. Who dials also learns whether to try again: a peer that is not there yet, or has put this end out
among strangers, may be there later; one that says something wrong, or refuses the proof, will do so again.
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

_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsContexts:
    """Encryption of connections, as contexts of Python's `ssl`."""

    server: ssl.SSLContext
    """Context of incoming connections; needs a certificate."""
    client: ssl.SSLContext
    """Context of outgoing connections; has to verify certificates, against a man in the middle."""
    server_name: str | None = None
    """The name in the certificates; None: the host that is dialled."""


def fresh_secret() -> Secret:
    """A new random secret, for one job."""
    return Secret(secrets.token_bytes(_SECRET_BYTES))


def fresh_nonce() -> bytes:
    """A new random number, for one handshake."""
    return secrets.token_bytes(NONCE_BYTES)


async def answer(transport: trio.SocketStream, tls: TlsContexts | None) -> Stream:
    """The stream over an accepted connection, encrypted if `tls` says so.

    Raises:
        UnprovenError: if the peer does not speak TLS.
    """
    if tls is None:
        return transport
    return await _encrypted(trio.SSLStream(transport, tls.server, server_side=True))


async def dial(
    address: tuple[str, int], secret: Secret, identity: Identity, tls: TlsContexts | None
) -> Stream:
    """A proven stream to a listener.

    Raises:
        UnprovenError: if there is none, or it did not prove itself, or refused this end.
    """
    with _as_unproven():
        transport = await trio.open_tcp_stream(*address)
    try:
        if is_own_end(transport):
            raise UnprovenError("nobody listens there")
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
    """Exchange the messages of `handshake` until the peer is proven; returns what is to be sent then.

    Nothing is read that comes behind the handshake.

    Raises:
        UnprovenError: if the peer said something wrong, or left.
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
    """Tell a peer, if it is still there, that it need not come again."""
    with suppress(UnprovenError):
        await say(stream, handshake.refusal)


async def say(stream: Stream, data: bytes) -> None:
    """Send `data`, if there is any.

    Raises:
        UnprovenError: if the peer has left.
    """
    if data:
        with _as_unproven():
            await stream.send_all(data)


def is_own_end(stream: trio.SocketStream) -> bool:
    """Whether a connection leads back to itself.

    TCP makes such a one when a free port is dialled and, by chance, is given to the dialling end, too.
    """
    try:
        return bool(stream.socket.getsockname() == stream.socket.getpeername())
    except OSError:  # it is broken already
        return False


async def _encrypted(stream: trio.SSLStream[trio.SocketStream]) -> Stream:
    with _as_unproven():
        await stream.do_handshake()
    return stream


@contextmanager
def _as_unproven() -> Iterator[None]:
    """Turn what a connection can die of into an `UnprovenError`."""
    try:
        yield
    except HandshakeRefused as refusal:
        raise UnprovenError(str(refusal), final=True) from None
    except (OSError, trio.BrokenResourceError) as error:
        raise UnprovenError(_problem(error), final=_is_final(error)) from None


def _is_final(error: BaseException) -> bool:
    """Whether TLS failed because of what the peer said, and not because it said nothing."""
    cause = error.__cause__
    return isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError)


def _problem(error: BaseException) -> str:
    """Why there is no connection, in a few words."""
    cause = error.__cause__ or error
    if isinstance(cause, ExceptionGroup):  # one for each address that a name has
        return ", ".join(dict.fromkeys(map(_problem, cause.exceptions)))
    if isinstance(cause, ssl.SSLError):
        return f"no TLS handshake ({cause.reason or 'the peer left'})"
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)  # without what trio adds to it
    return str(cause) or "the connection broke"
