"""One channel between the project's own ledgers of credit: a sender with data ready, and a slow reader.

Credit is a promise: so many free buffers wait at the reader. Run it with
``python docs/examples/credit_channel.py``; it prints what the two ends tell each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from buffers import ChannelBuffers, LocalBufferPool, MemorySegment, NetworkBufferPool
from flowcontrol import CreditAnnouncer, CreditLedger

DATA, CREDIT = "data", "credit"

FIRST_MS = 2.0
"""Time at which the sender begins."""


class Message(NamedTuple):
    """Something on its way; times in ms."""

    kind: str
    """`DATA` to the reader or `CREDIT` to the sender."""
    sent_ms: float
    arrives_ms: float
    count: int
    """For data, the buffers that wait behind it; for credit, the buffers that it allows."""
    last: bool = True
    """Whether no other message of its kind follows at once."""


class Channel:
    """A sender and a reader some milliseconds apart, with few buffers; `messages` is what they have said.

    `levels` has the credit of the sender and the buffers with data at the reader, by the time in ms.
    """

    def __init__(
        self,
        *,
        exclusive: int = 2,
        floating: int = 4,
        backlog: int = 14,
        latency_ms: float = 8.0,
        sending_ms: float = 1.0,
        service_ms: float = 9.0,
    ) -> None:
        self.latency_ms, self.sending_ms, self.service_ms = latency_ms, sending_ms, service_ms
        self.backlog = backlog
        self.now = 0.0
        self.messages: list[Message] = []
        self.levels: dict[float, tuple[int, int]] = {}
        memory = NetworkBufferPool(exclusive + floating, 1024)
        pool = LocalBufferPool(memory, floating, floating, floating)
        pool.set_size(floating)
        self._sender = CreditLedger(exclusive)
        self._credit = CreditAnnouncer(exclusive)
        self._buffers = ChannelBuffers(memory.request_unpooled(exclusive), pool, self._credit, self)
        self._queue: deque[tuple[MemorySegment, ChannelBuffers | LocalBufferPool]] = deque()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = count()
        self._sending = self._reading = False
        self._note()
        self._later(FIRST_MS, self._send)

    def run(self, until_ms: float) -> None:
        """Play what happens up to a moment."""
        while self._events and self._events[0][0] <= until_ms:
            self.now, _, action = heappop(self._events)
            action()
            self._note()

    def _later(self, delay_ms: float, action: Callable[[], None]) -> None:
        heappush(self._events, (self.now + delay_ms, next(self._serial), action))

    def _send(self) -> None:
        """Send the next buffer, if there is one, credit for it, and nothing else being sent."""
        if self._sending or not self.backlog or not self._sender.available:
            return
        self._sender.spend()
        self.backlog -= 1
        self._sending = True
        backlog = self.backlog
        self._tell(DATA, backlog, last=not backlog or not self._sender.available)
        self._later(self.latency_ms, lambda: self._arrive(backlog))
        self._later(self.sending_ms, self._sent)

    def _sent(self) -> None:
        self._sending = False
        self._send()

    def _arrive(self, backlog: int) -> None:
        """Put data into a free buffer, and borrow floating ones for the backlog behind it."""
        self._credit.receive()
        taken = self._buffers.take()
        assert taken is not None  # that is what the credit was for
        self._queue.append(taken)
        self._buffers.report_backlog(backlog)
        self._read()

    def _read(self) -> None:
        if not self._reading and self._queue:
            self._reading = True
            self._later(self.service_ms, self._consumed)

    def _consumed(self) -> None:
        """Free a buffer, which becomes credit if it is needed."""
        self._reading = False
        segment, owner = self._queue.popleft()
        owner.recycle(segment)
        self._read()

    def credit_gained(self) -> None:
        """Announce it: as a channel does."""
        self._later(0.0, self._grant)

    def _grant(self) -> None:
        credit = self._credit.take()
        self._tell(CREDIT, credit)
        self._later(self.latency_ms, lambda: self._granted(credit))

    def _granted(self, credit: int) -> None:
        self._sender.grant(credit)
        self._send()

    def _tell(self, kind: str, number: int, *, last: bool = True) -> None:
        self.messages.append(Message(kind, self.now, self.now + self.latency_ms, number, last))

    def _note(self) -> None:
        self.levels[self.now] = (self._sender.available, len(self._queue))


def main() -> None:
    """Print what the two ends of a channel tell each other until all is read."""
    channel = Channel()
    channel.run(1000.0)
    for message in channel.messages:
        arrow = "data ---->" if message.kind == DATA else "<-- credit"
        text = f"{message.count} more wait" if message.kind == DATA else f"{message.count} more free"
        print(f"{message.sent_ms:6.0f} ms  sender {arrow} reader   {text}")


if __name__ == "__main__":
    main()
