"""The contract of a link: one connection between two task managers, shared by all their channels.

A link carries messages in order, in each direction. It tells the writer when a message has left, which
is when its buffer may be used again, and hands it to the other end when it has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flowcontrol import Message


class Wire(Protocol):
    """One direction of a link.

    Messages leave one after the other and arrive in the order in which they were written, each once.
    """

    def write(
        self,
        size: int,
        written: Callable[[], None] | None,
        message: Message,
        arrive: Callable[[Message], None],
    ) -> None:
        """Send `message` of `size` encoded bytes.

        `written`, if there is one, is called when its bytes have left, then `arrive` with the message
        at the other end.
        """
        ...


class Link(Protocol):
    """Both directions of a connection."""

    @property
    def to_consumer(self) -> Wire:
        """Carries buffers."""
        ...

    @property
    def to_producer(self) -> Wire:
        """Carries credit, sizes and requests."""
        ...
