"""The proof, by both ends of a new connection, that they belong to the same job; and sealed messages.

Both know a secret, neither sends it. Each proves with an HMAC over all that has been said that it knows it,
and the one that was dialled, which strangers can reach, answers a proof with a proof only::

    dialler                                                                listener
       | -- hello 54: magic, version, size, listener's index, own index, nonce --> |
       | <-- challenge 42: magic, version, nonce -------------------------------- |
       | -- proof 32: HMAC(secret, "dialler", hello, challenge) ----------------> |  the dialler is proven
       | <-- proof 32: HMAC(secret, "listener", hello, challenge) --------------- |
    the listener is proven

A listener that refuses a proof says so in its place. One that just leaves has refused nothing: it may have
put out whoever had not proven itself yet, for want of room, and be there for the next attempt.

A proof is worth nothing anywhere else: the nonces make it one of this connection, the label one of this end,
the indices one of this pair. A wrong byte is refused as soon as it is there, and a peer that proves nothing
has made the listener keep 128 bytes and compute one HMAC.

This keeps strangers out, but not an attacker who can change bytes on the wire: only the proofs are authentic
and not what follows them: that takes TLS.

A *seal* signs a short message with the same secret. It shows who may have written the message, for which
purpose, and that it is unchanged. It hides nothing, and it does not show that the message is new: the purpose
of an answer has to name the question.
"""

from __future__ import annotations

import hmac
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from .errors import HandshakeRefused, LocalProtocolError

NONCE_BYTES = 32
"""Length of the random number that each end contributes."""

MIN_SECRET_BYTES = 16
"""The shortest secret; a proof can be guessed as easily as the secret."""

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
"""The known first bytes of a message, field by field, and what to say of a peer that sends others."""

_NO_PROTOCOL = "does not speak this protocol"
_VERSION_FIELD = (struct.pack(">H", _VERSION), f"speaks another version of the handshake than {_VERSION}")


class Secret:
    """Secret that the processes of a job share; no way of printing shows it.

    It can be pickled, and then its bytes are in the pickle.

    Raises:
        ValueError: if it is shorter than 16 bytes.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes):
            raise TypeError(f"a secret is made of bytes, not of {type(key).__name__}")
        if len(key) < MIN_SECRET_BYTES:
            raise ValueError(f"a secret has at least {MIN_SECRET_BYTES} bytes, this one has {len(key)}")
        self._key = key

    def sign(self, message: bytes) -> bytes:
        """The HMAC-SHA256 of `message`, 32 bytes."""
        return hmac.digest(self._key, message, "sha256")

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __reduce__(self) -> tuple[type[Secret], tuple[bytes]]:
        return Secret, (self._key,)


class Identity(msgspec.Struct, frozen=True):
    """Identity of a connection in a mesh of `size` processes: index `dialler` dials the lower `listener`.

    Raises:
        ValueError: if a mesh of that size has no such connection.
    """

    dialler: int
    listener: int
    size: int

    def __post_init__(self) -> None:
        if not 0 <= self.listener < self.dialler < self.size <= _MAX_SIZE:
            raise ValueError(
                f"in a mesh of {self.size} processes, {self.dialler} does not dial {self.listener}"
            )


class Handshake(ABC):
    """The common part of both ends: they read messages of fixed size and check each byte as it comes.

    `wanted`: how many bytes the peer still owes before this end can go on, 0 when it is `proven`; whoever
    reads no more than that leaves what follows the handshake where it is. A refusal is final.
    """

    def __init__(self, secret: Secret, nonce: bytes) -> None:
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce has {NONCE_BYTES} bytes, this one has {len(nonce)}")
        self.proven = False
        self.wanted = 0
        self._secret = secret
        self._nonce = nonce
        self._prefix: _Prefix = ()
        self._received = b""
        self._said = b""  # hello and challenge, as far as they are known
        self._refusal = ""

    @property
    def left(self) -> str:
        """Return the error message for a peer that leaves now."""
        return "the peer left before it had proven itself"

    @property
    def refusal(self) -> bytes:
        """What to send to a peer before it is let go for what it has said; only a proof is answered."""
        return b""

    def begin(self) -> bytes:
        """Return the bytes to send before anything has arrived; none at the end that was dialled."""
        return b""

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the peer, and give those to send to it.

        Raises:
            HandshakeRefused: if it says something wrong: close the connection.
            LocalProtocolError: if these are more bytes than `wanted`.
        """
        if self._refusal:
            raise HandshakeRefused(self._refusal)
        if len(data) > self.wanted:
            raise LocalProtocolError(f"{len(data)} bytes for a handshake that waits for {self.wanted}")
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
        """Refuse what has arrived of a message if it cannot become a right one."""
        start = 0
        for expected, problem in self._prefix:
            arrived = self._received[start : start + len(expected)]
            if arrived != expected[: len(arrived)]:
                raise HandshakeRefused(f"the peer {problem}")
            start += len(expected)

    @abstractmethod
    def _answer(self) -> bytes:
        """Go on after a whole message."""

    def _check_proof(self, label: bytes) -> None:
        if not hmac.compare_digest(self._received, self._secret.sign(label + self._said)):
            raise HandshakeRefused("the peer did not prove that it knows the secret")
        self.proven = True
        self._await(0)


class ClientHandshake(Handshake):
    """The end that dialled: says first who it is, is proven first, and is the first to send afterwards.

    Raises:
        ValueError: if the nonce, which must be random and used once, does not have 32 bytes.
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
        """Return the error message for a listener that leaves now."""
        return "the peer left without an answer"

    def begin(self) -> bytes:
        """The hello."""
        return self._said[: _HELLO.size]

    def _answer(self) -> bytes:
        if len(self._said) > _HELLO.size:
            if self._received == _REFUSAL:
                raise HandshakeRefused(
                    "the peer refused the proof: it has another secret,"
                    " or is connected with this process already"
                )
            self._check_proof(_LISTENER_LABEL)
            return b""
        self._said += self._received
        self._await(_PROOF_BYTES)
        return self._secret.sign(_DIALLER_LABEL + self._said)


class ServerHandshake(Handshake):
    """The end that was dialled; `identity` says by whom, once that is proven, and is None before.

    What `receive` gives last is the own proof.

    Raises:
        ValueError: if no higher index exists that could dial `listener`, or the nonce, which must be
            random and used once, does not have 32 bytes.
    """

    def __init__(self, secret: Secret, listener: int, size: int, nonce: bytes) -> None:
        super().__init__(secret, nonce)
        self.identity: Identity | None = None
        self._last = Identity(size - 1, listener, size)
        fields = (
            (_DIALLER_MAGIC, _NO_PROTOCOL),
            _VERSION_FIELD,
            (_INDEX.pack(size), f"belongs to a mesh of another size than {size}"),
            (_INDEX.pack(listener), f"looks for another process than {listener}"),
        )
        self._await(_HELLO.size, fields)

    @property
    def refusal(self) -> bytes:
        """Return the bytes for a dialler whose proof is wrong, or is one too many."""
        return _REFUSAL if self._said else b""

    def _check(self) -> None:
        super()._check()
        if not self._said:
            arrived = self._received[_DIALLER_AT : _DIALLER_AT + _INDEX.size]
            lowest, highest = (int.from_bytes(arrived.ljust(_INDEX.size, fill)) for fill in (b"\0", b"\xff"))
            if highest <= self._last.listener or lowest >= self._last.size:
                raise HandshakeRefused("the peer has an index that does not dial this process")

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
    """Return `body` behind an HMAC-SHA256 over the purpose and the body."""
    return _sign(secret, purpose, body) + body


def unseal(secret: Secret, purpose: bytes, sealed: bytes) -> bytes:
    """Return the body of a message that `seal` made with the same secret for the same purpose.

    Raises:
        HandshakeRefused: It was not made so.
    """
    found, body = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
    if not hmac.compare_digest(found, _sign(secret, purpose, body)):
        raise HandshakeRefused("the message is not sealed with the secret of this job")
    return body


def _sign(secret: Secret, purpose: bytes, body: bytes) -> bytes:
    return secret.sign(_LABEL + len(purpose).to_bytes(4) + purpose + body)
