"""Short messages between processes of a job, each signed with a secret that all of them know.

A seal shows who may have written a message, for which purpose, and that nobody has changed it. It hides
nothing, and it does not show that the message is new: the purpose of an answer has to name the question.
"""

from __future__ import annotations

import hmac

from .errors import HandshakeRefused
from .handshake import Secret

SEAL_BYTES = 32
"""How much longer a sealed message is."""

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
