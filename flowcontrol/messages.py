"""The messages of the credit protocol, as values; `frames` turns them into bytes.

Towards the consumer: BufferResponse, BacklogAnnouncement, ErrorResponse. Both ways: KeepAlive,
ControlPayload. Towards the producer: the others. A channel is a number below 2**128 that both ends agree on.
Names and meaning are those of Flink's NettyMessage; its TaskEventRequest and SegmentId are not part of this
protocol, and Flink has other connections for what KeepAlive and ControlPayload do here.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from .events import DataType

MAX_PEER_TEXT = 4096
"""The most characters of a peer's text that are shown, or sent as one."""

_CUT = "..."


def readable(text: str) -> str:
    """Return `text` with each character that is not printed written as an escape, and cut if it is long.

    At most `MAX_PEER_TEXT` characters come back, of at most 4 bytes each. What is readable already stays as
    it is, so a text may be passed on from peer to peer.
    """
    text = text[: MAX_PEER_TEXT + 1]
    if not text.isprintable():
        text = "".join(map(_visible, text))
    return text if len(text) <= MAX_PEER_TEXT else text[: MAX_PEER_TEXT - len(_CUT)] + _CUT


def _visible(character: str) -> str:
    """A control character, a change of direction, half a surrogate pair or the like as its escape."""
    return character if character.isprintable() else character.encode("unicode_escape").decode()


PARTITION_NOT_FOUND = "PartitionNotFoundException"
"""The cause of an ErrorResponse when the requested partition does not exist, or does not exist yet."""


class DescribedBytes(Protocol):
    """Bytes that are made when a caller needs them."""

    def __len__(self) -> int: ...

    def __bytes__(self) -> bytes: ...


class BufferResponse(msgspec.Struct, frozen=True, gc=False):
    """One buffer, data or event, with the number of data buffers that wait behind it.

    `sequence_number`: counts the buffers of a channel from 0, signed 32 bits, wraps around.
    `backlog`: in buffers, not negative. `payload`: a view must be one of single bytes; in place of bytes
    there may be what says which they would be.
    """

    channel: int
    subpartition: int
    sequence_number: int
    backlog: int
    data_type: DataType
    compressed: bool
    payload: bytes | memoryview | DescribedBytes


class BufferHeader(msgspec.Struct, frozen=True, gc=False):
    """A BufferResponse whose payload of `size` bytes has yet to arrive."""

    channel: int
    subpartition: int
    sequence_number: int
    backlog: int
    data_type: DataType
    compressed: bool
    size: int


class ErrorResponse(msgspec.Struct, frozen=True, gc=False):
    """The producer failed, for one channel or (None) for all channels of the connection.

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
    """Closes the connection; nothing more will be asked."""


class AddCredit(msgspec.Struct, frozen=True, gc=False):
    """Grants `credit` more data buffers, at least 1."""

    channel: int
    credit: int


class ResumeConsumption(msgspec.Struct, frozen=True, gc=False):
    """Lets a channel go on that a barrier has blocked."""

    channel: int


class AckAllUserRecordsProcessed(msgspec.Struct, frozen=True, gc=False):
    """The consumer has processed all records before the end of data."""

    channel: int


class BacklogAnnouncement(msgspec.Struct, frozen=True, gc=False):
    """Tells a consumer without exclusive buffers that `backlog` data buffers wait, at least 1."""

    channel: int
    backlog: int


class NewBufferSize(msgspec.Struct, frozen=True, gc=False):
    """Asks for buffers of at most `size` bytes from now on, at least 1."""

    channel: int
    size: int


class KeepAlive(msgspec.Struct, frozen=True, gc=False):
    """Says that this end is alive when it has nothing else to say."""


class ControlPayload(msgspec.Struct, frozen=True, gc=False):
    """Carries a message of the control plane, which the network layer does not look into."""

    payload: bytes


Message = (
    BufferResponse
    | ErrorResponse
    | PartitionRequest
    | CancelPartitionRequest
    | CloseRequest
    | AddCredit
    | ResumeConsumption
    | AckAllUserRecordsProcessed
    | BacklogAnnouncement
    | NewBufferSize
    | KeepAlive
    | ControlPayload
)
"""Any message of the protocol."""
