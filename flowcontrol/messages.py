"""The messages of the credit protocol, as values; `frames` turns them into bytes.

The unions at the end of the module say which end receives a message. A channel is a number below 2**128 that
both ends agree on. Names and meaning are those of Flink's NettyMessage. This protocol has no TaskEventRequest
and no SegmentId. Flink has no KeepAlive and no ControlPayload: it uses separate connections for these
purposes.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from .events import DataType

__all__ = [
    "MAX_PEER_TEXT",
    "PARTITION_NOT_FOUND",
    "AckAllUserRecordsProcessed",
    "AddCredit",
    "BacklogAnnouncement",
    "BufferHeader",
    "BufferResponse",
    "CancelPartitionRequest",
    "CloseRequest",
    "ControlPayload",
    "DescribedBytes",
    "ErrorResponse",
    "KeepAlive",
    "Message",
    "NewBufferSize",
    "PartitionRequest",
    "ResumeConsumption",
    "ToConsumer",
    "ToProducer",
    "readable",
]

MAX_PEER_TEXT = 4096
"""Maximum number of characters of a peer's text that are shown or sent."""

_CUT = "..."


def readable(text: str) -> str:
    """Return `text` with unprintable characters escaped, shortened to at most `MAX_PEER_TEXT` characters.

    Each character of the result has at most 4 bytes. Text that is already readable is unchanged, so it may be
    passed on from peer to peer.
    """
    text = text[: MAX_PEER_TEXT + 1]
    if not text.isprintable():
        text = "".join(map(_visible, text))
    return text if len(text) <= MAX_PEER_TEXT else text[: MAX_PEER_TEXT - len(_CUT)] + _CUT


def _visible(character: str) -> str:
    """Return `character`, or its escape if it is not printable (a control character, a lone surrogate)."""
    return character if character.isprintable() else character.encode("unicode_escape").decode()


PARTITION_NOT_FOUND = "PartitionNotFoundException"
"""Cause of an ErrorResponse if the requested partition does not exist (yet)."""


class DescribedBytes(Protocol):
    """Bytes that are created when a caller needs them."""

    def __len__(self) -> int: ...

    def __bytes__(self) -> bytes: ...


class BufferResponse(msgspec.Struct, frozen=True, gc=False):
    """One buffer of data, or an event, with the number of data buffers that wait after it.

    `sequence_number`: number of the buffer in its channel, from 0; it has 32 bits, signed, and wraps around.
    `backlog`: in buffers, not negative. `payload`: a view must have an item size of 1 byte; `DescribedBytes`
    may stand in for bytes that have not been created.
    """

    channel: int
    subpartition: int
    sequence_number: int
    backlog: int
    data_type: DataType
    compressed: bool
    payload: bytes | memoryview | DescribedBytes


class BufferHeader(msgspec.Struct, frozen=True, gc=False):
    """Header of a BufferResponse whose payload of `size` bytes has yet to arrive."""

    channel: int
    subpartition: int
    sequence_number: int
    backlog: int
    data_type: DataType
    compressed: bool
    size: int

    def with_payload(self, payload: memoryview) -> BufferResponse:
        """Return the complete message."""
        return BufferResponse(
            self.channel,
            self.subpartition,
            self.sequence_number,
            self.backlog,
            self.data_type,
            self.compressed,
            payload,
        )


class ErrorResponse(msgspec.Struct, frozen=True, gc=False):
    """The producer failed for one channel; if `channel` is None, for all channels of the connection.

    A cause of `PARTITION_NOT_FOUND` means that the channel may be requested again.
    """

    cause: str
    channel: int | None = None


class PartitionRequest(msgspec.Struct, frozen=True, gc=False):
    """Opens a channel: asks a producer for subpartitions and grants the first credit.

    `initial_credit`: exclusive buffers of the channel, may be 0. `partition` and `attempt` name the
    result partition (20 bytes) and the attempt that produces it (40 bytes).
    """

    channel: int
    initial_credit: int
    partition: int = 0
    attempt: int = 0
    first_subpartition: int = 0
    last_subpartition: int = 0


class CancelPartitionRequest(msgspec.Struct, frozen=True, gc=False):
    """Closes a channel."""

    channel: int


class CloseRequest(msgspec.Struct, frozen=True, gc=False):
    """Closes the connection: the consumer will send no more requests."""


class AddCredit(msgspec.Struct, gc=False):
    """Grants `credit` more data buffers, at least 1; the sender may add more until the message leaves."""

    channel: int
    credit: int


class ResumeConsumption(msgspec.Struct, frozen=True, gc=False):
    """Lets a channel that a barrier has blocked send again."""

    channel: int


class AckAllUserRecordsProcessed(msgspec.Struct, frozen=True, gc=False):
    """The consumer has processed all records before the end of data."""

    channel: int


class BacklogAnnouncement(msgspec.Struct, frozen=True, gc=False):
    """Announces `backlog` queued data buffers, at least 1, to a consumer without exclusive buffers."""

    channel: int
    backlog: int


class NewBufferSize(msgspec.Struct, frozen=True, gc=False):
    """Requests buffers of at most `size` bytes from now on; `size` is at least 1."""

    channel: int
    size: int


class KeepAlive(msgspec.Struct, frozen=True, gc=False):
    """Shows that this end is alive; sent when no other message has been sent for a while."""


class ControlPayload(msgspec.Struct, frozen=True, gc=False):
    """Carries a message of the control plane; the network layer does not interpret it."""

    payload: bytes


ToOpenChannel = (
    AddCredit | ResumeConsumption | NewBufferSize | CancelPartitionRequest | AckAllUserRecordsProcessed
)
"""A message to the producer about a channel that has been requested."""

ToProducer = PartitionRequest | ToOpenChannel
"""A message that the consumer sends to the producer."""

ToConsumer = BufferResponse | BacklogAnnouncement | ErrorResponse
"""A message that the producer sends to the consumer."""

Message = ToProducer | ToConsumer | CloseRequest | KeepAlive | ControlPayload
"""Any message. CloseRequest, KeepAlive and ControlPayload concern the connection, not a channel."""
