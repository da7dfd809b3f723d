"""Messages that wait for a socket: headers and payloads where they lie, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

from flowcontrol import BufferResponse, Message, encode_header, payload_bytes

from .pipe import MAX_PARTS

_Part = tuple[bytes | memoryview, Callable[[], None] | None, bool]
"""Bytes, what to call when they have left, and whether they end their message."""


class Outgoing:
    """A queue of encoded messages, which may leave in portions of any size.

    Invariant: `waiting_bytes` is the sum of the queued parts; `sent_bytes` has left.
    """

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self.sent_bytes = 0
        self._parts: deque[_Part] = deque()
        self._mid_message = False

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, message: Message, written: Callable[[], None] | None = None) -> None:
        """Append `message`; the payload of a buffer is not copied, and must stay until `written` is called.

        Raises:
            LocalProtocolError: if it cannot be encoded.
        """
        head = encode_header(message)
        self.waiting_bytes += len(head)
        if type(message) is BufferResponse and len(message.payload):
            self._parts.append((head, None, False))
            self._parts.append((payload_bytes(message), written, True))
            self.waiting_bytes += len(message.payload)
        else:
            self._parts.append((head, written, True))

    def next_parts(self) -> list[bytes | memoryview]:
        """What to send next, at most `MAX_PARTS` pieces."""
        return [data for data, _, _ in islice(self._parts, MAX_PARTS)]

    def left(self, count: int) -> None:
        """Take note that the first `count` bytes that waited have left."""
        self.sent_bytes += count
        self.waiting_bytes -= count
        parts = self._parts
        while count:
            data, written, ends_message = parts.popleft()
            size = len(data)
            if count < size:
                parts.appendleft((memoryview(data)[count:], written, ends_message))
                self._mid_message = True
                return
            count -= size
            self._mid_message = not ends_message
            if written is not None:
                written()

    def drop(self) -> None:
        """Forget all but the rest of a message that has partly left, or the peer would lose its place."""
        begun = list(self._parts) if self._mid_message else []
        self.clear()
        for data, _, ends_message in begun:
            self._parts.append((bytes(data), None, ends_message))
            self.waiting_bytes += len(data)
            if ends_message:
                break

    def clear(self) -> None:
        """Forget everything: nothing will leave any more."""
        self._parts.clear()
        self.waiting_bytes = 0
