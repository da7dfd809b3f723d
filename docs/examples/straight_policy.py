"""A debloating policy that meets the target at once: no average, and no threshold for announcements.

Try it on a job with ``PYTHONPATH=docs/examples netstack run FILE --policy straight_policy:Straight``.
"""

from collections.abc import Iterable, Sequence

from flowcontrol import Announcement, DebloatedChannel, DebloatPolicy, to_all


class Straight(DebloatPolicy):
    """The size that meets the target now."""

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Divide what may wait, target * throughput, by the buffers in use."""
        settings = self.settings
        in_use = max(1, sum(channel.buffers_in_use for channel in channels))
        size = int(throughput * settings.target_s / in_use)
        self.last_announced = max(settings.min_size, min(size, settings.max_size))
        self.estimated_time_s = self.last_announced * in_use / max(1, throughput)
        return to_all(self.last_announced, channels)
