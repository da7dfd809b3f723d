"""The interface of a link: one connection between two task managers, shared by all their channels.

A link has two pairs of ends. Messages written at a *producing* end, where the partitions are, arrive at the
*consuming* end of the other task manager, where the gates are, and vice versa::

    producing  -- buffers, backlog ------------>  consuming
               <- requests, credit, sizes -------

Each direction keeps its order. The writer is notified when a message has left, so that its buffer can be
reused. With `emulated_link`, both ends are in one process. With `tcp_link`, each process has one producing
and one consuming end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from flowcontrol import FrameSink, Message


class Receiver(Protocol):
    """Receives arriving messages."""

    def receive(self, message: Message) -> None:
        """Process a message."""
        ...


AnyReceiver = TypeVar("AnyReceiver", contravariant=True)


class LinkEnd(Protocol[AnyReceiver]):
    """One end of a link: writes messages, and passes arriving messages to a receiver.

    Messages leave one after the other. Each arrives exactly once, in the order of writing.
    """

    @property
    def ready(self) -> bool:
        """Whether another message may be written before the earlier ones have left."""
        ...

    @property
    def now(self) -> float:
        """Current time of the clock that `after` uses, in seconds."""
        ...

    @property
    def leaves_at(self) -> float:
        """Time at which a message that is written now may leave, by the same clock. It may change until
        then.
        """
        ...

    def after(self, delay_s: float, work: Callable[[], None]) -> None:
        """Call `work` after `delay_s` seconds, unless the link has ended."""
        ...

    def listen(self, receiver: AnyReceiver) -> None:
        """Pass arriving messages to `receiver`; called once, before any message arrives."""
        ...

    def write(self, size: int, written: Callable[[], None] | None, message: Message) -> float | None:
        """Send `message` of `size` encoded bytes.

        Returns the time at which the bytes have left, or None if it is not known yet. Then `written`, if
        given, is called when they have left. It is not called if the link ends before.

        Raises:
            LinkClosedError: if this end has finished.
        """
        ...

    def finish(self) -> None:
        """Stop writing. Messages written before still leave, and messages of the other end still arrive."""
        ...


ProducingEnd = LinkEnd[Receiver]
"""The end at the partitions, which sends buffers."""

ConsumingEnd = LinkEnd[FrameSink]
"""The end at the gates, which sends credit, sizes and requests.

A link within one process calls `receive` for buffers too, instead of `place` and `landed`.
"""
