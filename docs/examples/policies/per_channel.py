"""A debloating policy with a moving average, a threshold and a size for each channel.

A fast channel with a long queue gets smaller buffers than a slow channel. A channel's share of the gate's
throughput is its share of the *buffers* polled. A share by bytes, as in Little's law, would amplify itself.
Channels are polled round robin, so a channel with larger buffers would get more of the throughput, and then
still larger buffers.

Try it with ``PYTHONPATH=docs/examples netstack run FILE --policy policies.per_channel:PerChannel``.
"""

from collections.abc import Iterable, Sequence

from flowcontrol import Announcement, BufferDebloater, DebloatedChannel, DebloatPolicy, DebloatSettings

from .longest_channel import frozen_counts


class PerChannel(DebloatPolicy):
    """FLIP-183 for each channel separately.

    A channel's size stays as it is while nothing is polled from it. The count of a channel is not lowered
    while it is blocked for alignment.
    """

    __slots__ = ("_before", "_debloaters", "_polled")

    watches_polls = True

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        settings.debloater()  # raises now if the settings contradict each other
        self._debloaters: dict[int, BufferDebloater] = {}
        self._polled: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def polled(self, channel: int, size: int) -> None:
        """Count one buffer polled from `channel`."""
        self._polled[channel] = self._polled.get(channel, 0) + 1

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step for each channel that was polled since the last recalculation."""
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
