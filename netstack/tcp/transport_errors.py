"""What can go wrong between processes, as those see it who wait for data."""

from __future__ import annotations


class TransportError(Exception):
    """The connection to a peer is of no use any more; `peer` says which, with its address."""

    def __init__(self, peer: str, problem: str) -> None:
        super().__init__(f"{peer}: {problem}")
        self.peer = peer
        self.problem = problem

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.peer, self.problem)


class ConnectionLostError(TransportError):
    """The connection was reset, or ended before both sides were done."""


class PeerSilentError(TransportError):
    """The peer has sent nothing for longer than a living one would."""


class PeerFailedError(TransportError):
    """The peer has told why it failed.

    `problem` is its text, passed on unchanged by those whom it has stopped: the first cause, and no echo.
    """

    def __str__(self) -> str:
        return self.problem


class PartitionNotFoundError(TransportError):
    """The peer has no partition for a channel, however often it was asked (PartitionNotFoundException)."""


class HandshakeError(TransportError):
    """The peer could not be reached, did not prove that it knows the secret, or refused ours."""


class LinkClosedError(TransportError):
    """Something was to be sent after the last message, or read after the connection was closed."""
