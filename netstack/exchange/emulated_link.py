"""A link in emulated time: loopback with its small random delays, or a network with latency and bandwidth."""

from __future__ import annotations

import math
from collections.abc import Callable

from flowcontrol import BufferResponse, Message

from ..engine.agenda import Agenda, Line
from ..engine.randomness import Randomness
from ..errors import LinkClosedError
from ..scenarios.config import CostModel, LinkConditions
from .link import Receiver

_NEVER = math.inf


class EmulatedWire:
    """One direction of an emulated link; `arrive` is called with each message at its other end.

    A message occupies the wire for ``wire_message * jitter + size / wire_rate + size / bandwidth`` and
    arrives ``wire * jitter + latency`` after it has left, but never before an earlier one: jitter
    delays, it does not reorder. What is written while the wire is `cut` leaves when it is whole again.
    """

    __slots__ = (
        "_agenda",
        "_cut_until",
        "_finished",
        "_free_at",
        "_jitter",
        "_last_arrival",
        "_latency",
        "_message",
        "_seconds_per_byte",
        "_under_way",
        "_wire",
        "arrive",
    )

    arrive: Callable[[Message], None]

    def __init__(
        self, agenda: Agenda, costs: CostModel, conditions: LinkConditions, randomness: Randomness
    ) -> None:
        self._agenda = agenda
        self._under_way = Line(agenda)
        self._jitter = randomness.jitter
        self._message = costs.wire_message_s
        self._wire = costs.wire_s
        self._latency = conditions.latency_s
        self._seconds_per_byte = 1 / costs.wire_rate_bytes_per_s
        if conditions.bandwidth_bytes_per_s is not None:
            self._seconds_per_byte += 1 / conditions.bandwidth_bytes_per_s
        self._free_at = 0.0
        self._cut_until = 0.0
        self._last_arrival = 0.0
        self._finished = False

    def write(self, size: int, written: Callable[[], None] | None, message: Message) -> None:
        """Send `message` of `size` encoded bytes; see `netstack.exchange.link.LinkEnd`."""
        if self._finished:
            raise LinkClosedError("emulated link", f"{type(message).__name__} after the last message")
        jitter = self._jitter
        agenda = self._agenda
        start = self._free_at if self._free_at > agenda.now else agenda.now
        self._free_at = left = start + self._message * jitter() + size * self._seconds_per_byte
        if left == _NEVER:
            return  # cut for good: never leaves, and its buffer stays with its writer
        arrival = left + self._wire * jitter() + self._latency
        if arrival < self._last_arrival:
            arrival = self._last_arrival
        self._last_arrival = arrival
        if written is not None:
            agenda.at(left, written)
        if type(message) is BufferResponse and isinstance(message.payload, memoryview):
            message = _detached(message)
        self._under_way.at(arrival, self.arrive, message)

    def finish(self) -> None:
        """Let nothing more be written."""
        self._finished = True

    def cut(self, until: float | None) -> None:
        """Let nothing leave before `until`, in seconds of the run; None: never again.

        What has been written already is under way and arrives.
        """
        end = _NEVER if until is None else until
        self._free_at = max(self._free_at, end)
        self._cut_until = max(self._cut_until, end)

    def blocked_until(self) -> float:
        """Time at which a message can leave again, in seconds of the run; infinity: never. It may be past."""
        return self._cut_until

    @property
    def messages_under_way(self) -> list[Message]:
        """Messages that were written and have not arrived, in their order, without those that never will."""
        return [message for (message,) in self._under_way.arguments()]

    @property
    def under_way(self) -> int:
        """Messages that were written and have not arrived, but for those that never will."""
        return len(self._under_way)


class EmulatedEnd:
    """Writes to one direction of an emulated link and hears the other; one message leaves at a time."""

    __slots__ = ("_agenda", "_incoming", "after", "finish", "write")

    ready = False

    def __init__(self, agenda: Agenda, outgoing: EmulatedWire, incoming: EmulatedWire) -> None:
        self._agenda = agenda
        self._incoming = incoming
        self.after = agenda.after
        self.write = outgoing.write  # no frame of ours around it: it runs for each message
        self.finish = outgoing.finish

    @property
    def now(self) -> float:
        """The time of the run."""
        return self._agenda.now

    def listen(self, receiver: Receiver) -> None:
        """Hand what arrives here to `receiver`."""
        self._incoming.arrive = receiver.receive


class EmulatedLink:
    """Both directions of an emulated connection between two task managers, with all its ends."""

    def __init__(
        self, agenda: Agenda, costs: CostModel, conditions: LinkConditions, randomness: Randomness
    ) -> None:
        self.to_consumer = EmulatedWire(agenda, costs, conditions, randomness)
        self.to_producer = EmulatedWire(agenda, costs, conditions, randomness)
        self.producing = EmulatedEnd(agenda, self.to_consumer, self.to_producer)
        self.consuming = EmulatedEnd(agenda, self.to_producer, self.to_consumer)

    def cut(self, until: float | None) -> None:
        """Let nothing leave in either direction before `until`, in seconds of the run; None: never again."""
        self.to_consumer.cut(until)
        self.to_producer.cut(until)

    def blocked_until(self) -> float:
        """Time at which messages can leave again both ways, in seconds of the run; infinity: never."""
        return max(self.to_consumer.blocked_until(), self.to_producer.blocked_until())

    @property
    def under_way(self) -> int:
        """Messages that were written at either end and have not arrived at the other."""
        return self.to_consumer.under_way + self.to_producer.under_way


def _detached(message: BufferResponse) -> BufferResponse:
    """The same message with bytes of its own, since the segment may be written again once they left."""
    return BufferResponse(
        message.channel,
        message.subpartition,
        message.sequence_number,
        message.backlog,
        message.data_type,
        message.compressed,
        bytes(message.payload),
    )
