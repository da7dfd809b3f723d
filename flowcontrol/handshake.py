"""Handshake that proves that both ends of a connection belong to the same job; sealed (signed) messages.

Both ends know a secret, and neither sends it. Each end proves its knowledge by an HMAC over all messages of
the handshake so far. The listener, which strangers can reach, sends its own proof only after the dialler's
proof was valid. The numbers are lengths in bytes::

    dialler                                                                listener
       | -- hello 54: magic, version, size, listener's index, own index, nonce --> |
       | <-- challenge 42: magic, version, nonce -------------------------------- |
       | -- proof 32: HMAC(secret, "dialler", hello, challenge) ----------------> |  the dialler is proven
       | <-- proof 32: HMAC(secret, "listener", hello, challenge) --------------- |
    the listener is proven

A listener that refuses a proof sends a refusal instead of its own proof. A listener that only closes the
connection has not refused the proof. It may have had too many unproven connections, and may accept the next
attempt.

A proof cannot be reused elsewhere: the nonces bind it to this connection, the label to this end, the indices
to this pair of processes. Each byte is checked as it arrives. A peer without a valid proof costs the listener
128 bytes of memory and one HMAC.

The handshake keeps strangers out, but it does not authenticate the messages that follow the proofs. Use TLS
against an attacker who can change bytes on the wire.

A *seal* signs a short message with the same secret. It proves that the writer knows the secret, and that
neither the message nor its purpose was changed. It does not encrypt. It does not prove that the message is
new, so the purpose of an answer has to identify the question.
"""

from __future__ import annotations

import hmac
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from .errors import HandshakeRefused, LocalProtocolError

__all__ = [
    "NONCE_BYTES",
    "SEAL_BYTES",
    "ClientHandshake",
    "Handshake",
    "Identity",
    "Secret",
    "ServerHandshake",
    "seal",
    "unseal",
]

NONCE_BYTES = 32
"""Length in bytes of the random number that each end contributes."""

MIN_SECRET_BYTES = 16
"""Minimum length of a secret in bytes. A shorter secret is easier to guess."""

_VERSION = 1
_DIALLER_MAGIC, _LISTENER_MAGIC = b"netsdial", b"netshear"
_HELLO = struct.Struct(f">8sHIII{NONCE_BYTES}s")
_CHALLENGE = struct.Struct(f">8sH{NONCE_BYTES}s")
_DIALLER_LABEL, _LISTENER_LABEL = b"netstack handshake: dialler ", b"netstack handshake: listener"
_PROOF_BYTES = 32
_REFUSAL = b"the proof is refused".ljust(_PROOF_BYTES, b"\0")
_INDEX = struct.Struct(">I")
_DIALLER_AT = _HELLO.size - NONCE_BYTES - _INDEX.size
_MAX_SIZE = 2**32 - 1

_Prefix = Sequence[tuple[bytes, str]]
"""The expected first fields of a message, each with the error text for a peer that sends other bytes."""

_NO_PROTOCOL = "does not speak netstack's protocol"
_VERSION_FIELD = (
    struct.pack(">H", _VERSION),
    f"speaks another version of the handshake; this process speaks version {_VERSION}",
)


class Secret:
    """Secret shared by the processes of a job. Its repr does not show the bytes, but a pickle contains them.

    Raises:
        ValueError: if the secret is shorter than 16 bytes.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes):
            raise TypeError(f"a secret must be bytes, but this one is of type {type(key).__name__}")
        if len(key) < MIN_SECRET_BYTES:
            raise ValueError(
                f"a secret must have at least {MIN_SECRET_BYTES} bytes, but this one has {len(key)}"
            )
        self._key = key

    def sign(self, message: bytes) -> bytes:
        """Return the HMAC-SHA256 of `message`, 32 bytes."""
        return hmac.digest(self._key, message, "sha256")

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __reduce__(self) -> tuple[type[Secret], tuple[bytes]]:
        return Secret, (self._key,)


class Identity(msgspec.Struct, frozen=True):
    """Process indices of the two ends of a connection in a mesh of `size` processes.

    The process `dialler` connects to the process `listener`, which has a lower index.

    Raises:
        ValueError: if a mesh of this size has no such connection.
    """

    dialler: int
    listener: int
    size: int

    def __post_init__(self) -> None:
        if not 0 <= self.listener < self.dialler < self.size <= _MAX_SIZE:
            raise ValueError(
                f"in a mesh of {self.size} processes, process {self.dialler} cannot connect to process "
                f"{self.listener}: connections go from higher to lower numbers"
            )


class Handshake(ABC):
    """Base of both ends: reads messages of fixed size and checks each byte as it arrives.

    `wanted`: bytes that the peer must still send before this end can continue; 0 once the peer is `proven` to
    know the secret. A caller that reads at most `wanted` bytes leaves the data after the handshake in the
    socket. After a refusal, the handshake cannot continue.
    """

    def __init__(self, secret: Secret, nonce: bytes) -> None:
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce must have {NONCE_BYTES} bytes, but this one has {len(nonce)}")
        self.proven = False
        self.wanted = 0
        self._secret = secret
        self._nonce = nonce
        self._prefix: _Prefix = ()
        self._received = b""
        self._said = b""  # hello and challenge, as soon as they are known
        self._refusal = ""

    @property
    def left(self) -> str:
        """Error message for a peer that closes the connection now."""
        return "the peer disconnected before it had proven that it knows the secret"

    @property
    def refusal(self) -> bytes:
        """Bytes to send before closing a refused connection; empty except for a listener that refuses a
        proof.
        """
        return b""

    def begin(self) -> bytes:
        """Return the bytes to send first; empty for the listener."""
        return b""

    def receive(self, data: bytes) -> bytes:
        """Process bytes of the peer; returns the bytes to send to it.

        Raises:
            HandshakeRefused: if the peer sends invalid bytes. The caller then closes the connection.
            LocalProtocolError: if there are more bytes than `wanted`.
        """
        if self._refusal:
            raise HandshakeRefused(self._refusal)
        if len(data) > self.wanted:
            raise LocalProtocolError(
                f"got {len(data)} bytes, but the handshake expects at most {self.wanted}"
            )
        if not data:
            return b""
        self._received += data
        self.wanted -= len(data)
        try:
            self._check()
            return b"" if self.wanted else self._answer()
        except HandshakeRefused as refusal:
            self._refusal, self.wanted = str(refusal), 0
            raise

    def _await(self, size: int, prefix: _Prefix = ()) -> None:
        self.wanted = size
        self._prefix = prefix
        self._received = b""

    def _check(self) -> None:
        """Raise HandshakeRefused if the bytes that have arrived cannot begin a valid message."""
        start = 0
        for expected, problem in self._prefix:
            arrived = self._received[start : start + len(expected)]
            if arrived != expected[: len(arrived)]:
                raise HandshakeRefused(f"the peer {problem}")
            start += len(expected)

    @abstractmethod
    def _answer(self) -> bytes:
        """Process a complete message; returns the answer."""

    def _check_proof(self, label: bytes) -> None:
        if not hmac.compare_digest(self._received, self._secret.sign(label + self._said)):
            raise HandshakeRefused("the peer did not prove that it knows the secret")
        self.proven = True
        self._await(0)


class ClientHandshake(Handshake):
    """The dialling end, which identifies itself, proves itself first, and sends first after the handshake.

    Raises:
        ValueError: if the nonce does not have 32 bytes. A nonce must be random and used once.
    """

    def __init__(self, secret: Secret, identity: Identity, nonce: bytes) -> None:
        super().__init__(secret, nonce)
        self.identity = identity
        self._said = _HELLO.pack(
            _DIALLER_MAGIC, _VERSION, identity.size, identity.listener, identity.dialler, nonce
        )
        self._await(_CHALLENGE.size, ((_LISTENER_MAGIC, _NO_PROTOCOL), _VERSION_FIELD))

    @property
    def left(self) -> str:
        """Error message for a listener that closes the connection now."""
        return "the peer disconnected without an answer"

    def begin(self) -> bytes:
        """Return the hello message."""
        return self._said[: _HELLO.size]

    def _answer(self) -> bytes:
        if len(self._said) > _HELLO.size:
            if self._received == _REFUSAL:
                raise HandshakeRefused(
                    "the peer rejected this process: the peer has another secret, or is already "
                    "connected to this process"
                )
            self._check_proof(_LISTENER_LABEL)
            return b""
        self._said += self._received
        self._await(_PROOF_BYTES)
        return self._secret.sign(_DIALLER_LABEL + self._said)


class ServerHandshake(Handshake):
    """The listening end; `identity` is the peer's identity, None until the peer has proven it.

    The last answer of `receive` is this end's own proof.

    Raises:
        ValueError: if `listener` is the highest index, to which no process connects, or if the nonce does not
            have 32 bytes. A nonce must be random and used once.
    """

    def __init__(self, secret: Secret, listener: int, size: int, nonce: bytes) -> None:
        super().__init__(secret, nonce)
        self.identity: Identity | None = None
        self._last = Identity(size - 1, listener, size)
        fields = (
            (_DIALLER_MAGIC, _NO_PROTOCOL),
            _VERSION_FIELD,
            (_INDEX.pack(size), f"belongs to a mesh of another size; this mesh has {size} processes"),
            (_INDEX.pack(listener), f"wants to reach another process; this is process {listener}"),
        )
        self._await(_HELLO.size, fields)

    @property
    def refusal(self) -> bytes:
        """Refusal for a dialler whose proof is wrong or which is already connected."""
        return _REFUSAL if self._said else b""

    def _check(self) -> None:
        super()._check()
        if not self._said:
            arrived = self._received[_DIALLER_AT : _DIALLER_AT + _INDEX.size]
            lowest, highest = (int.from_bytes(arrived.ljust(_INDEX.size, fill)) for fill in (b"\0", b"\xff"))
            if highest <= self._last.listener or lowest >= self._last.size:
                raise HandshakeRefused(
                    "the peer's index is wrong: only processes with higher indices may connect to this one"
                )

    def _answer(self) -> bytes:
        if not self._said:
            challenge = _CHALLENGE.pack(_LISTENER_MAGIC, _VERSION, self._nonce)
            self._said = self._received + challenge
            self._await(_PROOF_BYTES)
            return challenge
        self._check_proof(_DIALLER_LABEL)
        (dialler,) = _INDEX.unpack_from(self._said, _DIALLER_AT)
        self.identity = Identity(dialler, self._last.listener, self._last.size)
        return self._secret.sign(_LISTENER_LABEL + self._said)


SEAL_BYTES = 32
"""Bytes that a seal adds to a message."""

_LABEL = b"netstack sealed message: "


def seal(secret: Secret, purpose: bytes, body: bytes) -> bytes:
    """Return an HMAC-SHA256 over `purpose` and `body`, followed by `body`."""
    return _sign(secret, purpose, body) + body


def unseal(secret: Secret, purpose: bytes, sealed: bytes) -> bytes:
    """Return the body of a message that `seal` made with the same secret for the same purpose.

    Raises:
        HandshakeRefused: if the signature does not match.
    """
    found, body = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
    if not hmac.compare_digest(found, _sign(secret, purpose, body)):
        raise HandshakeRefused(
            "the signature of the message does not match: the sender does not have the secret of this job"
        )
    return body


def _sign(secret: Secret, purpose: bytes, body: bytes) -> bytes:
    return secret.sign(_LABEL + len(purpose).to_bytes(4) + purpose + body)
