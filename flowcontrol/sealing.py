"""Short messages between processes of a job, each signed with a secret that all of them know.

A seal shows who may have written a message and that nobody has changed it. It hides nothing, and it does not
show that the message is new: whoever waits for an answer has to find something of its own in it.
"""

from __future__ import annotations

import hmac

from .errors import HandshakeRefused
from .handshake import Secret

SEAL_BYTES = 32
"""How much longer a sealed message is."""

_LABEL = b"netstack sealed message: "


def seal(secret: Secret, body: bytes) -> bytes:
    """Return `body` behind its HMAC-SHA256."""
    return secret.sign(_LABEL + body) + body


def unseal(secret: Secret, sealed: bytes) -> bytes:
    """Return the body of a message that `seal` made with the same secret.

    Raises:
        HandshakeRefused: It was not made so.
    """
    found, body = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
    if not hmac.compare_digest(found, secret.sign(_LABEL + body)):
        raise HandshakeRefused("the message is not sealed with the secret of this job")
    return body
