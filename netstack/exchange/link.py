"""The contract of a link: one connection between two task managers, shared by all their channels.

A link has two pairs of ends. What is written at a *producing* end, where partitions are, arrives at the
*consuming* end of the other task manager, where gates are, and the other way round::

    producing  -- buffers, backlog ------------>  consuming
               <- requests, credit, sizes -------

Each direction keeps its order. A writer learns when a message has left, which is when its buffer may be used
again. `emulated_link` has both ends in one process, `tcp_link` one of each in each of two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flowcontrol import FrameSink, Message


class Receiver(Protocol):
    """The recipient of arriving messages."""

    def receive(self, message: Message) -> None:
        """Take a message."""
        ...


class LinkEnd(Protocol):
    """The writing end of one side.

    Messages leave one after the other and arrive in the order in which they were written, each once.
    """

    @property
    def ready(self) -> bool:
        """Whether another message may be written before the earlier ones have left."""
        ...

    @property
    def now(self) -> float:
        """The time by which `after` goes, in seconds."""
        ...

    def after(self, delay_s: float, work: Callable[[], None]) -> None:
        """Do `work` in `delay_s` seconds, unless the link has ended."""
        ...

    def write(self, size: int, written: Callable[[], None] | None, message: Message) -> None:
        """Send `message` of `size` encoded bytes.

        `written`, if there is one, is called later, when its bytes have left; never if the link ends before.

        Raises:
            LinkClosedError: if this end has finished.
        """
        ...

    def finish(self) -> None:
        """Write nothing more; what has been written leaves and arrives, and so does what the other writes."""
        ...


class ProducingEnd(LinkEnd, Protocol):
    """Sends buffers."""

    def listen(self, receiver: Receiver) -> None:
        """Hand what arrives here to `receiver`; to be called once, before anything arrives."""
        ...


class ConsumingEnd(LinkEnd, Protocol):
    """Sends credit, sizes and requests."""

    def listen(self, receiver: FrameSink) -> None:
        """Hand what arrives here to `receiver`; to be called once, before anything arrives.

        A link that has whole messages calls its `receive` with buffers, too.
        """
        ...


class Link(Protocol):
    """A connection from the partitions of one task manager to the gates of another."""

    @property
    def producing(self) -> ProducingEnd:
        """The end of the partitions."""
        ...

    @property
    def consuming(self) -> ConsumingEnd:
        """The end of the gates."""
        ...
