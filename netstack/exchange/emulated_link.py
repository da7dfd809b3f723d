"""A link in emulated time: loopback with its small random delays, or a network with latency and bandwidth."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec.structs import replace

from flowcontrol import BufferResponse, Message

from ..engine.agenda import Agenda, Line
from ..engine.randomness import Randomness
from ..errors import LinkClosedError
from ..scenarios.costs import CostModel, LinkConditions
from .link import Receiver

_NEVER = math.inf


class EmulatedWire:
    """One direction of an emulated link; `arrive` is called with each message at its destination.

    A message occupies the wire for ``wire_message * jitter + size / wire_rate + size / bandwidth``. It
    arrives ``wire * jitter + latency`` after it has left. Jitter does not reorder messages: none arrives
    before an earlier one. A message written while the wire is `cut` leaves after the cut.
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
            raise LinkClosedError(
                "emulated link", f"{type(message).__name__} cannot be sent after the last message"
            )
        jitter = self._jitter
        agenda = self._agenda
        start = self._free_at if self._free_at > agenda.now else agenda.now
        self._free_at = left = start + self._message * jitter() + size * self._seconds_per_byte
        if left == _NEVER:
            return  # cut for good: the message never leaves, and its buffer stays with its writer
        arrival = left + self._wire * jitter() + self._latency
        if arrival < self._last_arrival:
            arrival = self._last_arrival
        self._last_arrival = arrival
        if written is not None:
            agenda.at(left, written)
        if type(message) is BufferResponse and isinstance(message.payload, memoryview):
            # The segment may be reused before its bytes arrive.
            message = replace(message, payload=bytes(message.payload))
        self._under_way.at(arrival, self.arrive, message)

    def finish(self) -> None:
        """Allow no further messages."""
        self._finished = True

    def cut(self, until: float | None) -> None:
        """Block the wire until `until`, in seconds of the run; None: for ever.

        Messages written before the cut are in transit and arrive.
        """
        end = _NEVER if until is None else until
        self._free_at = max(self._free_at, end)
        self._cut_until = max(self._cut_until, end)

    def blocked_until(self) -> float:
        """Return the time when a message can leave again, in seconds of the run, which may be in the past;
        infinity: never.
        """
        return self._cut_until

    @property
    def messages_under_way(self) -> list[Message]:
        """Messages in transit, in order, except messages that will never arrive because of a cut."""
        return [message for (message,) in self._under_way.arguments()]

    @property
    def under_way(self) -> int:
        """Number of messages in transit, except messages that will never arrive because of a cut."""
        return len(self._under_way)


class EmulatedEnd:
    """End that writes to one direction of an emulated link and reads from the other.

    One message leaves at a time.
    """

    __slots__ = ("_agenda", "_incoming", "after", "finish", "write")

    ready = False

    def __init__(self, agenda: Agenda, outgoing: EmulatedWire, incoming: EmulatedWire) -> None:
        self._agenda = agenda
        self._incoming = incoming
        self.after = agenda.after
        self.write = outgoing.write  # no method around it, since it runs for each message
        self.finish = outgoing.finish

    @property
    def now(self) -> float:
        """The time of the run."""
        return self._agenda.now

    def listen(self, receiver: Receiver) -> None:
        """Pass arriving messages to `receiver`."""
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
        """Block both directions until `until`, in seconds of the run; None: for ever."""
        self.to_consumer.cut(until)
        self.to_producer.cut(until)

    def blocked_until(self) -> float:
        """Return the time when both directions are free again, in seconds of the run; infinity: never."""
        return max(self.to_consumer.blocked_until(), self.to_producer.blocked_until())

    @property
    def under_way(self) -> int:
        """Number of messages in transit, in both directions."""
        return self.to_consumer.under_way + self.to_producer.under_way
