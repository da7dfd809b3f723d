"""Layouts of messages: encoding and decoding of fields, with checks in both directions.

A row of the table in `frames` is a `Layout` of `Field`s. Messages of variable length have their own classes:
BufferResponse, whose code is written out for speed, ErrorResponse and ControlPayload.
All numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from .errors import LocalProtocolError, MalformedFrame
from .events import DataType
from .messages import MAX_PEER_TEXT, BufferHeader, BufferResponse, ControlPayload, ErrorResponse, Message

MAGIC = 0xBADC0FFE
"""The magic number in bytes 4 to 7 of every frame."""

HEADER = struct.Struct(">IIB")
"""Header of every frame: total length, magic, message id."""

MAX_CAUSE_BYTES = 4 * MAX_PEER_TEXT
"""Maximum length of the cause of an ErrorResponse, in bytes of UTF-8."""

_DATA_TYPES = {int(data_type): data_type for data_type in DataType}


class Field(NamedTuple):
    """One field of a message: name, struct format, minimum legal value, conversions."""

    name: str
    format: str
    minimum: int | None = None
    to_wire: Callable[[Any], Any] | None = None
    from_wire: Callable[[Any], Any] | None = None


def wide_id(name: str, size: int) -> Field:
    """Return a field for an id that is a number of `size` bytes."""
    return Field(name, f"{size}s", None, lambda number: number.to_bytes(size), int.from_bytes)


def int32(name: str, minimum: int | None = None) -> Field:
    """Return a field for a signed number of 4 bytes."""
    return Field(name, "i", minimum)


CHANNEL = wide_id("channel", 16)
"""The field for the id of a channel."""


class Layout:
    """Layout of a message of fixed length: its id, and its fields in wire order."""

    __slots__ = (
        "_minimums",
        "_names",
        "_order",
        "_read",
        "_struct",
        "_write",
        "frame_bytes",
        "message_id",
        "message_type",
    )

    def __init__(self, message_id: int, message_type: type[Message], *fields: Field) -> None:
        self.message_id = message_id
        self.message_type = message_type
        self._struct = struct.Struct(HEADER.format + "".join(field.format for field in fields))
        self.frame_bytes = self._struct.size
        self._names = tuple(field.name for field in fields)
        self._order = tuple(self._names.index(name) for name in message_type.__struct_fields__)
        self._minimums = [(i, field.minimum) for i, field in enumerate(fields) if field.minimum is not None]
        self._write = [(i, field.to_wire) for i, field in enumerate(fields) if field.to_wire]
        self._read = [(i, field.from_wire) for i, field in enumerate(fields) if field.from_wire]

    def pack(self, message: Message) -> bytes:
        """Return the frame of `message`.

        Raises:
            LocalProtocolError: if a value is not legal.
        """
        values = [getattr(message, name) for name in self._names]
        try:
            for index, minimum in self._minimums:
                if values[index] < minimum:
                    raise ValueError(f"{self._names[index]} must be at least {minimum}")
            for index, to_wire in self._write:
                values[index] = to_wire(values[index])
            return self._struct.pack(self.frame_bytes, MAGIC, self.message_id, *values)
        except (struct.error, OverflowError, ValueError) as error:
            raise LocalProtocolError(f"{message} cannot be sent: {error}") from None

    def unpack(self, frame: memoryview) -> Message:
        """Decode a complete frame whose header has been checked.

        Raises:
            MalformedFrame: if a value is not legal.
        """
        _, _, _, *values = self._struct.unpack(frame)
        for index, from_wire in self._read:
            values[index] = from_wire(values[index])
        message = self.message_type(*[values[index] for index in self._order])
        for index, minimum in self._minimums:
            if values[index] < minimum:
                raise MalformedFrame(
                    f"the peer sent {message}: {self._names[index]} must be at least {minimum}"
                )
        return message

    def accepts_length(self, length: int) -> bool:
        """Whether a frame of this message can have `length` bytes."""
        return length == self.frame_bytes


class ResponseLayout:
    """Layout of a BufferResponse; `frame_bytes` excludes the payload.

    Fields and their bytes: channel 16, subpartition 4, sequence number 4, backlog 4, data type 1,
    compressed 1, size 4, payload.
    """

    message_id = 0
    message_type = BufferResponse
    _struct = struct.Struct(HEADER.format + "16siiiBBi")
    frame_bytes = _struct.size

    def pack(self, message: BufferResponse) -> bytes:
        """Return the frame of `message` up to its payload.

        Raises:
            LocalProtocolError: if a value is not legal.
        """
        size = len(message.payload)
        try:
            if message.subpartition < 0 or message.backlog < 0:
                raise ValueError("subpartition and backlog must not be negative")
            return self._struct.pack(
                self.frame_bytes + size,
                MAGIC,
                self.message_id,
                message.channel.to_bytes(16),
                message.subpartition,
                message.sequence_number,
                message.backlog,
                _DATA_TYPES[message.data_type],
                message.compressed,
                size,
            )
        except (struct.error, OverflowError, ValueError, KeyError) as error:
            fields = {**msgspec.structs.asdict(message), "payload": f"{size} bytes"}
            raise LocalProtocolError(f"BufferResponse {fields} cannot be sent: {error}") from None

    def unpack(self, frame: memoryview) -> BufferResponse:
        """Decode a complete frame whose header has been checked; the payload is a view of `frame`.

        Raises:
            MalformedFrame: if a value is not legal.
        """
        return self.unpack_header(frame).with_payload(frame[self.frame_bytes :])

    def unpack_header(self, data: memoryview, start: int = 0) -> BufferHeader:
        """Decode all but the payload, from the first `frame_bytes` bytes of the frame at `start`.

        Raises:
            MalformedFrame: if a value is not legal.
        """
        values = self._struct.unpack_from(data, start)
        length, _, _, channel, subpartition, sequence_number, backlog, type_byte, compressed, size = values
        data_type = _DATA_TYPES.get(type_byte)
        expected = length - self.frame_bytes
        if subpartition < 0 or backlog < 0 or data_type is None or compressed > 1 or size != expected:
            raise MalformedFrame(
                f"the peer sent a BufferResponse with subpartition {subpartition}, backlog {backlog}, "
                f"data type {type_byte}, compressed {compressed}, size {size} (expected {expected})"
            )
        number = int.from_bytes(channel)
        return BufferHeader(number, subpartition, sequence_number, backlog, data_type, compressed == 1, size)

    def accepts_length(self, length: int) -> bool:
        """Whether a frame of this message can have `length` bytes."""
        return length >= self.frame_bytes


class ErrorLayout:
    """Layout of an ErrorResponse; `frame_bytes` excludes cause and channel.

    Fields and their bytes: length of the cause 4, cause (UTF-8), flag 1, channel 16 if the flag is 1. A frame
    with a cause longer than `MAX_CAUSE_BYTES` is refused when its header arrives.
    """

    message_id = 1
    message_type = ErrorResponse
    frame_bytes = HEADER.size + 4 + 1
    _longest_frame = frame_bytes + MAX_CAUSE_BYTES + 16

    def pack(self, message: ErrorResponse) -> bytes:
        """Return the complete frame of `message`.

        Raises:
            LocalProtocolError: if a value is not legal.
        """
        try:
            cause = message.cause.encode()
            if len(cause) > MAX_CAUSE_BYTES:
                raise LocalProtocolError(
                    f"an error's cause of {len(cause)} bytes cannot be sent; at most {MAX_CAUSE_BYTES} "
                    "bytes are allowed"
                )
            channel = b"" if message.channel is None else message.channel.to_bytes(16)
            length = self.frame_bytes + len(cause) + len(channel)
            head = struct.pack(">IIBI", length, MAGIC, self.message_id, len(cause))
        except (struct.error, OverflowError, UnicodeEncodeError) as error:
            raise LocalProtocolError(f"{message!r} cannot be sent: {error}") from None
        return b"".join((head, cause, bytes((bool(channel),)), channel))

    def unpack(self, frame: memoryview) -> ErrorResponse:
        """Decode a complete frame whose header has been checked.

        Raises:
            MalformedFrame: if a value is not legal.
        """
        cause_end = HEADER.size + 4 + int.from_bytes(frame[HEADER.size : HEADER.size + 4])
        flag, channel = frame[cause_end : cause_end + 1], frame[cause_end + 1 :]
        if (bytes(flag), len(channel)) not in ((b"\0", 0), (b"\1", 16)):
            raise MalformedFrame(
                f"the peer sent an ErrorResponse of {len(frame)} bytes whose lengths do not match its "
                "contents"
            )
        try:
            cause = str(frame[HEADER.size + 4 : cause_end], "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedFrame(
                f"the peer sent an ErrorResponse whose cause is not valid UTF-8: {error}"
            ) from None
        return ErrorResponse(cause, int.from_bytes(channel) if channel else None)

    def accepts_length(self, length: int) -> bool:
        """Whether a frame of this message can have `length` bytes."""
        return self.frame_bytes <= length <= self._longest_frame


class ControlLayout:
    """Layout of a ControlPayload: the whole body is the payload."""

    message_id = 113
    message_type = ControlPayload
    frame_bytes = HEADER.size

    def pack(self, message: ControlPayload) -> bytes:
        """Return the complete frame of `message`.

        Raises:
            LocalProtocolError: if the payload is too long.
        """
        try:
            head = HEADER.pack(self.frame_bytes + len(message.payload), MAGIC, self.message_id)
        except struct.error as error:
            raise LocalProtocolError(f"a ControlPayload cannot be sent: {error}") from None
        return head + message.payload

    def unpack(self, frame: memoryview) -> ControlPayload:
        """Decode a complete frame whose header has been checked."""
        return ControlPayload(bytes(frame[self.frame_bytes :]))

    def accepts_length(self, length: int) -> bool:
        """Whether a frame of this message can have `length` bytes."""
        return length >= self.frame_bytes
