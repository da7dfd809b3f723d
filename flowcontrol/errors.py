"""Violations of the protocol, sorted by whose fault they are.

`LocalProtocolError`: this program asked for something illegal, so the caller has a bug.
`RemoteProtocolError`: the peer sent something illegal, so the connection to it must be closed.
An operation that raises one of them has changed nothing.
"""

# ruff: noqa: N818 - the names say what happened, as "Error" after each would not.

from __future__ import annotations


class ProtocolError(Exception):
    """The rules of the network layer were broken; only the subclasses are raised."""


class LocalProtocolError(ProtocolError):
    """This end tried something illegal: a bug in the caller, nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The other end sent something illegal: close the connection, its later bytes mean nothing."""


class BadMagic(RemoteProtocolError):
    """A frame of the peer does not carry the magic number: it speaks another protocol or lost its place."""


class UnknownMessage(RemoteProtocolError):
    """A frame of the peer has a message id that this end does not know."""


class FrameTooLong(RemoteProtocolError):
    """A frame of the peer claims more bytes than this end is ready to collect."""


class MalformedFrame(RemoteProtocolError):
    """A frame of the peer has a length that does not fit its message, or an illegal value in a field."""


class MalformedEvent(RemoteProtocolError):
    """The payload of an event buffer of the peer is no event."""


class SequenceGap(RemoteProtocolError):
    """The peer's buffers arrive out of order, or one is missing."""


class CreditExceeded(RemoteProtocolError):
    """The peer sent a data buffer without credit for it."""


class HandshakeRefused(RemoteProtocolError):
    """The peer did not prove that it belongs here, or said something else before it did."""


class AnnouncementError(ValueError):
    """A debloating policy returns what cannot be announced; the message names the policy."""
