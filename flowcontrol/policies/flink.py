"""Flink's literal policy, FLIP-183: one size for all channels, from the sum of their buffers in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..debloat_policy import Announcement, DebloatedChannel, DebloatPolicy, DebloatSettings, to_all


class FlinkPolicy(DebloatPolicy):
    """FLIP-183 as Flink does it (BufferDebloater), described in the module `flowcontrol.debloat`.

    A policy that only counts otherwise overrides `buffers_in_use`.
    """

    __slots__ = ("_debloater",)

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._debloater = settings.debloater()

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """One step of the moving average; one size for all channels if it has changed enough."""
        debloater = self._debloater
        size = debloater.recalculate(throughput, self.buffers_in_use(channels))
        self.last_announced = debloater.last_announced
        self.estimated_time_s = debloater.estimated_time_s
        return () if size is None else to_all(size, channels)

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """The buffers that the bytes of a target time are divided by."""
        in_use = 0
        for channel in channels:
            in_use += channel.buffers_in_use
        return in_use
