"""Violations of the protocol, by the side that caused them.

`LocalProtocolError`: this program asked for something illegal, so the caller has a bug.
`RemoteProtocolError`: the peer sent something illegal, so the connection to it must be closed.
An operation that raises a `ProtocolError` has left the state unchanged.
"""

# ruff: noqa: N818 - the names describe the violation without the suffix "Error".

from __future__ import annotations

__all__ = [
    "AnnouncementError",
    "BadMagic",
    "CreditExceeded",
    "FrameTooLong",
    "HandshakeRefused",
    "LocalProtocolError",
    "MalformedEvent",
    "MalformedFrame",
    "ProtocolError",
    "RemoteProtocolError",
    "SequenceGap",
    "UnknownMessage",
]


class ProtocolError(Exception):
    """The rules of the network layer were violated. Only the subclasses are raised."""


class LocalProtocolError(ProtocolError):
    """This end tried an illegal operation, so the caller has a bug. Nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The other end sent something illegal. Close the connection, since later bytes cannot be interpreted."""


class BadMagic(RemoteProtocolError):
    """The peer sent a frame without the magic number: it uses another protocol or is out of step."""


class UnknownMessage(RemoteProtocolError):
    """A frame of the peer has a message id that this end does not know."""


class FrameTooLong(RemoteProtocolError):
    """The peer sent a frame with a length field above the limit of this end."""


class MalformedFrame(RemoteProtocolError):
    """The peer sent a frame whose length does not fit its message, or a field with an illegal value."""


class MalformedEvent(RemoteProtocolError):
    """The peer sent an event buffer whose payload is not an event."""


class SequenceGap(RemoteProtocolError):
    """The peer's buffers arrive out of order, or a buffer is missing."""


class CreditExceeded(RemoteProtocolError):
    """The peer sent a data buffer without credit for it."""


class HandshakeRefused(RemoteProtocolError):
    """The peer did not prove that it belongs to this job, or sent something else before the proof."""


class AnnouncementError(ValueError):
    """A debloating policy returned an invalid announcement; the message names the policy."""
