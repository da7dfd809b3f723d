"""FLIP-183 for each channel by itself: a fast channel with a long queue gets smaller buffers than a slow one.

A channel's share of the gate's throughput is its share of the *buffers* polled. By bytes, as Little's law
would have it, sizes would feed back on themselves: channels are polled in turns, so whoever gets larger
buffers gets more of the throughput, and with it still larger buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..debloat import BufferDebloater
from ..debloat_policy import Announcement, DebloatedChannel, DebloatPolicy, DebloatSettings
from .frozen import frozen_counts


class PerChannelPolicy(DebloatPolicy):
    """A moving average, a threshold and a size for each channel.

    A channel's size stays as it is while nothing is polled from it. The count of a channel is not lowered
    while it is blocked for alignment.
    """

    __slots__ = ("_before", "_debloaters", "_polled")

    watches_polls = True

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        settings.debloater()  # settings that contradict each other are refused now
        self._debloaters: dict[int, BufferDebloater] = {}
        self._polled: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def polled(self, channel: int, size: int) -> None:
        """Count a turn of that channel."""
        self._polled[channel] = self._polled.get(channel, 0) + 1

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """One step of each channel that was polled since the last one."""
        polled, self._polled = self._polled, {}
        total = sum(polled.values())
        announced = []
        for place, in_use in enumerate(frozen_counts(channels, self._before)):
            if place in polled:
                size = self._debloater(place).recalculate(throughput * polled[place] // total, in_use)
                if size is not None:
                    announced.append((place, size))
        in_force = [
            debloater for place, debloater in self._debloaters.items() if not channels[place].released
        ]
        self.last_announced = min(
            [debloater.last_announced for debloater in in_force], default=self.last_announced
        )
        self.estimated_time_s = max([debloater.estimated_time_s for debloater in in_force], default=0.0)
        return announced

    def _debloater(self, place: int) -> BufferDebloater:
        if place not in self._debloaters:
            self._debloaters[place] = self.settings.debloater()
        return self._debloaters[place]
