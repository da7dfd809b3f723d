"""A link in emulated time: loopback with its small random delays, or a network with latency and bandwidth."""

from __future__ import annotations

import math
from collections.abc import Callable

from flowcontrol import Message

from ..agenda import Agenda
from ..randomness import Randomness
from ..settings.config import CostModel, LinkConditions

_NEVER = math.inf


class EmulatedWire:
    """One direction of an emulated link, as `netstack.exchange.link.Wire` demands.

    A message occupies the wire for ``wire_message * jitter + size / wire_rate + size / bandwidth`` and
    arrives ``wire * jitter + latency`` after it has left, but never before an earlier one: jitter
    delays, it does not reorder. What is written while the wire is `cut` leaves when it is whole again.
    """

    __slots__ = (
        "_agenda",
        "_free_at",
        "_jitter",
        "_last_arrival",
        "_latency",
        "_message",
        "_seconds_per_byte",
        "_wire",
    )

    def __init__(
        self, agenda: Agenda, costs: CostModel, conditions: LinkConditions, randomness: Randomness
    ) -> None:
        self._agenda = agenda
        self._jitter = randomness.jitter
        self._message = costs.wire_message_s
        self._wire = costs.wire_s
        self._latency = conditions.latency_s
        self._seconds_per_byte = 1 / costs.wire_rate_bytes_per_s
        if conditions.bandwidth_bytes_per_s is not None:
            self._seconds_per_byte += 1 / conditions.bandwidth_bytes_per_s
        self._free_at = 0.0
        self._last_arrival = 0.0

    def write(
        self,
        size: int,
        written: Callable[[], None] | None,
        message: Message,
        arrive: Callable[[Message], None],
    ) -> None:
        """Send `message` of `size` encoded bytes; see `netstack.exchange.link.Wire`."""
        jitter = self._jitter
        agenda = self._agenda
        start = self._free_at if self._free_at > agenda.now else agenda.now
        self._free_at = left = start + self._message * jitter() + size * self._seconds_per_byte
        if left == _NEVER:
            return  # cut for good: never leaves, and its buffer stays with whoever wrote it
        arrival = left + self._wire * jitter() + self._latency
        if arrival < self._last_arrival:
            arrival = self._last_arrival
        self._last_arrival = arrival
        if written is not None:
            agenda.at(left, written)
        agenda.at(arrival, arrive, message)

    def cut(self, until: float | None) -> None:
        """Let nothing leave before `until`, in seconds of the run; None: never again.

        What has been written already is under way and arrives.
        """
        self._free_at = _NEVER if until is None else max(self._free_at, until)


class EmulatedLink:
    """Both directions of an emulated connection between two task managers."""

    def __init__(
        self, agenda: Agenda, costs: CostModel, conditions: LinkConditions, randomness: Randomness
    ) -> None:
        self.to_consumer = EmulatedWire(agenda, costs, conditions, randomness)
        self.to_producer = EmulatedWire(agenda, costs, conditions, randomness)

    def cut(self, until: float | None) -> None:
        """Let nothing leave in either direction before `until`, in seconds of the run; None: never again."""
        self.to_consumer.cut(until)
        self.to_producer.cut(until)
