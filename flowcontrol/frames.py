"""Messages to bytes and back: the frames of Flink's NettyMessage.

Every frame is a header of 9 bytes and a body whose layout is a row of `_LAYOUTS`, all big-endian::

    | total length 4 (itself included) | magic 0xBADC0FFE 4 | message id 1 | body ... |

A BufferResponse ends with its payload, as many bytes as its last field says. The only others whose length
varies are ErrorResponse (the cause as text, a flag, and the channel if the flag is set) and ControlPayload.
Ids above 100 are ours, the others Flink's.
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

DEFAULT_MAX_FRAME_BYTES = 16 * 1024 * 1024
"""The longest frame that a decoder accepts unless told otherwise, header included."""


class NeedData(Enum):
    """The type of NEED_DATA."""

    NEED_DATA = auto()


NEED_DATA: Final = NeedData.NEED_DATA
"""Says that no whole frame has been fed yet."""


AnyLayout = Layout | ResponseLayout | ErrorLayout | ControlLayout
"""Layout of one kind of message."""

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
"""Bytes of the frame of each kind of message, without what varies in length."""


def encode(message: Message) -> bytes:
    """Write `message` as one frame; a payload is copied once.

    Raises:
        LocalProtocolError: if a value is outside what the message allows.
    """
    head = encode_header(message)
    return b"".join((head, payload_bytes(message))) if type(message) is BufferResponse else head


def payload_bytes(response: BufferResponse) -> bytes | memoryview:
    """The payload as it is sent; it is copied only if it is not there as bytes."""
    payload = response.payload
    return payload if isinstance(payload, bytes | memoryview) else bytes(payload)


def encode_header(message: Message) -> bytes:
    """Write all of `message` but its payload, so that the payload can be sent without a copy.

    Raises:
        LocalProtocolError: if a value is outside what the message allows.
    """
    packed: bytes = _BY_TYPE[type(message)].pack(message)
    return packed


def check_header(length: int, magic: int, message_id: int, max_frame_bytes: int) -> AnyLayout:
    """The layout of a frame that begins so.

    Raises:
        BadMagic: if the peer lost its place.
        FrameTooLong: if the peer wants to send more than `max_frame_bytes` at once.
        UnknownMessage: if the peer sends a message that does not exist.
        MalformedFrame: if the message cannot have that length.
    """
    if magic != MAGIC:
        raise BadMagic(f"the peer sent a frame with magic {magic:#010x}, not {MAGIC:#010x}")
    if length > max_frame_bytes:
        raise FrameTooLong(f"the peer sent a frame of {length} bytes, allowed are {max_frame_bytes}")
    layout: AnyLayout | None = _BY_ID.get(message_id)
    if layout is None:
        raise UnknownMessage(f"the peer sent a message with id {message_id}, which is not known")
    if not layout.accepts_length(length):
        raise MalformedFrame(f"the peer sent a {layout.message_type.__name__} in a frame of {length} bytes")
    return layout


class FrameDecoder:
    """Collects bytes as they come and gives the messages in them.

    Bytes that are fed are kept, not copied, unless a frame lies across several pieces; then it is
    copied once or twice. The payload of a BufferResponse is a view into them. Invariant: an error
    leaves the decoder where it was, so asking again raises the same error again.
    """

    __slots__ = ("_frame_bytes", "_piece", "_pieces", "buffered_bytes", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.buffered_bytes = 0
        self._piece = memoryview(b"")
        self._pieces: deque[bytes] = deque()
        self._frame_bytes = HEADER.size

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Append `data`; anything but bytes is copied, since its owner may change it."""
        if len(data):
            piece = bytes(data)
            self._pieces.append(piece)
            self.buffered_bytes += len(piece)

    def next_message(self) -> Message | Literal[NeedData.NEED_DATA]:
        """Take the next message, or NEED_DATA if its frame is not complete.

        Raises:
            BadMagic: if the peer lost its place; nothing is taken, as with the others.
            FrameTooLong: if the peer wants to send more than `max_frame_bytes` at once.
            UnknownMessage: if the peer sends a message that does not exist.
            MalformedFrame: if the peer sends a message that makes no sense.
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
        """The unread bytes from the first one on, at least `count` of them in one piece."""
        piece, pieces = self._piece, self._pieces
        if len(piece) < count:
            parts: list[bytes | memoryview] = [piece] if len(piece) else []
            missing = count - len(piece)
            while missing > 0:
                parts.append(pieces.popleft())
                missing -= len(parts[-1])
            self._piece = piece = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
        return piece
