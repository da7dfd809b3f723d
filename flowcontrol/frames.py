"""Messages to bytes and back: the frames of Flink's NettyMessage.

Every frame is a header of 9 bytes and a body whose layout is a row of `_LAYOUTS`, all big-endian::

    | total length, itself included: 4 bytes | magic 0xBADC0FFE: 4 bytes | message id: 1 byte | body ... |

A BufferResponse ends with its payload; the field before it is the length of the payload. Two other
messages have a variable length: ErrorResponse (the cause as text, a flag, and the channel if the flag is set)
and ControlPayload. Ids above 100 are specific to this project, all others are Flink's.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import Any, Final, Literal

from .errors import BadMagic, FrameTooLong, MalformedFrame, UnknownMessage
from .message_layouts import (
    CHANNEL,
    HEADER,
    MAGIC,
    ControlLayout,
    ErrorLayout,
    Layout,
    ResponseLayout,
    int32,
    wide_id,
)
from .messages import (
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    CloseRequest,
    KeepAlive,
    Message,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
)

__all__ = [
    "DEFAULT_MAX_FRAME_BYTES",
    "NEED_DATA",
    "FrameDecoder",
    "NeedData",
    "encode",
    "encode_header",
    "payload_bytes",
]

DEFAULT_MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Default maximum length in bytes of a frame that a decoder accepts, header included."""


class NeedData(Enum):
    """The type of NEED_DATA."""

    NEED_DATA = auto()


NEED_DATA: Final = NeedData.NEED_DATA
"""Result of `FrameDecoder.next_message` while the next frame is incomplete."""


AnyLayout = Layout | ResponseLayout | ErrorLayout | ControlLayout
"""Layout of one type of message."""

_LAYOUTS: tuple[AnyLayout, ...] = (
    ResponseLayout(),
    ErrorLayout(),
    Layout(
        2,
        PartitionRequest,
        wide_id("partition", 20),
        wide_id("attempt", 40),
        int32("first_subpartition", 0),
        int32("last_subpartition", 0),
        CHANNEL,
        int32("initial_credit", 0),
    ),
    Layout(4, CancelPartitionRequest, CHANNEL),
    Layout(5, CloseRequest),
    Layout(6, AddCredit, int32("credit", 1), CHANNEL),
    Layout(7, ResumeConsumption, CHANNEL),
    Layout(8, AckAllUserRecordsProcessed, CHANNEL),
    Layout(9, BacklogAnnouncement, int32("backlog", 1), CHANNEL),
    Layout(10, NewBufferSize, int32("size", 1), CHANNEL),
    Layout(112, KeepAlive),
    ControlLayout(),
)
_BY_TYPE: dict[type, Any] = {layout.message_type: layout for layout in _LAYOUTS}
_BY_ID: dict[int, Any] = {layout.message_id: layout for layout in _LAYOUTS}
FRAME_BYTES = {layout.message_type: layout.frame_bytes for layout in _LAYOUTS}
"""Frame size of each type of message, without its variable part."""


def encode(message: Message) -> bytes:
    """Encode `message` as one frame; a payload is copied once.

    Raises:
        LocalProtocolError: if a field of the message has an illegal value.
    """
    head = encode_header(message)
    return b"".join((head, payload_bytes(message))) if type(message) is BufferResponse else head


def payload_bytes(response: BufferResponse) -> bytes | memoryview:
    """Return the payload to send. It is not copied, but blank bytes are created."""
    payload = response.payload
    return payload if isinstance(payload, bytes | memoryview) else bytes(payload)


def encode_header(message: Message) -> bytes:
    """Encode all of `message` except its payload, so that the payload can be sent without a copy.

    Raises:
        LocalProtocolError: if a field of the message has an illegal value.
    """
    packed: bytes = _BY_TYPE[type(message)].pack(message)
    return packed


def check_header(length: int, magic: int, message_id: int, max_frame_bytes: int) -> AnyLayout:
    """Return the layout of a frame with this header.

    Raises:
        BadMagic: if the magic number is wrong.
        FrameTooLong: if the frame is longer than `max_frame_bytes`.
        UnknownMessage: if no message has this id.
        MalformedFrame: if this message cannot have this length.
    """
    if magic != MAGIC:
        raise BadMagic(
            f"the peer sent a frame that begins with {magic:#010x}; frames begin with {MAGIC:#010x}"
        )
    if length > max_frame_bytes:
        raise FrameTooLong(
            f"the peer sent a frame of {length} bytes; at most {max_frame_bytes} bytes are allowed"
        )
    layout: AnyLayout | None = _BY_ID.get(message_id)
    if layout is None:
        raise UnknownMessage(f"the peer sent a message with the unknown id {message_id}")
    if not layout.accepts_length(length):
        raise MalformedFrame(
            f"the peer sent {layout.message_type.__name__} in a frame of {length} bytes; this message has "
            "another length"
        )
    return layout


class FrameDecoder:
    """Collects bytes as they arrive and returns the messages in them.

    `feed` keeps `bytes` without a copy. If a frame spans several pieces, its bytes are copied once or twice.
    The payload of a BufferResponse is a view of the kept bytes. Invariant: an error leaves the decoder
    unchanged, so the next call raises the same error again.
    """

    __slots__ = ("_frame_bytes", "_piece", "_pieces", "buffered_bytes", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.buffered_bytes = 0
        self._piece = memoryview(b"")
        self._pieces: deque[bytes] = deque()
        self._frame_bytes = HEADER.size

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Append `data`. A buffer other than `bytes` is copied, since its owner may change it."""
        if len(data):
            piece = bytes(data)
            self._pieces.append(piece)
            self.buffered_bytes += len(piece)

    def next_message(self) -> Message | Literal[NeedData.NEED_DATA]:
        """Remove and return the next message, or NEED_DATA if its frame is incomplete.

        Raises:
            BadMagic: if the magic number is wrong.
            FrameTooLong: if the frame is longer than `max_frame_bytes`.
            UnknownMessage: if no message has this id.
            MalformedFrame: if the content of the frame is invalid.
        """
        if self.buffered_bytes < self._frame_bytes:
            return NEED_DATA
        length, magic, message_id = HEADER.unpack_from(self._gather(HEADER.size))
        layout: Any = check_header(length, magic, message_id, self.max_frame_bytes)
        self._frame_bytes = length
        if self.buffered_bytes < length:
            return NEED_DATA
        piece = self._gather(length)
        message: Message = layout.unpack(piece[:length])
        self._piece = piece[length:]
        self.buffered_bytes -= length
        self._frame_bytes = HEADER.size
        return message

    def _gather(self, count: int) -> memoryview:
        """Return the first piece of unread bytes, joined with later pieces until it has `count` bytes."""
        piece, pieces = self._piece, self._pieces
        if len(piece) < count:
            parts: list[bytes | memoryview] = [piece] if len(piece) else []
            missing = count - len(piece)
            while missing > 0:
                parts.append(pieces.popleft())
                missing -= len(parts[-1])
            self._piece = piece = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
        return piece
