"""A link in emulated time: loopback with its small random delays, or a network with latency and bandwidth."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from flowcontrol import BufferResponse, Message

from ..engine.agenda import Agenda, Line
from ..engine.cores import Cores
from ..engine.randomness import Draws, Randomness
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
        "_held_until",
        "_jitter",
        "_last_arrival",
        "_latency",
        "_message",
        "_on_buffer_sent",
        "_seconds_per_byte",
        "_under_way",
        "_waiting",
        "_wire",
        "arrive",
    )

    arrive: Callable[[Message], None]

    def __init__(
        self,
        agenda: Agenda,
        costs: CostModel,
        conditions: LinkConditions,
        jitter: Draws,
        on_buffer_sent: Callable[[], None] | None = None,
    ) -> None:
        self._on_buffer_sent = on_buffer_sent
        self._agenda = agenda
        self._under_way = Line(agenda)
        self._jitter = jitter
        self._message = costs.wire_message_s
        self._wire = costs.wire_s
        self._latency = conditions.latency_s
        self._seconds_per_byte = 1 / costs.wire_rate_bytes_per_s
        if conditions.bandwidth_bytes_per_s is not None:
            self._seconds_per_byte += 1 / conditions.bandwidth_bytes_per_s
        self._free_at = 0.0
        self._held_until = 0.0
        self._waiting: list[tuple[int, Callable[[], None] | None, Message]] = []
        self._cut_until = 0.0
        self._last_arrival = 0.0
        self._finished = False

    def write(self, size: int, written: Callable[[], None] | None, message: Message) -> float | None:
        """Send `message` of `size` encoded bytes; see `netstack.exchange.link.LinkEnd`."""
        if self._finished:
            raise LinkClosedError(
                "emulated link", f"{type(message).__name__} cannot be sent after the last message"
            )
        if self._waiting or self._cut_until > self._agenda.now:
            self._waiting.append((size, written, message))
            if len(self._waiting) == 1:
                self._wait_for_cut()
            return None
        return self._send(size, message)

    def _send(self, size: int, message: Message) -> float:
        jitter = self._jitter
        agenda = self._agenda
        start = self._held_until if self._held_until > agenda.now else agenda.now
        if start < self._free_at:
            start = self._free_at
        self._free_at = left = start + self._message * jitter.draw() + size * self._seconds_per_byte
        arrival = left + self._wire * jitter.draw() + self._latency
        if arrival < self._last_arrival:
            arrival = self._last_arrival
        self._last_arrival = arrival
        if type(message) is BufferResponse:
            if self._on_buffer_sent is not None:
                self._on_buffer_sent()
            if isinstance(message.payload, memoryview):
                # The segment may be reused before its bytes arrive.
                message = replace(message, payload=bytes(message.payload))
        self._under_way.at(arrival, self.arrive, message)
        return left

    def _wait_for_cut(self) -> None:
        if self._cut_until < _NEVER:
            self._agenda.at(self._cut_until, self._end_of_cut)

    def _end_of_cut(self) -> None:
        """Send the messages written during a cut, unless the cut has been extended."""
        if self._cut_until > self._agenda.now:
            self._wait_for_cut()
            return
        waiting, self._waiting = self._waiting, []
        for size, written, message in waiting:
            left = self._send(size, message)
            if written is not None:
                self._agenda.at(left, written)

    def hold_until(self, time: float) -> None:
        """Let messages written from now on leave at `time` or later."""
        if time > self._held_until:
            self._held_until = time

    @property
    def leaves_at(self) -> float:
        """Time at which a message that is written now may leave, in seconds of the run; infinity: never."""
        return max(self._agenda.now, self._held_until, self._cut_until)

    def finish(self) -> None:
        """Allow no further messages."""
        self._finished = True

    def cut(self, until: float | None) -> None:
        """Block the wire until `until`, in seconds of the run; None: for ever.

        Messages written before the cut are in transit and arrive.
        """
        self._cut_until = max(self._cut_until, _NEVER if until is None else until)

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

    __slots__ = ("_agenda", "_incoming", "_outgoing", "after", "finish", "write")

    ready = False

    def __init__(self, agenda: Agenda, outgoing: EmulatedWire, incoming: EmulatedWire) -> None:
        self._agenda = agenda
        self._incoming = incoming
        self._outgoing = outgoing
        self.after = agenda.after
        self.write = outgoing.write  # no method around it, since it runs for each message
        self.finish = outgoing.finish

    @property
    def now(self) -> float:
        """The time of the run."""
        return self._agenda.now

    @property
    def leaves_at(self) -> float:
        """Time at which a message that is written now may leave."""
        return self._outgoing.leaves_at

    def listen(self, receiver: Receiver) -> None:
        """Pass arriving messages to `receiver`."""
        self._incoming.arrive = receiver.receive


def _owe(producers: Cores, consumers: Cores, send_s: float, receive_s: float) -> None:
    producers.owe(send_s)
    consumers.owe(receive_s)


class EmulatedLink:
    """Both directions of an emulated connection, with all its ends, between the task managers of the `pair`
    (producer, consumer). `cores` are those of the pair. Each buffer takes some of their time; None: it takes
    no time.
    """

    def __init__(
        self,
        agenda: Agenda,
        costs: CostModel,
        conditions: LinkConditions,
        randomness: Randomness,
        pair: tuple[str, str],
        cores: tuple[Cores, Cores] | None = None,
    ) -> None:
        onward, back = (
            randomness.jitter("wire to consumer", *pair),
            randomness.jitter("wire to producer", *pair),
        )
        times = costs.network_send_s, costs.network_receive_s
        on_buffer_sent = None if cores is None else partial(_owe, *cores, *times)
        self.to_consumer = EmulatedWire(agenda, costs, conditions, onward, on_buffer_sent)
        self.to_producer = EmulatedWire(agenda, costs, conditions, back)
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
