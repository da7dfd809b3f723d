"""How often, and how long, channels with data have had to wait for credit."""

from __future__ import annotations

from collections.abc import Callable

from flowcontrol import ChannelSender


class CreditStalls:
    """Counts and times the stalls of all channels that are shown to it.

    A channel is stalled while data buffers wait in it and its credit is 0. `count`: how often that began.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives the time in seconds."""
        self.count = 0
        self._clock = clock
        self._ended_s = 0.0
        self._since: dict[int, float] = {}

    def update(self, sender: ChannelSender) -> None:
        """Begin or end the stall of a channel, as it stands now."""
        since = self._since
        if sender.credit.available == 0 and sender.view.backlog > 0:
            if sender.channel not in since:
                since[sender.channel] = self._clock()
                self.count += 1
        elif since and (start := since.pop(sender.channel, None)) is not None:
            self._ended_s += self._clock() - start

    @property
    def blocked_s(self) -> float:
        """Seconds spent in stalls so far, added up over the channels."""
        now = self._clock()
        return self._ended_s + sum(now - start for start in self._since.values())
