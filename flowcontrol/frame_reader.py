"""Reads frames from a socket and places payloads directly in their final memory.

Before each read, `buffers` returns the memory for the next bytes: the rest of the payload that is arriving,
then the *lookahead*, which collects headers and short messages::

    socket --> [ rest of the payload, in the segment reserved by the credit    ][ lookahead ]
                                                                                  header of the next frame

So a stream of full buffers needs one read per buffer. Only the few payload bytes that arrive in the lookahead
together with their header are copied. The module `frames` describes the frames.
"""

from __future__ import annotations

from typing import Protocol

from .frames import DEFAULT_MAX_FRAME_BYTES, AnyLayout, check_header
from .message_layouts import HEADER, ResponseLayout
from .messages import BufferHeader, Message

__all__ = ["FrameReader", "FrameSink"]

LOOKAHEAD_BYTES = 1024
"""Size in bytes of the lookahead for headers and short messages. Payload bytes in it have to be copied."""


_RESPONSE = ResponseLayout()


class FrameSink(Protocol):
    """The recipient of arriving messages, in their order."""

    def place(self, header: BufferHeader) -> memoryview:
        """Return the memory for the payload of an arriving buffer: writable, ``header.size`` 1-byte items.

        Raises:
            RemoteProtocolError: if the peer may not send this buffer.
        """
        ...

    def landed(self, header: BufferHeader) -> None:
        """Process the payload for which `place` was called last. It is now complete."""
        ...

    def receive(self, message: Message) -> None:
        """Handle a message that is not a BufferResponse.

        Raises:
            RemoteProtocolError: if the peer may not send this message.
        """
        ...


class FrameReader:
    """Provides the memory for the next bytes, and passes the messages in them to the sink.

    Invariant: bytes read = bytes passed on + bytes of the incomplete payload or frame + bytes in the
    lookahead. After an error the reader must not be used again, since it cannot find the next frame.
    """

    __slots__ = (
        "_end",
        "_header",
        "_lookahead",
        "_max_frame_bytes",
        "_partial",
        "_rest",
        "_sink",
        "_start",
    )

    def __init__(self, sink: FrameSink, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._sink = sink
        self._max_frame_bytes = max_frame_bytes
        self._lookahead = memoryview(bytearray(LOOKAHEAD_BYTES))
        self._start = self._end = 0
        self._rest: memoryview | None = None
        self._header: BufferHeader | None = None
        self._partial: tuple[AnyLayout, memoryview] | None = None

    @property
    def between_frames(self) -> bool:
        """Whether no frame is incomplete, so the stream may end here."""
        return self._rest is None and self._start == self._end

    def buffers(self) -> list[memoryview]:
        """Return the memory for the next bytes, in the order in which to fill it."""
        free = self._lookahead[self._end :]
        return [free] if self._rest is None else [self._rest, free]

    def advance(self, count: int) -> None:
        """Process `count` bytes, at least 1, that were read into the memory of `buffers`.

        Raises:
            RemoteProtocolError: if the peer broke the protocol; see `frames.check_header` and the sink.
        """
        rest = self._rest
        if rest is not None:
            if count < len(rest):
                self._rest = rest[count:]
                return
            count -= len(rest)
            self._complete()
        self._end += count
        while self._rest is None and self._next_frame():
            pass
        self._compact()

    def _complete(self) -> None:
        """Pass on the payload or frame that is now complete."""
        self._rest = None
        header, partial = self._header, self._partial
        self._header = self._partial = None
        if header is not None:
            self._sink.landed(header)
        elif partial is not None:
            layout, frame = partial
            self._sink.receive(layout.unpack(frame))

    def _next_frame(self) -> bool:
        """Process the next frame in the lookahead; returns False if more bytes have to arrive before."""
        start, end = self._start, self._end
        available = end - start
        if available < HEADER.size:
            return False
        lookahead = self._lookahead
        length, magic, message_id = HEADER.unpack_from(lookahead, start)
        layout = check_header(length, magic, message_id, self._max_frame_bytes)
        if message_id == _RESPONSE.message_id:
            if available < _RESPONSE.frame_bytes:
                return False
            self._begin_buffer(_RESPONSE.unpack_header(lookahead, start), start + _RESPONSE.frame_bytes)
        elif available >= length:
            self._start += length
            self._sink.receive(layout.unpack(lookahead[start : start + length]))
        elif length > LOOKAHEAD_BYTES:
            self._begin_long(layout, length, lookahead[start:end])
        else:
            return False
        return True

    def _begin_buffer(self, header: BufferHeader, start: int) -> None:
        """Copy the payload bytes in the lookahead, which begin at `start`, to their final memory."""
        size, here = header.size, self._end - start
        target = self._sink.place(header)
        if here < size:
            if here:
                target[:here] = self._lookahead[start : self._end]
                target = target[here:]
            self._start = self._end
            self._header, self._rest = header, target
        else:
            target[:] = self._lookahead[start : start + size]
            self._start = start + size
            self._sink.landed(header)

    def _begin_long(self, layout: AnyLayout, length: int, arrived: memoryview) -> None:
        frame = memoryview(bytearray(length))
        frame[: len(arrived)] = arrived
        self._start = self._end
        self._partial = layout, frame
        self._rest = frame[len(arrived) :]

    def _compact(self) -> None:
        """Move the unread bytes of the lookahead to its front."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
        elif start:
            left = bytes(self._lookahead[start:end])
            self._lookahead[: len(left)] = left
            self._start, self._end = 0, len(left)
