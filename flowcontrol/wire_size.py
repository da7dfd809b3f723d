"""Size of a message on the wire.

Links need it for every message, so this module is compiled, unlike `frames`.
"""

from __future__ import annotations

from typing import Final

from .frames import FRAME_BYTES, encode_header
from .messages import BufferResponse, ControlPayload, ErrorResponse, Message

__all__ = ["wire_size"]

_RESPONSE_BYTES: Final = FRAME_BYTES[BufferResponse]


def wire_size(message: Message) -> int:
    """Return the frame size of `message` in bytes, header and payload included, without encoding it."""
    if type(message) is BufferResponse:
        return _RESPONSE_BYTES + len(message.payload)
    if type(message) is ErrorResponse or type(message) is ControlPayload:
        return len(encode_header(message))
    return FRAME_BYTES[type(message)]
